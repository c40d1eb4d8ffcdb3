# SPDX-License-Identifier: MIT
# make           builds everything into build/
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

# As a system header: that of libfuse 3.17 is not pedantic.
FUSE_CFLAGS = $(patsubst -I%,-isystem %,$(shell $(PKG_CONFIG) --cflags fuse3))
FUSE_LIBS = $(shell $(PKG_CONFIG) --libs fuse3)
CJSON_LIBS = $(shell $(PKG_CONFIG) --libs libcjson)
LIBS = -lpthread -lm

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

# Everything for who wants to see it work.
MODEL ?= tests/sample.safetensors
MNT ?=
.PHONY: mount
mount:
	@tests/deps.sh build
	@$(MAKE) --no-print-directory -s all
	@tests/try.sh '$(BUILD)' '$(MODEL)' $(if $(MNT),'$(MNT)')

# All tests: the targets check-* of tests/*.mk, each by itself also runnable.
CHECKS = $(sort $(filter check-unit check-mounts,$(shell sed -n 's/^\(check-[a-z]*\):.*/\1/p' tests/*.mk)))
.PHONY: check
check:
	@tests/deps.sh build test
	@$(MAKE) --no-print-directory -s all
	+@tests/check.sh $(foreach c,$(CHECKS),'$(MAKE) --no-print-directory $(c)')

# Commands, their manual and the unit. The library installs itself below.
SBINDIR ?= $(PREFIX)/sbin
MANDIR ?= $(PREFIX)/share/man
UNITDIR ?= $(PREFIX)/lib/systemd/system
INSTALL ?= install
.PHONY: install install-commands
install: install-commands
install-commands: $(COMMANDS)
	$(INSTALL) -d '$(DESTDIR)$(SBINDIR)' '$(DESTDIR)$(MANDIR)/man5' '$(DESTDIR)$(MANDIR)/man8' '$(DESTDIR)$(UNITDIR)'
	$(INSTALL) -m 755 $(COMMANDS) '$(DESTDIR)$(SBINDIR)'
	ln -sf mount.safetensors '$(DESTDIR)$(SBINDIR)/mount.fuse.safetensors'
	$(INSTALL) -m 644 fsd/*.5 '$(DESTDIR)$(MANDIR)/man5'
	$(INSTALL) -m 644 fsd/*.8 '$(DESTDIR)$(MANDIR)/man8'
	ln -sf mount.safetensors.8 '$(DESTDIR)$(MANDIR)/man8/mount.fuse.safetensors.8'
	sed 's|@SBINDIR@|$(SBINDIR)|' systemd/safetensors@.service >'$(DESTDIR)$(UNITDIR)/safetensors@.service'

.PHONY: help
help:
	@echo 'make                          build into $$(BUILD) ($(BUILD))'
	@echo 'make mount [MODEL=F] [MNT=D]  install what is missing, build, mount F (a small sample) at D'
	@echo 'make check                    install what is missing, build, run all tests:'
	@echo '                              $(CHECKS), which also run by themselves'
	@echo 'make install [PREFIX=/usr/local] [DESTDIR=]   commands, manual pages, systemd unit'
	@echo 'make clean                    remove build/ and build-*/'
	@echo 'Variables: BUILD=DIR CC=COMPILER CFLAGS= SAN=address,undefined'

# Tests, fuzz targets and benchmarks: each kind brings its own rules.
include $(wildcard tests/*.mk)

.PHONY: clean
clean:
	rm -rf build build-*

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
