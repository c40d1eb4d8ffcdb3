# SPDX-License-Identifier: MIT
# make interop               both of what follows, in a Debian 13 root (as root; it is made in INTEROP_ROOT, and kept)
# make interop-torch         checkpoints made by real PyTorch, against the mount
# make interop-safetensors   random models, written and read by us and by the format's reference implementation, and damaged
#                            headers, refused by both or by neither
# SEED=N, NUMBER=N           others than the usual ones

INTEROP_ROOT ?= /var/tmp/safetensors-interop
INTEROP_MODELS := $(BUILD)/tests/interop/safetensors/models

$(INTEROP_MODELS): $(BUILD)/obj/tests/interop/safetensors/models.o $(BUILD)/libsafetensors.a
	@mkdir -p $(@D)
	@$(CC) $(ALL_LDFLAGS) $^ $(LIBS) -o $@

.PHONY: interop interop-torch interop-safetensors
interop: interop-torch interop-safetensors

interop-torch: $(BUILD)/mount.safetensors
	@! tests/interop/root.sh '$(INTEROP_ROOT)' || \
		tests/interop/torch/run.sh $(BUILD)/mount.safetensors '$(INTEROP_ROOT)' $(or $(NUMBER),500) $(or $(SEED),1)

interop-safetensors: $(INTEROP_MODELS) $(BUILD)/fsck.safetensors
	@! tests/interop/root.sh '$(INTEROP_ROOT)' || { \
		python3 -B tests/interop/safetensors/run.py $(INTEROP_MODELS) '$(INTEROP_ROOT)' && \
		python3 -B tests/interop/safetensors/verdicts.py $(BUILD)/fsck.safetensors '$(INTEROP_ROOT)'; }
