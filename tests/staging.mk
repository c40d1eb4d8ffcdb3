# SPDX-License-Identifier: MIT
# make check-staging [TESTS="test_rules test_random"]    staged models, on real mounts
# STAGING_STEPS=N  steps of the random test; STAGING_SEEDS="1 2 3"; STAGING_TENSORS=N of the large model;
# STAGING_KILLS=N  how many moments of a system call are tried in the sweeps (0: all)
# make bench-stage  a model of 2 GiB changed and written anew, against cp && sync of what is kept
.PHONY: check-staging
check-staging: all
	@STBIN='$(abspath $(STBIN))' /usr/bin/python3 -B tests/staging/run.py $(TESTS)

.PHONY: bench-stage
bench-stage: all
	@STBIN='$(abspath $(STBIN))' /usr/bin/python3 -B tests/bench/stage.py
