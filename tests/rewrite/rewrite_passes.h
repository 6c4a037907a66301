// SPDX-License-Identifier: Apache-2.0
/* The passes of quantize/make/make.c from the imported to the produced graph, with parameters from a list instead of
 * data. */
#pragma once

#include "rewrite/passes/simulate.h"
#include "tests/check.h"

enum { PASSES_BINDINGS = 16 };

struct pass_setup {
    struct qc_partition_options scheme;
    const char *target;   /* of the rules; NULL: none */
    bool narrows_bias;    /* --bias narrowed */
    bool costs;           /* costs.rules hold, as scheme.prefer says */
    const char *rules;    /* further rules, as --rules FILE; NULL: none */
    size_t text_elements; /* graphs with more elements of constants than this are not printed and parsed back */
    size_t binding_count;
    struct {
        const char *quantizer;
        float scale;
        int32_t zero_point;
    } bindings[PASSES_BINDINGS];
};
#define PASS_SETUP ((struct pass_setup){.scheme = QC_PARTITION_INIT, .text_elements = SIZE_MAX})

struct passes {
    struct qc_rules *rules, *fold_rules;
    struct qc_graph *normalised, *joined, *simulated, *stored, *dynamic, *expanded, *folded, *produced;
    struct qc_partition *partition;
    char *unbound; /* text of the simulated graph before parameters are bound */
};

/* Runs all passes on a graph (borrowed, it must outlive the result). Quantizers that are not in the list are bound to
   scale 1/16 and the middle level (weights: 1/128, 0, as many scales as they have channels). After every pass: the
   graph verifies, no multiply-accumulate op was added, and its text with all constants parses back to the same text.
   *out is to be freed in either case. */
bool passes_run(struct passes *out, const struct qc_graph *g, const struct pass_setup *setup, struct qc_status *st);
void passes_free(struct passes *p);
#define PASSES __attribute__((cleanup(passes_free), unused)) struct passes

/* Built-in rules of normalise, patterns and allow, and further ones (NULL: none). */
struct qc_rules *passes_rules(const char *more, struct qc_status *st);

/* Fails unless print -> parse -> print gives the same text. */
bool passes_text_returns(const struct qc_graph *g, const char *pass, struct qc_status *st);

/* Elements of all constants. */
size_t passes_elements(const struct qc_graph *g);

/* Number of nodes of an op. */
size_t passes_count(const struct qc_graph *g, enum qc_op op);

/* Rules of a text ("my.rules") that is right; the test fails where it is not. Owned. */
struct qc_rules *passes_rules_of(const char *text);

/* Calls `of` for every golden text in tests/rewrite/cases, and reads the graph of one. */
void passes_each_case(void (*of)(const char *name, int number));
struct qc_graph *passes_case_graph(const char *name);

/* Calls `of` for every float model of $QCALIB_DATA/models; skips the test where the variable is not set. */
void passes_given_models(void (*of)(const char *path, const char *name));
