// SPDX-License-Identifier: Apache-2.0
/* What stands behind struct qc_dataset; private to datasets/. */
#ifndef QC_DATASETS_STREAM_DATASET_IMPL_H
#define QC_DATASETS_STREAM_DATASET_IMPL_H

#include "datasets/arrays/memory_rows.h"
#include "datasets/hdf5/data_reader.h"
#include "datasets/samples/dataset.h"
#include "datasets/stream/image_axes.h"
#include "datasets/stream/sample_convert.h"

/* A data set and what it feeds: an input, or the target (input NULL). */
struct qc_binding {
    const char *input, *name;
    struct qc_h5_set set;
    const struct qc_memory_array *array; /* its rows; NULL: those of the file */
    size_t rows;                         /* entries of axis 0 in one unit */
    enum qc_image_axes axes;             /* how those of the file differ from the tensor's */
    bool whole;                          /* one entry is the whole tensor */
    unsigned rank;
    int64_t *dims;                      /* of one unit's tensor */
    size_t elements, bytes, file_bytes; /* of one unit: in the tensor's type, in the file's */
    struct qc_conversion conversion;
};

/* One unit as it is stored. */
struct qc_packet {
    void *data;
    size_t capacity;
    struct qc_h5_chunk *rows;
    size_t row_capacity;
    bool decoded; /* data are elements already; rows are unused */
};

void qc_packet_clear(struct qc_packet *p);

/* Reads unit `unit` (of the choice) of a binding as it is stored. */
bool qc_dataset_fetch(struct qc_packet *p, const struct qc_dataset *ds, size_t binding, size_t unit,
                      struct qc_status *st);

struct qc_read_ahead;

struct qc_dataset {
    struct qc_arena *arena;
    const char *file;
    struct qc_reader *reader;            /* NULL: the samples are in memory */
    const struct qc_memory_data *memory; /* NULL: they are in the HDF5 file */
    struct qc_memory_data *own;          /* it, where it was made from the file */
    struct qc_binding *bindings;         /* the inputs, then the target if there is one */
    size_t input_count, binding_count;
    struct qc_h5_set labels;
    const struct qc_memory_array *label_array; /* as qc_binding.array */
    size_t label_rows, label_count;
    bool label_positions; /* several labels a sample */
    double peak;
    int64_t batch;                    /* 0: whole inputs */
    size_t total, all_units, dropped; /* samples in the file, units that they fill, samples left over */
    uint64_t *chosen;                 /* NULL: all units; else `units` of them (malloc) */
    size_t units, planned;            /* of this shard, of all */
    unsigned ahead;
    struct qc_read_ahead *read_ahead; /* NULL: none */
};

/* All inputs must come to the same number of units; after rows have gone too. */
bool qc_dataset_count(struct qc_dataset *ds, struct qc_status *st);

#endif
