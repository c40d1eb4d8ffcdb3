# SPDX-License-Identifier: MIT
# Until the general rules for unit tests and fuzz targets are here, those for what belongs to this part.
ifeq ($(wildcard tests/unit.mk),)
THIN_TESTS := $(patsubst tests/unit/%.c,$(BUILD)/tests/%,$(wildcard tests/unit/*_test.c))
THIN_FUZZ := thin jtree config

$(BUILD)/tests/%_test: tests/unit/%_test.c $(BUILD)/obj/fsd.a $(BUILD)/libsafetensors.a
	@mkdir -p $(@D)
	@$(CC) $(ALL_CFLAGS) $(ALL_LDFLAGS) $(shell $(PKG_CONFIG) --cflags check) $^ $(shell $(PKG_CONFIG) --libs check) \
		$(CJSON_LIBS) $(LIBS) -o $@

.PHONY: check-thin
check-thin: $(THIN_TESTS)
	@for t in $(THIN_TESTS); do $$t || exit 1; done

.PHONY: fuzz-thin
fuzz-thin:
	@$(MAKE) BUILD=build-fuzz CC=clang SAN=fuzzer-no-link,address,undefined $(THIN_FUZZ:%=build-fuzz/%_fuzz)

$(BUILD)/%_fuzz: tests/fuzz/%_fuzz.c $(BUILD)/libsafetensors.a
	@$(CC) $(ALL_CFLAGS) -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=all $^ $(LIBS) -o $@
endif
