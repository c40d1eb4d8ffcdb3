# SPDX-License-Identifier: MIT
# Tests of real mounts. They drive the commands in $(STBIN), with Debian's own Python and NumPy.
STBIN ?= $(BUILD)
.PHONY: check-mounts
check-mounts: all
	@STBIN='$(abspath $(STBIN))' /usr/bin/python3 -B tests/mount/run.py $(TESTS)
