// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "base/arena.h"

/* Last part of a path; borrowed. */
const char *qc_base_name(const char *path);

/* Last part of a path without ".onnx" (any case) and the like; in arena a. */
char *qc_stem(struct qc_arena *a, const char *path, struct qc_status *st);

/* The file beside a model for the placement that --benchmark chose: "m.int8.onnx" gives "m.int8.placement.json". */
char *qc_placement_file(struct qc_arena *a, const char *model, struct qc_status *st);
