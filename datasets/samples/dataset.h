// SPDX-License-Identifier: Apache-2.0
/* Data sets of a file as the inputs of a model: listing, binding, choice of samples, streaming reads. Memory is bounded
   by the raw chunks of a few samples. The first axis of every data set is the sample. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file.h"
#include "base/memo.h"
#include "base/status.h"
#include "datasets/samples/image_options.h"
#include "datasets/samples/preprocess.h"
#include "graph/types/dtype.h"

enum { QC_DATA_RANK_MAX = 32 };

/* ---- Content of a file ---- */

struct qc_data_attribute {
    const char *name;
    const char *text; /* a string unchanged; numbers separated by ", ", cut after 8 */
};

struct qc_data_entry {
    const char *name;    /* path inside the file without the leading '/' */
    const char *type;    /* "uint8", "float32", ...; "string", "compound", ... for unsupported types */
    enum qc_dtype dtype; /* QC_NONE for unsupported types */
    unsigned rank;
    const int64_t *dims;
    const char *storage; /* "contiguous", "chunks 1x3x32x32, shuffle, gzip 4" */
    const struct qc_data_attribute *attributes;
    size_t attribute_count;
    bool elsewhere; /* in another file that was not opened; then only the name is known */
};

struct qc_data_list {
    const struct qc_data_entry *entries; /* ordered by name */
    size_t count;
};

/* Returns true if the file can be read and has an HDF5 signature (also after a user block). Never fails. */
bool qc_data_is_hdf5(const char *path);
/* The same for everything that qc_dataset_open reads. */
bool qc_data_is_known(const char *path);
/* Returns true for a folder of images. */
bool qc_data_is_images(const char *path, enum qc_follow follow);
/* SHA-256 of a file's bytes, or of the names and bytes of a folder's files, as 64 hex digits. Links are followed. */
bool qc_data_file_sha256(char hex[65], const char *path, struct qc_status *st);

enum {
    QC_DATA_DEPTH_MAX = 512,    /* nested groups */
    QC_DATA_LINKS_MAX = 1000000 /* names in one file */
};

/* Lists every data set of the file and its groups, each group once, in the arena. Fails like qc_dataset_open. */
bool qc_data_list(struct qc_data_list *out, const char *path, enum qc_follow follow, struct qc_arena *a,
                  struct qc_status *st);

/* ---- Binding to a model ---- */

/* What an input of a decoder is if the data do not have it. */
enum qc_input_made {
    QC_MADE_NOT,       /* the data must have it */
    QC_MADE_EMPTY,     /* a cache without entries: free dims but the batch are 0 */
    QC_MADE_ONES,      /* 1 for each token */
    QC_MADE_POSITIONS, /* 0, 1, 2, ... for the tokens of each row */
    QC_MADE_STATE      /* an output of the step before; see "States" below */
};

/* A model input. dims[i] = -1: free. dims[0] is the batch if the data set has the same rank. */
struct qc_input_spec {
    const char *name;
    enum qc_dtype dtype;
    unsigned rank;
    const int64_t *dims;
    float scale; /* above 0: integers of the input stand for real numbers, (q - zero_point) * scale */
    int32_t zero_point;
    enum qc_input_made made;
    size_t output;          /* QC_MADE_STATE: index of the output of the model that gives the next state, ... */
    const int64_t *first;   /* ... and shape of the first state if the data have none; -1: as dims */
    const char *looks_like; /* an output of which this input may be the state, for messages; NULL: none */
};

/* --input NAME=DATASET */
struct qc_input_map {
    const char *input, *dataset;
};

struct qc_dataset_options {
    const struct qc_input_map *maps;
    size_t map_count;
    const struct qc_preprocess
        *preprocess;     /* NULL: the attributes of each data set; else used for every input instead of them */
    unsigned read_ahead; /* units that a thread reads ahead if the workers would wait without it; 0: none. Results do
                            not depend on it. */
    enum qc_follow follow;
    bool truth;   /* bind `labels` and `target` too if the file has them; else they are ignored */
    bool classes; /* bind sound `labels` too; others are ignored */
    const struct qc_image_options *image; /* NULL: derived from the model's input */
    const char *labels;                   /* table of labels for the files of a folder; NULL: none */
    size_t memory_limit;                  /* bytes that the process may hold; 0: no limit */
    bool strict;      /* an unreadable file of a folder is an error; else it is left out with a warning */
    unsigned workers; /* workers that check images; 0: one */
    void (*warn)(void *user, const char *text); /* may be NULL */
    void *warn_user;
    /* Called while images are checked, as qc_pool_progress_fn; may be NULL. */
    bool (*progress)(void *user, size_t done, size_t count);
    void *progress_user;
};
#define QC_DATASET_OPTIONS_INIT ((struct qc_dataset_options){.read_ahead = 0})

/* An open file with each model input bound to a data set. All functions that take a const one are thread safe. */
struct qc_dataset;

/* Opens FILE or FILE:DATASET: the whole text if such a file exists, else split at the first ':' after which a data set
   name may stand. FILE is HDF5, .npz, .npy, or a folder of images or .npy files (datasets/stream/readers.def), whose
   arrays count as data sets.

   Each input is bound to the first of: its qc_input_map; FILE:DATASET for a single input; the data set of the same
   name, that is whose string attribute `name` equals it, else whose path does (a leading '/' is ignored); for a single
   input the only data set that is not `labels` or `target`. Inputs with `made` set are made from the tokens, the data
   set [N,T] of an integer input, if the data do not have them, and none of the QC_MADE_EMPTY ones unless this is a
   single number; then they do not count as inputs here. A DATASET is a path, else such an attribute. NAME:nhwc is
   data set NAME of images with channels last, for an input that has them first; NAME:nchw is the opposite.

   A data set of the input's rank is cut along axis 0 into units of B = dims[0] samples (B = 1 if that is free); with
   one rank more, it holds a whole input for each sample. A group of data sets, or a data set of variable-length
   sequences, has samples whose dims may differ where the input leaves them free; then B is 1. A remainder of fewer than
   B samples is dropped (qc_dataset_dropped).

   Values have any integer or float type (also enum and h5py's bool) in any byte order. The attributes `scale`, `mean`,
   `std` apply to all of them. They are numeric, with 1 value, one per channel of the input's axis 1, or three for its
   last axis if only that has three. Real numbers (floats, and values that those attributes or options.preprocess apply
   to) are quantized for an input with a scale, half to even and saturated; integers of its own type are copied. HDF5
   reads in a separate process (docs/decisions/0025-hdf5-reads-in-a-process-of-its-own.md).

   Fails with QC_BAD_INPUT if the file is missing, unreadable, empty, of an unknown kind, truncated, or so damaged that
   HDF5 crashes; if values are in other files without options.follow; if a data set is missing or ambiguous (lists what
   there is); if there are no samples, a shape does not fit (names file, data set, input, expected and actual shape),
   attributes are invalid, or data sets differ in the number of samples. Fails with QC_UNSUPPORTED for an element type,
   filter (named) or shape that cannot be read; with QC_USAGE for a map to an unknown input. The inputs' names and dims
   are copied. */
bool qc_dataset_open(struct qc_dataset **out, const char *file, const struct qc_input_spec *inputs, size_t input_count,
                     const struct qc_dataset_options *options, struct qc_status *st);
void qc_dataset_free(struct qc_dataset *ds); /* NULL-safe */

/* Splits FILE or FILE:DATASET as qc_dataset_open does; both in the arena, *name is NULL if there is none. */
bool qc_dataset_split(const char **file, const char **name, const char *text, struct qc_arena *a, struct qc_status *st);

const char *qc_dataset_file(const struct qc_dataset *ds); /* path without :DATASET */
/* Returns a data set that no write reached, so that all its samples are HDF5's fill value; NULL: none. */
const char *qc_dataset_unwritten(const struct qc_dataset *ds);
/* Fails with QC_BAD_INPUT if the file was written or replaced since it was opened. Reading checks it as well. */
bool qc_dataset_is_unchanged(const struct qc_dataset *ds, struct qc_status *st);
size_t qc_dataset_made(const struct qc_dataset *ds); /* inputs that are made from the tokens */

/* Returns how values become an input; NULL: there is no such input. */
const struct qc_preprocess *qc_dataset_preprocess(const struct qc_dataset *ds, const char *input);

/* Shape of one unit of an input, as the model takes it; dims that differ between units are -1. Returns the rank; the
   result in *dims is borrowed. */
unsigned qc_dataset_dims(const int64_t **dims, const struct qc_dataset *ds, size_t input);
size_t qc_dataset_elements(const struct qc_dataset *ds, size_t input); /* elements of the largest unit */
/* Returns true if inputs differ in shape between units. */
bool qc_dataset_varies(const struct qc_dataset *ds);
/* Shape of one unit of an input, all dims known: dims[QC_DATA_RANK_MAX]. Returns the rank. unit < qc_dataset_units. */
unsigned qc_dataset_unit_dims(int64_t *dims, const struct qc_dataset *ds, size_t input, size_t unit);
size_t qc_dataset_unit_elements(const struct qc_dataset *ds, size_t input, size_t unit);
/* Describes the data of the inputs, for people and to tell calibration data apart: for each input a line "INPUT:
   DATASET scale=A mean=B,.. std=C,.." with its preprocessing (numbers read back as the same float32). In the arena. */
const char *qc_dataset_inputs(const struct qc_dataset *ds, struct qc_arena *a, struct qc_status *st);
size_t qc_dataset_bytes(const struct qc_dataset *ds, size_t input); /* of the largest unit, in the input's type */
size_t qc_dataset_unit_bytes(const struct qc_dataset *ds, size_t input, size_t unit);

/* Bytes that a scratch grows to if samples differ in size, and of the states of a worker; else 0. */
size_t qc_dataset_scratch_bytes(const struct qc_dataset *ds);

/* Samples in one unit; 0 if the data sets hold whole inputs (then a unit is one entry of axis 0). */
int64_t qc_dataset_batch(const struct qc_dataset *ds);
/* The same, but 1 in place of 0. */
size_t qc_dataset_unit_samples(const struct qc_dataset *ds);

/* Units to read (after qc_dataset_select: the chosen ones), their samples, samples of the file that do not fill a
   batch, and samples in the file. */
size_t qc_dataset_units(const struct qc_dataset *ds);
size_t qc_dataset_samples(const struct qc_dataset *ds);
size_t qc_dataset_planned(const struct qc_dataset *ds); /* as qc_dataset_samples, for all shards */
size_t qc_dataset_dropped(const struct qc_dataset *ds);
size_t qc_dataset_total(const struct qc_dataset *ds);

/* Index in the file (from 0) of the first sample of a unit. unit < qc_dataset_units. */
size_t qc_dataset_first_sample(const struct qc_dataset *ds, size_t unit);

/* Keeps units of equal size that are read again while the budget lasts (borrowed; NULL: 16 MiB); samples in memory are
   not kept. Not concurrently with readers. */
bool qc_dataset_keep(struct qc_dataset *ds, struct qc_memo_budget *budget, struct qc_status *st);

/* Frees the units that are kept; further ones will be. Not concurrently with readers. */
void qc_dataset_let_go(const struct qc_dataset *ds);

/* Returns the number of units read ahead, and the bytes that each may hold. If the process that reads HDF5 reads ahead
   instead of a thread, returns 1 for all of them. */
unsigned qc_dataset_ahead(size_t *bytes_each, const struct qc_dataset *ds);
/* Limits reading ahead until the next choice of samples and drops what was read ahead. Results do not depend on it. */
void qc_dataset_read_less_ahead(const struct qc_dataset *ds, unsigned units);

/* ---- Choice of samples ---- */

struct qc_selection {
    size_t samples; /* 0: all; limited to all */
    bool drawn; /* false: evenly spaced, unit j of n is floor(j * all / n). true: drawn without replacement with seed */
    uint64_t seed; /* splitmix64 (Steele, Lea, Flood 2014) and Floyd's sampling; the chosen units are ascending */
    bool others;   /* of the units outside of the present choice (qc_dataset_others), not with shards */
    bool in_order; /* with states: the first ones, also if all are recorded */
    /* NULL, or [units of all samples]: takes the units with the least keys, so that another order of the samples gives
       the same ones. Not drawn, of others, or with states. Borrowed. */
    const uint64_t *keys;
    size_t shard, shards; /* takes units shard, shard + shards, ... of the chosen ones; shards 0: all of them */
};

/* Chooses samples / B units (at least one, but a shard may be empty). Replaces an earlier choice; not concurrently with
   readers. Files of a folder are checked here: unreadable ones are left out and replaced by others, which lowers
   qc_dataset_total. Fails with QC_BAD_INPUT also if the file cannot hold values for so many samples. */
bool qc_dataset_select(struct qc_dataset *ds, const struct qc_selection *selection, struct qc_status *st);

/* Returns the number of samples outside of the present choice: 0 with states, in a shard, and if rows may be left out.
 */
size_t qc_dataset_others(const struct qc_dataset *ds);

/* The same choice on plain numbers: writes n of 0..total-1, ascending, to out[n]. n <= total. */
bool qc_select_units(uint64_t *out, size_t n, uint64_t total, const struct qc_selection *selection,
                     struct qc_status *st);

/* ---- States ---- */

/* If an input has QC_MADE_STATE, samples are the steps of sequences: all samples in order are one, or the data set
   `lengths` has the units of each. The first state of a sequence is that of the data set of the input (a row for each
   sample, of which the first of each sequence counts; or one for each sequence; or one for all), else zero. Free dims
   of such an input are then the batch (one) or an error. Later states are those that qc_dataset_record stores, in a
   temporary file. Choices take the first samples in order, and shards take whole sequences. Of recorded samples fewer
   ones are chosen like samples without states; each is a sequence of its own, which begins with its recorded state. */

/* Returns the number of sequences among the chosen units; 0 without states. */
size_t qc_dataset_sequences(const struct qc_dataset *ds);
/* Returns the first unit of chosen sequence k; k = qc_dataset_sequences: the number of units. */
size_t qc_dataset_sequence(const struct qc_dataset *ds, size_t k);
/* Returns 1 + the index of the output that gives the next state; 0: the input is no state. */
size_t qc_dataset_state(const struct qc_dataset *ds, size_t input);
const char *qc_dataset_input(const struct qc_dataset *ds, size_t input); /* its name; borrowed */
/* Sets the shapes of a state for the units of the file, sizes[units][rank], which are copied. The first ones of
   sequences are those of the first states. Called before a choice of samples. */
bool qc_dataset_set_state_sizes(struct qc_dataset *ds, size_t input, const int64_t *sizes, struct qc_status *st);
/* Starts a recording of the states that the chosen units, or fewer, read. Not concurrently with readers. */
bool qc_dataset_record_begin(struct qc_dataset *ds, struct qc_status *st);
/* Stores the state that a unit reads; it is not the first of its sequence. Thread safe for different units. */
bool qc_dataset_record(const struct qc_dataset *ds, size_t input, size_t unit, const void *data, struct qc_status *st);

/* ---- Reading ---- */

/* Buffers of one worker; they grow to the size of one unit. */
struct qc_dataset_scratch;
bool qc_dataset_scratch_new(struct qc_dataset_scratch **out, struct qc_status *st);
void qc_dataset_scratch_free(struct qc_dataset_scratch *s); /* NULL-safe */
/* Units that are read with these buffers are not cached (qc_dataset_keep): each is read once, and the cache is for the
   units of trials. */
void qc_dataset_scratch_passes(struct qc_dataset_scratch *s);

/* Reads one unit of one input: qc_dataset_unit_bytes bytes at out, row-major, in the input's type, preprocessed. Float
   results keep NaN and infinity. An integer input takes only integral values in the range of its type; others fail with
   QC_BAD_INPUT. float64 is rounded to float32 half to even; f16 and bf16 inputs are rounded from the float32 value.
   Damaged chunks fail with QC_BAD_INPUT, naming data set and sample. Thread safe with one scratch per thread. HDF5 runs
   under one process-wide lock. If a chunk is exactly one sample with gzip, shuffle + gzip, shuffle or no filter,
   decoding and conversion run outside it. */
bool qc_dataset_read(void *out, const struct qc_dataset *ds, size_t input, size_t unit,
                     struct qc_dataset_scratch *scratch, struct qc_status *st);

/* ---- Ground truth ---- */

/* Needs options.truth. qc_dataset_open fails with QC_BAD_INPUT if labels are not integers, or if labels or target do
   not match the samples. */

/* Number of labels of the largest unit, or of one unit: one per sample; for whole inputs as many as the file has for
   one; 0 without `labels`. */
size_t qc_dataset_label_count(const struct qc_dataset *ds);
size_t qc_dataset_unit_label_count(const struct qc_dataset *ds, size_t unit);
/* If each sample has labels for its positions ([N,T] in the file): rank and shape [T] of the labels of one sample of
   this unit; units may differ. Rank 0 if a sample has one label. Borrowed. */
unsigned qc_dataset_label_dims(const int64_t **dims, const struct qc_dataset *ds, size_t unit);
bool qc_dataset_read_labels(int64_t *out, const struct qc_dataset *ds, size_t unit, struct qc_status *st);

/* Elements of data set `target` in the largest unit (0 without one), and in one unit. */
size_t qc_dataset_target_elements(const struct qc_dataset *ds);
size_t qc_dataset_unit_target_elements(const struct qc_dataset *ds, size_t unit);
/* Reads float32 values with the target's own attributes (options.preprocess does not apply). */
bool qc_dataset_read_target(float *out, const struct qc_dataset *ds, size_t unit, struct qc_dataset_scratch *scratch,
                            struct qc_status *st);
/* Returns the peak for PSNR: the target's attribute `peak`, else 255 for uint8 without scale, mean and std, else 1. */
double qc_dataset_target_peak(const struct qc_dataset *ds);

/* ---- Private to datasets/ ---- */

/* Summarizes sizes[count][rank]. dims[rank]: the common value, -1 if entries differ; *most: elements of the largest
   entry; *same: all dims are common. Fails if a dim is below 0 or a shape is larger than any memory. */
bool qc_entry_sizes(int64_t *dims, size_t *most, bool *same, const int64_t *sizes, size_t count, unsigned rank);

/* Returns the elements of one entry that qc_entry_sizes has checked. */
static inline size_t qc_entry_elements(const int64_t *dims, unsigned rank)
{
    size_t n = 1;
    for (unsigned i = 0; i < rank; i++) n *= (size_t)dims[i];
    return n;
}

/* Fails with QC_BAD_INPUT and both numbers if the stored bytes cannot hold so many samples of this size: a shape costs
   nothing, and 10^12 samples that were never written would take too long to read. stored: SIZE_MAX if unknown. remedy:
   what the user can do instead of storing the values, or "". */
bool qc_check_stored(size_t samples, size_t sample_bytes, size_t stored, const char *remedy, struct qc_status *st);
