// SPDX-License-Identifier: Apache-2.0
/* Operators of ONNX Runtime, such as GroupQueryAttention, are imported as the nodes of a function (graph/core/call.h).
   If none of these nodes was quantized or changed, the file has the operator again, for which the runtime has a
   kernel. */
#include <string.h>

#include "base/scope.h"
#include "export/formats/lowering.h"
#include "graph/core/custom.h"
#include "graph/core/rebuild.h"
#include "graph/core/source_call.h"

/* LIMIT: nodes compared for one call; DEPTH: of the comparison. Functions have far fewer. */
enum { LIMIT = 4096, DEPTH = 512 };

/* A value of the float graph that was compared for a call: equal to this value of the written graph. */
struct met {
    qc_id value;
    size_t call; /* counted from 1 */
};

struct restoring {
    struct qc_lowering *x;
    const struct qc_graph *real, *written, *types; /* the float graph; x->from; the graph with the model's types */
    struct met *met;                               /* [real->value_count + 1] */
    size_t call;
    const struct qc_source_call *a, *b, *own; /* the call in both graphs and in that of the model's types */
    unsigned count, depth;
    bool cached; /* a cache was met that is stored in integers */
};

static bool is_past(unsigned input)
{
    return input >= QC_CACHES_PAST && input < QC_CACHES_PAST + QC_CACHES;
}

static bool attrs_equal(const struct qc_node *m, const struct qc_node *n)
{
    if (m->attr_count != n->attr_count) return false;
    for (unsigned i = 0; i < m->attr_count; i++)
        if (!qc_attr_equal(&m->attrs[i], &n->attrs[i])) return false;
    return true;
}

static bool is_float(const struct qc_graph *g, qc_id v)
{
    return qc_dtype_info(g->values[v].type.dtype)->is_float;
}

/* Returns the value that v is made of by Dequantize and Casts between floats, which models of 16 bits have in other
   places than the graph that they are quantized in. */
static qc_id source_of(const struct qc_graph *g, qc_id v)
{
    const struct qc_node *n = qc_node_of(g, v);
    while (n && (n->op == QC_OP_Dequantize ||
                 (n->op == QC_OP_Cast && is_float(g, n->inputs[0]) && is_float(g, n->outputs)))) {
        v = n->inputs[0];
        n = qc_node_of(g, v);
    }
    return v;
}

static bool constants_equal(const struct restoring *s, qc_id a, qc_id b)
{
    const struct qc_tensor *t = qc_constant_of(s->real, a), *u = qc_constant_of(s->written, b);
    if (!t || !u || s->written->values[b].type.qparams != QC_REAL) return false;
    /* True for the same numbers, also if b has them in 16 bits. */
    if (t->dtype != QC_F32 || u->dtype == QC_F32) return qc_tensor_equal(t, u);
    if (!qc_shape_equal(&t->shape, &u->shape)) return false;
    for (size_t i = 0; i < t->count; i++) {
        const float x = ((const float *)t->data)[i];
        const uint16_t *y = u->data;
        if (u->dtype == QC_F16 ? qc_float_to_half(x) != y[i] : u->dtype != QC_BF16 || qc_float_to_bfloat(x) != y[i])
            return false;
    }
    return true;
}

static bool values_equal(struct restoring *s, qc_id a, qc_id b);

static bool inputs_equal(struct restoring *s, const struct qc_node *m, const struct qc_node *n, unsigned first)
{
    if (m->op != n->op || m->input_count != n->input_count) return false;
    const bool to_float = m->op == QC_OP_Cast && is_float(s->real, m->outputs) && is_float(s->written, n->outputs);
    if (!to_float && !attrs_equal(m, n)) return false;
    for (unsigned i = first; i < m->input_count; i++)
        if (!values_equal(s, m->inputs[i], n->inputs[i])) return false;
    return true;
}

static bool compute_equal(struct restoring *s, qc_id a, qc_id b)
{
    const struct qc_value *v = &s->real->values[a], *w = &s->written->values[b];
    if (v->kind != w->kind || v->kind == QC_VALUE_INPUT) return false;
    if (v->kind == QC_VALUE_CONSTANT) return constants_equal(s, a, b);
    const struct qc_node *m = qc_node_of(s->real, a), *n = qc_node_of(s->written, b);
    if (w->type.qparams != QC_REAL && qc_node_affine(n) != QC_AFFINE_KEEP) return false;
    return v->output == w->output && inputs_equal(s, m, n, 0);
}

/* Returns true if both graphs compute the value from the inputs of the call in the same way. */
static bool values_equal(struct restoring *s, qc_id a, qc_id b)
{
    bool equal;
    if (!a || !b) return a == b;
    a = source_of(s->real, a);
    b = source_of(s->written, b);
    bool cache = false;
    for (size_t i = 0; i < s->x->from->output_count; i++)
        cache = cache || (b && s->x->cache[s->x->from->outputs[i].value] == b);
    if (cache) {
        s->cached = true; /* an operator with such a cache rounds what it appends */
        b = source_of(s->written, qc_node_of(s->written, b)->inputs[0]);
    }
    bool input = false; /* value a of the float graph is an input of the call; equal: b is the same */
    equal = false;
    for (unsigned i = 0; i < s->a->input_count; i++) {
        if (!s->a->inputs[i] || source_of(s->real, s->a->inputs[i]) != a) continue;
        input = true;
        equal = equal || source_of(s->written, s->b->inputs[i]) == b;
    }
    equal = equal || (input && constants_equal(s, a, b));
    if (input) return equal;
    if (s->met[a].call == s->call) return s->met[a].value == b;
    if (s->depth == DEPTH || s->count++ == LIMIT) return false;
    s->depth++;
    equal = compute_equal(s, a, b);
    s->depth--;
    if (equal) s->met[a] = (struct met){b, s->call};
    return equal;
}

/* *stored: the output is quantized. The Quantize may have moved before operators of the function that only move or join
   elements. */
static bool output_equal(bool *stored, struct restoring *s, qc_id a, qc_id b)
{
    for (b = source_of(s->written, b); s->written->values[b].type.qparams != QC_REAL;) {
        const struct qc_node *n = qc_node_of(s->written, b), *m = qc_node_of(s->real, a);
        *stored = true;
        if (n && n->op == QC_OP_Quantize) return values_equal(s, a, n->inputs[0]);
        if (n && m && n->op == QC_OP_Concat) {
            bool equal = m->op == n->op && m->input_count == n->input_count && attrs_equal(m, n) && s->depth++ < DEPTH;
            for (unsigned i = 0; equal && i < m->input_count; i++)
                equal = output_equal(stored, s, m->inputs[i], n->inputs[i]);
            return equal;
        }
        if (!n || !m || qc_node_affine(n) != QC_AFFINE_KEEP || !inputs_equal(s, m, n, 1)) return false;
        a = m->inputs[0];
        b = n->inputs[0];
    }
    return values_equal(s, a, b);
}

/* ---- Writing ---- */

/* A call that is written, as values of the lowered graph. */
struct again {
    const struct qc_source_call *call, *real, *own; /* in the written graph, the float graph and that of its types */
    qc_id *inputs;
    qc_id *outputs;  /* 0: nothing reads it, or only its stored form is read */
    qc_id *stored;   /* the stored form of an output that is quantized; else 0 */
    qc_id *quantize; /* the QuantizeLinear that makes it, perhaps before operators that only move elements */
    bool caches;     /* the operator has caches of integers */
    bool four;       /* they have 4 bits, two numbers in a byte */
};

enum { OWN_ATTRS = QC_CUSTOM_ATTRS + 1, CACHE_ATTRS = 3 };

/* Returns true for an operator of ONNX Runtime (1.32) that has caches in their stored types, with known scales. */
static bool takes_caches(const struct restoring *s)
{
    const struct qc_source_call *c = s->b;
    if (!qc_call_takes_caches(c) || c->output_count < QC_CACHES_PRESENT + QC_CACHES ||
        c->input_count > QC_CACHES_SCALES || !s->x->options.target->onnxruntime)
        return false;
    for (unsigned k = 0; k < QC_CACHES; k++) {
        const qc_id v =
            c->outputs[QC_CACHES_PRESENT + k] ? source_of(s->written, c->outputs[QC_CACHES_PRESENT + k]) : 0;
        if (!v || !c->inputs[QC_CACHES_PAST + k] || s->x->cache[c->inputs[QC_CACHES_PAST + k]] != v) return false;
        const struct qc_type *t = &s->written->values[v].type;
        const struct qc_qparams *p = &s->written->qparams_of[t->qparams];
        if ((p->dtype != QC_I8 && (p->dtype != QC_I4 || t->shape.dim[3] % 2)) || t->shape.rank != 4 ||
            t->shape.dim[3] < 1 || (p->count != 1 && (t->axis != 1 || t->shape.dim[1] != (int64_t)p->count)))
            return false;
    }
    return true;
}

/* Finds the values of the call, which is equal. *fits is false if an output is stored in another way. */
static bool find_values(struct again *out, bool *fits, struct restoring *s, const bool *stored, struct qc_arena *a,
                        struct qc_status *st)
{
    const struct qc_source_call *c = s->b;
    const qc_id cache = s->cached ? source_of(s->written, c->outputs[QC_CACHES_PRESENT]) : 0;
    const struct qc_lowering *x = s->x;
    *out =
        (struct again){.call = c,
                       .real = s->a,
                       .own = s->own,
                       .caches = s->cached,
                       .four = cache && s->written->qparams_of[s->written->values[cache].type.qparams].dtype == QC_I4,
                       .inputs = QC_NEW_ARRAY(a, qc_id, c->input_count, st),
                       .outputs = QC_NEW_ARRAY(a, qc_id, c->output_count, st),
                       .stored = QC_NEW_ARRAY(a, qc_id, c->output_count, st),
                       .quantize = QC_NEW_ARRAY(a, qc_id, c->output_count, st)};
    if (!out->inputs || !out->outputs || !out->stored || !out->quantize) return false;
    for (unsigned k = 0; k < c->output_count; k++) {
        if (!stored[k]) continue;
        out->stored[k] = x->integer[source_of(s->written, c->outputs[k])];
        /* The result of the QuantizeLinear, or of another operator with its type; 0 if it is no QuantizeLinear. */
        const struct qc_node *q = qc_node_of(x->to, out->stored[k]);
        while (q && q->op != QC_OP_QuantizeLinear && q->input_count) q = qc_node_of(x->to, q->inputs[0]);
        out->quantize[k] = s->cached ? out->stored[k] : q && q->input_count == 3 ? q->outputs : 0;
        *fits = *fits && out->stored[k] && out->quantize[k];
    }
    for (unsigned i = 0; *fits && i < c->input_count; i++) {
        size_t port = 0; /* an input of the written graph is one of the lowered graph */
        while (c->inputs[i] && s->cached && is_past(i) && x->from->inputs[port].value != c->inputs[i]) port++;
        if (c->inputs[i])
            out->inputs[i] =
                s->cached && is_past(i) ? x->to->inputs[port].value : qc_lower_real(s->x, c->inputs[i], st);
    }
    for (unsigned k = 0; *fits && k < c->output_count; k++)
        if (c->outputs[k] && !stored[k]) out->outputs[k] = qc_lower_real(s->x, c->outputs[k], st);
    return st->code == QC_OK;
}

/* Compares call number i and appends it to the list if it is to be written. */
static bool compare_call(struct again *list, size_t *count, struct restoring *s, size_t i, struct qc_arena *a,
                         struct qc_status *st)
{
    s->a = &s->real->calls[i];
    s->b = &s->written->calls[i];
    s->own = s->types->call_count == s->real->call_count ? &s->types->calls[i] : s->a;
    s->call = i + 1;
    s->count = s->depth = 0;
    s->cached = false;
    /* OpenVINO has few operators of other domains than ONNX's. */
    bool fits = s->a->op && s->b->op && !(s->x->options.target->openvino && strstr(s->a->op, "::"));
    bool *stored = QC_NEW_ARRAY(a, bool, s->b->output_count, st);
    if (!stored) return false;
    for (unsigned k = 0; fits && k < s->b->output_count; k++)
        if (s->b->outputs[k]) fits = output_equal(&stored[k], s, s->a->outputs[k], s->b->outputs[k]);
    fits = fits && (!s->cached || takes_caches(s));
    if (fits && !find_values(&list[*count], &fits, s, stored, a, st)) return false;
    *count += fits;
    return true;
}

/* Returns the attributes of the node: those of the call, its name, and the types of its outputs. */
static struct qc_attr *node_attrs(const struct restoring *s, const struct qc_graph *g, const struct again *w,
                                  struct qc_arena *a, struct qc_status *st)
{
    const struct qc_source_call *c = w->call;
    const char *colons = strstr(c->op, "::"),
               *domain = colons ? qc_arena_strndup(a, c->op, (size_t)(colons - c->op), st) : "";
    struct qc_attr *attrs = QC_NEW_ARRAY(a, struct qc_attr, c->attr_count + OWN_ATTRS + CACHE_ATTRS, st);
    int64_t *types = QC_NEW_ARRAY(a, int64_t, (size_t)c->output_count * (QC_RANK_MAX + 2), st);
    size_t n = 0;
    if (!domain || !attrs || !types) return NULL;
    for (unsigned k = 0; k < c->output_count; k++) {
        const qc_id v = w->stored[k] ? w->stored[k] : w->outputs[k];
        const struct qc_shape unknown = QC_SHAPE_UNKNOWN, *shape = v ? &g->values[v].type.shape : &unknown;
        const bool cache = w->caches && w->stored[k], four = cache && w->four;
        types[n++] = four ? QC_U8 : cache ? QC_I8 : v ? s->types->values[w->own->outputs[k]].type.dtype : QC_F32;
        types[n++] = shape->rank;
        for (int i = 0; i < shape->rank; i++) types[n++] = four && i == 3 ? shape->dim[i] / 2 : shape->dim[i];
    }
    memcpy(attrs, c->attrs, c->attr_count * sizeof *attrs);
    struct qc_attr *added = &attrs[c->attr_count + OWN_ATTRS];
    added[0] = QC_STRING("k_quant_type", "PER_CHANNEL");
    added[1] = QC_STRING("v_quant_type", "PER_CHANNEL");
    added[2] = QC_INT("kv_cache_bit_width", w->four ? 4 : 8);
    attrs[c->attr_count] = QC_STRING(QC_CUSTOM_DOMAIN, domain);
    attrs[c->attr_count + 1] = QC_STRING(QC_CUSTOM_OP, colons ? colons + 2 : c->op);
    attrs[c->attr_count + 2] = QC_INT(QC_CUSTOM_VERSION, 1);
    attrs[c->attr_count + 3] = QC_INTS(QC_CUSTOM_TYPES, n, types);
    return attrs;
}

/* Returns the float value v in another float type. */
static qc_id in_type(struct qc_graph *g, qc_id v, enum qc_dtype type, struct qc_status *st)
{
    return v && is_float(g, v) ? qc_graph_cast(g, v, type, st) : v;
}

/* Adds the scales of a cache, one for each element of each head. */
static qc_id cache_scales(struct qc_rebuild *r, const struct restoring *s, const struct again *w, unsigned k,
                          struct qc_status *st)
{
    const qc_id v = source_of(s->written, w->call->outputs[QC_CACHES_PRESENT + k]);
    const struct qc_type *t = &s->written->values[v].type;
    const struct qc_qparams *p = &s->written->qparams_of[t->qparams];
    const int64_t heads = t->shape.dim[1], size = t->shape.dim[3];
    const struct qc_shape shape = QC_SHAPE(heads * size);
    const char *name =
        qc_arena_printf(r->to->arena, st, "%s_scale", r->from->values[w->stored[QC_CACHES_PRESENT + k]].name);
    struct qc_tensor *scales = name ? qc_tensor_new(QC_F32, &shape, st) : NULL;
    for (int64_t i = 0; scales && i < heads * size; i++)
        ((float *)scales->data)[i] = p->scale[p->count == 1 ? 0 : i / size];
    return qc_graph_add_made_constant(r->to, name, scales, st);
}

static void write_call(struct qc_rebuild *r, const struct restoring *s, const struct again *w, struct qc_arena *a,
                       struct qc_status *st)
{
    const struct qc_source_call *c = w->call;
    const struct qc_attr *attrs = node_attrs(s, r->from, w, a, st);
    qc_id *inputs = QC_NEW_ARRAY(a, qc_id, c->input_count + QC_CACHES_SCALES + QC_CACHES, st);
    const char **names = QC_NEW_ARRAY(a, const char *, c->output_count, st);
    const unsigned input_count = w->caches ? QC_CACHES_SCALES + QC_CACHES : c->input_count;
    if (!attrs || !inputs || !names) return;
    for (unsigned i = 0; i < c->input_count; i++) {
        if (!w->inputs[i]) continue;
        /* Others than caches are in the type that the model has them in. */
        const bool past = w->caches && is_past(i);
        const struct qc_value *own = &s->types->values[w->own->inputs[i]];
        const bool replaced =
            !past && own->constant && own->constant->dtype != r->from->values[w->inputs[i]].type.dtype;
        inputs[i] = replaced ? qc_graph_add_constant(r->to, own->name, own->constant, st)
                             : qc_rebuild_value(r, w->inputs[i], st);
        if (!past && !replaced) inputs[i] = in_type(r->to, inputs[i], own->type.dtype, st);
    }
    for (unsigned k = 0; w->caches && k < QC_CACHES; k++) inputs[QC_CACHES_SCALES + k] = cache_scales(r, s, w, k, st);
    for (unsigned k = 0; k < c->output_count; k++)
        names[k] = w->caches && w->stored[k] ? r->from->values[w->stored[k]].name
                   : w->stored[k]            ? s->real->values[w->real->outputs[k]].name
                   : w->outputs[k]           ? r->from->values[w->outputs[k]].name
                                             : NULL;
    const struct qc_node_def def = {.op = QC_OP_Custom,
                                    .name = c->label,
                                    .input_count = input_count,
                                    .output_count = c->output_count,
                                    .inputs = inputs,
                                    .attr_count = c->attr_count + OWN_ATTRS + (w->caches ? CACHE_ATTRS : 0),
                                    .attrs = attrs,
                                    .output_names = names};
    const qc_id first = qc_graph_add(r->to, &def, st);
    for (unsigned k = 0; first && k < c->output_count; k++) {
        if (w->caches && w->stored[k]) {
            r->map[w->stored[k]] = first + k;
            continue;
        }
        const qc_id v = w->stored[k] ? qc_node_of(r->from, w->quantize[k])->inputs[0] : w->outputs[k],
                    y = v ? in_type(r->to, first + k, r->from->values[v].type.dtype, st) : 0;
        if (v && w->stored[k]) {
            /* Add the QuantizeLinear of output k. */
            const struct qc_node *q = qc_node_of(r->from, w->quantize[k]);
            const qc_id in[] = {y, qc_rebuild_value(r, q->inputs[1], st), qc_rebuild_value(r, q->inputs[2], st)};
            const struct qc_node_def with = {.inputs = in, .output_names = &r->from->values[w->stored[k]].name};
            r->map[w->stored[k]] = qc_graph_add_like(r->to, r->from, q, &with, st);
        }
        if (w->outputs[k]) r->map[w->outputs[k]] = y;
    }
}

bool qc_lower_restore_calls(struct qc_lowering *x, struct qc_status *st)
{
    const struct qc_graph *real = x->options.real;
    if (!real || !x->from->call_count || real->call_count != x->from->call_count) return true;
    QC_ARENA_SCOPE *a = qc_arena_new();
    QC_REBUILD_SCOPE r = {0};
    struct restoring s = {.x = x,
                          .real = real,
                          .written = x->from,
                          .types = x->options.own ? x->options.own : real,
                          .met = QC_NEW_ARRAY(a, struct met, real->value_count + 1, st)};
    struct again *list = QC_NEW_ARRAY(a, struct again, real->call_count, st);
    struct qc_graph *out;
    size_t count = 0;
    if (st->code != QC_OK) return false;
    for (size_t i = 0; i < real->call_count; i++)
        if (!compare_call(list, &count, &s, i, a, st)) return false;
    if (!qc_rebuild_begin(&r, x->to, st)) return false;
    for (size_t i = 0; i < count; i++) write_call(&r, &s, &list[i], a, st);
    if (!qc_rebuild_finish(&out, &r, st)) return false;
    qc_graph_free(x->to);
    x->to = out;
    return true;
}
