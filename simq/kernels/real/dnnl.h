// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: the compute library (oneDNN, v2.6 or v3), behind this header alone. float32 only, nothing less precise
   inside. A qc_dnnl is one primitive with its packed constants: made once per step, shared by workers, never changed. A
   qc_dnnl_bound is its binding to the memory of one runner. Primitives are made for one thread and
   run on one: the caller of qc_dnnl_open and qc_dnnl_run sees to it (qc_pool_hold). */
#ifndef QC_SIMQ_KERNELS_REAL_DNNL_H
#define QC_SIMQ_KERNELS_REAL_DNNL_H

#include "graph/core/infer.h"
#include "simq/core/packed.h"
#include "simq/core/view.h"

struct qc_dnnl;
struct qc_dnnl_bound;

/* What happens to a result before it is written, in this order. */
struct qc_dnnl_tail {
    bool sum;     /* the output's memory holds numbers that are added */
    float lo, hi; /* then clamped; -INFINITY and INFINITY: not at all */
};

/* packs: where packed weights are kept; NULL: by the primitive itself. */
/* Views as ONNX has them: src [N,C,...], weights [M,C/groups,...] (transposed: [C,M/groups,...]), bias [M] or NULL, dst
   [N,M,...]. Channels-last src and dst are fast, other strides work. Constant weights (data set) are packed here, and
   so is a constant bias. Source: ONNX Conv-11, ConvTranspose-11. */
struct qc_dnnl_conv {
    bool transposed;
    struct qc_window window;
    int64_t groups;
    const struct qc_view *src, *weights, *bias, *dst;
    struct qc_dnnl_tail tail;
    struct qc_packed *packs;
};
bool qc_dnnl_conv_new(struct qc_dnnl **out, const struct qc_dnnl_conv *d, struct qc_status *st);

/* dst = a b + bias: a [..., M, K], b [..., K, N], dst [..., M, N] of equal rank 2 to 8, batch dimensions of a or b may
   be 1; bias of N numbers or NULL. Any strides (a transposed matrix is a view); constant b and bias are packed. */
struct qc_dnnl_matmul {
    const struct qc_view *a, *b, *bias, *dst;
    struct qc_dnnl_tail tail;
    struct qc_packed *packs;
};
bool qc_dnnl_matmul_new(struct qc_dnnl **out, const struct qc_dnnl_matmul *d, struct qc_status *st);

void qc_dnnl_free(struct qc_dnnl *d);              /* NULL-safe */
size_t qc_dnnl_scratch(const struct qc_dnnl *d);   /* bytes of scratch a worker needs, 64-byte aligned */
size_t qc_dnnl_bytes(const struct qc_dnnl *d);     /* of packed constants */
const char *qc_dnnl_name(const struct qc_dnnl *d); /* of the implementation chosen by the library */

struct qc_dnnl_memory {
    void *src, *weights, *bias, *dst; /* weights and bias only where they are not packed */
    void *scratch;
};
bool qc_dnnl_open(struct qc_dnnl_bound **out, const struct qc_dnnl *d, const struct qc_dnnl_memory *m,
                  struct qc_status *st);
void qc_dnnl_close(struct qc_dnnl_bound *b); /* NULL-safe */
bool qc_dnnl_run(const struct qc_dnnl_bound *b, struct qc_status *st);

#endif
