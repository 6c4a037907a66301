// SPDX-License-Identifier: Apache-2.0
/* Error of the simulated (bound, folded) graph against the real one, value by value, over some samples. Sums are double,
   per sample, added in the order of the samples: the same for any number of workers. */
#ifndef QC_CALIB_MEASURE_H
#define QC_CALIB_MEASURE_H

#include "calib/stream.h"

/* Sums over the elements of a value; x: quantized (dequantized), r: real. */
struct qc_error {
    uint64_t count;
    double signal, noise, cross, power; /* sums of r^2, (r - x)^2, r x, x^2 */
    double max_abs;                     /* largest |r - x| */
    uint64_t saturated;                 /* stored at the lowest or highest level of a site */
};

/* 10 log10(signal / noise) in dB; infinity without noise, NaN without elements. */
double qc_error_sqnr_db(const struct qc_error *e);
/* cross / sqrt(signal power); 1 when both are zero. */
double qc_error_cosine(const struct qc_error *e);
void qc_error_add(struct qc_error *to, const struct qc_error *e);
/* Adds n pairs. */
void qc_error_compare(struct qc_error *e, const float *real, const float *quantized, size_t n);

struct qc_measurement {
    struct qc_arena *arena;
    size_t space_count, output_count, samples;
    struct qc_error *sites;      /* [space_count + 1] by space id; count 0: not measured */
    qc_id *stored;               /* [space_count + 1]: the value of the quantized graph that was compared, or 0 */
    double *accumulator_max;     /* [space_count + 1], of product spaces: largest |accumulator| seen */
    struct qc_error *outputs;    /* [output_count] */
    size_t runner_bytes;
    double seconds;
};

struct qc_measure_options {
    unsigned workers;
    size_t memory_limit;
    qc_pool_progress_fn *progress;
    void *progress_user;
};

/* real: the normalised graph; quantized: simulated, bound, folded; same inputs and outputs. Runs the chosen units of data. */
bool qc_measure(struct qc_measurement **out, const struct qc_graph *real, const struct qc_graph *quantized, const struct qc_dataset *data,
                const struct qc_measure_options *options, struct qc_status *st);
void qc_measurement_free(struct qc_measurement *m);

/* The value of the real graph that a site is named after; 0 when it is gone. */
qc_id qc_site_value(const struct qc_graph *real, const struct qc_space *site);

/* The value of a quantized graph that holds a site's (observed) value in its space: the one of the same name, else the first of
   the same shape, else the first; 0 when there is none. */
qc_id qc_stored_value(const struct qc_graph *quantized, qc_id site, const struct qc_graph *real);

/* Bits that the accumulator of a multiply-accumulate node can need, sign included, whatever the data: from the quantized weights, the
   levels of the input and the bias. 0 when the node is not such a node with constant weights. */
bool qc_accumulator_bits(unsigned *bits, const struct qc_graph *g, qc_id node, struct qc_status *st);

/* Bits, sign included, that hold every integer of magnitude up to max. */
unsigned qc_bits_for(double max);

#endif
