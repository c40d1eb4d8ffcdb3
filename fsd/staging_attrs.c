/* SPDX-License-Identifier: MIT
 * Attributes, owners and times of what is staged. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>

#include "staging_i.h"
#include "utf8.h"

static const char metadata_prefix[] = "user.metadata.", status_name[] = "user.safetensors.status";

int staging_touch(struct kind *k, uint64_t id, const struct timespec *mtime)
{
    struct staging *s = staging_enter(k);
    struct staged *n = staging_node(s, id);
    int err = !n ? -ENOENT : staging_is_finished(id) ? -EPERM : 0;
    if (err == 0)
        n->mtime = *mtime;
    return staging_leave(s, err);
}

int staging_chown(struct kind *k, uint64_t id, uid_t uid, gid_t gid)
{
    struct staging *s = staging_enter(k);
    struct staged *n = staging_node(s, id);
    struct record_line l;
    int err = !n ? -ENOENT : staging_is_finished(id) || n == s->store.tree.top ? -EPERM : 0;
    if (err == 0) {
        uid = uid == (uid_t)-1 ? n->uid : uid;
        gid = gid == (gid_t)-1 ? n->gid : gid;
        record_node(&l, "owner", n);
        record_number(&l, "uid", uid);
        record_number(&l, "gid", gid);
        err = record_end(&l, n->model);
    }
    if (err == 0) {
        n->uid = uid;
        n->gid = gid;
    }
    return staging_leave(s, err);
}

static const char *const attribute_names[N_ATTRS] = {"user.dtype", "user.shape", "user.safetensors.name"};

static int attribute(const char *name)
{
    for (int a = 0; a < N_ATTRS; a++)
        if (strcmp(attribute_names[a], name) == 0)
            return a;
    return -1;
}

/* What a mounted tensor or a staged model has besides: taken from whoever copies attributes along, and
 * dropped, for it would not be true. */
static bool meaningless(const char *name)
{
    static const char *const names[] = {"user.safetensors.source", "user.safetensors.offset",
                                        "user.safetensors.transform", "user.safetensors.format",
                                        "user.safetensors.status"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static bool is_metadata(const char *name)
{
    return strncmp(name, metadata_prefix, sizeof metadata_prefix - 1) == 0 &&
           name[sizeof metadata_prefix - 1];
}

static int get_model(struct staging *s, const struct staged *n, const char *name, struct buf *value)
{
    if (strcmp(name, status_name) == 0) {
        commit_status(s, n->model, value);
        return 0;
    }
    const char *key = name + sizeof metadata_prefix - 1;
    const struct staged_pair *p = is_metadata(name) ? store_metadata(n->model, key, strlen(key)) : NULL;
    if (!p)
        return -ENODATA;
    buf_add(value, p->value, p->value_len);
    return 0;
}

int staging_getxattr(struct kind *k, uint64_t id, const char *name, struct buf *value)
{
    struct staging *s = staging_enter(k);
    const struct staged *n = staging_node(s, id);
    int a = attribute(name), err = n ? -ENODATA : -ENOENT;
    if (!n || staging_is_finished(id) || (n->is_dir && !staging_is_model(s, n)))
        return staging_leave(s, err);
    if (n->is_dir)
        return staging_leave(s, get_model(s, n, name, value));
    const char *text = a >= 0 && a != ATTR_NAME ? staged_value(n, (enum attribute)a) : NULL;
    if (a == ATTR_NAME)
        staged_name(&s->rules, n, value);
    else if (text)
        buf_str(value, text);
    return staging_leave(s, text || a == ATTR_NAME ? 0 : -ENODATA);
}

int staging_listxattr(struct kind *k, uint64_t id, struct buf *names)
{
    struct staging *s = staging_enter(k);
    const struct staged *n = staging_node(s, id);
    if (!n || staging_is_finished(id) || (n->is_dir && !staging_is_model(s, n)))
        return staging_leave(s, n ? 0 : -ENOENT);
    if (n->is_dir) {
        buf_add(names, status_name, sizeof status_name);
        for (size_t i = 0; i < n->model->n_metadata; i++) {
            const struct staged_pair *p = &n->model->metadata[i];
            if (p->key_len == 0 || p->key_len > 255 - (sizeof metadata_prefix - 1) ||
                memchr(p->key, 0, p->key_len) || p->value_len > XATTR_SIZE_MAX ||
                names->len + sizeof metadata_prefix + p->key_len > XATTR_SIZE_MAX)
                continue;
            buf_str(names, metadata_prefix);
            buf_add(names, p->key, p->key_len + 1);
        }
    } else
        for (int a = 0; a < N_ATTRS; a++)
            if (a == ATTR_NAME || staged_value(n, (enum attribute)a))
                buf_add(names, attribute_names[a], strlen(attribute_names[a]) + 1);
    return staging_leave(s, 0);
}

int staging_set_attribute(struct staged *n, enum attribute a, const char *value, size_t len)
{
    struct buf path = {0};
    int err = record_attribute(n, a, value, len);
    if (err == 0)
        err = staged_set_text(&n->attr[a], value, len);
    if (err == 0 && a == ATTR_NAME) {
        n->name_len = len;
        staged_path(n, &path);
        err = path.failed ? -ENOMEM : staged_set_text(&n->name_path, value ? path.p : NULL, path.len);
        buf_free(&path);
    }
    return err;
}

static int set_metadata(struct model_dir *m, const char *key, const char *value, size_t len)
{
    struct record_line l;
    if (value && (utf8_span(key, strlen(key)) != strlen(key) || utf8_span(value, len) != len))
        return -EINVAL; /* a safetensors file could not hold it */
    record_begin(&l, "metadata", "", 0);
    record_text(&l, "key", key, strlen(key));
    if (value)
        record_text(&l, "value", value, len);
    int err = record_end(&l, m);
    return err < 0 ? err : store_set_metadata(m, key, strlen(key), value, len);
}

/* value NULL removes. */
static int change_attribute(struct kind *k, uint64_t id, const char *name, const char *value, size_t len,
                            int flags)
{
    struct staging *s = staging_enter(k);
    struct staged *n = staging_node(s, id);
    int a = attribute(name), err = n ? 0 : -ENOENT;
    if (err == 0 && staging_is_finished(id))
        err = -EPERM;
    if (err < 0)
        return staging_leave(s, err);
    bool model = n->is_dir && staging_is_model(s, n), there;
    if (model && is_metadata(name))
        there = store_metadata(n->model, name + sizeof metadata_prefix - 1,
                               strlen(name) - sizeof metadata_prefix + 1);
    else if (!n->is_dir && a >= 0)
        there = n->attr[a] != NULL;
    else if (!value)
        return staging_leave(s, -ENODATA);
    else
        return staging_leave(s, meaningless(name) ? 0 : -EOPNOTSUPP);
    if (value ? (there && (flags & XATTR_CREATE)) : !there)
        return staging_leave(s, value ? -EEXIST : -ENODATA);
    if (value && !there && (flags & XATTR_REPLACE))
        return staging_leave(s, -ENODATA);
    err = model ? set_metadata(n->model, name + sizeof metadata_prefix - 1, value, len)
                : staging_set_attribute(n, (enum attribute)a, value, len);
    if (err == 0 && n->parent)
        commit_edited(s, n->model);
    return staging_leave(s, err);
}

int staging_setxattr(struct kind *k, uint64_t id, const char *name, const char *value, size_t len, int flags)
{
    return change_attribute(k, id, name, value, len, flags);
}

int staging_removexattr(struct kind *k, uint64_t id, const char *name)
{
    return change_attribute(k, id, name, NULL, 0, 0);
}
