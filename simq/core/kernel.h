// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: what a kernel is. One kernel (or a family with the same frame) per file; the name in the "kernel"
   column of graph/types/ops.def is the descriptor: QC_OP(..., pool) is qc_kernel_pool. Adding an op is a row and, if
   need be, a file.

   What a kernel may count on:
   - Shapes are fixed, outputs are not empty (a step without output elements is left out), inputs may be.
   - Affine values with bound parameters are f32 numbers q - zero point ("centred") in simulated graphs, stored integers
   q in produced ones. Only kernels of simq/core/integer.h, those that quantize and those that move elements see the
   latter.
   - A kernel of an op with affine behaviour NONE or MERGE gets real values only: the planner dequantizes before it and
   quantizes behind it, or takes a kernel of simq/core/kernel_affine.h that computes on affine values. KEEP and BOUND
   ops get centred values and move or compare them as they are; the scales matter only where a number enters from
   outside (the value of Pad, the bounds of Clip).
   - Strides may be anything (zero: broadcast; negative: reversed slices), except where the order below says more.
   Transpose, Slice, Split, Expand, Squeeze, Unsqueeze, Reshape and Flatten are mostly only another view of their
   input's memory; their kernels run where constants are folded. */
#pragma once

#include "graph/core/infer.h"
#include "simq/core/accumulator.h"
#include "simq/core/isa.h"
#include "simq/core/packed.h"
#include "simq/core/view.h"

/* Which memory order the planner gives a kernel. All kernels are given row-major views when constants are folded. */
enum qc_kernel_order {
    QC_ORDER_ANY,  /* inputs with any strides; outputs are dense, channels-last when an input of the same rank (3 to 5)
                      is and is  no constant, else row-major */
    QC_ORDER_LAST, /* data input (the first) and outputs dense channels-last when their rank is 3 to 5, but any strides
                      must work; other inputs dense row-major */
    QC_ORDER_MATRIX, /* as QC_ORDER_ROW, but the first two inputs may be matrices in any order of batch dimensions, rows
                        and columns, one of the last two dimensions side by side in memory */
    QC_ORDER_ROW     /* inputs that are not constants, and outputs, are dense row-major; constants always are */
};

/* Parameters of the qparams of an affine value, resolved: unbound, off and real values give identity with scale 1, zero
 * point 0. */
struct qc_scales {
    qc_id qparams; /* 0 for real */
    bool identity;
    bool
        rounds; /* values are integers inside the levels; false for identity and for products with an identity factor */
    bool product;  /* an accumulator's qparams */
    size_t count;  /* 1, or the size of the axis; in blocks what graph/core/scale_layout.h says */
    int64_t block; /* elements of a block along the axis; 0: no blocks */
    int axis;      /* of the value */
    const float *scale;
    const int32_t *zero_point;
    struct qc_levels levels;
};

/* What a multiply-accumulate kernel does with its accumulator before it writes. Input 2 of a fused step is the bias, of
   the node itself or of an Add behind it. */
struct qc_fusion {
    const struct qc_scales *from; /* scales of the accumulator; the result is in out_scales[0] */
    bool residual;                /* output 0 holds numbers that are added to the result first (all real) */
    float lo, hi; /* clamp of the result, -inf and inf for none; in centred units when the result is affine */
};

struct qc_body_watch;

/* At plan time. Everything is fixed: shapes, strides, constants. */
struct qc_prepare {
    const struct qc_graph *graph; /* with fixed shapes */
    const struct qc_node *node;
    unsigned input_count, output_count; /* absent trailing inputs may or may not be counted */
    const struct qc_view
        *in; /* [input_count]; data is set for constants only; rank -1, dtype none and data NULL when absent */
    const struct qc_view *out; /* [output_count]; data NULL */
    const struct qc_scales *in_scales, *out_scales;
    bool affine;                    /* some input or output is affine with bound parameters */
    const struct qc_fusion *fusion; /* NULL: none; only for kernels with `fuses` */
    enum qc_isa isa;                /* as qc_isa_detect gave it */
    struct qc_accumulator accumulator;
    bool int16;                        /* operands of integer products are held in 16 bits */
    enum qc_contract contract;         /* of rounding */
    struct qc_arena *arena;            /* lives as long as the plan: for state */
    struct qc_packed *packs;           /* the same, for packed constants; NULL: a step keeps its own */
    const struct qc_uses *uses;        /* of `graph`; NULL unless products are added in pairs */
    const struct qc_body_watch *watch; /* of bodies; NULL: nobody */
    /* Set by prepare: */
    void *state;              /* handed to run */
    size_t scratch;           /* bytes wanted per worker during run; the pointer is 64-byte aligned */
    uint64_t packed;          /* bit i: constant input i went into the state, run is not given its data */
    size_t constant_bytes;    /* of state outside the arena */
    size_t overflow_channels; /* of the result when the accumulator can leave its range, else 0 */
    const char *detail;       /* how it is done, for the printed plan; lives as long as the state; may stay NULL */
};

/* Data pointers of a runner never change, so that `open` can bind them once. */
struct qc_run {
    const void *state;
    void *local; /* of `open` */
    unsigned input_count, output_count;
    const struct qc_view *in; /* with data; rank -1 when absent */
    const struct qc_view *out;
    void *scratch;
};

struct qc_kernel {
    const char *name;
    enum qc_kernel_order order;
    bool alias;                        /* output 0 is input 0's row-major memory with another shape (Reshape) */
    bool fuses;                        /* knows qc_prepare.fusion */
    const struct qc_kernel *in_double; /* the kernel that takes its place where the first input is float64, or NULL */
    bool halves;       /* takes 16-bit floats as they are: it moves or converts elements. Others get float32 copies */
    uint64_t in_place; /* bit i: output 0 may be the very memory of input i, when both are dense with the same dims,
                          strides and dtype size */
    bool (*prepare)(struct qc_prepare *p, struct qc_status *st); /* may be NULL */
    bool (*run)(const struct qc_run *r, struct qc_status *st);
    /* Results in shapes that are known only now, as new tensors (outputs[k], NULL before): for a step some of whose
       shapes depend on data. Inputs are dense row-major. NULL: the planner infers the shapes again from the inputs. */
    bool (*make)(struct qc_tensor **outputs, const struct qc_run *r, struct qc_status *st);
    void (*release)(void *state); /* for state that is not only arena memory; may be NULL; also called after a failed
                                     prepare that set state */
    /* Per runner, may be NULL: *local is made for r (its data pointers are final), freed by close. */
    bool (*open)(void **local, const struct qc_run *r, struct qc_status *st);
    void (*close)(void *local);
    /* What was seen of accumulators of fewer than 32 bits so far; NULL for kernels without one. */
    const struct qc_sums *(*sums)(const void *local);
};

/* Defines the kernel qc_kernel_NAME_; the rest are its members. */
#define QC_KERNEL(name_, ...) const struct qc_kernel qc_kernel_##name_ = {.name = #name_, __VA_ARGS__}

const struct qc_kernel *qc_kernel_of(enum qc_op op);

/* Prepares a kernel, which becomes qc_kernel_halves where 16-bit floats are given to one that has none. Errors: as of
   `prepare`; p->state may be set then, and is the kernel's to release. */
bool qc_kernel_prepare(const struct qc_kernel **kernel, struct qc_prepare *p, struct qc_status *st);
extern const struct qc_kernel qc_kernel_halves;
extern const struct qc_kernel qc_kernel_unary_double, qc_kernel_softmax_double, qc_kernel_gemm_double;

#define QC_OP(op, onnx, in_min, in_max, out_max, affine, rule, kernel) extern const struct qc_kernel qc_kernel_##kernel;
#include "graph/types/ops.def"
