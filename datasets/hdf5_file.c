// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "datasets/hdf5_lib.h"

/* Bytes per file. HDF5 grows its cache to 32 MiB with the number of chunks, and counts nodes of a chunk index at a fifth of
   what they take; the current path through the index is enough. */
enum { METADATA_CACHE = 32 << 10 };

/* HDF5 may be built without thread safety, and is one lock inside otherwise; one lock of ours costs nothing more. */
static pthread_mutex_t hdf5_lock = PTHREAD_MUTEX_INITIALIZER;

static pthread_once_t once = PTHREAD_ONCE_INIT;

/* A file that could not be written (disk full) cannot be closed either, and HDF5 crashes on it in its exit handler.
   We close all files ourselves, so the handler has nothing to do. Must be HDF5's first call in the process. */
static void prepare(void)
{
    H5dont_atexit();
}

void qc_h5_enter(void)
{
    pthread_once(&once, prepare);
    pthread_mutex_lock(&hdf5_lock);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* is a setting of the thread */
}

void qc_h5_leave(void)
{
    pthread_mutex_unlock(&hdf5_lock);
}

enum { TEXT = 1000 };

static herr_t innermost(unsigned n, const H5E_error2_t *e, void *user)
{
    if (n == 0 && e->desc) qc_text(user, TEXT, "%s", e->desc);
    return 0;
}

bool qc_h5_fail(struct qc_status *st, enum qc_code code, const char *what)
{
    static const char system[] = "error message = '"; /* what strerror said, amid times and addresses */
    char text[TEXT] = "";
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, innermost, text);
    const char *said = strstr(text, system);
    said = said ? said + sizeof system - 1 : text;
    int length = (int)strcspn(said, said == text ? "\n" : "'");
    return length ? qc_fail(st, code, "%s (HDF5: %.*s)", what, length, said) : qc_fail(st, code, "%s", what);
}

static hid_t file_access(void)
{
    hid_t p = H5Pcreate(H5P_FILE_ACCESS);
    H5AC_cache_config_t c = {.version = H5AC__CURR_CACHE_CONFIG_VERSION};
    H5Pset_fclose_degree(p, H5F_CLOSE_STRONG);
    if (H5Pget_mdc_config(p, &c) >= 0) {
        c.set_initial_size = true;
        c.initial_size = c.min_size = c.max_size = METADATA_CACHE;
        c.incr_mode = H5C_incr__off;
        c.flash_incr_mode = H5C_flash_incr__off;
        c.decr_mode = H5C_decr__off;
        H5Pset_mdc_config(p, &c);
    }
    return p;
}

bool qc_h5_open(struct qc_h5_file **out, const char *path, struct qc_status *st)
{
    struct qc_h5_file *f = malloc(sizeof *f);
    if (!f) return qc_fail_memory(st, sizeof *f);
    qc_h5_enter();
    hid_t access = file_access();
    f->id = H5Fopen(path, H5F_ACC_RDONLY, access);
    if (f->id < 0) qc_h5_fail(st, QC_BAD_INPUT, "this HDF5 file is truncated or damaged; make or copy it again");
    H5Pclose(access);
    qc_h5_leave();
    if (f->id < 0) {
        free(f);
        return false;
    }
    *out = f;
    return true;
}

bool qc_h5_create(struct qc_h5_file **out, const char *path, struct qc_status *st)
{
    struct qc_h5_file *f = malloc(sizeof *f);
    if (!f) return qc_fail_memory(st, sizeof *f);
    qc_h5_enter();
    hid_t access = file_access(), creation = H5Pcreate(H5P_FILE_CREATE);
    H5Pset_obj_track_times(creation, false);
    f->id = H5Fcreate(path, H5F_ACC_TRUNC, creation, access);
    if (f->id < 0) qc_h5_fail(st, QC_MACHINE, "cannot create the HDF5 file");
    H5Pclose(creation);
    H5Pclose(access);
    qc_h5_leave();
    if (f->id < 0) {
        free(f);
        return false;
    }
    *out = f;
    return true;
}

bool qc_h5_close(struct qc_h5_file *f, struct qc_status *st)
{
    if (!f) return true;
    qc_h5_enter();
    bool ok = H5Fclose(f->id) >= 0;
    if (!ok) qc_h5_fail(st, QC_MACHINE, "cannot finish the HDF5 file; is the disk full?");
    qc_h5_leave();
    free(f);
    return ok;
}

/* ---- Element types ---- */

static bool float_is(hid_t t, size_t exponent, size_t mantissa, size_t bias)
{
    size_t sign, epos, esize, mpos, msize;
    return H5Tget_fields(t, &sign, &epos, &esize, &mpos, &msize) >= 0 && sign == 15 && epos == mantissa &&
           esize == exponent && mpos == 0 && msize == mantissa && H5Tget_ebias(t) == bias;
}

hid_t qc_h5_make_float16(size_t exponent, size_t mantissa, size_t bias)
{
    hid_t t = H5Tcopy(H5T_NATIVE_FLOAT);
    H5Tset_fields(t, 15, mantissa, exponent, 0, mantissa);
    H5Tset_size(t, 2);
    H5Tset_ebias(t, bias);
    return t;
}

static bool is_bool(hid_t t)
{
    char *a = NULL, *b = NULL;
    signed char no = -1, yes = -1;
    bool r = H5Tget_size(t) == 1 && H5Tget_nmembers(t) == 2 && (a = H5Tget_member_name(t, 0)) &&
             (b = H5Tget_member_name(t, 1)) && strcmp(a, "FALSE") == 0 && strcmp(b, "TRUE") == 0 &&
             H5Tget_member_value(t, 0, &no) >= 0 && H5Tget_member_value(t, 1, &yes) >= 0 && no == 0 && yes == 1;
    H5free_memory(a);
    H5free_memory(b);
    return r;
}

static enum qc_dtype integer_of(hid_t t)
{
    static const enum qc_dtype table[2][4] = {{QC_U8, QC_U16, QC_U32, QC_U64}, {QC_I8, QC_I16, QC_I32, QC_I64}};
    size_t size = H5Tget_size(t);
    unsigned log = size == 1 ? 0 : size == 2 ? 1 : size == 4 ? 2 : size == 8 ? 3 : 4;
    return log < 4 ? table[H5Tget_sign(t) == H5T_SGN_2][log] : QC_NONE;
}

enum qc_dtype qc_h5_element_of(const char **name, hid_t t)
{
    static const char *const names[QC_DTYPE_COUNT] = {
        [QC_F32] = "float32", [QC_U8] = "uint8",   [QC_I8] = "int8",       [QC_U16] = "uint16",  [QC_I16] = "int16",
        [QC_I32] = "int32",   [QC_I64] = "int64",  [QC_BOOL] = "bool",     [QC_F16] = "float16", [QC_F64] = "float64",
        [QC_U32] = "uint32",  [QC_U64] = "uint64", [QC_BF16] = "bfloat16",
    };
    H5T_class_t class = H5Tget_class(t);
    enum qc_dtype e = QC_NONE;
    *name = "unknown";
    if (class == H5T_INTEGER) {
        *name = "integer of an odd size";
        e = integer_of(t);
    } else if (class == H5T_FLOAT) {
        size_t size = H5Tget_size(t);
        e = size == 2 && float_is(t, 5, 10, 15)   ? QC_F16
            : size == 2 && float_is(t, 8, 7, 127) ? QC_BF16
            : size <= 4                           ? QC_F32
                                                  : QC_F64;
    } else if (class == H5T_ENUM) {
        *name = "enum";
        hid_t base = H5Tget_super(t);
        e = is_bool(t) ? QC_BOOL : integer_of(base);
        H5Tclose(base);
    } else {
        *name = class == H5T_STRING      ? "string"
                : class == H5T_COMPOUND  ? "compound"
                : class == H5T_VLEN      ? "variable length"
                : class == H5T_ARRAY     ? "array"
                : class == H5T_REFERENCE ? "reference"
                : class == H5T_OPAQUE    ? "opaque"
                : class == H5T_BITFIELD  ? "bitfield"
                                         : "unknown";
    }
    if (e != QC_NONE) *name = names[e];
    return e;
}
