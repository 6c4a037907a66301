// SPDX-License-Identifier: Apache-2.0
/* What in a file leads to another one: external links (soft links may pass through them), external raw storage,
   virtual data sets. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "datasets/hdf5/hdf5_lib.h"

/* Opening a pipe waits for a writer; a device may do anything. What is not there is for HDF5 to say. */
static bool is_odd(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && !S_ISREG(info.st_mode);
}

/* HDF5 looks for a file of this name as it is, beside the file that names it, and there by its last component alone. */
static bool may_open(struct qc_h5_elsewhere *e, const char *name, const char *from)
{
    const char *slash = strrchr(from, '/'), *last = strrchr(name, '/');
    char beside[QC_H5_PATH_MAX], alone[QC_H5_PATH_MAX];
    const int folder = slash ? (int)(slash - from) + 1 : 0;
    qc_text(beside, sizeof beside, "%.*s%s", folder, from, name);
    qc_text(alone, sizeof alone, "%.*s%s", folder, from, last ? last + 1 : name);
    if (!is_odd(name) && !is_odd(beside) && !is_odd(alone)) return true;
    e->refused = true;
    return false;
}

static herr_t pass(const char *from, const char *group, const char *file, const char *object, unsigned *flags,
                   hid_t access, void *user)
{
    struct qc_h5_elsewhere *e = user;
    (void)group;
    (void)object;
    (void)flags;
    (void)access;
    qc_text(e->file, sizeof e->file, "%s", file);
    e->refused = e->follow == QC_FOLLOW_NOTHING;
    return !e->refused && may_open(e, file, from) ? 0 : -1;
}

hid_t qc_h5_link_access(struct qc_h5_elsewhere *e)
{
    hid_t p = H5Pcreate(H5P_LINK_ACCESS);
    H5Pset_elink_cb(p, pass, e);
    return p;
}

/* Notes a file that the data set's values come from; false: it may not be opened. */
static bool note(struct qc_h5_elsewhere *e, const char *name, const char *from)
{
    qc_text(e->file, sizeof e->file, "%s", name);
    e->refused = e->follow == QC_FOLLOW_NOTHING;
    return !e->refused && may_open(e, name, from);
}

bool qc_h5_is_here(struct qc_h5_elsewhere *e, hid_t set, const char *from)
{
    hid_t creation = H5Dget_create_plist(set);
    if (creation < 0) return true; /* HDF5 says so where it is used */
    char name[QC_H5_PATH_MAX] = "";
    bool ok = true;
    const int count = H5Pget_external_count(creation);
    for (int i = 0; ok && i < count; i++)
        if (H5Pget_external(creation, (unsigned)i, sizeof name - 1, name, NULL, NULL) >= 0) ok = note(e, name, from);
    size_t parts = 0;
    if (H5Pget_layout(creation) == H5D_VIRTUAL) H5Pget_virtual_count(creation, &parts);
    for (size_t i = 0; ok && i < parts; i++)
        if (H5Pget_virtual_filename(creation, i, name, sizeof name) >= 0 && strcmp(name, ".") != 0)
            ok = note(e, name, from);
    H5Pclose(creation);
    return ok;
}

bool qc_h5_refuse(const struct qc_h5_elsewhere *e, struct qc_status *st)
{
    if (e->follow == QC_FOLLOW_NOTHING)
        return qc_fail(st, QC_BAD_INPUT,
                       "its values are in another file, %s; put them into this one, or allow it with --follow-links",
                       e->file);
    return qc_fail(st, QC_BAD_INPUT, "its values are in another file, %s, which is a folder, pipe or device", e->file);
}
