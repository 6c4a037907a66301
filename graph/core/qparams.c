// SPDX-License-Identifier: Apache-2.0
#include <float.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graph/core/tables.h"
#include "graph/types/number_format.h"

static qc_id new_qparams(struct qc_graph *g, const struct qc_qparams *s, struct qc_status *st)
{
    struct qc_graph_tables *t = g->tables;
    if (!qc_grow((void **)&g->qparams_of, &t->qparams_capacity, g->qparams_count, sizeof *g->qparams_of, st) ||
        !qc_index_reserve(&t->quantizer_names, st))
        return 0;
    struct qc_qparams copy = *s;
    if (!(copy.name = qc_arena_strdup(g->arena, s->name, st))) return 0;
    qc_id id = (qc_id)++g->qparams_count;
    g->qparams_of[id] = copy;
    qc_index_put(&t->quantizer_names, qc_hash_bytes(QC_HASH_START, copy.name, strlen(copy.name)), id);
    if (s->kind == QC_QPARAMS_PRODUCT && (!qc_index_add(&t->products, qc_hash_number(s->a), id, st) ||
                                          (s->b != s->a && !qc_index_add(&t->products, qc_hash_number(s->b), id, st))))
        return 0;
    return id;
}

/* Finds qparams by name, and products by their factors: names of values may contain a '*'. */
static qc_id find_qparams(const struct qc_graph *g, enum qc_qparams_kind kind, const char *name, qc_id a, qc_id b)
{
    uint64_t h = qc_hash_bytes(QC_HASH_START, name, strlen(name));
    size_t slot = SIZE_MAX;
    for (qc_id id; (id = qc_index_next(&g->tables->quantizer_names, h, &slot));) {
        const struct qc_qparams *s = &g->qparams_of[id];
        if (s->kind == kind && s->a == a && s->b == b && strcmp(s->name, name) == 0) return id;
    }
    return 0;
}

qc_id qc_graph_find_quantizer(const struct qc_graph *g, const char *name)
{
    return find_qparams(g, QC_QPARAMS_QUANTIZER, name, 0, 0);
}

qc_id qc_graph_add_quantizer(struct qc_graph *g, const struct qc_qparams *def, struct qc_status *st)
{
    qc_id known = find_qparams(g, QC_QPARAMS_QUANTIZER, def->name, 0, 0);
    if (known) return known;
    struct qc_qparams s = *def;
    s.kind = QC_QPARAMS_QUANTIZER;
    s.state = QC_QPARAMS_UNBOUND;
    s.a = s.b = 0;
    s.count = s.observed_count = 0;
    s.scale = NULL;
    s.zero_point = NULL;
    s.observed = NULL;
    return new_qparams(g, &s, st);
}

/* scale = f(a.scale * b.scale) per channel of whichever factor has channels; zero point 0. */
static bool derive_product(struct qc_graph *g, struct qc_qparams *p, struct qc_status *st)
{
    const struct qc_qparams *a = &g->qparams_of[p->a], *b = &g->qparams_of[p->b];
    p->per_channel = a->per_channel || b->per_channel;
    p->state = a->state == QC_QPARAMS_BOUND && b->state == QC_QPARAMS_BOUND       ? QC_QPARAMS_BOUND
               : a->state == QC_QPARAMS_UNBOUND || b->state == QC_QPARAMS_UNBOUND ? QC_QPARAMS_UNBOUND
                                                                                  : QC_QPARAMS_OFF;
    if (p->state != QC_QPARAMS_BOUND) return true;
    size_t count = a->count > b->count ? a->count : b->count;
    if ((a->count != 1 && a->count != count) || (b->count != 1 && b->count != count))
        return qc_fail(st, QC_BAD_INPUT, "qparams '%s' and '%s' have %zu and %zu channels", a->name, b->name, a->count,
                       b->count);
    float *scale = QC_NEW_ARRAY(g->arena, float, count, st);
    int32_t *zero = QC_NEW_ARRAY(g->arena, int32_t, count, st);
    if (!scale || !zero) return false;
    for (size_t i = 0; i < count; i++) scale[i] = a->scale[a->count == 1 ? 0 : i] * b->scale[b->count == 1 ? 0 : i];
    p->count = count;
    p->scale = scale;
    p->zero_point = zero;
    return true;
}

qc_id qc_graph_add_product(struct qc_graph *g, qc_id a, qc_id b, struct qc_status *st)
{
    const char *name = qc_arena_printf(g->arena, st, "%s*%s", g->qparams_of[a].name, g->qparams_of[b].name);
    if (!name) return 0;
    qc_id known = find_qparams(g, QC_QPARAMS_PRODUCT, name, a, b);
    if (known) return known;
    struct qc_qparams s = {
        .kind = QC_QPARAMS_PRODUCT, .name = name, .a = a, .b = b, .dtype = QC_I32, .symmetry = QC_SYMMETRIC};
    qc_id id = new_qparams(g, &s, st);
    return id && derive_product(g, &g->qparams_of[id], st) ? id : 0;
}

void qc_graph_borrow_qparams(struct qc_graph *to, const struct qc_graph *from, struct qc_qparams *qparams)
{
    if (!to->tables->borrows_qparams) free(to->qparams_of);
    to->tables->qparams_capacity = 0;
    to->qparams_of = qparams;
    to->qparams_count = from->qparams_count;
    to->tables->quantizer_names = from->tables->quantizer_names;
    to->tables->products = from->tables->products;
    to->tables->borrows_qparams = true;
}

bool qc_graph_copy_qparams(struct qc_graph *to, const struct qc_graph *from, struct qc_status *st)
{
    struct qc_graph_tables *t = to->tables;
    if (!from->qparams_count) return true;
    if (from->tables->borrows_qparams) {
        qc_graph_borrow_qparams(to, from, from->qparams_of);
        return true;
    }
    if (!qc_index_copy(&t->quantizer_names, &from->tables->quantizer_names, st) ||
        !qc_index_copy(&t->products, &from->tables->products, st))
        return false;
    for (size_t i = 1; i <= from->qparams_count; i++) {
        struct qc_qparams s = from->qparams_of[i];
        s.observed_count = 0;
        s.observed = NULL;
        if (!qc_grow((void **)&to->qparams_of, &t->qparams_capacity, to->qparams_count, sizeof s, st) ||
            !(s.name = qc_arena_strdup(to->arena, s.name, st)))
            return false;
        if (s.state == QC_QPARAMS_BOUND) {
            s.scale = qc_arena_dup(to->arena, s.scale, s.count, sizeof *s.scale, st);
            s.zero_point = qc_arena_dup(to->arena, s.zero_point, s.count, sizeof *s.zero_point, st);
            if (!s.scale || !s.zero_point) return false;
        } else {
            s.scale = NULL;
            s.zero_point = NULL;
        }
        to->qparams_of[++to->qparams_count] = s;
    }
    return true;
}

struct qc_levels qc_qparams_levels(const struct qc_qparams *s)
{
    if (s->format) return s->format->levels;
    const struct qc_levels all = qc_levels_of(s->dtype, s->restricted);
    const bool is_signed = qc_dtype_info(s->dtype)->is_signed;
    if (!s->bits) return all;
    const int32_t half = (int32_t)1 << (s->bits - 1);
    return is_signed ? (struct qc_levels){.lo = s->restricted ? 1 - half : -half, .hi = half - 1}
                     : (struct qc_levels){.lo = 0, .hi = 2 * half - 1};
}

enum qc_dtype qc_qparams_storage(const struct qc_qparams *s)
{
    return qc_is_small_float(s->dtype) ? QC_F32 : s->dtype;
}

struct qc_levels qc_levels_around_zero(const struct qc_qparams *s)
{
    struct qc_levels levels = qc_qparams_levels(s);
    if (!s->is_weight || s->symmetry != QC_SYMMETRIC || s->block || levels.lo < 0) return levels;
    const int32_t middle = levels.hi / 2 + 1;
    return (struct qc_levels){.lo = levels.lo - middle, .hi = levels.hi - middle};
}

bool qc_qparams_are_few(const struct qc_qparams *s)
{
    const struct qc_levels levels = qc_qparams_levels(s);
    return levels.mantissa ? qc_dtype_info(s->dtype)->bits <= 4 : levels.hi - levels.lo < 16;
}

static bool rederive(struct qc_graph *g, qc_id quantizer, struct qc_status *st)
{
    size_t slot = SIZE_MAX;
    for (qc_id id; (id = qc_index_next(&g->tables->products, qc_hash_number(quantizer), &slot));) {
        struct qc_qparams *p = &g->qparams_of[id];
        if ((p->a == quantizer || p->b == quantizer) && !derive_product(g, p, st)) return false;
    }
    return true;
}

bool qc_graph_bind_quantizer(struct qc_graph *g, qc_id quantizer, size_t count, const float *scale,
                             const int32_t *zero_point, struct qc_status *st)
{
    struct qc_qparams *s = &g->qparams_of[quantizer];
    struct qc_levels levels = qc_qparams_levels(s);
    if (count == 0 || (count > 1 && !s->per_channel))
        return qc_fail(st, QC_BAD_INPUT, "qparams '%s': %zu scales for a per-tensor quantizer", s->name, count);
    for (size_t i = 0; i < count; i++) {
        if (!(scale[i] >= FLT_MIN && scale[i] <= FLT_MAX))
            return qc_fail(st, QC_BAD_INPUT, "qparams '%s': scale %g is not a positive normal number", s->name,
                           (double)scale[i]);
        if (zero_point[i] < levels.lo || zero_point[i] > levels.hi)
            return qc_fail(st, QC_BAD_INPUT,
                           "qparams '%s': zero point %" PRId32 " is outside %s [%" PRId32 ", %" PRId32 "]", s->name,
                           zero_point[i], qc_dtype_info(s->dtype)->name, levels.lo, levels.hi);
    }
    s->scale = qc_arena_dup(g->arena, scale, count, sizeof *scale, st);
    s->zero_point = qc_arena_dup(g->arena, zero_point, count, sizeof *zero_point, st);
    if (!s->scale || !s->zero_point) return false;
    s->count = count;
    s->state = QC_QPARAMS_BOUND;
    return rederive(g, quantizer, st);
}

void qc_graph_turn_off_quantizer(struct qc_graph *g, qc_id quantizer)
{
    g->qparams_of[quantizer].state = QC_QPARAMS_OFF;
    struct qc_status st = QC_STATUS_INIT;
    rederive(g, quantizer, &st); /* cannot fail: a product with a factor that is off is not computed */
}

bool qc_graph_set_observed(struct qc_graph *g, qc_id quantizer, size_t count, const qc_id *values, struct qc_status *st)
{
    const qc_id *copy = qc_arena_dup(g->arena, values, count, sizeof *values, st);
    if (!copy) return false;
    g->qparams_of[quantizer].observed = copy;
    g->qparams_of[quantizer].observed_count = count;
    return true;
}

const struct qc_qparams *qc_graph_parameters(const struct qc_graph *g, qc_id value)
{
    qc_id s = g->values[value].type.qparams;
    return s && g->qparams_of[s].state == QC_QPARAMS_BOUND ? &g->qparams_of[s] : NULL;
}
