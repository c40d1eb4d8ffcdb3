# SPDX-License-Identifier: MIT
# make bench              measures against other file systems, and against the targets, in one table
# make bench ROWS="1 4"   only these rows (numbers, or words of their text); REPEAT=N repetitions (5)
# REFERENCE_ROOT=DIR      a system root (Debian 13) with python3-safetensors and python3-numpy, where this system has
#                         no safetensors package
# Needs, where rows are not to be skipped: fuse-zip squashfuse squashfs-tools fuse3 util-linux

BENCH_PYTHON ?= python3
BENCH_READER := $(BUILD)/tests/bench/reader

$(BENCH_READER): tests/bench/reader.c
	@mkdir -p $(@D)
	@echo "  CC $<"; $(CC) $(ALL_CFLAGS) $< $(ALL_LDFLAGS) -lpthread -o $@

.PHONY: bench
bench: $(BUILD)/mount.safetensors $(BENCH_READER)
	@BUILD='$(BUILD)' ROWS='$(ROWS)' REPEAT='$(REPEAT)' REFERENCE_ROOT='$(REFERENCE_ROOT)' \
		$(BENCH_PYTHON) -B tests/bench/bench.py
