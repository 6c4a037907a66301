// SPDX-License-Identifier: Apache-2.0
/* Functions of one real variable, composed of float ops: the attribute "f" of op Table. The attribute "names" has the
   names of the ops and values that it was made of, "node;value" for each step but the last, so that they can be written
   out again as they were. As text, with x the variable:

     Mul(x, Sigmoid(x))    Div(Clip(Add(x, 3), 0, 6), 6)    LeakyRelu(x; alpha=0.1)    Clip(x, -, 6)    Gelu(x;
   approximate=tanh)

   Each op is computed in float32, as a node of its own would be; equal parts are one step. On affine values the whole
   is one table of 2^bits entries; exporters write the ops out again. */
#pragma once

#include "graph/core/graph.h"

enum { QC_FUNCTION_STEPS = 32, QC_FUNCTION_ARGS = 3, QC_FUNCTION_ATTRS = 2, QC_FUNCTION_TEXT = 1024 };

enum qc_function_arg_kind { QC_ARG_ABSENT, QC_ARG_X, QC_ARG_STEP, QC_ARG_NUMBER };

struct qc_function_arg {
    enum qc_function_arg_kind kind;
    unsigned step; /* an earlier one */
    float number;
};

struct qc_function_step {
    enum qc_op op;
    unsigned arg_count, attr_count;
    struct qc_function_arg args[QC_FUNCTION_ARGS];
    struct qc_attr attrs[QC_FUNCTION_ATTRS]; /* floats and strings */
    const char *node, *value;                /* names or NULL; equal steps may differ in them */
};

/* Steps in order; the last one is the result. */
struct qc_function {
    unsigned count;
    struct qc_function_step steps[QC_FUNCTION_STEPS];
};

/* May an op be a step? The QC_UNARY rows of graph/types/ops.def, Gelu, Abs, Neg, Relu, Clip, Add, Sub, Mul, Div, Max,
 * Min. */
bool qc_op_in_function(enum qc_op op);
/* ... with so many arguments: Clip one to three, Max and Min two. */
bool qc_function_takes(enum qc_op op, unsigned count);

/* Appends a step, or finds its equal; *step is its number. False and no status when there are too many. */
bool qc_function_put(unsigned *step, struct qc_function *f, const struct qc_function_step *s);

/* Strings of attributes live in a. Errors (QC_BAD_INPUT): what stands where, more than 32 steps, no such op. */
bool qc_function_parse(struct qc_function *f, const char *text, struct qc_arena *a, struct qc_status *st);
/* Of a Table: function and names. */
bool qc_function_of(struct qc_function *f, const struct qc_node *n, struct qc_arena *a, struct qc_status *st);
/* The text of "names", "" when there are none. */
const char *qc_function_names(const struct qc_function *f, struct qc_arena *a, struct qc_status *st);
/* NULL without a status when the text has QC_FUNCTION_TEXT characters or more; else it lives in a. */
const char *qc_function_print(const struct qc_function *f, struct qc_arena *a, struct qc_status *st);

/* Adds the ops to a graph on the real value x. The last one is named `node` and its result `name`, the others have
   their own names, else names after it; both may be NULL. */
qc_id qc_function_write_out(struct qc_graph *g, const struct qc_function *f, qc_id x, const char *node,
                            const char *name, struct qc_status *st);
