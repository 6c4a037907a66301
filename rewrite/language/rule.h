// SPDX-License-Identifier: Apache-2.0
/* Rules: the parsed form of the files in rewrite/rules/ and of --rules FILE. docs/rule-language.md describes the
   language; in short:

   allow keep|bound|join|table OP ... [target NAME] [when GUARD and ...]
                               ops through which quantize moves up and dequantize moves down
   rule NAME                   rewrites a graph
     match EXPR [when GUARD and ...]
     give  EXPR
   pattern NAME                says what to quantize; its template gives the simulated and the produced graph
     match  EXPR [when GUARD and ...]
     [affine EXPR]
     [target NAME affine EXPR ...]           the template for a target of that name
     [scheme activation|weight WORD ...] ... overrides the options for the quantizers of this pattern
     [joins]                                 only if the data inputs come from quantized ops
     [result quantized]                      the result is stored in the activation type even if no quantized op uses it

   A repeated name is the same value. Add, Mul, Max and Min match both ways. An op inside a match must have no other
   user. A multiply-accumulate op is never matched twice. The longest match comes first. Names of values begin with a
   lower-case letter, names of qparams with an upper-case one. */
#pragma once

#include "graph/core/graph.h"

enum {
    QC_RULE_ARGS = 8,
    QC_RULE_SLOTS = 16,
    QC_RULE_QPARAMS = 8,
    QC_RULE_GUARDS = 8,
    QC_RULE_OPS = 8,     /* of a match of a rule or pattern */
    QC_ISLAND_OPS = 40,  /* of an island, where an op may occur several times */
    QC_RULE_CHOICES = 8, /* of ops or expressions in one place */
    QC_RULE_TARGETS = 4, /* templates of a rule */
    QC_TARGET_NAMES = 8,
    QC_GUARD_ARGS = 4
};

enum qc_expr_kind {
    QC_EXPR_CAPTURE,   /* x, const x, x? */
    QC_EXPR_OP,        /* Op(...), (Op|Op)(...), Op?(...), q, dq, requantize */
    QC_EXPR_CHOICE,    /* (e | e): the first of its arguments that matches */
    QC_EXPR_NUMBER,    /* 0.5: an f32 scalar constant */
    QC_EXPR_INTS,      /* [1,-1]: an i64 vector constant */
    QC_EXPR_ATTRIBUTE, /* attribute(Op.name = default): an f32 scalar constant */
    QC_EXPR_ELSE,      /* (b else e): e if the optional b is absent */
    QC_EXPR_VECTOR,    /* vector(e): the constant with one dimension */
    QC_EXPR_COLUMN,    /* column(e, w): the vector e along axis 0 of a tensor of w's rank */
    QC_EXPR_ROWS       /* rows(c): the constant c with its first two dimensions joined, then a dimension of 1, then the
                          others */
};

enum qc_axis_kind { QC_AXIS_TENSOR, QC_AXIS_NUMBER, QC_AXIS_OUT };

struct qc_qparams_expr {
    bool given, product;    /* product: first * second */
    unsigned first, second; /* slots of qparams names */
    enum qc_axis_kind axis_kind;
    int axis;
};

struct qc_expr {
    enum qc_expr_kind kind;
    enum qc_op op; /* the first of `ops` */
    unsigned op_count;
    enum qc_op ops[QC_RULE_CHOICES];
    unsigned slot; /* of a capture */
    bool constant; /* of a capture in a match */
    bool optional; /* a capture that may be absent; an op whose first argument may stand in its place */
    struct qc_qparams_expr qparams;
    enum qc_dtype dtype; /* stored type, QC_NONE: any */
    unsigned arg_count;
    struct qc_expr *args[QC_RULE_ARGS];
    float number; /* of a number, or the default of an attribute */
    const char *attribute;
    unsigned attr_count; /* attributes that the template gives, in addition to those of the matched op */
    struct qc_attr *attrs;
    unsigned *attr_of; /* [attr_count]: 1 + the slot of the constant that gives the value (value(c): its first element;
                          elements(c): their number), or 0 */
    unsigned int_count;
    int64_t ints[QC_RANK_MAX];
    unsigned line, column;
};

enum qc_compare {
    QC_COMPARE_TRUE,
    QC_COMPARE_EQ,
    QC_COMPARE_NE,
    QC_COMPARE_LT,
    QC_COMPARE_LE,
    QC_COMPARE_GT,
    QC_COMPARE_GE
};

struct qc_target;        /* rewrite/language/target.h */
struct qc_guard_info;    /* rewrite/language/match.h */
struct qc_function_rule; /* rewrite/language/expansion_parts.h */

enum qc_term_kind { QC_TERM_NUMBER, QC_TERM_TEXT, QC_TERM_ATTRIBUTE, QC_TERM_FUNCTION };

/* One side of a comparison, or a number argument of a guard. */
struct qc_guard_term {
    enum qc_term_kind kind;
    double number;    /* or the default of the attribute */
    const char *text; /* or the default of the attribute */
    enum qc_op op;    /* of the attribute */
    const char *attribute;
    int index; /* of an element of the attribute, or -1 */
    const struct qc_guard_info *function;
    unsigned arg_count;
    struct qc_guard_term
        *args[QC_GUARD_ARGS]; /* numbers; NULL where the function takes a value or qparams, which is in ... */
    unsigned slots[QC_GUARD_ARGS];
};

struct qc_guard {
    bool negated;
    struct qc_guard_term left, right;
    enum qc_compare compare;
};

/* The scheme of a pattern for its quantizers. What is not given is taken from the options. */
struct qc_scheme_clause {
    enum qc_dtype dtype; /* QC_NONE: not given */
    unsigned bits;       /* of its levels; 0: all of the type */
    bool symmetry_given, restricted_given, per_channel_given;
    enum qc_symmetry symmetry;
    bool restricted, per_channel;
};

struct qc_template {
    const char *target; /* NULL: every target without a template of its own */
    struct qc_expr *give;
};

/* Where a cost holds: anywhere; only if nothing but outputs of the graph read the result; only if ops that costs leave
   in float read it, behind a clamp or not; only if costs do not leave every product with a constant weight in float. */
enum qc_cost_where { QC_COST_ANYWHERE, QC_COST_OUTPUTS, QC_COST_FLOATS, QC_COST_PARTLY };

enum qc_rule_kind { QC_RULE_REWRITE, QC_RULE_PATTERN, QC_RULE_ISLAND, QC_RULE_COST, QC_RULE_REFUSE };

struct qc_rule {
    enum qc_rule_kind kind;
    const char *name, *file;
    unsigned line;
    struct qc_expr *match;
    struct qc_expr *give;        /* the template of the chosen target; NULL: the rule is not for it, or has none */
    const char *inside, *target; /* islands and costs: what it is, or why, for reports; the target that it is for, NULL:
                                    all */
    enum qc_cost_where where;    /* of a cost */
    unsigned template_count;
    struct qc_template templates[QC_RULE_TARGETS];
    struct qc_scheme_clause activation, weight;
    unsigned guard_count;
    struct qc_guard guards[QC_RULE_GUARDS];
    bool joins, result_quantized;
    unsigned size; /* largest number of ops in a match */
    unsigned slot_count, qparams_count;
    const char *slots[QC_RULE_SLOTS], *qparams_of[QC_RULE_QPARAMS];
};

enum qc_allow_kind { QC_ALLOW_KEEP, QC_ALLOW_BOUND, QC_ALLOW_JOIN, QC_ALLOW_TABLE };

struct qc_allow {
    enum qc_allow_kind kind;
    enum qc_op op;
    const char *target; /* NULL: all */
    unsigned guard_count;
    struct qc_guard *guards; /* about attributes of the node */
};

struct qc_rules {
    struct qc_arena *arena;
    unsigned target_count;
    const char *targets[QC_TARGET_NAMES]; /* chosen targets; templates of the last one come first */
    bool target_file;                     /* what is parsed is the file of a target, ... */
    unsigned target_depth;                /* ... read for so many others that are like it, ... */
    const struct qc_target *header;       /* ... with this statement `target` (rewrite/language/target.h) */
    size_t count, capacity;
    struct qc_rule *rules; /* in the order of the files; a later rule of the same name and kind replaces the earlier
                              one */
    size_t allow_count, allow_capacity;
    struct qc_allow *allows;
    size_t function_count, function_capacity;
    struct qc_function_rule *functions; /* rewrite/language/expansion.h; functions of one name in the order of the
                                           file */
};

struct qc_rules *qc_rules_new(struct qc_status *st);
void qc_rules_free(struct qc_rules *r);

/* Adds the rules of a text. Errors (QC_BAD_INPUT) give file, line and column and the expected token. */
bool qc_rules_parse(struct qc_rules *r, const char *file, const char *text, size_t size, struct qc_status *st);

/* Adds an embedded file, for example "patterns.rules". */
bool qc_rules_add_builtin(struct qc_rules *r, const char *name, struct qc_status *st);
/* Returns the name of the i-th embedded file in the order of use, NULL after the last. */
const char *qc_builtin_rules_name(size_t i);

/* Adds a file. Errors: as qc_file_read, qc_rules_parse. */
bool qc_rules_add_file(struct qc_rules *r, const char *path, struct qc_status *st);

/* Adds a target: present and later patterns take its templates first, then those of targets added before. target NULL:
   no change. Fails if memory is out or there are too many targets. */
bool qc_rules_add_target(struct qc_rules *r, const char *target, struct qc_status *st);
/* Returns true if `target` (NULL: any) is one of the added targets. */
bool qc_rules_for_target(const struct qc_rules *r, const char *target);

/* Returns how a node treats affine values by the allow-list: KEEP, BOUND, JOIN, or NONE if no entry of its op has
   guards that hold. */
enum qc_affine_behaviour qc_rules_behaviour(const struct qc_rules *r, const struct qc_graph *g,
                                            const struct qc_node *n);
/* Returns true if the node may be part of the table of a unary function (rewrite/passes/functions.h). */
bool qc_rules_in_table(const struct qc_rules *r, const struct qc_graph *g, const struct qc_node *n);
