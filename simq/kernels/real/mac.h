// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: the frame of multiply-accumulate kernels: a product, then what is fused behind it. */
#ifndef QC_SIMQ_KERNELS_REAL_MAC_H
#define QC_SIMQ_KERNELS_REAL_MAC_H

#include "simq/core/kernel.h"
#include "simq/core/rounding.h"
#include "simq/kernels/real/product.h"

struct qc_mac {
    struct qc_product *product;
    bool packed_weights, packed_bias, bias;
    bool scaled; /* y = alpha*y + beta*c, c = input 2 broadcast to the result (Gemm) */
    float alpha, beta;
    bool rounded; /* then the accumulator goes from its qparams to that of the result */
    int axis;     /* of the channels of `rounding` in the result */
    struct qc_rounding rounding;
};

/* State in p->arena, set as p->state so that release frees it; the tail for the product in *tail. scaled: see above.
 */
struct qc_mac *qc_mac_new(struct qc_product_tail *tail, struct qc_prepare *p, bool scaled, struct qc_status *st);
/* After the product is made: scratch and packed inputs. packed: the weights are in the product. */
void qc_mac_finish(struct qc_mac *m, struct qc_prepare *p, bool packed, bool bias);

bool qc_mac_run(const struct qc_run *r, struct qc_status *st);
void qc_mac_release(void *state);

#endif
