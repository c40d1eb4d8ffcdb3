/* SPDX-License-Identifier: MIT
 * For tests against other implementations: writes and shows models by the public calls.
 *
 *     models write <SPEC      for each model a line "model SALT PATH", lines "tensor DTYPE NAME RANK DIM..."
 * and "meta KEY VALUE", and "write"; names, keys and values in hex after an "x" models show PATH...     the
 * same lines back, each tensor with its bytes in hex, and "end PATH"
 *
 * Byte j of tensor i of a model is (SALT + 37 i + 11 j) mod 256; of a BOOL that modulo 2. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <safetensors/safetensors.h>

enum { LINE = 65536, RANK = 8, TENSORS = 64 };

/* Decodes "x616263" in place. */
static size_t unhex(char *s)
{
    size_t n = strlen(s) / 2;
    for (size_t i = 0; i < n; i++) {
        char pair[3] = {s[1 + 2 * i], s[2 + 2 * i], 0};
        s[i] = (char)strtoul(pair, NULL, 16);
    }
    s[n] = 0;
    return n;
}

struct model {
    fs_writer *w;
    tm_tensor *t[TENSORS];
    int n;
};

static int add_tensor(struct model *m, char *line)
{
    uint64_t shape[RANK] = {0};
    tm_dtype d;
    char *save, *code = strtok_r(line, " ", &save), *name = strtok_r(NULL, " ", &save);
    int rank = atoi(strtok_r(NULL, " ", &save));
    for (int i = 0; i < rank && i < RANK; i++)
        shape[i] = strtoull(strtok_r(NULL, " ", &save), NULL, 10);
    if (m->n == TENSORS || tm_dtype_from_name(code, &d) < 0)
        return -1;
    size_t len = unhex(name);
    tm_tensor *t = m->t[m->n++] = tm_tensor_new(d, rank, shape);
    return fs_add_tensor_n(m->w, name, len, t);
}

static int add_metadata(struct model *m, char *line)
{
    char *value = strchr(line, ' ');
    *value++ = 0;
    size_t key_len = unhex(line), value_len = unhex(value);
    return fs_set_metadata_e(m->w, line, key_len, value, value_len, NULL);
}

static void fill(tm_tensor *t, unsigned start)
{
    unsigned char *p = tm_tensor_data(t);
    for (uint64_t j = 0; j < tm_tensor_nbytes(t); j++) {
        p[j] = (unsigned char)(start + 11 * j);
        if (tm_tensor_dtype(t) == TM_BOOL)
            p[j] &= 1;
    }
}

/* The bytes are filled in last: the tensors that the writer holds are ours still. */
static int write_all(FILE *spec)
{
    static char line[LINE];
    while (fgets(line, sizeof line, spec)) {
        struct model m = {0};
        line[strcspn(line, "\n")] = 0;
        char *path = strchr(line, ' ');
        unsigned salt = (unsigned)strtoul(path + 1, &path, 10);
        if (strncmp(line, "model ", 6) != 0 || !(m.w = fs_writer_new(path + 1)))
            return 1;
        int err = 0;
        while (err == 0 && fgets(line, sizeof line, spec) && strcmp(line, "write\n") != 0) {
            line[strcspn(line, "\n")] = 0;
            err = line[0] == 't' ? add_tensor(&m, line + 7) : add_metadata(&m, line + 5);
        }
        for (int i = 0; i < m.n; i++) {
            if (m.t[i])
                fill(m.t[i], salt + 37 * (unsigned)i);
            tm_tensor_free(m.t[i]);
        }
        fs_error e = {0};
        if (err < 0 || fs_write_e(m.w, &e) < 0) {
            fprintf(stderr, "not written: %d %s\n", err, e.message);
            return 1;
        }
        fs_writer_free(m.w);
    }
    return 0;
}

static void hex(const char *before, const void *p, size_t len)
{
    printf("%s", before);
    for (size_t i = 0; i < len; i++)
        printf("%02x", ((const unsigned char *)p)[i]);
}

static void show_tensor(fs_file *f, int i)
{
    size_t len;
    const char *name = fs_tensor_name(f, i, &len);
    tm_tensor *t = fs_get_tensor_n(f, name, len);
    printf("tensor %s", tm_dtype_name(tm_tensor_dtype(t)));
    hex(" x", name, len);
    printf(" %d", tm_tensor_rank(t));
    for (int d = 0; d < tm_tensor_rank(t); d++)
        printf(" %" PRIu64, tm_tensor_shape(t)[d]);
    hex(" x", tm_tensor_data(t), (size_t)tm_tensor_nbytes(t));
    putchar('\n');
    tm_tensor_free(t);
}

static int show(const char *path)
{
    fs_error e;
    fs_file *f = fs_mmap_e(path, &e);
    if (!f) {
        fprintf(stderr, "%s: %s\n", path, e.message);
        return 1;
    }
    for (int i = 0; i < fs_num_metadata(f); i++) {
        const char *key, *value;
        size_t key_len, value_len;
        fs_metadata_entry(f, i, &key, &key_len, &value, &value_len);
        hex("meta x", key, key_len);
        hex(" x", value, value_len);
        putchar('\n');
    }
    for (int i = 0; i < fs_num_tensors(f); i++)
        show_tensor(f, i);
    printf("end %s\n", path);
    fs_close(f);
    return 0;
}

int main(int argc, char **argv)
{
    int status = 0;
    if (argc == 2 && strcmp(argv[1], "write") == 0)
        return write_all(stdin);
    for (int i = 2; i < argc; i++)
        status |= show(argv[i]);
    return argc < 2 || status;
}
