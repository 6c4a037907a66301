// SPDX-License-Identifier: Apache-2.0
/* Conv and ConvTranspose, 1 to 3 spatial dimensions. On centred integers the result is the accumulator
   sum((qa - za) * (qw - zw)), exact as long as every partial sum stays below 2^24. */
#include "simq/kernels/real/mac.h"

static bool prepare_any(struct qc_prepare *p, bool transposed, struct qc_status *st)
{
    const bool bias = p->input_count > 2 && p->in[2].rank >= 0;
    struct qc_product_conv c = {.transposed = transposed,
                                .groups = qc_attr_int(p->node, "group", 1),
                                .src = &p->in[0],
                                .weights = &p->in[1],
                                .bias = bias ? &p->in[2] : NULL,
                                .dst = &p->out[0],
                                .packs = p->packs,
                                .isa = p->isa};
    if (!qc_window_of(&c.window, p->graph, p->node, st)) return false;
    struct qc_mac *m = qc_mac_new(&c.tail, p, false, st);
    if (!m || !qc_product_conv_new(&m->product, &c, st)) return false;
    qc_mac_finish(m, p, p->in[1].data != NULL, bias);
    return true;
}

static bool prepare_conv(struct qc_prepare *p, struct qc_status *st)
{
    return prepare_any(p, false, st);
}

static bool prepare_transposed(struct qc_prepare *p, struct qc_status *st)
{
    return prepare_any(p, true, st);
}

QC_KERNEL(conv, .order = QC_ORDER_LAST, .fuses = true, .prepare = prepare_conv, .run = qc_mac_run,
          .release = qc_mac_release);
QC_KERNEL(conv_transpose, .order = QC_ORDER_LAST, .fuses = true, .prepare = prepare_transposed, .run = qc_mac_run,
          .release = qc_mac_release);
