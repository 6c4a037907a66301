// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "datasets/hdf5/hdf5_lib.h"

struct walk {
    const struct qc_h5_file *file;
    struct qc_arena *a;
    struct qc_status *st;
    struct qc_data_entry *entries;
    size_t count, capacity, links;
    struct seen { /* visited groups by address: open addressing, 0 is empty */
        haddr_t *slots;
        size_t count, capacity;
    } seen;
    char *path;
    size_t path_room;
    hid_t way; /* access for opening by name */
    struct qc_h5_elsewhere elsewhere;
};

static herr_t add_name(hid_t group, const char *name, const H5L_info_t *info, void *user)
{
    struct qc_h5_names *n = user;
    const size_t length = strlen(name) + 1;
    (void)group;
    struct qc_h5_name *list = qc_grown(n->list, n->count, &n->capacity, sizeof *list, n->st);
    if (!list) return -1;
    n->list = list;
    if (n->room - n->size < length) {
        const size_t wanted = (n->room + length) * 2;
        char *p = realloc(n->text, wanted);
        if (!p) {
            qc_fail_memory(n->st, wanted);
            return -1;
        }
        n->text = p;
        n->room = wanted;
    }
    memcpy(n->text + n->size, name, length);
    n->list[n->count++] = (struct qc_h5_name){.at = n->size, .type = info->type};
    n->size += length;
    return 0;
}

bool qc_h5_names_of(struct qc_h5_names *out, hid_t group, struct qc_status *st)
{
    hsize_t next = 0;
    *out = (struct qc_h5_names){.st = st};
    return H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, &next, add_name, out) >= 0 ||
           qc_h5_fail(st, QC_BAD_INPUT, "the HDF5 file is damaged; make or copy it again");
}

void qc_h5_names_free(struct qc_h5_names *n)
{
    free(n->list);
    free(n->text);
}

/* Adds a group's address to the set; *news: it is new. */
static bool enter(bool *news, struct seen *s, haddr_t place, struct qc_status *st)
{
    if (2 * s->count >= s->capacity) {
        struct seen larger = {.capacity = s->capacity ? s->capacity * 2 : 64};
        bool ignored;
        larger.slots = calloc(larger.capacity, sizeof *larger.slots);
        if (!larger.slots) return qc_fail_memory(st, larger.capacity * sizeof *larger.slots);
        for (size_t i = 0; i < s->capacity; i++)
            if (s->slots[i]) enter(&ignored, &larger, s->slots[i], st);
        free(s->slots);
        *s = larger;
    }
    size_t i = (size_t)((place * UINT64_C(0x9e3779b97f4a7c15)) >> 20) & (s->capacity - 1);
    while (s->slots[i] && s->slots[i] != place) i = (i + 1) & (s->capacity - 1);
    *news = s->slots[i] != place;
    s->slots[i] = place;
    s->count += *news;
    return true;
}

/* Appends "/name" ("name" at the top) to the path of the given length. */
static bool set_path(size_t *longer, struct walk *w, size_t length, const char *name)
{
    const size_t n = strlen(name), slash = length > 0;
    if (w->path_room < length + n + 2) {
        const size_t wanted = (length + n + 2) * 2;
        char *p = realloc(w->path, wanted);
        if (!p) return qc_fail_memory(w->st, wanted);
        w->path = p;
        w->path_room = wanted;
    }
    if (slash) w->path[length] = '/';
    memcpy(w->path + length + slash, name, n + 1);
    *longer = length + slash + n;
    return true;
}

static bool add_entry(struct walk *w, hid_t set)
{
    w->entries = qc_arena_grown(w->a, w->entries, w->count, &w->capacity, sizeof *w->entries, w->st);
    if (!w->entries) return false;
    if (w->count >= QC_H5_SETS_MAX)
        return qc_fail(w->st, QC_UNSUPPORTED, "more than %d data sets in one file", QC_H5_SETS_MAX);
    if (!qc_h5_describe(&w->entries[w->count], set, w->path, &w->elsewhere, w->file, w->a, w->st)) return false;
    w->count++;
    return true;
}

static bool walk_group(struct walk *w, hid_t group, size_t length, unsigned depth);

static bool walk_link(struct walk *w, hid_t group, const char *name, H5L_type_t type, size_t length, unsigned depth)
{
    H5O_info_t info;
    bool ok = true, news = false;
    w->elsewhere = (struct qc_h5_elsewhere){.follow = w->file->follow};
    QC_H5_OWN object = H5Oopen(group, name, w->way);
    if (object < 0 && type != H5L_TYPE_HARD)
        return w->elsewhere.refused ? add_entry(w, -1) : true; /* a link that leads nowhere */
    if (object < 0)
        return qc_h5_fail(w->st, QC_BAD_INPUT, "damaged object") || qc_where(w->st, "object '%.200s'", w->path);
    const H5I_type_t kind = H5Iget_type(object);
    if (kind == H5I_DATASET) {
        ok = add_entry(w, object);
    } else if (kind == H5I_GROUP &&
               type == H5L_TYPE_HARD) { /* soft and external links lead to groups found elsewhere, or to other files */
        ok = H5Oget_info2(object, &info, H5O_INFO_BASIC) >= 0 || qc_h5_fail(w->st, QC_BAD_INPUT, "damaged group");
        ok = ok && enter(&news, &w->seen, info.addr, w->st);
        if (ok && news) ok = walk_group(w, object, length, depth + 1);
    }
    return ok;
}

/* Describes a group of samples that cannot be read; opening it reports why. */
static bool describe_unread(struct qc_data_entry *out, const char *name, struct qc_arena *a, struct qc_status *st)
{
    static const int64_t none[1];
    *out = (struct qc_data_entry){.name = qc_arena_strdup(a, name, st),
                                  .type = "group",
                                  .dims = none,
                                  .storage = "samples that cannot be read"};
    return out->name != NULL;
}

/* Lists a group of samples as one entry. *done: it was one. */
static bool take_samples(bool *done, struct walk *w, hid_t group, const struct qc_h5_names *n)
{
    struct qc_h5_set s = {.id = (int64_t)group};
    struct qc_status why = QC_STATUS_INIT;
    *done = false;
    if (!qc_h5_like_samples(n)) return true;
    bool ok = qc_h5_group_open(&s, w->file, &why) || n->count > QC_H5_MEMBERS_LISTED;
    if (why.code == QC_MACHINE) qc_fail(w->st, why.code, "%s", why.message);
    if (ok && w->count >= QC_H5_SETS_MAX)
        qc_fail(w->st, QC_UNSUPPORTED, "more than %d data sets in one file", QC_H5_SETS_MAX);
    if (ok && w->st->code == QC_OK &&
        (w->entries = qc_arena_grown(w->a, w->entries, w->count, &w->capacity, sizeof *w->entries, w->st)) != NULL) {
        struct qc_data_entry *e = &w->entries[w->count];
        *done = why.code == QC_OK ? qc_h5_describe_group(e, &s, w->path, w->a, w->st)
                                  : describe_unread(e, w->path, w->a, w->st);
        w->count += *done;
    }
    if (s.memory_type > 0) H5Tclose((hid_t)s.memory_type);
    qc_h5_ragged_free(s.ragged);
    return w->st->code == QC_OK;
}

/* Collects the names first and then opens them, so that HDF5 callbacks never nest. */
static bool walk_group(struct walk *w, hid_t group, size_t length, unsigned depth)
{
    struct qc_h5_names n = {.count = 0};
    size_t longer;
    bool samples = false;
    bool ok =
        depth <= QC_DATA_DEPTH_MAX ||
        qc_fail(w->st, QC_UNSUPPORTED, "groups are nested more than %d deep; move the data sets up", QC_DATA_DEPTH_MAX);
    ok = ok && qc_h5_names_of(&n, group, w->st);
    w->links += n.count;
    if (ok && w->links > QC_DATA_LINKS_MAX)
        ok = qc_fail(w->st, QC_UNSUPPORTED, "more than %d names in one file", QC_DATA_LINKS_MAX);
    if (ok && length) ok = take_samples(&samples, w, group, &n);
    for (size_t i = 0; ok && !samples && i < n.count; i++) {
        const char *name = n.text + n.list[i].at;
        ok = set_path(&longer, w, length, name) && walk_link(w, group, name, n.list[i].type, longer, depth);
    }
    qc_h5_names_free(&n);
    return ok;
}

bool qc_h5_list(struct qc_data_list *out, struct qc_h5_file *f, struct qc_arena *a, struct qc_status *st)
{
    struct walk w = {.file = f, .a = a, .st = st};
    H5O_info_t info;
    bool news;
    QC_H5_LOCKED;
    QC_H5_OWN way = qc_h5_link_access(&w.elsewhere), root = H5Oopen(f->id, "/", H5P_DEFAULT);
    w.way = way;
    bool ok = (root >= 0 && H5Oget_info2(root, &info, H5O_INFO_BASIC) >= 0) ||
              qc_h5_fail(st, QC_BAD_INPUT, "the HDF5 file is damaged; make or copy it again");
    ok = ok && enter(&news, &w.seen, info.addr, st) && walk_group(&w, root, 0, 0);
    free(w.seen.slots);
    free(w.path);
    if (!ok) return false;
    *out = (struct qc_data_list){.entries = w.entries, .count = w.count};
    return true;
}
