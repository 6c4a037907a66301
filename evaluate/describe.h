// SPDX-License-Identifier: Apache-2.0
/* The content of a model or of any file: the summary that `qcalib inspect` prints, and the JSON object of `inspect
   --json`. */
#pragma once

#include "base/json.h"
#include "calib/statistics/statistics.h"
#include "quantize/setup/model.h"

/* A value read by a DequantizeLinear with constant parameters. */
struct qc_quantized_value {
    const struct qc_graph *graph; /* the model's graph, or a body of a node */
    qc_id value;
    enum qc_dtype dtype;
    const struct qc_tensor *scale, *zero_point; /* zero_point may be NULL: 0 */
    bool weight;
};

/* An input or output of the model, in the graph or in its unsupported part. */
struct qc_shown_port {
    const char *name, *type;
    const struct qc_shape *shape;
    const char *const *symbols; /* NULL: dimensions have no names */
};

struct qc_shown_ports {
    size_t count;
    struct qc_shown_port *of;
};

struct qc_model_summary {
    struct qc_shown_ports inputs, outputs;
    size_t ops[QC_OP_COUNT];
    uint64_t parameters, parameter_bytes, macs;
    size_t nodes; /* including bodies */
    bool macs_known;
    size_t quantized_count, weights, activations, per_channel;
    struct qc_quantized_value *quantized;
    size_t products, saturating, unknown; /* products with int8 weights, those that can saturate on x86 without VNNI,
                                             those not examined (graph/core/pair_order.h); 0: the model is not quantized
                                             or not supported */
};

/* The summary is in the arena or belongs to the graph. */
bool qc_model_summarise(struct qc_model_summary *out, const struct qc_graph *g, struct qc_arena *a,
                        struct qc_status *st);
int qc_quantized_zero_point(const struct qc_quantized_value *q, size_t i);

enum qc_inspected { QC_INSPECTED_MODEL, QC_INSPECTED_DATA, QC_INSPECTED_STATISTICS, QC_INSPECTED_REPORT };

/* Finds the kind of a file by its content. If *path is the folder of a report, it becomes the path of the report. Fails
   with QC_MACHINE, also if the memory limit has no room for the file. */
bool qc_inspected_kind(enum qc_inspected *kind, const char **path, const struct qc_options *o, struct qc_status *st);

/* Reads a report.json, which the caller owns. Fails with QC_BAD_INPUT if the file is not a report, or with QC_MACHINE.
 */
bool qc_report_read(struct qc_json **out, const char *path, struct qc_arena *a, struct qc_status *st);

/* Returns a JSON object owned by the caller, or NULL if memory is out. values: include all nodes and values of the
   graph. */
struct qc_json *qc_describe_model(const struct qc_model *m, const struct qc_model_summary *s, bool values,
                                  struct qc_arena *a, struct qc_status *st);

/* The same for a file of any kind. Warnings of a model's import go to w. Fails like qc_onnx_import, qc_data_list,
   qc_statistics_load, qc_report_read. */
bool qc_describe_file(struct qc_json **out, const char *path, const struct qc_options *o, bool values,
                      struct qc_warnings *w, struct qc_status *st);
