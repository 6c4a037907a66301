// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: what a plan is made of, and the stages that make it:
     specialise (plan_specialise.c)  graph with fixed shapes, constants evaluated
     resolve    (plan_resolve.c)     what is identity, who uses what
     fuse       (plan_fuse.c)        which nodes become one step
     bind       (plan_bind.c, plan_emit.c)  steps, memory orders, which memory a value lives in
     memory     (plan_memory.c)      where that memory lies */
#pragma once

#include "graph/core/graph.h"
#include "simq/core/kernel.h"
#include "simq/plan/plan.h"

/* Arity of the widest rows of graph/types/ops.def (Concat; Split). */
enum { QC_PLAN_INPUTS = 256, QC_PLAN_OUTPUTS = 64 };
#define QC_OP(op, onnx, in_min, in_max, out_max, affine, rule, kernel)                                                 \
    _Static_assert((in_max) <= QC_PLAN_INPUTS && (out_max) <= QC_PLAN_OUTPUTS, "wider than the planner's arrays");
#include "graph/types/ops.def"

/* A piece of a runner's buffer. Time: 0 is before the first step, step i runs at i + 1. */
struct qc_storage {
    size_t bytes, offset;
    size_t first, last; /* times when it is needed */
    uint64_t pending;   /* while binding: uses of values in it by steps that are not bound yet */
};

/* Where a step finds something: in a storage (id from 1), or constant data in view.data. */
struct qc_operand {
    struct qc_view view;
    uint32_t storage; /* 0: constant, or absent (rank -1) */
    int64_t offset;   /* bytes from the storage's begin to element 0 */
};

struct qc_step {
    const struct qc_kernel *kernel;
    const struct qc_node *node; /* for messages; NULL for outputs */
    const char *label;          /* for the printed plan */
    const char *detail;
    unsigned input_count, output_count;
    struct qc_operand *in, *out;
    void *state;
    size_t scratch;
    size_t overflow_channels; /* of the result when its accumulator can leave its range, else 0 */
    size_t made, made_count;  /* results that are tensors of the runner: their shapes depend on data */
};

/* What is planned when the shapes that depend on data are known: a graph whose inputs are values of this one. */
struct qc_rest {
    struct qc_variants *variants;
    size_t input_count;
    struct qc_rest_input {
        bool made;
        size_t index; /* of a value that a step makes (see made_at), or of an output of the plan's graph */
    } * inputs;
    size_t *observed; /* [observed values of the rest]: their numbers in the whole */
};

/* A plan whose inputs have free shapes: nothing but those for the shapes that are met. */
struct qc_open {
    struct qc_variants *variants;
    size_t runner_bytes; /* of the largest, with the plan that a worker runs */
    size_t *elements;    /* [observed_count]: at most */
};

/* Where an output of the whole is found: in the plan's own graph or in the rest. */
struct qc_plan_output {
    bool rest;
    size_t index;
};

/* Observed value number `index` is complete when `after` steps have run. */
struct qc_report {
    size_t index, after;
    struct qc_operand what;
};

/* What is fused into a node, kept at the last of its nodes. */
struct qc_group {
    qc_id head;     /* node; 0: none. A QuantizeLinear: the group is that and the DequantizeLinear behind it. A
                       Dequantize: that, Softmax, Quantize. A DequantizeLinear of int32: that, Quantize */
    qc_id residual; /* value that is added, 0: none */
    qc_id bias;     /* value of an Add, 0: none */
    struct qc_fusion fusion;
};

struct qc_plan {
    struct qc_arena *arena;
    struct qc_graph *graph; /* with fixed shapes */
    qc_id *origin;          /* [node_count + 1] of graph: the node of the graph that the plan was made from */
    enum qc_isa isa;        /* the best that integer kernels may use */
    struct qc_accumulator accumulator;
    bool int16; /* operands of integer products */
    enum qc_contract contract;
    struct qc_folding folding;           /* while it is being made: what may still be computed ahead */
    size_t input_bytes;                  /* of one run */
    const enum qc_layout *input_layouts; /* while it is being made */
    struct qc_tensor **tensors;          /* [value_count + 1]: affine constants, centred or stored; owned */
    size_t tensor_count;                 /* length of tensors */
    struct qc_step *steps;               /* malloc'ed, as storages and reports */
    struct qc_storage *storages;         /* [storage_count + 1] */
    struct qc_report *reports;
    size_t *elements;       /* [observed_count]: of observed values, where they are known */
    size_t overflow_count;  /* accumulators that can leave their range, ... */
    size_t *overflow_steps; /* ... and their steps */
    size_t step_count, step_capacity, storage_count, storage_capacity, report_count, report_capacity;
    size_t output_count, input_count, observed_count;
    size_t whole_count; /* outputs of the graph that the plan was made from */
    struct qc_plan_output *whole;
    struct qc_rest *rest; /* NULL: no shape depends on data */
    struct qc_open
        *open; /* NULL: the shapes of the inputs are fixed; else there is nothing beside it and whole_count */
    const struct qc_body_watch *watch;
    size_t made_count;
    size_t *made_at; /* [value_count + 1] of graph: of a value that a step makes, which tensor of a runner it is */
    unsigned depth;
    struct qc_operand *inputs, *outputs;
    struct qc_tensor **copies; /* constants in another order; owned */
    size_t copy_count, copy_capacity;
    size_t buffer_bytes, scratch_bytes, packed_bytes;
    struct qc_packed *packs;
};

/* Scratch of the making. */
struct qc_binding {
    struct qc_plan *plan;
    const struct qc_graph *g;
    qc_id *observed; /* [observed_count] values of g */
    qc_id *root;     /* [value_count + 1]: the value whose numbers this one has (identity quantization is nothing) */
    const struct qc_uses *readers; /* of g; NULL unless products are added in pairs */
    uint32_t *uses;                /* [value_count + 1] of roots by live nodes and outputs */
    qc_id *user;                   /* [value_count + 1] of roots: the last node that uses it */
    bool *is_observed;             /* [value_count + 1] of roots */
    size_t *first_observed;        /* [value_count + 1] of roots: number + 1 in observed, ... */
    size_t *next_observed;         /* [observed_count]: ... and the others of that root, ascending; 0: no more */
    bool *later; /* [value_count + 1]: weights that are made of constants when the step that packs them is bound, so
                    that they are not all there at once */
    struct qc_scales *scales;     /* [value_count + 1] */
    bool *live, *elided, *fused;  /* [node_count + 1]; fused: part of a group that ends elsewhere */
    struct qc_group *groups;      /* [node_count + 1], at the last node of the group */
    struct qc_operand *held;      /* [value_count + 1] of roots: its memory, rank -1 while there is none */
    struct qc_operand *turned;    /* [value_count + 1]: a copy in another order, rank -1 while there is none */
    struct qc_arena *arena;       /* lives while the plan is made */
    struct qc_status unsupported; /* collects what cannot be run */
    unsigned unsupported_count;
};

/* The constant or what was computed ahead; NULL: neither. root: as in qc_binding. */
static inline const struct qc_tensor *qc_plan_known(const struct qc_binding *b, qc_id root)
{
    const struct qc_tensor *t = b->plan->tensors[root];
    return t ? t : qc_constant_of(b->g, root);
}

bool qc_plan_specialise(struct qc_plan *p, qc_id *observed, const struct qc_graph *g, const struct qc_shape *shapes,
                        const struct qc_plan_options *o, struct qc_status *st);
/* Cuts the graph where shapes depend on data (plan_split.c); takes `whole`. origin: [node_count + 1] of it. */
bool qc_plan_split(struct qc_plan *p, qc_id *observed, struct qc_graph *whole, const qc_id *origin,
                   const struct qc_plan_options *o, struct qc_status *st);
/* Free shapes (plan_split.c). */
bool qc_plan_is_open(const struct qc_graph *g, const struct qc_shape *shapes);
bool qc_plan_open(struct qc_plan *p, const struct qc_graph *g, const struct qc_shape *shapes,
                  const struct qc_plan_options *o, struct qc_status *st);
/* Nodes that outputs and `count` values need: [node_count + 1], to be freed. */
bool *qc_plan_needed(const struct qc_graph *g, size_t count, const qc_id *values, struct qc_status *st);
bool qc_plan_resolve(struct qc_binding *b, struct qc_status *st);
bool qc_plan_fuse(struct qc_binding *b, struct qc_status *st);
bool qc_plan_bind(struct qc_binding *b, struct qc_status *st);
size_t qc_plan_overflow_step(const struct qc_plan *p, size_t k); /* of qc_plan_overflow_node */
bool qc_plan_place(struct qc_plan *p, struct qc_status *st);

/* Parameters of a value of g, arrays in `a` or the graph's. */
bool qc_scales_of(struct qc_scales *out, const struct qc_graph *g, qc_id value, struct qc_arena *a,
                  struct qc_status *st);
extern const struct qc_scales qc_scales_real;

/* The numbers of an affine constant as a plan of a simulated graph holds them: f32, centred. NULL and a status on
   failure; owned. */
struct qc_tensor *qc_plan_centred(const struct qc_graph *g, qc_id value, struct qc_status *st);

/* The weight that a node reads, made if it is one for `later`; and let go where steps from first_step on have it packed
   and nobody else reads it. */
bool qc_plan_make_weight(struct qc_binding *b, const struct qc_node *n, struct qc_status *st);
void qc_plan_drop_weight(struct qc_binding *b, const struct qc_node *n, size_t first_step);

/* A constant in another order of memory, which the plan keeps. */
bool qc_plan_turn_constant(struct qc_operand *out, struct qc_plan *p, const struct qc_view *from, enum qc_layout layout,
                           struct qc_status *st);

/* Runs one node over row-major inputs (data NULL where only the shape is known); outputs[i] are new tensors, affine
   ones of simulated graphs centred float32. */
bool qc_evaluate_views(struct qc_tensor **outputs, const struct qc_graph *g, const struct qc_node *n,
                       const struct qc_view *in, struct qc_status *st);

/* The results of a node whose shapes depend on the numbers that it gets: in[] are dense row-major. */
bool qc_evaluate_shapeless(struct qc_tensor **outputs, const struct qc_graph *g, const struct qc_node *n,
                           const struct qc_view *in, struct qc_status *st);

/* Does the shape of a result depend on data? */
static inline bool qc_plan_shapeless(const struct qc_graph *g, const struct qc_node *n)
{
    for (unsigned i = 0; i < n->output_count; i++)
        if (!qc_shape_fixed(&g->values[n->outputs + i].type.shape)) return true;
    return false;
}

/* Storage type of a value in a plan: integers where a produced graph has them and they are integers indeed (an
   accumulator of qparams that is off is not). */
static inline enum qc_dtype qc_plan_dtype(const struct qc_graph *g, const struct qc_value *v, const struct qc_scales *s)
{
    return v->type.qparams == QC_REAL || (!g->simulated && s->rounds) ? v->type.dtype : QC_F32;
}
/* Does the op only move elements, of any type? */
static inline bool qc_plan_moves(const struct qc_node *n)
{
    const enum qc_affine_behaviour how = qc_op_info(n->op)->affine;
    return (how == QC_AFFINE_KEEP || how == QC_AFFINE_JOIN) && qc_kernel_of(n->op) != &qc_kernel_pool;
}
static inline struct qc_view qc_view_of_tensor(const struct qc_tensor *t)
{
    return qc_view_of(t->dtype, &t->shape, QC_LAYOUT_ROW, t->data);
}
#define QC_VIEW_ABSENT ((struct qc_view){.dtype = QC_NONE, .rank = -1})
#define QC_OPERAND_ABSENT ((struct qc_operand){.view = QC_VIEW_ABSENT})

/* Parts of binding (plan_emit.c). */
uint32_t qc_plan_new_storage(struct qc_plan *p, size_t bytes, struct qc_status *st);
/* Appends a step: prepares the kernel and extends the lives of what it touches. */
struct qc_step_def {
    const struct qc_kernel *kernel;
    qc_id node;
    const char *label;
    unsigned input_count, output_count;
    const struct qc_operand *in, *out;
    const struct qc_scales *in_scales, *out_scales;
    const struct qc_fusion *fusion;
};
/* Notes what cannot be run, to name it all at the end. */
void qc_plan_note_unsupported(struct qc_binding *b, const struct qc_status *why);
bool qc_plan_emit(struct qc_binding *b, const struct qc_step_def *d, struct qc_status *st);
/* The same for a step that makes its results; none of d's outputs has memory. */
bool qc_plan_emit_making(struct qc_binding *b, const struct qc_step_def *d, struct qc_status *st);
void qc_plan_touch(struct qc_plan *p, const struct qc_operand *o, size_t time);
/* A fresh dense operand. */
bool qc_plan_new_operand(struct qc_operand *out, struct qc_plan *p, enum qc_dtype dtype, const struct qc_shape *shape,
                         enum qc_layout layout, struct qc_status *st);

extern const struct qc_kernel qc_kernel_convert; /* copies into another order */
extern const struct qc_kernel qc_kernel_store;   /* centred numbers to stored integers of the output's type */

extern const struct qc_kernel qc_kernel_fake_quantize; /* QuantizeLinear and DequantizeLinear as one step */

/* Another view of an input's memory instead of a step: fills out[0..output_count). False when the op does not allow
   that. */
bool qc_plan_alias(struct qc_operand *out, const struct qc_graph *g, const struct qc_node *n,
                   const struct qc_operand *in);
