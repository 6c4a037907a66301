// SPDX-License-Identifier: Apache-2.0
/* Quantize, Dequantize, Requantize: from the qparams and representation of the input to those of the output, whatever
 * these are. */
#include <math.h>

#include "simq/core/convert.h"

struct state {
    bool real; /* float32 on both sides */
    int axis;
    struct qc_rounding rounding;
    struct qc_convert convert;
};

static bool prepare(struct qc_prepare *p, struct qc_status *st)
{
    struct state *s = QC_NEW(p->arena, struct state, st);
    const struct qc_scales *from = &p->in_scales[0], *to = &p->out_scales[0];
    if (!s) return false;
    p->state = s;
    s->axis = from->count > 1 ? from->axis : to->axis;
    s->real = p->in[0].dtype == QC_F32 && p->out[0].dtype == QC_F32;
    if (s->real) return qc_rounding_of(&s->rounding, from, to, -INFINITY, INFINITY, p->arena, st);
    const struct qc_node *made = p->node ? qc_node_of(p->graph, p->node->inputs[0]) : NULL;
    const bool dense = made && (made->op == QC_OP_Gemm || made->op == QC_OP_MatMul);
    const struct qc_convert_how how = {.contract = p->contract,
                                       .graph = p->graph,
                                       .product = dense ? QC_FROM_DENSE : QC_FROM_PRODUCT};
    return qc_convert_of(&s->convert, p->in[0].dtype, from, p->out[0].dtype, to, -INFINITY, INFINITY, &how, p->arena,
                         st);
}

static bool run(const struct qc_run *r, struct qc_status *st)
{
    const struct state *s = r->state;
    (void)st;
    if (s->real)
        qc_rounding_view(&s->rounding, s->axis, &r->out[0], &r->in[0]);
    else
        qc_convert_view(&s->convert, &r->out[0], &r->in[0]);
    return true;
}

const struct qc_kernel qc_kernel_quantize = {
    .name = "quantize", .order = QC_ORDER_ANY, .in_place = 1, .prepare = prepare, .run = run};
const struct qc_kernel qc_kernel_dequantize = {
    .name = "dequantize", .order = QC_ORDER_ANY, .in_place = 1, .prepare = prepare, .run = run};
const struct qc_kernel qc_kernel_requantize = {
    .name = "requantize", .order = QC_ORDER_ANY, .in_place = 1, .prepare = prepare, .run = run};
