// SPDX-License-Identifier: Apache-2.0
/* Channel groups of a real graph: the values that carry the same channels, and the weights that make and read them. See
   rewrite/passes/channels.h. */
#pragma once

#include "rewrite/passes/channel_layout.h"

/* Role of a node for the channels of its data input. */
enum qc_channel_role {
    QC_CHANNELS_STOP,  /* does not commute with scales of channels */
    QC_CHANNELS_LAYER, /* Conv, Gemm, MatMul with a constant weight: reads a group, makes another */
    QC_CHANNELS_NORM,  /* LayerNormalization: makes a group with a gain and a shift, and reads none */
    QC_CHANNELS_GAIN,  /* Mul with a constant per channel: like a layer with a diagonal weight that is not quantized */
    QC_CHANNELS_SHIFT, /* Add, Sub of one constant or one per channel: the constant is scaled too */
    QC_CHANNELS_CLIP,  /* constant bounds: they are scaled too */
    QC_CHANNELS_PASS,  /* f(x / s) = f(x) / s without other changes; elements may be moved (channel_layout.h) */
    QC_CHANNELS_LOOK   /* Shape, Size: does not read elements */
};

struct qc_channel_group {
    int64_t count; /* number of channels */
    bool fixed;    /* s = 1 for all channels */
    bool *held;    /* [count]: s = 1, because a reader of the channel does not commute with scales, or no layer reads
                      it */
    double *scale; /* [count]: s, 1 at first */
};

/* A weight as [outputs][inputs of one convolution group], the largest magnitude over the kernel's window. */
struct qc_layer_weight {
    int64_t outputs, inputs, conv_groups;
    float *magnitude; /* [outputs][inputs] */
};

struct qc_channels {
    struct qc_arena *arena;
    const struct qc_graph *graph;     /* borrowed */
    enum qc_channel_role *role;       /* [node_count + 1] */
    unsigned *data;                   /* [node_count + 1]: which input carries the channels */
    qc_id *group;                     /* [value_count + 1]: the group of the value, 0: none */
    struct qc_channel_layout *layout; /* [value_count + 1]: where the channels are */
    struct qc_channel_group *groups;  /* [value_count + 1], by the ids in `group` */
    struct qc_layer_weight *weights;  /* [node_count + 1]: of layers */
    qc_id *first_maker,
        *next_maker; /* nodes with a constant that make values of a group, by group and by node; 0 ends the list */
    qc_id *first_reader, *next_reader; /* layers and gains that read a group; both kinds of lists in topological
                                          order */
};

/* Returns the axis along which a value's channels lie, or -1 if they lie along several. If there is one axis, the next
   two functions give the number and the scales of its channels. */
static inline int qc_channel_axis(const struct qc_channels *c, qc_id v)
{
    return c->group[v] ? qc_layout_axis(&c->layout[v], c->graph->values[v].type.shape.rank) : -1;
}
static inline int64_t qc_channel_count(const struct qc_channels *c, qc_id v)
{
    const int axis = qc_channel_axis(c, v);
    return axis < 0 ? 0 : c->graph->values[v].type.shape.dim[axis];
}
/* Returns NULL if the value is in no group. */
static inline const double *qc_channel_scales(const struct qc_channels *c, qc_id v)
{
    const double *scale = c->groups[c->group[v]].scale;
    return scale ? scale + c->layout[v].offset : NULL;
}

/* Finds the groups of a graph. Fails if memory is out. */
bool qc_channels_find(struct qc_channels *out, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st);

/* Leaves the channels of clamps with constant bounds (ReLU6) as they are: with scales, a clamp would get bounds per
   channel, which is an operator more. */
void qc_channels_leave_clips(struct qc_channels *c);

struct qc_equalized {
    size_t groups;   /* in those groups */
    size_t channels; /* in them */
    size_t clips;    /* Clip ops that got bounds per channel */
};

/* Applies the scales of the groups to constants. *out: a new graph with the same nodes except for those clips.
   Deterministic. Fails if memory is out. */
bool qc_channels_apply(struct qc_graph **out, struct qc_equalized *info, const struct qc_channels *c,
                       struct qc_status *st);

/* *to: the weight of a layer, its columns times `in` and its rows divided by `out` (per channel read and made; NULL:
   1). Fails if memory is out. */
bool qc_channels_scaled_weight(struct qc_tensor **to, const struct qc_channels *c, qc_id layer, const double *in,
                               const double *out, struct qc_status *st);

/* Returns the input channel of the weight's element [o][i]. In a grouped convolution an output reads only the channels
   of its group. */
static inline int64_t qc_weight_channel(const struct qc_layer_weight *w, int64_t o, int64_t i)
{
    return w->conv_groups == 1 ? i : o / (w->outputs / w->conv_groups) * w->inputs + i;
}

/* Cross-layer equalization (Nagel et al. 2019, "Data-Free Quantization Through Weight Equalization and Bias
   Correction", eq. 9-11) and, where a normalisation's gain and shift feed dense layers, SmoothQuant's migration of
   scales (Xiao et al. 2023, eq. 4, alpha 1/2).

   A *channel group* is a set of values that carry the same channels: the result of a layer, the results of clamps,
   pools, leaky relus and additions of constants on it, and the inputs of the layers after it. Channel c of a group may
   be stored divided by a positive number s[c]: rows of the weights that make it are divided, columns of the weights
   that read it multiplied. The function of the graph stays the same except for the rounding of float32 products. s = 1
   for channels that reach an op which does not commute with scales (an addition of two activations, a softmax, an
   output of the graph). Elements may be moved between layers (rewrite/passes/channel_layout.h): channels of a value
   projection pass through heads and the product with the scores, which sums elements of one channel each, to the output
   projection, even if one product computes queries, keys and values. A Clip whose bounds then differ between channels
   becomes Relu (or Max) and Min with constants.

   Scales are chosen from the weights alone, not from data: merged statistics must be of one graph. */

/* QC_EQUALIZE_FREE: but for the channels of clamps (qc_channels_leave_clips). */
enum qc_equalize_extent { QC_EQUALIZE_ALL, QC_EQUALIZE_FREE };

/* g: the normalised real graph. *out: a new graph with the same nodes, except for those clips, and other constants.
   Deterministic. Fails if memory is out. */
bool qc_equalize(struct qc_graph **out, struct qc_equalized *info, const struct qc_graph *g,
                 enum qc_equalize_extent extent, struct qc_status *st);
