// SPDX-License-Identifier: Apache-2.0
/* Warnings of one run: collected and grouped. */
#pragma once

#include <stddef.h>

#include "base/json.h"
#include "base/status.h"

struct qc_warnings;

bool qc_warnings_new(struct qc_warnings **out, struct qc_status *st);
void qc_warnings_free(struct qc_warnings *w); /* NULL-safe */

/* Adds a warning; arguments as printf. A repeated text only raises its count. If memory is exhausted, the warning is
   lost, which qc_warnings_lost tells. */
void qc_warn(struct qc_warnings *w, const char *fmt, ...) QC_PRINTF(2, 3);
bool qc_warnings_lost(const struct qc_warnings *w);

/* Removes the texts from .. to - 1. */
void qc_warnings_drop(struct qc_warnings *w, size_t from, size_t to);

/* Distinct texts, in the order of their first occurrence. */
size_t qc_warnings_count(const struct qc_warnings *w);
const char *qc_warnings_text(const struct qc_warnings *w, size_t i);
size_t qc_warnings_times(const struct qc_warnings *w, size_t i);
/* Returns the texts as a list, owned by the caller. */
struct qc_json *qc_warnings_json(const struct qc_warnings *w);
