// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: convolutions and matrix products in float32. A result is one chain of fused multiply-adds over its
   reduction in a fixed order (product_tile.h), so its bits are those of every instruction set, thread and memory order,
   and of the same step with or without what is fused behind it. A qc_product is made once per step with its packed
   constants, shared by workers, never changed. */
#pragma once

#include "graph/core/infer.h"
#include "simq/core/packed.h"
#include "simq/core/view.h"
#include "simq/kernels/real/product_tile.h"

struct qc_product;

/* Views as ONNX has them: src [N,C,...], weights [M,C/groups,...] (transposed: [C,M/groups,...]), bias [M] or NULL, dst
   [N,M,...]. Channels-last src and dst are fast, other strides work. Constant weights (data set) are packed here, and
   so is a constant bias. Source: ONNX Conv-11, ConvTranspose-11. Errors: operands that are not float32 or empty, a
   window that does not fit in memory, no memory. */
struct qc_product_conv {
    bool transposed;
    struct qc_window window;
    int64_t groups;
    const struct qc_view *src, *weights, *bias, *dst;
    struct qc_product_tail tail;
    struct qc_packed *packs; /* where packed weights are kept; NULL: by the product itself */
    enum qc_isa isa;         /* the best that it may use; QC_ISA_BEST: what there is */
};
bool qc_product_conv_new(struct qc_product **out, const struct qc_product_conv *d, struct qc_status *st);

/* dst = a b + bias: a [..., M, K], b [..., K, N], dst [..., M, N] of equal rank 2 to 8, batch dimensions of a or b may
   be 1; bias of N numbers or NULL. Any strides (a transposed matrix is a view); constant b and bias are packed. packs,
   isa, errors: as above. */
struct qc_product_matrix {
    const struct qc_view *a, *b, *bias, *dst;
    struct qc_product_tail tail;
    struct qc_packed *packs;
    enum qc_isa isa;
};
bool qc_product_matrix_new(struct qc_product **out, const struct qc_product_matrix *d, struct qc_status *st);

void qc_product_free(struct qc_product *d);              /* NULL-safe */
size_t qc_product_scratch(const struct qc_product *d);   /* bytes of scratch a worker needs, 64-byte aligned */
size_t qc_product_bytes(const struct qc_product *d);     /* of packed constants */
const char *qc_product_name(const struct qc_product *d); /* of how it is done */

struct qc_product_memory {
    const void *src, *weights, *bias; /* weights and bias only where they are not packed */
    void *dst, *scratch;
};
void qc_product_run(const struct qc_product *d, const struct qc_product_memory *m);
