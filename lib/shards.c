/* SPDX-License-Identifier: MIT */
#include "shards.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "jtree.h"

static int no_memory(struct report *r)
{
    return report_fatal(r, -ENOMEM, NULL, 0, FS_NO_OFFSET, "out of memory");
}

static bool has_file(const struct directory *d, const char *name)
{
    size_t low = 0, high = d->n_names;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        int c = strcmp(d->names[mid], name);
        if (c == 0)
            return true;
        if (c < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return false;
}

const struct jvalue *shards_weight_map(const struct buf *text, struct arena *a, const char **why)
{
    struct json j = {.start = text->p, .p = text->p, .end = text->p + text->len};
    const struct jvalue *top = jtree_document(&j, a), *map = jtree_get(top, "weight_map");
    *why = top ? "no object weight_map with a member" : j.why;
    return map && map->type == J_OBJECT && map->n ? map : NULL;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The name of a file directly in the directory, and nothing else? */
static bool is_plain(const struct json_text *t)
{
    return t->len && t->len == strlen(t->s) && !memchr(t->s, '/', t->len) && strcmp(t->s, ".") != 0 &&
           strcmp(t->s, "..") != 0;
}

/* The files an index names, each once. */
static int names_of_index(struct shards *x, struct report *r)
{
    uint32_t n = x->weight_map->n;
    size_t kept = 0;
    x->names = malloc((n ? n : 1) * sizeof(char *));
    if (!x->names)
        return no_memory(r);
    for (uint32_t i = 0; i < n; i++) {
        const struct jvalue *v = x->weight_map->item[i];
        if (v->type == J_TEXT && is_plain(&v->text)) {
            x->names[x->n++] = v->text.s;
            continue;
        }
        int err = report_kind(r, "index-path", -EBADMSG, v->key.s, v->key.len, FS_NO_OFFSET,
                              "%s places it in something else than a file of the directory", x->index);
        if (err < 0)
            return err;
    }
    qsort(x->names, x->n, sizeof(char *), by_text);
    for (size_t i = 0; i < x->n; i++)
        if (kept == 0 || strcmp(x->names[kept - 1], x->names[i]) != 0)
            x->names[kept++] = x->names[i];
    x->n = kept;
    return 0;
}

static int go_by_index(struct shards *x, const struct directory *d, const char *index, struct report *r)
{
    struct buf text = {0};
    const char *why = NULL;
    x->index = index;
    int err = directory_read(d, index, &text, r);
    if (err == 0)
        x->weight_map = shards_weight_map(&text, &x->arena, &why);
    buf_free(&text);
    if (err == -ENOENT)
        return report_fatal(r, err, index, strlen(index), FS_NO_OFFSET, "%s", strerror(-err));
    if (err == 0 && !x->weight_map) {
        report_kind(r, "index-parse", -EBADMSG, index, strlen(index), FS_NO_OFFSET, "%s", why ? why : "");
        return -EBADMSG;
    }
    return err < 0 ? err : names_of_index(x, r);
}

/* Beside PyTorch's shards lie other pickles, such as training_args.bin, that are no models. */
static bool is_weights(const char *name)
{
    return strncmp(name, "pytorch_model", 13) == 0;
}

static int take_all(struct shards *x, const struct directory *d, const char *ending, struct report *r)
{
    bool weights = false;
    x->names = malloc((d->n_names + 1) * sizeof(char *));
    if (!x->names)
        return no_memory(r);
    for (size_t i = 0; i < d->n_names; i++)
        weights |= directory_ends(d->names[i], ending) && is_weights(d->names[i]);
    weights = weights && strcmp(ending, ".bin") == 0;
    for (size_t i = 0; i < d->n_names; i++)
        if (directory_ends(d->names[i], ending) && (!weights || is_weights(d->names[i])))
            x->names[x->n++] = d->names[i];
    return 0;
}

static bool any(const struct directory *d, const char *ending)
{
    for (size_t i = 0; i < d->n_names; i++)
        if (directory_ends(d->names[i], ending))
            return true;
    return false;
}

static const char *const endings[] = {".safetensors", ".bin", ".pth", ".pt"};
enum { N_ENDINGS = sizeof endings / sizeof endings[0] };

int shards_find(struct shards *x, const struct directory *d, const char *index, struct report *r)
{
    static const char safetensors[] = "model.safetensors.index.json",
                      torch[] = "pytorch_model.bin.index.json";
    *x = (struct shards){0};
    if (!index && has_file(d, safetensors))
        index = safetensors;
    if (!index && !any(d, endings[0]) && has_file(d, torch))
        index = torch;
    if (index)
        return go_by_index(x, d, index, r);
    for (size_t i = 0; i < N_ENDINGS; i++)
        if (any(d, endings[i]))
            return take_all(x, d, endings[i], r);
    return report_fatal(r, -ENOTSUP, NULL, 0, FS_NO_OFFSET,
                        "is a directory without a model: no *.safetensors, *.bin, *.pth or *.pt in it");
}

void shards_free(struct shards *x)
{
    free(x->names);
    arena_free(&x->arena);
}

/* Each tensor of the index where it says; of a shard that could not be read nothing is said. missing: sorted.
 */
static int compare_entry(const struct model *m, const struct jvalue *v, const char *const *missing,
                         size_t n_missing, struct report *r)
{
    uint32_t i = model_find(m, hash_bytes(0, v->key.s, v->key.len), v->key.s, v->key.len);
    if (v->type != J_TEXT || !is_plain(&v->text))
        return 0;
    if (n_missing && bsearch(&v->text.s, missing, n_missing, sizeof *missing, by_text))
        return 0;
    if (i == INDEX_NONE)
        return report_kind(r, "index-tensor-missing", -EBADMSG, v->key.s, v->key.len, FS_NO_OFFSET,
                           "not in %.100s, where the index says it is", v->text.s);
    if (strcmp(m->tensors[i].source->name, v->text.s) != 0)
        return report_kind(r, "index-tensor-elsewhere", -EBADMSG, v->key.s, v->key.len, FS_NO_OFFSET,
                           "in %.100s, the index says in %.100s", m->tensors[i].source->name, v->text.s);
    return 0;
}

static int by_key(const struct jvalue *map, const char *name, size_t len)
{
    uint32_t low = 0, high = map->n;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        const struct json_text *k = &map->item[mid]->key;
        size_t n = k->len < len ? k->len : len;
        int c = n ? memcmp(k->s, name, n) : 0;
        if (c == 0 && k->len == len)
            return 1;
        if (c < 0 || (c == 0 && k->len < len))
            low = mid + 1;
        else
            high = mid;
    }
    return 0;
}

int shards_compare(const struct shards *x, const struct model *m, struct report *r)
{
    const char **missing = NULL;
    size_t n_missing = 0;
    int err = 0;
    if (!x->weight_map)
        return 0;
    missing = malloc((x->n + 1) * sizeof(char *));
    if (!missing)
        return no_memory(r);
    for (size_t i = 0, k = 0; i < x->n; i++) { /* the parts are in the order of the names */
        if (k < m->n_parts && strcmp(m->part[k]->source->name, x->names[i]) == 0)
            k++;
        else
            missing[n_missing++] = x->names[i];
    }
    for (uint32_t i = 0; i < x->weight_map->n && err == 0; i++)
        err = compare_entry(m, x->weight_map->item[i], missing, n_missing, r);
    for (size_t i = 0; i < m->n_tensors && err == 0; i++)
        if (!by_key(x->weight_map, m->tensors[i].name, m->tensors[i].name_len))
            report_note(r, "index-incomplete", m->tensors[i].name, m->tensors[i].name_len,
                        "in %.100s, but not in the index", m->tensors[i].source->name);
    free(missing);
    return err;
}
