// SPDX-License-Identifier: Apache-2.0
/* Opens the model and the data of a job. */
#pragma once

#include "calib/metrics/accuracy.h"
#include "calib/statistics/stream.h"
#include "datasets/samples/dataset.h"
#include "graph/core/graph.h"
#include "onnx/read/import.h"
#include "quantize/interface/inputs.h"
#include "quantize/interface/warnings.h"
#include "quantize/options/options.h"
#include "rewrite/passes/float_types.h"

struct qc_model {
    const char *path; /* borrowed; the name of a model in memory */
    struct qc_graph *graph;
    struct qc_graph *imported; /* NULL, or the graph that `graph` was made from */
    bool widened;              /* `graph` is `imported` in float32 (qc_model_widen) */
    struct qc_graph *whole;    /* NULL, or the graph that was read, before qc_replace_products or without images */
    struct qc_graph *view; /* NULL, or the one of the three that shares nodes and values with a model at hand, but has
                              the budget of this job */
    struct qc_model_info info; /* in the arena of the imported graph */
};

/* Opens a model, with the memory limit of the options. A TensorFlow Lite model is recognized by its content. Warnings
   of the import go to w (may be NULL). Errors: as qc_onnx_import_with, qc_tflite_import; QC_BAD_INPUT for an HDF5 file.
 */
bool qc_model_open(struct qc_model *out, const struct qc_model_source *source, const struct qc_options *o,
                   struct qc_warnings *w, struct qc_status *st);
/* Fails with QC_UNSUPPORTED if the model has operators that are not in the graph; the message names all of them. */
bool qc_model_check_whole(const struct qc_model *m, struct qc_status *st);
/* Warns of carried operators. Fails with QC_UNSUPPORTED if the model has no others. */
bool qc_model_warn_carried(const struct qc_model *m, struct qc_warnings *w, struct qc_status *st);
/* Converts a model in 16-bit floats or double to float32 (rewrite/passes/float_types.h), in which it is calibrated,
   measured and compared. Call before qc_model_canonicalise. */
bool qc_model_widen(struct qc_model *m, enum qc_widening what, struct qc_status *st);
void qc_model_close(struct qc_model *m); /* NULL-safe; zeroed is fine */

/* CLASSES: sound labels are bound too. TRUTH: labels and target. */
enum qc_data_use { QC_USE_INPUTS, QC_USE_CLASSES, QC_USE_TRUTH };
enum qc_data_choice { QC_CHOOSE_ALL, QC_CHOOSE_SAMPLES };
/* RECORDED: g runs over the chosen samples in sequence, and its states are data like others */
enum qc_data_states { QC_STATES_FED_BACK, QC_STATES_RECORDED };

struct qc_data_request {
    enum qc_data_use use;
    enum qc_data_choice choose;
    enum qc_data_states states;
    const struct qc_team *team;   /* chooses the share of this process; NULL: all chosen samples */
    struct qc_progress *progress; /* of scanning images and of recording; may be NULL */
};

/* The options --preprocess and --image. */
struct qc_data_shaping {
    struct qc_preprocess preprocess;
    struct qc_image_options image;
};

/* Sets *out from the options, except --input and truth. *shaping, w and the arena must outlive *out. Warnings go to w
   (may be NULL). Fails with QC_USAGE. */
bool qc_model_data_options(struct qc_dataset_options *out, struct qc_data_shaping *shaping, const struct qc_options *o,
                           struct qc_warnings *w, struct qc_arena *a, struct qc_status *st);

/* Opens samples for the inputs of g with --input and --preprocess. For QC_CHOOSE_SAMPLES they are chosen by --samples,
   --seed and --shard. Warns of samples left over because the batch is fixed. Errors: as qc_dataset_open,
   qc_preprocess_parse. */
bool qc_model_data(struct qc_dataset **out, const struct qc_graph *g, const struct qc_data_source *source,
                   const struct qc_data_request *r, const struct qc_options *o, struct qc_warnings *w,
                   struct qc_status *st);

/* Chooses samples by --samples, --seed and --shard; with a team (may be NULL) the share of this process. */
bool qc_model_select(struct qc_dataset *data, const struct qc_options *o, const struct qc_team *team,
                     struct qc_status *st);
/* Restores the selection of the job (o NULL: all samples) after another one was in use. Call it also after an error:
   its own error replaces an earlier one, since the selection is wrong then. */
bool qc_model_select_again(struct qc_dataset *data, const struct qc_options *o, struct qc_status *st);

/* --state INPUT=OUTPUT: inputs that read an output of the step before (docs/states.md). */

/* Marks the specs of the inputs of g that --state names; free dims become those of the output where they are known.
   Other inputs of which an output may be the next state get `looks_like`. Fails with QC_USAGE for a name that the model
   does not have, for one that is given twice, and with --seed, which would draw the samples. */
bool qc_state_inputs(struct qc_input_spec *specs, const struct qc_graph *g, const struct qc_options *o,
                     struct qc_arena *a, struct qc_status *st);

/* Warns of each float input that is the same in all samples while an output has its type and shape: a state that was
   not recorded. Reads all samples of such an input. Ignores errors: the job itself reports them. */
void qc_warn_states(struct qc_warnings *w, const struct qc_graph *g, const struct qc_dataset *data);

/* Warnings about the samples: too few, or the same ones for calibration and evaluation. */

/* Warns if calibration has one sample only, and if --eval reads the data set of --data. samples: number of chosen
   samples of --data, 0 without --data. Errors: memory; a malformed FILE:DATASET. */
bool qc_warn_samples(struct qc_warnings *w, size_t samples, const struct qc_job_inputs *in, struct qc_arena *a,
                     struct qc_status *st);

/* Warns if a float model is no better than guessing: its samples are probably not preprocessed as in training. */

/* Warns if the best of `count` metrics is at chance level (qc_metric_is_chance_level). data: the file with the labels.
 */
void qc_warn_chance_level(struct qc_warnings *w, const struct qc_metric *const metrics[], size_t count,
                          const char *data);

/* Checks whether the data have the range of the training data, by the mean and variance stored in a batch norm near the
   input. */

/* Warns if the first samples of an input reach the first batch norm, directly or through one Conv or Gemm, with another
   standard deviation than it stores: 8 times as large, or 1/8, in the median of its channels. Without such a batch
   norm, warns if images have values like pixels and neither data nor options define a preprocessing. Ignores errors:
   the job itself reports them. */
void qc_warn_input_range(struct qc_warnings *w, const struct qc_graph *imported, const struct qc_dataset *data,
                         const struct qc_options *o);

/* Warns of each float32 input whose first samples have a standard deviation that is 4 times as large in one of the data
   as in the other, or means that are 3 deviations apart. Ignores errors, as above. */
void qc_warn_prepared_otherwise(struct qc_warnings *w, const struct qc_graph *g, const struct qc_dataset *data,
                                const struct qc_dataset *eval);
