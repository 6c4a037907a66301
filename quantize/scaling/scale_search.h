// SPDX-License-Identifier: Apache-2.0
/* Channel scales that lower the rounding error of the layers that read the channels.

   If the producer of a channel divides it by s, and the weights that read it are multiplied by s, the float network
   does not change, but the rounding error of these weights counts s times less (Lin et al. 2023, "AWQ"). With the
   second moments H of a layer's input the mean squared error of an output is d' H d, d = w - Q(w s) / s: no sample
   runs. An input that is rounded to steps of D adds D^2 / 12 times the squares of the scaled weights. D follows from
   the extremes of the scaled channels on a few samples (Xiao et al. 2023, "SmoothQuant").

   The search tries s = r^a / m^b: m is the root mean square of the channel's weights, r that of the channel, or its
   largest value if the input is rounded. The error is that of the job's own rounding, with block scales and
   compensation, on held-out samples (calib/weights/round_weights.h). */
#pragma once

#include "calib/ranges/calibrate.h"
#include "calib/weights/round_weights.h"
#include "quantize/scaling/channel_extremes.h"
#include "rewrite/passes/channels.h"

/* A layer with quantized weights that reads a channel group. */
struct qc_scaled_reader {
    const char *name;
    qc_id node, simulated;                  /* of the real and of the simulated graph */
    double steps;                           /* largest minus least integer of its input; 0: the input is real */
    bool dynamic;                           /* the input is quantized for each sample by itself */
    const struct qc_channel_extremes *seen; /* of its input if that is rounded, else NULL */
    double *squares; /* [channels of the input]: sum of the squared weights, mean over the outputs */
};

/* The layers that read one channel group; the weights of all of them are scaled. */
struct qc_scaled_group {
    qc_id group; /* of the channels */
    size_t channels;
    const char *name; /* of the first value of the group */
    const char *kind; /* "awq" or "smooth"; NULL: not scaled */
    bool few;         /* all weights have few bits: "awq" */
    bool seen;        /* the statistics have ranges of its values */
    size_t reader_count;
    struct qc_scaled_reader *readers;      /* [reader_count] */
    double *best;                          /* [channels]: the best scales so far */
    double activation_power, weight_power; /* their a and b */
    /* Mean over the readers of the ratio of the error with the best scales to the error without; 1 at first. */
    double error;
};

/* What may be scaled. */
enum qc_scale_kinds {
    QC_SCALE_FEW = 1,     /* weights of at most 4 bits */
    QC_SCALE_DYNAMIC = 2, /* weights whose input is quantized at run time */
    QC_SCALE_STATIC = 4   /* weights whose input has a calibrated range */
};

struct qc_scale_search {
    unsigned kinds;
    const struct qc_graph *simulated;
    const bool *dynamic; /* [node_count + 1 of simulated]: products whose input is quantized at run time */
    struct qc_second_moments *second_moments; /* of simulated */
    const struct qc_calibration_options *calibration;
    struct qc_round_weights_options rounding;
    const bool *busy;              /* [value_count + 1 of the real graph]: values with ranges in the statistics */
    const struct qc_dataset *data; /* NULL: groups with quantized inputs or ranges are not scaled */
    bool tables_apart;             /* a tied table is stored twice; else its product is not scaled */
    bool may_collect;              /* statistics can be collected again; else groups with busy values are not scaled */
    struct qc_arena *arena;
    qc_pool_progress_fn *progress;
    void *progress_user;
};

/* Returns true if some weight could be scaled, whatever precedes it. */
bool qc_scale_hopes(const struct qc_scale_search *s);

/* Finds the groups of c, channels of the real graph, that could be scaled. Fails if a run fails. */
bool qc_scale_groups(struct qc_scaled_group **groups, size_t *count, const struct qc_scale_search *s,
                     const struct qc_channels *c, struct qc_status *st);

/* Sets the best scales of each group; no graph is changed. Fails with QC_INTERRUPTED if `progress` returns false. */
bool qc_scale_search(struct qc_scaled_group *groups, size_t count, const struct qc_scale_search *s,
                     const struct qc_channels *c, struct qc_status *st);

/* Divides the second moments of the readers by these scales of the group, which are copied into the arena; NULL:
   removes the division. */
bool qc_scale_moments(struct qc_second_moments *second_moments, const struct qc_channels *c,
                      const struct qc_scaled_group *group, const double *scale, struct qc_arena *a,
                      struct qc_status *st);
