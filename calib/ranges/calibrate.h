// SPDX-License-Identifier: Apache-2.0
/* Calibration. One pass over the data collects statistics of every observed value (calib/statistics/collection.h). An
   observer chooses a range per quantizer, and its scale and zero point are bound to the qparams of the simulated graph.
   The result is the same for any number of workers and any order of samples. */
#pragma once

#include "base/words.h"
#include "calib/statistics/collection.h"
#include "observers/observer.h"
#include "observers/outline.h"

/* An observer with its options. */
struct qc_method {
    const char *name; /* for the report: "mse:clip=4" */
    const struct qc_observer *observer;
    struct qc_observer_values values;
};

struct qc_calibration;
struct qc_calibration_options;

/* A simulated graph that is solved: the calibration, and the statistics and options it was made from. */
struct qc_solved {
    const struct qc_graph *graph;
    const struct qc_collection *seen;
    const struct qc_calibration_options *options;
    const struct qc_calibration *calibration;
};

/* Weight observers with of_output count on what the settings say of rounding: on compensation, and with corrected
   biases they ignore mean errors of outputs. */
struct qc_calibration_options {
    bool few;    /* few samples: widen ranges toward unseen samples (calib/ranges/quantizer_channels.h) */
    bool unseen; /* widen ranges of mse toward unseen samples (calib/ranges/quantizer_channels.h) */
    const struct qc_observer *activation, *weight;
    struct qc_observer_values activation_values, weight_values;
    const struct qc_method *const
        *methods;         /* [qparams_count + 1]: method of each activation quantizer; NULL: `activation` */
    bool blocks_by_error; /* scales of weights in blocks minimize the squared error, whatever `weight` is */
    const struct qc_settings *settings;
    size_t later_bytes; /* as in struct qc_collect_options */
    bool moments; /* collect second moments, for calib/weights/round_weights.h and weight observers with of_output */
    const struct qc_second_moments
        *second_moments; /* of the same graph, for weight observers with of_output; borrowed */
    size_t judged;       /* 0: choose all scales of weights in blocks; else only those of the outputs that are rounded
                            with the same number in struct qc_round_weights_options, others are arbitrary */
    bool channels;       /* collect statistics of channels; activation observers with of_output need them */
    struct qc_solved solved; /* empty, or another solved graph: ranges with the same statistics, values, levels and
                                method are reused; borrowed */
    bool ranges_alone;       /* skip the report: neither tried ranges nor losses are stored (struct qc_choice) */
};

/* Statistics and chosen range of one quantizer; with a scale per channel: over all channels. */
struct qc_choice {
    bool chosen;        /* the quantizer has parameters */
    const char *method; /* name of the observer */
    struct qc_tally seen;
    struct qc_range range;        /* lo, hi: the chosen range (of weights: of the widest channel) */
    struct qc_range solved;       /* the observer's own range, before widening; candidates is 0 if there is none */
    double known_lo, known_hi;    /* guaranteed by the graph (graph/core/bounds.h), infinite if unknown; of weights 0, 0
                                     without meaning */
    const char *behind;           /* function behind which errors were measured, as text; NULL: none */
    const struct qc_curve *curve; /* the ranges tried; NULL for weights; no points if the observer has no objective */
    size_t raised;                /* of weights: number of scales raised for the accumulator */
    double raise_max;             /* largest factor of a raise; 0: not asked for */
    const struct qc_outline *outline; /* of activations whose observer uses a histogram, else NULL */
    struct qc_loss loss;              /* error of the chosen parameters on `outline` */
};

/* Fills in a choice from parameters that the model holds (struct qc_given): their range, and this method name. */
#define QC_METHOD_GIVEN "given"
void qc_choice_of_given(struct qc_choice *c, const struct qc_qparams *s);

struct qc_calibration {
    struct qc_arena *arena;
    size_t qparams_count;
    struct qc_choice *choices; /* [qparams_count + 1], by qparams id of the simulated graph */
    struct qc_lines warnings;
    size_t raised;               /* channels of weights with a coarser scale, so that the bias fits */
    size_t paired;               /* channels of weights with a coarser scale, to keep qparams.pair_limit */
    struct qc_collect_cost cost; /* zero if the statistics were read, not collected */
    double collect_seconds, solve_seconds;
};

/* Lists the values that determine the quantizers of the simulated graph g, each once, without constants. The arrays are
   in the arena. A value without a name gets its label. */
bool qc_observed_values(struct qc_named_values *out, const struct qc_graph *g, struct qc_arena *a,
                        struct qc_status *st);

/* Chooses and binds every quantizer of the simulated graph g. source: file of the statistics or data, for messages.
   Fails if a value is missing (QC_BAD_INPUT), on NaN or infinity with nonfinite_error, or if the statistics lack what
   the observer needs. */
bool qc_choose(struct qc_calibration **out, struct qc_graph *g, const struct qc_collection *seen, const char *source,
               const struct qc_calibration_options *options, struct qc_status *st);

/* Computes the parameters that each of `count` methods gives to each activation quantizer with one scale. params has
   qparams_count + 1 elements for each method. The scale is 0 for all other qparams, and for quantizers whose values are
   all zero. Binds nothing. Ignores options->activation and options->methods. */
bool qc_solve_methods(struct qc_affine *params, struct qc_graph *g, const struct qc_collection *seen,
                      const char *source, const struct qc_method *methods, size_t count,
                      const struct qc_calibration_options *options, struct qc_status *st);

/* Binds the simulated graph g with params [qparams_count + 1]. Weights, and quantizers whose scale is 0, are chosen as
   in qc_choose. The choices of quantizers bound from params are empty. */
bool qc_bind_params(struct qc_calibration **out, struct qc_graph *g, const struct qc_collection *seen,
                    const char *source, const struct qc_affine *params, const struct qc_calibration_options *options,
                    struct qc_status *st);
void qc_calibration_free(struct qc_calibration *c);

/* Choosing quantizer by quantizer, for calib/sequential/sequential.h. g, seen, source and options are borrowed.
   Histograms of `seen` may still fill, but those of a quantizer's values must be complete when the quantizer is chosen,
   and must not change afterwards. */
struct qc_chooser;
bool qc_chooser_new(struct qc_chooser **out, struct qc_graph *g, const struct qc_collection *seen, const char *source,
                    const struct qc_calibration_options *options, struct qc_status *st);
/* Chooses and binds one quantizer that has observed values. */
bool qc_chooser_quantizer(struct qc_chooser *k, qc_id quantizer, struct qc_status *st);
/* Chooses and binds the weights whose activations are all bound, or that have none. */
bool qc_chooser_weights(struct qc_chooser *k, struct qc_status *st);
/* Binds all remaining quantizers, weights first. Fails if nothing computes the values of a quantizer. The caller owns
   the calibration; the chooser is freed in any case. */
bool qc_chooser_finish(struct qc_calibration **out, struct qc_chooser *k, struct qc_status *st);
void qc_chooser_free(struct qc_chooser *k); /* NULL-safe */

/* Chooses and binds weights and other constants from their own values. Activations must be bound already: the scale of
   a weight is raised if the bias does not fit into the int32 accumulator. Appends a warning if any was raised. */
bool qc_choose_weights(struct qc_calibration *c, struct qc_graph *g, const struct qc_calibration_options *options,
                       struct qc_status *st);
/* The same, only for wanted [qparams_count + 1] quantizers, bound activations or not; without the warning. wanted:
   NULL: all. */
bool qc_choose_some_weights(struct qc_calibration *c, struct qc_graph *g, const bool *wanted,
                            const struct qc_calibration_options *options, struct qc_status *st);

/* Quantizers that no sample reaches: rows over a threshold that the calibration data never exceed. Their ranges are
   unknown, so the ops that read them stay in float. */

/* Appends the values that quantizers of the simulated graph g round without observing them and whose size depends on
   data, each once. The arrays have room for all values of g. */
bool qc_add_sized_values(struct qc_named_values *to, const struct qc_graph *g, struct qc_arena *a,
                         struct qc_status *st);

/* Finds values that quantizers of the simulated graph g round and that have no element in any sample. Makes *names,
   known names and theirs; *more: number of the latter. */
bool qc_unfed_values(size_t *more, const char ***names, size_t known_count, const char *const *known,
                     const struct qc_graph *g, const struct qc_collection *seen, struct qc_arena *a,
                     struct qc_status *st);
