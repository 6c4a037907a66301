// SPDX-License-Identifier: Apache-2.0
/* Inside rewrite/language/: a parsed function, and the values of its expressions during expansion. */
#pragma once

#include "graph/core/call.h"
#include "rewrite/language/rule_parser.h"

enum {
    QC_EXPANSION_SLOTS = 160,     /* inputs, attributes and names of a function */
    QC_EXPANSION_OUTPUTS = 8,     /* of a function, or of an op inside it */
    QC_EXPANSION_ARGS = 12,       /* of an op */
    QC_EXPANSION_CLAUSES = 24,    /* when and refuse */
    QC_EXPANSION_ITEMS = 64,      /* of a computed list */
    QC_EXPANSION_GIVEN = 1 << 20, /* of a list attribute */
    QC_EXPANSION_DEPTH = 16,      /* nested functions */
    QC_EXPANSION_NAMES = 400,     /* characters of names in a message */
    QC_EXPANSION_CALLS = 1 << 14, /* of functions, for one operator of the file */
    QC_EXPANSION_NEWEST = 1000000 /* opset */
};

struct qc_number {
    bool real;
    int64_t i; /* valid unless the number is real */
    double f;
};

enum qc_fvalue_kind {
    QC_FVALUE_ABSENT,
    QC_FVALUE_NUMBER,
    QC_FVALUE_TEXT,
    QC_FVALUE_LIST,
    QC_FVALUE_TENSOR,
    QC_FVALUE_HANDED /* an attribute of another kind, which can only be passed on */
};

/* Numbers, texts and lists are known during expansion; a tensor is a value of the graph. */
struct qc_fvalue {
    enum qc_fvalue_kind kind;
    struct qc_number number;
    const char *text;
    size_t count; /* of a list */
    const struct qc_number *items;
    qc_id id;
    const struct qc_attr *attr; /* passed on */
};

enum qc_fexpr_kind {
    QC_FEXPR_NUMBER,
    QC_FEXPR_TEXT,
    QC_FEXPR_ABSENT,
    QC_FEXPR_SLOT,
    QC_FEXPR_OP,       /* Op(args) {attributes} */
    QC_FEXPR_FUNCTION, /* the same, of a function */
    QC_FEXPR_BUILTIN,  /* rank(x) */
    QC_FEXPR_LIST,
    QC_FEXPR_INDEX,  /* l[i] */
    QC_FEXPR_BINARY, /* sign: + - * / % == != < <= > >= and or */
    QC_FEXPR_NOT,
    QC_FEXPR_NEGATE,
    QC_FEXPR_IF /* if c then a else b */
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

struct qc_fbuiltin; /* expansion_builtin.c */

struct qc_fexpr {
    enum qc_fexpr_kind kind;
    unsigned line, column;
    struct qc_number number;
    const char *text; /* of a text; the name of a function */
    unsigned slot;
    enum qc_op op;
    enum qc_sign sign;
    const struct qc_fbuiltin *builtin;
    unsigned arg_count, attr_count;
    struct qc_fexpr **args;
    const char **attr_names;
    struct qc_fexpr **attrs;
};

enum qc_fslot_kind { QC_FSLOT_INPUT, QC_FSLOT_ATTRIBUTE, QC_FSLOT_LET };

struct qc_fslot {
    const char *name;
    enum qc_fslot_kind kind;
    unsigned index;         /* of the input; of the output of a let of several names */
    unsigned first, count;  /* a let: its names are slots [first, first + count) */
    bool optional;          /* an input or attribute that may be absent */
    bool read;              /* an expression has the name, or "ignore" */
    struct qc_fexpr *value; /* of a let, or the default of an attribute */
};

struct qc_fclause {
    struct qc_fexpr *condition;
    const char *refusal; /* If NULL, the function fits only if the condition holds. Else the call is refused with this
                            text if it holds. */
};

struct qc_function_rule {
    const char *name, *file;
    bool builtin; /* not of --rules: messages are for users, who do not know the file */
    unsigned line;
    int opset_from, opset_to;
    unsigned slot_count, input_count, clause_count, give_count;
    struct qc_fslot *slots; /* inputs first */
    struct qc_fclause *clauses;
    struct qc_fexpr **give;
};

/* Parses a function after the word "function". */
bool qc_parse_function(struct qc_rule_parser *p, struct qc_status *st);
/* Parses an expression. slots: the names defined so far. */
struct qc_function_parser {
    struct qc_rule_parser *p;
    unsigned slot_count, depth;
    struct qc_fslot slots[QC_EXPANSION_SLOTS];
};

/* A failure in a built-in function. */
struct qc_fault {
    const struct qc_frame *frame; /* NULL: none */
    bool *met;                    /* [slot_count]: inputs and attributes of this function that it depends on */
};

struct qc_frame;
/* The expansion of one call, including the functions that its function uses. */
struct qc_expanding {
    const struct qc_rules *rules;
    struct qc_graph *g;
    struct qc_arena *arena;
    const struct qc_call *call; /* of the file */
    unsigned depth, calls;
    struct qc_fault fault;
    unsigned used[QC_OP_COUNT]; /* named nodes by op */
};

/* The scope of an expression during evaluation. */
struct qc_frame {
    struct qc_expanding *x;
    const struct qc_function_rule *function;
    const struct qc_call *call; /* of this function */
    bool *done;                 /* [slot_count] */
    struct qc_fvalue *value;    /* [slot_count] */
    struct qc_frame **inner;    /* [slot_count]: the function whose outputs are named, at the first name */
};

struct qc_fcall {
    struct qc_frame *frame; /* of the caller */
    const struct qc_fvalue *args;
    unsigned count;
};

struct qc_fbuiltin {
    const char *name, *help;
    unsigned least, most; /* arguments */
    bool (*run)(struct qc_fvalue *out, const struct qc_fcall *c, struct qc_status *st);
};
const struct qc_fbuiltin *qc_fbuiltin_find(const char *name);
size_t qc_fbuiltin_count(void);
const struct qc_fbuiltin *qc_fbuiltin_at(size_t i);

/* Arithmetic (expansion_parse.c). */
struct qc_number qc_number_whole(int64_t i);
struct qc_number qc_number_real(double f);
double qc_number_double(struct qc_number n);
struct qc_fvalue qc_fvalue_whole(int64_t i);
struct qc_fvalue qc_fvalue_tensor(qc_id id);
/* Returns the type of the constant made of a number or a list if no other type is given. */
enum qc_dtype qc_fvalue_dtype(const struct qc_fvalue *v);
bool qc_fvalue_holds(const struct qc_fvalue *v); /* Returns true for a number that is not 0. */
bool qc_number_binary(struct qc_number *out, enum qc_sign sign, struct qc_number a, struct qc_number b,
                      struct qc_status *st);
bool qc_fvalue_compare(enum qc_sign sign, const struct qc_fvalue *a, const struct qc_fvalue *b);

/* Nodes and constants (expansion.c). */
bool qc_expanding_constant(qc_id *out, struct qc_expanding *x, enum qc_dtype dtype, const struct qc_fvalue *v,
                           struct qc_status *st);
bool qc_expanding_node(qc_id *first, struct qc_expanding *x, enum qc_op op, const struct qc_fvalue *args,
                       unsigned arg_count, unsigned outputs, const struct qc_attr *attrs, unsigned attr_count,
                       struct qc_status *st);
/* Concatenates a list that has tensors of rank 1 among its elements. */
bool qc_expanding_concat(struct qc_fvalue *out, struct qc_expanding *x, const struct qc_fvalue *items, size_t count,
                         struct qc_status *st);
