// SPDX-License-Identifier: Apache-2.0
/* Inside rewrite/language/: a parsed function, and its expansion. */
#pragma once

#include "graph/core/call.h"
#include "rewrite/language/expression.h"

enum {
    QC_EXPANSION_SLOTS = 160,     /* inputs, attributes and names of a function */
    QC_EXPANSION_OUTPUTS = 8,     /* of a function, or of an op inside it */
    QC_EXPANSION_CLAUSES = 24,    /* when and refuse */
    QC_EXPANSION_GIVEN = 1 << 20, /* of a list attribute */
    QC_EXPANSION_DEPTH = 16,      /* nested functions */
    QC_EXPANSION_NAMES = 400,     /* characters of names in a message */
    QC_EXPANSION_CALLS = 1 << 14, /* of functions, for one operator of the file */
    QC_EXPANSION_NEWEST = 1000000 /* opset */
};

enum qc_fslot_kind { QC_FSLOT_INPUT, QC_FSLOT_ATTRIBUTE, QC_FSLOT_LET };

struct qc_fslot {
    const char *name;
    enum qc_fslot_kind kind;
    unsigned index;        /* of the input; of the output of a let of several names */
    unsigned first, count; /* a let: its names are slots [first, first + count) */
    bool optional;         /* an input or attribute that may be absent */
    bool read;             /* an expression has the name, or "ignore" */
    struct qc_expr *value; /* of a let, or the default of an attribute */
};

struct qc_fclause {
    struct qc_expr *condition;
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
    struct qc_expr **give;
};

/* A failure in a built-in function. */
struct qc_fault {
    const struct qc_frame *frame; /* NULL: none */
    bool *met;                    /* [slot_count]: inputs and attributes of this function that it depends on */
};

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
