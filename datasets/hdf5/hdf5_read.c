// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/scope.h"
#include "datasets/hdf5/hdf5_lib.h"

enum { CHUNK_CACHE_MAX = 256 << 20 }; /* bytes per data set whose chunks are not rows */

/* Fails if this HDF5 lacks a filter of the set. Notes shuffle and deflate in s; *ours: there are no others, and shuffle
   comes first. */
static bool look_at_filters(struct qc_h5_set *s, bool *ours, hid_t creation, struct qc_status *st)
{
    const int filters = H5Pget_nfilters(creation);
    *ours = true;
    s->shuffle = s->deflate = -1;
    for (int i = 0; i < filters; i++) {
        unsigned flags;
        size_t none = 0;
        char name[64] = "";
        H5Z_filter_t id = H5Pget_filter2(creation, (unsigned)i, &flags, &none, NULL, sizeof name, name, NULL);
        if (id < 0) return qc_h5_fail(st, QC_BAD_INPUT, "damaged filter list");
        if (H5Zfilter_avail(id) <= 0)
            return qc_fail(st, QC_UNSUPPORTED,
                           "it is packed with filter %d (%s), which the HDF5 library here does not have; store it with "
                           "gzip or unpacked, or set HDF5_PLUGIN_PATH",
                           (int)id, name[0] ? name : "unnamed");
        if (id == H5Z_FILTER_SHUFFLE && s->shuffle < 0 && s->deflate < 0)
            s->shuffle = i;
        else if (id == H5Z_FILTER_DEFLATE && s->deflate < 0)
            s->deflate = i;
        else
            *ours = false;
    }
    return true;
}

/* Notes the filters; sets s->raw if each chunk is one row and we can undo the filters. */
static bool look_at_storage(struct qc_h5_set *s, size_t *cache, hid_t creation, bool same_type, struct qc_status *st)
{
    hsize_t chunk[QC_DATA_RANK_MAX];
    bool ours;
    if (!look_at_filters(s, &ours, creation, st)) return false;
    *cache = 0;
    if (H5Pget_layout(creation) != H5D_CHUNKED) return true;
    if (H5Pget_chunk(creation, QC_DATA_RANK_MAX, chunk) != (int)s->rank)
        return qc_h5_fail(st, QC_BAD_INPUT, "damaged chunk shape");
    bool rows = chunk[0] == 1;
    size_t bytes = s->element;
    for (unsigned i = 0; i < s->rank; i++) {
        size_t across = (size_t)chunk[i];
        rows = rows && (i == 0 || (int64_t)chunk[i] == s->dims[i]);
        /* all chunks that a row touches */
        if (chunk[i] == 0 || (i > 0 && !qc_mul_size(&across, across, ((size_t)s->dims[i] + across - 1) / across)) ||
            !qc_mul_size(&bytes, bytes, across))
            bytes = SIZE_MAX / 2 < bytes ? bytes : SIZE_MAX / 2;
    }
    s->raw = rows && ours && same_type;
    *cache = s->raw ? 0 : bytes < CHUNK_CACHE_MAX ? bytes : CHUNK_CACHE_MAX;
    return true;
}

/* Counts the chunks of a data set (1 if it has none) and those that a write reached, which allocates their storage. */
static void count_written(size_t *pieces, size_t *written, hsize_t *chunk, hid_t set, hid_t space, hid_t creation)
{
    hsize_t dims[H5S_MAX_RANK], count = 0;
    const H5D_layout_t layout = H5Pget_layout(creation);
    const int rank = H5Sget_simple_extent_dims(space, dims, NULL);
    *chunk = 0;
    *pieces = H5Sget_simple_extent_npoints(space) > 0;
    *written = *pieces && (layout == H5D_VIRTUAL || H5Dget_storage_size(set) > 0);
    if (layout != H5D_CHUNKED || !*written || H5Pget_chunk(creation, H5S_MAX_RANK, chunk) != rank) return;
    for (int i = 0; i < rank; i++)
        if (!chunk[i] || !qc_mul_size(pieces, *pieces, (size_t)((dims[i] + chunk[i] - 1) / chunk[i])))
            *pieces = SIZE_MAX;
    if (H5Dget_num_chunks(set, space, &count) >= 0) *written = (size_t)count;
}

/* Returns the first entry of axis 0 in a chunk that was never written, of which there is one. */
static int64_t first_hole(const struct qc_h5_set *s, const hsize_t *chunk)
{
    hsize_t at[QC_DATA_RANK_MAX] = {0}, bytes = 0;
    while (H5Dget_chunk_storage_size((hid_t)s->id, at, &bytes) >= 0 && bytes > 0) {
        unsigned i = s->rank - 1;
        for (; i > 0 && (int64_t)(at[i] + chunk[i]) >= s->dims[i]; i--) at[i] = 0;
        at[i] += chunk[i];
        bytes = 0;
        if ((int64_t)at[0] >= s->dims[0]) return 0; /* a damaged index */
    }
    return (int64_t)at[0];
}

/* Sets how elements of a type are read. */
static bool take_type(struct qc_h5_element *e, struct qc_h5_set *s, hid_t type, struct qc_status *st)
{
    qc_h5_element_of(e, type);
    if (e->dtype == QC_NONE)
        return qc_fail(st, QC_UNSUPPORTED,
                       "its element type (%s) is neither an integer nor a float of up to 64 bits; store numbers",
                       e->type);
    s->dtype = e->dtype;
    s->element = qc_dtype_size(e->dtype);
    s->way = e->way;
    s->bits = e->bits;
    s->memory_type = qc_h5_memory_type(e, type);
    return s->memory_type > 0 || qc_h5_fail(st, QC_BAD_INPUT, "damaged type");
}

/* Converts values read by HDF5 for s->way to s->dtype. */
static void as_wanted(void *out, const void *data, size_t count, const struct qc_h5_set *s)
{
    const long double *wide = data;
    if (s->way == QC_H5_PACKED) qc_h5_unpack(out, data, count, s->element, &s->bits);
    for (size_t i = 0; s->way == QC_H5_WIDE && i < count; i++) ((float *)out)[i] = (float)wide[i];
}

/* Samples of different sizes: a group with a data set for each, or a data set of sequences (H5T_VLEN). */

struct qc_h5_ragged {
    struct qc_h5_names names; /* of a group's members, in order; empty for sequences */
    int64_t *sizes;
    const struct qc_h5_file *file;
};

bool qc_h5_like_samples(const struct qc_h5_names *n)
{
    bool numbers = n->count > 0;
    for (size_t i = 0; i < n->count && numbers; i++) {
        const char *name = n->text + n->list[i].at;
        numbers = *name && strspn(name, "0123456789") == strlen(name);
    }
    return numbers || n->count > QC_H5_MEMBERS_LISTED;
}

void qc_h5_ragged_free(struct qc_h5_ragged *r)
{
    if (!r) return;
    qc_h5_names_free(&r->names);
    free(r->sizes);
    free(r);
}

struct member {
    const char *text;
    struct qc_h5_name name;
};

/* Natural order: numbers in names compare by value ("a2" before "a10"); 02 comes after 2. */
static int by_name(const void *left, const void *right)
{
    static const char digits[] = "0123456789";
    const char *a = ((const struct member *)left)->text, *b = ((const struct member *)right)->text, *x = a, *y = b;
    while (*x && *y) {
        if (strchr(digits, *x) && strchr(digits, *y)) {
            x += strspn(x, "0");
            y += strspn(y, "0");
            const size_t n = strspn(x, digits), m = strspn(y, digits);
            const int order = n != m ? (n > m) - (n < m) : strncmp(x, y, n);
            if (order) return order;
            x += n;
            y += m;
        } else if (*x != *y) {
            return (unsigned char)*x < (unsigned char)*y ? -1 : 1;
        } else {
            x++;
            y++;
        }
    }
    return *x ? 1 : *y ? -1 : strcmp(a, b);
}

static const char *name_of(const struct qc_h5_ragged *r, size_t i)
{
    return r->names.text + r->names.list[i].at;
}

/* Opens a member, which must be a data set of this file. */
static hid_t open_member(const struct qc_h5_set *s, const struct qc_h5_file *f, const char *name, struct qc_status *st)
{
    struct qc_h5_elsewhere e = {.follow = f->follow};
    QC_H5_OWN way = qc_h5_link_access(&e);
    const hid_t object = H5Oopen((hid_t)s->id, name, way);
    bool ok = true;
    if (e.refused)
        ok = qc_h5_refuse(&e, st);
    else if (object < 0)
        ok = qc_h5_fail(st, QC_BAD_INPUT, "it cannot be opened: it is a broken link, or the file is damaged");
    else if (H5Iget_type(object) != H5I_DATASET)
        ok = qc_fail(st, QC_BAD_INPUT,
                     "it is not a data set; a group of samples holds one data set for each sample and nothing else");
    else if (!qc_h5_is_here(&e, object, f->path))
        ok = qc_h5_refuse(&e, st);
    if (!ok && object >= 0) H5Oclose(object);
    return ok ? object : -1;
}

static bool same_type(const struct qc_h5_set *s, hid_t first, hid_t type, struct qc_status *st)
{
    struct qc_h5_element e;
    qc_h5_element_of(&e, type);
    return (e.dtype == s->dtype && e.way == s->way && (e.way == QC_H5_PLAIN || H5Tequal(first, type) > 0)) ||
           qc_fail(st, QC_BAD_INPUT, "it holds %s, and the first one %s; store all samples in one type", e.type,
                   qc_dtype_long_name(s->dtype));
}

/* Checks type and shape of member i. *first: the type of member 0, -1 until it is known. */
static bool look_at_member(struct qc_h5_set *s, hid_t *first, size_t i, struct qc_status *st)
{
    struct qc_h5_ragged *r = s->ragged;
    hsize_t dims[H5S_MAX_RANK];
    QC_H5_OWN set = open_member(s, r->file, name_of(r, i), st);
    if (set < 0) return false;
    QC_H5_OWN type = H5Dget_type(set), space = H5Dget_space(set);
    const int rank = H5Sget_simple_extent_ndims(space);
    bool ok = type >= 0 && rank >= 0 && H5Sget_simple_extent_dims(space, dims, NULL) == rank;
    if (!ok) qc_h5_fail(st, QC_BAD_INPUT, "damaged data set");
    if (ok && i == 0 && H5Aexists(set, "name") > 0) /* data_writer.h gives each output this attribute */
        ok = qc_fail(st, QC_BAD_INPUT, "it is an output of a model, not a sample");
    if (ok && *first < 0) {
        struct qc_h5_element e;
        bool ignored;
        QC_H5_OWN creation = H5Dget_create_plist(set);
        ok = take_type(&e, s, type, st) &&
             (look_at_filters(s, &ignored, creation, st) || qc_h5_fail(st, QC_BAD_INPUT, "damaged type"));
    } else if (ok) {
        ok = same_type(s, *first, type, st);
    }
    if (ok && *first < 0) {
        size_t bytes;
        s->rank = (unsigned)rank + 1;
        ok = rank < QC_DATA_RANK_MAX || qc_fail(st, QC_UNSUPPORTED, "it has %d axes", rank);
        ok = ok && qc_mul_size(&bytes, r->names.count * sizeof *r->sizes, (size_t)rank + 1) &&
             ((r->sizes = malloc(bytes)) != NULL || qc_fail_memory(st, bytes));
        *first = type;
        type = -1;
    }
    if (ok && (unsigned)rank != s->rank - 1)
        ok = qc_fail(st, QC_BAD_INPUT, "it has %d axes, and the first one %u", rank, s->rank - 1);
    for (int d = 0; ok && d < rank; d++) {
        ok = dims[d] <= INT64_MAX;
        r->sizes[i * (size_t)rank + (size_t)d] = (int64_t)dims[d];
    }
    if (ok) {
        /* Counts member i as written if all of it is. */
        hsize_t chunk[H5S_MAX_RANK];
        size_t pieces, written;
        QC_H5_OWN creation = H5Dget_create_plist(set);
        count_written(&pieces, &written, chunk, set, space, creation);
        if (i == 0) s->first_unwritten = -1;
        s->pieces++;
        if (written >= pieces)
            s->written++;
        else if (s->first_unwritten < 0)
            s->first_unwritten = (int64_t)i;
    }
    return ok;
}

/* Fills dims and sizes of a set from the shapes of its entries. */
static bool settle(struct qc_h5_set *s, size_t count, struct qc_status *st)
{
    bool same;
    s->dims[0] = (int64_t)count;
    s->sizes = s->ragged->sizes;
    return (qc_entry_sizes(s->dims + 1, &s->row_elements, &same, s->sizes, count, s->rank - 1) &&
            qc_mul_size(&s->row_bytes, s->row_elements, s->element)) ||
           qc_fail(st, QC_BAD_INPUT, "its shape is larger than any memory");
}

static bool begin(struct qc_h5_set *s, const struct qc_h5_file *f, struct qc_status *st)
{
    s->shuffle = s->deflate = -1;
    if (!(s->ragged = calloc(1, sizeof *s->ragged))) return qc_fail_memory(st, sizeof *s->ragged);
    s->ragged->file = f;
    return true;
}

bool qc_h5_group_open(struct qc_h5_set *s, const struct qc_h5_file *f, struct qc_status *st)
{
    QC_H5_OWN first = -1;
    if (!begin(s, f, st)) return false;
    struct qc_h5_ragged *r = s->ragged;
    s->grouped = true;
    if (!qc_h5_names_of(&r->names, (hid_t)s->id, st)) return false;
    if (r->names.count == 0) return qc_fail(st, QC_BAD_INPUT, "it is an empty group; it holds no samples");
    if (r->names.count > QC_DATA_LINKS_MAX)
        return qc_fail(st, QC_UNSUPPORTED, "more than %d names in one group", QC_DATA_LINKS_MAX);
    struct qc_h5_names *n = &r->names;
    QC_FREED struct member *all = calloc(n->count, sizeof *all);
    if (!all) return qc_fail_memory(st, n->count * sizeof *all);
    for (size_t i = 0; i < n->count; i++) all[i] = (struct member){.text = n->text + n->list[i].at, .name = n->list[i]};
    qsort(all, n->count, sizeof *all, by_name);
    for (size_t i = 0; i < n->count; i++) n->list[i] = all[i].name;
    bool ok = true;
    for (size_t i = 0; ok && i < n->count; i++)
        ok = look_at_member(s, &first, i, st) || qc_where(st, "sample '%s'", name_of(r, i));
    return ok && settle(s, n->count, st);
}

/* Reads one sequence, which the caller frees: its elements are numbers, and HDF5 allocates with malloc by default. */
static bool read_sequence(hvl_t *out, const struct qc_h5_set *s, hid_t type, size_t i)
{
    const hsize_t start = i, one = 1;
    QC_H5_OWN from = H5Dget_space((hid_t)s->id), to = H5Screate_simple(1, &one, NULL);
    *out = (hvl_t){.len = 0};
    return from >= 0 && to >= 0 && H5Sselect_hyperslab(from, H5S_SELECT_SET, &start, NULL, &one, NULL) >= 0 &&
           H5Dread((hid_t)s->id, type, to, from, H5P_DEFAULT, out) >= 0;
}

/* Opens a data set of sequences, as qc_h5_group_open does. */
static bool open_sequences(struct qc_h5_set *s, hid_t type, hid_t space, struct qc_status *st)
{
    hsize_t count = 0;
    hvl_t v;
    if (!begin(s, NULL, st)) return false;
    if (H5Sget_simple_extent_ndims(space) != 1 || H5Sget_simple_extent_dims(space, &count, NULL) != 1)
        return qc_fail(st, QC_UNSUPPORTED, "it holds sequences of variable length in another shape than one axis");
    struct qc_h5_element e;
    QC_H5_OWN base = H5Tget_super(type);
    if (base < 0 || !take_type(&e, s, base, st)) return false;
    if (count > QC_DATA_LINKS_MAX)
        return qc_fail(st, QC_UNSUPPORTED, "more than %d sequences of variable length", QC_DATA_LINKS_MAX);
    s->rank = 2;
    const size_t bytes = ((size_t)count + 1) * sizeof *s->ragged->sizes;
    if (!(s->ragged->sizes = malloc(bytes))) return qc_fail_memory(st, bytes);
    QC_H5_OWN memory = H5Tvlen_create((hid_t)s->memory_type);
    for (size_t i = 0; i < count; i++) {
        if (memory < 0 || !read_sequence(&v, s, memory, i))
            return qc_h5_fail(st, QC_BAD_INPUT, "its values cannot be read; the file is damaged");
        s->ragged->sizes[i] = v.len > INT64_MAX ? -1 : (int64_t)v.len;
        free(v.p);
    }
    return settle(s, (size_t)count, st);
}

/* ---- Reading ---- */

static bool read_vlen(void *out, const struct qc_h5_set *s, size_t i, size_t count)
{
    hvl_t v;
    QC_H5_OWN memory = H5Tvlen_create((hid_t)s->memory_type);
    if (memory < 0 || !read_sequence(&v, s, memory, i)) return false;
    const bool ok = v.len == count;
    if (ok && s->way == QC_H5_PLAIN && count)
        memcpy(out, v.p, count * s->element);
    else if (ok)
        as_wanted(out, v.p, count, s);
    free(v.p);
    return ok;
}

static bool read_member(void *out, const struct qc_h5_set *s, size_t i, size_t count, struct qc_status *st)
{
    const size_t each = s->way == QC_H5_WIDE ? sizeof(long double) : s->way == QC_H5_PACKED ? s->bits.size : 0;
    size_t bytes;
    QC_FREED void *data = NULL;
    QC_H5_OWN set = open_member(s, s->ragged->file, name_of(s->ragged, i), st);
    if (set < 0) return false;
    QC_H5_OWN space = H5Dget_space(set);
    bool ok = space >= 0 && H5Sget_simple_extent_npoints(space) == (hssize_t)count; /* out has no more */
    if (ok && each) ok = qc_mul_size(&bytes, count, each) && (data = malloc(bytes + 1)) != NULL;
    ok = ok &&
         (count == 0 || H5Dread(set, (hid_t)s->memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, each ? data : out) >= 0);
    if (ok && each) as_wanted(out, data, count, s);
    return ok;
}

static bool read_ragged(void *out, const struct qc_h5_set *s, int64_t first, int64_t count, struct qc_status *st)
{
    const unsigned rank = s->rank - 1;
    const struct qc_h5_ragged *r = s->ragged;
    char *to = out;
    bool ok = true;
    QC_H5_LOCKED;
    for (size_t i = (size_t)first; ok && i < (size_t)(first + count); i++) {
        const size_t n = qc_entry_elements(r->sizes + i * rank, rank);
        ok = r->names.count ? read_member(to, s, i, n, st) : read_vlen(to, s, i, n);
        if (!ok && st->code == QC_OK) qc_h5_fail(st, QC_BAD_INPUT, "its values cannot be read; the file is damaged");
        to += n * s->element;
    }
    return ok;
}

static bool set_open(struct qc_h5_set *s, struct qc_h5_file *f, const char *name, struct qc_status *st)
{
    hsize_t dims[H5S_MAX_RANK];
    struct qc_h5_element element;
    size_t cache;
    struct qc_h5_elsewhere e = {.follow = f->follow};
    QC_H5_OWN way = qc_h5_link_access(&e);
    const hid_t object = H5Oopen(f->id, name, way);
    s->id = object;
    s->stored = SIZE_MAX;
    if (e.refused) return qc_h5_refuse(&e, st);
    if (object >= 0 && H5Iget_type(object) == H5I_GROUP) return qc_h5_group_open(s, f, st);
    if (object < 0 || H5Iget_type(object) != H5I_DATASET) return qc_h5_fail(st, QC_BAD_INPUT, "damaged data set");
    if (!qc_h5_is_here(&e, object, f->path)) return qc_h5_refuse(&e, st);
    QC_H5_OWN type = H5Dget_type(object), space = H5Dget_space(object), creation = H5Dget_create_plist(object);
    if (H5Tget_class(type) == H5T_VLEN) {
        bool ignored;
        return look_at_filters(s, &ignored, creation, st) && open_sequences(s, type, space, st);
    }
    if (!take_type(&element, s, type, st)) return false;
    int rank = H5Sget_simple_extent_ndims(space);
    if (rank < 0 || H5Sget_simple_extent_dims(space, dims, NULL) != rank)
        return qc_h5_fail(st, QC_BAD_INPUT, "damaged data set");
    if (rank == 0) return qc_fail(st, QC_BAD_INPUT, "it is a single value; the first axis must be the sample");
    s->rank = (unsigned)rank;
    s->row_elements = 1;
    for (unsigned i = 0; i < s->rank; i++) {
        s->dims[i] = (int64_t)dims[i];
        if (dims[i] > INT64_MAX || (i > 0 && !qc_mul_size(&s->row_elements, s->row_elements, (size_t)dims[i])))
            return qc_fail(st, QC_BAD_INPUT, "its shape is larger than any memory");
    }
    if (!qc_mul_size(&s->row_bytes, s->row_elements, s->element))
        return qc_fail(st, QC_BAD_INPUT, "its shape is larger than any memory");
    if (f->follow == QC_FOLLOW_NOTHING && H5Pget_layout(creation) != H5D_VIRTUAL)
        s->stored = (size_t)H5Dget_storage_size(object); /* else values may be in other data sets or files */
    count_written(&s->pieces, &s->written, dims, object, space, creation);
    s->first_unwritten = s->written >= s->pieces ? -1 : s->written ? first_hole(s, dims) : 0;
    if (!look_at_storage(s, &cache, creation, qc_h5_stored_so(&element, type, (hid_t)s->memory_type), st)) return false;
    QC_H5_OWN access = H5Pcreate(H5P_DATASET_ACCESS); /* links on its path were checked before */
    H5Pset_chunk_cache(access, 12421, cache, 1.0);
    H5Dclose((hid_t)s->id);
    s->id = H5Dopen2(f->id, name, access);
    return s->id >= 0 || qc_h5_fail(st, QC_BAD_INPUT, "damaged data set");
}

bool qc_h5_set_open(struct qc_h5_set *out, struct qc_h5_file *f, const char *name, struct qc_status *st)
{
    struct qc_h5_set s = {.id = 0};
    QC_H5_LOCKED;
    const bool ok = set_open(&s, f, name, st);
    if (ok)
        *out = s;
    else {
        if (s.memory_type > 0) H5Tclose((hid_t)s.memory_type);
        if (s.id > 0) H5Oclose((hid_t)s.id);
        qc_h5_ragged_free(s.ragged);
    }
    return ok;
}

/* Reads rows that need a conversion of our own. */
static bool read_and_convert(void *out, const struct qc_h5_set *s, size_t rows, hid_t to, hid_t from,
                             struct qc_status *st)
{
    size_t count, bytes;
    QC_FREED void *data = qc_mul_size(&count, rows, s->row_elements) &&
                                  qc_mul_size(&bytes, count, s->way == QC_H5_WIDE ? sizeof(long double) : s->bits.size)
                              ? malloc(bytes)
                              : NULL;
    if (!data) return qc_fail_memory(st, rows);
    if (H5Dread((hid_t)s->id, (hid_t)s->memory_type, to, from, H5P_DEFAULT, data) < 0) return false;
    as_wanted(out, data, count, s);
    return true;
}

bool qc_h5_read_rows(void *out, const struct qc_h5_set *s, int64_t first, int64_t count, struct qc_status *st)
{
    hsize_t start[QC_DATA_RANK_MAX] = {0}, extent[QC_DATA_RANK_MAX];
    if (s->ragged) return read_ragged(out, s, first, count, st);
    for (unsigned i = 0; i < s->rank; i++) extent[i] = (hsize_t)(i ? s->dims[i] : count);
    start[0] = (hsize_t)first;
    QC_H5_LOCKED;
    QC_H5_OWN from = H5Dget_space((hid_t)s->id), to = H5Screate_simple((int)s->rank, extent, NULL);
    return (from >= 0 && to >= 0 && H5Sselect_hyperslab(from, H5S_SELECT_SET, start, NULL, extent, NULL) >= 0 &&
            (s->way != QC_H5_PLAIN ? read_and_convert(out, s, (size_t)count, to, from, st)
                                   : H5Dread((hid_t)s->id, (hid_t)s->memory_type, to, from, H5P_DEFAULT, out) >= 0)) ||
           qc_h5_fail(st, QC_BAD_INPUT, "its values cannot be read; the file is damaged");
}

bool qc_h5_chunk_bytes(size_t *size, const struct qc_h5_set *s, int64_t row, struct qc_status *st)
{
    hsize_t start[QC_DATA_RANK_MAX] = {(hsize_t)row}, bytes = 0;
    QC_H5_LOCKED;
    /* HDF5 1.10 fails for a chunk that was never written; later versions return 0. A damaged index fails in
       qc_h5_read_rows. */
    if (H5Dget_chunk_storage_size((hid_t)s->id, start, &bytes) < 0) bytes = 0;
    *size = (size_t)bytes;
    /* A deflate stream exceeds its data by a few bytes per 16 KiB at most. */
    return bytes <= s->row_bytes + s->row_bytes / 16 + 4096 ||
           qc_fail(st, QC_BAD_INPUT, "its chunk has %" PRIu64 " bytes for %zu bytes of values; the file is damaged",
                   (uint64_t)bytes, s->row_bytes);
}

bool qc_h5_read_chunk(void *out, uint32_t *mask, const struct qc_h5_set *s, int64_t row, struct qc_status *st)
{
    hsize_t start[QC_DATA_RANK_MAX] = {(hsize_t)row};
    QC_H5_LOCKED;
    return H5Dread_chunk((hid_t)s->id, H5P_DEFAULT, start, mask, out) >= 0 ||
           qc_h5_fail(st, QC_BAD_INPUT, "its chunk cannot be read; the file is damaged");
}

bool qc_h5_numbers(long double **values, size_t *count, const struct qc_h5_set *s, const char *name,
                   struct qc_status *st)
{
    *count = 0;
    QC_H5_LOCKED;
    const htri_t there = H5Aexists((hid_t)s->id, name);
    QC_H5_OWN attribute = there > 0 ? H5Aopen((hid_t)s->id, name, H5P_DEFAULT) : -1;
    return there == 0 || (attribute >= 0 && qc_h5_attribute_numbers(values, count, attribute)) ||
           qc_fail(st, QC_BAD_INPUT, "its attribute '%s' is not a list of numbers; correct it or use --preprocess",
                   name);
}

bool qc_h5_text(char **text, const struct qc_h5_set *s, const char *name, struct qc_status *st)
{
    *text = NULL;
    QC_H5_LOCKED;
    const htri_t there = H5Aexists((hid_t)s->id, name);
    QC_H5_OWN attribute = there > 0 ? H5Aopen((hid_t)s->id, name, H5P_DEFAULT) : -1;
    if (attribute >= 0) *text = qc_h5_attribute_string(attribute);
    return there == 0 || *text ||
           qc_fail(st, QC_BAD_INPUT, "its attribute '%s' is not a text; correct it or use --preprocess", name);
}
