// SPDX-License-Identifier: Apache-2.0
/* Integers of weights that several graphs quantize alike: made once, and shared by all of them. */
#pragma once

#include "rewrite/passes/simulate.h"

struct qc_folded_constants;

/* KEPT: with other forms of them (graph/types/tensor_forms.h), for as long as one of the graphs has them. */
enum qc_constant_forms { QC_FORMS_NOT_KEPT, QC_FORMS_KEPT };
bool qc_folded_constants_new(struct qc_folded_constants **out, enum qc_constant_forms forms, struct qc_status *st);
/* How many there are; all but the first `count` are forgotten. */
size_t qc_folded_constants_count(const struct qc_folded_constants *f);
void qc_folded_constants_trim(struct qc_folded_constants *f, size_t count);
void qc_folded_constants_free(struct qc_folded_constants *f); /* NULL-safe */

/* As qc_to_integer. Not by several threads at the same time. */
bool qc_to_integer_shared(struct qc_graph **out, struct qc_folded_constants *f, const struct qc_graph *g,
                          qc_eval_fn *eval, struct qc_status *st);

/* What a Quantize of a constant gives, out of those that are known where it is one of them; f: NULL for none. */
bool qc_folded_constants_take(struct qc_tensor **out, struct qc_folded_constants *f, const struct qc_graph *g,
                              qc_id node, qc_eval_fn *eval, struct qc_status *st);
