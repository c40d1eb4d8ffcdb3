/* SPDX-License-Identifier: MIT
 * Any text as config.json beside a small shard: a conversion says why not, or gives an archive that keeps all
 * rules. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "thin.h"
#include "thin_export.h"

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);

static char dir[64] = "/tmp/config-fuzz-XXXXXX", config[96], shard[96];

static void clean(void)
{
    unlink(config);
    unlink(shard);
    rmdir(dir);
}

static void write_file(const char *path, const void *p, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, p, n) != (ssize_t)n)
        abort();
    close(fd);
}

static void write_shard(void)
{
    static const char *const names[] = {
        "model.embed_tokens.weight",
        "model.norm.weight",
        "model.layers.0.input_layernorm.weight",
        "model.layers.0.post_attention_layernorm.weight",
        "model.layers.0.self_attn.q_proj.weight",
        "model.layers.0.self_attn.k_proj.weight",
        "model.layers.0.self_attn.v_proj.weight",
        "model.layers.0.self_attn.o_proj.weight",
        "model.layers.0.mlp.gate_up_proj.weight",
        "model.layers.0.mlp.down_proj.qweight",
        "model.layers.0.mlp.down_proj.scales",
        "model.language_model.embed_tokens.weight",
        "model.language_model.layers.3.input_layernorm.weight",
    };
    char text[4096] = "        {";
    size_t len = 9, at = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++, at += 16)
        len += (size_t)snprintf(text + len, sizeof text - len,
                                "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[%zu,%zu]}",
                                i ? "," : "", names[i], at, at + 16);
    text[len++] = '}';
    for (int i = 0; i < 8; i++)
        text[i] = (char)((len - 8) >> 8 * i & 0xFF);
    memset(text + len, 'x', at);
    write_file(shard, text, len + at);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    if (!mkdtemp(dir))
        abort();
    snprintf(config, sizeof config, "%s/config.json", dir);
    snprintf(shard, sizeof shard, "%s/model.safetensors", dir);
    atexit(clean);
    write_shard();
    return 0;
}

static void check_archive(struct thin_export *x)
{
    struct extents list = {0};
    struct report r = {.deep = true};
    struct model *m = NULL;
    size_t size = (size_t)thin_export_size(x);
    char *bytes = malloc(size), path[40];
    if (!bytes || thin_export_extents(x, &list) < 0 || extents_read(&list, 0, bytes, size) != (ssize_t)size)
        abort();
    int fd = memfd_create("thin", MFD_CLOEXEC);
    if (fd < 0 || write(fd, bytes, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (model_open(path, SOURCE_COPY, &m, &r) < 0) {
        fprintf(stderr, "%s\n", r.first.message);
        abort();
    }
    model_free(m);
    close(fd);
    extents_free(&list);
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    static const struct thin_options plain = {.arch = NULL};
    struct thin_export *x = NULL;
    struct report r = {0};
    write_file(config, p, n);
    int err = thin_export_open(dir, &plain, &x, &r);
    if ((err == 0) != (x != NULL) || (err < 0 && r.first.message[0] == 0))
        abort();
    if (x)
        check_archive(x);
    thin_export_free(x);
    return 0;
}
