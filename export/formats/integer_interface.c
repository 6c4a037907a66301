// SPDX-License-Identifier: Apache-2.0
#include "export/formats/lowering.h"

static bool is_number(const struct qc_graph *g, const struct qc_node *n, unsigned i)
{
    const struct qc_tensor *t = i < n->input_count ? qc_constant_of(g, n->inputs[i]) : NULL;
    return t && t->count == 1;
}

/* Returns true if the QuantizeLinear or DequantizeLinear has the parameters of qparams. */
static bool has_parameters(const struct qc_graph *g, const struct qc_node *linear, qc_id qparams, enum qc_dtype stored)
{
    const struct qc_qparams *s = &g->qparams_of[qparams];
    if (!qparams || s->kind != QC_QPARAMS_QUANTIZER || s->state != QC_QPARAMS_BOUND || s->count != 1 ||
        s->dtype != stored)
        return false;
    if (!is_number(g, linear, 1) || qc_constant_of(g, linear->inputs[1])->dtype != QC_F32) return false;
    if (((const float *)qc_constant_of(g, linear->inputs[1])->data)[0] != s->scale[0]) return false;
    if (linear->input_count < 3 || !linear->inputs[2]) return s->zero_point[0] == 0;
    return is_number(g, linear, 2) && qc_tensor_int(qc_constant_of(g, linear->inputs[2]), 0) == s->zero_point[0];
}

static bool enters(const struct qc_graph *g, const struct qc_node *n)
{
    const struct qc_node *from = n->op == QC_OP_Quantize ? qc_node_of(g, n->inputs[0]) : NULL;
    return from && from->op == QC_OP_DequantizeLinear &&
           has_parameters(g, from, g->values[n->outputs].type.qparams, g->values[from->inputs[0]].type.dtype);
}

static bool leaves(const struct qc_graph *g, const struct qc_node *n)
{
    const struct qc_node *from = n->op == QC_OP_QuantizeLinear ? qc_node_of(g, n->inputs[0]) : NULL;
    return from && from->op == QC_OP_Dequantize &&
           has_parameters(g, n, g->values[from->inputs[0]].type.qparams, g->values[n->outputs].type.dtype);
}

bool qc_lower_integer_interface(struct qc_lowering *x, const struct qc_node *n)
{
    const struct qc_node *from = n->input_count ? qc_node_of(x->from, n->inputs[0]) : NULL;
    if (enters(x->from, n)) {
        x->integer[n->outputs] = x->real[from->inputs[0]];
        x->real[n->outputs] = x->real[from->outputs];
        return true;
    }
    if (!leaves(x->from, n) || !x->integer[from->inputs[0]]) return false;
    x->real[n->outputs] = x->integer[from->inputs[0]];
    return true;
}

void qc_lower_name_interfaces(struct qc_lowering *x)
{
    for (size_t i = 0; i < x->from->output_count; i++) {
        const qc_id v = x->from->outputs[i].value;
        const struct qc_node *n = qc_node_of(x->from, v),
                             *from = n && leaves(x->from, n) ? qc_node_of(x->from, n->inputs[0]) : NULL;
        if (from) x->given[from->inputs[0]] = x->from->values[v].name;
    }
}

const char *qc_lower_integer_name(const struct qc_lowering *x, qc_id v, const char *base, struct qc_status *st)
{
    return x->given[v] ? x->given[v] : qc_arena_printf(x->to->arena, st, "%s_quantized", base);
}
