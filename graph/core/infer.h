// SPDX-License-Identifier: Apache-2.0
/* What a type rule sees. Rules are named in graph/types/ops.def: QC_OP(..., conv, ...) is qc_infer_conv. */
#pragma once

#include "graph/core/graph.h"

struct qc_infer {
    const struct qc_graph *graph;
    const struct qc_node *node; /* op, inputs, attributes, number of outputs */
    struct qc_type *out;        /* [output_count], zeroed; the rule sets dtype and shape */
};

/* Type of input i (which must be present). */
static inline const struct qc_type *qc_in(const struct qc_infer *c, unsigned i)
{
    return &c->graph->values[c->node->inputs[i]].type;
}
static inline bool qc_has_in(const struct qc_infer *c, unsigned i)
{
    return i < c->node->input_count && c->node->inputs[i] != QC_ABSENT;
}
/* Constant behind input i, or NULL. */
static inline const struct qc_tensor *qc_in_constant(const struct qc_infer *c, unsigned i)
{
    return qc_has_in(c, i) ? qc_constant_of(c->graph, c->node->inputs[i]) : NULL;
}

/* Rules common to several ops are one function; each name of the "type rule" column exists. */
#define QC_OP(op, onnx, in_min, in_max, out_max, affine, rule, kernel) qc_infer_fn qc_infer_##rule;
#include "graph/types/ops.def"

/* Spatial parameters of Conv, ConvTranspose and pools, with auto_pad resolved: for a fixed or free input. */
struct qc_window {
    int spatial; /* number of spatial dimensions, 1 to 3 */
    int64_t kernel[3], stride[3], dilation[3], pad_begin[3], pad_end[3];
    int64_t in[3], out[3]; /* sizes; QC_FREE when not known */
    /* Padding by auto_pad is QC_FREE while the size it depends on is free. pad_end < 0 only where a ConvTranspose's
       output_shape asks for more than the kernel reaches: the elements behind hold the bias alone. */
    bool ceil_mode, count_include_pad;
};
/* For a node already in the graph or under construction. Errors: hostile or inconsistent attributes. */
bool qc_window_of(struct qc_window *w, const struct qc_graph *g, const struct qc_node *n, struct qc_status *st);

/* Slice parameters normalised to one entry per axis of a fixed input: start, step (may be negative), count. False when
 * not constant. */
struct qc_slice {
    int64_t start[QC_RANK_MAX], step[QC_RANK_MAX], count[QC_RANK_MAX];
};
bool qc_slice_of(struct qc_slice *s, const struct qc_graph *g, const struct qc_node *n, struct qc_status *st);

/* Which axes scales, sizes and roi of a Resize are of, and what its sizes mean. */
enum qc_resize_policy { QC_RESIZE_STRETCH, QC_RESIZE_NOT_LARGER, QC_RESIZE_NOT_SMALLER };
struct qc_resize_form {
    int count, axis[QC_RANK_MAX];
    enum qc_resize_policy policy;
};
/* rank: of the input, known. Errors: axes that cannot be. */
bool qc_resize_form_of(struct qc_resize_form *out, const struct qc_node *n, int rank, struct qc_status *st);

/* Is the element itself what a reduction makes of one element? */
static inline bool qc_reduce_keeps(enum qc_op op)
{
    return op == QC_OP_ReduceSum || op == QC_OP_ReduceMean || op == QC_OP_ReduceMax || op == QC_OP_ReduceMin ||
           op == QC_OP_ReduceProd;
}

/* An axis attribute in [-rank, rank) as [0, rank). */
bool qc_axis_of(int *axis, int64_t value, int rank, struct qc_status *st);
