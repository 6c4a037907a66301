// SPDX-License-Identifier: Apache-2.0
/* Compares two graphs on the same samples, value by value. Sums are double, per sample, in a fixed order of lanes and
   samples: the result is the same for any number of workers and any vector width. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "calib/statistics/stream.h"
#include "graph/core/graph.h"
#include "simq/core/view.h"

/* Factors of channels between a value of two graphs. Equalized and scaled networks have values whose channels are those
   of the original times a constant: element by element such a layer cannot be compared. */

/* Sums over the elements of each channel: r^2, r x, x^2. */
struct qc_channel_sums {
    size_t channels, elements; /* elements: of each channel */
    double (*of)[3];           /* [channels]; from malloc */
};

struct qc_channel_factors {
    bool found;
    double least, most; /* x is about r times these */
};

/* Makes the sums of one sample. x: elements in the memory order of r, which is dense, times `step`. The channels are
   axis 1 of values of rank 4 and more, and the last axis of others. Values of rank 1 have no sums. False without
   memory.
 */
bool qc_channel_sums_of(struct qc_channel_sums *out, const struct qc_view *r, const float *x, double step);
/* Adds sums of the same number of channels; *to may be empty. Takes the sums of `s`. */
void qc_channel_sums_add(struct qc_channel_sums *to, struct qc_channel_sums *s);
/* Finds the factors: found if they take away nine tenths of the noise, and one is above 1.2 or below 1/1.2. A channel
   needs 16 elements. */
struct qc_channel_factors qc_channel_factors_of(const struct qc_channel_sums *s);

/* Parts of outputs that a Concat joins. Boxes in pixels hide the error of the logits beside them, so the error of an
   output is that of its worst part. */

/* A box of the elements of an output. */
struct qc_output_part {
    size_t output;
    qc_id value;                                  /* the input of the Concat, or what is moved to become it */
    qc_id join;                                   /* the Concat; 0: the output is not divided */
    int64_t first[QC_RANK_MAX], end[QC_RANK_MAX]; /* along each axis; end -1: to the last element */
};

struct qc_output_parts {
    size_t count;
    const size_t *first; /* [output_count + 1]: output o has parts first[o] to first[o + 1] - 1, at least one */
    const struct qc_output_part *of;
};

/* Finds the parts of the outputs of a float network, in arena a. They are the inputs of Concats that reach the output
   through operators that move elements and through arithmetic with constants, if the place of each is known. Constants
   are no parts. An output has at most QC_OUTPUT_PARTS; beyond it is not divided further. */
enum { QC_OUTPUT_PARTS = 32 };
bool qc_output_parts_of(struct qc_output_parts *out, const struct qc_graph *real, struct qc_arena *a,
                        struct qc_status *st);

/* Calls compare(user, r, x, n) with pairs of elements of a part. r and x: float32 views of the output of two graphs,
   row-major and of the same shape. */
typedef void qc_compare_fn(void *user, const float *r, const float *x, size_t n);
void qc_compare_part(const struct qc_output_part *p, const struct qc_view *r, const struct qc_view *x,
                     qc_compare_fn *compare, void *user);

/* Sums over the elements of a value. r: of the first graph, x: of the second (dequantized if affine). */
struct qc_error {
    uint64_t count;
    double signal, noise, cross, power; /* sums of r^2, (r - x)^2, r x, x^2 */
    double max_abs;                     /* largest |r - x| */
    uint64_t saturated;                 /* number of x at the lowest or highest level of its quantizer */
    uint64_t left_out;                  /* elements whose r is NaN or infinite: in no sum */
};

/* Returns 10 log10(signal / noise) in dB; infinity without noise, -infinity if an x is NaN or infinite, NaN without
   elements. */
double qc_error_sqnr_db(const struct qc_error *e);
/* Returns cross / sqrt(signal power); 1 if both are zero, NaN without elements. */
double qc_error_cosine(const struct qc_error *e);
void qc_error_add(struct qc_error *to, const struct qc_error *e);
/* Adds n pairs, except those whose r is NaN or infinite. */
void qc_error_compare(struct qc_error *e, const float *real, const float *quantized, size_t n);
/* The same, but only count, signal and noise: half the work. */
void qc_error_compare_noise(struct qc_error *e, const float *real, const float *quantized, size_t n);

/* Adds pairs to a struct qc_error: a qc_compare_fn. */
void qc_part_error(void *error, const float *r, const float *x, size_t n);

/* Returns the part of output o with the most noise relative to its signal. errors: [parts->count]. */
size_t qc_worst_part(const struct qc_output_parts *parts, size_t o, const struct qc_error *errors);

/* Adds output k of both graphs from a run: float32, or integers of 8 and 16 bits as numbers; other types have no error.
   *comparable is false if the output's size depends on data and differs. Fails with QC_BAD_INPUT on other differences
   of type or size. */
bool qc_compare_output(bool *comparable, struct qc_error *e, const struct qc_graph *first,
                       const struct qc_graph *second, size_t k, const struct qc_view *r, const struct qc_view *x,
                       struct qc_status *st);

/* Distances of elements in steps: |r - x| / step, rounded to the nearest integer. */
enum { QC_STEPS = 4 };
struct qc_steps {
    uint64_t of[QC_STEPS]; /* 0, 1, 2, and 3 or more */
    uint64_t differing;    /* elements with r != x */
    uint64_t most;
};

/* A value of each graph, float32 as held by the interpreter, of the same shape: real, or affine with one bound scale.
 */
struct qc_pair {
    qc_id first, second;
};

struct qc_comparison_job {
    const struct qc_graph *first, *second; /* same inputs, in the same order */
    const struct qc_plan_options *how[2];  /* of each graph: rounding, accumulator, instructions; NULL: defaults */
    bool count_steps;
    size_t pair_count;
    const struct qc_pair *pairs;
    size_t peak_count; /* values of the second graph whose largest magnitude is measured */
    const qc_id *peaks;
    const struct qc_dataset *data;      /* its chosen units run */
    const struct qc_settings *settings; /* workers, memory_limit and progress */
};

struct qc_comparison {
    struct qc_arena *arena;
    struct qc_error *pairs; /* [pair_count] */
    struct qc_steps *steps; /* [pair_count] with count_steps, else NULL; the step is the scale of the second value;
                               stays 0 if that is real */
    struct qc_channel_factors *factors; /* [pair_count] with count_steps, else NULL; of the first 16 units */
    struct qc_error *outputs; /* [output_count of the second graph]: outputs by position, float32 or integers of 8 and
                                 16 bits; else count 0 */
    struct qc_output_parts *parts;    /* of the outputs of the first graph (calib/metrics/compare.h) */
    struct qc_error *of_parts;        /* [parts->count] */
    uint64_t *differing;              /* [output_count]: elements that differ (any type) */
    uint64_t *elements;               /* [output_count] */
    double *peaks;                    /* [peak_count] */
    struct qc_overflows overflows[2]; /* of each graph */
    size_t samples;
    double seconds;
};

/* Compares the graphs. Fails with QC_BAD_INPUT if inputs, outputs or shapes differ, or if a run fails. */
bool qc_compare(struct qc_comparison **out, const struct qc_comparison_job *job, struct qc_status *st);
void qc_comparison_free(struct qc_comparison *c); /* NULL-safe */
/* Computes the bytes needed with one worker. */
bool qc_compare_bytes(size_t *out, const struct qc_comparison_job *job, struct qc_status *st);

/* values of one graph, kept compactly until the other graph has computed its own. */

/* A buffer that grows: sizes of values may depend on data. */
struct qc_room {
    void *data;
    size_t bytes;
};

struct qc_kept_value {
    struct qc_view view; /* in memory order; its type is that of the graph */
    bool as_bytes;       /* float32 of at most 256 levels, stored as level minus the lowest level */
    struct qc_room room;
};

/* Copies a value with these parameters (NULL: none) to its buffer. Fails if memory is out. */
bool qc_keep_value(struct qc_kept_value *k, const struct qc_view *v, const struct qc_qparams *s, struct qc_status *st);

/* Returns the kept value as float32, levels minus the zero point; `to` is used unless it has that form already. */
struct qc_view qc_kept_levels(float *to, const struct qc_kept_value *k, const struct qc_qparams *s);

/* The same for elements [first, first + n), in memory order, of a value kept as bytes. */
void qc_kept_part(float *to, const struct qc_kept_value *k, const struct qc_qparams *s, size_t first, size_t n);
