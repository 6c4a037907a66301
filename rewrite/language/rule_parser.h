// SPDX-License-Identifier: Apache-2.0
/* Inside rewrite/: shared declarations of the parser of rule files. Functions that parse record a failure in x.st and
   go on at the end of the text (rewrite/language/lexer.h); their callers ask once. */
#pragma once

#include "rewrite/language/expansion_parts.h"
#include "rewrite/language/lexer.h"
#include "rewrite/language/rule.h"

/* Where an expression stands. */
enum qc_place { QC_PLACE_MATCH, QC_PLACE_GUARD, QC_PLACE_TEMPLATE, QC_PLACE_FUNCTION };

struct qc_rule_parser {
    struct qc_lexer x;
    struct qc_rules *rules;
    enum qc_place place;
    struct qc_rule *rule; /* the current rule */
    unsigned slot_count;  /* names of the current function */
    struct qc_fslot slots[QC_EXPANSION_SLOTS];
    unsigned depth, signs;
    struct qc_expr spare; /* in place of an expression if memory is out */
};

/* Parses an expression of p->place. Never NULL. */
struct qc_expr *qc_parse_expr(struct qc_rule_parser *p);
/* [ "when" EXPR ], or NULL. */
struct qc_expr *qc_parse_when(struct qc_rule_parser *p);
/* NAME, or DOMAIN::NAME with dots in the domain. */
const char *qc_parse_operator(struct qc_rule_parser *p);
/* Reads the name of an op or a set and appends its ops to an array of the arena. */
void qc_parse_ops(enum qc_op **ops, unsigned *count, struct qc_rule_parser *p, const char *expected);
/* Returns the slot of a name of the current function and marks it as read, or slot_count. */
unsigned qc_parse_slot_of(struct qc_rule_parser *p, const char *name);
/* Returns the largest number of ops in a match of the expression. */
unsigned qc_expr_size(const struct qc_expr *e);
/* Returns true if the expression can only be an op, as a match must begin with one. */
bool qc_expr_begins_with_op(const struct qc_expr *e);

/* Parses a function after the word "function". */
void qc_parse_function(struct qc_rule_parser *p);
/* Parses scheme activation|weight WORD ... into p->rule. */
void qc_parse_scheme(struct qc_rule_parser *p);
/* keep, bound, join or table */
enum qc_allow_kind qc_parse_allow_kind(struct qc_rule_parser *p);
/* Parse the statements `target` and `drop` after their first words (rewrite/language/target.h). */
void qc_parse_target(struct qc_rule_parser *p);
void qc_parse_drop(struct qc_rule_parser *p);
