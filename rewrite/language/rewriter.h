// SPDX-License-Identifier: Apache-2.0
/* Finds matches of rules that do not overlap, and rewrites a graph. */
#pragma once

#include "rewrite/language/match.h"

/* Returns false to refuse a match that the rule itself accepts. */
typedef bool qc_accept_fn(void *user, const struct qc_match *m);

struct qc_matches {
    struct qc_match **at; /* [node_count + 1]: the match whose root value this node makes, or NULL */
    bool *live;           /* [node_count + 1]: the outputs need the node; false for inner nodes of matches too */
    size_t count;
};

/* Finds matches of all rules of a kind that do not overlap, larger ones first, from the outputs down. Memory comes from
   a. accept may be NULL. */
bool qc_matches_find(struct qc_matches *out, const struct qc_graph *g, const struct qc_rules *rules,
                     enum qc_rule_kind kind, qc_accept_fn *accept, void *user, struct qc_arena *a,
                     struct qc_status *st);

/* Detects rules that never end: the number of nodes does not decrease in many rounds, or grows by much. */
struct qc_endless {
    size_t least, most; /* nodes */
    unsigned rounds;    /* since the least number of nodes */
};
void qc_endless_begin(struct qc_endless *e, const struct qc_graph *g);
/* Called after each round with the current matches m. Fails (QC_BAD_INPUT, naming a matching rule) if no end is in
   sight. */
bool qc_endless_check(struct qc_endless *e, const struct qc_matches *m, const struct qc_graph *g, struct qc_status *st);

/* Applies the rewrite rules until none matches. *applied (may be NULL) counts the matches. Fails (QC_BAD_INPUT, naming
   the rule) if the rules never end. */
bool qc_rewrite(struct qc_graph **out, size_t *applied, const struct qc_graph *g, const struct qc_rules *rules,
                struct qc_status *st);
