// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "datasets/hdf5/hdf5_lib.h"
#include "graph/types/small_float.h"

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

static bool write_title(hid_t set, const char *title)
{
    size_t n = strlen(title);
    hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
    H5Tset_size(type, n ? n : 1);
    H5Tset_strpad(type, H5T_STR_NULLPAD);
    H5Tset_cset(type, H5T_CSET_UTF8);
    hid_t a = H5Acreate2(set, "name", type, space, H5P_DEFAULT, H5P_DEFAULT);
    bool ok = a >= 0 && H5Awrite(a, type, title) >= 0;
    if (a >= 0) H5Aclose(a);
    H5Sclose(space);
    H5Tclose(type);
    return ok;
}

bool qc_h5_sink_open(struct qc_h5_sink *out, struct qc_h5_file *f, const char *path, const char *title,
                     enum qc_dtype dtype, const int64_t *dims, unsigned rank, struct qc_status *st)
{
    if (rank + 1 > QC_DATA_RANK_MAX) return qc_fail(st, QC_UNSUPPORTED, "rank %u is too much for HDF5", rank);
    hsize_t none[QC_DATA_RANK_MAX] = {0}, most[QC_DATA_RANK_MAX] = {H5S_UNLIMITED}, chunk[QC_DATA_RANK_MAX] = {1};
    struct qc_h5_sink s = {.rank = rank + 1, .dtype = dtype};
    for (unsigned i = 0; i < rank; i++) {
        none[i + 1] = most[i + 1] = (hsize_t)dims[i];
        chunk[i + 1] = dims[i] ? (hsize_t)dims[i] : 1;
        s.dims[i + 1] = dims[i];
    }
    qc_h5_enter();
    hid_t space = H5Screate_simple((int)s.rank, none, most), type = qc_h5_type_for_file(dtype);
    hid_t creation = H5Pcreate(H5P_DATASET_CREATE), link = H5Pcreate(H5P_LINK_CREATE);
    bool ok = space >= 0 && type >= 0 && H5Pset_chunk(creation, (int)s.rank, chunk) >= 0 &&
              H5Pset_obj_track_times(creation, false) >= 0 && H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER) >= 0 &&
              (qc_dtype_size(dtype) == 1 || H5Pset_shuffle(creation) >= 0) && H5Pset_deflate(creation, 4) >= 0 &&
              H5Pset_create_intermediate_group(link, 1) >= 0 &&
              (s.id = H5Dcreate2(f->id, path, type, space, link, creation, H5P_DEFAULT)) >= 0 &&
              write_title((hid_t)s.id, title);
    if (ok)
        *out = s;
    else
        qc_h5_fail(st, QC_MACHINE, "cannot make the data set");
    if (!ok && s.id > 0) H5Dclose((hid_t)s.id);
    H5Pclose(link);
    H5Pclose(creation);
    if (type >= 0) H5Tclose(type);
    if (space >= 0) H5Sclose(space);
    qc_h5_leave();
    return ok;
}

bool qc_h5_sink_numbers(struct qc_h5_sink *s, const char *name, const float *values, size_t count, struct qc_status *st)
{
    const hsize_t n = count;
    if (!count) return true;
    qc_h5_enter();
    hid_t space = H5Screate_simple(1, &n, NULL), a = -1;
    const bool ok = space >= 0 &&
                    (a = H5Acreate2((hid_t)s->id, name, H5T_IEEE_F32LE, space, H5P_DEFAULT, H5P_DEFAULT)) >= 0 &&
                    H5Awrite(a, H5T_NATIVE_FLOAT, values) >= 0;
    if (!ok) qc_h5_fail(st, QC_MACHINE, "cannot write an attribute");
    if (a >= 0) H5Aclose(a);
    if (space >= 0) H5Sclose(space);
    qc_h5_leave();
    return ok;
}

bool qc_h5_sink_append(struct qc_h5_sink *s, int64_t row, const void *data, size_t size, struct qc_status *st)
{
    hsize_t extent[QC_DATA_RANK_MAX], start[QC_DATA_RANK_MAX] = {(hsize_t)row};
    for (unsigned i = 0; i < s->rank; i++) extent[i] = (hsize_t)(i ? s->dims[i] : row + 1);
    qc_h5_enter();
    bool ok = H5Dset_extent((hid_t)s->id, extent) >= 0 &&
              (!data || H5Dwrite_chunk((hid_t)s->id, H5P_DEFAULT, 0, start, size, data) >= 0);
    if (!ok) qc_h5_fail(st, QC_MACHINE, "cannot write; is the disk full?");
    qc_h5_leave();
    return ok;
}

bool qc_h5_sink_close(struct qc_h5_sink *s, struct qc_status *st)
{
    if (s->id <= 0) return true;
    qc_h5_enter();
    bool ok = H5Oclose((hid_t)s->id) >= 0;
    if (!ok) qc_h5_fail(st, QC_MACHINE, "cannot write; is the disk full?");
    qc_h5_leave();
    s->id = 0;
    return ok;
}
