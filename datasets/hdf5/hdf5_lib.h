// SPDX-License-Identifier: Apache-2.0
/* Shared by the hdf5_*.c files; the only place that includes hdf5.h. Everything except qc_h5_enter is called inside the
   lock. */
#pragma once

/* The functions of HDF5 1.10, which later versions have too: 1.12 gave some other types by default. */
#define H5_USE_110_API 1
#include <hdf5.h>

#include "datasets/hdf5/hdf5_io.h"

enum {
    QC_H5_PATH_MAX = 4096,
    QC_H5_MEMBERS_LISTED = 256 /* data sets listed for one group; if it has more, they are samples */
};

struct qc_h5_file {
    hid_t id;
    enum qc_follow follow;
    const char *path;
};

/* References to other files met while opening an object. */
struct qc_h5_elsewhere {
    enum qc_follow follow;
    bool refused;              /* `file` is referred to and was not opened */
    bool missing;              /* it does not exist */
    char file[QC_H5_PATH_MAX]; /* "": everything is in this file */
};
/* Returns access for opening objects by name that checks e->follow before another file is opened; to be closed. */
hid_t qc_h5_link_access(struct qc_h5_elsewhere *e);
/* Returns false if values of the data set, in the file `from`, are in other files that may not be read. Opens
   nothing. */
bool qc_h5_is_here(struct qc_h5_elsewhere *e, hid_t set, const char *from);
bool qc_h5_refuse(const struct qc_h5_elsewhere *e, struct qc_status *st);

void qc_h5_enter(void); /* takes the lock; turns off HDF5's printing in this thread */
void qc_h5_leave(void);

/* The lock until the end of the scope. Identifiers of the scope are declared after it, because they are closed in
   reverse order. */
#define QC_H5_LOCKED __attribute__((unused, cleanup(qc_h5_unlock))) const bool locked = qc_h5_locked()
static inline bool qc_h5_locked(void)
{
    qc_h5_enter();
    return true;
}
static inline void qc_h5_unlock(const bool *locked)
{
    if (*locked) qc_h5_leave();
}

/* An identifier of HDF5, closed at the end of its scope; -1: none. No goto may pass its declaration. */
#define QC_H5_OWN __attribute__((cleanup(qc_h5_release), unused)) hid_t
static inline void qc_h5_release(const hid_t *id)
{
    if (*id > 0) H5Idec_ref(*id);
}

/* Fails with "WHAT (HDF5: its innermost message)". */
bool qc_h5_fail(struct qc_status *st, enum qc_code code, const char *what);

/* The one place that decides how elements of a file's type are read: HDF5 reads them as type `memory`, then `way`
   applies. */
struct qc_h5_element {
    enum qc_dtype dtype; /* as read; QC_NONE: not supported */
    const char *type;    /* type in the file, for messages */
    hid_t memory;        /* HDF5 type, not to be closed; qc_h5_memory_type returns the one to use */
    enum qc_h5_way way;
    struct qc_h5_bits bits; /* QC_H5_PACKED */
};
void qc_h5_element_of(struct qc_h5_element *out, hid_t type);
hid_t qc_h5_memory_type(const struct qc_h5_element *e, hid_t type); /* to be closed */
/* Returns true if the file's bytes are those of the memory type and need no conversion. */
bool qc_h5_stored_so(const struct qc_h5_element *e, hid_t type, hid_t memory);
/* Extracts count numbers from the file's bytes, as integers of `element` bytes. */
void qc_h5_unpack(void *out, const void *in, size_t count, size_t element, const struct qc_h5_bits *bits);

/* Return the types for storing numbers (-1 for QC_NONE) and texts of `size` bytes, padded with 0; to be closed. */
hid_t qc_h5_type_for_file(enum qc_dtype e);
hid_t qc_h5_text_type(size_t size);

/* Returns a 2-byte float type in native byte order; to be closed. */
hid_t qc_h5_make_float16(size_t exponent_bits, size_t mantissa_bits, size_t bias);

/* Names in one group, ordered by their bytes. */
struct qc_h5_names {
    struct qc_h5_name {
        size_t at; /* offset in text */
        H5L_type_t type;
    } * list;
    char *text;
    size_t count, capacity, size, room;
    struct qc_status *st; /* HDF5 reports only that an iteration stopped */
};
bool qc_h5_names_of(struct qc_h5_names *out, hid_t group, struct qc_status *st);
void qc_h5_names_free(struct qc_h5_names *n);

/* Returns true if the names of a group look like samples: all are numbers, or there are very many. */
bool qc_h5_like_samples(const struct qc_h5_names *n);
/* Opens the samples of a group (object s->id). Fills all but s->id; also on failure s->ragged has to be freed. */
bool qc_h5_group_open(struct qc_h5_set *s, const struct qc_h5_file *f, struct qc_status *st);
void qc_h5_ragged_free(struct qc_h5_ragged *r); /* NULL-safe */

/* Returns the values of a numeric attribute (malloc), exactly: a long double holds every type that we read. Fails if it
   is not numeric or is damaged, or if there are no or too many values. */
bool qc_h5_attribute_numbers(long double **out, size_t *count, hid_t attribute);
/* Returns a scalar string (malloc), or NULL if it is something else. */
char *qc_h5_attribute_string(hid_t attribute);
