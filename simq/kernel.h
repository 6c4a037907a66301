// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: what a kernel is. One kernel (or a family with the same frame) per file; the name in the "kernel" column of
   graph/ops.def is the descriptor: QC_OP(..., pool) is qc_kernel_pool. Adding an op is a row and, if need be, a file. */
#ifndef QC_SIMQ_KERNEL_H
#define QC_SIMQ_KERNEL_H

#include "graph/infer.h"
#include "simq/view.h"

/* Which memory order a kernel wants of its rank 3..5 inputs and gives its outputs. */
enum qc_kernel_order {
    QC_ORDER_ANY, /* works through strides; outputs follow the first input that is not a constant */
    QC_ORDER_LAST, /* data input (the first) and outputs channels-last; other inputs as they are */
    QC_ORDER_ROW  /* inputs and outputs row-major */
};

/* Parameters of the space of an affine value, resolved: unbound, off and real values give identity with scale 1, zero point 0. */
struct qc_scales {
    bool identity;
    size_t count; /* 1, or the size of the axis */
    int axis;     /* of the value */
    const float *scale;
    const int32_t *zero_point;
    struct qc_levels levels;
};

/* At plan time. Everything is fixed: shapes, strides, constants. */
struct qc_prepare {
    const struct qc_graph *graph; /* with fixed shapes */
    const struct qc_node *node;
    unsigned input_count, output_count;
    const struct qc_view *in;   /* [input_count]; data is set for constants only; rank -1 and dtype none when absent */
    const struct qc_view *out;  /* [output_count]; data NULL */
    const struct qc_scales *in_scales, *out_scales;
    bool affine;                /* some input or output is affine with bound parameters (held centred in f32) */
    struct qc_arena *arena;     /* lives as long as the plan: for state */
    /* Set by prepare: */
    void *state;                /* handed to run */
    size_t scratch;             /* bytes wanted per worker during run, 64-byte aligned */
};

struct qc_run {
    const void *state;
    unsigned input_count, output_count;
    const struct qc_view *in; /* with data */
    const struct qc_view *out;
    void *scratch;
};

struct qc_kernel {
    const char *name;
    enum qc_kernel_order order;
    bool alias; /* output 0 is input 0's memory with another shape (Reshape): no step when the input is row-major */
    bool (*prepare)(struct qc_prepare *p, struct qc_status *st); /* may be NULL */
    bool (*run)(const struct qc_run *r, struct qc_status *st);
    void (*release)(void *state); /* for state that is not only arena memory; may be NULL */
};

#define QC_OP(op, onnx, in_min, in_max, out_max, affine, rule, kernel) extern const struct qc_kernel qc_kernel_##kernel;
#include "graph/ops.def"

#endif
