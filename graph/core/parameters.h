// SPDX-License-Identifier: Apache-2.0
/* The parameters of the numbers at any input or output of any op, for every graph of the pipeline. */
#pragma once

#include "graph/core/graph.h"

/* Affine: real = scale * (q - zero point). For real values, and qparams that are unbound or off: affine is false,
   qparams QC_REAL, count 0. */
struct qc_parameters {
    bool affine;
    bool stored; /* the value itself holds these integers; else it is the real value beside a Quantize or Dequantize */
    enum qc_dtype dtype; /* of the integers; for a real value its element type */
    qc_id qparams;
    enum qc_qparams_kind kind; /* quantizer, or product of an accumulator */
    const char *quantizer;     /* name of the qparams, unique in the graph; NULL for a real value */
    size_t count;              /* 1, the number of channels, or of blocks */
    const float *scale;        /* [count] */
    const int32_t *zero_point; /* [count] */
    int axis;                  /* of the channels or blocks; -1 with one scale */
    int64_t block;             /* elements per block; 0: no blocks */
    struct qc_levels levels;   /* range of the integers */
};

/* Returns the parameters of the value's own type. */
struct qc_parameters qc_value_parameters(const struct qc_graph *g, qc_id value);

/* Returns the constant that an affine value holds: the value itself, or the real constant that its Quantize reads; 0:
   it is computed. */
qc_id qc_quantized_constant(const struct qc_graph *g, qc_id value);

/* Returns the real numbers of an affine constant, scale * (q - zero point), in float32. The caller owns the tensor. */
struct qc_tensor *qc_tensor_of_parameters(const struct qc_graph *g, qc_id constant, struct qc_status *st);

enum qc_end {
    QC_INPUT,  /* input of the op: after a Dequantize, the integers that it converts */
    QC_OUTPUT, /* result of the op: the accumulator for products */
    QC_TAKEN /* stored form of the result: that of the first Quantize or Requantize that reads it, directly or through a
                Dequantize; else as QC_OUTPUT */
};

/* taken: for each value, the result of the first Quantize or Requantize that reads it, or 0. Arrays are allocated in
   the arena. */
struct qc_query {
    const struct qc_graph *graph;
    const qc_id *taken; /* [value_count + 1] */
};
bool qc_query_of(struct qc_query *out, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st);

/* Returns the parameters of input or output k of a node. An absent input is real, of type QC_NONE. The graph owns
   the pointers. */
struct qc_parameters qc_query_end(const struct qc_query *q, qc_id node, enum qc_end end, unsigned k);
/* QC_TAKEN of any value, also of a graph input, which no node makes. */
struct qc_parameters qc_query_taken(const struct qc_query *q, qc_id value);

/* Maps an element of a quantized tensor to its scale: one for all, one per channel, or one per block. With blocks of
   b along an axis, the scales are arranged as a tensor of the same shape with size ceil(size / b) along that axis,
   as in ONNX's DequantizeLinear of opset 21. */
struct qc_scale_layout {
    size_t count;       /* of scales */
    size_t size, inner; /* size of the axis; elements after it */
    size_t block;       /* 0: no blocks */
    size_t blocks;      /* along the axis */
};

/* For any tensor of a fixed shape. s: bound or not; with one scale per tensor, axis is ignored. */
struct qc_scale_layout qc_scale_layout_of(const struct qc_qparams *s, const struct qc_shape *shape, int axis);

/* Returns the index of the scale of element i, in row-major order. */
static inline size_t qc_scale_at(const struct qc_scale_layout *l, size_t i)
{
    if (l->count == 1) return 0;
    const size_t row = i / l->inner;
    if (!l->block) return row % l->size;
    return (row / l->size * l->blocks + row % l->size / l->block) * l->inner + i % l->inner;
}

/* Returns the shape of the scales: for blocks as above, else [count]. */
struct qc_shape qc_scale_shape(const struct qc_qparams *s, const struct qc_shape *shape, int axis);
