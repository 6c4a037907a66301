// SPDX-License-Identifier: Apache-2.0
/* Calibration: statistics of every observed value in one pass over the data (calib/statistics/collection.h), a range
   per quantizer by an observer, scales and zero points bound to the qparams of the simulated graph. The result is the
   same for any number of workers and any order of samples. */
#pragma once

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

/* A simulated graph and what was chosen for it, from these statistics and with these options. */
struct qc_solved {
    const struct qc_graph *graph;
    const struct qc_collection *seen;
    const struct qc_calibration_options *options;
    const struct qc_calibration *calibration;
};

struct qc_calibration_options {
    bool few;    /* there are few samples: ranges are widened by what others may have (calib/ranges/few_samples.h) */
    bool unseen; /* ranges of mse reach toward what other samples may have (calib/ranges/expected_error.h) */
    const struct qc_observer *activation, *weight;
    struct qc_observer_values activation_values, weight_values;
    const struct qc_method *const *methods; /* [qparams_count + 1]: what activations are chosen by, quantizer by
                                               quantizer; NULL, and where it is NULL: `activation` */
    bool blocks_by_error; /* weights in blocks get scales of least squared error, whatever `weight` is */
    unsigned workers;
    size_t memory_limit; /* bytes; 0: none */
    size_t later_bytes;  /* as in struct qc_collect_options */
    bool moments;        /* take second moments too, for calib/weights/round_weights.h and weight observers of_output */
    bool compensate; /* weights will be rounded so (calib/weights/compensate.h): weight observers of_output judge by it
                      */
    bool correct_bias; /* mean errors of outputs will go into biases: weight observers of_output do not count them */
    const struct qc_second_moments *gram; /* of the same graph, for weight observers of_output; borrowed */
    bool channels;           /* take statistics of channels too: activation observers of_output need them */
    bool look_through;       /* errors of a quantizer are those behind the function that its values go through
                                (graph/core/output_function.h) */
    struct qc_solved solved; /* empty, or what quantizers of another graph got: where statistics, values, levels and
                                method are the same it is taken over; borrowed */
    bool ranges_alone;       /* nobody looks at what was tried, nor at what the parameters lose (struct qc_choice) */
    bool nonfinite_error;    /* NaN or infinity in the data is an error, not counted and left out */
    qc_pool_progress_fn *progress;
    void *progress_user;
};

/* What was seen and chosen for one quantizer; with a scale per channel: over all channels. */
struct qc_choice {
    bool chosen;        /* a quantizer that has parameters */
    const char *method; /* name of the observer */
    struct qc_tally seen;
    struct qc_range range;     /* range.lo, range.hi: the chosen range (of weights: the widest channel) */
    struct qc_range solved;    /* the observer's own, before it was widened; without candidates: none */
    double known_lo, known_hi; /* what the graph guarantees (graph/core/bounds.h); infinite where nothing; of weights:
                                  0, 0 and meaningless */
    const char *behind;        /* function that errors were taken behind, as text; NULL: none */
    const struct qc_curve
        *curve;       /* what was tried; NULL for weights, without points for observers that have no objective */
    size_t raised;    /* of weights: scales raised for the accumulator */
    double raise_max; /* the largest factor; 0: not asked for */
    const struct qc_outline *outline; /* of activations, when the observer asked for a histogram, else NULL; with it: */
    struct qc_loss loss;              /* what the chosen parameters lose of it */
};

/* Of parameters that the model has already (struct qc_given): the range that they hold, and the method's name. */
#define QC_METHOD_GIVEN "given"
void qc_choice_of_given(struct qc_choice *c, const struct qc_qparams *s);

struct qc_calibration {
    struct qc_arena *arena;
    size_t qparams_count;
    struct qc_choice *choices; /* [qparams_count + 1], by qparams id of the simulated graph */
    size_t warning_count, warning_capacity;
    const char **warnings;
    size_t raised;               /* channels of weights that got a coarser scale for the bias */
    size_t paired;               /* channels of weights whose nearest levels would exceed qparams.pair_limit */
    struct qc_collect_cost cost; /* zero when nothing was collected here */
    double collect_seconds, solve_seconds;
};

/* The values that decide the quantizers of the simulated graph g, without constants: each once. Arrays from the arena;
   a value without a name has its label. */
bool qc_observed_values(size_t *count, qc_id **values, const char ***names, const struct qc_graph *g,
                        struct qc_arena *a, struct qc_status *st);

/* Binds every quantizer of the simulated graph g from what was seen. source: file of the statistics or data, for
   messages. Errors: a value is missing (QC_BAD_INPUT); NaN or infinity with nonfinite_error; the statistics lack what
   the observer needs. */
bool qc_choose(struct qc_calibration **out, struct qc_graph *g, const struct qc_collection *seen, const char *source,
               const struct qc_calibration_options *options, struct qc_status *st);

/* What each of several methods gives to each quantizer of activations with one scale: params[method *
   (qparams_count + 1) + qparams]; scale 0 for all other qparams, and for those that saw nothing but zeros. Nothing is
   bound. options: `activation` and `methods` are not looked at. */
bool qc_solve_methods(struct qc_affine *params, struct qc_graph *g, const struct qc_collection *seen,
                      const char *source, const struct qc_method *methods, size_t count,
                      const struct qc_calibration_options *options, struct qc_status *st);

/* Binds the simulated graph g with these parameters [qparams_count + 1]; where the scale is 0, and for weights, as
   qc_choose does. The choices of quantizers that got theirs here are empty. */
bool qc_bind_params(struct qc_calibration **out, struct qc_graph *g, const struct qc_collection *seen,
                    const char *source, const struct qc_affine *params, const struct qc_calibration_options *options,
                    struct qc_status *st);
void qc_calibration_free(struct qc_calibration *c);

/* Choosing quantizer by quantizer, for calib/sequential/sequential.h. g, seen, source and options are borrowed;
   histograms of `seen` may fill while it goes on, but those of a quantizer's values must be complete when the quantizer
   is chosen, and stay. */
struct qc_chooser;
bool qc_chooser_new(struct qc_chooser **out, struct qc_graph *g, const struct qc_collection *seen, const char *source,
                    const struct qc_calibration_options *options, struct qc_status *st);
/* Chooses and binds one quantizer that has observed values. */
bool qc_chooser_quantizer(struct qc_chooser *k, qc_id quantizer, struct qc_status *st);
/* Binds the weights all of whose inputs are bound, or that meet none. */
bool qc_chooser_weights(struct qc_chooser *k, struct qc_status *st);
/* Binds what is left over, weights first; quantizers that nothing computes are an error. The calibration is the
 * caller's, the chooser is freed in any case. */
bool qc_chooser_finish(struct qc_calibration **out, struct qc_chooser *k, struct qc_status *st);
void qc_chooser_free(struct qc_chooser *k); /* NULL-safe */

/* Appends a warning (printf). */
bool qc_calibration_warn(struct qc_calibration *c, struct qc_status *st, const char *fmt, ...) QC_PRINTF(3, 4);

/* Parameters of weights and other constants, from their own values; activations must be bound already, since the scale
   of a weight is raised where the bias would not fit into the int32 accumulator. */
bool qc_choose_weights(struct qc_calibration *c, struct qc_graph *g, const struct qc_calibration_options *options,
                       struct qc_status *st);
/* The same of those alone whose activations are bound; the warning is left to qc_choose_weights. */
bool qc_choose_ready_weights(struct qc_calibration *c, struct qc_graph *g, const struct qc_calibration_options *options,
                             struct qc_status *st);
/* The same of those alone that are wanted [qparams_count + 1], whatever they meet. */
bool qc_choose_some_weights(struct qc_calibration *c, struct qc_graph *g, const bool *wanted,
                            const struct qc_calibration_options *options, struct qc_status *st);
