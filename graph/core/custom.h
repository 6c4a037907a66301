// SPDX-License-Identifier: Apache-2.0
/* Operators of the user's own (include/qcalib/qcalib_kernel.h): a node of one is op Custom, with the attributes of the
   file and three of ours behind them. */
#pragma once

#include "graph/core/graph.h"
#include "include/qcalib/qcalib_kernel.h"

/* Attributes that say which operator a Custom node is: texts, and the version of the domain in the file. */
#define QC_CUSTOM_DOMAIN "qcalib.domain"
#define QC_CUSTOM_OP "qcalib.op"
#define QC_CUSTOM_VERSION "qcalib.version"
enum { QC_CUSTOM_ATTRS = 3 };
bool qc_custom_is_own(const struct qc_attr *a); /* one of these? */

/* "com.acme::Scale"; of another op its name. In the arena; NULL when memory is out. */
const char *qc_custom_name(const struct qc_node *n, struct qc_arena *a, struct qc_status *st);

struct qc_custom_ops *qc_custom_ops_new(struct qc_status *st);
struct qc_custom_ops *qc_custom_ops_ref(const struct qc_custom_ops *c); /* NULL gives NULL */
void qc_custom_ops_unref(struct qc_custom_ops *c);                      /* NULL-safe; with the last the files go */

/* Loads a file. A path without '/' is one of the current folder. Errors (QC_BAD_INPUT) name the file and what is wrong:
   not a shared object, no qcalib_kernel_entry, another ABI, a missing function, an operator that there is already. */
bool qc_custom_ops_load(struct qc_custom_ops *c, const char *file, struct qc_status *st);

/* By the name of a file's operator, "com.acme::Scale" or "Scale" in the default domain. NULL: none; c may be NULL. */
const struct qcalib_kernel *qc_custom_find(const struct qc_custom_ops *c, const char *op);
/* Of a Custom node of the graph. Errors: there is none (QC_UNSUPPORTED). */
bool qc_custom_kernel(const struct qcalib_kernel **out, const struct qc_graph *g, const struct qc_node *n,
                      struct qc_status *st);

/* The call for a node: attributes, and of the tensors types and shapes as the graph has them; data of constant inputs.
   Outputs are zeroed, of unknown rank. In the arena. */
bool qc_custom_call(struct qcalib_kernel_call *out, const struct qc_graph *g, const struct qc_node *n,
                    struct qc_arena *a, struct qc_status *st);
