// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/index.h"
#include "graph/core/rebuild.h"
#include "graph/types/tensor.h"
#include "rewrite/passes/folded_constants.h"

struct folded {
    struct qc_tensor *from, *to;
    enum qc_dtype dtype;
    struct qc_levels levels;
    int axis;
    size_t count;
    float *scale;
    int32_t *zero_point; /* [count] each */
};

struct qc_folded_constants {
    struct qc_arena *arena;
    size_t count, capacity;
    struct folded *list;
    struct qc_index index; /* by the address of `from`: number + 1; includes trimmed constants */
    enum qc_constant_forms forms;
};

bool qc_folded_constants_new(struct qc_folded_constants **out, enum qc_constant_forms forms, struct qc_status *st)
{
    struct qc_folded_constants *f = calloc(1, sizeof *f);
    if (!f || !(f->arena = qc_arena_new())) {
        free(f);
        return qc_fail_memory(st, sizeof *f);
    }
    f->forms = forms;
    *out = f;
    return true;
}

size_t qc_folded_constants_count(const struct qc_folded_constants *f)
{
    return f->count;
}

void qc_folded_constants_trim(struct qc_folded_constants *f, size_t count)
{
    while (f->count > count) {
        f->count--;
        qc_tensor_unref(f->list[f->count].from);
        qc_tensor_unref(f->list[f->count].to);
    }
}

void qc_folded_constants_free(struct qc_folded_constants *f)
{
    if (!f) return;
    qc_folded_constants_trim(f, 0);
    free(f->list);
    qc_index_free(&f->index);
    qc_arena_free(f->arena);
    free(f);
}

/* `from` is referenced, so that no other tensor can get its address. */
static bool is_it(const struct folded *k, const struct qc_tensor *from, const struct qc_qparams *q, int axis)
{
    const struct qc_levels levels = qc_qparams_levels(q);
    return k->from == from && k->dtype == q->dtype && k->levels.lo == levels.lo && k->levels.hi == levels.hi &&
           k->levels.mantissa == levels.mantissa && k->axis == axis && k->count == q->count &&
           memcmp(k->scale, q->scale, q->count * sizeof *q->scale) == 0 &&
           memcmp(k->zero_point, q->zero_point, q->count * sizeof *q->zero_point) == 0;
}

static bool add_folded(struct qc_folded_constants *f, const struct qc_tensor *from, const struct qc_tensor *to,
                       const struct qc_qparams *q, int axis, struct qc_status *st)
{
    struct folded *list = qc_grown(f->list, f->count, &f->capacity, sizeof *list, st);
    if (!list) return false;
    f->list = list;
    struct folded k = {.dtype = q->dtype,
                       .levels = qc_qparams_levels(q),
                       .axis = axis,
                       .count = q->count,
                       .scale = qc_arena_dup(f->arena, q->scale, q->count, sizeof *q->scale, st),
                       .zero_point = qc_arena_dup(f->arena, q->zero_point, q->count, sizeof *q->zero_point, st)};
    if (!k.scale || !k.zero_point ||
        !qc_index_add(&f->index, qc_hash_number((uintptr_t)from), (uint32_t)f->count + 1, st))
        return false;
    k.from = qc_tensor_ref(from);
    k.to = qc_tensor_ref(to);
    f->list[f->count++] = k;
    return true;
}

/* *out: the result of a Quantize of a constant, taken from f if it is known there. f may be NULL. */
static bool folded_constants_take(struct qc_tensor **out, struct qc_folded_constants *f, const struct qc_graph *g,
                                  qc_id node, qc_eval_fn *eval, struct qc_status *st)
{
    const struct qc_node *n = &g->nodes[node];
    const struct qc_tensor *from = qc_constant_of(g, n->inputs[0]);
    const struct qc_type *type = &g->values[n->outputs].type;
    const struct qc_qparams *q = &g->qparams_of[type->qparams];
    const bool shared = f && q->kind == QC_QPARAMS_QUANTIZER && q->is_weight;
    size_t slot = SIZE_MAX;
    for (uint32_t i; shared && (i = qc_index_next(&f->index, qc_hash_number((uintptr_t)from), &slot));)
        if (i <= f->count && is_it(&f->list[i - 1], from, q, type->axis)) {
            *out = qc_tensor_ref(f->list[i - 1].to);
            return true;
        }
    if (!eval(out, g, node, st)) return false;
    /* In a file before f has it: otherwise the graph would make a copy there, and f keep this one in memory. */
    if ((!g->spills || qc_tensor_spill(*out, st)) &&
        (!shared || ((f->forms == QC_FORMS_NOT_KEPT || qc_tensor_keep_forms(*out, st)) &&
                     add_folded(f, from, *out, q, type->axis, st))))
        return true;
    qc_tensor_unref(*out);
    return false;
}

/* Returns true for a Quantize of a real constant into bound qparams. */
static bool is_constant(const struct qc_graph *g, const struct qc_node *n)
{
    return n->op == QC_OP_Quantize && qc_constant_of(g, n->inputs[0]) && qc_graph_parameters(g, n->outputs);
}

static bool fold_weight(struct qc_rebuild *r, struct qc_folded_constants *f, qc_id node, qc_eval_fn *eval,
                        struct qc_status *st)
{
    const struct qc_node *n = &r->from->nodes[node];
    const struct qc_value *v = &r->from->values[n->outputs];
    const char *name = v->name ? v->name : r->from->values[n->inputs[0]].name;
    struct qc_tensor *t = NULL;
    if (!folded_constants_take(&t, f, r->from, node, eval, st)) return false;
    r->map[n->outputs] = qc_graph_add_affine_constant(r->to, name, t, v->type.qparams, v->type.axis, st);
    qc_tensor_unref(t);
    return r->map[n->outputs] != 0;
}

/* Returns [node_count + 1]: the outputs need the node. */
static bool *live_nodes(const struct qc_graph *g, struct qc_arena *a, struct qc_status *st)
{
    bool *value = QC_NEW_ARRAY(a, bool, g->value_count + 1, st), *live = QC_NEW_ARRAY(a, bool, g->node_count + 1, st);
    if (!value || !live) return NULL;
    for (size_t i = 0; i < g->output_count; i++) value[g->outputs[i].value] = true;
    for (size_t id = g->node_count; id >= 1; id--) {
        const struct qc_node *n = &g->nodes[id];
        for (unsigned k = 0; k < n->output_count; k++) live[id] |= value[n->outputs + k];
        for (unsigned i = 0; live[id] && i < n->input_count; i++) value[n->inputs[i]] = true;
    }
    return live;
}

bool qc_to_integer(struct qc_graph **out, const struct qc_graph *g, qc_eval_fn *eval, struct qc_status *st)
{
    return qc_to_integer_shared(out, NULL, g, eval, st);
}

bool qc_to_integer_shared(struct qc_graph **out, struct qc_folded_constants *f, const struct qc_graph *g,
                          qc_eval_fn *eval, struct qc_status *st)
{
    struct qc_rebuild r = {0};
    struct qc_arena *a = qc_arena_new();
    bool *live = a ? live_nodes(g, a, st) : NULL;
    bool ok = a ? live && qc_rebuild_begin(&r, g, st) : qc_fail_memory(st, 1);
    if (ok) r.to->simulated = false;
    for (qc_id id = 1; ok && id <= g->node_count; id++)
        if (live[id])
            ok = is_constant(g, &g->nodes[id]) ? fold_weight(&r, f, id, eval, st) : qc_rebuild_node(&r, id, st) != 0;
    ok = ok && qc_rebuild_finish(out, &r, st);
    qc_rebuild_free(&r);
    qc_arena_free(a);
    return ok;
}
