// SPDX-License-Identifier: Apache-2.0
/* What the hdf5_*.c files share, and the one place that includes hdf5.h. Everything but qc_h5_enter is called inside
   the lock. */
#pragma once

#include <hdf5.h>

#include "datasets/hdf5/hdf5_io.h"

enum {
    QC_H5_PATH_MAX = 4096,
    QC_H5_MEMBERS_LISTED = 256 /* data sets of one group; where it has more they are samples */
};

struct qc_h5_file {
    hid_t id;
    enum qc_follow follow;
    const char *path;
};

/* What was met on the way to an object. */
struct qc_h5_elsewhere {
    enum qc_follow follow;
    bool refused;              /* the way led to `file`, and it was not taken */
    char file[QC_H5_PATH_MAX]; /* "": everything is in the file itself */
};
/* Access for opening objects by name that asks e->follow before another file is opened; to be closed. */
hid_t qc_h5_link_access(struct qc_h5_elsewhere *e);
/* False: values of the data set, in the file `from`, are elsewhere, and may not be read. Opens nothing. */
bool qc_h5_is_here(struct qc_h5_elsewhere *e, hid_t set, const char *from);
bool qc_h5_refuse(const struct qc_h5_elsewhere *e, struct qc_status *st);

void qc_h5_enter(void); /* takes the lock; no printing by HDF5 in this thread from here on */
void qc_h5_leave(void);

/* "WHAT (HDF5: its innermost message)" */
bool qc_h5_fail(struct qc_status *st, enum qc_code code, const char *what);

/* THE place that decides how elements of a file's type are read: into HDF5's type `memory`, and from there on as
   `way` says. */
struct qc_h5_element {
    enum qc_dtype dtype; /* as read; QC_NONE: they are not */
    const char *type;    /* what the file has, for people */
    hid_t memory;        /* of HDF5, not to be closed; qc_h5_memory_type gives the one to use */
    enum qc_h5_way way;
    struct qc_h5_bits bits; /* QC_H5_PACKED */
};
void qc_h5_element_of(struct qc_h5_element *out, hid_t type);
hid_t qc_h5_memory_type(const struct qc_h5_element *e, hid_t type); /* to be closed */
/* Are the file's bytes those of the memory type already, and wanted as they are? */
bool qc_h5_stored_so(const struct qc_h5_element *e, hid_t type, hid_t memory);
/* count numbers out of their bytes in the file, as integers of `element` bytes. */
void qc_h5_unpack(void *out, const void *in, size_t count, size_t element, const struct qc_h5_bits *bits);

/* 2-byte float in native byte order; to be closed. */
hid_t qc_h5_make_float16(size_t exponent_bits, size_t mantissa_bits, size_t bias);

/* Names of one group, in the order of their bytes. */
struct qc_h5_names {
    struct qc_h5_name {
        size_t at; /* in text */
        H5L_type_t type;
    } * list;
    char *text;
    size_t count, capacity, size, room;
    struct qc_status *st; /* HDF5 tells of a stopped iteration only that it stopped */
};
bool qc_h5_names_of(struct qc_h5_names *out, hid_t group, struct qc_status *st);
void qc_h5_names_free(struct qc_h5_names *n);

/* Do the names of a group look like samples: all numbers, or very many? */
bool qc_h5_like_samples(const struct qc_h5_names *n);
/* Samples of a group, whose object is s->id, and of a data set of sequences. Fills in all but s->id; s->ragged is there
   for set_close also when it fails. */
bool qc_h5_group_open(struct qc_h5_set *s, const struct qc_h5_file *f, struct qc_status *st);
bool qc_h5_vlen_open(struct qc_h5_set *s, hid_t type, hid_t space, struct qc_status *st);
void qc_h5_ragged_free(struct qc_h5_ragged *r); /* NULL-safe */
bool qc_h5_ragged_read(void *out, const struct qc_h5_set *s, int64_t first, int64_t count, struct qc_status *st);
/* Values as HDF5 gives them for s->way become those of s->dtype. */
void qc_h5_as_wanted(void *out, const void *data, size_t count, const struct qc_h5_set *s);
/* Fails where HDF5 here has not all filters that it is stored with. Notes those that we know in s. */
bool qc_h5_look_at_filters(struct qc_h5_set *s, bool *ours, hid_t creation, struct qc_status *st);

/* A group as one entry of a list: s is it, open. */
bool qc_h5_describe_group(struct qc_data_entry *out, const struct qc_h5_set *s, const char *name, struct qc_arena *a,
                          struct qc_status *st);
/* One data set for qc_h5_list, in the arena; set -1: what is behind the name is elsewhere. */
bool qc_h5_describe(struct qc_data_entry *out, hid_t set, const char *name, const struct qc_h5_elsewhere *e,
                    const struct qc_h5_file *f, struct qc_arena *a, struct qc_status *st);
/* Doubles a list that lives in the arena. */
void *qc_h5_grow(struct qc_arena *a, void *old, size_t count, size_t *capacity, size_t size, struct qc_status *st);

/* Of the file, to be closed. */
hid_t qc_h5_type_for_file(enum qc_dtype e);

/* Values of a numeric attribute (malloc), exactly: a long double holds all that we read. false: not numeric, none or
   too many, or damaged. */
bool qc_h5_attribute_numbers(long double **out, size_t *count, hid_t attribute);
