// SPDX-License-Identifier: Apache-2.0
#include "datasets/archive.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "datasets/chunk_codec.h"
#include "datasets/hdf5_lib.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "chunks are stored and read as they are in memory");

enum { CHUNK_ROWS = 1 << 16, TEXT_MAX = 1 << 20, TEXTS_BYTES_MAX = 1 << 28, DEFLATE_MAX = 1032 /* bytes out of one: RFC 1951 */ };

struct qc_archive {
    hid_t file;
    size_t size; /* of the image that is read */
};

/* No times in the file; and descriptions of objects of the second version, which tracking the order of attributes asks for: they have checksums, where the library reads
   damaged ones of the first beyond their end. */
static bool plain_objects(hid_t creation)
{
    return H5Pset_obj_track_times(creation, false) >= 0 && H5Pset_attr_creation_order(creation, H5P_CRT_ORDER_TRACKED) >= 0;
}

/* A file in memory: an image to read, or nothing yet. */
static hid_t memory_access(const void *image, size_t size)
{
    hid_t p = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fclose_degree(p, H5F_CLOSE_STRONG);
    if (H5Pset_fapl_core(p, 1 << 20, false) < 0 || (image && H5Pset_file_image(p, (void *)(uintptr_t)image, size) < 0)) {
        H5Pclose(p);
        return -1;
    }
    return p;
}

/* Files in memory are told apart by name, so each gets one of its own; it stands nowhere in the file. */
static bool start(struct qc_archive **out, const void *image, size_t size, struct qc_status *st)
{
    struct qc_archive *a = malloc(sizeof *a);
    char name[64];
    if (!a) return qc_fail_memory(st, sizeof *a);
    a->size = size;
    qc_text(name, sizeof name, "archive %p", (void *)a);
    qc_h5_enter();
    hid_t access = memory_access(image, size), creation = H5Pcreate(H5P_FILE_CREATE);
    const bool made = plain_objects(creation);
    a->file = access < 0 || !made ? -1 : image ? H5Fopen(name, H5F_ACC_RDONLY, access) : H5Fcreate(name, H5F_ACC_TRUNC, creation, access);
    if (a->file < 0 && image) qc_h5_fail(st, QC_BAD_INPUT, "this is no HDF5 file, or it is truncated or damaged; make or copy it again");
    if (a->file < 0 && !image) qc_h5_fail(st, QC_MACHINE, "cannot make an HDF5 file in memory");
    H5Pclose(creation);
    if (access >= 0) H5Pclose(access);
    qc_h5_leave();
    if (a->file < 0) {
        free(a);
        return false;
    }
    *out = a;
    return true;
}

bool qc_archive_new(struct qc_archive **out, struct qc_status *st)
{
    return start(out, NULL, 0, st);
}

bool qc_archive_open(struct qc_archive **out, const void *bytes, size_t size, struct qc_status *st)
{
    return start(out, bytes, size, st);
}

void qc_archive_free(struct qc_archive *a)
{
    if (!a) return;
    qc_h5_enter();
    if (a->file >= 0) H5Fclose(a->file);
    qc_h5_leave();
    free(a);
}

/* ---- Writing ---- */

static hid_t text_type(size_t size)
{
    hid_t t = H5Tcopy(H5T_C_S1);
    H5Tset_size(t, size ? size : 1);
    H5Tset_strpad(t, H5T_STR_NULLPAD);
    H5Tset_cset(t, H5T_CSET_UTF8);
    return t;
}

/* File and memory type of numbers; both to be closed by nobody (predefined). */
static hid_t number_type(enum qc_dtype dtype, bool in_file)
{
    const struct {
        enum qc_dtype dtype;
        hid_t file, memory;
    } table[] = {{QC_F32, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT},   {QC_F64, H5T_IEEE_F64LE, H5T_NATIVE_DOUBLE}, {QC_U8, H5T_STD_U8LE, H5T_NATIVE_UINT8},
                 {QC_U16, H5T_STD_U16LE, H5T_NATIVE_UINT16},   {QC_U32, H5T_STD_U32LE, H5T_NATIVE_UINT32},  {QC_U64, H5T_STD_U64LE, H5T_NATIVE_UINT64},
                 {QC_I32, H5T_STD_I32LE, H5T_NATIVE_INT32},    {QC_I64, H5T_STD_I64LE, H5T_NATIVE_INT64}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].dtype == dtype) return in_file ? table[i].file : table[i].memory;
    return -1;
}

static bool put_attribute(struct qc_archive *a, const char *name, hid_t file_type, hid_t memory_type, const void *data, struct qc_status *st)
{
    hid_t space = H5Screate(H5S_SCALAR), attribute = H5Acreate2(a->file, name, file_type, space, H5P_DEFAULT, H5P_DEFAULT);
    bool ok = attribute >= 0 && H5Awrite(attribute, memory_type, data) >= 0;
    if (!ok) qc_h5_fail(st, QC_MACHINE, "cannot make the attribute");
    if (attribute >= 0) H5Aclose(attribute);
    H5Sclose(space);
    return ok || qc_where(st, "attribute '%s'", name);
}

bool qc_archive_put_text(struct qc_archive *a, const char *name, const char *text, struct qc_status *st)
{
    qc_h5_enter();
    hid_t type = text_type(strlen(text));
    bool ok = put_attribute(a, name, type, type, text, st);
    H5Tclose(type);
    qc_h5_leave();
    return ok;
}

bool qc_archive_put_number(struct qc_archive *a, const char *name, uint64_t number, struct qc_status *st)
{
    qc_h5_enter();
    bool ok = put_attribute(a, name, H5T_STD_U64LE, H5T_NATIVE_UINT64, &number, st);
    qc_h5_leave();
    return ok;
}

/* Groups of a path, without times. */
static bool make_groups(struct qc_archive *a, const char *path)
{
    const char *slash = strchr(path, '/');
    char name[64];
    if (!slash) return true;
    qc_text(name, sizeof name, "%.*s", (int)(slash - path), path);
    if (H5Lexists(a->file, name, H5P_DEFAULT) > 0) return true;
    hid_t creation = H5Pcreate(H5P_GROUP_CREATE);
    hid_t group = plain_objects(creation) ? H5Gcreate2(a->file, name, H5P_DEFAULT, creation, H5P_DEFAULT) : -1;
    H5Pclose(creation);
    if (group >= 0) H5Gclose(group);
    return group >= 0;
}

static bool put_set(struct qc_archive *a, const char *path, hid_t file_type, hid_t memory_type, size_t rows, size_t columns, const void *data, struct qc_status *st)
{
    hsize_t dims[2] = {rows, columns}, chunk[2] = {rows < CHUNK_ROWS ? rows : CHUNK_ROWS, columns};
    int rank = columns ? 2 : 1;
    qc_h5_enter();
    hid_t space = H5Screate_simple(rank, dims, NULL), creation = H5Pcreate(H5P_DATASET_CREATE), set = -1;
    bool ok = make_groups(a, path) && plain_objects(creation);
    if (ok && rows) ok = H5Pset_chunk(creation, rank, chunk) >= 0 && H5Pset_shuffle(creation) >= 0 && H5Pset_deflate(creation, 4) >= 0;
    ok = ok && (set = H5Dcreate2(a->file, path, file_type, space, H5P_DEFAULT, creation, H5P_DEFAULT)) >= 0 &&
         (!rows || H5Dwrite(set, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0);
    if (!ok) qc_h5_fail(st, QC_MACHINE, "cannot make the data set");
    if (set >= 0) H5Dclose(set);
    H5Pclose(creation);
    H5Sclose(space);
    qc_h5_leave();
    return ok || qc_where(st, "data set '%s'", path);
}

bool qc_archive_put(struct qc_archive *a, const char *path, enum qc_dtype dtype, size_t rows, size_t columns, const void *data, struct qc_status *st)
{
    return put_set(a, path, number_type(dtype, true), number_type(dtype, false), rows, columns, data, st);
}

bool qc_archive_put_texts(struct qc_archive *a, const char *path, size_t count, const char *const *texts, struct qc_status *st)
{
    size_t longest = 1, bytes;
    for (size_t i = 0; i < count; i++) longest = strlen(texts[i]) > longest ? strlen(texts[i]) : longest;
    char *all = qc_mul_size(&bytes, count ? count : 1, longest) ? calloc(bytes, 1) : NULL;
    if (!all) return qc_fail_memory(st, count);
    for (size_t i = 0; i < count; i++) memcpy(all + i * longest, texts[i], strlen(texts[i]));
    qc_h5_enter();
    hid_t type = text_type(longest);
    qc_h5_leave();
    bool ok = put_set(a, path, type, type, count, 0, all, st);
    qc_h5_enter();
    H5Tclose(type);
    qc_h5_leave();
    free(all);
    return ok;
}

bool qc_archive_bytes(void **out, size_t *size, struct qc_archive *a, struct qc_status *st)
{
    qc_h5_enter();
    ssize_t n = H5Fflush(a->file, H5F_SCOPE_GLOBAL) >= 0 ? H5Fget_file_image(a->file, NULL, 0) : -1;
    void *bytes = n > 0 ? malloc((size_t)n) : NULL;
    bool ok = bytes && H5Fget_file_image(a->file, bytes, (size_t)n) == n;
    if (!ok) qc_h5_fail(st, QC_MACHINE, "cannot finish the HDF5 file in memory");
    qc_h5_leave();
    if (ok) {
        *out = bytes;
        *size = (size_t)n;
    } else {
        free(bytes);
    }
    return ok;
}

/* ---- Reading ---- */

bool qc_archive_marked(bool *marked, const char *path, const char *name, struct qc_status *st)
{
    struct qc_status why = QC_STATUS_INIT;
    struct qc_h5_file *f = NULL;
    *marked = false;
    if (!qc_h5_open(&f, path, &why)) return why.code != QC_MACHINE || qc_fail(st, why.code, "%s", why.message);
    qc_h5_enter();
    bool there = H5Aexists(f->id, name) > 0;
    qc_h5_leave();
    *marked = qc_h5_close(f, &why) && there;
    return true;
}

/* Scalar attribute of a class; -1 when there is none. */
static hid_t open_attribute(hid_t *type, const struct qc_archive *f, const char *name, H5T_class_t class)
{
    hid_t a = H5Aexists(f->file, name) > 0 ? H5Aopen(f->file, name, H5P_DEFAULT) : -1;
    if (a < 0) return -1;
    hid_t space = H5Aget_space(a);
    *type = H5Aget_type(a);
    bool fits = space >= 0 && *type >= 0 && H5Sget_simple_extent_npoints(space) == 1 && H5Tget_class(*type) == class &&
                (class != H5T_STRING || (H5Tis_variable_str(*type) == 0 && H5Tget_size(*type) <= TEXT_MAX));
    if (space >= 0) H5Sclose(space);
    if (fits) return a;
    if (*type >= 0) H5Tclose(*type);
    H5Aclose(a);
    return -1;
}

bool qc_archive_text(const char **out, const struct qc_archive *f, const char *name, struct qc_arena *arena, struct qc_status *st)
{
    hid_t type = -1;
    char *text = NULL;
    qc_h5_enter();
    hid_t a = open_attribute(&type, f, name, H5T_STRING);
    if (a >= 0) {
        text = QC_NEW_ARRAY(arena, char, H5Tget_size(type) + 1, st);
        if (text && H5Aread(a, type, text) < 0) text = NULL;
        H5Tclose(type);
        H5Aclose(a);
    }
    qc_h5_leave();
    if (!text) return qc_fail(st, QC_BAD_INPUT, "attribute '%s' is missing or damaged; make or copy the file again", name);
    *out = text;
    return true;
}

bool qc_archive_number(uint64_t *out, const struct qc_archive *f, const char *name, struct qc_status *st)
{
    hid_t type = -1;
    uint64_t number;
    qc_h5_enter();
    hid_t a = open_attribute(&type, f, name, H5T_INTEGER);
    bool ok = a >= 0 && H5Aread(a, H5T_NATIVE_UINT64, &number) >= 0;
    if (a >= 0) {
        H5Tclose(type);
        H5Aclose(a);
    }
    qc_h5_leave();
    if (!ok) return qc_fail(st, QC_BAD_INPUT, "attribute '%s' is missing or damaged; make or copy the file again", name);
    *out = number;
    return true;
}

struct opened {
    hid_t set, type;
    size_t rows, chunk_rows;
};

static void close_set(struct opened *s)
{
    if (s->type >= 0) H5Tclose(s->type);
    if (s->set >= 0) H5Dclose(s->set);
}

/* As put_set stores it. */
static bool is_ours(hid_t creation, const hsize_t *dims, int rank)
{
    hsize_t chunk[2] = {0, 0};
    size_t none[2] = {0, 0};
    unsigned flags, config;
    return dims[0] == 0 || (H5Pget_layout(creation) == H5D_CHUNKED && H5Pget_chunk(creation, rank, chunk) == rank &&
                            chunk[0] == (dims[0] < CHUNK_ROWS ? dims[0] : CHUNK_ROWS) && chunk[1] == dims[1] && H5Pget_nfilters(creation) == 2 &&
                            H5Pget_filter2(creation, 0, &flags, &none[0], NULL, 0, NULL, &config) == H5Z_FILTER_SHUFFLE &&
                            H5Pget_filter2(creation, 1, &flags, &none[1], NULL, 0, NULL, &config) == H5Z_FILTER_DEFLATE);
}

/* Opens a data set of [rows] or [rows, columns]. Inside the lock. */
static bool open_set(struct opened *out, const struct qc_archive *f, const char *path, size_t columns, size_t most, struct qc_status *st)
{
    hsize_t dims[2] = {0, 0};
    const int rank = columns ? 2 : 1;
    struct opened s = {.set = H5Dopen2(f->file, path, H5P_DEFAULT), .type = -1};
    hid_t space = -1, creation = -1;
    bool ok = s.set >= 0 && (s.type = H5Dget_type(s.set)) >= 0 && (space = H5Dget_space(s.set)) >= 0 && (creation = H5Dget_create_plist(s.set)) >= 0;
    if (!ok) qc_h5_fail(st, QC_BAD_INPUT, "is missing or damaged; make or copy the file again");
    if (ok && (H5Sget_simple_extent_ndims(space) != rank || H5Sget_simple_extent_dims(space, dims, NULL) < 0 || dims[1] != columns || dims[0] > most))
        ok = qc_fail(st, QC_BAD_INPUT, "has another shape than expected, %llu rows; at most %zu are", (unsigned long long)dims[0], most);
    if (ok && dims[0] > 0 && dims[0] > SIZE_MAX / (rank == 2 ? columns : 1) / H5Tget_size(s.type)) ok = qc_fail(st, QC_BAD_INPUT, "is too large");
    if (ok && dims[0] * (rank == 2 ? columns : 1) * H5Tget_size(s.type) / DEFLATE_MAX > f->size)
        ok = qc_fail(st, QC_BAD_INPUT, "says it has %llu rows, more than a file of %zu bytes can hold; make or copy it again", (unsigned long long)dims[0], f->size);
    if (ok && !is_ours(creation, dims, rank)) ok = qc_fail(st, QC_BAD_INPUT, "is stored in another way than this program does; use the file as it was written");
    if (space >= 0) H5Sclose(space);
    if (creation >= 0) H5Pclose(creation);
    s.rows = (size_t)dims[0];
    s.chunk_rows = s.rows < CHUNK_ROWS ? s.rows : CHUNK_ROWS;
    if (ok) *out = s;
    else close_set(&s);
    return ok;
}

/* All rows. The filters are undone by us: HDF5 reads behind the end of a chunk whose stream is too short. Inside the lock. */
static bool read_set(void *out, const struct opened *s, const struct qc_archive *f, size_t columns, size_t element, struct qc_status *st)
{
    const size_t row = element * (columns ? columns : 1), chunk = s->chunk_rows * row;
    struct qc_chunk_codec *codec = qc_chunk_codec_new();
    char *plain = malloc(chunk ? chunk : 1);
    void *raw = NULL;
    bool ok = (codec && plain) || qc_fail_memory(st, chunk);
    for (size_t r = 0; ok && r < s->rows; r += s->chunk_rows) {
        hsize_t start[2] = {r, 0}, size = 0;
        uint32_t mask = 0;
        size_t rows = s->rows - r < s->chunk_rows ? s->rows - r : s->chunk_rows;
        if (H5Dget_chunk_storage_size(s->set, start, &size) < 0 || !size || size > f->size) ok = qc_fail(st, QC_BAD_INPUT, "is damaged; make or copy the file again");
        void *more = ok ? realloc(raw, (size_t)size) : NULL;
        if (ok && !more) ok = qc_fail_memory(st, size);
        if (!ok) break;
        raw = more;
        if (H5Dread_chunk(s->set, H5P_DEFAULT, start, &mask, raw) < 0 || mask) ok = qc_h5_fail(st, QC_BAD_INPUT, "is damaged; make or copy the file again");
        ok = ok && qc_chunk_decode(plain, chunk, element, raw, (size_t)size, (struct qc_chunk_filters){.shuffle = element > 1, .deflate = true}, codec, st);
        if (ok) memcpy((char *)out + r * row, plain, rows * row);
    }
    free(raw);
    free(plain);
    qc_chunk_codec_free(codec);
    return ok;
}

bool qc_archive_get(void **out, size_t *rows, const struct qc_archive *f, const char *path, enum qc_dtype dtype, size_t columns, size_t most,
                    struct qc_arena *a, struct qc_status *st)
{
    struct opened s;
    void *data = NULL;
    qc_h5_enter();
    bool opened = open_set(&s, f, path, columns, most, st), ok = opened;
    if (ok && H5Tequal(s.type, number_type(dtype, true)) <= 0) ok = qc_fail(st, QC_BAD_INPUT, "is of another type than expected");
    if (ok) ok = (data = qc_arena_get(a, s.rows ? s.rows : 1, qc_dtype_size(dtype) * (columns ? columns : 1), st)) != NULL;
    ok = ok && read_set(data, &s, f, columns, qc_dtype_size(dtype), st);
    if (opened) close_set(&s);
    qc_h5_leave();
    if (!ok) return qc_where(st, "data set '%s'", path);
    *out = data;
    *rows = s.rows;
    return true;
}

bool qc_archive_get_texts(const char ***out, size_t *count, const struct qc_archive *f, const char *path, size_t most, struct qc_arena *a,
                          struct qc_status *st)
{
    struct opened s;
    const char **texts = NULL;
    char *all = NULL;
    size_t bytes, size = 0;
    qc_h5_enter();
    bool opened = open_set(&s, f, path, 0, most, st), ok = opened;
    if (ok && (H5Tget_class(s.type) != H5T_STRING || H5Tis_variable_str(s.type) != 0)) ok = qc_fail(st, QC_BAD_INPUT, "holds no strings of fixed length");
    if (ok) {
        size = H5Tget_size(s.type);
        ok = (qc_mul_size(&bytes, s.rows, size) && bytes <= TEXTS_BYTES_MAX) || qc_fail(st, QC_BAD_INPUT, "is too large");
    }
    if (ok) ok = (all = malloc(bytes ? bytes : 1)) || qc_fail_memory(st, bytes);
    ok = ok && read_set(all, &s, f, 0, size, st);
    if (opened) close_set(&s);
    qc_h5_leave();
    ok = ok && (texts = QC_NEW_ARRAY(a, const char *, s.rows, st));
    for (size_t i = 0; ok && i < s.rows; i++) ok = (texts[i] = qc_arena_strndup(a, all + i * size, strnlen(all + i * size, size), st)) != NULL;
    free(all);
    if (!ok) return qc_where(st, "data set '%s'", path);
    *out = texts;
    *count = s.rows;
    return true;
}
