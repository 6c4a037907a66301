// SPDX-License-Identifier: Apache-2.0
/* Arguments of a type rule. Rules are named in graph/types/ops.def: QC_OP(..., conv, ...) is qc_infer_conv. */
#pragma once

#include "graph/core/graph.h"

struct qc_infer {
    const struct qc_graph *graph;
    const struct qc_node *node; /* op, inputs, attributes, number of outputs are set */
    struct qc_type *out;        /* [output_count], zeroed; the rule sets dtype and shape */
};

/* Returns the type of input i, which must be present. */
static inline const struct qc_type *qc_in(const struct qc_infer *c, unsigned i)
{
    return &c->graph->values[c->node->inputs[i]].type;
}
static inline bool qc_has_in(const struct qc_infer *c, unsigned i)
{
    return i < c->node->input_count && c->node->inputs[i] != QC_ABSENT;
}
/* Returns the constant of input i, or NULL. */
static inline const struct qc_tensor *qc_in_constant(const struct qc_infer *c, unsigned i)
{
    return qc_has_in(c, i) ? qc_constant_of(c->graph, c->node->inputs[i]) : NULL;
}

/* Rules shared by several ops are one function; every name of the "type rule" column exists. */
#define QC_OP(op, onnx, in_min, in_max, out_max, affine, rule, kernel) qc_infer_fn qc_infer_##rule;
#include "graph/types/ops.def"

/* Spatial parameters of Conv, ConvTranspose and pools, with auto_pad resolved; the input size may be fixed or free. */
struct qc_window {
    int spatial; /* number of spatial dimensions, 1 to 3 */
    int64_t kernel[3], stride[3], dilation[3], pad_begin[3], pad_end[3];
    int64_t in[3], out[3]; /* sizes; QC_FREE if unknown */
    /* Padding from auto_pad is QC_FREE while the size it depends on is free. pad_end < 0 only if the output_shape of
       a ConvTranspose exceeds the reach of the kernel: the elements beyond hold only the bias. */
    bool ceil_mode, count_include_pad;
};
/* For a node in the graph or under construction. Fails if attributes are out of range or inconsistent. */
bool qc_window_of(struct qc_window *w, const struct qc_graph *g, const struct qc_node *n, struct qc_status *st);

/* Slice parameters, normalised to one entry per axis of a fixed input: start, step (may be negative), count. Returns
   false if they are not constant. */
struct qc_slice {
    int64_t start[QC_RANK_MAX], step[QC_RANK_MAX], count[QC_RANK_MAX];
};
bool qc_slice_of(struct qc_slice *s, const struct qc_graph *g, const struct qc_node *n, struct qc_status *st);

/* The axes that scales, sizes and roi of a Resize refer to, and the meaning of its sizes. */
enum qc_resize_policy { QC_RESIZE_STRETCH, QC_RESIZE_NOT_LARGER, QC_RESIZE_NOT_SMALLER };
struct qc_resize_form {
    int count, axis[QC_RANK_MAX];
    enum qc_resize_policy policy;
};
/* rank: known rank of the input. Fails if axes are invalid. */
bool qc_resize_form_of(struct qc_resize_form *out, const struct qc_node *n, int rank, struct qc_status *st);

/* Returns whether reducing a single element gives the element itself. */
static inline bool qc_reduce_keeps(enum qc_op op)
{
    return op == QC_OP_ReduceSum || op == QC_OP_ReduceMean || op == QC_OP_ReduceMax || op == QC_OP_ReduceMin ||
           op == QC_OP_ReduceProd;
}

/* Converts an axis attribute in [-rank, rank) to [0, rank). */
bool qc_axis_of(int *axis, int64_t value, int rank, struct qc_status *st);

/* Einsum-28: the dimensions of the letters of an equation. */
enum { QC_EINSUM_INPUTS = 64, QC_EINSUM_LABELS = 52 + QC_RANK_MAX };

/* letters, and the dimensions of "..." */
struct qc_einsum {
    unsigned input_count;
    int rank[QC_EINSUM_INPUTS], result_rank;
    uint8_t label[QC_EINSUM_INPUTS][QC_RANK_MAX], result[QC_RANK_MAX];
    int64_t size[QC_EINSUM_LABELS]; /* size of each label; -2: not used; QC_FREE: not known */
};

/* For a node whose inputs have known ranks. Fails if the equation is malformed or does not fit the shapes. */
bool qc_einsum_of(struct qc_einsum *out, const struct qc_graph *g, const struct qc_node *n, struct qc_status *st);

/* Blocks that Col2Im assembles to an image. */
struct qc_blocks {
    int spatial;
    int64_t points, blocks; /* elements of a block; number of blocks */
    int64_t image[QC_RANK_MAX], block[QC_RANK_MAX], stride[QC_RANK_MAX], dilation[QC_RANK_MAX], pad_begin[QC_RANK_MAX];
    int64_t steps[QC_RANK_MAX]; /* blocks along each dimension */
};

/* For a node whose image and block shapes are constants. Fails if sizes or attributes are invalid. */
bool qc_blocks_of(struct qc_blocks *out, const struct qc_graph *g, const struct qc_node *n, struct qc_status *st);
