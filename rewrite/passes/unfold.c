// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/unfold.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/index.h"
#include "base/scope.h"
#include "graph/core/body.h"
#include "graph/core/qlinear.h"

/* LEAST: bytes of a constant that is replaced; NODE: of a node in the file, about. */
enum { LEAST = 1024, NODE = 128 };

/* What a graph computes from constants. */
struct computed {
    const struct qc_graph *source;
    struct qc_rebuild folded; /* maps values of source to constants */
    size_t *bytes; /* [value_count + 1] of source: of the constants and nodes that make it; SIZE_MAX: others */
};

static const struct qc_tensor *computed_tensor(const struct computed *c, qc_id v)
{
    return c->folded.map[v] ? qc_constant_of(c->folded.to, c->folded.map[v]) : NULL;
}

/* Sets c->bytes. A constant counts as often as it is read: the sum is an upper bound. */
static bool count_bytes(struct computed *c, struct qc_status *st)
{
    const struct qc_graph *g = c->source;
    if (!(c->bytes = malloc((g->value_count + 1) * sizeof *c->bytes)))
        return qc_fail_memory(st, (g->value_count + 1) * sizeof *c->bytes);
    for (qc_id v = 0; v <= g->value_count; v++)
        c->bytes[v] = v && g->values[v].constant ? g->values[v].constant->bytes : SIZE_MAX;
    QC_EACH_NODE(n, g) {
        size_t sum = qc_op_has_bodies(n->op) || n->op == QC_OP_Custom ? SIZE_MAX : NODE;
        for (unsigned i = 0; i < n->input_count; i++)
            if (n->inputs[i]) sum = qc_sum_at_most(sum, c->bytes[n->inputs[i]]);
        for (unsigned k = 0; k < n->output_count; k++) c->bytes[n->outputs + k] = sum;
    }
    return true;
}

/* Returns the value of the source that has the bits of t and takes fewer bytes; 0: none. */
static qc_id smaller_source(const struct computed *c, const struct qc_index *by_hash, const struct qc_tensor *t)
{
    size_t slot = SIZE_MAX;
    for (qc_id v; (v = qc_index_next(by_hash, qc_tensor_hash(t), &slot));)
        if (c->bytes[v] < t->bytes && qc_tensor_equal(computed_tensor(c, v), t)) return v;
    return 0;
}

static bool find_computed(struct computed *c, struct qc_index *by_hash, struct qc_status *st)
{
    const struct qc_graph *g = c->source;
    for (qc_id v = 1; v <= g->value_count; v++) {
        const struct qc_tensor *t = g->values[v].kind == QC_VALUE_RESULT ? computed_tensor(c, v) : NULL;
        if (t && t->bytes >= LEAST && c->bytes[v] < t->bytes && !qc_index_add(by_hash, qc_tensor_hash(t), v, st))
            return false;
    }
    return true;
}

/* Returns the numbers in float16; NULL if they need more bits, or memory is out. */
static struct qc_tensor *in_halves(const struct qc_tensor *t, struct qc_status *st)
{
    if (t->dtype != QC_F32) return NULL;
    const float *x = t->data;
    for (size_t i = 0; i < t->count; i++)
        if (qc_half_to_float(qc_float_to_half(x[i])) != x[i]) return NULL;
    struct qc_tensor *out = qc_tensor_new(QC_F16, &t->shape, st);
    for (size_t i = 0; out && i < t->count; i++) ((uint16_t *)out->data)[i] = qc_float_to_half(x[i]);
    return out;
}

bool qc_unfold_constants(struct qc_graph **g, const struct qc_graph *source, qc_eval_fn *eval, struct qc_status *st)
{
    struct computed c = {.source = source};
    struct qc_index by_hash = {0};
    QC_REBUILD_SCOPE r = {0};
    struct qc_graph *out = NULL;
    QC_FREED bool *large = calloc((*g)->value_count + 1, sizeof *large);
    if (!large) return qc_fail_memory(st, (*g)->value_count);
    /* Constants of many bytes that no operator reads as parameters of quantization. */
    for (qc_id v = 1; v <= (*g)->value_count; v++)
        large[v] = (*g)->values[v].constant && (*g)->values[v].constant->bytes >= LEAST;
    QC_EACH_NODE(n, *g) {
        const bool linear = n->op == QC_OP_QuantizeLinear || n->op == QC_OP_DequantizeLinear;
        struct qc_qlinear q;
        for (unsigned i = 0; (linear || qc_qlinear_of(&q, n)) && i < n->input_count; i++) large[n->inputs[i]] = false;
    }
    if (!(*g)->value_count || !memchr(large + 1, true, (*g)->value_count)) return true;
    if (count_bytes(&c, st) && qc_fold_values(&c.folded, source, eval, st) && find_computed(&c, &by_hash, st) &&
        qc_rebuild_begin(&r, *g, st)) {
        QC_FREED qc_id *map = calloc(source->value_count + 1, sizeof *map);
        struct qc_rebuild recipe = {.from = source, .to = r.to, .map = map}; /* nodes of the source, copied to r.to */
        if (!map) qc_fail_memory(st, (source->value_count + 1) * sizeof *map);
        for (qc_id v = 1; map && v <= r.from->value_count; v++) {
            const qc_id from = large[v] ? smaller_source(&c, &by_hash, r.from->values[v].constant) : 0;
            if (!from) continue;
            r.map[v] = qc_rebuild_value(&recipe, from, st);
            qc_graph_name_value(r.to, r.map[v], r.from->values[v].name, st);
        }
        for (qc_id v = 1; v <= r.from->value_count; v++) {
            const char *name = r.from->values[v].name;
            struct qc_tensor *t = large[v] && !r.map[v] ? in_halves(r.from->values[v].constant, st) : NULL;
            if (!t) continue;
            const char *half = name ? qc_arena_printf(r.to->arena, st, "%s_float16", name) : NULL;
            const qc_id in = qc_graph_add_made_constant(r.to, half, t, st);
            r.map[v] =
                qc_graph_add(r.to,
                             QC_NODE(QC_OP_Cast, QC_INPUTS(in), QC_ATTRS(QC_INT("to", qc_dtype_info(QC_F32)->onnx)),
                                     QC_RESULT(name), .name = name),
                             st);
        }
        qc_rebuild_finish(&out, &r, st);
    }
    qc_rebuild_free(&c.folded);
    qc_index_free(&by_hash);
    free(c.bytes);
    if (!out) return false;
    qc_graph_free(*g);
    *g = out;
    return true;
}
