# SPDX-License-Identifier: MIT
# make bench-thin   a model directory of 8 GiB in 64 shards, mounted, and its archive copied; SHARD=N MiB each (128)
.PHONY: bench-thin
bench-thin: all
	@STBIN='$(abspath $(STBIN))' /usr/bin/python3 -B tests/bench/thin.py
