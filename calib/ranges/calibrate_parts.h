// SPDX-License-Identifier: Apache-2.0
/* What the files of calib/ranges/calibrate.h share. */
#pragma once

#include "base/index.h"
#include "calib/ranges/calibrate.h"
#include "calib/ranges/look_through.h"
#include "calib/ranges/quantizer_channels.h"

/* Quantizers of one kind are one warning: the first of them, and how many there are. */
struct qc_found {
    qc_id first;
    size_t count;
};

/* Statistics of the quantizers: those of their values and constants. */
struct qc_chooser {
    struct qc_calibration *c;
    struct qc_graph *g;
    struct qc_uses uses; /* of g */
    const char *source;  /* file, for messages */
    const struct qc_collection *seen;
    const struct qc_calibration_options *options;
    struct qc_histogram *
        *merged; /* [qparams_count + 1]: of quantizers that take from several values, or from constants */
    const struct qc_histogram **histograms; /* [qparams_count + 1]: those, or the only value's */
    struct qc_outline *outlines;            /* [qparams_count] */
    struct qc_quantizer_samples *samples;   /* [qparams_count + 1] */
    struct qc_curve *curves;                /* [qparams_count + 1] */
    struct qc_scan *scan;                   /* of constants */
    double seconds;
    struct qc_histogram *
        *weighted; /* [qparams_count + 1]: by what layers make of errors; NULL where all values are equal */
    struct seen_channels {
        struct qc_channel_histogram *seen; /* NULL: one scale */
        struct qc_quantizer_channels chosen;
    } * channels;                    /* [qparams_count + 1] */
    struct qc_channel_gain *gains;   /* by value; NULL: not asked for */
    struct qc_look *looks;           /* [qparams_count + 1]; NULL: not asked for */
    struct qc_index solved;          /* of options->solved: quantizers by the name of the first value they observe */
    struct qc_found nonfinite, zero; /* quantizers that have seen NaN or infinity; that have seen nothing but zeros */
    struct qc_found numberless;      /* that have seen NaN and no number */
};

/* What a quantizer's values and constants show. */
bool qc_chooser_merge(struct qc_chooser *k, qc_id quantizer, struct qc_status *st);
/* The range of an observer, as far as samples that were not seen may go: of mse calib/ranges/expected_error.h, of few
   samples calib/ranges/few_samples.h. */
bool qc_chooser_unseen(struct qc_range *range, const struct qc_chooser *k, qc_id quantizer, const struct qc_method *by,
                       struct qc_status *st);
