// SPDX-License-Identifier: Apache-2.0
/* The files that a job reads and those that it writes, which must differ. */
#pragma once

#include "base/arena.h"
#include "base/file.h"
#include "quantize/interface/inputs.h"
#include "quantize/options/options.h"

/* A list in an arena; zeroed at first, with the arena set. `what` is borrowed, paths are copied. */
struct qc_file_list {
    struct qc_arena *arena;
    struct qc_named_file *items;
    size_t count, room;
};

/* Adds a file; nothing if the path is NULL. */
bool qc_file_list_add(struct qc_file_list *l, const char *what, const char *path, struct qc_status *st);
/* Adds a model to be written, and the file beside it for large weights (onnx/write/emit.h). */
bool qc_file_list_add_model(struct qc_file_list *l, const char *path, struct qc_status *st);
/* Adds the files of a report, and the folder itself, which must not be an input file. */
bool qc_file_list_add_report(struct qc_file_list *l, const char *folder, struct qc_status *st);
/* Adds what --checkpoint writes and removes. */
bool qc_file_list_add_checkpoint(struct qc_file_list *l, const struct qc_options *o, struct qc_status *st);
/* Adds everything that the inputs and the options name: model, samples, statistics, rules, plugins, kernels. */
bool qc_file_list_add_inputs(struct qc_file_list *l, const struct qc_job_inputs *in, const struct qc_options *o,
                             struct qc_status *st);

/* Makes relative paths absolute, so that the list stays valid if the program changes its folder. */
bool qc_file_list_settle(struct qc_file_list *l, struct qc_status *st);

/* Fails with QC_USAGE, naming both, if an output is an input (also by a link, or as a sample in a folder of them) or
   another output. */
bool qc_file_list_apart(const struct qc_file_list *outputs, const struct qc_file_list *inputs, struct qc_status *st);
