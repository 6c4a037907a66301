// SPDX-License-Identifier: Apache-2.0
/* Matches a rule at a value, evaluates its guards and instantiates its template. */
#pragma once

#include "graph/core/rebuild.h"
#include "rewrite/language/rule.h"

struct qc_match {
    const struct qc_rule *rule;
    qc_id root; /* value */
    qc_id values[QC_RULE_SLOTS], qparams_of[QC_RULE_QPARAMS];
    unsigned node_count;
    qc_id nodes[QC_ISLAND_OPS]; /* matched nodes, each once, the root's first */
};

/* Returns the matched node of this op, or of one of the ops of e; NULL if there is none. */
const struct qc_node *qc_match_node(const struct qc_match *m, const struct qc_graph *g, enum qc_op op);
const struct qc_node *qc_match_node_of(const struct qc_match *m, const struct qc_graph *g, const struct qc_expr *e);

/* Returns the qparams of an expression that the match did not bind (patterns). value: the new value to be quantized (0
   for the result of an op); capture: the old value behind it (0 if it is not a plain capture). */
typedef qc_id qc_qparams_fn(void *user, const struct qc_match *m, const struct qc_qparams_expr *e, qc_id value,
                            qc_id capture, struct qc_status *st);

struct qc_build {
    struct qc_rebuild *rebuild;
    const struct qc_match *match;
    qc_qparams_fn *qparams; /* NULL: only qparams that the match bound */
    /* Returns the axis of per-channel parameters of an activation: of the captured old value, or of the root (capture
       0). NULL: the axis of the matched root. */
    int (*axis)(void *user, const struct qc_match *m, qc_id capture);
    int (*weight_axis)(void *user, qc_id capture); /* of a weight in blocks; NULL: no weight has blocks */
    void *user;
    bool weights_only; /* Activations stay real: their quantize and dequantize are left out. */
    bool real_product; /* Products multiply real numbers, quantized and dequantized before; a bias stays real. */
};

/* Instantiates the template in rebuild->to. Names of nodes and of the root are kept. Returns the new value, or 0 on
   failure. */
qc_id qc_build_template(const struct qc_build *b, struct qc_status *st);

/* Returns the value of the match that an expression of a template quantizes - q(x : X), q(rows(w) : W per 0) -, or
   0. */
qc_id qc_template_quantizes(const struct qc_match *m, const struct qc_expr *e);

/* Returns the axis of the per-channel parameters of a constant that a quantize of the template takes into qparams.
   taker: the op of the template that reads it, whose output channels `per out` means (NULL: none). from: the matched
   graph. */
int qc_template_axis(const struct qc_match *m, const struct qc_graph *from, const struct qc_qparams_expr *e,
                     const struct qc_expr *taker);

/* Returns true if the guard of an entry of the allow-list (NULL: none) holds for the node. */
bool qc_guard_fits_node(const struct qc_expr *when, const struct qc_graph *g, const struct qc_node *n);
