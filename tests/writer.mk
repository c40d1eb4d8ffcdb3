# SPDX-License-Identifier: MIT
# make check-sweep          fs_write, killed and failing at every system call
# make check-install        the installed library, as C and C++ programmers use it
# make bench-write          2 GiB from one file to another, against cp && sync

WRITE_ONE := $(BUILD)/tests/helpers/write_one

$(WRITE_ONE): $(BUILD)/obj/tests/helpers/write_one.o $(BUILD)/libsafetensors.a
	@mkdir -p $(@D)
	@$(CC) $(ALL_LDFLAGS) $^ $(LIBS) -o $@

.PHONY: check-sweep
check-sweep: $(WRITE_ONE)
	@python3 -B tests/sweep_write.py $(WRITE_ONE)

.PHONY: check-install
check-install:
	@MAKE='$(MAKE)' CC='$(CC)' BUILD='$(BUILD)' python3 -B tests/install_test.py

.PHONY: bench-write
bench-write: $(BUILD)/tests/helpers/write_one
	@python3 -B tests/bench/write.py $(WRITE_ONE)
