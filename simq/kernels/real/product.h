// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: convolutions and matrix products in float32. A result is one chain of fused multiply-adds over its
   reduction, in a fixed order (product_tile.h). Its bits do not depend on the instruction set, the number of
   threads, the memory order, or the fused operations. A qc_product is made once per step with its packed constants;
   workers share it and do not change it. */
#pragma once

#include "graph/core/infer.h"
#include "simq/core/kernel.h"
#include "simq/core/view.h"
#include "simq/kernels/real/product_tile.h"

struct qc_product;

/* Views in ONNX's form: src [N,C,...], weights [M,C/groups,...] (transposed: [C,M/groups,...]), bias [M] or NULL,
   dst [N,M,...]. Channels-last src and dst are fast; other strides work. Constant weights (data set) and a constant
   bias are packed here. Source: ONNX Conv-11, ConvTranspose-11. Fails if operands are not float32 or are empty, if a
   window does not fit in memory, or if out of memory. */
struct qc_product_conv {
    bool transposed;
    struct qc_window window;
    int64_t groups;
    const struct qc_view *src, *weights, *bias, *dst;
    struct qc_product_tail tail;
    struct qc_packed *packs; /* owner of packed weights; NULL: the product itself */
    enum qc_isa isa;         /* best instruction set allowed; QC_ISA_BEST: no limit */
};
bool qc_product_conv_new(struct qc_product **out, const struct qc_product_conv *d, struct qc_status *st);

/* dst = a b + bias: a [..., M, K], b [..., K, N], dst [..., M, N] of equal rank 2 to 8. Batch dimensions of a or b
   may be 1; bias has N numbers or is NULL. Sizes may be 0: a sum over nothing is the bias. Any strides (a transposed
   matrix is a view). Constant b and bias are packed. packs, isa and errors as above. */
struct qc_product_matrix {
    const struct qc_view *a, *b, *bias, *dst;
    struct qc_product_tail tail;
    struct qc_packed *packs;
    bool in_file; /* the packed b is in a temporary file of packs; if the disk has no room, b is given at run time */
    enum qc_isa isa;
};
bool qc_product_matrix_new(struct qc_product **out, const struct qc_product_matrix *d, struct qc_status *st);

void qc_product_free(struct qc_product *d); /* NULL-safe */

struct qc_product_facts {
    size_t scratch;   /* bytes per worker, 64-byte aligned */
    size_t bytes;     /* of packed constants */
    bool is_packed;   /* false: weights are given at run time */
    const char *name; /* of the implementation */
};
struct qc_product_facts qc_product_facts(const struct qc_product *d);

struct qc_product_memory {
    const void *src, *weights, *bias; /* weights and bias only if not packed */
    void *dst, *scratch;
};
void qc_product_run(const struct qc_product *d, const struct qc_product_memory *m);
