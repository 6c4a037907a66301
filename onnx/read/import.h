// SPDX-License-Identifier: Apache-2.0
/* ONNX model file -> graph. */
#pragma once

#include "base/file.h"
#include "graph/core/call.h"
#include "graph/core/model_info.h"

enum { QC_ONNX_OPSET_MIN = 7, QC_ONNX_OPSET_MAX = 28 };

enum qc_unknown {
    QC_UNKNOWN_REFUSED, /* as qc_onnx_whole */
    QC_UNKNOWN_CARRIED  /* the graph holds the operators that qcalib computes, and carries the others
                           (graph/core/carried.h) */
};
struct qc_import_options {
    size_t memory_limit;     /* bytes; 0: none */
    enum qc_unknown unknown; /* what to do with unsupported operators and types */
    enum qc_follow follow;   /* QC_FOLLOW_LINKS lets symbolic links lead external data out of the model's folder */
    const struct qc_custom_ops *custom; /* custom kernels; NULL: none */
    const struct qc_expander *expander; /* expands operators that are functions of others; NULL: they are not
                                           supported */
    bool indices_for_texts; /* for a graph that is only run: labels that are texts become their indices, constant texts
                               0, 1, 2, ..., and a ZipMap its scores */
};
#define QC_IMPORT_INIT ((struct qc_import_options){.memory_limit = 0})

/* Reads an ONNX model (opset 7 to 28, newer with a warning, any IR version) and converts it to the canonical form of
   graph/types/ops.def, which does not depend on the opset. *out is owned (qc_graph_free); info may be NULL.
   - Nodes that no output needs are omitted. Identity, Dropout and other nodes without effect become aliases. Names of
     nodes and tensors are kept; a value behind an alias has the name of the graph output if it is one.
   - Initializers and Constant nodes become constants (QC_VALUE_CONSTANT), also if they are listed as graph inputs.
   - External data is read from regular files in the model's folder or below. Absolute paths, ".." and symbolic links
     that lead out of the folder are refused.
   - Attributes equal to their ONNX default, and a kernel_shape of Conv and ConvTranspose equal to the weight's, are
     dropped. Transpose always has perm if the rank is known.
   - Dimensions of inputs that are named, missing, 0 or negative are free (QC_FREE); their names are in the ports.
   - value_info is ignored; declared output shapes that contradict the inferred ones give a warning.
   Errors: QC_BAD_INPUT for an empty, truncated, damaged or inconsistent model (the message names the node or tensor),
   for data that are no protobuf, and for another kind of file (the message names the kind); QC_UNSUPPORTED for an
   opset, and for operators, domains and types, all of which are listed; QC_MACHINE for memory and permissions, and
   before it takes more memory than the limit. The budget of the graph has the limit and the size of the file. */
bool qc_onnx_import_with(struct qc_graph **out, struct qc_model_info *info, const char *path,
                         const struct qc_import_options *o, struct qc_status *st);

/* Returns true if the graph carries no part. Else fails (QC_UNSUPPORTED), naming every carried operator and why. */
bool qc_onnx_whole(const struct qc_graph *g, struct qc_status *st);

/* As qc_onnx_import_with, from memory. folder: of external data (NULL: external data is an error). */
bool qc_onnx_import_memory_with(struct qc_graph **out, struct qc_model_info *info, const void *bytes, size_t size,
                                const char *folder, const struct qc_import_options *o, struct qc_status *st);
