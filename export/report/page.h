// SPDX-License-Identifier: Apache-2.0
/* The viewer (export/report/viewer) with a record in it: a page without links to other files. */
#pragma once

#include <stddef.h>

#include "base/json.h"

/* Returns the page of a record: a report, a comparison of models ("kind": "comparison") or of two reports ("kind":
   "difference"). Of a report's "timing" only "benchmark" is in the page, so the same inputs and options give the same
   bytes. The caller frees it. Returns NULL with a status if memory runs out. */
char *qc_page(size_t *size, const struct qc_json *record, struct qc_status *st);
