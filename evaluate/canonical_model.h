// SPDX-License-Identifier: Apache-2.0
/* A quantized model in its canonical form: what run, eval, compare and convert work on. */
#pragma once

#include "quantize/opening/model.h"
#include "rewrite/canonical/canonical.h"

/* As 'qcalib list passes' has it. */
#define QC_CANONICAL_PASS "canonical"
#define QC_CANONICAL_SUMMARY                                                                                           \
    "quantized models: QuantizeLinear, DequantizeLinear and QLinear operators become values with parameters; expand, " \
    "fold, "                                                                                                           \
    "realise follow"

struct qc_canonical_model {
    struct qc_canonical_notes notes;       /* text in the memory of `canonical` */
    struct qc_graph *canonical, *produced; /* before and after expand, fold and realise */
};

/* Errors: those of the passes; a graph that does not pass its check. */
bool qc_canonical_model_of(struct qc_canonical_model *out, const struct qc_graph *imported, struct qc_status *st);
void qc_canonical_model_free(struct qc_canonical_model *m); /* NULL-safe members; zeroed is fine */

/* Gives an opened model its produced form as the graph when there is quantization in it: groups of DequantizeLinear,
   op, QuantizeLinear then run as the integer operators that runtimes make of them. */
bool qc_model_canonicalise(struct qc_model *m, struct qc_status *st);
