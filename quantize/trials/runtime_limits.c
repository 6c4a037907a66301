// SPDX-License-Identifier: Apache-2.0
#include "quantize/trials/runtime_limits.h"

#include <math.h>

#include "graph/core/uses.h"

static const float MULTIPLIER_LEAST = 0x1p-32F, MULTIPLIER_END = 0x1p8F;

/* A GlobalAveragePool with quantized input and result: on integers, or between Dequantize and Quantize. */
struct mean {
    qc_id node, from, to; /* from, to: qparams; node 0: not such a pool */
    float plane;          /* elements of a plane */
};

/* Returns the number of elements of a plane, 0 if unknown. */
static float plane_of(const struct qc_shape *s)
{
    int64_t n = s->rank > 2;
    for (int d = 2; d < s->rank; d++) {
        if (s->dim[d] <= 0 || n > INT32_MAX / s->dim[d]) return 0;
        n *= s->dim[d];
    }
    return (float)n;
}

static qc_id stored_as(const struct qc_graph *g, const struct qc_uses *uses, const struct qc_node *n)
{
    const struct qc_use_list readers = qc_all_uses(uses, n->outputs);
    qc_id qparams = g->values[n->outputs].type.qparams;
    for (size_t i = 0; !qparams && i < readers.count; i++) {
        const struct qc_node *r = readers.of[i].node ? &g->nodes[readers.of[i].node] : NULL;
        if (r && r->op == QC_OP_Quantize) qparams = g->values[r->outputs].type.qparams;
    }
    return qparams;
}

static bool is_bound(const struct qc_graph *g, qc_id qparams)
{
    return qparams && g->qparams_of[qparams].kind == QC_QPARAMS_QUANTIZER &&
           g->qparams_of[qparams].state == QC_QPARAMS_BOUND && g->qparams_of[qparams].count == 1;
}

static struct mean mean_of(const struct qc_graph *g, const struct qc_uses *uses, qc_id id)
{
    const struct qc_node *n = &g->nodes[id];
    struct mean m = {0};
    if (n->op != QC_OP_GlobalAveragePool) return m;
    const struct qc_type *x = &g->values[n->inputs[0]].type;
    const struct qc_node *read = x->qparams ? NULL : qc_node_of(g, n->inputs[0]);
    m.from = read && read->op == QC_OP_Dequantize ? g->values[read->inputs[0]].type.qparams : x->qparams;
    m.to = stored_as(g, uses, n);
    m.plane = plane_of(&x->shape);
    if (m.plane > 0 && is_bound(g, m.from) && is_bound(g, m.to)) m.node = id;
    return m;
}

static float multiplier(float from, float to, float plane)
{
    return from / (to * plane);
}

static bool fits(float multiplier)
{
    return multiplier >= MULTIPLIER_LEAST && multiplier < MULTIPLIER_END;
}

static float scale_that_fits(float from, float to, float plane)
{
    if (multiplier(from, to, plane) >= MULTIPLIER_END)
        for (to = from / (MULTIPLIER_END * plane); multiplier(from, to, plane) >= MULTIPLIER_END;)
            to = nextafterf(to, INFINITY);
    else if (to >= 1 && to <= 1) /* 1 is the scale of a tensor that is 0 in every sample */
        to = from;
    return to;
}

typedef bool beyond_fn(void *user, const struct mean *m, float multiplier, struct qc_status *st);

/* Calls `beyond` for each mean whose multiplier the runtime rejects; scales changed by earlier calls count. */
static bool for_each_beyond(const struct qc_graph *g, beyond_fn *beyond, void *user, struct qc_status *st)
{
    struct qc_arena *a = qc_arena_new();
    struct qc_uses uses;
    if (!a) return qc_fail_memory(st, 1);
    bool ok = qc_uses_of(&uses, g, a, st);
    for (qc_id id = 1; ok && id <= g->node_count; id++) {
        const struct mean m = mean_of(g, &uses, id);
        if (!m.node) continue;
        const float by = multiplier(g->qparams_of[m.from].scale[0], g->qparams_of[m.to].scale[0], m.plane);
        ok = fits(by) || beyond(user, &m, by, st);
    }
    qc_arena_free(a);
    return ok;
}

static bool mend_scale(void *user, const struct mean *m, float by, struct qc_status *st)
{
    struct qc_graph *g = user;
    const struct qc_qparams *from = &g->qparams_of[m->from], *to = &g->qparams_of[m->to];
    (void)by;
    if (to->given || m->from == m->to) return true;
    const float scale = scale_that_fits(from->scale[0], to->scale[0], m->plane);
    const int32_t zero_point = to->zero_point[0];
    return qc_graph_bind_quantizer(g, m->to, 1, &scale, &zero_point, st);
}

static bool refuse(void *user, const struct mean *m, float by, struct qc_status *st)
{
    const struct qc_graph *g = user;
    const struct qc_node *n = &g->nodes[m->node];
    char label[QC_LABEL];
    return qc_fail(st, QC_UNSUPPORTED,
                   "node '%s' (GlobalAveragePool): scales %.9g of its input and %.9g of its result give the multiplier "
                   "%.9g, but ONNX Runtime accepts only [2^-32, 2^8); check the samples",
                   n->name ? n->name : qc_value_label(label, g, n->outputs), (double)g->qparams_of[m->from].scale[0],
                   (double)g->qparams_of[m->to].scale[0], (double)by);
}

bool qc_keep_runtime_limits(struct qc_graph *g, struct qc_status *st)
{
    return for_each_beyond(g, mend_scale, g, st);
}

bool qc_check_runtime_limits(const struct qc_graph *g, struct qc_status *st)
{
    return for_each_beyond(g, refuse, (void *)g, st);
}
