// SPDX-License-Identifier: Apache-2.0
/* Inside rewrite/: what the parts of the parser of rule files share. */
#pragma once

#include "rewrite/language/lexer.h"
#include "rewrite/language/rule.h"

struct qc_rule_parser {
    struct qc_lexer x;
    struct qc_rules *rules;
    struct qc_rule *rule; /* the one being read */
    bool in_template, in_guard;
    unsigned depth;
};

/* A match or, with in_template, a template. NULL and a status on failure. */
struct qc_expr *qc_parse_expr(struct qc_rule_parser *p, struct qc_status *st);
/* Most ops that an expression of a match can take in. */
unsigned qc_expr_size(const struct qc_expr *e);
/* Can it be nothing but an op? What a match must begin with. */
bool qc_expr_begins_with_op(const struct qc_expr *e);

/* GUARD { "and" GUARD }, at most `most`. */
bool qc_parse_guards(struct qc_guard *guards, unsigned *count, unsigned most, struct qc_rule_parser *p,
                     struct qc_status *st);

/* Reads a name and gives its slot, new when it was not seen yet. Guards and templates take their names from the match;
   only a pattern's template brings in qparams, which are those of quantizers. */
bool qc_parse_slot(unsigned *slot, struct qc_rule_parser *p, const char *what, bool qparams, struct qc_status *st);

/* scheme activation|weight WORD ...: into p->rule. */
bool qc_parse_scheme(struct qc_rule_parser *p, struct qc_status *st);
/* keep, bound, join or table */
bool qc_parse_allow_kind(enum qc_allow_kind *out, struct qc_rule_parser *p, struct qc_status *st);
/* The statements `target` and `drop`, behind their first words (rewrite/language/target.h). */
bool qc_parse_target(struct qc_rule_parser *p, struct qc_status *st);
bool qc_parse_drop(struct qc_rule_parser *p, struct qc_status *st);
