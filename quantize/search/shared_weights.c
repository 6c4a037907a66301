// SPDX-License-Identifier: Apache-2.0
/* Weights of the outer graph that several bodies read (branches of an If, bodies of Loops): each body is quantized as a
   separate model, but the file stores such a weight once. A body gets the integers of the first one that was quantized
   with it; a body that no sample runs reads them through DequantizeLinear. */
#include "quantize/search/searches.h"

#include <stdlib.h>

#include "arith/params.h"
#include "base/scope.h"
#include "graph/core/body.h"
#include "graph/core/parameters.h"
#include "graph/core/rebuild.h"
#include "graph/core/shared_constants.h"
#include "graph/core/uses.h"

/* A weight as the first quantized body stores it. */
struct stored {
    struct qc_tensor *integers, *scale, *zero; /* NULL: not stored yet */
    int axis;                                  /* of the scales; -1: one scale */
    int64_t block;                             /* elements of a scale along the axis; 0: all */
};

struct qc_shared_weights {
    struct qc_arena *arena;
    struct qc_shared_constants constants;
    struct stored *of; /* [constants.count] */
};

bool qc_shared_weights_new(struct qc_shared_weights **out, const struct qc_graph *g, struct qc_status *st)
{
    struct qc_shared_weights *s = calloc(1, sizeof *s);
    bool ok = s && (s->arena = qc_arena_new());
    if (!ok) qc_fail_memory(st, sizeof *s);
    ok = ok && qc_shared_constants_of(&s->constants, g, QC_SHARED_WEIGHT_LEAST, s->arena, st) &&
         (s->of = QC_NEW_ARRAY(s->arena, struct stored, s->constants.count, st));
    return QC_HAND_OVER(ok, out, s, qc_shared_weights_free);
}

void qc_shared_weights_free(struct qc_shared_weights *s)
{
    for (size_t i = 0; s && s->of && i < s->constants.count; i++) {
        qc_tensor_unref(s->of[i].integers);
        qc_tensor_unref(s->of[i].scale);
        qc_tensor_unref(s->of[i].zero);
    }
    if (s) qc_arena_free(s->arena);
    free(s);
}

/* Returns the index of a weight that several graphs have, or QC_SHARED_NONE. */
static int64_t find(const struct qc_shared_weights *s, const struct qc_tensor *t)
{
    return t && t->dtype == QC_F32 && t->bytes >= QC_SHARED_WEIGHT_LEAST && t->shape.rank > 1
               ? qc_shared_constants_find(&s->constants, t)
               : QC_SHARED_NONE;
}

bool qc_shared_weights_in(const struct qc_shared_weights *s, const struct qc_graph *body)
{
    for (qc_id v = 1; v <= body->value_count; v++)
        if (find(s, qc_constant_of(body, v)) != QC_SHARED_NONE) return true;
    return false;
}

/* Returns the value of g with this name if it is a constant, else NULL. */
static const struct qc_tensor *constant_named(const struct qc_graph *g, const char *name)
{
    const qc_id v = name ? qc_graph_find_value(g, name) : 0;
    return v ? qc_constant_of(g, v) : NULL;
}

bool qc_shared_weights_add(struct qc_shared_weights *s, const struct qc_graph *body, const struct qc_network *net,
                           struct qc_status *st)
{
    const struct qc_graph *g = net->rounded;
    for (qc_id v = 1; v <= g->value_count; v++) {
        const struct qc_type *type = &g->values[v].type;
        const struct qc_tensor *integers = type->qparams == QC_REAL ? NULL : qc_constant_of(g, v);
        const struct qc_qparams *p = &g->qparams_of[type->qparams];
        /* Only a weight of at most a byte an element, without scales of scales, is stored. */
        if (!integers || !p->is_weight || p->state != QC_QPARAMS_BOUND || p->format || qc_dtype_size(p->dtype) != 1)
            continue;
        const struct qc_tensor *real = constant_named(body, g->values[v].name),
                               *used = constant_named(net->real, g->values[v].name);
        const int64_t i = find(s, real);
        if (i == QC_SHARED_NONE || s->of[i].integers || !used || !qc_tensor_equal(real, used) ||
            !qc_shape_equal(&real->shape, &integers->shape))
            continue;
        struct stored *w = &s->of[i];
        const struct qc_shape shape = p->count > 1 ? qc_scale_shape(p, &integers->shape, type->axis) : QC_SCALAR;
        struct qc_tensor *zero = qc_tensor_new(p->dtype, &shape, st);
        for (size_t c = 0; zero && c < p->count; c++) ((uint8_t *)zero->data)[c] = (uint8_t)p->zero_point[c];
        *w = (struct stored){.integers = qc_tensor_levels(p->dtype, integers, st),
                             .scale = qc_tensor_of(QC_F32, &shape, p->scale, st),
                             .zero = zero,
                             .axis = p->count > 1 ? type->axis : -1,
                             .block = p->block};
        if (!w->integers || !w->scale || !w->zero) return false;
    }
    return true;
}

static bool put_inside(struct qc_graph **out, const void *user, const struct qc_graph *body, struct qc_status *st)
{
    return qc_shared_weights_put(out, user, body, QC_SHARED_ALL, st);
}

bool qc_shared_weights_put(struct qc_graph **out, const struct qc_shared_weights *s, const struct qc_graph *body,
                           enum qc_shared_readers readers, struct qc_status *st)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_rebuild r = {0};
    struct qc_uses uses;
    bool any = false;
    *out = NULL;
    if (!s->constants.count) return true;
    bool ok = (a || qc_fail_memory(st, 1)) && qc_uses_of(&uses, body, a, st) && qc_rebuild_begin(&r, body, st);
    for (qc_id v = 1; ok && v <= body->value_count; v++) {
        const struct qc_use_list read = qc_all_uses(&uses, v);
        const int64_t i = read.count ? find(s, qc_constant_of(body, v)) : QC_SHARED_NONE;
        const struct stored *w = i == QC_SHARED_NONE || !s->of[i].integers ? NULL : &s->of[i];
        bool only_products = w && !w->block;
        for (size_t k = 0; k < read.count; k++)
            only_products = only_products && read.of[k].node && read.of[k].input == 1 &&
                            qc_op_info(body->nodes[read.of[k].node].op)->affine == QC_AFFINE_PRODUCT;
        if (!w || (readers == QC_SHARED_PRODUCTS && !only_products)) continue;
        /* Add a DequantizeLinear of the weight, under the name of the constant that it replaces. */
        const char *name = body->values[v].name;
        const char *parts[3] = {name ? qc_arena_printf(a, st, "%s_quantized", name) : NULL,
                                name ? qc_arena_printf(a, st, "%s_scale", name) : NULL,
                                name ? qc_arena_printf(a, st, "%s_zero_point", name) : NULL};
        const struct qc_attr attrs[] = {QC_INT("axis", w->axis), QC_INT("block_size", w->block)};
        qc_id in[3] = {qc_graph_add_constant(r.to, parts[0], w->integers, st),
                       qc_graph_add_constant(r.to, parts[1], w->scale, st),
                       qc_graph_add_constant(r.to, parts[2], w->zero, st)};
        const struct qc_node_def def = {.op = QC_OP_DequantizeLinear,
                                        .name = name,
                                        .input_count = 3,
                                        .inputs = in,
                                        .attr_count = w->axis < 0 ? 0
                                                      : w->block  ? 2
                                                                  : 1,
                                        .attrs = attrs,
                                        .output_names = &name};
        r.map[v] = in[0] && in[1] && in[2] ? qc_graph_add(r.to, &def, st) : 0;
        ok = r.map[v] != 0;
        any = true;
    }
    ok = ok && (!any || qc_rebuild_finish(out, &r, st));
    qc_rebuild_free(&r);
    if (!ok || readers != QC_SHARED_ALL || !body->depth) return ok;
    struct qc_graph *outer = *out; /* QC_BODY_DEPTH_MAX bounds the recursion */
    ok = qc_bodies_replace(out, outer ? outer : body, put_inside, s, st);
    qc_graph_free(outer);
    return ok;
}
