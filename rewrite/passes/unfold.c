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
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
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

/* Sets large [value_count + 1] for constants of many bytes that no operator reads as parameters of quantization.
   Returns true if there are any. */
static bool find_large(bool *large, const struct qc_graph *g)
{
    for (qc_id v = 1; v <= g->value_count; v++)
        large[v] = g->values[v].constant && g->values[v].constant->bytes >= LEAST;
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        const bool linear = n->op == QC_OP_QuantizeLinear || n->op == QC_OP_DequantizeLinear;
        struct qc_qlinear q;
        for (unsigned i = 0; (linear || qc_qlinear_of(&q, n)) && i < n->input_count; i++) large[n->inputs[i]] = false;
    }
    return g->value_count && memchr(large + 1, true, g->value_count);
}

/* Maps the value to the nodes of the source that compute it. */
static bool unfold(struct qc_rebuild *r, struct qc_rebuild *recipe, qc_id v, qc_id from, struct qc_status *st)
{
    recipe->to = r->to;
    r->map[v] = qc_rebuild_value(recipe, from, st);
    recipe->to = NULL;
    return r->map[v] && qc_graph_name_value(r->to, r->map[v], r->from->values[v].name, st);
}

static bool unfold_all(struct qc_rebuild *r, const bool *large, const struct computed *c,
                       const struct qc_index *by_hash, struct qc_status *st)
{
    const struct qc_graph *g = r->from;
    struct qc_rebuild recipe = {.from = c->source, .map = calloc(c->source->value_count + 1, sizeof(qc_id))};
    bool ok = recipe.map ? true : qc_fail_memory(st, (c->source->value_count + 1) * sizeof(qc_id));
    for (qc_id v = 1; ok && v <= g->value_count; v++) {
        const qc_id from = large[v] ? smaller_source(c, by_hash, g->values[v].constant) : 0;
        if (from) ok = unfold(r, &recipe, v, from, st);
    }
    free(recipe.map);
    return ok;
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

static bool halve_all(struct qc_rebuild *r, const bool *large, struct qc_status *st)
{
    const struct qc_graph *g = r->from;
    for (qc_id v = 1; v <= g->value_count; v++) {
        const char *name = g->values[v].name;
        if (r->map[v] || !large[v]) continue;
        struct qc_tensor *t = in_halves(g->values[v].constant, st);
        if (!t && st->code != QC_OK) return false;
        if (!t) continue;
        const char *half = name ? qc_arena_printf(r->to->arena, st, "%s_float16", name) : NULL;
        const qc_id in = half || !name ? qc_graph_add_made_constant(r->to, half, t, st) : 0;
        const struct qc_attr to = QC_INT("to", qc_dtype_info(QC_F32)->onnx);
        const struct qc_node_def cast = {.op = QC_OP_Cast,
                                         .name = name,
                                         .input_count = 1,
                                         .inputs = &in,
                                         .attr_count = 1,
                                         .attrs = &to,
                                         .output_names = &name};
        if (!in || !(r->map[v] = qc_graph_add(r->to, &cast, st))) return false;
    }
    return true;
}

bool qc_unfold_constants(struct qc_graph **g, const struct qc_graph *source, qc_eval_fn *eval, struct qc_status *st)
{
    struct computed c = {.source = source};
    struct qc_index by_hash = {0};
    struct qc_rebuild r = {0};
    struct qc_graph *out = NULL;
    QC_FREED bool *large = calloc((*g)->value_count + 1, sizeof *large);
    if (!large) return qc_fail_memory(st, (*g)->value_count);
    if (!find_large(large, *g)) return true;
    const bool ok = count_bytes(&c, st) && qc_fold_values(&c.folded, source, eval, st) &&
                    find_computed(&c, &by_hash, st) && qc_rebuild_begin(&r, *g, st) &&
                    unfold_all(&r, large, &c, &by_hash, st) && halve_all(&r, large, st) &&
                    qc_rebuild_finish(&out, &r, st);
    qc_rebuild_free(&r);
    qc_rebuild_free(&c.folded);
    qc_index_free(&by_hash);
    free(c.bytes);
    if (!ok) return false;
    qc_graph_free(*g);
    *g = out;
    return true;
}
