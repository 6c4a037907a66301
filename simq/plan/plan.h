// SPDX-License-Identifier: Apache-2.0
/* The interpreter: a graph bound to fixed input shapes, compiled to a list of steps with planned memory.
   A plan is shared by workers and not changed by them; a runner is the memory of one worker. Kernels are single
   threaded, so results do not depend on the number of workers.

   Affine values of a simulated graph are held CENTRED: f32 numbers q - zero point. Those of a produced graph are held
   as it says: stored integers of 4 to 16 bits, int32 accumulators. Both compute the same numbers, bit for bit, and
   where an accumulator may reach 2^24, which float32 does not hold exactly, the simulated graph uses the integer kernel
   too, and where bytes are multiplied faster than float32 (convolutions with VNNI). Qparams that are unbound or off act
   as scale 1, zero point 0, no rounding: with all of them unbound the plan computes the real network, with nothing left
   of quantize and dequantize in it. Product qparams of which one factor acts so has the scale of the other and is not
   rounded. A produced graph (integers in its types) is run in the same way; integers meet memory only at inputs and
   outputs.

   Values of a multiply-accumulate op are exact as long as every partial sum stays below 2^24 in magnitude; the results
   of the rounding contract "onnx" then are those of ONNX Runtime's integer kernels, bit for bit (docs/numerics.md). NaN
   is quantized to the lowest level, as there. */
#pragma once

#include "graph/core/graph.h"
#include "simq/core/accumulator.h"
#include "simq/core/isa.h"
#include "simq/core/view.h"

struct qc_plan;
struct qc_runner;

/* What the operands of integer products are held in: as they come (8 bits where both have them), or always 16 bits, for
   targets that multiply int16 faster. Sums are int32 either way. */
enum qc_lowering { QC_LOWERING_INT8, QC_LOWERING_INT16 };

/* Told of each run of a body of a node of the graph (not of bodies within bodies): the body as the graph has it, and
   what it is handed. From any thread. */
struct qc_body_watch {
    bool (*fn)(void *user, const struct qc_graph *body, size_t count, const struct qc_view *in, struct qc_status *st);
    void *user;
};

/* Shapes of all inputs that some run will have. */
struct qc_plan_case {
    const struct qc_shape *shapes; /* [inputs], fixed */
    const char *name;              /* for messages */
};

struct qc_plan_options {
    /* Values of the graph to hand to the observe callback; kept apart by fusion. Affine ones with bound parameters are
       seen centred; constants are seen at the begin of each run. */
    size_t observed_count;
    const qc_id *observed;
    struct qc_accumulator accumulator; /* of quantized multiply-accumulate ops; 0 bits: int32, see there */
    enum qc_contract rounding; /* other contracts than "onnx" work on stored integers: a simulated graph is run as the
                                  produced one */
    enum qc_lowering lowering; /* of quantized multiply-accumulate ops; the results do not depend on it */
    const enum qc_layout *input_layouts; /* [inputs of the graph]: order of each in memory (rank 3 to 5 where it is not
                                            row-major); NULL: all row-major */
    const struct qc_body_watch *watch;   /* NULL: nobody; as long as the plan lives */
    const struct qc_plan_case *largest;  /* where shapes of inputs are free: those that take most memory */
    size_t largest_count;
    unsigned depth;                 /* plans that run before this one, where shapes depend on data; 0 */
    const struct qc_budget *budget; /* what the plan and its runs may take; NULL: as the graph says */
    enum qc_isa
        isa; /* bound on the instructions of integer kernels (simq/core/isa.h); the results do not depend on it */
};

/* shapes[k]: fixed shape of graph input k. Shape arithmetic and constants are evaluated here. The plan keeps references
   to the graph's constants, and takes the parameters of its qparams as they are now. Errors: all ops that cannot be
   run, by name (QC_UNSUPPORTED), also for want of an accumulator of so many bits; inconsistent shapes. With
   options->largest a shape may have free dims (QC_FREE): they are said before each run (qc_runner_shapes), and a plan
   for each set of shapes is made when it is first met (simq/plan/plan_split.c). Not with accumulators of less than 32
   bits, whose overflows are not counted then (QC_UNSUPPORTED). Where shapes depend on data the plan ends; what follows
   is planned when they are known, for each set of shapes once (simq/plan/variants.h). Errors of that come from
   qc_runner_run. */
bool qc_plan_new(struct qc_plan **out, const struct qc_graph *g, const struct qc_shape *shapes,
                 const struct qc_plan_options *options, struct qc_status *st);
void qc_plan_free(struct qc_plan *p);

/* Bytes (with free shapes: at most, for options->largest): of a runner, and of the plan itself (packed weights and what
   is computed from constants, without the graph's own tensors). */
size_t qc_plan_runner_bytes(const struct qc_plan *p);
size_t qc_plan_constant_bytes(const struct qc_plan *p);
/* The part of a runner's bytes that its values take, in one buffer. */
size_t qc_plan_buffer_bytes(const struct qc_plan *p);

/* Are all shapes known from those of the inputs? Else what follows those that depend on data is planned as it is run.
 */
bool qc_plan_shapes_known(const struct qc_plan *p);

/* Elements of observed value `index` in one run, at most; 0 where that depends on data. */
size_t qc_plan_observed_elements(const struct qc_plan *p, size_t index);

/* One line per step (op, node name, shapes, layout, what was fused): for --dump plan. Owned by the caller (free). */
char *qc_plan_print(const struct qc_plan *p, struct qc_status *st);

bool qc_runner_new(struct qc_runner **out, const struct qc_plan *p, struct qc_status *st);
/* The same with its values in a buffer of at least qc_plan_buffer_bytes, aligned to 64 bytes, which is to outlive it
   and may serve others while it does not run: what it has made is there until one of them is filled. */
bool qc_runner_new_in(struct qc_runner **out, const struct qc_plan *p, char *buffer, struct qc_status *st);
void qc_runner_free(struct qc_runner *r);

/* Shapes of the inputs in the next runs: for plans with free shapes, before qc_runner_input; else nothing is to be
   done. Errors: of qc_plan_new. */
bool qc_runner_shapes(struct qc_runner *r, const struct qc_shape *shapes, struct qc_status *st);

/* Buffer of graph input k: row-major unless input_layouts says otherwise, dtype of the graph input. Fill before each
   run: behind its last use the memory serves other values. */
struct qc_view qc_runner_input(struct qc_runner *r, size_t k);

/* Called as soon as observed value `index` is complete, while it is still in cache. The view is dense unless it shares
   memory with another value (slices); its order in memory is whatever the plan chose. The same value is reported once
   per run. */
typedef bool qc_observe_fn(void *user, size_t index, const struct qc_view *v, struct qc_status *st);

/* observe may be NULL. Errors name the node. */
bool qc_runner_run(struct qc_runner *r, qc_observe_fn *observe, void *user, struct qc_status *st);

/* From now on each run adds to seconds[i] what step i of the plan took; NULL: no longer. For measurements. */
void qc_runner_time_steps(struct qc_runner *r, double *seconds);

/* Multiply-accumulate steps whose accumulator can leave the range it was given (none with 32 bits): how many there are,
   the node of the graph each belongs to, and what was seen of its sums over all runs so far (borrowed). */
size_t qc_plan_overflow_count(const struct qc_plan *p);
qc_id qc_plan_overflow_node(const struct qc_plan *p, size_t k);
size_t qc_plan_overflow_channels(const struct qc_plan *p, size_t k);
const struct qc_sums *qc_runner_sums(const struct qc_runner *r, size_t k);

/* Graph output k after a run: row-major, valid until the next run, in the type that the graph declares. Before it, one
   whose shape depends on data has none (rank -1). Affine outputs
   are the stored integers (zero point included). */
struct qc_view qc_runner_output(struct qc_runner *r, size_t k);

/* Evaluates one node whose inputs are all constants (for constant folding by passes): outputs[i] are new tensors.
   Quantize with bound qparams gives the stored integers (not centred) in their type. */
bool qc_evaluate(struct qc_tensor **outputs, const struct qc_graph *g, qc_id node, struct qc_status *st);
