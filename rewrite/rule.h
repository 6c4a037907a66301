// SPDX-License-Identifier: Apache-2.0
/* Rules: the parsed form of the files in rewrite/rules/ and of --rules FILE.

   allow keep|bound|join OP ...        ops that quantize is pushed up, and dequantize down, through
   rule NAME                           rewrites a graph
     match EXPR  [when GUARD and ...]
     give  EXPR
   pattern NAME                        finds what to quantize; the template is instantiated as simulated and as produced graph
     match  EXPR  [when GUARD and ...]
     affine EXPR
     [joins]                           only where the data inputs come from quantized ops
     [result quantized]                the result is stored in the activation type even if nothing quantized uses it

   EXPR     x  const w  const b?  Op(EXPR, ...)  q(EXPR : SPACE)  dq(EXPR : SPACE)  requantize(EXPR : SPACE)  x : SPACE
            in templates also: 0.5  [1,-1]  attribute(Op.name = default)  (b else EXPR)  vector(EXPR)  column(EXPR, w)
   SPACE    X  X*W  W per 0  W per out     (out: the output-channel axis of the op that takes the weight)
   GUARD    f(x, ...)  f(x) == 4  attribute(Op.name = default) != 0

   A repeated name is the same value; Add, Mul, Max, Min match both ways; an op inside a match must have no other user;
   a multiply-accumulate op is never matched twice. Longest match first. Names of values begin with a lower-case letter,
   names of spaces with an upper-case one. */
#ifndef QC_REWRITE_RULE_H
#define QC_REWRITE_RULE_H

#include "graph/graph.h"

enum { QC_RULE_ARGS = 8, QC_RULE_SLOTS = 16, QC_RULE_SPACES = 8, QC_RULE_GUARDS = 8, QC_RULE_OPS = 8 };

enum qc_expr_kind {
    QC_EXPR_CAPTURE,   /* x, const x, x? */
    QC_EXPR_OP,        /* Op(...), q, dq, requantize */
    QC_EXPR_NUMBER,    /* 0.5: an f32 scalar constant */
    QC_EXPR_INTS,      /* [1,-1]: an i64 vector constant */
    QC_EXPR_ATTRIBUTE, /* attribute(Op.name = default): an f32 scalar constant */
    QC_EXPR_ELSE,      /* (b else e): e where the optional b is absent */
    QC_EXPR_VECTOR,    /* vector(e): the constant with one dimension */
    QC_EXPR_COLUMN     /* column(e, w): the vector e along axis 0 of a tensor of w's rank */
};

enum qc_axis_kind { QC_AXIS_TENSOR, QC_AXIS_NUMBER, QC_AXIS_OUT };

struct qc_space_expr {
    bool given, product; /* product: first * second */
    unsigned first, second; /* slots of space names */
    enum qc_axis_kind axis_kind;
    int axis;
};

struct qc_expr {
    enum qc_expr_kind kind;
    enum qc_op op;
    unsigned slot;           /* of a capture */
    bool constant, optional; /* of a capture in a match */
    struct qc_space_expr space;
    unsigned arg_count;
    struct qc_expr *args[QC_RULE_ARGS];
    float number;            /* of a number, or the default of an attribute */
    const char *attribute;
    unsigned int_count;
    int64_t ints[QC_RANK_MAX];
    unsigned line, column;
};

enum qc_compare { QC_COMPARE_TRUE, QC_COMPARE_EQ, QC_COMPARE_NE, QC_COMPARE_LT, QC_COMPARE_LE, QC_COMPARE_GT, QC_COMPARE_GE };

struct qc_guard_info; /* rewrite/guard.c */

struct qc_guard_term {
    const struct qc_guard_info *function; /* NULL: a number or an attribute */
    enum qc_op op;
    const char *attribute;
    double number; /* or the default of the attribute */
    unsigned arg_count, args[4]; /* slots; spaces where the function wants a space */
};

struct qc_guard {
    struct qc_guard_term left, right;
    enum qc_compare compare;
};

enum qc_rule_kind { QC_RULE_REWRITE, QC_RULE_PATTERN };

struct qc_rule {
    enum qc_rule_kind kind;
    const char *name, *file;
    unsigned line;
    struct qc_expr *match, *give;
    unsigned guard_count;
    struct qc_guard guards[QC_RULE_GUARDS];
    bool joins, result_quantized;
    unsigned size; /* ops in the match */
    unsigned slot_count, space_count;
    const char *slots[QC_RULE_SLOTS], *spaces[QC_RULE_SPACES];
};

struct qc_rules {
    struct qc_arena *arena;
    size_t count, capacity;
    struct qc_rule *rules; /* in the order of the files; a later rule of the same name and kind replaces the earlier */
    bool allowed[QC_OP_COUNT];
};

struct qc_rules *qc_rules_new(struct qc_status *st);
void qc_rules_free(struct qc_rules *r);

/* Adds the rules of a text. Errors (QC_BAD_INPUT) name file, line and column and say what was expected. */
bool qc_rules_parse(struct qc_rules *r, const char *file, const char *text, size_t size, struct qc_status *st);

/* Adds an embedded file, "patterns.rules" say. */
bool qc_rules_add_builtin(struct qc_rules *r, const char *name, struct qc_status *st);

/* Behaves on affine values as the allow-list says: KEEP, BOUND, JOIN, or NONE when the op is not on it. */
enum qc_affine_behaviour qc_rules_allowed(const struct qc_rules *r, enum qc_op op);

#endif
