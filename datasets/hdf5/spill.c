// SPDX-License-Identifier: Apache-2.0
#include "datasets/hdf5/spill.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "datasets/hdf5/hdf5_lib.h"

struct qc_spill {
    struct qc_h5_file *file;
    char *folder; /* for messages */
    unsigned long made;
};

bool qc_spill_new(struct qc_spill **out, const char *folder, struct qc_status *st)
{
    const char *where = folder ? folder : getenv("TMPDIR");
    static const char pattern[] = "/qcalib-spill-XXXXXX";
    if (!where || !*where) where = "/tmp";
    struct qc_spill *s = calloc(1, sizeof *s);
    char *path = malloc(strlen(where) + sizeof pattern);
    bool ok = s && path && (s->folder = strdup(where));
    if (!ok) qc_fail_memory(st, sizeof *s);
    const int file = ok ? mkstemp(strcat(strcpy(path, where), pattern)) : -1;
    if (ok && file < 0)
        ok = qc_fail(st, QC_MACHINE, "%s: cannot make a temporary file (%s); set TMPDIR to a folder with room", where,
                     strerror(errno));
    if (file >= 0) {
        ok = qc_h5_create(&s->file, path, st) || qc_where(st, "%s", path);
        unlink(path);
        close(file);
    }
    free(path);
    if (ok)
        *out = s;
    else
        qc_spill_free(s);
    return ok;
}

void qc_spill_free(struct qc_spill *s)
{
    struct qc_status ignored = QC_STATUS_INIT; /* the file is not read again */
    if (!s) return;
    qc_h5_close(s->file, &ignored);
    free(s->folder);
    free(s);
}

bool qc_spill_add(int64_t *set, struct qc_spill *s, size_t rows, size_t row_bytes, struct qc_status *st)
{
    char name[32];
    const hsize_t dims[2] = {rows, row_bytes};
    hid_t id = -1;
    qc_text(name, sizeof name, "%lu", ++s->made);
    QC_H5_LOCKED;
    QC_H5_OWN space = H5Screate_simple(2, dims, NULL), creation = H5Pcreate(H5P_DATASET_CREATE);
    bool ok = space >= 0 && H5Pset_obj_track_times(creation, false) >= 0 &&
              H5Pset_fill_time(creation, H5D_FILL_TIME_NEVER) >= 0 &&
              (id = H5Dcreate2(s->file->id, name, H5T_NATIVE_UINT8, space, H5P_DEFAULT, creation, H5P_DEFAULT)) >= 0 &&
              H5Ldelete(s->file->id, name, H5P_DEFAULT) >= 0;
    if (!ok) {
        qc_h5_fail(st, QC_MACHINE, "cannot make room in the temporary file");
        qc_where(st, "%s", s->folder);
        if (id >= 0) H5Dclose(id);
    }
    if (ok) *set = (int64_t)id;
    return ok;
}

/* Reads or writes bytes of one row of a set. */
static bool move_row(void *to, const void *from, struct qc_spill *s, int64_t set, size_t row, size_t at, size_t bytes,
                     struct qc_status *st)
{
    const hsize_t start[2] = {row, at}, count[2] = {1, bytes};
    QC_H5_LOCKED;
    QC_H5_OWN file = H5Dget_space((hid_t)set), memory = H5Screate_simple(2, count, NULL);
    bool ok = file >= 0 && memory >= 0 && H5Sselect_hyperslab(file, H5S_SELECT_SET, start, NULL, count, NULL) >= 0 &&
              (from ? H5Dwrite((hid_t)set, H5T_NATIVE_UINT8, memory, file, H5P_DEFAULT, from)
                    : H5Dread((hid_t)set, H5T_NATIVE_UINT8, memory, file, H5P_DEFAULT, to)) >= 0;
    return ok ||
           qc_h5_fail(st, QC_MACHINE,
                      from ? "cannot write to the temporary file; is the disk full?"
                           : "cannot read the temporary file") ||
           qc_where(st, "%s", s->folder);
}

bool qc_spill_write(struct qc_spill *s, int64_t set, size_t row, size_t row_bytes, const void *data,
                    struct qc_status *st)
{
    return move_row(NULL, data, s, set, row, 0, row_bytes, st);
}

bool qc_spill_read(void *data, struct qc_spill *s, int64_t set, size_t row, size_t row_bytes, struct qc_status *st)
{
    return move_row(data, NULL, s, set, row, 0, row_bytes, st);
}

bool qc_spill_read_part(void *data, struct qc_spill *s, int64_t set, size_t row, size_t at, size_t bytes,
                        struct qc_status *st)
{
    return move_row(data, NULL, s, set, row, at, bytes, st);
}

void qc_spill_drop(struct qc_spill *s, int64_t set)
{
    (void)s;
    QC_H5_LOCKED;
    H5Dclose((hid_t)set); /* it has no name: closing frees it */
}
