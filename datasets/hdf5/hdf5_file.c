// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/scope.h"
#include "datasets/hdf5/hdf5_lib.h"

/* Bytes per file. By default HDF5 grows its cache to 32 MiB with the number of chunks, and counts nodes of a chunk
   index at a fifth of their memory. The current path through the index is enough. */
enum { METADATA_CACHE = 32 << 10 };

/* HDF5 may be built without thread safety, and else has one global lock; so one lock of ours costs nothing more. */
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
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL); /* the setting is per thread */
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
    static const char system[] = "error message = '"; /* the text of strerror, among times and addresses */
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
    H5Pset_fapl_sec2(p); /* one plain file, whatever the environment or its first bytes request */
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

/* Returns false and frees f if HDF5 failed to open it. */
static bool hand_over(struct qc_h5_file **out, struct qc_h5_file *f)
{
    const bool ok = f->id >= 0;
    return QC_HAND_OVER(ok, out, f, free);
}

bool qc_h5_open(struct qc_h5_file **out, const char *path, enum qc_follow follow, struct qc_status *st)
{
    struct qc_h5_file *f = malloc(sizeof *f);
    if (!f) return qc_fail_memory(st, sizeof *f);
    *f = (struct qc_h5_file){.follow = follow, .path = path};
    QC_H5_LOCKED;
    QC_H5_OWN access = file_access();
    f->id = H5Fopen(path, H5F_ACC_RDONLY, access);
    if (f->id < 0) qc_h5_fail(st, QC_BAD_INPUT, "this HDF5 file is truncated or damaged; make or copy it again");
    return hand_over(out, f);
}

bool qc_h5_create(struct qc_h5_file **out, const char *path, struct qc_status *st)
{
    struct qc_h5_file *f = malloc(sizeof *f);
    if (!f) return qc_fail_memory(st, sizeof *f);
    *f = (struct qc_h5_file){.path = path};
    QC_H5_LOCKED;
    QC_H5_OWN access = file_access(), creation = H5Pcreate(H5P_FILE_CREATE);
    H5Pset_obj_track_times(creation, false);
    f->id = H5Fcreate(path, H5F_ACC_TRUNC, creation, access);
    if (f->id < 0) qc_h5_fail(st, QC_MACHINE, "cannot create the HDF5 file");
    return hand_over(out, f);
}

bool qc_h5_close(struct qc_h5_file *f, struct qc_status *st)
{
    if (!f) return true;
    QC_H5_LOCKED;
    bool ok = H5Fclose(f->id) >= 0;
    if (!ok) qc_h5_fail(st, QC_MACHINE, "cannot finish the HDF5 file; is the disk full?");
    free(f);
    return ok;
}

/* References to other files: external links (soft links may pass through them), external raw storage, virtual data
   sets. */

/* Returns true for anything but a regular file: opening a pipe waits for a writer, a device may do anything. HDF5
   reports missing files. */
static bool is_odd(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && !S_ISREG(info.st_mode);
}

static bool is_there(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0;
}

/* Notes a file that holds values of the data set; returns false if it may not be opened. HDF5 tries the name as it is,
   the name beside the referring file, and its last component there. */
static bool note_elsewhere(struct qc_h5_elsewhere *e, const char *name, const char *from)
{
    const char *slash = strrchr(from, '/'), *last = strrchr(name, '/');
    char beside[QC_H5_PATH_MAX], alone[QC_H5_PATH_MAX];
    const int folder = slash ? (int)(slash - from) + 1 : 0;
    qc_text(e->file, sizeof e->file, "%s", name);
    e->refused = e->follow == QC_FOLLOW_NOTHING;
    if (e->refused) return false;
    qc_text(beside, sizeof beside, "%.*s%s", folder, from, name);
    qc_text(alone, sizeof alone, "%.*s%s", folder, from, last ? last + 1 : name);
    e->missing = !is_there(name) && !is_there(beside) && !is_there(alone);
    e->refused = is_odd(name) || is_odd(beside) || is_odd(alone);
    return !e->refused;
}

static herr_t pass(const char *from, const char *group, const char *file, const char *object, unsigned *flags,
                   hid_t access, void *user)
{
    return note_elsewhere(user, file, from) ? 0 : -1;
}

hid_t qc_h5_link_access(struct qc_h5_elsewhere *e)
{
    hid_t p = H5Pcreate(H5P_LINK_ACCESS);
    H5Pset_elink_cb(p, pass, e);
    return p;
}

bool qc_h5_is_here(struct qc_h5_elsewhere *e, hid_t set, const char *from)
{
    QC_H5_OWN creation = H5Dget_create_plist(set);
    if (creation < 0) return true; /* HDF5 reports it when the data set is used */
    char name[QC_H5_PATH_MAX] = "";
    bool ok = true;
    const int count = H5Pget_external_count(creation);
    for (int i = 0; ok && i < count; i++)
        if (H5Pget_external(creation, (unsigned)i, sizeof name - 1, name, NULL, NULL) >= 0)
            ok = note_elsewhere(e, name, from);
    size_t parts = 0;
    if (H5Pget_layout(creation) == H5D_VIRTUAL) H5Pget_virtual_count(creation, &parts);
    for (size_t i = 0; ok && i < parts; i++)
        if (H5Pget_virtual_filename(creation, i, name, sizeof name) >= 0 && strcmp(name, ".") != 0) {
            ok = note_elsewhere(e, name, from);
            /* HDF5 gives the fill value for them; a pattern (%b) names files that may end anywhere. */
            if (ok && e->missing && !strchr(name, '%') && !getenv("HDF5_VDS_PREFIX")) ok = !(e->refused = true);
        }
    return ok;
}

bool qc_h5_refuse(const struct qc_h5_elsewhere *e, struct qc_status *st)
{
    if (e->follow == QC_FOLLOW_NOTHING)
        return qc_fail(st, QC_BAD_INPUT,
                       "its values are in another file, %s; put them into this one, or allow it with --follow-links",
                       e->file);
    return qc_fail(st, QC_BAD_INPUT, "its values are in another file, %s, which %s", e->file,
                   e->missing ? "does not exist" : "is a folder, pipe or device");
}
