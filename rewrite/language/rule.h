// SPDX-License-Identifier: Apache-2.0
/* Rules: the parsed form of the files in rewrite/rules/ and of --rules FILE. docs/rule-language.md describes the
   language; in short:

   allow keep|bound|join|table OP ... [target NAME] [when GUARD]
                               ops through which quantize moves up and dequantize moves down
   set NAME = OP | OP ...      a name for ops
   rule NAME                   rewrites a graph
     match EXPR [when GUARD]
     give  EXPR
   pattern NAME                says what to quantize; its template gives the simulated and the produced graph
     match  EXPR [when GUARD]
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
    QC_RULE_ARGS = 12, /* of an op, and attributes */
    QC_RULE_SLOTS = 16,
    QC_RULE_QPARAMS = 8,
    QC_RULE_OPS = 8,     /* of a match of a rule or pattern */
    QC_ISLAND_OPS = 40,  /* of an island, where an op may occur several times */
    QC_RULE_CHOICES = 8, /* of expressions in one place */
    QC_RULE_TARGETS = 4, /* templates of a rule */
    QC_TARGET_NAMES = 8,
};

/* One kind of expression for matches, guards, templates and functions. */
enum qc_expr_kind {
    QC_EXPR_NUMBER,
    QC_EXPR_TEXT,
    QC_EXPR_ABSENT,
    QC_EXPR_CAPTURE,   /* a name; in a match also const x, x? */
    QC_EXPR_OP,        /* Op(...) {...}; in rules also (Op|Op)(...), Op?(...), q, dq, requantize */
    QC_EXPR_FUNCTION,  /* the same, of a function */
    QC_EXPR_CHOICE,    /* (e | e): the first of its arguments that matches */
    QC_EXPR_ELSE,      /* (b else e): e if b is absent */
    QC_EXPR_ATTRIBUTE, /* attribute(Op.name[slot] = arg): of the matched op */
    QC_EXPR_ASKED,     /* rank(x): a row of a table of builtin functions */
    QC_EXPR_LIST,
    QC_EXPR_INDEX,  /* l[i] */
    QC_EXPR_BINARY, /* sign */
    QC_EXPR_NOT,
    QC_EXPR_NEGATE,
    QC_EXPR_IF /* if c then a else b */
};

enum qc_sign {
    QC_SIGN_ADD,
    QC_SIGN_SUB,
    QC_SIGN_MUL,
    QC_SIGN_DIV,
    QC_SIGN_MOD,
    QC_SIGN_EQ,
    QC_SIGN_NE,
    QC_SIGN_LT,
    QC_SIGN_LE,
    QC_SIGN_GT,
    QC_SIGN_GE,
    QC_SIGN_AND,
    QC_SIGN_OR
};

struct qc_number {
    bool real;
    int64_t i; /* valid unless the number is real */
    double f;
};

enum qc_axis_kind { QC_AXIS_TENSOR, QC_AXIS_NUMBER, QC_AXIS_OUT };

struct qc_qparams_expr {
    bool given, product;    /* product: first * second */
    unsigned first, second; /* slots of qparams names */
    enum qc_axis_kind axis_kind;
    int axis;
};

struct qc_builtin; /* rewrite/language/expression.h */

struct qc_expr {
    enum qc_expr_kind kind;
    unsigned line, column;
    struct qc_number number;
    const char *text; /* of a text; the name of a function or attribute */
    unsigned slot;    /* of a name; 1 + the element of an attribute, 0: all of it */
    enum qc_sign sign;
    const struct qc_builtin *builtin;
    enum qc_op op; /* the first of `ops` */
    unsigned op_count;
    enum qc_op *ops; /* of a rule */
    bool constant;   /* of a capture in a match */
    bool optional;   /* a capture that may be absent; an op whose first argument may stand in its place */
    struct qc_qparams_expr qparams;
    enum qc_dtype dtype; /* stored type, QC_NONE: any */
    unsigned arg_count, attr_count;
    struct qc_expr **args;
    const char **attr_names; /* In a template they are added to those of the matched op. */
    struct qc_expr **attrs;
};

struct qc_target;        /* rewrite/language/target.h */
struct qc_function_rule; /* rewrite/language/expansion_parts.h */

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
    struct qc_expr *when; /* NULL: always */
    bool joins, result_quantized;
    unsigned size; /* largest number of ops in a match */
    unsigned slot_count, qparams_count;
    const char *slots[QC_RULE_SLOTS], *qparams_of[QC_RULE_QPARAMS];
};

enum qc_allow_kind { QC_ALLOW_KEEP, QC_ALLOW_BOUND, QC_ALLOW_JOIN, QC_ALLOW_TABLE };

struct qc_allow {
    enum qc_allow_kind kind;
    enum qc_op op;
    const char *target;   /* NULL: all */
    struct qc_expr *when; /* about attributes of the node; NULL: always */
};

/* set NAME = Op | Op ... */
struct qc_op_set {
    const char *name;
    unsigned count;
    const enum qc_op *ops;
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
    size_t set_count, set_capacity;
    struct qc_op_set *sets;
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
