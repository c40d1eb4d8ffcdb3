/* SPDX-License-Identifier: MIT
 * An archive's pages as tensors, those inside other pages too. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "checked.h"
#include "thin.h"

static int no_memory(struct report *r)
{
    return report_fatal(r, -ENOMEM, NULL, 0, FS_NO_OFFSET, "out of memory");
}

/* The page's dtype is a name the format does not fix: one of ours in lower case, or anything. */
static int set_dtype(struct model *m, struct thin_page *p, struct tensor *t)
{
    char *code = arena_text(&m->arena, p->dtype.s, p->dtype.len);
    tm_dtype d;
    uint64_t size;
    if (!code)
        return -ENOMEM;
    for (size_t i = 0; i < p->dtype.len; i++)
        code[i] = (char)toupper((unsigned char)code[i]);
    t->dtype = DTYPE_OTHER;
    p->code = code;
    if (strlen(code) != p->dtype.len || tm_dtype_from_name(code, &d) < 0) {
        memcpy(code, p->dtype.s, p->dtype.len);
        return 0;
    }
    if (p->rank <= INT32_MAX && tm_nbytes(d, (int)p->rank, p->shape, &size) == 0 && size == p->size)
        t->dtype = (uint8_t)d;
    return 0;
}

/* Where its bytes lie. No rule forbids a page to lie in one that has no bytes of its own, being itself inside
 * another: it is there, and reading it fails. */
static int place(struct thin *t, const struct thin_page *p, struct tensor *x)
{
    uint32_t record = thin_find_record(t, p->fused_to.s ? &p->fused_to : &p->id);
    uint64_t off = p->fused_to.s ? p->fused_offset.value : 0;
    const struct thin_record *holder = record == INDEX_NONE ? NULL : &t->records[record];
    if (holder && range_fits(off, p->size, holder->stored)) {
        x->offset = holder->offset + off;
        return 0;
    }
    if (!t->empty && !(t->empty = source_lost(t->source->name)))
        return -ENOMEM;
    x->source = t->empty;
    return 0;
}

static int add_page(struct model *m, uint32_t number)
{
    struct thin_page *p = &m->thin->manifest.pages[number];
    struct tensor *t;
    if (p->id.len > UINT32_MAX || p->rank > INT32_MAX || model_add_tensor(m, &t) < 0)
        return -ENOMEM;
    t->name = p->id.s;
    t->name_len = (uint32_t)p->id.len;
    t->shape = p->shape;
    t->rank = (uint32_t)p->rank;
    t->nbytes = p->size;
    t->page = p;
    int err = place(m->thin, p, t);
    if (err == 0)
        err = set_dtype(m, p, t);
    return err < 0 ? err : model_index(m, (uint32_t)(m->n_tensors - 1));
}

int thin_read_model(struct model *m, struct report *r)
{
    size_t before = r->count;
    m->format = "thin";
    m->thin = calloc(1, sizeof *m->thin);
    if (!m->thin)
        return no_memory(r);
    int err = thin_open(m->thin, m->source, r);
    if (err == 0)
        err = thin_check_manifest(&m->thin->manifest, &m->thin->pages, r);
    if (err == 0)
        err = thin_check_table(m->thin, r);
    if (err == 0 && r->deep)
        err = thin_check_payload(m->thin, r);
    if (err == 0 && r->count > before)
        err = -EBADMSG;
    for (uint32_t i = 0; i < m->thin->manifest.n_pages && err == 0; i++)
        if (add_page(m, i) < 0)
            err = no_memory(r);
    return err;
}

int thin_approve(int fd, struct report *r)
{
    struct report found = {.deep = true};
    struct model *m = NULL;
    off_t size = lseek(fd, 0, SEEK_END);
    int own = size < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    int err = own < 0 ? -errno : -ENOMEM;
    struct source *s = own < 0 ? NULL : source_own(own, (uint64_t)size);
    if (s)
        err = model_read(s, &m, &found);
    model_free(m);
    source_free(s);
    if (err < 0)
        report_kind(r, "verify-failed", err, NULL, 0, FS_NO_OFFSET, "%s",
                    s ? found.first.message : strerror(-err));
    return err;
}
