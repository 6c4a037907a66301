// SPDX-License-Identifier: Apache-2.0
/* Finding where rules match without overlap, and rewriting a graph. */
#pragma once

#include "rewrite/language/match.h"

/* May refuse a match that the rule itself accepts. */
typedef bool qc_accept_fn(void *user, const struct qc_match *m);

struct qc_matches {
    struct qc_match **at; /* [node_count + 1]: the match whose root this node makes, or NULL */
    bool *live;           /* [node_count + 1]: needed by the outputs; false for the inner nodes of matches too */
    size_t count;
};

/* Matches of all rules of a kind, larger ones first, from the outputs down; they do not overlap. Memory from a. accept
 * may be NULL. */
bool qc_matches_find(struct qc_matches *out, const struct qc_graph *g, const struct qc_rules *rules,
                     enum qc_rule_kind kind, qc_accept_fn *accept, void *user, struct qc_arena *a,
                     struct qc_status *st);

/* Tells rules that never end from those that take long: they neither come to fewer nodes in many rounds, nor may they
 * make many more. */
struct qc_endless {
    size_t least, most; /* nodes */
    unsigned rounds;    /* since there were least */
};
void qc_endless_begin(struct qc_endless *e, const struct qc_graph *g);
/* After each round: m is what matches now. QC_BAD_INPUT, naming a rule that does, when there is no end in sight. */
bool qc_endless_check(struct qc_endless *e, const struct qc_matches *m, const struct qc_graph *g, struct qc_status *st);

/* Applies the rewrite rules until none matches; *applied (may be NULL) counts the matches. A set of rules that never
 * ends is a QC_BAD_INPUT which names the rule. */
bool qc_rewrite(struct qc_graph **out, size_t *applied, const struct qc_graph *g, const struct qc_rules *rules,
                struct qc_status *st);
