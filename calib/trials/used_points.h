// SPDX-License-Identifier: Apache-2.0
/* Where the result of a layer with a bias is used: behind the activation, behind the Add to the stream that it is a
   branch of. A mean error there is what others read, and the bias can take it up.

   The way of a result: as long as one node alone reads it - through quantize and dequantize - and that is a function of
   each element (Relu, Clip, LeakyRelu, a Table, a constant added or multiplied), or an Add or Sub of two values of one
   shape, its result is the next value of the way. It ends before whatever mixes elements, where several read it, and at
   an output of the graph. Of layers whose ways end in one value the last one takes up its error. */
#ifndef QC_CALIB_TRIALS_USED_POINTS_H
#define QC_CALIB_TRIALS_USED_POINTS_H

#include "calib/trials/layer_bias.h"

/* A value whose means are taken, in both graphs. */
struct qc_watched {
    qc_id source; /* result of an op in the quantized graph */
    qc_id real;   /* of the same name in the float graph */
    qc_id stored; /* the form of it in the quantized graph that others read: integers, where there are; 0: an
                     accumulator that is nowhere real */
    int axis;     /* of its channels */
    size_t channels;
};

/* How the slope of a function is found from pairs x, y of it: 1 where a clamp left x alone; y / x of what goes straight
   on either side of zero; else by regression. */
enum qc_used_slope { QC_SLOPE_CLAMP, QC_SLOPE_RATIO, QC_SLOPE_REGRESSION };

/* A step of a way. */
struct qc_used_step {
    size_t in, out; /* watched values */
    enum qc_used_slope slope;
    bool joins;   /* Add or Sub; else a function of each element */
    size_t other; /* joins: number + 1 of the watched value that is added; 0: one whose error stays as it is */
    double sign;  /* joins: of that value */
};

struct qc_used_point {
    struct qc_layer_bias of;
    size_t own, used; /* watched: its own result with the bias, and the end of the way */
    bool goes;        /* what it reads lies behind the end of some way, so its error will go */
    size_t first_step, step_count;
};

struct qc_used_points {
    size_t count, watched_count, step_count;
    struct qc_used_point *of;
    struct qc_watched *watched;
    struct qc_used_step *steps;
};

/* g: simulated and bound; real: the float network that it was made of. Left out are layers without a bias, those
   whose values the float network does not have by name, and those that nothing is stored of before the end of the way:
   where only a clamp follows, which is part of the same rounding, taking up the mean behind it made networks worse.
   Arrays from the arena. Errors: memory. */
bool qc_used_points_find(struct qc_used_points *out, const struct qc_graph *g, const struct qc_graph *real,
                         struct qc_arena *a, struct qc_status *st);

#endif
