// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdlib.h>

#include "base/checked.h"
#include "datasets/hdf5/hdf5_lib.h"

enum { CHUNK_CACHE_MAX = 256 << 20 }; /* bytes per data set whose chunks are not rows */

bool qc_h5_look_at_filters(struct qc_h5_set *s, bool *ours, hid_t creation, struct qc_status *st)
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

/* Notes the filters; sets s->raw when chunks are rows and we can undo the filters ourselves. */
static bool look_at_storage(struct qc_h5_set *s, size_t *cache, hid_t creation, bool same_type, struct qc_status *st)
{
    hsize_t chunk[QC_DATA_RANK_MAX];
    bool ours;
    if (!qc_h5_look_at_filters(s, &ours, creation, st)) return false;
    *cache = 0;
    if (H5Pget_layout(creation) != H5D_CHUNKED) return true;
    if (H5Pget_chunk(creation, QC_DATA_RANK_MAX, chunk) != (int)s->rank)
        return qc_h5_fail(st, QC_BAD_INPUT, "damaged chunk shape");
    bool rows = chunk[0] == 1;
    size_t bytes = s->element;
    for (unsigned i = 0; i < s->rank; i++) {
        size_t across = (size_t)chunk[i];
        rows = rows && (i == 0 || (int64_t)chunk[i] == s->dims[i]);
        /* all the chunks that a row touches */
        if (chunk[i] == 0 || (i > 0 && !qc_mul_size(&across, across, ((size_t)s->dims[i] + across - 1) / across)) ||
            !qc_mul_size(&bytes, bytes, across))
            bytes = SIZE_MAX / 2 < bytes ? bytes : SIZE_MAX / 2;
    }
    s->raw = rows && ours && same_type;
    *cache = s->raw ? 0 : bytes < CHUNK_CACHE_MAX ? bytes : CHUNK_CACHE_MAX;
    return true;
}

/* Bytes that the file has of a data set. A virtual one may consist of others, here or, where links are followed, in
   other files. */
static size_t stored_bytes(hid_t set, hid_t creation, enum qc_follow follow)
{
    if (follow != QC_FOLLOW_NOTHING || H5Pget_layout(creation) == H5D_VIRTUAL) return SIZE_MAX;
    return (size_t)H5Dget_storage_size(set);
}

static bool reopen_with_cache(struct qc_h5_set *s, struct qc_h5_file *f, const char *name, size_t bytes,
                              struct qc_status *st)
{
    hid_t access = H5Pcreate(H5P_DATASET_ACCESS); /* the way to it has been looked at */
    H5Pset_chunk_cache(access, 12421, bytes, 1.0);
    H5Dclose((hid_t)s->id);
    s->id = H5Dopen2(f->id, name, access);
    H5Pclose(access);
    return s->id >= 0 || qc_h5_fail(st, QC_BAD_INPUT, "damaged data set");
}

static bool set_open(struct qc_h5_set *s, struct qc_h5_file *f, const char *name, struct qc_status *st)
{
    hsize_t dims[H5S_MAX_RANK];
    struct qc_h5_element element;
    size_t cache;
    struct qc_h5_elsewhere e = {.follow = f->follow};
    bool ok = false;
    hid_t way = qc_h5_link_access(&e);
    hid_t object = H5Oopen(f->id, name, way);
    H5Pclose(way);
    s->id = object;
    s->stored = SIZE_MAX;
    if (e.refused) return qc_h5_refuse(&e, st);
    if (object >= 0 && H5Iget_type(object) == H5I_GROUP) return qc_h5_group_open(s, f, st);
    if (object < 0 || H5Iget_type(object) != H5I_DATASET) return qc_h5_fail(st, QC_BAD_INPUT, "damaged data set");
    if (!qc_h5_is_here(&e, object, f->path)) return qc_h5_refuse(&e, st);
    hid_t type = H5Dget_type((hid_t)s->id), space = H5Dget_space((hid_t)s->id);
    hid_t creation = H5Dget_create_plist((hid_t)s->id);
    if (H5Tget_class(type) == H5T_VLEN) {
        bool ignored;
        ok = qc_h5_look_at_filters(s, &ignored, creation, st) && qc_h5_vlen_open(s, type, space, st);
        goto out;
    }
    qc_h5_element_of(&element, type);
    s->dtype = element.dtype;
    s->way = element.way;
    s->bits = element.bits;
    if (s->dtype == QC_NONE) {
        qc_fail(st, QC_UNSUPPORTED,
                "its element type (%s) is neither an integer nor a float of up to 64 bits; store numbers",
                element.type);
        goto out;
    }
    s->element = qc_dtype_size(s->dtype);
    s->memory_type = qc_h5_memory_type(&element, type);
    int rank = H5Sget_simple_extent_ndims(space);
    if (s->memory_type < 0 || rank < 0 || H5Sget_simple_extent_dims(space, dims, NULL) != rank) {
        qc_h5_fail(st, QC_BAD_INPUT, "damaged data set");
        goto out;
    }
    if (rank == 0) {
        qc_fail(st, QC_BAD_INPUT, "it is a single value; the first axis must be the sample");
        goto out;
    }
    s->rank = (unsigned)rank;
    s->row_elements = 1;
    for (unsigned i = 0; i < s->rank; i++) {
        s->dims[i] = (int64_t)dims[i];
        if (dims[i] > INT64_MAX || (i > 0 && !qc_mul_size(&s->row_elements, s->row_elements, (size_t)dims[i]))) {
            qc_fail(st, QC_BAD_INPUT, "its shape is larger than any memory");
            goto out;
        }
    }
    if (!qc_mul_size(&s->row_bytes, s->row_elements, s->element)) {
        qc_fail(st, QC_BAD_INPUT, "its shape is larger than any memory");
        goto out;
    }
    s->stored = stored_bytes((hid_t)s->id, creation, f->follow);
    ok = look_at_storage(s, &cache, creation, qc_h5_stored_so(&element, type, (hid_t)s->memory_type), st) &&
         reopen_with_cache(s, f, name, cache, st);
out:
    H5Pclose(creation);
    H5Sclose(space);
    H5Tclose(type);
    return ok;
}

static void set_close(struct qc_h5_set *s)
{
    if (s->memory_type > 0) H5Tclose((hid_t)s->memory_type);
    if (s->id > 0) H5Oclose((hid_t)s->id);
    qc_h5_ragged_free(s->ragged);
    *s = (struct qc_h5_set){.id = 0};
}

bool qc_h5_set_open(struct qc_h5_set *out, struct qc_h5_file *f, const char *name, struct qc_status *st)
{
    struct qc_h5_set s = {.id = 0};
    qc_h5_enter();
    bool ok = set_open(&s, f, name, st);
    if (ok)
        *out = s;
    else
        set_close(&s);
    qc_h5_leave();
    return ok;
}

void qc_h5_as_wanted(void *out, const void *data, size_t count, const struct qc_h5_set *s)
{
    const long double *wide = data;
    if (s->way == QC_H5_PACKED) qc_h5_unpack(out, data, count, s->element, &s->bits);
    for (size_t i = 0; s->way == QC_H5_WIDE && i < count; i++) ((float *)out)[i] = (float)wide[i];
}

/* Rows that are not wanted as HDF5 gives them. */
static bool read_and_convert(void *out, const struct qc_h5_set *s, size_t rows, hid_t to, hid_t from,
                             struct qc_status *st)
{
    size_t count, bytes;
    void *data = qc_mul_size(&count, rows, s->row_elements) &&
                         qc_mul_size(&bytes, count, s->way == QC_H5_WIDE ? sizeof(long double) : s->bits.size)
                     ? malloc(bytes)
                     : NULL;
    if (!data) return qc_fail_memory(st, rows);
    const bool ok = H5Dread((hid_t)s->id, (hid_t)s->memory_type, to, from, H5P_DEFAULT, data) >= 0;
    if (ok) qc_h5_as_wanted(out, data, count, s);
    free(data);
    return ok;
}

bool qc_h5_read_rows(void *out, const struct qc_h5_set *s, int64_t first, int64_t count, struct qc_status *st)
{
    hsize_t start[QC_DATA_RANK_MAX] = {0}, extent[QC_DATA_RANK_MAX];
    if (s->ragged) return qc_h5_ragged_read(out, s, first, count, st);
    for (unsigned i = 0; i < s->rank; i++) extent[i] = (hsize_t)(i ? s->dims[i] : count);
    start[0] = (hsize_t)first;
    qc_h5_enter();
    hid_t from = H5Dget_space((hid_t)s->id), to = H5Screate_simple((int)s->rank, extent, NULL);
    bool ok = from >= 0 && to >= 0 && H5Sselect_hyperslab(from, H5S_SELECT_SET, start, NULL, extent, NULL) >= 0 &&
              (s->way != QC_H5_PLAIN ? read_and_convert(out, s, (size_t)count, to, from, st)
                                     : H5Dread((hid_t)s->id, (hid_t)s->memory_type, to, from, H5P_DEFAULT, out) >= 0);
    if (!ok) qc_h5_fail(st, QC_BAD_INPUT, "its values cannot be read; the file is damaged");
    if (to >= 0) H5Sclose(to);
    if (from >= 0) H5Sclose(from);
    qc_h5_leave();
    return ok;
}

bool qc_h5_chunk_bytes(size_t *size, const struct qc_h5_set *s, int64_t row, struct qc_status *st)
{
    hsize_t start[QC_DATA_RANK_MAX] = {(hsize_t)row}, bytes = 0;
    qc_h5_enter();
    /* HDF5 1.10 fails for a chunk that was never written, later ones give 0. A damaged index fails in
       qc_h5_read_rows. */
    if (H5Dget_chunk_storage_size((hid_t)s->id, start, &bytes) < 0) bytes = 0;
    qc_h5_leave();
    *size = (size_t)bytes;
    /* No deflate stream is longer than its data by more than a few bytes per 16 KiB. */
    return bytes <= s->row_bytes + s->row_bytes / 16 + 4096 ||
           qc_fail(st, QC_BAD_INPUT, "its chunk has %" PRIu64 " bytes for %zu bytes of values; the file is damaged",
                   (uint64_t)bytes, s->row_bytes);
}

bool qc_h5_read_chunk(void *out, uint32_t *mask, const struct qc_h5_set *s, int64_t row, struct qc_status *st)
{
    hsize_t start[QC_DATA_RANK_MAX] = {(hsize_t)row};
    qc_h5_enter();
    const bool ok = H5Dread_chunk((hid_t)s->id, H5P_DEFAULT, start, mask, out) >= 0;
    if (!ok) qc_h5_fail(st, QC_BAD_INPUT, "its chunk cannot be read; the file is damaged");
    qc_h5_leave();
    return ok;
}

bool qc_h5_numbers(long double **values, size_t *count, const struct qc_h5_set *s, const char *name,
                   struct qc_status *st)
{
    *count = 0;
    qc_h5_enter();
    htri_t there = H5Aexists((hid_t)s->id, name);
    hid_t attribute = there > 0 ? H5Aopen((hid_t)s->id, name, H5P_DEFAULT) : -1;
    bool ok = there == 0 || (attribute >= 0 && qc_h5_attribute_numbers(values, count, attribute));
    if (!ok)
        qc_fail(st, QC_BAD_INPUT, "its attribute '%s' is not a list of numbers; correct it or use --preprocess", name);
    if (attribute >= 0) H5Aclose(attribute);
    qc_h5_leave();
    return ok;
}
