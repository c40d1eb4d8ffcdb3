# SPDX-License-Identifier: MIT
# make interop-safetensors            random models, written and read by us and by the format's reference implementation
# make interop-safetensors ROOT=DIR   in that Debian root with python3-safetensors and python3-numpy; else one is made

INTEROP_MODELS := $(BUILD)/tests/interop/safetensors/models

$(INTEROP_MODELS): $(BUILD)/obj/tests/interop/safetensors/models.o $(BUILD)/libsafetensors.a
	@mkdir -p $(@D)
	@$(CC) $(ALL_LDFLAGS) $^ $(LIBS) -o $@

.PHONY: interop-safetensors
interop-safetensors: $(INTEROP_MODELS)
	@python3 -B tests/interop/safetensors/run.py $(INTEROP_MODELS) '$(or $(ROOT),$(BUILD)/roots/trixie-safetensors)'
