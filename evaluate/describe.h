// SPDX-License-Identifier: Apache-2.0
/* What is in a model or in a file of any kind: a summary of which `qcalib inspect` prints text, and the JSON object of
   `inspect --json`. */
#pragma once

#include "base/json.h"
#include "calib/statistics/statistics.h"
#include "quantize/opening/model.h"

/* A value that a DequantizeLinear reads with constant parameters. */
struct qc_quantized_value {
    const struct qc_graph *graph; /* the model's, or a body of a node */
    qc_id value;
    enum qc_dtype dtype;
    const struct qc_tensor *scale, *zero_point; /* zero_point may be NULL: 0 */
    bool weight;
};

/* An input or output of the model, whether the graph has it or it belongs to what is not handled. */
struct qc_shown_port {
    const char *name, *type;
    const struct qc_shape *shape;
    const char *const *symbols; /* NULL: no names of dimensions */
};

struct qc_shown_ports {
    size_t count;
    struct qc_shown_port *of;
};

struct qc_model_summary {
    struct qc_shown_ports inputs, outputs;
    size_t ops[QC_OP_COUNT];
    uint64_t parameters, parameter_bytes, macs;
    size_t nodes; /* in bodies too */
    bool macs_known;
    size_t quantized_count, weights, activations, per_channel;
    struct qc_quantized_value *quantized;
    size_t products, saturating, unknown; /* of int8 weights, those that can saturate on x86 without VNNI, and those not
                                             examined (graph/core/pair_proof.h); 0: it is not quantized, or not
                                             handled */
};

/* All of it lives in the arena or belongs to the graph. */
bool qc_model_summarise(struct qc_model_summary *out, const struct qc_graph *g, struct qc_arena *a,
                        struct qc_status *st);
int qc_quantized_zero_point(const struct qc_quantized_value *q, size_t i);

enum qc_inspected { QC_INSPECTED_MODEL, QC_INSPECTED_DATA, QC_INSPECTED_STATISTICS, QC_INSPECTED_REPORT };

/* What a file is, by its content. *path becomes the report of a folder that is one. Errors: QC_BAD_INPUT: JSON that is
   no report; QC_MACHINE. */
bool qc_inspected_kind(enum qc_inspected *kind, const char **path, struct qc_arena *a, struct qc_status *st);

/* A report.json. Owned by the caller. Errors: QC_BAD_INPUT: not one; QC_MACHINE. */
bool qc_report_read(struct qc_json **out, const char *path, struct qc_arena *a, struct qc_status *st);

/* JSON objects, owned by the caller; NULL when memory is out. values: all nodes and values of the graph too. */
struct qc_json *qc_describe_model(const struct qc_model *m, const struct qc_model_summary *s, bool values,
                                  struct qc_arena *a, struct qc_status *st);

/* The same of a file of any kind. Warnings of a model's import go to w. Errors: as qc_onnx_import, qc_data_list,
   qc_statistics_load, qc_report_read. */
bool qc_describe_file(struct qc_json **out, const char *path, const struct qc_options *o, bool values,
                      struct qc_warnings *w, struct qc_status *st);
