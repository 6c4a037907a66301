// SPDX-License-Identifier: Apache-2.0
#include "h5_make.h"
#include "tests/check.h"

#include <dirent.h>
#include <hdf5.h>

static hid_t half(void)
{
    hid_t t = H5Tcopy(H5T_IEEE_F32LE);
    H5Tset_fields(t, 15, 10, 5, 0, 10);
    H5Tset_size(t, 2);
    H5Tset_ebias(t, 15);
    return t;
}

static hid_t native_type(const char *name)
{
    char base[8] = "";
    strncpy(base, name, strcspn(name, "b") ? strcspn(name, "b") : 4); /* without "be", but "bool" whole */
    if (strcmp(base, "u8") == 0) return H5Tcopy(H5T_NATIVE_UINT8);
    if (strcmp(base, "i8") == 0) return H5Tcopy(H5T_NATIVE_INT8);
    if (strcmp(base, "u16") == 0) return H5Tcopy(H5T_NATIVE_UINT16);
    if (strcmp(base, "i16") == 0) return H5Tcopy(H5T_NATIVE_INT16);
    if (strcmp(base, "u32") == 0) return H5Tcopy(H5T_NATIVE_UINT32);
    if (strcmp(base, "i32") == 0) return H5Tcopy(H5T_NATIVE_INT32);
    if (strcmp(base, "u64") == 0) return H5Tcopy(H5T_NATIVE_UINT64);
    if (strcmp(base, "i64") == 0) return H5Tcopy(H5T_NATIVE_INT64);
    if (strcmp(base, "f32") == 0) return H5Tcopy(H5T_NATIVE_FLOAT);
    if (strcmp(base, "f64") == 0) return H5Tcopy(H5T_NATIVE_DOUBLE);
    if (strcmp(base, "f16") == 0) return half();
    if (strcmp(base, "bool") == 0) {
        signed char no = 0, yes = 1;
        hid_t t = H5Tenum_create(H5T_NATIVE_INT8);
        H5Tenum_insert(t, "FALSE", &no);
        H5Tenum_insert(t, "TRUE", &yes);
        return t;
    }
    cr_assert_fail("unknown type %s", name);
    return -1;
}

int64_t make_file(const char *path)
{
    hid_t f = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    cr_assert_geq(f, 0, "cannot create %s", path);
    return f;
}

void make_done(int64_t file)
{
    cr_assert_geq(H5Fclose((hid_t)file), 0);
}

void make_set(int64_t file, const struct made *m)
{
    hsize_t dims[5], chunk[5];
    for (unsigned i = 0; i < m->rank; i++) {
        dims[i] = (hsize_t)m->dims[i];
        chunk[i] = (hsize_t)m->chunk[i];
    }
    hid_t memory = native_type(m->type), type = H5Tcopy(memory), qparams = H5Screate_simple((int)m->rank, dims, NULL);
    if (strstr(m->type, "be")) H5Tset_order(type, H5T_ORDER_BE);
    hid_t creation = H5Pcreate(H5P_DATASET_CREATE), link = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(link, 1);
    if (m->chunk[0]) H5Pset_chunk(creation, (int)m->rank, chunk);
    if (m->shuffle) H5Pset_shuffle(creation);
    if (m->gzip) H5Pset_deflate(creation, 6);
    if (m->fletcher) H5Pset_fletcher32(creation);
    if (m->strange) H5Pset_filter(creation, m->strange, H5Z_FLAG_OPTIONAL, 0, NULL);
    hid_t set = H5Dcreate2((hid_t)file, m->name, type, qparams, link, creation, H5P_DEFAULT);
    cr_assert_geq(set, 0, "cannot make %s", m->name);
    if (m->data) cr_assert_geq(H5Dwrite(set, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, m->data), 0);
    H5Dclose(set);
    H5Pclose(link);
    H5Pclose(creation);
    H5Sclose(qparams);
    H5Tclose(type);
    H5Tclose(memory);
}

void make_numbers(int64_t file, const char *set, const char *name, const double *values, size_t count)
{
    hsize_t n = count;
    hid_t d = H5Dopen2((hid_t)file, set, H5P_DEFAULT);
    hid_t qparams = count == 1 ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &n, NULL);
    hid_t a = H5Acreate2(d, name, H5T_IEEE_F64LE, qparams, H5P_DEFAULT, H5P_DEFAULT);
    cr_assert_geq(H5Awrite(a, H5T_NATIVE_DOUBLE, values), 0);
    H5Aclose(a);
    H5Sclose(qparams);
    H5Dclose(d);
}

void make_text(int64_t file, const char *set, const char *name, const char *text)
{
    hid_t d = H5Dopen2((hid_t)file, set, H5P_DEFAULT), type = H5Tcopy(H5T_C_S1), qparams = H5Screate(H5S_SCALAR);
    H5Tset_size(type, H5T_VARIABLE); /* as h5py does */
    hid_t a = H5Acreate2(d, name, type, qparams, H5P_DEFAULT, H5P_DEFAULT);
    cr_assert_geq(H5Awrite(a, type, &text), 0);
    H5Aclose(a);
    H5Sclose(qparams);
    H5Tclose(type);
    H5Dclose(d);
}

void make_odd(int64_t file, const char *name, const char *kind)
{
    hsize_t n = 3;
    bool scalar = strcmp(kind, "scalar") == 0;
    hid_t type = -1, qparams = scalar ? H5Screate(H5S_SCALAR) : H5Screate_simple(1, &n, NULL);
    if (strcmp(kind, "group") == 0) {
        hid_t g = H5Gcreate2((hid_t)file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        cr_assert_geq(g, 0);
        H5Gclose(g);
        H5Sclose(qparams);
        return;
    }
    if (strcmp(kind, "string") == 0) {
        type = H5Tcopy(H5T_C_S1);
        H5Tset_size(type, 4);
    } else if (strcmp(kind, "compound") == 0) {
        type = H5Tcreate(H5T_COMPOUND, 8);
        H5Tinsert(type, "a", 0, H5T_STD_I32LE);
        H5Tinsert(type, "b", 4, H5T_STD_I32LE);
    } else if (strcmp(kind, "opaque") == 0) {
        type = H5Tcreate(H5T_OPAQUE, 3);
    } else {
        type = H5Tcopy(H5T_IEEE_F32LE);
    }
    hid_t d = H5Dcreate2((hid_t)file, name, type, qparams, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    cr_assert_geq(d, 0);
    H5Dclose(d);
    H5Tclose(type);
    H5Sclose(qparams);
}

void make_chunk(int64_t file, const char *set, int64_t row, uint32_t mask, const void *data, size_t size)
{
    hsize_t start[5] = {(hsize_t)row};
    hid_t d = H5Dopen2((hid_t)file, set, H5P_DEFAULT);
    cr_assert_geq(H5Dwrite_chunk(d, H5P_DEFAULT, mask, start, size, data), 0);
    H5Dclose(d);
}

unsigned read_back(double *out, size_t max, int64_t dims[8], char type[16], const char *path, const char *set)
{
    hid_t f = H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT);
    cr_assert_geq(f, 0, "HDF5 cannot open %s", path);
    hid_t d = H5Dopen2(f, set, H5P_DEFAULT);
    cr_assert_geq(d, 0, "no data set %s", set);
    hid_t qparams = H5Dget_space(d), t = H5Dget_type(d);
    hsize_t shape[8];
    int rank = H5Sget_simple_extent_dims(qparams, shape, NULL);
    hssize_t n = H5Sget_simple_extent_npoints(qparams);
    cr_assert(rank >= 0 && rank <= 8 && n >= 0 && (size_t)n <= max);
    for (int i = 0; i < rank; i++) dims[i] = (int64_t)shape[i];
    H5T_class_t class = H5Tget_class(t);
    snprintf(type, 16, "%c%zu",
             class == H5T_FLOAT            ? 'f'
             : class == H5T_ENUM           ? 'e'
             : H5Tget_sign(t) == H5T_SGN_2 ? 'i'
                                           : 'u',
             8 * H5Tget_size(t));
    cr_assert_geq(H5Dread(d, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, out), 0);
    H5Tclose(t);
    H5Sclose(qparams);
    H5Dclose(d);
    H5Fclose(f);
    return (unsigned)rank;
}

static char folder[64];

void folder_make(void)
{
    H5dont_atexit(); /* as the library does, which is not always the first to call HDF5 here */
    strcpy(folder, "/tmp/qcalib-test-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
}

const char *folder_path(const char *name)
{
    static char paths[8][400];
    static unsigned next;
    char *p = paths[next++ % 8];
    snprintf(p, sizeof *paths, "%s/%s", folder, name);
    return p;
}

size_t folder_count(void)
{
    size_t n = 0;
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

void folder_remove(void)
{
    DIR *d = opendir(folder);
    if (!d) return;
    for (struct dirent *e; (e = readdir(d));)
        if (e->d_name[0] != '.') unlink(folder_path(e->d_name));
    closedir(d);
    rmdir(folder);
}
