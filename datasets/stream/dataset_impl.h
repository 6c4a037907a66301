// SPDX-License-Identifier: Apache-2.0
/* Implementation of struct qc_dataset; private to datasets/. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file.h"
#include "base/status.h"
#include "datasets/arrays/memory_data.h"
#include "datasets/hdf5/data_reader.h"
#include "datasets/samples/dataset.h"
#include "datasets/samples/preprocess.h"
#include "graph/types/dtype.h"

/* Converts values of a file to values of a tensor, preprocessing included; private to datasets/. */

/* A tensor [outer, channels, inner]; channels is the channel axis of the input, 1 if it has none. */
struct qc_conversion {
    enum qc_dtype from, to;
    size_t outer, channels, inner;
    struct qc_preprocess preprocess; /* each count 0, 1 or channels */
    float scale;                     /* above 0: integers of `to` are round(real / scale) + zero_point */
    int32_t zero_point;
};

/* out and in do not overlap. An integer `to` with a scale quantizes real numbers (of a float type, or preprocessed),
   half to even and saturated; NaN fails with QC_BAD_INPUT. An integer `to` without one takes only integral values in
   its range; others fail with QC_BAD_INPUT, naming element and value. */
bool qc_convert_sample(void *out, const void *in, const struct qc_conversion *c, struct qc_status *st);

/* Returns true if the values are copied byte for byte. */
bool qc_conversion_is_copy(const struct qc_conversion *c);

/* Images whose channels are on another axis than the model's: the last three axes are reordered while reading. */
enum qc_image_axes {
    QC_AXES_AS_THEY_ARE,
    QC_AXES_LAST, /* in the file [.., H, W, C] (NAME:nhwc), for the model [.., C, H, W] */
    QC_AXES_FIRST /* in the file [.., C, H, W] (NAME:nchw), for the model [.., H, W, C] */
};

/* A data set and the input that it feeds, or the target (input NULL). */
struct qc_binding {
    const char *input, *name;
    struct qc_h5_set set;
    const struct qc_memory_array *array; /* its rows; NULL: rows of the file */
    size_t rows;                         /* entries of axis 0 in one unit */
    enum qc_image_axes axes;             /* how the file's axes differ from the tensor's */
    bool whole;                          /* one entry is a whole tensor */
    unsigned rank;
    int64_t *dims;                      /* of one unit's tensor; -1: differ (set.sizes) */
    size_t elements, bytes, file_bytes; /* of the largest unit: in the tensor's type, in the file's */
    struct qc_conversion conversion;    /* with the sizes of the largest unit */
    bool last;                          /* channels are the last axis */
    bool may_be_empty;                  /* samples without elements fit */
    enum qc_input_made made;            /* not QC_MADE_NOT: `set` is that of the tokens, and is not read */
    size_t output;                      /* QC_MADE_STATE: index of the output that gives the next one, ... */
    int64_t recorded;                   /* ... where its states begin in the recording, ... */
    void *initial;                      /* ... first states of the sequences, NULL: zeros, ... */
    size_t initial_count, first_bytes;  /* ... 1: one for all; bytes of each */
};

/* One unit as stored. */
struct qc_packet {
    void *data;
    size_t capacity;
    struct qc_h5_chunk *rows;
    size_t row_capacity;
    bool decoded; /* data are decoded elements; rows are unused */
};

void qc_packet_clear(struct qc_packet *p);

/* Reads unit `unit` of the choice, as stored. */
bool qc_dataset_fetch(struct qc_packet *p, const struct qc_dataset *ds, size_t binding, size_t unit,
                      struct qc_status *st);

struct qc_read_ahead;

struct qc_dataset {
    struct qc_arena *arena;
    const char *file;
    struct qc_file_state state;          /* of the file, before anything was read */
    const char *unwritten;               /* a data set that was never written, or NULL */
    struct qc_reader *reader;            /* NULL: the samples are in memory */
    const struct qc_memory_data *memory; /* NULL: the samples are in the HDF5 file */
    struct qc_memory_data *own;          /* the owned `memory`, if made from a file */
    struct qc_binding *bindings;         /* the inputs, then the target if there is one */
    size_t input_count, binding_count;
    struct qc_h5_set labels;
    const struct qc_memory_array *label_array; /* as qc_binding.array */
    size_t label_rows, label_count;            /* count: of the largest unit */
    bool label_positions;                      /* several labels per sample */
    double peak;
    int64_t batch;                    /* 0: whole inputs */
    size_t total, all_units, dropped; /* samples in the file, units that they fill, samples left over */
    uint64_t *chosen;                 /* NULL: all units; else `units` of them (malloc) */
    size_t units, planned;            /* of this shard, of all shards */
    unsigned ahead;
    struct qc_read_ahead *read_ahead;  /* NULL: none */
    size_t sequence_count;             /* of the file; 0: no states */
    size_t *sequences;                 /* [sequence_count + 1]: first unit in the file of each */
    size_t chosen_sequences, *runs;    /* [chosen_sequences + 1]: first chosen unit of each (malloc) */
    struct qc_scratch_file *recording; /* of states; NULL: none */
    size_t recorded;                   /* units of the file whose states it holds: the first ones */
    struct qc_memo *kept;              /* of units; NULL: none */
};

/* Returns the index in the file of a chosen unit. */
static inline size_t qc_unit_in_file(const struct qc_dataset *ds, size_t unit)
{
    return ds->chosen ? (size_t)ds->chosen[unit] : unit;
}

/* For samples that differ in size (dataset_shapes.c). Removes the batch axis of 1 that each data set of a group may
   have. */
bool qc_drop_batch_axis(struct qc_h5_set *s, struct qc_arena *a, struct qc_status *st);
/* Reorders the sizes as qc_axes_turn reorders dims. */
bool qc_turn_sizes(struct qc_h5_set *s, enum qc_image_axes axes, struct qc_arena *a, struct qc_status *st);
/* Fails if a sample is empty. */
bool qc_check_sizes(const struct qc_h5_set *s, struct qc_status *st);

/* Inputs that the data do not have (made_inputs.c). Binds input k to the tokens, which are bound already. Fails if
   there are none. */
bool qc_bind_made(struct qc_dataset *ds, size_t k, const struct qc_input_spec *inputs, struct qc_status *st);
/* Writes the values of such an input for a unit of the file. */
bool qc_make_input(void *out, const struct qc_binding *b, size_t unit_in_file, struct qc_status *st);
/* Inputs that are states (states.c). */
/* Binds input k after the others. */
bool qc_bind_state(struct qc_dataset *ds, size_t k, const struct qc_input_spec *inputs, struct qc_status *st);
/* Reads the lengths of sequences (NULL: one sequence) and the first states, when all inputs are bound. */
bool qc_open_states(struct qc_dataset *ds, const struct qc_data_entry *lengths, struct qc_status *st);
/* Chooses the first units for qc_dataset_choose. */
bool qc_choose_steps(struct qc_dataset *ds, size_t units, const struct qc_selection *selection, struct qc_status *st);
bool qc_read_state(void *out, const struct qc_dataset *ds, size_t input, size_t unit_in_file, struct qc_status *st);
/* Reads rows of a data set of the file or of memory. */
bool qc_read_rows(void *out, const struct qc_dataset *ds, const struct qc_h5_set *set,
                  const struct qc_memory_array *array, size_t first, size_t count, struct qc_status *st);
/* Opens a data set: its type and shape; *array: its rows if they are in memory. */
bool qc_open_set(struct qc_h5_set *out, const struct qc_memory_array **array, struct qc_dataset *ds, const char *name,
                 struct qc_status *st);
/* Finds the first entry whose shape the input does not take. Returns false if all fit. */
bool qc_first_unfit(size_t *entry, const struct qc_h5_set *s, const struct qc_input_spec *input, unsigned skip);
/* The shape of a unit of the file as a tensor, and the conversion for that shape. */
void qc_binding_dims(int64_t *dims, const struct qc_binding *b, size_t unit_in_file);
struct qc_conversion qc_binding_conversion(const struct qc_binding *b, const int64_t *dims);

/* qc_dataset_select without the check of stored bytes, for the initial choice. */
bool qc_dataset_choose(struct qc_dataset *ds, const struct qc_selection *selection, struct qc_status *st);

/* Counts units; fails if inputs differ in their number. Also called after rows were removed. */
bool qc_dataset_count(struct qc_dataset *ds, struct qc_status *st);

/* Parses the suffix of NAME:nhwc or NAME:nchw; *length: of NAME. Returns QC_AXES_AS_THEY_ARE without a suffix. */
enum qc_image_axes qc_axes_of(size_t *length, const char *dataset);

/* Turns the shape in the file into the model's; rank >= 3. */
void qc_axes_turn(int64_t *dims, unsigned rank, enum qc_image_axes axes);

/* Reorders `elements` values of `size` bytes; dims[rank - 3 ..] are the model's last three dimensions. out and in do
   not overlap. */
void qc_axes_values(void *out, const void *in, size_t elements, size_t size, const int64_t *dims, unsigned rank,
                    enum qc_image_axes axes);

/* A thread that reads units before workers ask for them; private to datasets/. */

/* Starts the thread, which keeps at most 2 * ds->ahead units of every binding. */
bool qc_read_ahead_start(struct qc_read_ahead **out, const struct qc_dataset *ds, struct qc_status *st);
/* Units of every binding that are read ahead; qc_read_ahead_limit lowers the number and drops what was read. */
unsigned qc_read_ahead_units(struct qc_read_ahead *r);
void qc_read_ahead_limit(struct qc_read_ahead *r, unsigned units);
void qc_read_ahead_stop(struct qc_read_ahead *r); /* NULL-safe; waits for the thread */

/* Exchanges *p for the packet of a unit if it is read or being read; returns false if the caller must fetch it. Also
   tells the thread where the readers are. A unit that the thread could not read counts as missing, so that the reader
   gets the error itself. */
bool qc_read_ahead_take(struct qc_packet *p, struct qc_read_ahead *r, size_t binding, size_t unit);
