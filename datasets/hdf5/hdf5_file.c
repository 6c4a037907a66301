// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "datasets/hdf5/hdf5_lib.h"

/* Bytes per file. HDF5 grows its cache to 32 MiB with the number of chunks, and counts nodes of a chunk index at a
   fifth of what they take; the current path through the index is enough. */
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
    H5Pset_fapl_sec2(p); /* one plain file, whatever the environment or its own first bytes say */
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

/* False, and f is gone, where HDF5 gave none. */
static bool hand_over(struct qc_h5_file **out, struct qc_h5_file *f)
{
    const bool ok = f->id >= 0;
    if (ok)
        *out = f;
    else
        free(f);
    return ok;
}

bool qc_h5_open(struct qc_h5_file **out, const char *path, enum qc_follow follow, struct qc_status *st)
{
    struct qc_h5_file *f = malloc(sizeof *f);
    if (!f) return qc_fail_memory(st, sizeof *f);
    *f = (struct qc_h5_file){.follow = follow, .path = path};
    qc_h5_enter();
    hid_t access = file_access();
    f->id = H5Fopen(path, H5F_ACC_RDONLY, access);
    if (f->id < 0) qc_h5_fail(st, QC_BAD_INPUT, "this HDF5 file is truncated or damaged; make or copy it again");
    H5Pclose(access);
    qc_h5_leave();
    return hand_over(out, f);
}

bool qc_h5_create(struct qc_h5_file **out, const char *path, struct qc_status *st)
{
    struct qc_h5_file *f = malloc(sizeof *f);
    if (!f) return qc_fail_memory(st, sizeof *f);
    *f = (struct qc_h5_file){.path = path};
    qc_h5_enter();
    hid_t access = file_access(), creation = H5Pcreate(H5P_FILE_CREATE);
    H5Pset_obj_track_times(creation, false);
    f->id = H5Fcreate(path, H5F_ACC_TRUNC, creation, access);
    if (f->id < 0) qc_h5_fail(st, QC_MACHINE, "cannot create the HDF5 file");
    H5Pclose(creation);
    H5Pclose(access);
    qc_h5_leave();
    return hand_over(out, f);
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
