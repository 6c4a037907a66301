// SPDX-License-Identifier: Apache-2.0
/* Work on models as they are: check, compare, inspect, run. */
#pragma once

#include "base/json.h"
#include "calib/metrics/compare.h"
#include "calib/statistics/statistics.h"
#include "calib/statistics/stream.h"
#include "quantize/interface/inputs.h"
#include "quantize/interface/warnings.h"
#include "quantize/options/options.h"
#include "quantize/setup/model.h"
#include "rewrite/canonical/canonical.h"
#include "simq/plan/plan.h"

/* Runs a model, float or quantized, over samples, for run, eval and compare. */

struct qc_model_run {
    struct qc_model model; /* in its produced form if quantized */
    struct qc_dataset *data;
    struct qc_plan *plan;
    struct qc_overflows overflows; /* valid after qc_model_run_units */
    unsigned workers;
    double seconds;
};

/* Opens the model and the samples chosen by --samples, --seed and --shard. w may be NULL. Fails like
   quantize/setup/model.h. */
bool qc_model_run_open(struct qc_model_run *out, const struct qc_model_source *model, const struct qc_data_source *data,
                       enum qc_data_use use, const struct qc_options *o, struct qc_warnings *w, struct qc_status *st);
void qc_model_run_close(struct qc_model_run *r); /* zeroed is fine */

/* Makes plan and workers by --threads and --memory-limit; the overflows are allocated from the arena. */
bool qc_model_run_plan(struct qc_model_run *r, const struct qc_settings *settings, struct qc_arena *a,
                       struct qc_status *st);

/* Runs all units; unit is called in the workers. Warnings about accumulators of `bits` bits go to w. */
bool qc_model_run_units(struct qc_model_run *r, qc_stream_unit_fn *unit, void *user, unsigned bits,
                        struct qc_progress *progress, struct qc_warnings *w, struct qc_status *st);

/* A quantized model in its canonical form, as used by run, eval, compare and convert. */

/* Name and summary for 'qcalib list passes'. */
#define QC_CANONICAL_PASS "canonical"
#define QC_CANONICAL_SUMMARY                                                                                           \
    "quantized models: QuantizeLinear, DequantizeLinear and QLinear operators become values with parameters; expand, " \
    "fold, "                                                                                                           \
    "realise follow"

struct qc_canonical_model {
    struct qc_lines notes;                 /* texts are held by `canonical` */
    struct qc_graph *canonical, *produced; /* before and after expand, fold and realise */
};

/* Brings a model to canonical and produced form. Fails if a pass or the check of a graph fails. */
bool qc_canonical_model_of(struct qc_canonical_model *out, const struct qc_graph *imported, struct qc_status *st);
void qc_canonical_model_free(struct qc_canonical_model *m); /* members may be NULL or zeroed */

/* If an opened model is quantized, replaces its graph by the produced form: groups of DequantizeLinear, op,
   QuantizeLinear then run as the integer operators that runtimes fuse them to. */
bool qc_model_canonicalise(struct qc_model *m, struct qc_status *st);

/* Judges a quantized model of any tool for a target (docs/check.md). */

/* Checks a model file for o->target, with the samples of `data` if there are any. *out, owned by the caller: "products"
   of the model and "integer_products" that the target computes in integers; "integer_share" of the multiply-adds and
   "latency", estimated, relative to the float model (null: unknown); "samples" that ran for saturation; "findings" by
   kind ("scale", "saturation", "fusion", "type", "form", "repeated", "unused"), name and text, in the order of the
   graph. o: of QC_COMMAND_check. Fails with QC_UNSUPPORTED if the model is not quantized or has unknown operators, or
   like qc_model_open. */
bool qc_check_model(struct qc_json **out, const char *file, const struct qc_data_source *data,
                    const struct qc_options *o, struct qc_progress *progress, struct qc_warnings *w,
                    struct qc_status *st);

/* Compares two models on the same samples, layer by layer. */

/* One layer: a result that exists in both graphs. */
struct qc_layer_pair {
    const char *name; /* name in the first graph, or in the second if the first has none; held by the graphs */
    enum qc_op op;    /* the op in the first graph */
    bool by_name;     /* else matched by order */
};

struct qc_layer_pairs {
    size_t count;
    struct qc_pair *values; /* [count], in the order of the second graph */
    struct qc_layer_pair *layers;
};

struct qc_compared_models {
    struct qc_model first, second;
    struct qc_plan_options how[2];
    bool contracts; /* a rounding was named for each graph */
    bool both;      /* ... or an accumulator */
    struct qc_dataset *data;
    struct qc_layer_pairs pairs;
    struct qc_comparison *result;
};

/* Opens both models, matches their layers and runs them. o: of QC_COMMAND_compare; its arena holds the pairs. out must
   be zeroed, and closed in any case. Fails with QC_USAGE; if the models take different inputs; or like opening and
   running them. */
bool qc_compare_models(struct qc_compared_models *out, const struct qc_model_source sources[2],
                       const struct qc_data_source *data, const struct qc_options *o, struct qc_progress *progress,
                       struct qc_warnings *w, struct qc_status *st);
void qc_compared_models_close(struct qc_compared_models *c);

/* Quantizes one model for two targets. */

struct qc_target_pair {
    const char *file[2];   /* temporary files of the quantized models, in QDQ form; NULL: not made */
    const char *rounding;  /* "A,B", for qc_compare_models */
    struct qc_json *of[2]; /* "target" and conventions that may differ between the targets, as texts */
};

/* Quantizes a float model for both targets of o->target, "A,B", from o->stats or else o->data, with o's options for the
   data. o: of QC_COMMAND_compare; its arena holds the texts. out is closed in any case. Fails with QC_USAGE if there
   are not two targets; or like the jobs, naming the target. */
bool qc_quantize_for_targets(struct qc_target_pair *out, const char *model, const struct qc_options *o,
                             struct qc_progress *progress, struct qc_warnings *w, struct qc_status *st);

/* Removes the files and frees the objects. */
void qc_target_pair_close(struct qc_target_pair *p);

/* The content of a model or of any file as a JSON object: `qcalib inspect` prints it, or a text of it. */

/* What else is in the object: all nodes and values of a model; of lists of scales only the first and their number, and
   what the text tells beside the object of --json. */
enum { QC_DESCRIBE_VALUES = 1, QC_DESCRIBE_FOR_TEXT = 2 };

/* Reads a report.json, which the caller owns. Fails with QC_BAD_INPUT if the file is not a report, or with QC_MACHINE.
 */
bool qc_report_read(struct qc_json **out, const char *path, struct qc_arena *a, struct qc_status *st);

/* *out: owned by the caller; "kind" is "model", "data", "statistics" or "report". Fails if memory is out. */
bool qc_describe_model(struct qc_json **out, const struct qc_model *m, unsigned more, struct qc_arena *a,
                       struct qc_status *st);

/* The same for a file, whose kind is found by its content, or the folder of a report. Warnings of a model's import go
   to w. Fails like qc_onnx_import_with, qc_data_list, qc_statistics_load, qc_report_read, or if the memory limit has no
   room for the file. */
bool qc_describe_file(struct qc_json **out, const char *path, const struct qc_options *o, unsigned more,
                      struct qc_warnings *w, struct qc_status *st);
