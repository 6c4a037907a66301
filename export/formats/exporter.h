// SPDX-License-Identifier: Apache-2.0
/* Exporters: write the quantized graph to files, as ONNX operators or in another form. */
#pragma once

#include "graph/core/graph.h"
#include "rewrite/language/target.h"

struct qc_json;

/* The graphs to export. */
struct qc_export_source {
    const struct qc_graph
        *produced; /* integers, folded (rewrite/passes/simulate.h: qc_to_integer); every quantizer is bound */
    const struct qc_graph *expanded; /* the same before folding, with all ops of the model; NULL if a quantized model is
                                        converted */
};

struct qc_lower_options {
    int accuracy_level;          /* of MatMulNBits: precision of the runtime; 0: its own choice, 1 float32, 4 int8 */
    bool caches;                 /* inputs and outputs that are quantized caches have the type they are stored in */
    const struct qc_graph *real; /* NULL, or the normalised float graph: operators that it holds as functions are
                                    written again (export/formats/restored_calls.c) */
    const struct qc_graph *own;  /* NULL, or the graph whose float types `produced` has (qc_narrow_floats) */
    /* NULL: qc_target_plain. Biases of QDQ have its form; of 8 bits only if qc_short_bias_shift holds them exactly. A
       table that is also a matrix is written twice for another runtime than ONNX Runtime: it may not compute a
       Transpose of integers when it loads the file. */
    const struct qc_target *target;
};

/* A build without TensorFlow Lite has no such exporter. */
#ifdef QC_WITHOUT_TFLITE
#define QC_EXPORTER_TFLITE(X, c)
#else
#define QC_EXPORTER_TFLITE(X, c) X(c, tflite, "tflite")
#endif

/* X(c, symbol, name): each is a `const struct qc_exporter qc_exporter_SYMBOL` at the end of its own file. */
#define QC_EXPORTERS(X, c)                                                                                             \
    X(c, qdq, "qdq")                                                                                                   \
    X(c, qoperator, "qoperator")                                                                                       \
    X(c, annotated, "annotated")                                                                                       \
    X(c, encodings, "encodings")                                                                                       \
    X(c, mnn, "mnn") X(c, trt_cache, "trt-cache") X(c, text, "text") QC_EXPORTER_TFLITE(X, c)

struct qc_exporter {
    const char *summary;
    const char *suffix; /* of the output file, after the model's stem: ".int8.onnx" */
    /* Lowers affine values to ONNX operators; every quantizer must be bound. options NULL: all 0. *out is owned. If the
       member is NULL, `write` makes the file. */
    bool (*lower)(struct qc_graph **out, const struct qc_graph *produced, const struct qc_lower_options *options,
                  struct qc_status *st);
    /* Writes the file; NULL: the lowered graph as ONNX. bytes, errors: as of qc_onnx_emit_file. */
    bool (*write)(size_t *bytes, const char *path, const struct qc_export_source *source, struct qc_status *st);
};

/* Replaces functions in a lowered graph and its bodies that ONNX Runtime does not compute in a file of its opset. */
bool qc_lower_functions(struct qc_graph **io, struct qc_status *st);

/* Writes the file of an exporter. lowered: the result of its `lower`, if it has one. The file appears only when
   complete. bytes: as in qc_onnx_emit_file. */
bool qc_export_file(size_t *bytes, const char *path, const struct qc_exporter *e, const struct qc_export_source *source,
                    const struct qc_graph *lowered, struct qc_status *st);

/* *bytes: the size of that file, without writing it (qc_onnx_emit_bytes). e->lower must not be NULL. */
bool qc_export_bytes(size_t *bytes, const struct qc_exporter *e, const struct qc_graph *lowered, struct qc_status *st);

/* Returns the approximate size of a weight of this shape in a file, with its scales and zero points. s: bound. */
size_t qc_export_weight_bytes(const struct qc_qparams *s, const struct qc_shape *shape);

/* Fails if the source has no float model: its parameters could not be named. */
bool qc_export_has_float(const struct qc_export_source *source, struct qc_status *st);

/* Writes a text, or the text of a tree that may have run out of memory, to a file. The file appears only when complete.
 */
bool qc_export_json(size_t *bytes, const char *path, const struct qc_json *root, struct qc_status *st);

size_t qc_exporter_count(void);
const struct qc_exporter *qc_exporter_at(size_t i);
const struct qc_exporter *qc_exporter_find(const char *name); /* NULL if unknown */
const char *qc_exporter_name(const struct qc_exporter *e);
