// SPDX-License-Identifier: Apache-2.0
#include "calib/weights/sum_bound.h"

#include <math.h>

#include "graph/core/parameters.h"

static const struct qc_tensor *constant_of_quantize(const struct qc_graph *g, qc_id value)
{
    const qc_id from = qc_quantized_constant(g, value);
    const struct qc_tensor *t = from ? qc_constant_of(g, from) : NULL;
    return t && t->dtype == QC_F32 ? t : NULL;
}

int qc_sum_axis(const struct qc_graph *g, const struct qc_node *n)
{
    if (n->op == QC_OP_Conv) return 0;
    if (n->op == QC_OP_Gemm) return qc_attr_int(n, "transB", 0) ? 0 : 1;
    return n->op == QC_OP_MatMul ? g->values[n->inputs[1]].type.shape.rank - 1 : -1;
}

bool qc_sum_layer_of(struct qc_sum_layer *out, const struct qc_graph *g, qc_id node)
{
    const struct qc_node *n = &g->nodes[node];
    if (qc_op_info(n->op)->affine != QC_AFFINE_PRODUCT) return false;
    const struct qc_qparams *x = qc_graph_parameters(g, n->inputs[0]), *w = qc_graph_parameters(g, n->inputs[1]);
    const struct qc_tensor *weights = constant_of_quantize(g, n->inputs[1]);
    if (!x || !w || !weights) return false;
    const int axis = qc_sum_axis(g, n);
    *out = (struct qc_sum_layer){.node = node,
                                 .quantizer = g->values[n->inputs[1]].type.qparams,
                                 .qparams = w,
                                 .weights = weights,
                                 .axis = axis,
                                 .channels = axis < 0 ? 0 : (size_t)weights->shape.dim[axis],
                                 .data = x};
    const struct qc_tensor *bias = n->input_count > 2 ? constant_of_quantize(g, n->inputs[2]) : NULL;
    if (bias && bias->count == out->channels) out->bias = bias;
    return true;
}

float qc_sum_data_scale(const struct qc_sum_layer *l, size_t channel)
{
    return l->data->scale[l->data->count > 1 ? channel : 0];
}

void qc_sum_terms(double *above, double *below, const struct qc_sum_layer *l, const struct qc_tensor *weights,
                  size_t channel, float scale)
{
    const struct qc_levels levels = qc_qparams_levels(l->qparams), data = qc_qparams_levels(l->data);
    const double zero = l->data->zero_point[l->data->count > 1 ? channel : 0], lowest = (double)data.lo - zero,
                 highest = (double)data.hi - zero;
    const struct qc_affine p = {.scale = scale,
                                .zero_point = l->qparams->zero_point[l->qparams->count > 1 ? channel : 0]};
    const struct qc_shape *shape = &l->weights->shape;
    size_t inner = 1;
    for (int i = l->axis + 1; i < shape->rank; i++) inner *= (size_t)shape->dim[i];
    *above = *below = 0;
    for (size_t o = 0; o < l->weights->count / (inner * l->channels); o++)
        for (size_t i = 0; i < inner; i++) {
            const size_t e = (o * l->channels + channel) * inner + i;
            const int64_t q = weights->dtype == QC_F32 ? qc_quantize_one(((const float *)weights->data)[e], p, levels)
                                                       : qc_tensor_int(weights, e);
            const double v = (double)(q - p.zero_point);
            *above += fmax(v * highest, v * lowest);
            *below -= fmin(v * highest, v * lowest);
        }
}

double qc_sum_bound(const struct qc_sum_layer *l, const struct qc_tensor *weights, float bias, size_t channel,
                    float scale)
{
    const struct qc_levels all = {.lo = INT32_MIN, .hi = INT32_MAX};
    double above, below;
    qc_sum_terms(&above, &below, l, weights, channel, scale);
    const struct qc_affine product = {.scale = qc_sum_data_scale(l, channel) * scale};
    const float steps = bias / product.scale;
    const double b = fabsf(steps) < 0x1p31f ? (double)qc_quantize_one(bias, product, all) : (double)steps;
    return fmax(above + fmax(b, 0), below + fmax(-b, 0));
}

float qc_sum_bias(const struct qc_sum_layer *l, size_t channel)
{
    return l->bias ? ((const float *)l->bias->data)[channel] : 0;
}

double qc_sum_limit(unsigned bits)
{
    return ldexp(1, (int)bits - 1) - 1;
}
