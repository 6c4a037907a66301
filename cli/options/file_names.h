// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/arena.h"

/* Returns the last part of a path; borrowed. */
const char *qc_base_name(const char *path);

/* Returns the last part of a path without ".onnx" (any case) and similar suffixes, in arena a. */
char *qc_stem(struct qc_arena *a, const char *path, struct qc_status *st);

/* Returns the file beside a model for the placement chosen by --benchmark: "m.int8.onnx" gives
   "m.int8.placement.json". */
char *qc_placement_file(struct qc_arena *a, const char *model, struct qc_status *st);
