// SPDX-License-Identifier: Apache-2.0
/* Makes a network: the passes from "equalize" to "export" that need no decision, in three parts. What a scheme leaves
   open is decided between them (quantize/search/decide.c). After every pass the graph is verified, heavy operators are
   counted, and the listener is called. */
#pragma once

#include "quantize/make/evidence.h"
#include "quantize/make/network.h"

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
/* Makes another listener receive the warnings of a network; those from number `from` on are its own. */
void qc_network_report_to(struct qc_network *n, const struct qc_listener *l, size_t from);
/* Calls a listener for each pass of a finished network. */
bool qc_network_tell(const struct qc_network *n, const struct qc_listener *l, struct qc_status *st);

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
void qc_plain_free(struct qc_plain *plain); /* NULL-safe */
