// SPDX-License-Identifier: Apache-2.0
/* One question about any end of any op, on every graph of the pipeline: what are the parameters of its numbers? */
#pragma once

#include "graph/core/graph.h"

/* Affine: real = scale * (q - zero point). Real, or qparams that are unbound or off: affine is false, qparams QC_REAL,
 * count 0. */
struct qc_parameters {
    bool affine;
    bool stored; /* the value itself holds these integers; else it is the real value beside a Quantize or Dequantize */
    enum qc_dtype dtype; /* of the integers; of a real value its element type */
    qc_id qparams;
    enum qc_qparams_kind kind; /* a quantizer's, or an accumulator's product */
    const char *quantizer;     /* name of the qparams, unique in the graph; NULL for a real value */
    size_t count;              /* 1, the channels, or the blocks */
    const float *scale;        /* [count] */
    const int32_t *zero_point; /* [count] */
    int axis;                  /* of the channels or blocks; -1 with one scale */
    int64_t block;             /* elements of a block; 0: no blocks */
    struct qc_levels levels;   /* what integers may be */
};

/* By the value's own type. */
struct qc_parameters qc_value_parameters(const struct qc_graph *g, qc_id value);

/* What the integers of an affine constant stand for, scale * (q - zero point), in float32. Owned. */
struct qc_tensor *qc_tensor_of_parameters(const struct qc_graph *g, qc_id constant, struct qc_status *st);

enum qc_end {
    QC_INPUT,  /* what the op reads: behind a Dequantize the integers that it turns into real numbers */
    QC_OUTPUT, /* what the op computes: of a product the accumulator */
    QC_TAKEN   /* what its result is stored as: that of the (first) Quantize or Requantize which takes it, a Dequantize
                  between them or not;   else as QC_OUTPUT */
};

/* taken: per value the result of the first Quantize or Requantize that takes it, 0 where none does; arrays in the arena
 * given. */
struct qc_query {
    const struct qc_graph *graph;
    const qc_id *taken; /* [value_count + 1] */
};
bool qc_query_of(struct qc_query *out, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st);

/* Parameters of input or output k of a node; an input that is absent is real, of type QC_NONE. Pointers are the
 * graph's. */
struct qc_parameters qc_query_end(const struct qc_query *q, qc_id node, enum qc_end end, unsigned k);
/* QC_TAKEN of a value that no node makes (an input of the graph), or of any other. */
struct qc_parameters qc_query_taken(const struct qc_query *q, qc_id value);
