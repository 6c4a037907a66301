// SPDX-License-Identifier: Apache-2.0
#include "base/array.h"
#include "graph/core/parameters.h"
#include "graph/core/uses.h"
#include "graph/infer/folding.h"
#include "simq/plan/plan_parts.h"

const struct qc_scales qc_scales_real = {.identity = true,
                                         .count = 1,
                                         .scale = (const float[]){1},
                                         .zero_point = (const int32_t[]){0},
                                         .levels = {.lo = INT32_MIN, .hi = INT32_MAX}};

/* Limits the nesting of products: no supported accumulator is a product of products, and a hostile text could nest
   them deeply. */
enum { DEPTH_MAX = 4 };

static bool qparams_scales(struct qc_scales *out, const struct qc_graph *g, qc_id qparams, int depth,
                           struct qc_arena *a, struct qc_status *st)
{
    const struct qc_qparams *s = &g->qparams_of[qparams];
    struct qc_scales x, y;
    *out = qc_scales_real;
    if (s->kind == QC_QPARAMS_QUANTIZER) {
        if (s->state == QC_QPARAMS_BOUND)
            *out = (struct qc_scales){.rounds = true,
                                      .count = s->count,
                                      .block = s->block,
                                      .scale = s->scale,
                                      .zero_point = s->zero_point,
                                      .levels = qc_qparams_levels(s)};
        return true;
    }
    /* A product with an identity factor has the scale of the other factor, and its numbers are not rounded. */
    if (depth == DEPTH_MAX)
        return qc_fail(st, QC_UNSUPPORTED, "qparams '%s' are a product of products of products", s->name);
    if (!qparams_scales(&x, g, s->a, depth + 1, a, st) || !qparams_scales(&y, g, s->b, depth + 1, a, st)) return false;
    out->identity = x.identity && y.identity;
    if (out->identity) return true;
    const size_t count = x.count > y.count ? x.count : y.count;
    if ((x.count != 1 && x.count != count) || (y.count != 1 && y.count != count))
        return qc_fail(st, QC_BAD_INPUT, "factors of qparams '%s' have %zu and %zu channels", s->name, x.count,
                       y.count);
    float *scale = QC_NEW_ARRAY(a, float, count, st);
    int32_t *zero = QC_NEW_ARRAY(a, int32_t, count, st);
    if (!scale || !zero) return false;
    for (size_t i = 0; i < count; i++) scale[i] = x.scale[x.count > 1 ? i : 0] * y.scale[y.count > 1 ? i : 0];
    out->product = true;
    out->rounds = x.rounds && y.rounds;
    out->count = count;
    out->scale = scale;
    out->zero_point = zero;
    out->levels = qc_qparams_levels(s);
    return true;
}

bool qc_scales_of(struct qc_scales *out, const struct qc_graph *g, qc_id value, struct qc_arena *a,
                  struct qc_status *st)
{
    *out = qc_scales_real;
    if (!value || qc_value(g, value)->type.qparams == QC_REAL) return true;
    const struct qc_type *t = &qc_value(g, value)->type;
    if (!qparams_scales(out, g, t->qparams, 0, a, st)) return false;
    out->qparams = t->qparams;
    out->axis = t->axis;
    const bool fits =
        out->count == 1 || (t->axis >= 0 && t->axis < t->shape.rank && (!out->block || qc_shape_fixed(&t->shape)) &&
                            qc_scale_layout_of(&g->qparams_of[t->qparams], &t->shape, t->axis).count == out->count);
    if (!fits) {
        char label[QC_LABEL], text[QC_SHAPE_TEXT];
        return qc_fail(st, QC_BAD_INPUT, "'%s' of shape %s has %zu scales along axis %d",
                       qc_value_label(label, g, value), qc_shape_text(text, &t->shape), out->count, t->axis);
    }
    return true;
}

static bool changes_nothing(const struct qc_plan_binding *b, const struct qc_node *n)
{
    const struct qc_scales *in = &b->scales[n->inputs[0]], *out = &b->scales[n->outputs];
    if (n->op == QC_OP_Quantize || n->op == QC_OP_Dequantize) return in->identity && out->identity;
    return n->op == QC_OP_Requantize && ((in->identity && out->identity) || in->qparams == out->qparams);
}

/* Returns whether a quantized constant is computed later, when it is packed: one that only products read, in a
   simulated graph, which holds it in four times the bytes. */
static bool waits(const struct qc_plan_binding *b, qc_id v, const bool *read_otherwise)
{
    return b->g->simulated && qc_quantized_constant(b->g, v) && !b->scales[v].identity && !b->is_observed[v] &&
           !read_otherwise[v];
}

/* Computes an affine constant as the plan holds it, unless it is held as it is stored. */
static bool centre_constant(struct qc_plan_binding *b, qc_id v, struct qc_status *st)
{
    const struct qc_graph *g = b->g;
    struct qc_tensor **to = &b->plan->tensors[v];
    if (qc_plan_dtype(g, qc_value(g, v), &b->scales[v]) != QC_F32) return true;
    return (*to = qc_plan_centred(g, v, st)) && (!g->spills || qc_tensor_spill(*to, st));
}

/* Marks values that are read other than as the weights of a product. */
static void mark_read(bool *otherwise, const struct qc_plan_binding *b)
{
    const struct qc_graph *g = b->g;
    for (size_t k = 1; k <= g->node_count; k++) {
        const struct qc_node *n = &g->nodes[k];
        const bool product = qc_op_info(n->op)->affine == QC_AFFINE_PRODUCT && !b->scales[n->outputs].identity;
        for (unsigned i = 0; b->live[k] && i < n->input_count; i++)
            if (n->inputs[i] && !(product && i == 1)) otherwise[b->root[n->inputs[i]]] = true;
    }
    for (size_t i = 0; i < g->output_count; i++) otherwise[b->root[g->outputs[i].value]] = true;
}

/* Evaluates a node if all its inputs are known and constant folding allows it; otherwise it becomes a step. */
static bool evaluate_plan(struct qc_plan_binding *b, const struct qc_node *n, const bool *read_otherwise,
                          struct qc_status *st)
{
    struct qc_view in[QC_PLAN_INPUTS];
    struct qc_tensor *out[QC_PLAN_OUTPUTS] = {NULL};
    const enum qc_affine_behaviour how = qc_op_info(n->op)->affine;
    for (unsigned i = 0; i < n->input_count; i++) {
        in[i] = QC_VIEW_ABSENT;
        if (!n->inputs[i]) continue;
        const struct qc_tensor *t = qc_plan_known(b, b->root[n->inputs[i]]);
        if (!t) return true;
        in[i] = qc_view_of_tensor(t);
        /* Merging ops and products of quantized constants become steps. */
        if ((how == QC_AFFINE_MERGE || how == QC_AFFINE_PRODUCT) && !b->scales[n->inputs[i]].identity) return true;
    }
    if ((how == QC_AFFINE_JOIN || how == QC_AFFINE_BOUND) && !b->scales[n->outputs].identity) return true;
    if (how == QC_AFFINE_KEEP && !qc_plan_moves(n) && !b->scales[n->outputs].identity) return true;
    bool fits;
    if (!qc_folding_node(&fits, &b->plan->folding, b->g, n, st)) return false;
    if (!fits) return true;
    if ((b->later[n->outputs] = waits(b, n->outputs, read_otherwise))) return true;
    if (!qc_evaluate_views(out, b->g, n, in, st)) return false;
    for (unsigned i = 0; i < n->output_count; i++) b->plan->tensors[n->outputs + i] = out[i];
    for (unsigned i = 0; b->g->spills && i < n->output_count; i++)
        if (!qc_tensor_spill(out[i], st)) return false;
    return true;
}

static void mark_live(struct qc_plan_binding *b, bool *needed)
{
    const struct qc_graph *g = b->g;
    for (size_t v = 1; v <= g->value_count; v++) needed[v] = b->is_observed[v];
    for (size_t i = 0; i < g->output_count; i++) needed[b->root[g->outputs[i].value]] = true;
    for (size_t k = g->node_count; k >= 1; k--) {
        const struct qc_node *n = &g->nodes[k];
        b->live[k] = false;
        if (b->elided[k]) continue;
        for (unsigned i = 0; i < n->output_count; i++)
            b->live[k] |= needed[n->outputs + i] && !b->plan->tensors[n->outputs + i] && !b->later[n->outputs + i];
        b->live[k] |= qc_plan_shapeless(g, n);
        for (unsigned i = 0; b->live[k] && i < n->input_count; i++)
            if (n->inputs[i]) needed[b->root[n->inputs[i]]] = true;
    }
}

bool qc_plan_resolve(struct qc_plan_binding *b, struct qc_status *st)
{
    const struct qc_graph *g = b->g;
    bool *needed = QC_NEW_ARRAY(b->arena, bool, g->value_count + 1, st),
         *read_otherwise = QC_NEW_ARRAY(b->arena, bool, g->value_count + 1, st);
    if (!needed || !read_otherwise) return false;
    /* Index the readers of each value, for the contract whose pairs of products saturate */
    if (qc_contract_info(b->plan->contract)->products == QC_PRODUCTS_PAIRS) {
        struct qc_uses *readers = QC_NEW(b->arena, struct qc_uses, st);
        b->readers = readers;
        if (!readers || !qc_uses_of(readers, b->g, b->arena, st)) return false;
    }
    for (size_t v = 1; v <= g->value_count; v++) {
        b->root[v] = (qc_id)v;
        if (!qc_scales_of(&b->scales[v], g, (qc_id)v, b->arena, st)) return false;
    }
    for (size_t k = 1; k <= g->node_count; k++) {
        const struct qc_node *n = &g->nodes[k];
        b->elided[k] = changes_nothing(b, n);
        if (b->elided[k]) b->root[n->outputs] = b->root[n->inputs[0]];
    }
    for (size_t i = b->plan->observed_count; i-- > 0;) {
        const qc_id root = b->root[b->observed[i]];
        b->is_observed[root] = true;
        b->next_observed[i] = b->first_observed[root];
        b->first_observed[root] = i + 1;
    }
    mark_live(b, needed);
    mark_read(read_otherwise, b);
    for (qc_id v = 1; v <= g->value_count; v++) {
        if (!qc_constant_of(g, v) || qc_value(g, v)->type.qparams == QC_REAL) continue;
        if (!(b->later[v] = waits(b, v, read_otherwise)) && !centre_constant(b, v, st)) return false;
    }
    for (size_t k = 1; k <= g->node_count; k++)
        if (b->live[k] && !evaluate_plan(b, &g->nodes[k], read_otherwise, st)) return false;
    mark_live(b, needed);
    for (size_t k = 1; k <= g->node_count; k++) {
        const struct qc_node *n = &g->nodes[k];
        for (unsigned i = 0; b->live[k] && i < n->input_count; i++) {
            if (!n->inputs[i]) continue;
            b->uses[b->root[n->inputs[i]]]++;
            b->user[b->root[n->inputs[i]]] = (qc_id)k;
        }
    }
    for (size_t i = 0; i < g->output_count; i++) {
        b->uses[b->root[g->outputs[i].value]]++;
        b->user[b->root[g->outputs[i].value]] = 0;
    }
    return true;
}

struct qc_tensor *qc_plan_centred(const struct qc_graph *g, qc_id value, struct qc_status *st)
{
    const struct qc_value *v = qc_value(g, value);
    const struct qc_qparams *s = &g->qparams_of[v->type.qparams];
    if (v->constant->dtype == QC_F32) return qc_tensor_ref(v->constant); /* floating-point levels */
    struct qc_tensor *t = qc_tensor_new(QC_F32, &v->type.shape, st);
    if (!t) return NULL;
    const struct qc_scale_layout layout = qc_scale_layout_of(s, &v->type.shape, v->type.axis);
    const size_t inner = layout.inner;
    enum { CHUNK = 512 };
    int32_t q[CHUNK];
    float *y = t->data;
    for (size_t first = 0, n; s->block && first < t->count; first += n) {
        n = t->count - first < CHUNK ? t->count - first : CHUNK;
        qc_tensor_ints(q, v->constant, first, n);
        for (size_t i = 0; i < n; i++) y[first + i] = (float)(q[i] - s->zero_point[qc_scale_at(&layout, first + i)]);
    }
    if (s->block) return t;
    const size_t most = s->count > 1 && inner < CHUNK ? inner : CHUNK;
    for (size_t first = 0, n; first < t->count; first += n) { /* one channel at a time if scales differ by channel */
        const size_t left = s->count > 1 ? inner - first % inner : t->count - first;
        n = left < most ? left : most;
        const int32_t zero = s->zero_point[s->count > 1 ? first / inner % s->count : 0];
        qc_tensor_ints(q, v->constant, first, n);
        for (size_t i = 0; i < n; i++) y[first + i] = (float)(q[i] - zero);
    }
    return t;
}

static qc_id weight_of_plan_resolve(const struct qc_plan_binding *b, const struct qc_node *n)
{
    const qc_id v = n->input_count > 1 && n->inputs[1] ? b->root[n->inputs[1]] : 0;
    return v && b->later[v] ? v : 0;
}

bool qc_plan_make_weight(struct qc_plan_binding *b, const struct qc_node *n, struct qc_status *st)
{
    const qc_id v = weight_of_plan_resolve(b, n);
    if (!v || b->plan->tensors[v]) return true;
    const struct qc_node *maker = qc_node_of(b->g, v);
    if (!maker) return centre_constant(b, v, st);
    const struct qc_view in = qc_view_of_tensor(qc_constant_of(b->g, maker->inputs[0]));
    return qc_evaluate_views(&b->plan->tensors[v], b->g, maker, &in, st) &&
           (!b->g->spills || qc_tensor_spill(b->plan->tensors[v], st));
}

void qc_plan_drop_weight(struct qc_plan_binding *b, const struct qc_node *n, size_t first_step)
{
    struct qc_plan *p = b->plan;
    const qc_id v = weight_of_plan_resolve(b, n);
    if (!v || b->uses[v] != 1) return;
    for (size_t i = first_step; i < p->step_count; i++)
        for (unsigned k = 0; k < p->steps[i].input_count; k++)
            if (p->steps[i].in[k].view.data == p->tensors[v]->data) return;
    qc_tensor_unref(p->tensors[v]);
    p->tensors[v] = NULL;
}

bool qc_plan_turn_constant(struct qc_plan_operand *out, struct qc_plan *p, const struct qc_view *from,
                           enum qc_layout layout, struct qc_status *st)
{
    struct qc_shape shape = qc_shape_of(from->rank, from->dim);
    struct qc_tensor *t = qc_tensor_new(from->dtype, &shape, st);
    if (!t) return false;
    struct qc_tensor **more = qc_grown(p->copies, p->copy_count, &p->copy_capacity, sizeof *more, st);
    if (!more) {
        qc_tensor_unref(t);
        return false;
    }
    p->copies = more;
    p->copies[p->copy_count++] = t;
    *out = (struct qc_plan_operand){.view = qc_view_of(from->dtype, &shape, layout, t->data)};
    qc_view_copy(&out->view, from);
    return true;
}
