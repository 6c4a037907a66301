// SPDX-License-Identifier: Apache-2.0
/* Runs of candidates, and what is decided by them. */
#pragma once

#include "arith/params.h"
#include "calib/metrics/compare.h"
#include "calib/statistics/collection.h"
#include "datasets/samples/dataset.h"
#include "graph/core/uses.h"

/* Trials: output errors of several graphs on the same samples against the float network, sample by sample. Units are
   drawn by their content, so the result does not depend on their order or on the number of workers. */

struct qc_trial_options {
    const struct qc_settings *settings; /* workers, memory_limit and progress */
    const struct qc_plan_options *how;  /* accumulator and rounding of the tried graphs; NULL: defaults */
    const uint64_t
        *keys; /* NULL, or [units of the data]: keys of an earlier run (calib/statistics/stream.h); 0: unknown */
    bool held; /* draw only units held out of the second moments, if there are enough of them */
    struct qc_known_outputs *known; /* NULL, or known outputs of the float network, extended */
};

struct qc_trials;

/* Draws at most `wanted` units of the data. real: the float network. real, data and options are borrowed. */
bool qc_trials_new(struct qc_trials **out, const struct qc_graph *real, const struct qc_dataset *data, size_t wanted,
                   const struct qc_trial_options *options, struct qc_status *st);
void qc_trials_free(struct qc_trials *t); /* NULL-safe */
size_t qc_trials_units(const struct qc_trials *t);
/* Returns the parts of the outputs of the float network; errors have one for each. Borrowed. */
const struct qc_output_parts *qc_trials_parts(const struct qc_trials *t);

/* Makes graph number k, with the inputs and outputs of the float network. The trial frees the graph. */
typedef bool qc_trial_graph_fn(void *user, struct qc_graph **out, size_t k, struct qc_status *st);
struct qc_trial_graphs {
    qc_trial_graph_fn *make;
    void *user;
    size_t count;
};

/* Returns true if an output is from Softmax or Sigmoid: such outputs are judged by divergence
   (qc_divergence_add). */
bool qc_trials_have_probabilities(const struct qc_trials *t);

/* Runs the drawn units first .. first + n through the graphs. Adds to errors[k][place * parts + i] for each
   part of a float32 output and ignores other outputs; place: of the unit among the drawn ones. judged: NULL, or the
   same with the divergence for outputs that are probabilities. Fails if `make` or a run fails, or with QC_INTERRUPTED.
 */
bool qc_trials_run(struct qc_error *const *errors, struct qc_error *const *judged, struct qc_trials *t,
                   const struct qc_trial_graphs *of, size_t first, size_t n, struct qc_status *st);

/* Called in later runs, for graph 0, with each float32 output and that of the float network, both dense, and the unit's
   place. Several workers call it. look may be NULL. */
typedef void qc_trial_look_fn(void *user, size_t place, size_t output, const struct qc_view *wanted,
                              const struct qc_view *got);
void qc_trials_look(struct qc_trials *t, qc_trial_look_fn *look, void *user);

/* In the following, outputs are parts of outputs. */

/* Returns the noise-to-signal ratio over the places first, first + step, ... below end: the mean over outputs, each
   relative to its own signal, so that the worst dominates. Returns infinity if an error is NaN, 0 without outputs. */
double qc_trials_noise(const struct qc_error *errors, size_t outputs, size_t first, size_t end, size_t step);
/* Returns the largest noise-to-signal ratio of an output over all units of `errors`, not in dB, and that output.
   Returns infinity for noise without signal, 0 without float32 outputs. */
double qc_trials_worst(size_t *output, const struct qc_error *errors, size_t outputs, size_t units);
/* Returns the gain of `other` over `noise` in dB; 0 if both are 0. */
double qc_trials_gain(double noise, double other);
/* Computes the standard error of that gain in dB, from the differences between the first `units` of both, which ran the
   same samples. It is infinite with fewer than two units, or if a value is not finite. without: NULL, or the gain
   without the unit that contributes most to it; -infinity if the error is infinite. Fails if memory is out. */
bool qc_trials_gain_error(double *error, double *without, const struct qc_error *errors, const struct qc_error *other,
                          size_t outputs, size_t units, struct qc_status *st);

/* Outputs that are probabilities, and the divergence of those of two networks. */

enum qc_probabilities {
    QC_NO_PROBABILITIES,
    QC_PARTS_OF_ONE, /* of a Softmax */
    QC_OF_TWO        /* of a Sigmoid: each p implies 1 - p */
};

/* Returns the kind of a value of a float network: the result of Softmax or Sigmoid, through operators that only move
   and join elements. */
enum qc_probabilities qc_probabilities_of(const struct qc_graph *g, qc_id v);

/* Adds n pairs of probabilities. The signal is the sum of p. The noise is the triangular divergence (p - q)^2 / ((p +
   q) / 2), for QC_OF_TWO plus that of 1 - p and 1 - q. It is twice the Kullback-Leibler divergence if both are close
   (Topsoe, "Some inequalities for information divergence", 2000), and finite if one of them is 0. */
void qc_divergence_add(struct qc_error *e, enum qc_probabilities kind, const float *p, const float *q, size_t n);

/* Inputs that hold integers times one step, such as sound or pictures stored in 8 bits and scaled. With that step as
   their scale they are quantized without error. */

/* Computes the largest step of which every value of a float32 input is a multiple. The range of the values may have at
   most `most` steps, and at most 65536. The step is 0 if there is none, or too few values to tell. It depends only on
   the set of values, not on their order or the workers. Reading stops at too many distinct values. */
bool qc_input_step(double *step, const struct qc_dataset *data, size_t input, double most, unsigned workers,
                   struct qc_status *st);

/* The step found for an input; most 0: not searched yet. */
struct qc_input_steps {
    double step, most;
};
/* The same, but reads the data only if *known was not found with this `most`. */
bool qc_input_step_once(double *step, struct qc_input_steps *known, const struct qc_dataset *data, size_t input,
                        double most, unsigned workers, struct qc_status *st);

/* Extends lo .. hi to a range whose scale is the step divided by an integer, as fine as the levels allow. Returns false
   if there is none. */
bool qc_range_of_step(double *lo, double *hi, double step, struct qc_levels levels, enum qc_symmetry symmetry);

/* Bias correction at the network's outputs: biases of the layers that make the outputs absorb the mean output error of
   the whole quantized network.

   The mean over n samples has an error of its own, with variance v_c for channel c of an output. Means m_c are shrunk
   by the factor 1 - sum v / sum m^2 (James and Stein 1961, positive part), so sampling noise is not corrected. */

struct qc_output_correction {
    size_t outputs; /* number of layers with a changed bias */
    size_t units;   /* number of units run */
    double gain_db; /* expected gain of the output that gains most */
};

/* Makes *out, a copy of g with other biases; NULL if no gain is expected. g: simulated and bound. written: makes the
   one graph that is written for g. An output is corrected if it comes from a layer with a bias through
   operators that keep the order of elements, without other readers, and the expected gain exceeds 0.05 dB. All units of
   the trials run if the first 16 promise a gain. The result does not depend on workers or on the order of samples.
   Fails if a run fails. */
bool qc_correct_outputs(struct qc_graph **out, struct qc_output_correction *done, const struct qc_graph *g,
                        struct qc_trials *trials, const struct qc_trial_graphs *written, struct qc_status *st);

/* Biases of layers in a simulated graph: finding them, and a copy of the graph with other biases. */

struct qc_layer_bias {
    qc_id layer; /* node with the weight */
    qc_id bias;  /* the constant, float32, without other readers */
    qc_id own;   /* the layer's result with the bias: its own, or that of the Add after a MatMul */
};

/* Returns false if the node is no layer with a weight, if the model gives the weight's parameters, or if there is no
   such bias. */
bool qc_layer_bias_find(struct qc_layer_bias *out, const struct qc_uses *u, qc_id node);
qc_id qc_source_of(const struct qc_graph *g, qc_id v);

struct qc_bias_shift {
    struct qc_layer_bias of;
    const double
        *shift; /* [elements of the bias]: added to it; an element whose sum the accumulator cannot hold stays */
};

/* Makes *out, a copy of g with shifted biases; *changed: number of layers whose bias differs. Fails if memory is out.
 */
bool qc_shift_biases(struct qc_graph **out, size_t *changed, const struct qc_graph *g,
                     const struct qc_bias_shift *shifts, size_t count, struct qc_status *st);
