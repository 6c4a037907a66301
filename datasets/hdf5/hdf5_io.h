// SPDX-License-Identifier: Apache-2.0
/* All that this room asks of HDF5; private to datasets/. What others wrote is read in a process of its own, with
   data_reader.h. Every function may be called from any thread: one lock of the process is held around each. HDF5
   never prints; its innermost message goes into the status. */
#pragma once

#include "datasets/samples/dataset.h"

enum {
    QC_H5_SETS_MAX = 4096, /* data sets in one file that we list */
    QC_H5_VALUES_MAX = 65536,
    QC_H5_INTEGER_MAX = 64 /* bytes of one integer in the file */
};

struct qc_h5_file;

/* Opens for reading; path is borrowed. QC_BAD_INPUT: not HDF5, truncated, damaged. */
bool qc_h5_open(struct qc_h5_file **out, const char *path, enum qc_follow follow, struct qc_status *st);
/* Creates or replaces. QC_MACHINE. */
bool qc_h5_create(struct qc_h5_file **out, const char *path, struct qc_status *st);
/* Closes; QC_MACHINE when what was written could not reach the disk. The file is freed in any case. NULL-safe. */
bool qc_h5_close(struct qc_h5_file *f, struct qc_status *st);

/* Every data set, in the order of its path. */
bool qc_h5_list(struct qc_data_list *out, struct qc_h5_file *f, struct qc_arena *a, struct qc_status *st);

/* Where an integer lies in its bytes: `count` bits from bit `offset` of `size` bytes. */
struct qc_h5_bits {
    size_t size, offset, count;
    bool big, is_signed;
};
enum qc_h5_way {
    QC_H5_PLAIN,  /* as HDF5 converts them */
    QC_H5_PACKED, /* integers of fewer bits than bytes hold, or of an odd size: we take them out of the file's bytes */
    QC_H5_WIDE    /* long double: we round to float32, once */
};

/* Samples that are not rows of one array: a group of data sets, or sequences of variable length (hdf5_read.c). */
struct qc_h5_ragged;

/* An open data set for reading. */
struct qc_h5_set {
    int64_t id, memory_type;
    enum qc_dtype dtype; /* of the elements as read: native byte order */
    size_t element;      /* their bytes */
    enum qc_h5_way way;
    struct qc_h5_bits bits;
    unsigned rank;
    int64_t dims[QC_DATA_RANK_MAX];
    const int64_t *sizes;           /* [dims[0]][rank - 1]: where entries differ, and dims are -1 then; NULL: nowhere */
    size_t row_elements, row_bytes; /* one entry of axis 0; the largest */
    size_t stored;               /* bytes of all entries as the file stores them; SIZE_MAX: unknown, in other files */
    bool grouped;                /* each entry is a data set of its own, in a group */
    struct qc_h5_ragged *ragged; /* owned; NULL: an array. In the process that has it open */
    bool raw;                    /* chunks are rows, and qc_chunk_decode undoes all their filters */
    int shuffle, deflate;        /* place in the filter pipeline (bit of a chunk's mask), -1: absent */
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

/* name: a data set of qc_h5_list, or a group that holds one for each sample, in the natural order of their names.
   QC_UNSUPPORTED: element type or filter. QC_BAD_INPUT: no axis, damaged; members of other types or ranks. */
bool qc_h5_set_open(struct qc_h5_set *out, struct qc_h5_file *f, const char *name, struct qc_status *st);

/* count entries of axis 0 from first, converted to s->dtype: count * s->row_bytes bytes; one where they differ. */
bool qc_h5_read_rows(void *out, const struct qc_h5_set *s, int64_t first, int64_t count, struct qc_status *st);

/* Where a stored chunk is in memory; mask: bit i set when filter i was left out. */
struct qc_h5_chunk {
    size_t at, size;
    uint32_t mask;
};

/* Bytes of the stored chunk of one row (s->raw); 0: there is none. Then the chunk itself, where it has some; *mask:
   bit i set when filter i was left out. */
bool qc_h5_chunk_bytes(size_t *size, const struct qc_h5_set *s, int64_t row, struct qc_status *st);
bool qc_h5_read_chunk(void *out, uint32_t *mask, const struct qc_h5_set *s, int64_t row, struct qc_status *st);

/* Numeric attribute; *count 0 when it is absent, else *values is owned (free). At most QC_H5_VALUES_MAX values. */
bool qc_h5_numbers(long double **values, size_t *count, const struct qc_h5_set *s, const char *name,
                   struct qc_status *st);

/* A data set for writing, [*, dims[0], ...] with chunks [1, dims...]; attribute `name` = title. Zero dims are
   allowed. */
struct qc_h5_sink {
    int64_t id;
    unsigned rank; /* with the sample axis */
    int64_t dims[QC_DATA_RANK_MAX];
    enum qc_dtype dtype;
};
bool qc_h5_sink_open(struct qc_h5_sink *out, struct qc_h5_file *f, const char *path, const char *title,
                     enum qc_dtype dtype, const int64_t *dims, unsigned rank, struct qc_status *st);
/* A list of float32 as an attribute; count 0: none. */
bool qc_h5_sink_numbers(struct qc_h5_sink *s, const char *name, const float *values, size_t count,
                        struct qc_status *st);
/* Row `row` = number of rows so far; data as qc_chunk_encode makes it, NULL when a row has no elements. */
bool qc_h5_sink_append(struct qc_h5_sink *s, int64_t row, const void *data, size_t size, struct qc_status *st);
/* Entries of other shapes: the data set, with `rows` entries so far, becomes a group of that name with its attributes,
   and in it a data set for each entry, 0, 1, ..., of shape dims[rank], filters as before. */
bool qc_h5_scatter(struct qc_h5_sink *s, struct qc_h5_file *f, const char *path, int64_t rows, const int64_t *dims,
                   unsigned rank, struct qc_status *st);
/* Entry `row` of what has been scattered; data as of qc_h5_sink_append. */
bool qc_h5_scatter_add(struct qc_h5_sink *s, int64_t row, const int64_t *dims, unsigned rank, const void *data,
                       size_t size, struct qc_status *st);
bool qc_h5_sink_close(struct qc_h5_sink *s, struct qc_status *st); /* safe on a zeroed one and twice */
