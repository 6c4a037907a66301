// SPDX-License-Identifier: Apache-2.0
/* Functions of one real variable, composed of float ops: the attribute "f" of op Table. The attribute "names" holds
   the names of the original nodes and values, "node;value" for each step but the last, so that they can be restored.
   As text, with x the variable:

        Mul(x, Sigmoid(x))    Div(Clip(Add(x, 3), 0, 6), 6)    LeakyRelu(x; alpha=0.1)    Clip(x, -, 6)
        Gelu(x; approximate=tanh)

   Each op is computed in float32, as a node of its own would be; equal parts are one step. On affine values the
   function is one table of 2^bits entries; exporters write the ops. */
#pragma once

#include "graph/core/graph.h"
#include "graph/core/uses.h"

enum { QC_FUNCTION_STEPS = 32, QC_FUNCTION_ARGS = 3, QC_FUNCTION_ATTRS = 2, QC_FUNCTION_TEXT = 1024 };

enum qc_function_arg_kind { QC_ARG_ABSENT, QC_ARG_X, QC_ARG_STEP, QC_ARG_NUMBER };

struct qc_function_arg {
    enum qc_function_arg_kind kind;
    unsigned step; /* index of an earlier step */
    float number;
};

struct qc_function_step {
    enum qc_op op;
    unsigned arg_count, attr_count;
    struct qc_function_arg args[QC_FUNCTION_ARGS];
    struct qc_attr attrs[QC_FUNCTION_ATTRS]; /* floats and strings */
    const char *node, *value;                /* names or NULL; steps that differ only in them are equal */
};

/* Steps in order; the last one is the result. */
struct qc_function {
    unsigned count;
    struct qc_function_step steps[QC_FUNCTION_STEPS];
};

/* Returns whether an op may be a step: the QC_UNARY rows of graph/types/ops.def, Gelu, Abs, Neg, Relu, Clip, Add,
   Sub, Mul, Div, Max, Min. */
bool qc_op_in_function(enum qc_op op);
/* Returns whether the op may be a step with this number of arguments: Clip one to three, Max and Min two. */
bool qc_function_takes(enum qc_op op, unsigned count);

/* Appends a step, or finds an equal one; *step is its index. Returns false, without a status, if there are too many. */
bool qc_function_put(unsigned *step, struct qc_function *f, const struct qc_function_step *s);

/* Parses a function. Strings of attributes are allocated in a. Fails with QC_BAD_INPUT and the position: syntax
   error, more than 32 steps, unknown op. */
bool qc_function_parse(struct qc_function *f, const char *text, struct qc_arena *a, struct qc_status *st);
/* Reads the function and the names of a Table. */
bool qc_function_of(struct qc_function *f, const struct qc_node *n, struct qc_arena *a, struct qc_status *st);
/* Returns the text of "names", "" if there are none. */
const char *qc_function_names(const struct qc_function *f, struct qc_arena *a, struct qc_status *st);
/* Returns the text, in a. Returns NULL without a status if it has QC_FUNCTION_TEXT characters or more. */
const char *qc_function_print(const struct qc_function *f, struct qc_arena *a, struct qc_status *st);

/* Adds the ops to a graph, applied to the real value x. The last one is named `node` and its result `name`; both may
   be NULL. The others have their own names, or names derived from it. */
qc_id qc_function_write_out(struct qc_graph *g, const struct qc_function *f, qc_id x, const char *node,
                            const char *name, struct qc_status *st);

/* (*texts)[s], in the arena: the function, as graph/core/function.h prints it, through which all readers get the
   values of quantizer s of a simulated graph. NULL if there is none: another op or an output reads the values
   directly, an observed value is not the quantized one, or nothing is observed.
   Ops that only move elements, quantize and dequantize do not count. The function is the shortest one that is not
   linear (after a factor or a summand, errors only scale). Examples: for LeakyRelu followed by Sigmoid, the
   LeakyRelu; for x * Sigmoid(x), the product; for 2 * x followed by Tanh, the Tanh of 2 * x.
   *texts: [qparams_count + 1]. uses: of g. Fails only if out of memory. */
bool qc_output_functions(const char ***texts, const struct qc_graph *g, const struct qc_uses *uses, struct qc_arena *a,
                         struct qc_status *st);
