// SPDX-License-Identifier: Apache-2.0
/* User-defined operators (include/qcalib/qcalib_kernel.h). Their nodes have op Custom, with the attributes of the
   file followed by three of ours. */
#pragma once

#include "graph/core/graph.h"
#include "include/qcalib/qcalib_kernel.h"

/* Attributes that identify the operator of a Custom node: its domain and name, and the version of the domain in the
   file. */
#define QC_CUSTOM_DOMAIN "qcalib.domain"
#define QC_CUSTOM_OP "qcalib.op"
#define QC_CUSTOM_VERSION "qcalib.version"
/* Of a node that is only written to a file and has no kernel: for each output its type (enum qc_dtype), rank and
   dimensions, as QC_ATTR_INTS. */
#define QC_CUSTOM_TYPES "qcalib.types"
enum { QC_CUSTOM_ATTRS = 3 };
bool qc_custom_is_own(const struct qc_attr *a); /* one of these attributes? */

/* Returns "com.acme::Scale", or the name of another op, in the arena; NULL if out of memory. */
const char *qc_custom_name(const struct qc_node *n, struct qc_arena *a, struct qc_status *st);

struct qc_custom_ops *qc_custom_ops_new(struct qc_status *st);
struct qc_custom_ops *qc_custom_ops_ref(const struct qc_custom_ops *c); /* NULL gives NULL */
void qc_custom_ops_unref(struct qc_custom_ops *c); /* NULL-safe; the last reference unloads the files */

/* Loads a file. A path without '/' refers to the current folder. Fails with QC_BAD_INPUT, naming the file: not a
   shared object, no qcalib_kernel_entry, another ABI, a missing function, an operator that is already loaded. */
bool qc_custom_ops_load(struct qc_custom_ops *c, const char *file, struct qc_status *st);

/* Returns the kernel of an operator of the file, "com.acme::Scale" or "Scale" in the default domain; NULL if there
   is none. c may be NULL. */
const struct qcalib_kernel *qc_custom_find(const struct qc_custom_ops *c, const char *op);
/* Returns the kernel of a Custom node of the graph. Fails if there is none (QC_UNSUPPORTED). */
bool qc_custom_kernel(const struct qcalib_kernel **out, const struct qc_graph *g, const struct qc_node *n,
                      struct qc_status *st);

/* Makes the call for a node: attributes, types and shapes of the tensors as in the graph, and data of constant
   inputs. Outputs are zeroed, of unknown rank. Allocated in the arena. */
bool qc_custom_call(struct qcalib_kernel_call *out, const struct qc_graph *g, const struct qc_node *n,
                    struct qc_arena *a, struct qc_status *st);
