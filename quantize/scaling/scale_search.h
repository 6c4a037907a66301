// SPDX-License-Identifier: Apache-2.0
/* Scales of channels that lower what rounding does to the outputs behind them.

   A channel that is divided by s in what makes it, and multiplied by s in the weights that read it, is the same to the
   float network, but the rounding of its weights counts s times less (Lin et al. 2023, "AWQ"). With the second moments
   H of what a layer reads the mean squared error of an output is d' H d, d = w - Q(w s) / s: no sample is run. Where
   the input is rounded too, to steps of D, that adds D^2 / 12 times the squares of the scaled weights; D is that of the
   extremes of the scaled channels (Xiao et al. 2023, "SmoothQuant"), as a few samples show them.

   Tried are s = r^a / m^b, m the root mean square of the channel's weights and r that of the channel, or its largest
   value where it is rounded. Each is judged by the rounding that the weights will get, scales of blocks and
   compensation and all, on the samples that are held back (calib/weights/round_weights.h). */
#pragma once

#include "calib/ranges/calibrate.h"
#include "calib/weights/round_weights.h"
#include "quantize/scaling/channel_extremes.h"
#include "rewrite/passes/channels.h"

/* A layer with quantized weights that reads a channel group. */
struct qc_scaled_reader {
    const char *name;
    qc_id node, simulated;                  /* of the real and of the simulated graph */
    double steps;                           /* from the least to the largest integer of its input; 0: it is real */
    bool dynamic;                           /* these are for each sample by itself */
    const struct qc_channel_extremes *seen; /* of its input, where it is rounded */
    double *squares; /* [channels of the input]: of the weights, summed over the outputs, to one output */
};

/* Layers that read one channel group, all of whose weights get other numbers. */
struct qc_scaled_group {
    qc_id group; /* of the channels */
    size_t channels;
    const char *name; /* of the value that begins it */
    const char *kind; /* "awq" or "smooth"; NULL: not scaled */
    bool few;         /* weights of few bits alone: "awq" */
    bool seen;        /* ranges of its values are among the statistics */
    size_t reader_count;
    struct qc_scaled_reader *readers;      /* [reader_count] */
    double *best;                          /* [channels]: the scales that served best so far */
    double activation_power, weight_power; /* a and b of these */
    /* Mean over the readers of the error with the scales to the error without: 1 before anything was tried. */
    double error;
};

/* What may be scaled. */
enum qc_scale_kinds {
    QC_SCALE_FEW = 1,     /* weights of at most 4 bits */
    QC_SCALE_DYNAMIC = 2, /* whose input is quantized as it comes */
    QC_SCALE_STATIC = 4   /* whose input is quantized by what samples have shown */
};

struct qc_scale_search {
    unsigned kinds;
    const struct qc_graph *simulated;
    const bool *dynamic;            /* [node_count + 1] of it: products whose input is quantized as it comes */
    struct qc_second_moments *gram; /* of it */
    const struct qc_calibration_options *calibration;
    struct qc_round_weights_options rounding;
    const bool *busy;              /* [value_count + 1] of the real graph: values whose range is seen */
    const struct qc_dataset *data; /* NULL: what is rounded stays as it is */
    bool may_collect;              /* statistics can be taken again: else groups with busy values stay as they are */
    struct qc_arena *arena;
    qc_pool_progress_fn *progress;
    void *progress_user;
};

/* Is there a weight that could be scaled at all, whatever stands before it? */
bool qc_scale_hopes(const struct qc_scale_search *s);

/* The groups of c, channels of the real graph, that could be scaled. */
bool qc_scale_groups(struct qc_scaled_group **groups, size_t *count, const struct qc_scale_search *s,
                     const struct qc_channels *c, struct qc_status *st);

/* Tells them what served best of what was tried. Nothing is changed. */
bool qc_scale_search(struct qc_scaled_group *groups, size_t count, const struct qc_scale_search *s,
                     const struct qc_channels *c, struct qc_status *st);

/* Tells the moments of the readers that their input is divided by these scales of the group (NULL: by nothing any
   more). They are copied into the arena. */
bool qc_scale_moments(struct qc_second_moments *gram, const struct qc_channels *c, const struct qc_scaled_group *group,
                      const double *scale, struct qc_arena *a, struct qc_status *st);
