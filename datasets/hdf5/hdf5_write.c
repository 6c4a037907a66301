// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "datasets/hdf5/chunk_codec.h"
#include "datasets/hdf5/hdf5_lib.h"
#include "graph/types/number_format.h"

hid_t qc_h5_type_for_file(enum qc_dtype e)
{
    switch (e) {
    case QC_F32: return H5Tcopy(H5T_IEEE_F32LE);
    case QC_F64: return H5Tcopy(H5T_IEEE_F64LE);
    case QC_F16: return qc_h5_make_float16(5, 10, 15);
    case QC_BF16: return qc_h5_make_float16(8, 7, 127);
    case QC_U8:
    case QC_U4:
    case QC_U2: return H5Tcopy(H5T_STD_U8LE);
    case QC_I8:
    case QC_I4:
    case QC_I2: return H5Tcopy(H5T_STD_I8LE);
    case QC_U16: return H5Tcopy(H5T_STD_U16LE);
    case QC_I16: return H5Tcopy(H5T_STD_I16LE);
    case QC_I32: return H5Tcopy(H5T_STD_I32LE);
    case QC_I64: return H5Tcopy(H5T_STD_I64LE);
    case QC_U32: return H5Tcopy(H5T_STD_U32LE);
    case QC_U64: return H5Tcopy(H5T_STD_U64LE);
    case QC_BOOL: {
        signed char no = 0, yes = 1;
        hid_t t = H5Tenum_create(H5T_STD_I8LE);
        H5Tenum_insert(t, "FALSE", &no);
        H5Tenum_insert(t, "TRUE", &yes);
        return t;
    }
    QC_CASE_SMALL_FLOATS: /* the writer widens them */
    case QC_NONE:
    case QC_DTYPE_COUNT: break;
    }
    return -1;
}

hid_t qc_h5_text_type(size_t size)
{
    hid_t t = H5Tcopy(H5T_C_S1);
    H5Tset_size(t, size ? size : 1);
    H5Tset_strpad(t, H5T_STR_NULLPAD);
    H5Tset_cset(t, H5T_CSET_UTF8);
    return t;
}

static bool write_title(hid_t set, const char *title)
{
    QC_H5_OWN type = qc_h5_text_type(strlen(title)), space = H5Screate(H5S_SCALAR);
    QC_H5_OWN a = H5Acreate2(set, "name", type, space, H5P_DEFAULT, H5P_DEFAULT);
    return a >= 0 && H5Awrite(a, type, title) >= 0;
}

/* compressed: chunks as qc_chunk_encode makes them. */
static bool set_chunks(hid_t creation, unsigned rank, const hsize_t *chunk, enum qc_dtype dtype, bool compressed)
{
    return H5Pset_chunk(creation, (int)rank, chunk) >= 0 && H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER) >= 0 &&
           (!compressed || ((qc_dtype_size(dtype) == 1 || H5Pset_shuffle(creation) >= 0) &&
                            H5Pset_deflate(creation, QC_CHUNK_LEVEL) >= 0));
}

bool qc_h5_sink_open(struct qc_h5_sink *out, struct qc_h5_file *f, const struct qc_h5_sink_form *form,
                     struct qc_status *st)
{
    const unsigned rank = form->rank;
    const int64_t *dims = form->dims;
    if (rank + 1 > QC_DATA_RANK_MAX) return qc_fail(st, QC_UNSUPPORTED, "rank %u is too much for HDF5", rank);
    hsize_t none[QC_DATA_RANK_MAX] = {0}, most[QC_DATA_RANK_MAX] = {H5S_UNLIMITED}, chunk[QC_DATA_RANK_MAX] = {1};
    struct qc_h5_sink s = {.rank = rank + 1, .dtype = form->dtype, .compressed = form->compressed};
    for (unsigned i = 0; i < rank; i++) {
        none[i + 1] = most[i + 1] = (hsize_t)dims[i];
        chunk[i + 1] = dims[i] ? (hsize_t)dims[i] : 1;
        s.dims[i + 1] = dims[i];
    }
    QC_H5_LOCKED;
    QC_H5_OWN space = H5Screate_simple((int)s.rank, none, most), type = qc_h5_type_for_file(form->dtype),
              creation = H5Pcreate(H5P_DATASET_CREATE), link = H5Pcreate(H5P_LINK_CREATE);
    bool ok = space >= 0 && type >= 0 && set_chunks(creation, s.rank, chunk, form->dtype, form->compressed) &&
              H5Pset_obj_track_times(creation, false) >= 0 && H5Pset_create_intermediate_group(link, 1) >= 0 &&
              (s.id = H5Dcreate2(f->id, form->path, type, space, link, creation, H5P_DEFAULT)) >= 0 &&
              write_title((hid_t)s.id, form->title);
    if (ok)
        *out = s;
    else
        qc_h5_fail(st, QC_MACHINE, "cannot make the data set");
    if (!ok && s.id > 0) H5Dclose((hid_t)s.id);
    return ok;
}

bool qc_h5_sink_numbers(struct qc_h5_sink *s, const char *name, const float *values, size_t count, struct qc_status *st)
{
    const hsize_t n = count;
    if (!count) return true;
    QC_H5_LOCKED;
    QC_H5_OWN space = H5Screate_simple(1, &n, NULL), a = -1;
    return (space >= 0 && (a = H5Acreate2((hid_t)s->id, name, H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT)) >= 0 &&
            H5Awrite(a, H5T_NATIVE_FLOAT, values) >= 0) ||
           qc_h5_fail(st, QC_MACHINE, "cannot write an attribute");
}

bool qc_h5_sink_append(struct qc_h5_sink *s, int64_t row, const void *data, size_t size, struct qc_status *st)
{
    hsize_t extent[QC_DATA_RANK_MAX], start[QC_DATA_RANK_MAX] = {(hsize_t)row};
    for (unsigned i = 0; i < s->rank; i++) extent[i] = (hsize_t)(i ? s->dims[i] : row + 1);
    QC_H5_LOCKED;
    return (H5Dset_extent((hid_t)s->id, extent) >= 0 &&
            (!data || H5Dwrite_chunk((hid_t)s->id, H5P_DEFAULT, 0, start, size, data) >= 0)) ||
           qc_h5_fail(st, QC_MACHINE, "cannot write; is the disk full?");
}

bool qc_h5_sink_close(struct qc_h5_sink *s, struct qc_status *st)
{
    if (s->id <= 0) return true;
    QC_H5_LOCKED;
    const bool ok = H5Oclose((hid_t)s->id) >= 0;
    s->id = 0;
    return ok || qc_h5_fail(st, QC_MACHINE, "cannot write; is the disk full?");
}

/* Results of different shapes: a group with one data set for each. The first different shape shows it, so earlier
   results are moved, chunk by chunk as stored. */

bool qc_h5_scatter_add(struct qc_h5_sink *s, int64_t row, const int64_t *dims, unsigned rank, const void *data,
                       size_t size, struct qc_status *st)
{
    hsize_t extent[QC_DATA_RANK_MAX], start[QC_DATA_RANK_MAX] = {0};
    char name[32];
    if (rank > QC_DATA_RANK_MAX) return qc_fail(st, QC_UNSUPPORTED, "rank %u is too much for HDF5", rank);
    for (unsigned i = 0; i < rank; i++) extent[i] = (hsize_t)dims[i];
    qc_text(name, sizeof name, "%lld", (long long)row);
    hid_t set = -1;
    QC_H5_LOCKED;
    QC_H5_OWN space = H5Screate_simple((int)rank, extent, NULL), type = qc_h5_type_for_file(s->dtype),
              creation = H5Pcreate(H5P_DATASET_CREATE);
    bool ok = space >= 0 && type >= 0 && H5Pset_obj_track_times(creation, false) >= 0;
    if (ok && data) ok = set_chunks(creation, rank, extent, s->dtype, s->compressed); /* one chunk */
    ok = ok && (set = H5Dcreate2((hid_t)s->id, name, type, space, H5P_DEFAULT, creation, H5P_DEFAULT)) >= 0 &&
         (!data || H5Dwrite_chunk(set, H5P_DEFAULT, 0, start, size, data) >= 0);
    if (set >= 0) ok = H5Dclose(set) >= 0 && ok;
    return ok || qc_h5_fail(st, QC_MACHINE, "cannot write; is the disk full?");
}

/* Returns the stored chunk of a row written before; NULL if it has no elements. */
static bool stored_chunk(void **data, hsize_t *size, const struct qc_h5_sink *s, int64_t row, struct qc_status *st)
{
    hsize_t start[QC_DATA_RANK_MAX] = {(hsize_t)row};
    uint32_t mask;
    *data = NULL;
    *size = 0;
    for (unsigned i = 1; i < s->rank; i++)
        if (s->dims[i] == 0) return true;
    QC_H5_LOCKED;
    return (H5Dget_chunk_storage_size((hid_t)s->id, start, size) >= 0 && (*data = malloc((size_t)*size + 1)) &&
            H5Dread_chunk((hid_t)s->id, H5P_DEFAULT, start, &mask, *data) >= 0) ||
           qc_h5_fail(st, QC_MACHINE, "cannot read what was written");
}

/* Copies an attribute to another object. */
static herr_t copy_attribute(hid_t from, const char *name, const H5A_info_t *info, void *user)
{
    const hid_t *to = user;
    QC_H5_OWN a = H5Aopen(from, name, H5P_DEFAULT), type = H5Aget_type(a), space = H5Aget_space(a), b = -1;
    const size_t bytes = (size_t)H5Aget_storage_size(a);
    QC_FREED void *value = malloc(bytes + 1);
    const bool ok = value && H5Aread(a, type, value) >= 0 &&
                    (b = H5Acreate2(*to, name, type, space, H5P_DEFAULT, H5P_DEFAULT)) >= 0 &&
                    H5Awrite(b, type, value) >= 0;
    return ok ? 0 : -1;
}

/* Creates the group in place of the data set, which loses its name. */
static bool make_group(hid_t *group, const struct qc_h5_sink *s, struct qc_h5_file *f, const char *path,
                       struct qc_status *st)
{
    hsize_t next = 0;
    QC_H5_LOCKED;
    QC_H5_OWN creation = H5Pcreate(H5P_GROUP_CREATE);
    *group = -1;
    const bool ok = H5Pset_obj_track_times(creation, false) >= 0 && H5Ldelete(f->id, path, H5P_DEFAULT) >= 0 &&
                    (*group = H5Gcreate2(f->id, path, H5P_DEFAULT, creation, H5P_DEFAULT)) >= 0 &&
                    H5Aiterate2((hid_t)s->id, H5_INDEX_NAME, H5_ITER_INC, &next, copy_attribute, group) >= 0;
    return ok || qc_h5_fail(st, QC_MACHINE, "cannot make the group");
}

bool qc_h5_scatter(struct qc_h5_sink *s, struct qc_h5_file *f, const char *path, int64_t rows, const int64_t *dims,
                   unsigned rank, struct qc_status *st)
{
    struct qc_h5_sink to = {.dtype = s->dtype, .compressed = s->compressed};
    hid_t group;
    bool ok = make_group(&group, s, f, path, st);
    to.id = group > 0 ? (int64_t)group : 0;
    for (int64_t i = 0; ok && i < rows; i++) {
        QC_FREED void *data = NULL;
        hsize_t size;
        ok = stored_chunk(&data, &size, s, i, st) && qc_h5_scatter_add(&to, i, dims, rank, data, (size_t)size, st);
    }
    ok = qc_h5_sink_close(s, st) && ok;
    *s = to;
    return ok;
}
