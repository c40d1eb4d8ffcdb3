# SPDX-License-Identifier: MIT
# make check-unit   unit tests; with BUILD=build-asan SAN=address,undefined under the sanitizers
# make fuzz         each fuzz target for FUZZ_SECONDS, by clang
# make lint         formatting and static analysis

CHECK_CFLAGS = $(shell $(PKG_CONFIG) --cflags check libcrypto)
UNIT_LIBS = $(shell $(PKG_CONFIG) --libs check libcrypto) $(CJSON_LIBS) $(FUSE_LIBS) $(LIBS)
UNIT := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/*_test.c))
UNIT_DEPS = $(BUILD)/obj/tests/unit/support.o $(BUILD)/obj/tests/unit/place.o $(BUILD)/obj/fsd.a $(BUILD)/libsafetensors.a

$(BUILD)/obj/tests/unit/%.o: ALL_CFLAGS += $(CHECK_CFLAGS)

$(BUILD)/tests/%_test: $(BUILD)/obj/tests/unit/%_test.o $(UNIT_DEPS)
	@mkdir -p $(@D)
	@$(CC) $(ALL_LDFLAGS) $(UNIT_LDFLAGS) $^ $(UNIT_LIBS) -o $@

# In this program every allocation can be made to fail.
$(BUILD)/tests/memory_test: UNIT_LDFLAGS = -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=strdup

.SECONDARY: $(BUILD)/obj/tests/unit/support.o $(BUILD)/obj/tests/unit/place.o $(UNIT:$(BUILD)/tests/%=$(BUILD)/obj/tests/unit/%.o)

.PHONY: check-unit
check-unit: $(UNIT)
	@failed=; for t in $(UNIT); do $$t || failed="$$failed $$t"; done; \
	 if [ -n "$$failed" ]; then echo "FAILED:$$failed"; exit 1; fi

FUZZ_SECONDS ?= 60
FUZZ_CC ?= clang
FUZZ_NAMES := $(patsubst tests/fuzz/%_fuzz.c,%,$(wildcard tests/fuzz/*_fuzz.c))
FUZZ_RUN := $(FUZZ_NAMES:%=fuzz-run-%)

# The objects need coverage but no main: hence a build of their own, by this same Makefile.
.PHONY: fuzz fuzz-build fuzz-targets $(FUZZ_RUN)
fuzz: $(FUZZ_RUN)

fuzz-build:
	@$(MAKE) --no-print-directory BUILD=build-fuzz CC=$(FUZZ_CC) SAN=fuzzer-no-link,address,undefined fuzz-targets

fuzz-targets: $(FUZZ_NAMES:%=$(BUILD)/%_fuzz)

.SECONDARY: $(FUZZ_NAMES:%=$(BUILD)/obj/tests/fuzz/%_fuzz.o)

$(BUILD)/%_fuzz: $(BUILD)/obj/tests/fuzz/%_fuzz.o $(BUILD)/obj/fsd.a $(BUILD)/libsafetensors.a
	@$(CC) -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all $^ $(FUSE_LIBS) $(LIBS) -o $@

# First what was found before, then anew, from the seeds and what earlier runs made of them.
$(FUZZ_RUN): fuzz-run-%: fuzz-build
	@mkdir -p build-fuzz/corpus/$* build-fuzz/artifacts/$*
	@tests/fuzz/seeds.sh $* build-fuzz/seeds/$*
	@echo "fuzz $*"; dir=tests/fuzz/regress/$*; set -- $$dir/*; \
	 if [ -e "$$1" ]; then build-fuzz/$*_fuzz "$$@" >build-fuzz/$*.log 2>&1 || \
		{ tail -40 build-fuzz/$*.log; exit 1; }; fi
	@build-fuzz/$*_fuzz -max_total_time=$(FUZZ_SECONDS) -rss_limit_mb=2048 -timeout=20 -max_len=20000 -print_final_stats=1 \
		-artifact_prefix=build-fuzz/artifacts/$*/ build-fuzz/corpus/$* build-fuzz/seeds/$* \
		>build-fuzz/$*.log 2>&1 || { tail -60 build-fuzz/$*.log; exit 1; }
	@grep -E 'number_of_executed_units|average_exec_per_sec|new_units_added' build-fuzz/$*.log

# Not every finding is one: what is left out here says why.
#   clang --analyze sees one file at a time, so that it takes "0" from another file for possible where only an error comes
#                   from it, and what the other file sets for unset: the checkers that stumble over that are off (gcc's
#                   -Wmaybe-uninitialized, the sanitizers and the fuzzers look at the same)
#   cppcheck        takes functions of the public API and of tests as unused, and Check's macros as unknown
ANALYZE := $(patsubst %,-Xclang -analyzer-disable-checker -Xclang %,core.NullDereference core.NonNullParamChecker \
	core.CallAndMessage core.UndefinedBinaryOperatorResult core.uninitialized.Assign core.uninitialized.Branch \
	core.uninitialized.UndefReturn core.uninitialized.ArraySubscript unix.cstring.NullArg)
LINT_C := $(wildcard lib/*.c fsd/*.c)
.PHONY: lint
lint:
	clang-format --dry-run -Werror $(wildcard lib/*.[ch] lib/safetensors/*.h fsd/*.[ch] tests/unit/*.[ch] tests/fuzz/*.[ch])
	cppcheck --quiet --std=c11 --error-exitcode=1 --enable=warning,performance,portability --inline-suppr \
		--suppress=missingIncludeSystem -D_GNU_SOURCE -DVERSION='""' -Ilib -Ifsd lib fsd
	@for f in $(LINT_C); do echo "  ANALYZE $$f"; \
	 clang --analyze --analyzer-output text -Xclang -analyzer-werror $(ANALYZE) $(CSTD) -DVERSION='""' -Ilib -Ifsd \
		$(FUSE_CFLAGS) $$f || exit 1; done
