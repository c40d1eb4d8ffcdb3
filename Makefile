# SPDX-License-Identifier: MIT
# make           builds everything into build/ (needs pkg-config, libfuse3-dev, libcjson-dev, zlib1g-dev)
# make mount     installs what is missing, builds, mounts a sample or MODEL=... at MNT=...
# make check     installs what is missing, builds, runs all tests
# make help      says the rest

VERSION := 0.1.0
BUILD ?= build
PREFIX ?= /usr/local
SAN ?=
CC ?= cc
AR ?= ar
PKG_CONFIG ?= pkg-config

CSTD := -std=c11 -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64
WARN := -Wall -Wextra -Wshadow -Wconversion -Wpedantic -Wformat=2 -Wstrict-prototypes -Wmissing-prototypes \
	-Wpointer-arith -Wcast-align -Wundef -Wvla -Werror
ifneq ($(SAN),)
HARDEN := -fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer
else
HARDEN := -D_FORTIFY_SOURCE=2 -fstack-protector-strong
endif
CFLAGS ?= -O2 -g
ALL_CFLAGS = $(CSTD) $(WARN) $(HARDEN) -fPIC -fvisibility=hidden -DVERSION='"$(VERSION)"' -Ilib -Ifsd $(CFLAGS)
ALL_LDFLAGS = $(HARDEN) -Wl,-z,relro,-z,now $(LDFLAGS)

FUSE_CFLAGS = $(shell $(PKG_CONFIG) --cflags fuse3)
FUSE_LIBS = $(shell $(PKG_CONFIG) --libs fuse3)
CJSON_LIBS = $(shell $(PKG_CONFIG) --libs libcjson)
LIBS = $(shell $(PKG_CONFIG) --libs zlib) -lpthread -lm

LIB_SRC := $(wildcard lib/*.c)
MAINS := fsd/mount.c fsd/fsck.c
FSD_SRC := $(filter-out $(MAINS),$(wildcard fsd/*.c))
FSD_FUSE := fsd/ops.c
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/obj/%.o)
FSD_OBJ := $(FSD_SRC:%.c=$(BUILD)/obj/%.o)
COMMANDS := $(BUILD)/mount.safetensors $(BUILD)/fsck.safetensors

.PHONY: all
all: $(COMMANDS)

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC $<"; $(CC) $(ALL_CFLAGS) $(FUSE_CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/libsafetensors.a: $(LIB_OBJ)
	@rm -f $@
	@$(AR) rcs $@ $^

$(BUILD)/obj/fsd.a: $(FSD_OBJ)
	@rm -f $@
	@$(AR) rcs $@ $^

$(BUILD)/mount.safetensors: $(BUILD)/obj/fsd/mount.o $(BUILD)/obj/fsd.a $(BUILD)/libsafetensors.a
	@echo "  LD $@"; $(CC) $(ALL_LDFLAGS) $^ $(FUSE_LIBS) $(LIBS) -o $@

$(BUILD)/fsck.safetensors: $(BUILD)/obj/fsd/fsck.o $(BUILD)/obj/fsd.a $(BUILD)/libsafetensors.a
	@echo "  LD $@"; $(CC) $(ALL_LDFLAGS) $^ $(CJSON_LIBS) $(LIBS) -o $@

# Tests, fuzz targets and benchmarks: each kind brings its own rules.
include $(wildcard tests/*.mk)

.PHONY: clean
clean:
	rm -rf build build-*

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
