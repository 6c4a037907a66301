// SPDX-License-Identifier: Apache-2.0
/* Rules: the parsed form of the files in rewrite/rules/ and of --rules FILE. The language is described in
   docs/rule-language.md; in short:

   allow keep|bound|join|table OP ... [target NAME] [when GUARD and ...]     what quantize is pushed up, and dequantize
   down, through rule NAME                           rewrites a graph match EXPR  [when GUARD and ...] give  EXPR
   pattern NAME                        finds what to quantize; the template is instantiated as simulated and as produced
   graph match  EXPR  [when GUARD and ...] [affine EXPR] [target NAME affine EXPR ...]     a target of that name takes
   its own template [scheme activation|weight WORD ...] ...         overrides the options for the quantizers of this
   pattern [joins]                           only where the data inputs come from quantized ops [result quantized] the
   result is stored in the activation type even if nothing quantized uses it

   A repeated name is the same value; Add, Mul, Max, Min match both ways; an op inside a match must have no other user;
   a multiply-accumulate op is never matched twice. Longest match first. Names of values begin with a lower-case letter,
   names of qparams with an upper-case one. */
#pragma once

#include "graph/core/graph.h"

enum {
    QC_RULE_ARGS = 8,
    QC_RULE_SLOTS = 16,
    QC_RULE_QPARAMS = 8,
    QC_RULE_GUARDS = 8,
    QC_RULE_OPS = 8,     /* of a match of a rule or pattern, */
    QC_ISLAND_OPS = 40,  /* of an island: as written, with ops that stand there more than once */
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
    QC_EXPR_ELSE,      /* (b else e): e where the optional b is absent */
    QC_EXPR_VECTOR,    /* vector(e): the constant with one dimension */
    QC_EXPR_COLUMN,    /* column(e, w): the vector e along axis 0 of a tensor of w's rank */
    QC_EXPR_ROWS       /* rows(c): the constant c with its first two dimensions as one, then 1, then the others */
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
    unsigned attr_count; /* that the op of a template is given, beside those of the matched one */
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

/* What stands on a side of a comparison, or is a number that a guard takes. */
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

/* What a pattern says about the quantization of its quantizers; what is not given is as the options have it. */
struct qc_scheme_clause {
    enum qc_dtype dtype; /* QC_NONE: not given */
    unsigned bits;       /* of its levels; 0: all of the type */
    bool symmetry_given, restricted_given, per_channel_given;
    enum qc_symmetry symmetry;
    bool restricted, per_channel;
};

struct qc_template {
    const char *target; /* NULL: every target that has none of its own */
    struct qc_expr *give;
};

enum qc_rule_kind { QC_RULE_REWRITE, QC_RULE_PATTERN, QC_RULE_ISLAND, QC_RULE_COST, QC_RULE_REFUSE };

struct qc_rule {
    enum qc_rule_kind kind;
    const char *name, *file;
    unsigned line;
    struct qc_expr *match;
    struct qc_expr *give;        /* the template of the chosen target; NULL: the rule is not for it, or has none */
    const char *inside, *target; /* islands and costs: what it is, or why, for reports; the target that it is for, NULL:
                                    all */
    bool for_outputs;            /* a cost: only where nothing but outputs of the graph reads the result */
    unsigned template_count;
    struct qc_template templates[QC_RULE_TARGETS];
    struct qc_scheme_clause activation, weight;
    unsigned guard_count;
    struct qc_guard guards[QC_RULE_GUARDS];
    bool joins, result_quantized;
    unsigned size; /* most ops that the match can take in */
    unsigned slot_count, qparams_count;
    const char *slots[QC_RULE_SLOTS], *qparams_of[QC_RULE_QPARAMS];
};

enum qc_allow_kind { QC_ALLOW_KEEP, QC_ALLOW_BOUND, QC_ALLOW_JOIN, QC_ALLOW_TABLE };

struct qc_allow {
    enum qc_allow_kind kind;
    enum qc_op op;
    const char *target; /* NULL: all */
    unsigned guard_count;
    struct qc_guard *guards; /* of attributes of the node */
};

struct qc_rules {
    struct qc_arena *arena;
    unsigned target_count;
    const char *targets[QC_TARGET_NAMES]; /* that are chosen: the last one's templates come first */
    bool target_file;                     /* what is parsed is the file of a target, ... */
    unsigned target_depth;                /* ... read for so many others that are like it, ... */
    const struct qc_target *header;       /* ... with this statement `target` (rewrite/language/target.h) */
    size_t count, capacity;
    struct qc_rule *rules; /* in the order of the files; a later rule of the same name and kind replaces the earlier */
    size_t allow_count, allow_capacity;
    struct qc_allow *allows;
    size_t function_count, function_capacity;
    struct qc_function_rule *functions; /* rewrite/language/expansion.h; those of a name in the order of the file */
};

struct qc_rules *qc_rules_new(struct qc_status *st);
void qc_rules_free(struct qc_rules *r);

/* Adds the rules of a text. Errors (QC_BAD_INPUT) name file, line and column and say what was expected. */
bool qc_rules_parse(struct qc_rules *r, const char *file, const char *text, size_t size, struct qc_status *st);

/* Adds an embedded file, "patterns.rules" say. */
bool qc_rules_add_builtin(struct qc_rules *r, const char *name, struct qc_status *st);
/* Names of those files, in the order they are used in; NULL behind the last. */
const char *qc_builtin_rules_name(size_t i);

/* Adds a file. Errors: as qc_file_read, qc_rules_parse. */
bool qc_rules_add_file(struct qc_rules *r, const char *path, struct qc_status *st);

/* From now on, and for what is there already, patterns take the templates of this target, then of those that were added
   before. NULL: nothing changes. Errors: no memory; too many. */
bool qc_rules_add_target(struct qc_rules *r, const char *target, struct qc_status *st);
/* Is what has this name of a target (NULL: none) for one that was added? */
bool qc_rules_for_target(const struct qc_rules *r, const char *target);

/* What the allow-list says that a node does to affine values: KEEP, BOUND, JOIN, or NONE where no entry of its op has
   guards that it fulfils. */
enum qc_affine_behaviour qc_rules_behaviour(const struct qc_rules *r, const struct qc_graph *g,
                                            const struct qc_node *n);
/* May be part of a table of a unary function (rewrite/passes/functions.h). */
bool qc_rules_in_table(const struct qc_rules *r, const struct qc_graph *g, const struct qc_node *n);
