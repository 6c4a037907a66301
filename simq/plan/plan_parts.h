// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: the parts of a plan, and the stages that make it:
   specialise (plan_specialise.c)        graph with fixed shapes, constants evaluated
   resolve    (plan_resolve.c)           identity values, users of each value
   fuse       (plan_fuse.c)              nodes that become one step
   bind       (plan_bind.c, plan_emit.c) steps, memory orders, the storage of each value
   memory     (plan_memory.c)            offsets of the storages */
#pragma once

#include "graph/core/graph.h"
#include "simq/core/kernel.h"
#include "simq/plan/plan.h"

/* Arity of the widest ops of graph/types/ops.def (Concat; Split). */
enum { QC_PLAN_INPUTS = 256, QC_PLAN_OUTPUTS = 64 };
#define QC_OP(op, onnx, in_min, in_max, out_max, affine, rule, kernel)                                                 \
    _Static_assert((in_max) <= QC_PLAN_INPUTS && (out_max) <= QC_PLAN_OUTPUTS, "wider than the planner's arrays");
#include "graph/types/ops.def"

/* A piece of a runner's buffer. Time: 0 is before the first step, step i runs at i + 1. */
struct qc_storage {
    size_t bytes, offset;
    size_t first, last; /* lifetime */
    uint64_t pending;   /* while binding: uses of values in it by steps that are not bound yet */
};

/* Operand of a step: in a storage (id from 1), or constant data in view.data. */
struct qc_plan_operand {
    struct qc_view view;
    uint32_t storage; /* 0: constant, or absent (rank -1) */
    int64_t offset;   /* bytes from the start of the storage to element 0 */
};

struct qc_step {
    const struct qc_kernel *kernel;
    const struct qc_node *node; /* for messages; NULL for outputs */
    const char *label;          /* for the printed plan */
    const char *detail;
    unsigned input_count, output_count;
    struct qc_plan_operand *in, *out;
    void *state;
    size_t scratch;
    size_t overflow_channels; /* channels of the result if its accumulator can overflow, else 0 */
    size_t made, made_count; /* results whose shapes depend on data: first index and count among the runner's tensors */
};

/* The graph after data-dependent shapes, planned when they are known. Its inputs are values of this plan's graph. */
struct qc_rest {
    struct qc_variants *variants;
    size_t input_count;
    struct qc_rest_input {
        bool made;
        size_t index; /* of a value that a step makes (see made_at), or of an output of the plan's graph */
    } * inputs;
    size_t *observed; /* [observed values of the rest]: their indices in the whole plan */
};

/* A plan whose inputs have free shapes: holds only the plans for the shapes of the runs. */
struct qc_open {
    struct qc_variants *variants;
    size_t runner_bytes; /* of the largest case, with the plan that a worker runs */
    size_t *elements;    /* [observed_count]: maximum */
};

/* Location of an output of the whole graph: in the plan's own graph or in the rest. */
struct qc_plan_output {
    bool rest;
    size_t index;
};

/* Observed value `index` is complete when `after` steps have run. */
struct qc_plan_report {
    size_t index, after;
    struct qc_plan_operand what;
};

/* Nodes fused into one step, stored at the last of them. */
struct qc_group {
    qc_id head; /* node; 0: none. QuantizeLinear: grouped with the DequantizeLinear after it. Dequantize: with Softmax
                   and Quantize. DequantizeLinear of int32: with Quantize */
    qc_id residual; /* value that is added; 0: none */
    qc_id bias;     /* value of an Add, 0: none */
    struct qc_fusion fusion;
};

struct qc_plan {
    struct qc_arena *arena;
    struct qc_graph *graph; /* with fixed shapes */
    qc_id *origin;          /* [node_count + 1] of graph: the corresponding node of the graph passed to qc_plan_new */
    enum qc_isa isa;        /* upper bound for integer kernels */
    struct qc_accumulator accumulator;
    bool int16; /* operands of integer products are int16 */
    bool many_runs;
    enum qc_contract contract;
    struct qc_folding folding;           /* while the plan is made: remaining budget of constant folding */
    size_t input_bytes;                  /* of one run */
    const enum qc_layout *input_layouts; /* while the plan is made */
    struct qc_tensor **tensors;          /* [value_count + 1]: affine constants, centred or stored; owned */
    size_t tensor_count;                 /* length of tensors */
    struct qc_step *steps;               /* malloc'ed, as storages and reports */
    struct qc_storage *storages;         /* [storage_count + 1] */
    struct qc_plan_report *reports;
    size_t *elements;       /* [observed_count]: of observed values, where they are known */
    size_t overflow_count;  /* number of accumulators that can overflow, ... */
    size_t *overflow_steps; /* ... and their steps */
    size_t observing_steps; /* the last of them completes an observed value, or may fail */
    size_t step_count, step_capacity, storage_count, storage_capacity, report_count, report_capacity;
    size_t output_count, input_count, observed_count;
    size_t whole_count; /* outputs of the graph passed to qc_plan_new */
    struct qc_plan_output *whole;
    struct qc_rest *rest; /* NULL: no shape depends on data */
    struct qc_open *open; /* NULL: the input shapes are fixed; else only counts are set besides it */
    const struct qc_body_watch *watch;
    size_t made_count;
    size_t *made_at; /* [value_count + 1] of graph: index of the runner's tensor, for values that a step makes */
    unsigned depth;
    struct qc_plan_operand *inputs, *outputs;
    struct qc_tensor **copies; /* constants in another order; owned */
    size_t copy_count, copy_capacity;
    size_t buffer_bytes, scratch_bytes, packed_bytes;
    struct qc_packed *packs;
};

/* Working state while the plan is made. */
struct qc_plan_binding {
    struct qc_plan *plan;
    const struct qc_graph *g;
    qc_id *observed; /* [observed_count] values of g */
    qc_id *root;     /* [value_count + 1]: the value with the same numbers (identity quantization changes nothing) */
    const struct qc_uses *readers; /* of g; NULL unless pairs of products saturate */
    uint32_t *uses;                /* [value_count + 1] of roots: uses by live nodes and outputs */
    qc_id *user;                   /* [value_count + 1] of roots: the last node that uses it */
    bool *is_observed;             /* [value_count + 1] of roots */
    size_t *first_observed;        /* [value_count + 1] of roots: index + 1 in observed, ... */
    size_t *next_observed;         /* [observed_count]: ... and the next index of that root, ascending; 0: none */
    bool *later; /* [value_count + 1]: weights computed from constants only when the step that packs them is bound, so
                    that they are not all in memory at once */
    struct qc_scales *scales;       /* [value_count + 1] */
    bool *live, *elided, *fused;    /* [node_count + 1]; fused: part of a group that ends at another node */
    struct qc_group *groups;        /* [node_count + 1], at the last node of the group */
    struct qc_plan_operand *held;   /* [value_count + 1] of roots: its memory, rank -1 before it has any */
    struct qc_plan_operand *turned; /* [value_count + 1]: a copy in another order, rank -1 before there is one */
    struct qc_arena *arena;         /* valid while the plan is made */
    struct qc_status unsupported;   /* collects all unsupported nodes */
    unsigned unsupported_count;
};

/* Returns the constant, or the value computed at plan time; NULL if there is neither, or not yet. root: as in
 * qc_plan_binding. */
static inline const struct qc_tensor *qc_plan_known(const struct qc_plan_binding *b, qc_id root)
{
    const struct qc_tensor *t = b->plan->tensors[root];
    return t || b->later[root] ? t : qc_constant_of(b->g, root);
}

bool qc_plan_specialise(struct qc_plan *p, qc_id *observed, const struct qc_graph *g, const struct qc_shape *shapes,
                        const struct qc_plan_options *o, struct qc_status *st);
/* Cuts the graph where shapes depend on data (plan_split.c); takes ownership of `whole`. origin: [node_count + 1] of
   `whole`. */
bool qc_plan_split(struct qc_plan *p, qc_id *observed, struct qc_graph *whole, const qc_id *origin,
                   const struct qc_plan_options *o, struct qc_status *st);
/* Free shapes (plan_split.c). */
bool qc_plan_is_open(const struct qc_graph *g, const struct qc_shape *shapes);
bool qc_plan_open(struct qc_plan *p, const struct qc_graph *g, const struct qc_shape *shapes,
                  const struct qc_plan_options *o, struct qc_status *st);
/* Returns the nodes that the outputs and `count` values need: [node_count + 1], to be freed. */
bool *qc_plan_needed(const struct qc_graph *g, size_t count, const qc_id *values, struct qc_status *st);
bool qc_plan_resolve(struct qc_plan_binding *b, struct qc_status *st);
void qc_plan_fuse(struct qc_plan_binding *b);
bool qc_plan_bind(struct qc_plan_binding *b, struct qc_status *st);
size_t qc_plan_overflow_step(const struct qc_plan *p, size_t k); /* of qc_plan_overflow_node */
bool qc_plan_place(struct qc_plan *p, struct qc_status *st);

/* Resolves the parameters of a value of g. Arrays belong to `a` or to the graph. */
bool qc_scales_of(struct qc_scales *out, const struct qc_graph *g, qc_id value, struct qc_arena *a,
                  struct qc_status *st);
extern const struct qc_scales qc_scales_real;

/* Returns the centred f32 numbers of an affine constant, as a plan of a simulated graph holds them; owned by the
   caller. Returns NULL and sets st on failure. */
struct qc_tensor *qc_plan_centred(const struct qc_graph *g, qc_id value, struct qc_status *st);

/* qc_plan_make_weight computes the weight of a node if it is one of `later`. qc_plan_drop_weight frees it if steps
   from first_step on have packed it and no other node reads it. */
bool qc_plan_make_weight(struct qc_plan_binding *b, const struct qc_node *n, struct qc_status *st);
void qc_plan_drop_weight(struct qc_plan_binding *b, const struct qc_node *n, size_t first_step);

/* Copies a constant to another memory order; the plan owns the copy. */
bool qc_plan_turn_constant(struct qc_plan_operand *out, struct qc_plan *p, const struct qc_view *from,
                           enum qc_layout layout, struct qc_status *st);

/* Runs one node over row-major inputs (data NULL if only the shape is known). outputs[i] are new tensors; affine
   results of simulated graphs are centred float32. */
bool qc_evaluate_views(struct qc_tensor **outputs, const struct qc_graph *g, const struct qc_node *n,
                       const struct qc_view *in, struct qc_status *st);

/* Evaluates a node whose result shapes depend on data. in[] are dense row-major; held: bytes of earlier results of such
   nodes, which count for the budget. */
bool qc_evaluate_shapeless(struct qc_tensor **outputs, const struct qc_graph *g, const struct qc_node *n,
                           const struct qc_view *in, size_t held, struct qc_status *st);

/* Returns whether the shape of a result depends on data. */
static inline bool qc_plan_shapeless(const struct qc_graph *g, const struct qc_node *n)
{
    for (unsigned i = 0; i < n->output_count; i++)
        if (!qc_shape_fixed(&g->values[n->outputs + i].type.shape)) return true;
    return false;
}

/* Returns the storage type of a value in a plan: an integer type if the graph is a produced one and the numbers are
   integers (accumulators of qparams that are off are not). */
static inline enum qc_dtype qc_plan_dtype(const struct qc_graph *g, const struct qc_value *v, const struct qc_scales *s)
{
    return v->type.qparams == QC_REAL || (!g->simulated && s->rounds) ? v->type.dtype : QC_F32;
}
/* Returns whether the op only moves elements, of any type. */
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
#define QC_OPERAND_ABSENT ((struct qc_plan_operand){.view = QC_VIEW_ABSENT})

/* Parts of binding (plan_emit.c). */
uint32_t qc_plan_new_storage(struct qc_plan *p, size_t bytes, struct qc_status *st);
/* Appends a step: prepares the kernel and extends the lives of what it touches. */
struct qc_step_def {
    const struct qc_kernel *kernel;
    qc_id node;
    const char *label;
    unsigned input_count, output_count;
    const struct qc_plan_operand *in, *out;
    const struct qc_scales *in_scales, *out_scales;
    const struct qc_fusion *fusion;
};
/* Records an unsupported node, to report all of them at the end. */
void qc_plan_note_unsupported(struct qc_plan_binding *b, const struct qc_status *why);
/* Returns the contract of a step: LiteRT leaves 16-bit integers to TensorFlow Lite's kernels. */
enum qc_contract qc_plan_contract(const struct qc_plan *p, const struct qc_node *n, const struct qc_view *in,
                                  unsigned count);
bool qc_plan_emit(struct qc_plan_binding *b, const struct qc_step_def *d, struct qc_status *st);
/* The same for a step with data-dependent result shapes; its outputs have no memory in d. */
bool qc_plan_emit_making(struct qc_plan_binding *b, const struct qc_step_def *d, struct qc_status *st);
void qc_plan_touch(struct qc_plan *p, const struct qc_plan_operand *o, size_t time);
/* Makes a dense operand with a new storage. */
bool qc_plan_new_operand(struct qc_plan_operand *out, struct qc_plan *p, enum qc_dtype dtype,
                         const struct qc_shape *shape, enum qc_layout layout, struct qc_status *st);

extern const struct qc_kernel qc_kernel_convert; /* copies to another memory order */
extern const struct qc_kernel qc_kernel_store;   /* centred numbers to stored integers of the output's type */

extern const struct qc_kernel qc_kernel_fake_quantize; /* QuantizeLinear and DequantizeLinear as one step */

/* Binds the results as views of an input's memory instead of a step: fills out[0..output_count). Returns false if
   the op does not allow it. */
bool qc_plan_alias(struct qc_plan_operand *out, const struct qc_graph *g, const struct qc_node *n,
                   const struct qc_plan_operand *in);
