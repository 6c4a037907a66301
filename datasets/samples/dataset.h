// SPDX-License-Identifier: Apache-2.0
/* Data sets of a file as the inputs of a model: listing, binding, choice of samples, streaming reads.
   Memory is bounded: raw chunks of a few samples, never the data set. The first axis of every data set is the sample.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file.h"
#include "base/status.h"
#include "datasets/samples/image_options.h"
#include "datasets/samples/preprocess.h"
#include "graph/types/dtype.h"

enum { QC_DATA_RANK_MAX = 32 };

/* ---- What is in a file ---- */

struct qc_data_attribute {
    const char *name;
    const char *text; /* a string as it is; numbers with ", " between, cut after 8 */
};

struct qc_data_entry {
    const char *name;    /* path inside the file without the leading '/' */
    const char *type;    /* "uint8", "float32", "float16", ...; "string", "compound", ... for what cannot be read */
    enum qc_dtype dtype; /* QC_NONE for what cannot be read */
    unsigned rank;
    const int64_t *dims;
    const char *storage; /* "contiguous", "chunks 1x3x32x32, shuffle, gzip 4" */
    const struct qc_data_attribute *attributes;
    size_t attribute_count;
    bool elsewhere; /* in another file, which was not followed; then it is known by name alone */
};

struct qc_data_list {
    const struct qc_data_entry *entries; /* ordered by name */
    size_t count;
};

/* True when the file can be read and begins like an HDF5 file (also behind a user block). Never an error. */
bool qc_data_is_hdf5(const char *path);
/* The same for all that qc_dataset_open reads. */
bool qc_data_is_known(const char *path);
/* A folder of images. */
bool qc_data_is_images(const char *path, enum qc_follow follow);
/* 64 hex digits of a file's bytes, or of the names and bytes of a folder's files. Of what was opened: links are
 * followed.
 */
bool qc_data_file_sha256(char hex[65], const char *path, struct qc_status *st);

enum {
    QC_DATA_DEPTH_MAX = 512,    /* groups in each other */
    QC_DATA_LINKS_MAX = 1000000 /* names in one file */
};

/* Every data set of the file, in groups too, each group once; everything lives in the arena. Errors as of
 * qc_dataset_open. */
bool qc_data_list(struct qc_data_list *out, const char *path, enum qc_follow follow, struct qc_arena *a,
                  struct qc_status *st);

/* ---- Binding to a model ---- */

/* A model input. dims[i] = -1: free. dims[0] is the batch when the data set has the same rank. */
struct qc_input_spec {
    const char *name;
    enum qc_dtype dtype;
    unsigned rank;
    const int64_t *dims;
    float scale; /* above 0: integers of the input stand for real numbers, (q - zero_point) * scale */
    int32_t zero_point;
};

/* --input NAME=DATASET */
struct qc_input_map {
    const char *input, *dataset;
};

struct qc_dataset_options {
    const struct qc_input_map *maps;
    size_t map_count;
    const struct qc_preprocess
        *preprocess;     /* NULL: the data sets' own attributes; else for every input instead of them */
    unsigned read_ahead; /* units that a thread reads ahead of the workers, where they would wait without one; 0: none.
                            Results do not depend on it. */
    enum qc_follow follow;
    bool truth; /* bind `labels` and `target` too, where the file has them; else they are not looked at */
    const struct qc_image_options *image; /* NULL: images become what the model takes */
    const char *labels;                   /* table of the labels of a folder's files (label_file.h); NULL: none */
    size_t memory_limit;                  /* bytes that the process may hold; 0: nothing is said */
    bool strict;      /* a file of a folder that cannot be read is an error; else it is warned about and left out */
    unsigned workers; /* that look whether images can be read; 0: one */
    void (*warn)(void *user, const char *text); /* NULL: nobody listens */
    void *warn_user;
    /* Told while images are looked at, as qc_pool_progress_fn; NULL: nobody listens. */
    bool (*progress)(void *user, size_t done, size_t count);
    void *progress_user;
};
#define QC_DATASET_OPTIONS_INIT ((struct qc_dataset_options){.read_ahead = 0})

/* Open file with each model input bound to a data set. All functions that take a const one are thread safe. */
struct qc_dataset;

/* FILE is HDF5, .npz, .npy, or a folder of images or .npy files (datasets/stream/readers.def): what is said of a data
   set holds for their arrays. Opens FILE or FILE:DATASET (the whole text if such a file exists, else split at the first
   ':' behind which a data set name may stand) and binds each input, in this order: its qc_input_map; FILE:DATASET for a
   single input; the data set of the same name, which is one whose string attribute `name` equals it, else whose path
   does (a leading '/' makes no difference); for a single input the only data set that is not `labels` or `target`. A
   DATASET is a path, else such an attribute; NAME:nhwc is data set NAME of images whose channels are last, for an input
   that has them first, NAME:nchw the other way round. A data set of the input's rank is cut along axis 0 into units of
   B = dims[0] samples (B = 1 when that is free); one of a rank more holds a whole input per sample. A group of data
   sets, or one of sequences of variable length, is a data set of samples whose dims may differ where the input leaves
   them free; B is 1 then. A remainder of less
   than B samples is dropped (qc_dataset_dropped). Values: any integer or float type (enum and h5py's bool too), any
   byte order; attributes `scale`, `mean`, `std` (numeric, 1 value or one per channel of the input's axis 1, or three
   for its last axis where that alone has three) apply to any of them. Real numbers (floats, and what those attributes
   or options.preprocess apply to) are quantized for an input with a scale, half to even and saturated; its own integers
   are taken as they are. HDF5 reads in a process of its own
   (docs/decisions/0025-hdf5-reads-in-a-process-of-its-own.md). QC_BAD_INPUT: missing, unreadable, empty, of no kind
   that is read, truncated, damaged so that HDF5 crashes; values in other files without options.follow; no such or no
   unambiguous data set (lists what there is); no samples; shape (names file, data set, input, expected and got);
   attributes that make no sense; data sets with different numbers of samples. QC_UNSUPPORTED: element type, filter
   (named) or shape that cannot be read. QC_USAGE: a map to an unknown input. The inputs' names and dims are copied. */
bool qc_dataset_open(struct qc_dataset **out, const char *file, const struct qc_input_spec *inputs, size_t input_count,
                     const struct qc_dataset_options *options, struct qc_status *st);
void qc_dataset_free(struct qc_dataset *ds); /* NULL-safe */

/* FILE or FILE:DATASET as qc_dataset_open takes them apart; both in the arena, *name NULL when there is none. */
bool qc_dataset_split(const char **file, const char **name, const char *text, struct qc_arena *a, struct qc_status *st);

const char *qc_dataset_file(const struct qc_dataset *ds); /* path without :DATASET */

/* Shape of one unit of an input, as the model takes it; dims that differ from unit to unit are -1. Returns the rank;
 *dims is borrowed. */
unsigned qc_dataset_dims(const int64_t **dims, const struct qc_dataset *ds, size_t input);
size_t qc_dataset_elements(const struct qc_dataset *ds, size_t input); /* their product, of the largest unit */
/* Do inputs differ in shape from unit to unit? */
bool qc_dataset_varies(const struct qc_dataset *ds);
/* Shape of one unit of an input, all dims known: dims[QC_DATA_RANK_MAX]. Returns the rank. unit < qc_dataset_units. */
unsigned qc_dataset_unit_dims(int64_t *dims, const struct qc_dataset *ds, size_t input, size_t unit);
size_t qc_dataset_unit_elements(const struct qc_dataset *ds, size_t input, size_t unit);
/* What feeds the inputs, for people and to tell collections apart: for each input a line "INPUT: DATASET scale=A
   mean=B,.. std=C,.." with the preprocessing that holds (numbers that read back as the same float32). In the arena. */
const char *qc_dataset_inputs(const struct qc_dataset *ds, struct qc_arena *a, struct qc_status *st);
size_t qc_dataset_bytes(const struct qc_dataset *ds, size_t input); /* of the largest unit, in the input's type */
size_t qc_dataset_unit_bytes(const struct qc_dataset *ds, size_t input, size_t unit);

/* Bytes that a scratch grows to while samples that differ in size are read; 0 where they do not. */
size_t qc_dataset_scratch_bytes(const struct qc_dataset *ds);

/* Samples in one unit; 0 when the data sets hold whole inputs (a unit is then one entry of axis 0). */
int64_t qc_dataset_batch(const struct qc_dataset *ds);

/* Units to read (after qc_dataset_select: the chosen ones), the samples in them, samples of the file left over because
   they do not fill a batch, and samples in the file. */
size_t qc_dataset_units(const struct qc_dataset *ds);
size_t qc_dataset_samples(const struct qc_dataset *ds);
size_t qc_dataset_planned(const struct qc_dataset *ds); /* as qc_dataset_samples, of all shards together */
size_t qc_dataset_dropped(const struct qc_dataset *ds);
size_t qc_dataset_total(const struct qc_dataset *ds);

/* Number in the file (from 0) of the first sample of a unit. unit < qc_dataset_units. */
size_t qc_dataset_first_sample(const struct qc_dataset *ds, size_t unit);

/* From now on units of one size that are read are kept, in so many bytes at most, for those who read them again; not of
   samples that are in memory as they are. Not beside readers. */
bool qc_dataset_keep(struct qc_dataset *ds, size_t bytes, struct qc_status *st);

/* Lets go of what is kept; what is read from now on is kept again. Not beside readers. */
void qc_dataset_let_go(const struct qc_dataset *ds);

/* Units that are read ahead of the workers now, and the bytes that each of them may hold; by the process that reads
   HDF5, not by a thread, 1: all of them. */
unsigned qc_dataset_ahead(size_t *bytes_each, const struct qc_dataset *ds);
/* Reads at most so many ahead until the next choice of samples, and lets go of what was read: results do not depend on
 * it. */
void qc_dataset_read_less_ahead(const struct qc_dataset *ds, unsigned units);

/* ---- Choice of samples ---- */

struct qc_selection {
    size_t samples; /* 0: all; at most all are taken */
    bool drawn; /* false: spread evenly, unit j of n is floor(j * all / n). true: drawn without replacement with seed */
    uint64_t seed; /* splitmix64 (Steele, Lea, Flood 2014), Floyd's sampling; the chosen units are in ascending order */
    size_t shard, shards; /* of the units chosen so: number shard, shard + shards, ...; shards 0: all of them */
};

/* Chooses samples / B units (at least one, but a shard may be empty). Replaces an earlier choice; not while others
   read. Files of a folder are looked at here: those that cannot be read are left out, and others are chosen instead, so
   that qc_dataset_total is less afterwards. QC_BAD_INPUT also where the file cannot have values for so many samples. */
bool qc_dataset_select(struct qc_dataset *ds, const struct qc_selection *selection, struct qc_status *st);

/* Units 0..units-1 for the same rule on plain numbers: n of total, ascending, into out[n]. n <= total. */
bool qc_select_units(uint64_t *out, size_t n, uint64_t total, const struct qc_selection *selection,
                     struct qc_status *st);

/* ---- Reading ---- */

/* Buffers of one worker; grows to what one unit needs. */
struct qc_dataset_scratch;
bool qc_dataset_scratch_new(struct qc_dataset_scratch **out, struct qc_status *st);
void qc_dataset_scratch_free(struct qc_dataset_scratch *s); /* NULL-safe */

/* One unit of one input: qc_dataset_unit_bytes bytes at out, row-major, in the input's type, preprocessed. Float
   results take NaN and infinity as they are. An integer input takes integral values inside its type only, else
   QC_BAD_INPUT. float64 becomes float32 half to even; f16 and bf16 inputs are rounded from the float32 value. Damaged
   chunks are QC_BAD_INPUT naming data set and sample. Thread safe with a scratch per thread: HDF5 runs under one lock
   of the process, inflating, byte unshuffling and converting run outside it when a chunk is exactly one sample with
   gzip, shuffle + gzip, shuffle or no filter. */
bool qc_dataset_read(void *out, const struct qc_dataset *ds, size_t input, size_t unit,
                     struct qc_dataset_scratch *scratch, struct qc_status *st);

/* ---- Ground truth ---- */

/* With options.truth; labels that are not integers, or labels or a target that do not match the samples, fail in
   qc_dataset_open (QC_BAD_INPUT). */

/* Labels of one unit, the largest: how many (one per sample; for whole inputs as many as the file has for one); 0
   without `labels`. */
size_t qc_dataset_label_count(const struct qc_dataset *ds);
size_t qc_dataset_unit_label_count(const struct qc_dataset *ds, size_t unit);
/* Where every sample has labels for each of its positions ([N,T] in the file): rank and shape of those of one sample,
   [T]; rank 0 where it has one label. Borrowed. Of one unit, since they may differ. */
unsigned qc_dataset_label_dims(const int64_t **dims, const struct qc_dataset *ds, size_t unit);
bool qc_dataset_read_labels(int64_t *out, const struct qc_dataset *ds, size_t unit, struct qc_status *st);

/* Data set `target`: elements of the largest unit, 0 without one; of one unit. */
size_t qc_dataset_target_elements(const struct qc_dataset *ds);
size_t qc_dataset_unit_target_elements(const struct qc_dataset *ds, size_t unit);
/* Float32, with the target's own attributes (options.preprocess does not apply to it). */
bool qc_dataset_read_target(float *out, const struct qc_dataset *ds, size_t unit, struct qc_dataset_scratch *scratch,
                            struct qc_status *st);
/* Peak for PSNR: the target's attribute `peak`, else 255 for uint8 without scale, mean and std, else 1. */
double qc_dataset_target_peak(const struct qc_dataset *ds);

/* ---- Private to datasets/ ---- */

/* sizes[count][rank]. dims[rank]: what is the same for all entries, -1 where it differs; *most: elements of the
 * largest; same: all dims are. False: a dim below 0, or a shape larger than any memory. */
bool qc_entry_sizes(int64_t *dims, size_t *most, bool *same, const int64_t *sizes, size_t count, unsigned rank);

/* Elements of one entry, which qc_entry_sizes has seen. */
static inline size_t qc_entry_elements(const int64_t *dims, unsigned rank)
{
    size_t n = 1;
    for (unsigned i = 0; i < rank; i++) n *= (size_t)dims[i];
    return n;
}

/* Fails (QC_BAD_INPUT, with both numbers) if so many samples of so many bytes each cannot come out of the stored bytes:
   shapes are free, and 10^12 samples without elements, or never written, would be read for ever. stored: SIZE_MAX where
   it is unknown. remedy: what else the user can do than to store the values; "" where there is nothing. */
bool qc_check_stored(size_t samples, size_t sample_bytes, size_t stored, const char *remedy, struct qc_status *st);
