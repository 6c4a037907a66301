// SPDX-License-Identifier: Apache-2.0
/* Cases of one node each, written in the text form. */
#pragma once

#include "graph/core/graph.h"

/* Inputs are separated by ';' and become %1, %2, ...: "f32[N,3]" is a graph input, "i64[2]={0,-1}" a constant. */
struct graph_case {
    const char *inputs;
    const char *node; /* the part behind the '=': "Conv(%1, %2) {group=1}" */
    /* Types of the results, separated by ' ', for which there are that many results.
       Of a case that must fail: a part of the message; its code is `code`. */
    const char *expected;
    enum qc_code code;
};

/* Valid ones; together they have every op of graph/types/ops.def but the quantizing ones of our own. */
extern const struct graph_case graph_cases[];
extern const size_t graph_case_count;
/* Ones that must be refused. */
extern const struct graph_case bad_graph_cases[];
extern const size_t bad_graph_case_count;

/* The text of a graph with this node alone; free() it. */
char *graph_case_text(const struct graph_case *c);

/* Prints everything; free() it. */
char *print_graph(const struct qc_graph *g);

/* "f32[N,3]"; buf of 160. */
const char *type_text(char buf[160], const struct qc_type *t);
