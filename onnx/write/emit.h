// SPDX-License-Identifier: Apache-2.0
/* Graph -> ONNX model file. */
#pragma once

#include "graph/core/graph.h"

struct qc_onnx_property {
    const char *key, *value;
};

/* quantization_annotation of a tensor: SCALE_TENSOR and ZERO_POINT_TENSOR, and AXIS_TENSOR (int64, ours) where there
   are channels, name initializers "BASE_scale", "BASE_zero_point", "BASE_axis" that no node reads. int32 has no zero
   point. Strings and arrays are borrowed. */
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
    int opset_min;                /* the opset is at least this; 0: no demand */
    size_t external_from; /* qc_onnx_emit_file: constants of more bytes than this in all go into a file beside the
                             model, and in any case those of a graph with external data */
};

/* External data from 1.9 GB on: a protobuf ends at 2 GB. */
#define QC_ONNX_EMIT_DEFAULTS ((struct qc_onnx_emit_options){.external_from = (size_t)1900 << 20})

/* The opset a graph is emitted with: the lowest that is at least 13, at least that of the model it came from, at least
   options->opset_min, and holds every operator, attribute and type in use. The IR version follows from it (opset 13: 7,
   15: 8, 19: 9, 21: 10). options may be NULL (defaults). */
int qc_onnx_emit_opset(const struct qc_graph *g, const struct qc_onnx_emit_options *options);

/* The bytes of the model, owned by the caller (free). All constants are inside. The same graph gives the same bytes:
   nodes in graph order, constants in value order and only those in use. Values keep their names; a graph output has its
   own name, if need be through an Identity; values without a name get one from their node. options may be NULL
   (defaults). Errors: QC_UNSUPPORTED when the graph holds ops of ours (Quantize, Dequantize, Requantize) or affine
   values, which have to be lowered first; more than 2 GB (use qc_onnx_emit_file); QC_MACHINE. */
bool qc_onnx_emit(void **bytes, size_t *size, const struct qc_graph *g, const struct qc_onnx_emit_options *options,
                  struct qc_status *st);

/* Writes the model to a file that appears only when complete; constants beyond external_from bytes go to "<path>.data",
   one after the other as they lie in memory. Both are whole on the disk before the first of them gets its name.
   *bytes: of the files; may be NULL. Errors: as above and those of base/file.h. */
bool qc_onnx_emit_file(size_t *bytes, const char *path, const struct qc_graph *g,
                       const struct qc_onnx_emit_options *options, struct qc_status *st);

/* How many bytes these files have at most: of external data as long a name as there can be is counted for each
   constant. Nothing is written. Errors: as qc_onnx_emit, but for the limit of 2 GB. */
bool qc_onnx_emit_bytes(size_t *bytes, const struct qc_graph *g, const struct qc_onnx_emit_options *options,
                        struct qc_status *st);
