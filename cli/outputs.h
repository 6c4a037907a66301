// SPDX-License-Identifier: Apache-2.0
/* Checks before any computation that no output of a command is one of its inputs, and that no two outputs are the same
   file. */
#pragma once

#include "base/arena.h"
#include "cli/options/command_line.h"
#include "export/formats/exporter.h"
#include "quantize/setup/job_files.h"

/* Lists the outputs, in the arena of the options, and checks them against the operands and every file that an option
   names. paths: of the results; report: the folder, NULL for none; files named by --dump, --checkpoint and --html are
   added. Fails with QC_USAGE; also if a path has the suffix .npy or .npz, files of which no command writes. Files of
   the model are checked after it is read: quantize/setup/model.h. */
bool qc_outputs_apart(struct qc_file_list *out, const char *const *paths, size_t count, const char *report,
                      const struct qc_cli_options *o, struct qc_status *st);

/* Returns the last part of a path; borrowed. */
const char *qc_base_name(const char *path);

/* Returns the last part of a path without ".onnx" (any case) and similar suffixes, in arena a. */
char *qc_stem(struct qc_arena *a, const char *path, struct qc_status *st);

/* Returns the word for a type of weights in names of files, in arena a: the type without its sign, "fp8" or "fp4";
   "int8" for none. */
char *qc_weight_type_word(struct qc_arena *a, const char *type, struct qc_status *st);

/* Returns the name that an exporter gives to the file of a model, in arena a: "net" with the word "int4" gives
   "net.int4.onnx" or "net.qoperator.onnx". */
char *qc_exported_name(struct qc_arena *a, const char *stem, const char *word, const struct qc_exporter *e,
                       struct qc_status *st);

/* Sets *stem to the stem of a quantized model without the last word, if this is the form or the type of weights that
   qc_exported_name has added, and *word to that type, or "int8". Both are in arena a. */
bool qc_quantized_stem(const char **stem, const char **word, struct qc_arena *a, const char *path,
                       struct qc_status *st);

/* Returns the file beside a model for the placement chosen by --benchmark: "m.int8.onnx" gives
   "m.int8.placement.json". */
char *qc_placement_file(struct qc_arena *a, const char *model, struct qc_status *st);
