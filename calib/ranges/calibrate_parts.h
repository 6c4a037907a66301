// SPDX-License-Identifier: Apache-2.0
/* Declarations shared by the files of calib/ranges/calibrate.h. */
#pragma once

#include "base/index.h"
#include "calib/moments/second_moments.h"
#include "calib/ranges/calibrate.h"
#include "calib/ranges/quantizer_channels.h"
#include "graph/core/function.h"
#include "graph/core/graph.h"
#include "graph/core/parameters.h"
#include "graph/types/number_format.h"
#include "observers/observer.h"

/* Functions that alone read the values of a quantizer (graph/core/function.h), in a form that observers can
   evaluate. */
struct qc_look {
    const char *text;                 /* NULL: none */
    struct qc_output_function behind; /* computes in float32, as the simulated graph does; one thread at a time */
};

/* Quantizers with the same problem, for one warning. */
struct qc_found {
    qc_id first;
    size_t count;
};

/* The state of choosing quantizers. */
struct qc_chooser {
    struct qc_calibration *c;
    struct qc_graph *g;
    struct qc_uses uses; /* of g */
    const char *source;  /* file, for messages */
    const struct qc_collection *seen;
    const struct qc_calibration_options *options;
    struct qc_histogram **merged; /* [qparams_count + 1]: histograms of quantizers with several values or a constant */
    const struct qc_histogram **histograms; /* [qparams_count + 1]: the merged one, or that of the only value */
    struct qc_outline *outlines;            /* [qparams_count] */
    struct qc_quantizer_samples *samples;   /* [qparams_count + 1] */
    struct qc_curve *curves;                /* [qparams_count + 1] */
    struct qc_scan *scan;                   /* scratch for constants */
    double seconds;
    struct qc_histogram **
        weighted; /* [qparams_count + 1]: values weighted by their effect on layers' outputs; NULL: all count equally */
    struct seen_channels {
        struct qc_channel_histogram *seen; /* NULL: one scale */
        struct qc_quantizer_channels chosen;
    } * channels;                    /* [qparams_count + 1] */
    struct qc_channel_gain *gains;   /* by value id; NULL: not asked for */
    struct qc_look *looks;           /* [qparams_count + 1]; NULL: not asked for */
    struct qc_index solved;          /* quantizers of options->solved, by the name of the first value they observe */
    struct qc_found nonfinite, zero; /* with NaN or infinity; with zeros only */
    struct qc_found empty;           /* without elements */
    struct qc_found numberless;      /* with NaN and no number */
    struct qc_ready_weights *ready;  /* NULL until the first qc_chooser_weights */
};

/* Weights that wait for the activations they are multiplied with. All together take work in proportion to the graph.
   c, g and options are borrowed. */
bool qc_ready_weights_new(struct qc_ready_weights **out, struct qc_calibration *c, struct qc_graph *g,
                          const struct qc_calibration_options *options, struct qc_status *st);
void qc_ready_weights_free(struct qc_ready_weights *r); /* NULL-safe */
/* Notes a quantizer that was chosen after qc_ready_weights_new. */
void qc_ready_weights_bound(struct qc_ready_weights *r, qc_id quantizer);
/* Chooses and binds the weights that became ready since the last call. */
bool qc_ready_weights_choose(struct qc_ready_weights *r, struct qc_status *st);

/* Merges the statistics of a quantizer's values and constants. Fails if the statistics lack a value. */
bool qc_chooser_merge(struct qc_chooser *k, qc_id quantizer, struct qc_status *st);
/* Widens the range of an observer toward unseen samples: of mse by calib/ranges/quantizer_channels.h, with few samples
   by the same file. */
bool qc_chooser_unseen(struct qc_range *range, const struct qc_chooser *k, qc_id quantizer, const struct qc_method *by,
                       struct qc_status *st);

/* Scales of weights in blocks. A block has too few numbers for a useful histogram, so ranges are tried on the numbers
   themselves. */

struct qc_block_search {
    const struct qc_tensor *tensor; /* float32 */
    struct qc_scale_layout layout;  /* in blocks */
    struct qc_levels levels;
    enum qc_symmetry symmetry;
    enum qc_scale_kind scale; /* unless float32: the best of the representable scales near the one found */
    const double *importance; /* [groups][layout.size]: weight of an error at each index; NULL: all equal */
    size_t groups;            /* of equal numbers of rows, the directions of a recurrent operator */
    /* NULL: least sum of importance (x - its quantized form)^2; else the range that this observer chooses. */
    const struct qc_observer *observer;
    const struct qc_observer_values *values;
    size_t judged; /* as in struct qc_calibration_options; the layout then has one output for each element after the
                      axis or for each row */
    unsigned workers;
};

/* Computes scale and zero_point, both [layout.count]; a block of zeros gets the scale 0. Extends widest->lo and
   widest->hi to the widest block. The result does not depend on the number of workers. Fails if memory is out or the
   observer fails. */
bool qc_block_scales(float *scale, int32_t *zero_point, struct qc_range *widest, const struct qc_block_search *search,
                     struct qc_status *st);

/* The effect of rounding a value's channel on the outputs of the layers after it. An independent error of variance v
   in each element of channel c adds gain[c] v per element to the sum of squared errors of those outputs. gain[c] is the
   sum of the squared weights that multiply the channel, over outputs and kernel positions, divided by the product of
   strides, since an element meets only that part of the kernel's positions (Nagel et al. 2019, section 4, has the same
   sum for weights).

   Layers are reached through quantize and dequantize, clamps, functions of one variable (as if their slope were 1),
   pools, Add, Sub, Concat, products with constants and data movement. Nothing is counted after those layers, nor
   through products of two activations, normalisations and softmax. */

struct qc_channel_gain {
    int axis;
    size_t channels;
    double *gain; /* [channels], >= 0; NULL: no layer is reached, or there are no channels */
};

/* Computes *out: [value_count + 1], by value of a real or simulated graph, in the arena. Fails if memory is out. */
bool qc_channel_gains(struct qc_channel_gain **out, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st);

/* Scales of weights with a limit on sums of pairs (graph/core/pair_order.h): the smallest scales at which the weights,
   rounded to nearest, keep the limit. */

struct qc_pair_fit {
    const struct qc_graph *g;
    qc_id quantizer;                 /* of the weights; its pair_limit is not 0 */
    qc_id node;                      /* that multiplies the weights; 0: rows of the weight are contiguous */
    const struct qc_tensor *weights; /* float32 */
    int axis;                        /* of the scales in the weights */
};

/* Raises each scale as little as its rows need, in steps of 1/512. Adds the number of raised rows to *raised. Fails if
   memory is out. */
bool qc_fit_pairs(size_t *raised, float *scale, const int32_t *zero_point, const struct qc_pair_fit *fit,
                  struct qc_status *st);

/* Ranges of weights by the error of their layer's outputs (--weight-method output). An output has weights w, rounded to
   nearest to q, and inputs x. Its mean squared error is d' H d with d = w - q and H = E[x x'], from the second moments
   (calib/moments/second_moments.h); Nagel et al. 2020, "Up or down?", eq. 3-6. If a bias absorbs the mean error, H is
   taken about the mean. The diagonal of H includes the noise of the rounded input, a twelfth of its squared step, so
   weights and activations are judged together.

   With compensated rounding, a candidate counts with the better of compensated rounding and rounding to nearest, on
   held-out samples.

   Candidates are the widest range times 2^(-k/16), k = 0 .. 24; of equal errors the widest wins. All arithmetic is in
   double, in a fixed order. */

struct qc_output_error {
    const struct qc_graph *g; /* simulated; the input of the layer is bound, the weight need not be */
    qc_id node;               /* of the layer */
    const struct qc_second_moments_layer *layer; /* its moments, with rows and products */
    const struct qc_tensor *weight;              /* float32 */
    const struct qc_qparams *qparams;            /* of the weight: levels and symmetry */
    bool centred;                                /* the mean error goes into a bias */
    size_t channels;                             /* of the scales: 1, or those along the weight's axis */
    const struct qc_settings *settings;          /* with `compensate` the better rounding judges a candidate */
};

/* Returns the moments of a node, with all that qc_output_ranges needs; NULL if there are none. */
const struct qc_second_moments_layer *qc_output_layer(const struct qc_second_moments *m, qc_id node);

/* ranges: [channels], the widest ranges (lo <= 0 <= hi) on entry, the chosen ones on return. Their objective is the
   mean squared error of the outputs, summed over those of a channel. The result does not depend on the number of
   workers. Fails if memory is out, or with QC_MACHINE if memory_limit is too low. */
bool qc_output_ranges(struct qc_range *ranges, const struct qc_output_error *e, struct qc_status *st);
