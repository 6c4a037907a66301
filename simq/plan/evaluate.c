// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "base/checked.h"
#include "base/pool.h"
#include "graph/core/custom.h"
#include "graph/core/parameters.h"
#include "simq/plan/plan_parts.h"

bool qc_evaluate_views(struct qc_tensor **outputs, const struct qc_graph *g, const struct qc_node *n,
                       const struct qc_view *in, struct qc_status *st)
{
    const struct qc_kernel *kernel = qc_kernel_of(n->op);
    struct qc_arena *a = qc_arena_new();
    struct qc_view *out = NULL;
    struct qc_scales *in_scales = NULL, *out_scales = NULL;
    struct qc_prepare p = {
        .graph = g, .node = n, .input_count = n->input_count, .output_count = n->output_count, .in = in, .arena = a};
    void *scratch = NULL, *local = NULL;
    bool ok = false, opened = false, empty = true;
    const int threads = qc_pool_hold();
    if (!a) {
        qc_fail_memory(st, 0);
        goto out;
    }
    out = QC_NEW_ARRAY(a, struct qc_view, n->output_count, st);
    in_scales = QC_NEW_ARRAY(a, struct qc_scales, n->input_count, st);
    out_scales = QC_NEW_ARRAY(a, struct qc_scales, n->output_count, st);
    if (!out || !in_scales || !out_scales) goto out;
    for (unsigned i = 0; i < n->input_count; i++)
        if (!qc_scales_of(&in_scales[i], g, n->inputs[i], a, st)) goto out;
    for (unsigned i = 0; i < n->output_count; i++) {
        const struct qc_value *v = qc_value(g, n->outputs + i);
        if (!qc_scales_of(&out_scales[i], g, n->outputs + i, a, st) ||
            !(outputs[i] = qc_tensor_new(qc_plan_dtype(g, v, &out_scales[i]), &v->type.shape, st)))
            goto out;
        out[i] = qc_view_of_tensor(outputs[i]);
        empty = empty && outputs[i]->count == 0;
        p.affine = p.affine || !out_scales[i].identity;
        out[i].data = NULL;
    }
    for (unsigned i = 0; i < n->input_count; i++) p.affine = p.affine || !in_scales[i].identity;
    p.out = out;
    p.in_scales = in_scales;
    p.out_scales = out_scales;
    if (empty) {
        ok = true;
        goto out;
    }
    if (!qc_kernel_prepare(&kernel, &p, st)) goto out;
    for (unsigned i = 0; i < n->output_count; i++) out[i].data = outputs[i]->data;
    if (p.scratch && !(scratch = aligned_alloc(64, (p.scratch + 63) / 64 * 64))) {
        qc_fail_memory(st, p.scratch);
        goto out;
    }
    struct qc_run r = {.state = p.state,
                       .input_count = n->input_count,
                       .output_count = n->output_count,
                       .in = in,
                       .out = out,
                       .scratch = scratch};
    if (kernel->open && !kernel->open(&local, &r, st)) goto out;
    opened = true;
    r.local = local;
    ok = kernel->run(&r, st);
out:
    if (opened && kernel->close) kernel->close(local);
    if (p.state && kernel->release) kernel->release(p.state);
    free(scratch);
    qc_arena_free(a);
    qc_pool_release(threads);
    if (!ok) {
        for (unsigned i = 0; i < n->output_count; i++) {
            qc_tensor_unref(outputs[i]);
            outputs[i] = NULL;
        }
        char label[QC_LABEL];
        qc_where(st, "%s '%s'", qc_op_info(n->op)->name, n->name ? n->name : qc_value_label(label, g, n->outputs));
    }
    return ok;
}

/* Inputs of at most this many elements are passed as constants, since the type rule may derive a shape from them. */
enum { SHAPING = 256 };

bool qc_evaluate_shapeless(struct qc_tensor **outputs, const struct qc_graph *g, const struct qc_node *n,
                           const struct qc_view *in, size_t held, struct qc_status *st)
{
    struct qc_graph *one = qc_graph_new(st);
    qc_id *inputs = calloc(n->input_count + 1, sizeof *inputs);
    bool ok = one && (inputs || qc_fail_memory(st, n->input_count * sizeof *inputs));
    char text[QC_SHAPE_TEXT];
    /* The size of the result depends on the values of the inputs. */
    const bool finds =
        n->op == QC_OP_NonZero || n->op == QC_OP_Compress || n->op == QC_OP_Unique || n->op == QC_OP_NonMaxSuppression;
    if (one) {
        one->budget = g->budget;
        one->custom = qc_custom_ops_ref(g->custom);
    }
    for (unsigned i = 0; ok && i < n->input_count; i++) {
        if (!n->inputs[i]) continue;
        const struct qc_shape shape = qc_shape_of(in[i].rank, in[i].dim);
        const bool known = finds || qc_view_count(&in[i]) <= SHAPING;
        if (known) ok = qc_budget_hold(&g->budget, qc_view_count(&in[i]) * qc_dtype_size(in[i].dtype), st);
        if (!ok) break;
        struct qc_tensor *t = known ? qc_tensor_of(in[i].dtype, &shape, in[i].data, st) : NULL;
        inputs[i] = t ? qc_graph_add_constant(one, NULL, t, st) : 0;
        if (!known) inputs[i] = qc_graph_add_input(one, NULL, in[i].dtype, &shape, st);
        qc_tensor_unref(t);
        ok = inputs[i] != 0;
    }
    const struct qc_node_def def = {.op = n->op,
                                    .name = n->name,
                                    .input_count = n->input_count,
                                    .output_count = n->output_count,
                                    .inputs = inputs,
                                    .attr_count = n->attr_count,
                                    .attrs = n->attrs};
    const qc_id first = ok ? qc_graph_add(one, &def, st) : 0;
    ok = first != 0;
    for (unsigned k = 0; ok && k < n->output_count; k++) {
        const struct qc_shape *s = &qc_value(one, first + k)->type.shape;
        size_t count, all = held;
        if (!qc_shape_fixed(s) && n->op == QC_OP_Custom)
            ok = qc_fail(st, QC_BAD_INPUT,
                         "shape of the kernel of '%s' gave output %u the shape %s, though its inputs are known",
                         qc_attr_string(n, QC_CUSTOM_OP, ""), k, qc_shape_text(text, s));
        else if (!qc_shape_fixed(s))
            ok = qc_fail(st, QC_UNSUPPORTED, "the shape %s of its result depends on data in a way that is not handled",
                         qc_shape_text(text, s));
        else
            ok = qc_shape_count(&count, s) &&
                         qc_mul_size(&count, count, qc_dtype_size(qc_value(one, first + k)->type.dtype)) &&
                         qc_add_size(&all, count, held)
                     ? qc_budget_run(&g->budget, all, 0, st) && qc_budget_hold(&g->budget, count, st)
                     : qc_fail(st, QC_BAD_INPUT, "its result of shape %s does not fit in memory",
                               qc_shape_text(text, s));
        if (ok) held = all;
    }
    ok = ok && qc_evaluate_views(outputs, one, qc_node_of(one, first), in, st);
    free(inputs);
    qc_graph_free(one);
    return ok;
}

/* Converts centred float32 to stored integers. */
static struct qc_tensor *stored(const struct qc_tensor *t, const struct qc_graph *g, qc_id value, struct qc_status *st)
{
    const struct qc_type *type = &qc_value(g, value)->type;
    struct qc_tensor *q = NULL;
    struct qc_arena *a = qc_arena_new();
    struct qc_scales s;
    if (!a) qc_fail_memory(st, 0);
    if (!a || !qc_scales_of(&s, g, value, a, st) ||
        !(q = qc_tensor_new(g->qparams_of[type->qparams].dtype, &t->shape, st)))
        goto out;
    const struct qc_scale_layout layout = qc_scale_layout_of(&g->qparams_of[type->qparams], &t->shape, type->axis);
    const size_t inner = layout.inner, size = qc_dtype_size(q->dtype);
    const bool row = s.count > 1 && inner == 1 && !s.block; /* contiguous channels */
    for (size_t first = 0, n; first < t->count;
         first += n) { /* one channel, or one element of each channel, at a time */
        n = s.block ? 1 : row ? s.count : s.count > 1 ? inner : t->count;
        const int32_t *zero = s.zero_point + (row || s.count < 2 ? 0 : qc_scale_at(&layout, first));
        const float *x = (const float *)t->data + first;
        void *to = (char *)q->data + first * size;
        for (size_t i = 0; size == 1 && i < n; i++) ((uint8_t *)to)[i] = (uint8_t)((int32_t)x[i] + zero[row ? i : 0]);
        for (size_t i = 0; size == 2 && i < n; i++) ((uint16_t *)to)[i] = (uint16_t)((int32_t)x[i] + zero[row ? i : 0]);
        for (size_t i = 0; size == 4 && i < n; i++) ((uint32_t *)to)[i] = (uint32_t)((int64_t)x[i] + zero[row ? i : 0]);
    }
out:
    qc_arena_free(a);
    return q;
}

bool qc_evaluate(struct qc_tensor **outputs, const struct qc_graph *g, qc_id node, struct qc_status *st)
{
    const struct qc_node *n = &g->nodes[node];
    struct qc_view *in = calloc(n->input_count + 1, sizeof *in);
    for (unsigned i = 0; i < n->output_count; i++) outputs[i] = NULL;
    struct qc_tensor **centred = calloc(n->input_count + 1, sizeof *centred);
    bool ok = false;
    if (!in || !centred) {
        qc_fail_memory(st, n->input_count * sizeof *in);
        goto out;
    }
    for (unsigned i = 0; i < n->input_count; i++) {
        in[i] = QC_VIEW_ABSENT;
        if (!n->inputs[i]) continue;
        const struct qc_tensor *t = qc_constant_of(g, n->inputs[i]);
        if (!t) {
            qc_fail(st, QC_BAD_INPUT, "input %u of %s is not a constant", i, qc_op_info(n->op)->name);
            goto out;
        }
        const bool affine = g->simulated && qc_value(g, n->inputs[i])->type.qparams != QC_REAL;
        if (affine && !(t = centred[i] = qc_plan_centred(g, n->inputs[i], st))) goto out;
        in[i] = qc_view_of_tensor(t);
    }
    for (unsigned i = 0; i < n->output_count; i++) {
        char label[QC_LABEL], text[QC_SHAPE_TEXT];
        const struct qc_shape *s = &qc_value(g, n->outputs + i)->type.shape;
        if (qc_shape_fixed(s)) continue;
        qc_fail(st, QC_UNSUPPORTED, "the shape %s of '%s' depends on data", qc_shape_text(text, s),
                qc_value_label(label, g, n->outputs + i));
        goto out;
    }
    if (!qc_evaluate_views(outputs, g, n, in, st)) goto out;
    for (unsigned i = 0; i < n->output_count; i++) {
        qc_id v = n->outputs + i;
        const struct qc_qparams *qparams = qc_graph_parameters(g, v);
        if (!qparams || outputs[i]->dtype != QC_F32 || qc_qparams_storage(qparams) == QC_F32) continue;
        struct qc_tensor *q = stored(outputs[i], g, v, st);
        if (!q) goto out;
        qc_tensor_unref(outputs[i]);
        outputs[i] = q;
    }
    ok = true;
out:
    for (unsigned i = 0; !ok && i < n->output_count; i++) {
        qc_tensor_unref(outputs[i]);
        outputs[i] = NULL;
    }
    for (unsigned i = 0; centred && i < n->input_count; i++) qc_tensor_unref(centred[i]);
    free(centred);
    free(in);
    return ok;
}
