// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "datasets/hdf5/hdf5_lib.h"

struct attributes {
    struct qc_arena *a;
    struct qc_status *st;
    struct qc_data_attribute *list;
    size_t count, capacity;
};

bool qc_h5_attribute_numbers(long double **out, size_t *count, hid_t attribute)
{
    QC_H5_OWN t = H5Aget_type(attribute), space = H5Aget_space(attribute);
    hssize_t n = H5Sget_simple_extent_npoints(space);
    const H5T_class_t class = H5Tget_class(t);
    struct qc_h5_element e;
    qc_h5_element_of(&e, t);
    if ((class != H5T_INTEGER && class != H5T_FLOAT) || e.dtype == QC_NONE || n < 1 || n > QC_H5_VALUES_MAX)
        return false;
    long double *v = malloc((size_t)n * sizeof *v);
    if (!v || H5Aread(attribute, H5T_NATIVE_LDOUBLE, v) < 0) {
        free(v);
        return false;
    }
    *out = v;
    *count = (size_t)n;
    return true;
}

char *qc_h5_attribute_string(hid_t attribute)
{
    QC_H5_OWN t = H5Aget_type(attribute), space = H5Aget_space(attribute), m = H5Tcopy(H5T_C_S1);
    char *s = NULL;
    if (H5Tget_class(t) != H5T_STRING || H5Sget_simple_extent_npoints(space) != 1) return NULL;
    H5Tset_cset(m, H5Tget_cset(t));
    if (H5Tis_variable_str(t) > 0) {
        char *v = NULL;
        H5Tset_size(m, H5T_VARIABLE);
        if (H5Aread(attribute, m, &v) >= 0 && v) {
            s = strdup(v);
            H5Dvlen_reclaim(m, space, H5P_DEFAULT, &v);
        }
    } else if (H5Tget_size(t) <= QC_H5_VALUES_MAX) {
        size_t n = H5Tget_size(t) + 1;
        H5Tset_size(m, n);
        s = calloc(1, n);
        if (s && H5Aread(attribute, m, s) < 0) {
            free(s);
            s = NULL;
        }
    }
    return s;
}

static herr_t add_attribute(hid_t object, const char *name, const H5A_info_t *info, void *user)
{
    struct attributes *l = user;
    l->list = qc_arena_grown(l->a, l->list, l->count, &l->capacity, sizeof *l->list, l->st);
    QC_H5_OWN attribute = H5Aopen(object, name, H5P_DEFAULT);
    if (!l->list || attribute < 0) return -1;
    long double *v;
    size_t n;
    char *s = NULL, text[300] = "(neither numbers nor text)";
    if (qc_h5_attribute_numbers(&v, &n, attribute)) {
        size_t at = 0;
        for (size_t i = 0; i < n && i < 8; i++)
            at += (size_t)snprintf(text + at, sizeof text - at, "%s%.9Lg", i ? ", " : "", v[i]);
        if (n > 8) snprintf(text + at, sizeof text - at, ", ... (%zu values)", n);
        free(v);
    } else {
        s = qc_h5_attribute_string(attribute);
    }
    struct qc_data_attribute a = {.name = qc_arena_strdup(l->a, name, l->st),
                                  .text = qc_arena_strdup(l->a, s ? s : text, l->st)};
    free(s);
    if (!a.name || !a.text) return -1;
    l->list[l->count++] = a;
    return 0;
}

static void storage_text(char *buf, unsigned size, hid_t set, unsigned rank)
{
    QC_H5_OWN p = H5Dget_create_plist(set);
    H5D_layout_t layout = H5Pget_layout(p);
    hsize_t chunk[QC_DATA_RANK_MAX];
    qc_text(buf, size, "%s", layout == H5D_CONTIGUOUS ? "contiguous" : layout == H5D_COMPACT ? "compact" : "virtual");
    if (layout == H5D_CHUNKED && H5Pget_chunk(p, QC_DATA_RANK_MAX, chunk) == (int)rank) {
        size_t at = (size_t)snprintf(buf, size, "chunks ");
        for (unsigned i = 0; i < rank && at < size; i++)
            at += (size_t)snprintf(buf + at, size - at, "%s%" PRIuHSIZE, i ? "x" : "", chunk[i]);
        int filters = H5Pget_nfilters(p);
        for (int i = 0; i < filters && at < size; i++) {
            unsigned flags, values[8];
            size_t count = 8;
            char name[64] = "";
            H5Z_filter_t id = H5Pget_filter2(p, (unsigned)i, &flags, &count, values, sizeof name, name, NULL);
            at += id == H5Z_FILTER_DEFLATE ? (size_t)snprintf(buf + at, size - at, ", gzip %u", count ? values[0] : 0)
                                           : (size_t)snprintf(buf + at, size - at, ", %s", name[0] ? name : "filter");
        }
    }
}

/* Rank, dims and type of the open samples, and the attributes of their object. */
static bool h5_describe_group(struct qc_data_entry *out, const struct qc_h5_set *s, const char *name,
                              struct qc_arena *a, struct qc_status *st)
{
    struct attributes attributes = {.a = a, .st = st};
    hsize_t next = 0;
    if (H5Aiterate2((hid_t)s->id, H5_INDEX_NAME, H5_ITER_INC, &next, add_attribute, &attributes) < 0)
        return qc_h5_fail(st, QC_BAD_INPUT, "damaged attributes") || qc_where(st, "group '%s'", name);
    *out = (struct qc_data_entry){.name = qc_arena_strdup(a, name, st),
                                  .type = s->way == QC_H5_WIDE ? "long double" : qc_dtype_long_name(s->dtype),
                                  .dtype = s->dtype,
                                  .rank = s->rank,
                                  .dims = qc_arena_dup(a, s->dims, s->rank, sizeof *s->dims, st),
                                  .storage = "a data set for each sample",
                                  .attributes = attributes.list,
                                  .attribute_count = attributes.count};
    return out->name && out->dims;
}

/* Describes a data set of this file. */
static bool describe_here(struct qc_data_entry *out, hid_t set, const char *name, struct qc_arena *a,
                          struct qc_status *st)
{
    QC_H5_OWN type = H5Dget_type(set), space = H5Dget_space(set);
    hsize_t dims[H5S_MAX_RANK];
    char storage[512];
    int rank = H5Sget_simple_extent_ndims(space);
    if (type < 0 || rank < 0 || H5Sget_simple_extent_dims(space, dims, NULL) != rank)
        return qc_h5_fail(st, QC_BAD_INPUT, "damaged data set");
    int64_t *d = QC_NEW_ARRAY(a, int64_t, rank + 1, st);
    if (!d) return false;
    d[rank] = -1;
    for (int i = 0; i < rank; i++) d[i] = dims[i] > INT64_MAX ? INT64_MAX : (int64_t)dims[i];
    storage_text(storage, sizeof storage, set, (unsigned)rank);
    struct attributes attributes = {.a = a, .st = st};
    struct qc_h5_element element;
    hsize_t next = 0;
    qc_h5_element_of(&element, type);
    if (H5Tget_class(type) == H5T_VLEN && rank == 1) { /* sequences of numbers have one axis more */
        struct qc_h5_element base;
        QC_H5_OWN super = H5Tget_super(type);
        qc_h5_element_of(&base, super);
        if (base.dtype != QC_NONE) {
            element = base;
            rank = 2;
        }
    }
    *out = (struct qc_data_entry){.dtype = element.dtype, .type = element.type, .rank = (unsigned)rank, .dims = d};
    if (H5Aiterate2(set, H5_INDEX_NAME, H5_ITER_INC, &next, add_attribute, &attributes) < 0)
        qc_h5_fail(st, QC_BAD_INPUT, "damaged attributes");
    out->attributes = attributes.list;
    out->attribute_count = attributes.count;
    out->name = qc_arena_strdup(a, name, st);
    out->storage = qc_arena_strdup(a, storage, st);
    return st->code == QC_OK;
}

struct walk {
    const struct qc_h5_file *file;
    struct qc_arena *a;
    struct qc_status *st;
    struct qc_data_entry *entries;
    size_t count, capacity, links;
    struct visited { /* visited groups by address: open addressing, 0 is empty */
        haddr_t *slots;
        size_t count, capacity;
    } visited;
    char *path;
    size_t path_room;
    hid_t way; /* access for opening by name */
    struct qc_h5_elsewhere elsewhere;
};

static herr_t add_name(hid_t group, const char *name, const H5L_info_t *info, void *user)
{
    struct qc_h5_names *n = user;
    const size_t length = strlen(name) + 1;
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
static bool enter(bool *news, struct visited *s, haddr_t place, struct qc_status *st)
{
    if (2 * s->count >= s->capacity) {
        struct visited larger = {.capacity = s->capacity ? s->capacity * 2 : 64};
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

/* Adds the data set of w->path; set -1: the name refers to another file. */
static bool add_entry(struct walk *w, hid_t set)
{
    w->entries = qc_arena_grown(w->a, w->entries, w->count, &w->capacity, sizeof *w->entries, w->st);
    if (!w->entries) return false;
    if (w->count >= QC_H5_SETS_MAX)
        return qc_fail(w->st, QC_UNSUPPORTED, "more than %d data sets in one file", QC_H5_SETS_MAX);
    struct qc_h5_elsewhere way = w->elsewhere;
    struct qc_data_entry *e = &w->entries[w->count];
    if (set < 0 || (!qc_h5_is_here(&way, set, w->file->path) && way.refused)) {
        *e = (struct qc_data_entry){.name = qc_arena_strdup(w->a, w->path, w->st),
                                    .type = "elsewhere",
                                    .storage = qc_arena_printf(w->a, w->st, "in another file: %s", way.file),
                                    .elsewhere = true};
        if (!e->name || !e->storage) return false;
    } else if (!describe_here(e, set, w->path, w->a, w->st)) {
        return qc_where(w->st, "data set '%s'", w->path);
    }
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
        ok = ok && enter(&news, &w->visited, info.addr, w->st);
        if (ok && news) ok = walk_group(w, object, length, depth + 1);
    }
    return ok;
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
        static const int64_t none[1];
        struct qc_data_entry *e = &w->entries[w->count];
        *e = (struct qc_data_entry){.type = "group", .dims = none, .storage = "samples that cannot be read"};
        *done = why.code == QC_OK ? h5_describe_group(e, &s, w->path, w->a, w->st)
                                  : (e->name = qc_arena_strdup(w->a, w->path, w->st)) != NULL;
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
    ok = ok && enter(&news, &w.visited, info.addr, st) && walk_group(&w, root, 0, 0);
    free(w.visited.slots);
    free(w.path);
    if (!ok) return false;
    *out = (struct qc_data_list){.entries = w.entries, .count = w.count};
    return true;
}
