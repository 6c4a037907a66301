// SPDX-License-Identifier: Apache-2.0
/* --scale-channels: scales channels between operators if that lowers the rounding error. The scales come from second
   moments of the float network, so the search follows the stage "collect". It changes constants of the float graph, so
   the stages since "functions" run again. */
#pragma once

#include "calib/ranges/calibrate.h"
#include "calib/weights/round_weights.h"
#include "datasets/samples/dataset.h"
#include "graph/core/graph.h"
#include "quantize/make/network.h"
#include "rewrite/passes/channels.h"

struct qc_channel_scaling {
    size_t group_count;                   /* groups that could be scaled */
    const struct qc_scaled_group *groups; /* [group_count] */
};

/* Searches once for a float form, when the network has statistics and its simulated graph is unbound. If a group gains,
   the network is simulated again from the scaled graph, and its statistics are collected again if ranges changed. */
bool qc_scale_channels(struct qc_network *net, struct qc_status *st);

/* Sets *db to an upper bound of what factors of channels, behind operators other than clamps, can gain at one layer:
   how much less noise its input would have with a step for each channel. 0 without second moments. Runs a few samples.
 */
bool qc_scale_hope(double *db, struct qc_network *net, struct qc_status *st);

struct qc_json;
/* Puts the groups into the record of the job. */
void qc_record_scaled(struct qc_json *record, const struct qc_network *net);

/* The least and the largest element of each channel of some values in the float network, for each of a few units. The
   range always includes zero. */

struct qc_channel_extremes {
    qc_id value;
    int axis;
    size_t channels, units;
    float *lo, *hi; /* [units][channels] */
};

/* Channel scales that lower the rounding error of the layers that read the channels.

   If the producer of a channel divides it by s, and the weights that read it are multiplied by s, the float network
   does not change, but the rounding error of these weights counts s times less (Lin et al. 2023, "AWQ"). With the
   second moments H of a layer's input the mean squared error of an output is d' H d, d = w - Q(w s) / s: no sample
   runs. An input that is rounded to steps of D adds D^2 / 12 times the squares of the scaled weights. D follows from
   the extremes of the scaled channels on a few samples (Xiao et al. 2023, "SmoothQuant").

   The search tries s = r^a / m^b: m is the root mean square of the channel's weights, r that of the channel, or its
   largest value if the input is rounded. The error is that of the job's own rounding, with block scales and
   compensation, on held-out samples (calib/weights/round_weights.h). */

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
