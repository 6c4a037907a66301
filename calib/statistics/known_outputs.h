// SPDX-License-Identifier: Apache-2.0
/* Outputs of a graph on units of data, kept so that who asks for them again need not run it again. Units are known by
   the key of their inputs (struct qc_unit), so it does not matter who ran them, nor in which selection of samples. */
#pragma once

#include "simq/plan/plan.h"

/* Outputs are kept while they take no more than this, all units together; others are not known. */
enum { QC_KNOWN_OUTPUTS_BYTES = 64 << 20 };

struct qc_known_outputs;

/* count: outputs of the graph. Workers may call the functions below at once. */
bool qc_known_outputs_new(struct qc_known_outputs **out, size_t count, struct qc_status *st);
/* Another holder: freed when as many have let go. NULL-safe; both belong to the thread of the job. */
struct qc_known_outputs *qc_known_outputs_ref(struct qc_known_outputs *k);
void qc_known_outputs_free(struct qc_known_outputs *k); /* NULL-safe */

/* Says that all outputs had known shapes before they were computed: the plan of the graph has no other. */
void qc_known_outputs_settle(struct qc_known_outputs *k);
bool qc_known_outputs_settled(const struct qc_known_outputs *k); /* false where k is NULL */

/* Whether to keep outputs of a unit while nobody has asked for them. Trials ask for at most 256 units, those of the
   lowest keys: of a larger data set, of so many units, as many are kept as it takes to have those, so that memory does
   not grow with samples. */
bool qc_known_outputs_wanted(uint64_t key, size_t units);

/* Copies what a runner has made of the unit of this key, unless it is known, or there is no room for more. Nothing is
   kept where k is NULL. */
bool qc_known_outputs_keep(struct qc_known_outputs *k, uint64_t key, struct qc_runner *r, struct qc_status *st);
/* What is known of a unit, as long as k lives; NULL: nothing, or k is NULL. */
struct qc_known;
const struct qc_known *qc_known_outputs_find(struct qc_known_outputs *k, uint64_t key);
/* An output as the runner had it. */
struct qc_view qc_known_view(const struct qc_known *u, size_t output);
