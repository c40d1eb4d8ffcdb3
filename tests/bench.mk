# SPDX-License-Identifier: MIT
# make bench              measures what doc/ promises, against other file systems, in one table
# make bench ROWS="1 4"   only these rows (numbers, or words of their text); REPEAT=N repetitions (5)
# REFERENCE_ROOT=DIR      a system root whose python3 has the safetensors package, where this system's has not

BENCH_PYTHON ?= python3
BENCH_READER := $(BUILD)/tests/bench/reader

$(BENCH_READER): tests/bench/reader.c
	@mkdir -p $(@D)
	@echo "  CC $<"; $(CC) $(ALL_CFLAGS) $< $(ALL_LDFLAGS) -lpthread -o $@

.PHONY: bench
bench: $(BUILD)/mount.safetensors $(BENCH_READER)
	@BUILD='$(BUILD)' ROWS='$(ROWS)' REPEAT='$(REPEAT)' REFERENCE_ROOT='$(REFERENCE_ROOT)' \
		$(BENCH_PYTHON) -B tests/bench/bench.py
