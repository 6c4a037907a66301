// SPDX-License-Identifier: Apache-2.0
/* Scales of channels that lower what the rounding of weights does to the outputs behind them (Lin et al. 2023, "AWQ").

   A channel that is divided by s in what makes it, and multiplied by s in the weights that read it, is the same to the
   float network, but the rounding of its weights counts s times less. With the second moments H of what a layer reads
   the mean squared error of an output is d' H d, d = w - Q(w s) / s: no sample is run. Tried are s = r^a / m^b, r the
   root mean square of the channel and m that of its weights, and each is judged by the rounding that the weights will
   get, scales of blocks and compensation and all, on the samples that are held back (calib/weights/round_weights.h). */
#ifndef QC_QUANTIZE_SCALE_SEARCH_H
#define QC_QUANTIZE_SCALE_SEARCH_H

#include "calib/ranges/calibrate.h"
#include "calib/weights/round_weights.h"
#include "rewrite/passes/channels.h"

/* Layers that read one channel group, all of whose weights get other numbers. */
struct qc_scaled_group {
    qc_id group; /* of the channels */
    size_t channels;
    const char *name;                      /* of the value that begins it */
    const char *kind;                      /* "awq"; NULL: not scaled */
    size_t reader_count;                   /* with quantized weights */
    qc_id *readers;                        /* [reader_count]: nodes of the real graph, ... */
    qc_id *simulated;                      /* ... and of the simulated one */
    const char **nodes;                    /* [reader_count]: their names */
    double *best;                          /* [channels]: the scales that served best so far */
    double activation_power, weight_power; /* a and b of these */
    /* Mean over the readers of the error with the scales to the error without: 1 before anything was tried. */
    double error;
};

struct qc_scale_search {
    const struct qc_graph *simulated;
    struct qc_second_moments *gram; /* of the simulated graph */
    const struct qc_calibration_options *calibration;
    struct qc_round_weights_options rounding;
    const bool *busy;   /* [value_count + 1] of the real graph: values whose range is known already: groups with one
                           stay as they are */
    size_t most_levels; /* weights of more are left alone */
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

/* Tells the moments of the readers that their input is divided by the group's `best` (NULL: by nothing any more).
   Scales are copied into the arena. */
bool qc_scale_moments(struct qc_second_moments *gram, const struct qc_channels *c, const struct qc_scaled_group *group,
                      const double *scale, struct qc_arena *a, struct qc_status *st);

#endif
