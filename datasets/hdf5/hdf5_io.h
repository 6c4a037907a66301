// SPDX-License-Identifier: Apache-2.0
/* The functions of HDF5 that this folder uses; private to datasets/. Untrusted files are read in a separate process
   with data_reader.h. Every function may be called from any thread: one process-wide lock is held around each. HDF5
   never prints; its innermost message goes into the status. */
#pragma once

#include "datasets/samples/dataset.h"

enum {
    QC_H5_SETS_MAX = 4096, /* listed data sets of one file */
    QC_H5_VALUES_MAX = 65536,
    QC_H5_INTEGER_MAX = 64 /* bytes of one integer in the file */
};

struct qc_h5_file;

/* Opens for reading; path is borrowed. Fails with QC_BAD_INPUT if it is not HDF5, truncated or damaged. */
bool qc_h5_open(struct qc_h5_file **out, const char *path, enum qc_follow follow, struct qc_status *st);
/* Creates or replaces a file. Fails with QC_MACHINE. */
bool qc_h5_create(struct qc_h5_file **out, const char *path, struct qc_status *st);
/* Closes and frees the file in any case. Fails with QC_MACHINE if written data could not reach the disk. NULL-safe. */
bool qc_h5_close(struct qc_h5_file *f, struct qc_status *st);

/* Lists every data set in the order of its path. */
bool qc_h5_list(struct qc_data_list *out, struct qc_h5_file *f, struct qc_arena *a, struct qc_status *st);

/* Bit field of an integer: `count` bits from bit `offset` of `size` bytes. */
struct qc_h5_bits {
    size_t size, offset, count;
    bool big, is_signed;
};
enum qc_h5_way {
    QC_H5_PLAIN,  /* HDF5 converts them */
    QC_H5_PACKED, /* integers of fewer bits than their bytes, or of an odd size: we extract them from the file's
                     bytes */
    QC_H5_WIDE    /* long double: we round it to float32 once */
};

/* Samples that are not rows of one array: a group of data sets, or sequences of variable length (hdf5_read.c). */
struct qc_h5_ragged;

/* An open data set for reading. */
struct qc_h5_set {
    int64_t id, memory_type;
    enum qc_dtype dtype; /* of the elements as read, in native byte order */
    size_t element;      /* bytes of an element */
    enum qc_h5_way way;
    struct qc_h5_bits bits;
    unsigned rank;
    int64_t dims[QC_DATA_RANK_MAX];
    const int64_t *sizes;           /* [dims[0]][rank - 1]: shapes of entries if they differ (those dims are -1); else
                                       NULL */
    size_t row_elements, row_bytes; /* of one entry of axis 0, the largest */
    size_t stored;                  /* stored bytes of all entries; SIZE_MAX: unknown, in other files */
    size_t pieces, written;      /* chunks, or data sets of a group, and those that a write reached; HDF5 gives the fill
                                    value      for the others */
    int64_t first_unwritten;     /* an entry; -1 if all are written */
    bool grouped;                /* each entry is a data set in a group */
    struct qc_h5_ragged *ragged; /* owned; NULL: an array. Only in the process that has the set open */
    bool raw;                    /* each chunk is one row, and qc_chunk_decode undoes all filters */
    int shuffle, deflate;        /* index in the filter pipeline (bit of a chunk's mask); -1: absent */
};

/* Shape of one entry of axis 0, [rank - 1]. */
static inline const int64_t *qc_h5_entry_dims(const struct qc_h5_set *s, int64_t entry)
{
    return s->sizes ? s->sizes + (size_t)entry * (s->rank - 1) : s->dims + 1;
}

/* Bytes of one entry of axis 0. */
static inline size_t qc_h5_entry_bytes(const struct qc_h5_set *s, int64_t entry)
{
    const unsigned rank = s->rank - 1;
    return s->sizes ? qc_entry_elements(s->sizes + (size_t)entry * rank, rank) * s->element : s->row_bytes;
}

/* name: a data set of qc_h5_list, or a group with one data set for each sample, in the natural order of their names.
   Fails with QC_UNSUPPORTED for an element type or filter; with QC_BAD_INPUT if there is no axis, the set is damaged,
   or members differ in type or rank. */
bool qc_h5_set_open(struct qc_h5_set *out, struct qc_h5_file *f, const char *name, struct qc_status *st);

/* Reads count entries of axis 0 from first as s->dtype, count * s->row_bytes bytes; a single entry if entries differ in
   size. */
bool qc_h5_read_rows(void *out, const struct qc_h5_set *s, int64_t first, int64_t count, struct qc_status *st);

/* Position of a stored chunk in memory; mask: bit i is set if filter i was skipped. */
struct qc_h5_chunk {
    size_t at, size;
    uint32_t mask;
};

/* Returns the bytes of the stored chunk of one row (needs s->raw), 0 if there is none. qc_h5_read_chunk reads an
   existing chunk; *mask: bit i is set if filter i was skipped. */
bool qc_h5_chunk_bytes(size_t *size, const struct qc_h5_set *s, int64_t row, struct qc_status *st);
bool qc_h5_read_chunk(void *out, uint32_t *mask, const struct qc_h5_set *s, int64_t row, struct qc_status *st);

/* Reads a numeric attribute. *count is 0 if it is absent; else *values is owned (free). At most QC_H5_VALUES_MAX
   values. */
bool qc_h5_numbers(long double **values, size_t *count, const struct qc_h5_set *s, const char *name,
                   struct qc_status *st);
/* Reads a text attribute (malloc); NULL if it is absent. */
bool qc_h5_text(char **text, const struct qc_h5_set *s, const char *name, struct qc_status *st);

/* A data set for writing, [*, dims[0], ...] with chunks [1, dims...] and attribute `name` = title. Dims may be 0. */
struct qc_h5_sink {
    int64_t id;
    unsigned rank; /* with the sample axis */
    int64_t dims[QC_DATA_RANK_MAX];
    enum qc_dtype dtype;
    bool compressed; /* chunks are encoded by qc_chunk_encode, else stored as they are */
};
/* rank: of dims, without the sample axis. */
struct qc_h5_sink_form {
    const char *path, *title;
    enum qc_dtype dtype;
    unsigned rank;
    const int64_t *dims;
    bool compressed;
};
bool qc_h5_sink_open(struct qc_h5_sink *out, struct qc_h5_file *f, const struct qc_h5_sink_form *form,
                     struct qc_status *st);
/* Writes float32 values as an attribute; count 0: none. */
bool qc_h5_sink_numbers(struct qc_h5_sink *s, const char *name, const float *values, size_t count,
                        struct qc_status *st);
/* Appends row `row`, which equals the number of rows so far. data: a chunk; NULL if rows have no elements. */
bool qc_h5_sink_append(struct qc_h5_sink *s, int64_t row, const void *data, size_t size, struct qc_status *st);
/* Turns the data set, with `rows` entries so far, into a group of that name with its attributes, for entries of other
   shapes. It holds one data set for each entry, 0, 1, ..., of shape dims[rank], with the same filters. */
bool qc_h5_scatter(struct qc_h5_sink *s, struct qc_h5_file *f, const char *path, int64_t rows, const int64_t *dims,
                   unsigned rank, struct qc_status *st);
/* Adds entry `row` to such a group; data as in qc_h5_sink_append. */
bool qc_h5_scatter_add(struct qc_h5_sink *s, int64_t row, const int64_t *dims, unsigned rank, const void *data,
                       size_t size, struct qc_status *st);
bool qc_h5_sink_close(struct qc_h5_sink *s, struct qc_status *st); /* safe on a zeroed sink and twice */
