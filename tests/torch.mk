# SPDX-License-Identifier: MIT
# make check-torch   the tests of the PyTorch reader (needs check, libcjson-dev, libssl-dev, zlib1g-dev)

TORCH_TESTS := $(patsubst tests/unit/%.c,$(BUILD)/torch-tests/%,$(wildcard tests/unit/*_torch_test.c))
TORCH_CFLAGS = $(shell $(PKG_CONFIG) --cflags check libcrypto)
TORCH_LIBS = $(shell $(PKG_CONFIG) --libs check libcrypto) $(CJSON_LIBS) $(LIBS)

$(BUILD)/torch-tests/%: tests/unit/%.c $(BUILD)/libsafetensors.a tests/zip_make.h
	@mkdir -p $(@D)
	@echo "  CC $<"; $(CC) $(ALL_CFLAGS) $(TORCH_CFLAGS) $< $(BUILD)/libsafetensors.a $(ALL_LDFLAGS) $(TORCH_LIBS) -o $@

.PHONY: check-torch
check-torch: $(TORCH_TESTS)
	@failed=; for t in $(TORCH_TESTS); do $$t || failed="$$failed $$t"; done; \
	 if [ -n "$$failed" ]; then echo "FAILED:$$failed"; exit 1; fi
