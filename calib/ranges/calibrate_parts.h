// SPDX-License-Identifier: Apache-2.0
/* Declarations shared by the files of calib/ranges/calibrate.h. */
#pragma once

#include "base/index.h"
#include "calib/ranges/calibrate.h"
#include "calib/ranges/quantizer_channels.h"
#include "graph/core/function.h"

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
/* Returns the parameters of a range of the quantizer's observed values. With floating-point levels a range that is too
   wide costs nothing, so that of x minus a constant per channel covers all differences. */
struct qc_affine qc_chooser_affine(const struct qc_chooser *k, qc_id quantizer, struct qc_range range);
/* Widens the range of an observer toward unseen samples: of mse by calib/ranges/expected_error.h, with few samples by
   the same file. */
bool qc_chooser_unseen(struct qc_range *range, const struct qc_chooser *k, qc_id quantizer, const struct qc_method *by,
                       struct qc_status *st);
