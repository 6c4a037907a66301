// SPDX-License-Identifier: Apache-2.0
/* Opening what a job works on: a model by its content, data bound to its inputs. */
#pragma once

#include "calib/statistics/stream.h"
#include "graph/core/graph.h"
#include "onnx/read/import.h"
#include "quantize/interface/inputs.h"
#include "quantize/interface/progress.h"
#include "quantize/interface/warnings.h"
#include "quantize/options/options.h"
#include "rewrite/passes/float_types.h"

struct qc_model {
    const char *path; /* borrowed; of a model in memory what it is called */
    struct qc_graph *graph;
    struct qc_graph *imported; /* NULL, or what the graph was made from */
    bool widened;              /* the graph is `imported` in float32 (qc_model_widen) */
    struct qc_graph *view; /* NULL, or that of the two which is of a model at hand: the same nodes and values, with this
                              job's budget */
    struct qc_model_info info; /* lives in the arena of the imported graph */
};

/* The limit of memory is that of the options. A TensorFlow Lite model is known by its content. Errors: as
 * qc_onnx_import, qc_tflite_import; a data or report file is named as such. Warnings of the import go to w (may be
 * NULL). */
bool qc_model_open(struct qc_model *out, const struct qc_model_source *source, const struct qc_options *o,
                   struct qc_warnings *w, struct qc_status *st);
/* Is all of the model in the graph? Errors: QC_UNSUPPORTED names every operator that is not. */
bool qc_model_check_whole(const struct qc_model *m, struct qc_status *st);
/* Says what is carried through. Errors: QC_UNSUPPORTED: there is nothing else. */
bool qc_model_warn_carried(const struct qc_model *m, struct qc_warnings *w, struct qc_status *st);
/* A model that computes in 16-bit floats, or in double, becomes one in float32 (rewrite/passes/float_types.h): what is
 * calibrated, measured and compared. Before qc_model_canonicalise. */
bool qc_model_widen(struct qc_model *m, enum qc_widening what, struct qc_status *st);
void qc_model_close(struct qc_model *m); /* NULL-safe; zeroed is fine */

enum qc_data_use { QC_USE_INPUTS, QC_USE_TRUTH }; /* TRUTH: labels and target are bound too */
enum qc_data_choice { QC_CHOOSE_ALL, QC_CHOOSE_SAMPLES };

struct qc_data_request {
    enum qc_data_use use;
    enum qc_data_choice choose;
    const struct qc_team *team;   /* NULL, or of the chosen samples the share of this process */
    struct qc_progress *progress; /* told while images are looked at; NULL: nobody listens */
};

/* What --preprocess and --image say. */
struct qc_data_shaping {
    struct qc_preprocess preprocess;
    struct qc_image_options image;
};

/* How data are read, as the options say but for --input and truth; *shaping, w and the arena have to live as long as
 *out. Warnings go to w (NULL: to nobody). QC_USAGE. */
bool qc_model_data_options(struct qc_dataset_options *out, struct qc_data_shaping *shaping, const struct qc_options *o,
                           struct qc_warnings *w, struct qc_arena *a, struct qc_status *st);

/* Opens samples for the inputs of g with --input and --preprocess; chosen by --samples, --seed and --shard when the
   request says so. Samples left over because of a fixed batch are a warning. Errors: as qc_dataset_open,
   qc_preprocess_parse. */
bool qc_model_data(struct qc_dataset **out, const struct qc_graph *g, const struct qc_data_source *source,
                   const struct qc_data_request *r, const struct qc_options *o, struct qc_warnings *w,
                   struct qc_status *st);

/* Chooses samples by --samples, --seed and --shard; of these the share of this process where a team (NULL: none) does
 * the work. */
bool qc_model_select(struct qc_dataset *data, const struct qc_options *o, const struct qc_team *team,
                     struct qc_status *st);
/* Chooses the samples of the job again (o NULL: all of the file), after some of them were chosen for a while. To be
   called whatever became of that: its own error takes the place of an earlier one, since the samples are others. */
bool qc_model_select_again(struct qc_dataset *data, const struct qc_options *o, struct qc_status *st);
