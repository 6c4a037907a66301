// SPDX-License-Identifier: Apache-2.0
/* Graph -> ONNX model file. */
#pragma once

#include "graph/core/graph.h"

struct qc_onnx_property {
    const char *key, *value;
};

/* quantization_annotation of a tensor: SCALE_TENSOR, ZERO_POINT_TENSOR and, for channels, AXIS_TENSOR (int64, ours)
   name initializers "BASE_scale", "BASE_zero_point", "BASE_axis" that no node reads. int32 has no zero point. Strings
   and arrays are borrowed. */
struct qc_onnx_annotation {
    qc_id value; /* of the emitted graph */
    const char *base;
    enum qc_dtype dtype;
    size_t count;
    const float *scale;
    const int32_t *zero_point;
    int axis; /* below 0: one scale */
};

struct qc_onnx_emit_options {
    const char *producer_version; /* NULL: the version of this build; the producer is "qcalib" */
    const char *doc;              /* NULL: none */
    size_t property_count;
    const struct qc_onnx_property *properties; /* metadata_props, in this order */
    size_t annotation_count;
    const struct qc_onnx_annotation *annotations;
    const char *const *node_docs; /* NULL, or [node_count + 1]: doc_string of each node or NULL */
    int opset_min;                /* least opset; 0: none given */
    size_t external_from; /* qc_onnx_emit_file: if constants have more bytes than this in total, or the graph has
                             external data, they go into a file beside the model */
};

/* External data from 1.9 GB on: a protobuf is limited to 2 GB. */
#define QC_ONNX_EMIT_DEFAULTS ((struct qc_onnx_emit_options){.external_from = (size_t)1900 << 20})

/* Returns the opset of an emitted graph: the lowest that is at least 13, the opset of the original model and
   options->opset_min, and that has every operator, attribute and type in use. The IR version follows from it (opset 13:
   7, 15: 8, 19: 9, 21: 10). options may be NULL (defaults). */
int qc_onnx_emit_opset(const struct qc_graph *g, const struct qc_onnx_emit_options *options);

/* *bytes: the model with all constants inside; the caller frees it. The same graph gives the same bytes: nodes in graph
   order, constants in use in value order. Values keep their names. A graph output has its own name, if necessary
   through an Identity. Values without a name get one from their node. options may be NULL (defaults). Fails with
   QC_UNSUPPORTED if the graph has ops of ours (Quantize, Dequantize, Requantize) or affine values, which must be
   lowered first, or more than 2 GB (use qc_onnx_emit_file); with QC_MACHINE. */
bool qc_onnx_emit(void **bytes, size_t *size, const struct qc_graph *g, const struct qc_onnx_emit_options *options,
                  struct qc_status *st);

/* Writes the model to a file that appears only when complete. Constants beyond external_from bytes go to "<path>.data",
   one after the other as they lie in memory. Both files are synced to disk before the first is renamed. *bytes: total
   size, may be NULL. Fails as above and as base/file.h. */
bool qc_onnx_emit_file(size_t *bytes, const char *path, const struct qc_graph *g,
                       const struct qc_onnx_emit_options *options, struct qc_status *st);

/* *bytes: the largest possible size of these files; each external constant is counted with the longest possible name.
   Writes nothing. Fails as qc_onnx_emit, except for the limit of 2 GB. */
bool qc_onnx_emit_bytes(size_t *bytes, const struct qc_graph *g, const struct qc_onnx_emit_options *options,
                        struct qc_status *st);
