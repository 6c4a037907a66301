// SPDX-License-Identifier: Apache-2.0
/* Opening what the command line names: a model by its content, data bound to its inputs. */
#ifndef QC_CLI_MODEL_H
#define QC_CLI_MODEL_H

#include "calib/stream.h"
#include "cli/options.h"
#include "cli/warnings.h"
#include "graph/graph.h"
#include "onnx/import.h"

struct qc_model {
    const char *path; /* borrowed */
    struct qc_graph *graph;
    struct qc_graph *imported;  /* NULL, or what the graph was made from */
    struct qc_model_info info; /* lives in the arena of the imported graph */
};

/* --follow-links */
enum qc_follow qc_model_follow(const struct qc_cli_options *o);

/* Errors: as qc_onnx_import; a data or report file is named as such. Warnings of the import go to w (may be NULL). */
bool qc_model_open(struct qc_model *out, const char *path, const struct qc_cli_options *o, struct qc_warnings *w, struct qc_status *st);
/* Is there a model's arithmetic that only float32 is computed for? Errors: what computes in float16 (QC_UNSUPPORTED); inspect and convert do without. */
bool qc_model_check_types(const struct qc_model *m, struct qc_status *st);
void qc_model_close(struct qc_model *m); /* NULL-safe; zeroed is fine */

enum qc_data_use { QC_USE_INPUTS, QC_USE_TRUTH }; /* TRUTH: labels and target are bound too */

/* Opens FILE[:DATASET] for the inputs of g with --input and --preprocess; samples chosen by --samples, --seed and --shard when `choose` says so.
   Samples left over because of a fixed batch are a warning. Errors: as qc_dataset_open, qc_preprocess_parse. */
enum qc_data_choice { QC_CHOOSE_ALL, QC_CHOOSE_SAMPLES };
bool qc_model_data(struct qc_dataset **out, const struct qc_graph *g, const char *file, enum qc_data_use use,
                   enum qc_data_choice choose, const struct qc_cli_options *o, struct qc_warnings *w,
                   struct qc_status *st);

/* Chooses samples by --samples, --seed and --shard; OWN: of these, the share of this process where several do the work. */
enum qc_data_share { QC_SHARE_ALL, QC_SHARE_OWN };
bool qc_model_select(struct qc_dataset *data, const struct qc_cli_options *o, enum qc_data_share share, struct qc_status *st);

/* Last part of a path; borrowed. */
const char *qc_base_name(const char *path);

/* Last part of a path without ".onnx" (any case) and the like; in arena a. */
char *qc_stem(struct qc_arena *a, const char *path, struct qc_status *st);

#endif
