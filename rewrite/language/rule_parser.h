// SPDX-License-Identifier: Apache-2.0
/* Inside rewrite/: shared declarations of the parser of rule files. */
#pragma once

#include "rewrite/language/lexer.h"
#include "rewrite/language/rule.h"

struct qc_rule_parser {
    struct qc_lexer x;
    struct qc_rules *rules;
    struct qc_rule *rule; /* the current rule */
    bool in_template, in_guard;
    unsigned depth;
};

/* Parses a match or, with in_template, a template. Returns NULL and sets a status on failure. */
struct qc_expr *qc_parse_expr(struct qc_rule_parser *p, struct qc_status *st);
/* Returns the largest number of ops in a match of the expression. */
unsigned qc_expr_size(const struct qc_expr *e);
/* Returns true if the expression can only be an op, as a match must begin with one. */
bool qc_expr_begins_with_op(const struct qc_expr *e);

/* GUARD { "and" GUARD }, at most `most` guards. */
bool qc_parse_guards(struct qc_guard *guards, unsigned *count, unsigned most, struct qc_rule_parser *p,
                     struct qc_status *st);

/* Parses scheme activation|weight WORD ... into p->rule. */
bool qc_parse_scheme(struct qc_rule_parser *p, struct qc_status *st);
/* keep, bound, join or table */
bool qc_parse_allow_kind(enum qc_allow_kind *out, struct qc_rule_parser *p, struct qc_status *st);
/* Parse the statements `target` and `drop` after their first words (rewrite/language/target.h). */
bool qc_parse_target(struct qc_rule_parser *p, struct qc_status *st);
bool qc_parse_drop(struct qc_rule_parser *p, struct qc_status *st);
