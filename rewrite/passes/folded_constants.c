// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/folded_constants.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/index.h"
#include "graph/types/tensor_forms.h"

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

static bool add(struct qc_folded_constants *f, const struct qc_tensor *from, const struct qc_tensor *to,
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

bool qc_folded_constants_take(struct qc_tensor **out, struct qc_folded_constants *f, const struct qc_graph *g,
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
    if (!shared ||
        ((f->forms == QC_FORMS_NOT_KEPT || qc_tensor_keep_forms(*out, st)) && add(f, from, *out, q, type->axis, st)))
        return true;
    qc_tensor_unref(*out);
    return false;
}
