# SPDX-License-Identifier: MIT
# make interop   checkpoints made by real PyTorch, in a chroot of Debian 13, against the mount (root; says so if it cannot)

INTEROP_COUNT ?= 500
INTEROP_SEED ?= 1

.PHONY: interop
interop: $(BUILD)/mount.safetensors
	tests/interop/run.sh $(BUILD)/mount.safetensors $(INTEROP_COUNT) $(INTEROP_SEED)
