// SPDX-License-Identifier: Apache-2.0
/* The interpreter: a graph bound to fixed input shapes, compiled to a list of steps with planned memory. Workers
   share a plan and do not change it; a runner is the memory of one worker. Kernels are single threaded, so results
   do not depend on the number of workers.

   A simulated graph holds affine values CENTRED: f32 numbers q - zero point. A produced graph (integers in its
   types) holds them in its own types: stored integers of 4 to 16 bits, int32 accumulators. Both compute the same
   numbers, bit for bit. A simulated graph also uses the integer kernel if an accumulator may reach 2^24, which
   float32 does not hold exactly, and for products with VNNI, which multiply bytes faster than float32. Integers meet
   memory only at inputs and outputs.

   Qparams that are unbound or off act as scale 1, zero point 0, no rounding. If all of them are unbound, the plan
   computes the real network, without any quantize or dequantize step. Product qparams with one such factor have the
   scale of the other and are not rounded.

   The results of a multiply-accumulate op are exact if every partial sum stays below 2^24 in magnitude. Under the
   rounding contract "onnx" they then equal those of ONNX Runtime's integer kernels, bit for bit (docs/numerics.md).
   NaN is quantized to the lowest level, as in ONNX Runtime. */
#pragma once

#include "graph/core/graph.h"
#include "simq/core/kernel.h"
#include "simq/core/view.h"

struct qc_plan;
struct qc_runner;

/* Type of the operands of integer products: as given (8 bits if both are), or always 16 bits, for targets that
   multiply int16 faster. Sums are int32 in both cases. */
enum qc_lowering { QC_LOWERING_INT8, QC_LOWERING_INT16 };

/* Called before each run of a body of a node of the graph (not of bodies within bodies), with the body as it is in
   the graph and its inputs. Called from any thread. */
struct qc_body_watch {
    bool (*fn)(void *user, const struct qc_graph *body, size_t count, const struct qc_view *in, struct qc_status *st);
    void *user;
};

/* Shapes of all inputs of some run. */
struct qc_plan_case {
    const struct qc_shape *shapes; /* [inputs], fixed */
    const char *name;              /* for messages */
};

/* Number of runs from which packing large weights pays. */
enum { QC_PLAN_MANY_RUNS = 8 };

struct qc_plan_options {
    /* Values of the graph to pass to the observe callback; fusion keeps them apart. Affine values with bound
       parameters are observed centred. Constants are observed at the start of each run. */
    size_t observed_count;
    const qc_id *observed;
    struct qc_accumulator accumulator; /* of quantized multiply-accumulate ops; 0 bits: int32, see there */
    enum qc_contract rounding; /* contracts other than "onnx" run a simulated graph as the produced one, on integers */
    enum qc_lowering lowering; /* of quantized multiply-accumulate ops; the results do not depend on it */
    const enum qc_layout *input_layouts; /* [inputs of the graph]: memory order of each (rank 3 to 5 unless row-major);
                                            NULL: all row-major */
    const struct qc_body_watch *watch;   /* NULL: none; must outlive the plan */
    const struct qc_plan_case *largest;  /* for free input shapes: the cases that take most memory */
    size_t largest_count;
    unsigned depth; /* number of plans that run before this one because shapes depend on data; 0 for callers */
    const struct qc_budget *budget; /* memory budget of the plan and its runs; NULL: that of the graph */
    bool many_runs;  /* at least QC_PLAN_MANY_RUNS follow: large models pack large weights in temporary files */
    enum qc_isa isa; /* upper bound on the instruction set of integer kernels (simq/core/kernel.h); the results do not
                        depend on it */
};

/* Makes a plan. shapes[k]: fixed shape of graph input k. Shape arithmetic and constants are evaluated here. The plan
   keeps references to the graph's constants and copies the current parameters of its qparams. Fails with a list of
   all ops that cannot be run (QC_UNSUPPORTED), also for lack of an accumulator of the requested width; fails if
   shapes are inconsistent.
   With options->largest, a shape may have free dims (QC_FREE). The caller sets them before each run
   (qc_runner_shapes); a plan for each set of shapes is made at its first use (simq/plan/plan_split.c). Fails with
   accumulators of fewer than 32 bits, whose overflows would not be counted (QC_UNSUPPORTED).
   The plan ends where shapes depend on data. The remaining graph is planned during the run, once for each set of
   shapes (simq/plan/plan.h); qc_runner_run reports its errors. */
bool qc_plan_new(struct qc_plan **out, const struct qc_graph *g, const struct qc_shape *shapes,
                 const struct qc_plan_options *options, struct qc_status *st);
void qc_plan_free(struct qc_plan *p);

/* Bytes of a runner, and of the plan itself: packed weights and values computed from constants, without the graph's
   own tensors. With free shapes: the maximum over options->largest. */
size_t qc_plan_runner_bytes(const struct qc_plan *p);
size_t qc_plan_constant_bytes(const struct qc_plan *p);
/* Bytes of a runner's values, which share one buffer. */
size_t qc_plan_buffer_bytes(const struct qc_plan *p);

/* Returns whether the input shapes determine all shapes. If not, the graph after data-dependent shapes is planned
   at run time. */
bool qc_plan_shapes_known(const struct qc_plan *p);

/* Returns the maximum number of elements of observed value `index` in one run; 0 if it depends on data. */
size_t qc_plan_observed_elements(const struct qc_plan *p, size_t index);

bool qc_runner_new(struct qc_runner **out, const struct qc_plan *p, struct qc_status *st);
/* The same with its values in `buffer`: at least qc_plan_buffer_bytes, aligned to 64 bytes. The buffer must outlive
   the runner. Runners that do not run at the same time may share it; results stay valid until an input of another
   one is filled. */
bool qc_runner_new_in(struct qc_runner **out, const struct qc_plan *p, char *buffer, struct qc_status *st);
void qc_runner_free(struct qc_runner *r);

/* Sets the input shapes of the next runs. With free shapes, call it before qc_runner_input; otherwise it does
   nothing. Fails as qc_plan_new does. */
bool qc_runner_shapes(struct qc_runner *r, const struct qc_shape *shapes, struct qc_status *st);

/* Returns the buffer of graph input k, in the dtype of the graph input; row-major unless input_layouts says
   otherwise. Fill it before each run: the plan reuses its memory after the last use. */
struct qc_view qc_runner_input(struct qc_runner *r, size_t k);

/* Called as soon as observed value `index` is complete, while it is still in cache, once per run. The view is dense
   unless it shares memory with another value (slices); the plan chooses its memory order. */
typedef bool qc_observe_fn(void *user, size_t index, const struct qc_view *v, struct qc_status *st);

/* observe may be NULL. Errors name the node. */
bool qc_runner_run(struct qc_runner *r, qc_observe_fn *observe, void *user, struct qc_status *st);
/* The same without the last products, softmaxes and functions that only outputs need; outputs are undefined. */
bool qc_runner_observe(struct qc_runner *r, qc_observe_fn *observe, void *user, struct qc_status *st);

/* Adds the processor time of step i of each following run to seconds[i]; NULL turns it off. For measurements. */
void qc_runner_time_steps(struct qc_runner *r, double *seconds);

/* Multiply-accumulate steps whose accumulator can overflow (none with 32 bits): their number, the graph node of
   each, the channels of its result, and the statistics of its sums over all runs so far (borrowed). */
size_t qc_plan_overflow_count(const struct qc_plan *p);
qc_id qc_plan_overflow_node(const struct qc_plan *p, size_t k);
size_t qc_plan_overflow_channels(const struct qc_plan *p, size_t k);
const struct qc_sums *qc_runner_sums(const struct qc_runner *r, size_t k);

/* Returns graph output k after a run: row-major, in the type that the graph declares, valid until the next run.
   Affine outputs are stored integers (zero point included). Before the first run, an output whose shape depends on
   data is absent (rank -1). */
struct qc_view qc_runner_output(struct qc_runner *r, size_t k);

/* Evaluates one node whose inputs are all constants, for constant folding. outputs[i] are new tensors. Quantize with
   bound qparams gives the stored integers (not centred) in their type. */
bool qc_evaluate(struct qc_tensor **outputs, const struct qc_graph *g, qc_id node, struct qc_status *st);

/* Plans of one graph for varying input shapes: a plan for each set of shapes is made at its first use and kept. It
   runs bodies of nodes, graphs after data-dependent shapes, and samples of different sizes. Workers share the
   plans; each worker has runners of its own. */

struct qc_variants;
struct qc_variant_runners;

/* References g and copies the observed values of the options. */
bool qc_variants_new(struct qc_variants **out, const struct qc_graph *g, const struct qc_plan_options *options,
                     struct qc_status *st);
void qc_variants_free(struct qc_variants *v); /* NULL-safe; free all its runners first */

/* Returns the plan for these shapes, made if necessary; valid until other shapes are requested. */
bool qc_variants_plan(const struct qc_plan **out, struct qc_variants *v, const struct qc_shape *shapes,
                      struct qc_status *st);
/* Keeps one runner per worker and at most `idle` bytes of unused plans. By default a fixed number of each is kept. */
void qc_variants_bound(struct qc_variants *v, size_t idle);

/* The runners of one worker. */
bool qc_variant_runners_new(struct qc_variant_runners **out, const struct qc_variants *v, struct qc_status *st);
void qc_variant_runners_free(struct qc_variant_runners *r);

/* Returns the runner for these shapes of the graph's inputs; valid until the next call with other shapes. Frees the
   runners of other shapes if there is no memory for one more. Fails as qc_plan_new does, and with QC_MACHINE if the
   runner does not fit in the budget. */
bool qc_variant_runner(struct qc_runner **out, struct qc_variant_runners *r, const struct qc_shape *shapes,
                       struct qc_status *st);
