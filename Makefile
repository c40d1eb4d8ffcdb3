# SPDX-License-Identifier: MIT
# make           builds everything into build/ (needs pkg-config, libfuse3-dev, libcjson-dev, zlib1g-dev)
# make mount     installs what is missing, builds, mounts a sample or MODEL=... at MNT=...
# make check     installs what is missing, builds, runs all tests
# make help      says the rest

VERSION := 0.1.0
BUILD ?= build
SOVERSION := 0
PREFIX ?= /usr/local
DESTDIR ?=
LIBDIR ?= $(PREFIX)/lib
INCLUDEDIR ?= $(PREFIX)/include
SAN ?=
CC ?= cc
AR ?= ar
OBJCOPY ?= objcopy
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
ALL_CFLAGS = $(CSTD) $(WARN) $(HARDEN) -fPIC -DVERSION='"$(VERSION)"' -Ilib -Ifsd $(CFLAGS)
ALL_LDFLAGS = $(HARDEN) -Wl,-z,relro,-z,now $(LDFLAGS)

# As a system header: that of libfuse 3.17 is not pedantic.
FUSE_CFLAGS = $(patsubst -I%,-isystem %,$(shell $(PKG_CONFIG) --cflags fuse3))
FUSE_LIBS = $(shell $(PKG_CONFIG) --libs fuse3)
CJSON_LIBS = $(shell $(PKG_CONFIG) --libs libcjson)
LIBS = $(shell $(PKG_CONFIG) --libs zlib) -lpthread -lm

LIB_SRC := $(wildcard lib/*.c)
MAINS := fsd/mount.c fsd/fsck.c fsd/convert.c
FSD_SRC := $(filter-out $(MAINS),$(wildcard fsd/*.c))
FSD_FUSE := fsd/ops.c
LIB_OBJ := $(LIB_SRC:%.c=$(BUILD)/obj/%.o)
FSD_OBJ := $(FSD_SRC:%.c=$(BUILD)/obj/%.o)
COMMANDS := $(BUILD)/mount.safetensors $(BUILD)/fsck.safetensors $(BUILD)/safetensors-convert

SHARED := $(BUILD)/libsafetensors.so.$(SOVERSION)
# For others to link: like the shared library it defines fs_ and tm_ only. libsafetensors.a is for our own commands, which use
# the library's inside.
STATIC := $(BUILD)/install/libsafetensors.a

.PHONY: all
all: $(COMMANDS) $(SHARED) $(STATIC)

$(BUILD)/obj/%.o: %.c Makefile
	@mkdir -p $(@D)
	@echo "  CC $<"; $(CC) $(ALL_CFLAGS) $(FUSE_CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/libsafetensors.a: $(LIB_OBJ)
	@rm -f $@
	@$(AR) rcs $@ $^

$(SHARED): $(LIB_OBJ) lib/libsafetensors.map
	@echo "  LD $@"; $(CC) -shared $(ALL_LDFLAGS) -Wl,-soname,$(@F) -Wl,--version-script=lib/libsafetensors.map \
		$(LIB_OBJ) $(LIBS) -o $@
	@ln -sf $(@F) $(BUILD)/libsafetensors.so

$(STATIC): $(LIB_OBJ)
	@mkdir -p $(@D); rm -f $@
	@$(LD) -r $(LIB_OBJ) -o $(@D)/safetensors.o
	@$(OBJCOPY) --wildcard --keep-global-symbol='fs_*' --keep-global-symbol='tm_*' $(@D)/safetensors.o
	@$(AR) rcs $@ $(@D)/safetensors.o

$(BUILD)/obj/fsd.a: $(FSD_OBJ)
	@rm -f $@
	@$(AR) rcs $@ $^

$(BUILD)/mount.safetensors: $(BUILD)/obj/fsd/mount.o $(BUILD)/obj/fsd.a $(BUILD)/libsafetensors.a
	@echo "  LD $@"; $(CC) $(ALL_LDFLAGS) $^ $(FUSE_LIBS) $(LIBS) -o $@

$(BUILD)/fsck.safetensors: $(BUILD)/obj/fsd/fsck.o $(BUILD)/obj/fsd.a $(BUILD)/libsafetensors.a
	@echo "  LD $@"; $(CC) $(ALL_LDFLAGS) $^ $(CJSON_LIBS) $(LIBS) -o $@

$(BUILD)/safetensors-convert: $(BUILD)/obj/fsd/convert.o $(BUILD)/obj/fsd.a $(BUILD)/libsafetensors.a
	@echo "  LD $@"; $(CC) $(ALL_LDFLAGS) $^ $(LIBS) -o $@

# Everything for who wants to see it work.
MODEL ?= tests/sample.safetensors
MNT ?=
.PHONY: mount
mount:
	@tests/deps.sh build
	@$(MAKE) --no-print-directory -s all
	@tests/try.sh '$(BUILD)' '$(MODEL)' $(if $(MNT),'$(MNT)')

# All tests: the targets check-* of tests/*.mk, each by itself also runnable.
CHECKS = $(sort $(shell sed -n 's/^\(check-[a-z]*\):.*/\1/p' tests/*.mk))
.PHONY: check
check:
	@tests/deps.sh build test
	@$(MAKE) --no-print-directory -s all
	+@tests/check.sh $(foreach c,$(CHECKS),'$(MAKE) --no-print-directory $(c)')

# Commands, their manual and the unit; the library follows.
BINDIR ?= $(PREFIX)/bin
SBINDIR ?= $(PREFIX)/sbin
MANDIR ?= $(PREFIX)/share/man
UNITDIR ?= $(PREFIX)/lib/systemd/system
INSTALL ?= install
.PHONY: install install-commands
install: install-commands install-lib
install-commands: $(COMMANDS)
	$(INSTALL) -d '$(DESTDIR)$(BINDIR)' '$(DESTDIR)$(SBINDIR)' '$(DESTDIR)$(UNITDIR)'
	$(INSTALL) -d '$(DESTDIR)$(MANDIR)/man1' '$(DESTDIR)$(MANDIR)/man5' '$(DESTDIR)$(MANDIR)/man8'
	$(INSTALL) -m 755 $(filter %/safetensors-convert,$(COMMANDS)) '$(DESTDIR)$(BINDIR)'
	$(INSTALL) -m 755 $(filter-out %/safetensors-convert,$(COMMANDS)) '$(DESTDIR)$(SBINDIR)'
	ln -sf mount.safetensors '$(DESTDIR)$(SBINDIR)/mount.fuse.safetensors'
	$(INSTALL) -m 644 fsd/*.1 '$(DESTDIR)$(MANDIR)/man1'
	$(INSTALL) -m 644 fsd/*.5 '$(DESTDIR)$(MANDIR)/man5'
	$(INSTALL) -m 644 fsd/*.8 '$(DESTDIR)$(MANDIR)/man8'
	ln -sf mount.safetensors.8 '$(DESTDIR)$(MANDIR)/man8/mount.fuse.safetensors.8'
	sed 's|@SBINDIR@|$(SBINDIR)|' systemd/safetensors@.service >'$(DESTDIR)$(UNITDIR)/safetensors@.service'

# The library, for C programmers.
.PHONY: install-lib
install-lib: $(SHARED) $(STATIC)
	$(INSTALL) -d $(DESTDIR)$(LIBDIR)/pkgconfig $(DESTDIR)$(INCLUDEDIR)/safetensors
	$(INSTALL) -m 644 lib/safetensors/safetensors.h lib/safetensors/tensor.h lib/safetensors/thin.h $(DESTDIR)$(INCLUDEDIR)/safetensors/
	$(INSTALL) -m 644 $(STATIC) $(DESTDIR)$(LIBDIR)/
	$(INSTALL) -m 755 $(SHARED) $(DESTDIR)$(LIBDIR)/libsafetensors.so.$(VERSION)
	ln -sf libsafetensors.so.$(VERSION) $(DESTDIR)$(LIBDIR)/libsafetensors.so.$(SOVERSION)
	ln -sf libsafetensors.so.$(SOVERSION) $(DESTDIR)$(LIBDIR)/libsafetensors.so
	$(INSTALL) -d $(DESTDIR)$(MANDIR)/man3
	$(INSTALL) -m 644 lib/*.3 $(DESTDIR)$(MANDIR)/man3
	sed 's|@PREFIX@|$(PREFIX)|; s|@LIBDIR@|$(LIBDIR)|; s|@VERSION@|$(VERSION)|' lib/libsafetensors.pc.in \
		> $(DESTDIR)$(LIBDIR)/pkgconfig/libsafetensors.pc

.PHONY: help
help:
	@echo 'make                          build into $$(BUILD) ($(BUILD))'
	@echo 'make mount [MODEL=F] [MNT=D]  install what is missing, build, mount F (a small sample) at D'
	@echo 'make check                    install what is missing, build, run all tests:'
	@echo '                              $(CHECKS), which also run by themselves'
	@echo 'make install [PREFIX=/usr/local] [DESTDIR=]   commands, manual pages, systemd unit, C library'
	@echo 'make install-commands         the same without the library; make install-lib: the library alone'
	@echo 'make check-mounts TESTS=NAME  the tests on real mounts'
	@sed -n 's/^# \(make [^ ]*\( [^ ][^ ]*\)*\)   *\(.*\)/\1\t\3/p' tests/*.mk | expand -t 30
	@echo 'make clean                    remove build/ and build-*/'
	@echo 'Variables: BUILD=DIR CC=COMPILER CFLAGS= SAN=address,undefined'

# Tests, fuzz targets and benchmarks: each kind brings its own rules.
include $(wildcard tests/*.mk)

.PHONY: clean
clean:
	rm -rf build build-*

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
