// SPDX-License-Identifier: Apache-2.0
/* A quantized model in its canonical form, as used by run, eval, compare and convert. */
#pragma once

#include "quantize/opening/model.h"
#include "rewrite/canonical/canonical.h"

/* Name and summary for 'qcalib list passes'. */
#define QC_CANONICAL_PASS "canonical"
#define QC_CANONICAL_SUMMARY                                                                                           \
    "quantized models: QuantizeLinear, DequantizeLinear and QLinear operators become values with parameters; expand, " \
    "fold, "                                                                                                           \
    "realise follow"

struct qc_canonical_model {
    struct qc_lines notes;                 /* texts are held by `canonical` */
    struct qc_graph *canonical, *produced; /* before and after expand, fold and realise */
};

/* Brings a model to canonical and produced form. Fails if a pass or the check of a graph fails. */
bool qc_canonical_model_of(struct qc_canonical_model *out, const struct qc_graph *imported, struct qc_status *st);
void qc_canonical_model_free(struct qc_canonical_model *m); /* members may be NULL or zeroed */

/* If an opened model is quantized, replaces its graph by the produced form: groups of DequantizeLinear, op,
   QuantizeLinear then run as the integer operators that runtimes fuse them to. */
bool qc_model_canonicalise(struct qc_model *m, struct qc_status *st);
