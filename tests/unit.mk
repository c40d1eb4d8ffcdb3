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
