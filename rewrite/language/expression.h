// SPDX-License-Identifier: Apache-2.0
/* Evaluates the expressions of guards, templates and functions. Numbers, texts and lists are known; a tensor is a value
   of a graph. The status of the frame holds the first failure; values are absent from then on. */
#pragma once

#include "graph/core/graph.h"
#include "rewrite/language/rule.h"

enum {
    QC_EXPRESSION_ITEMS = 64, /* of a computed list */
    QC_ASKED_ARGS = 3         /* of a builtin function */
};

enum qc_fvalue_kind {
    QC_FVALUE_ABSENT,
    QC_FVALUE_NUMBER,
    QC_FVALUE_TEXT,
    QC_FVALUE_LIST,
    QC_FVALUE_TENSOR,
    QC_FVALUE_HANDED /* an attribute of another kind, which can only be passed on */
};

struct qc_fvalue {
    enum qc_fvalue_kind kind;
    struct qc_number number;
    const char *text;
    size_t count; /* of a list */
    const struct qc_number *items;
    qc_id id;                   /* of a tensor or of qparams */
    const struct qc_attr *attr; /* passed on */
};

struct qc_frame;

/* What names and operators mean. */
struct qc_scope {
    struct qc_fvalue (*name)(struct qc_frame *f, unsigned slot);
    struct qc_fvalue (*op)(struct qc_frame *f, const struct qc_expr *e);
    void (*fail)(const struct qc_frame *f, const struct qc_expr *e); /* NULL, or adds the place to the message */
};

/* Where an expression is evaluated: guards and templates have a match, templates a build (rewrite/language/match.h),
   functions an expansion (rewrite/language/expansion_parts.h). */
struct qc_frame {
    const struct qc_scope *scope; /* NULL: neither names nor operators, and no lists */
    struct qc_status *st;
    struct qc_graph *to;          /* gets nodes and constants */
    struct qc_arena *arena;       /* of lists */
    const struct qc_graph *graph; /* of the match */
    const struct qc_match *match;
    const uint32_t *uses;
    const struct qc_build *build;
    struct qc_expanding *x;
    const struct qc_function_rule *function;
    const struct qc_call *call; /* of this function */
    bool *done;                 /* [slot_count] */
    struct qc_fvalue *value;    /* [slot_count] */
    struct qc_frame **inner;    /* [slot_count]: the function whose outputs are named, at the first name */
};

struct qc_asked {
    struct qc_frame *frame;
    bool upper; /* of the builtin */
    unsigned count;
    struct qc_fvalue args[QC_ASKED_ARGS];
};

/* A builtin function. */
struct qc_builtin {
    const char *name, *help;
    unsigned least, most; /* arguments */
    const char *kinds;    /* of each: v a value of the match, q its qparams, e an expression; NULL: expressions */
    struct qc_fvalue (*run)(const struct qc_asked *c);
    double (*value)(const struct qc_asked *c); /* in place of run. NaN: no value */
    bool upper;                                /* of two with one function: that of the larger or upper ones */
};
/* Tables, which end with an empty row */
extern const struct qc_builtin qc_guards[], qc_template_builtins[], qc_function_builtins[];

struct qc_fvalue qc_expr_evaluate(struct qc_frame *f, const struct qc_expr *e);
/* Records a failure. Returns an absent value. */
struct qc_fvalue qc_expression_fail(const struct qc_frame *f, enum qc_code code, const char *message);
/* Returns a list of `count` numbers; *items: to be filled. Absent, with *items NULL, after a failure. */
struct qc_fvalue qc_expression_list(struct qc_number **items, struct qc_frame *f, size_t count);

struct qc_number qc_number_whole(int64_t i);
struct qc_number qc_number_real(double f);
double qc_number_double(struct qc_number n);
struct qc_fvalue qc_fvalue_whole(int64_t i);
struct qc_fvalue qc_fvalue_real(double f);
struct qc_fvalue qc_fvalue_tensor(qc_id id); /* id 0: absent */
/* Returns the type of the constant made of a number or a list if no other type is given. */
enum qc_dtype qc_fvalue_dtype(const struct qc_fvalue *v);
bool qc_fvalue_holds(const struct qc_fvalue *v); /* Returns true for a number that is not 0. */
bool qc_fvalue_compare(enum qc_sign sign, const struct qc_fvalue *a, const struct qc_fvalue *b);

/* Nodes and constants that expressions make (rewrite/language/expansion.c). */
qc_id qc_expression_constant(struct qc_frame *f, enum qc_dtype dtype, const struct qc_fvalue *v);
struct qc_attr qc_expression_attribute(struct qc_frame *f, const char *name, const struct qc_fvalue *v);
struct qc_fvalue qc_expanding_node(struct qc_frame *f, enum qc_op op, unsigned arg_count, const struct qc_fvalue *args);
struct qc_fvalue qc_expanding_node_with(struct qc_frame *f, enum qc_op op, unsigned arg_count,
                                        const struct qc_fvalue *args, unsigned outputs, unsigned attr_count,
                                        const struct qc_attr *attrs);
/* Concatenates a list that has tensors of rank 1 among its elements. */
struct qc_fvalue qc_expanding_concat(struct qc_frame *f, const struct qc_fvalue *items, size_t count);
