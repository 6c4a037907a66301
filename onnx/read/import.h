// SPDX-License-Identifier: Apache-2.0
/* ONNX model file -> graph. */
#pragma once

#include "base/file.h"
#include "graph/core/call.h"
#include "graph/core/model_info.h"

enum { QC_ONNX_OPSET_MIN = 7, QC_ONNX_OPSET_MAX = 28 };

/* Reads an ONNX model (opset 7 to 28, newer with a warning, any IR version) and brings it into the canonical form of
   graph/types/ops.def, whatever the opset of the file. *out is owned (qc_graph_free); info may be NULL.
   - Nodes that no output needs are left out. Identity, Dropout and other nodes that do nothing become aliases. Node
   names and tensor names are kept; a value behind an alias has the name of the graph output if it is one.
   - Initializers and Constant nodes become constants (QC_VALUE_CONSTANT), also when they are listed as graph inputs.
   - External data is read from regular files beside the model or below; absolute paths and ".." are refused, and
   symbolic links that lead out of the model's folder.
   - Attributes equal to their ONNX default, and kernel_shape of Conv and ConvTranspose when it is that of the weight,
   are dropped; perm of Transpose is always there (when the rank is known).
   - Dimensions of inputs that are named, missing, 0 or negative are free (QC_FREE); their names are in the ports.
   - value_info is ignored; declared output shapes that contradict the inferred ones give a warning.
   Errors: QC_BAD_INPUT empty, truncated, not a protobuf, another kind of file (which is named), damaged or inconsistent
   model (the node or tensor is named); QC_UNSUPPORTED lists every operator, domain and type that is not handled, or
   names the opset; QC_MACHINE memory and permissions. */
bool qc_onnx_import(struct qc_graph **out, struct qc_model_info *info, const char *path, struct qc_status *st);

/* The same, with a limit of memory: QC_MACHINE before more is taken than the process may hold. The budget of the graph
 * has the limit and the size of the file in any case. */
enum qc_unknown {
    QC_UNKNOWN_REFUSED, /* as qc_onnx_whole */
    QC_UNKNOWN_CARRIED  /* the graph is what can be computed, and holds the rest (graph/core/carried.h) */
};
struct qc_import_options {
    size_t memory_limit;     /* bytes; 0: none */
    enum qc_unknown unknown; /* what to do with operators and types that are not handled */
    enum qc_follow follow;   /* QC_FOLLOW_LINKS lets symbolic links lead external data out of the model's folder */
    const struct qc_custom_ops *custom; /* kernels of the user's own; NULL: none */
    const struct qc_expander *expander; /* of operators that are functions of others; NULL: they are not handled */
};
bool qc_onnx_import_with(struct qc_graph **out, struct qc_model_info *info, const char *path,
                         const struct qc_import_options *o, struct qc_status *st);

/* Is all of the model in the graph? QC_UNSUPPORTED names every operator that is not, and why. */
bool qc_onnx_whole(const struct qc_graph *g, struct qc_status *st);

/* The same from memory; folder is that of external data (NULL: external data is an error). */
bool qc_onnx_import_memory(struct qc_graph **out, struct qc_model_info *info, const void *bytes, size_t size,
                           const char *folder, struct qc_status *st);
bool qc_onnx_import_memory_with(struct qc_graph **out, struct qc_model_info *info, const void *bytes, size_t size,
                                const char *folder, const struct qc_import_options *o, struct qc_status *st);
