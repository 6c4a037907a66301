// SPDX-License-Identifier: Apache-2.0
/* Quantized weights that several graphs share: each is made once. */
#pragma once

#include "rewrite/passes/simulate.h"

struct qc_folded_constants;

/* KEPT: with their other forms (graph/types/tensor.h), as long as one of the graphs uses them. */
enum qc_constant_forms { QC_FORMS_NOT_KEPT, QC_FORMS_KEPT };
bool qc_folded_constants_new(struct qc_folded_constants **out, enum qc_constant_forms forms, struct qc_status *st);
/* Returns the number of constants; trim drops all but the first `count`. */
size_t qc_folded_constants_count(const struct qc_folded_constants *f);
void qc_folded_constants_trim(struct qc_folded_constants *f, size_t count);
void qc_folded_constants_free(struct qc_folded_constants *f); /* NULL-safe */

/* As qc_to_integer. Not thread-safe. */
bool qc_to_integer_shared(struct qc_graph **out, struct qc_folded_constants *f, const struct qc_graph *g,
                          qc_eval_fn *eval, struct qc_status *st);
