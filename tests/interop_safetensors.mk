# SPDX-License-Identifier: MIT
# make interop-safetensors            random models, written and read by us and by the format's reference implementation, and
#                                     damaged headers, refused by both or by neither
# make interop-safetensors ROOT=DIR   in that Debian root with python3-safetensors and python3-numpy; else one is made

INTEROP_MODELS := $(BUILD)/tests/interop/safetensors/models

$(INTEROP_MODELS): $(BUILD)/obj/tests/interop/safetensors/models.o $(BUILD)/libsafetensors.a
	@mkdir -p $(@D)
	@$(CC) $(ALL_LDFLAGS) $^ $(LIBS) -o $@

INTEROP_ROOT_HERE = $(or $(ROOT),$(BUILD)/roots/trixie-safetensors)

.PHONY: interop-safetensors
interop-safetensors: $(INTEROP_MODELS) $(BUILD)/fsck.safetensors
	@python3 -B tests/interop/safetensors/run.py $(INTEROP_MODELS) '$(INTEROP_ROOT_HERE)'
	@python3 -B tests/interop/safetensors/verdicts.py $(BUILD)/fsck.safetensors '$(INTEROP_ROOT_HERE)'
