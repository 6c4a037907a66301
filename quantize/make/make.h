// SPDX-License-Identifier: Apache-2.0
/* Makes a network: the passes from "equalize" to "export" that need no decision, in three parts. What a scheme leaves
   open is decided between them (quantize/search/decide.c). After every pass the graph is verified, heavy operators are
   counted, and the listener is called. */
#pragma once

#include "graph/core/graph.h"
#include "quantize/make/evidence.h"
#include "quantize/make/network.h"
#include "rewrite/language/target.h"

/* Passes "equalize" to "collect": *out is simulated and unbound, and the evidence has what it needs. The scheme is
   copied; its arrays and all other arguments are borrowed. *out is set also on failure, and freed by the caller.
   Fails with QC_UNSUPPORTED if samples are needed again, but statistics are given or several processes share the work.
 */
bool qc_network_observe(struct qc_network **out, const struct qc_setup *setup, const struct qc_scheme *scheme,
                        struct qc_evidence *evidence, const struct qc_listener *listener, struct qc_status *st);

/* Repeats "functions" to "simulate", after n->form has changed. */
bool qc_network_simulate(struct qc_network *n, struct qc_status *st);
/* Collects the statistics if they are missing. */
bool qc_network_collect(struct qc_network *n, struct qc_status *st);

/* Passes "bind" and "round". */
bool qc_network_bind(struct qc_network *n, struct qc_status *st);
/* Rounds the weights of n->simulated, which is bound, to nearest. */
bool qc_network_store_nearest(struct qc_graph **out, const struct qc_network *n, struct qc_status *st);

/* Adapts tables and biases to the target, warns of layers that could not be rounded in full, and drops second moments
   that nothing needs again. Call when weights and biases are final. */
bool qc_network_settle(struct qc_network *n, struct qc_status *st);
/* Passes "bodies" to "export", with the quantized bodies of the evidence. */
bool qc_network_finish(struct qc_network *n, struct qc_status *st);

/* Makes the produced graph of another bound simulated graph of the network, and its lowered graph in the first format,
   without --io-type. *produced has the outputs and float types of the model. On failure both may be set; the caller
   frees them. */
bool qc_network_lower_other(struct qc_graph **produced, struct qc_graph **lowered, const struct qc_network *net,
                            const struct qc_graph *bound, struct qc_status *st);
/* Makes the produced graph of a bound simulated graph, as passes "expand" to "realise" do. */
bool qc_network_realise(struct qc_graph **out, const struct qc_network *n, const struct qc_graph *bound,
                        struct qc_status *st);

/* Makes a finished network of a scheme (quantize/search/decide.c). */
typedef bool qc_network_maker(struct qc_network **out, const struct qc_setup *setup, const struct qc_scheme *scheme,
                              struct qc_evidence *evidence, const struct qc_listener *listener, struct qc_status *st);

/* Verifies the result of a pass and calls the listener. from: the graph that it was made from; to: NULL, or the result.
 */
bool qc_network_passed(const struct qc_network *n, enum qc_pass pass, const struct qc_graph *from,
                       const struct qc_graph *to, struct qc_status *st);

/* Returns the name of the statistics or of the data, for messages; NULL without either. */
const char *qc_network_source(const struct qc_network *n);

/* True if ranges of the float network are needed. With --propagate quantizers are calibrated on the quantized network,
   but --method auto and second moments need the float one: then the network without --propagate is made too. */
bool qc_network_wants_ranges(const struct qc_network *n);

/* Numbers of the quantizers with parameters of the model, and of all. */
struct qc_kept {
    size_t given, quantizers;
};
struct qc_kept qc_kept_of(const struct qc_graph *simulated);

/* The network without --propagate, for comparison. */
struct qc_plain {
    struct qc_calibration *calibration;
    struct qc_weight_rounding *weight_rounding;
    struct qc_graph *simulated, *rounded; /* rounded: NULL with weights to nearest */
};
/* Exchanges the results of n with those in n->unpropagated. */
void qc_network_exchange_plain(struct qc_network *n);

/* Adapts chosen parameters to the limits of a target (rewrite/language/target.h). */

/* Sets the parameters that the target fixes for results of an operator, and the type of symmetric data with negative
   values, and the scales that kernels of ONNX Runtime accept if it runs the file. g: simulated, bound. */
bool qc_keep_target_limits(struct qc_graph *g, const struct qc_target *t, struct qc_status *st);

/* Rounds the biases of accumulators to 8 bits for a target with `bias int8` (qc_short_bias_shift). *out: a copy of g
   with these biases; NULL without such a target or bias. Fails if memory is out. */
bool qc_shorten_biases(struct qc_graph **out, const struct qc_graph *g, const struct qc_target *t,
                       struct qc_status *st);

/* Parameters that kernels of ONNX Runtime reject. QLinearGlobalAveragePool ends a run unless f(sx / f(sy*n)) is in
   [2^-32, 2^8), where n is the number of elements of a plane (onnxruntime/core/mlas/lib/qlgavgpool.cpp). A
   GlobalAveragePool between DequantizeLinear and QuantizeLinear is fused into this operator, too. */

/* Fails (QC_UNSUPPORTED, names the node) if a produced graph has parameters that the kernels reject. */
bool qc_check_runtime_limits(const struct qc_graph *produced, struct qc_status *st);

/* Statistics for a pipeline: collects them, with --checkpoint if given, or loads and checks given ones. */

/* The values to collect statistics of. */
struct qc_collecting {
    const struct qc_options *options;
    const struct qc_settings *settings;
    const struct qc_graph *graph;
    struct qc_named_values values;
    const int *channel_axes;                      /* as for qc_collect */
    const struct qc_calibration_options *chooser; /* collects the needs of its activation observer; NULL: histograms */
    uint64_t *keys;                               /* NULL, or [units of the data]: set to the keys of the units */
    struct qc_known_outputs *known;               /* NULL, or filled with outputs of the float network */
    bool again; /* --checkpoint has the statistics of an earlier collection: leave it alone */
};

/* Runs qc_collect on the chosen samples. With --checkpoint FILE samples in FILE are not run again, and FILE is written
   every 30 seconds, at an interrupt and at the end. In a team (quantize/interface/inputs.h) rank 0 gets the merged
   statistics, and s->data selects all samples of the job again; the other ranks get false without an error.
   Errors: as qc_collect; a checkpoint that is damaged, of another run, or no checkpoint. */
bool qc_collecting_run(struct qc_collection **out, struct qc_collect_cost *cost, const struct qc_setup *s,
                       const struct qc_collecting *what, struct qc_arena *a, struct qc_status *st);

/* With --checkpoint: opens the file "CHECKPOINT.layers" of the layers that this job rounded before it was interrupted.
 */
bool qc_collecting_layers(struct qc_rounded_file **out, const struct qc_network *net, struct qc_status *st);

/* Removes the files of --checkpoint, if given. */
void qc_collecting_end(const struct qc_options *o);

/* --memory-limit: plans the memory of the stages after "collect" before the data run. */

/* net: simulated, unbound. Runs the stages to come with placeholder scales, which give the same graphs, and plans their
   runs. Sets later_bytes of the evidence to the memory that they need with one worker, in addition to the
   memory in use and the statistics, which qc_collect adds. If nothing is collected, the sum is checked here. Does
   nothing without --memory-limit. Errors: those of the stages; QC_MACHINE if --memory-limit is too low. */
bool qc_memory_plan(struct qc_network *net, struct qc_status *st);

/* True if the limit has room for the stages that the plan does not count: scaling channels, refining weights, advice.
   They hold further copies of weights and second moments. Depends on the model, the limit and the options alone, not on
   the memory in use. True without --memory-limit. */
bool qc_memory_ample(const struct qc_network *net);
