// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/integer_ports.h"

#include "arith/params.h"
#include "graph/core/rebuild.h"
#include "graph/core/uses.h"

struct porting {
    const struct qc_graph *g;
    struct qc_uses uses;
    struct qc_rebuild *r;
};

/* Numbers of a port. dtype QC_NONE: it stays as it is. */
struct levels {
    enum qc_dtype dtype;
    float scale;
    int32_t zero_point;
};

static bool is_signed(enum qc_dtype t)
{
    return qc_dtype_info(t)->lo < 0;
}

/* Returns the levels of a quantizer in the type of the choice; none if it has several scales or another width. */
static struct levels levels_of(const struct qc_graph *g, qc_id affine, const struct qc_port_choice *choice)
{
    const struct qc_qparams *s = qc_graph_parameters(g, affine);
    struct levels l = {.dtype = QC_NONE};
    if (!s || s->kind != QC_QPARAMS_QUANTIZER || s->state != QC_QPARAMS_BOUND || s->count != 1) return l;
    if (s->dtype != QC_U8 && s->dtype != QC_I8 && s->dtype != QC_U16 && s->dtype != QC_I16) return l;
    const enum qc_dtype as = choice->dtype == QC_NONE ? s->dtype : choice->dtype;
    const unsigned bits = qc_dtype_info(s->dtype)->bits;
    if (qc_dtype_info(as)->bits != bits) return l;
    const int32_t shift = (is_signed(s->dtype) - is_signed(as)) * (1 << (bits - 1));
    return (struct levels){.dtype = as, .scale = s->scale[0], .zero_point = s->zero_point[0] + shift};
}

/* Returns the levels of the first quantizer that reads a float input, perhaps from another float type. */
static struct levels input_levels(const struct porting *x, qc_id v, const struct qc_port_choice *choice)
{
    const struct qc_use_list readers = qc_readers(&x->uses, v);
    struct levels l = {.dtype = QC_NONE};
    for (size_t i = 0; l.dtype == QC_NONE && i < readers.count; i++) {
        const struct qc_node *n = &x->g->nodes[readers.of[i].node];
        if (n->op == QC_OP_Quantize) l = levels_of(x->g, n->outputs, choice);
        if (n->op == QC_OP_Cast && x->g->values[n->outputs].type.dtype == QC_F32)
            l = input_levels(x, n->outputs, choice);
    }
    return l;
}

/* Returns the Dequantize that makes a float output, perhaps in another float type; NULL: something else does. */
static const struct qc_node *output_maker(const struct qc_graph *g, qc_id v)
{
    const struct qc_node *n = qc_node_of(g, v);
    if (n && n->op == QC_OP_Cast) n = qc_node_of(g, n->inputs[0]);
    return n && n->op == QC_OP_Dequantize ? n : NULL;
}

/* Adds a QuantizeLinear or DequantizeLinear of v. */
static qc_id add_linear(struct qc_graph *to, enum qc_op op, qc_id v, const struct levels *l, const char *name,
                        struct qc_status *st)
{
    const qc_id scale = qc_graph_add_made_constant(to, NULL, qc_tensor_of(QC_F32, &QC_SCALAR, &l->scale, st), st),
                zero = qc_graph_add_made_constant(to, NULL, qc_tensor_of(l->dtype, &QC_SCALAR, &l->zero_point, st), st);
    return qc_graph_add(to, QC_NODE(op, QC_INPUTS(v, scale, zero), QC_RESULT(name)), st);
}

/* Returns the axis of an image's channels, 1 or the last one, which has 1, 3 or 4; -1: it is no image. */
static int channel_axis(const struct qc_shape *s, const struct qc_port_pixels *p)
{
    size_t channels = 1;
    for (int k = 0; k < 3; k++)
        if (p->step[k].count > channels) channels = p->step[k].count;
    for (int axis = 1; s->rank > 3 && axis < s->rank; axis += s->rank - 2) {
        const int64_t n = s->dim[axis];
        if ((n == 1 || n == 3 || n == 4) && (channels == 1 || (size_t)n == channels)) return axis;
    }
    return -1;
}

/* Returns true if these levels of each preprocessed byte are the byte. */
static bool keep_bytes(const struct levels *l, const struct qc_port_pixels *p)
{
    const struct qc_affine to = {l->scale, l->zero_point};
    float number[3] = {1, 0, 1};
    if (l->dtype != QC_U8) return false;
    for (size_t c = 0; c < 4; c++)
        for (int x = 0; x < 256; x++) {
            for (int k = 0; k < 3; k++)
                if (p->step[k].count) number[k] = p->step[k].of[c < p->step[k].count ? c : 0];
            const float y = ((float)x * number[0] - number[1]) / number[2];
            if (qc_quantize_one(y, to, (struct qc_levels){.lo = 0, .hi = 255}) != x) return false;
        }
    return true;
}

/* Adds the steps of preprocessing to an image whose channels are this axis. */
static qc_id add_steps(struct qc_graph *to, qc_id v, const struct qc_port_pixels *p, int axis, struct qc_status *st)
{
    static const enum qc_op ops[] = {QC_OP_Mul, QC_OP_Sub, QC_OP_Div};
    const struct qc_shape *s = &to->values[v].type.shape;
    for (int k = 0; v && k < 3; k++) {
        struct qc_shape by = QC_SCALAR;
        if (!p->step[k].count) continue;
        if (p->step[k].count > 1) {
            by.rank = s->rank - axis;
            for (int d = 0; d < by.rank; d++) by.dim[d] = d ? 1 : (int64_t)p->step[k].count;
        }
        const qc_id c = qc_graph_add_made_constant(to, NULL, qc_tensor_of(QC_F32, &by, p->step[k].of, st), st);
        v = qc_graph_add(to, QC_NODE(ops[k], QC_INPUTS(v, c)), st);
    }
    return v;
}

static qc_id port_image(struct porting *x, size_t i, const struct qc_port_pixels *p, int axis, struct qc_status *st)
{
    struct qc_graph *g = x->r->to;
    const struct qc_port *port = &x->g->inputs[i];
    const struct qc_type *type = &x->g->values[port->value].type;
    const int last = type->shape.rank - 1;
    const struct levels l = input_levels(x, port->value, &(struct qc_port_choice){.integer = true, .dtype = QC_U8});
    const bool exact = keep_bytes(&l, p);
    struct qc_shape shape = type->shape;
    for (int d = axis; d <= last; d++) shape.dim[d] = type->shape.dim[d < last ? d + 1 : axis];
    qc_id v = qc_graph_add_input(g, port->name, QC_U8, &shape, st);
    struct qc_port copy = {0};
    if (!v || !qc_port_copy(&copy, port, g->arena, st)) return 0;
    struct qc_port *to = &g->inputs[i];
    to->pixels = qc_arena_strdup(g->arena, p->text, st);
    to->channels_last = axis != last;
    for (int d = 0; d <= last; d++) to->symbol[d] = copy.symbol[d < axis ? d : d < last ? d + 1 : axis];
    if (axis != last) {
        int64_t order[QC_RANK_MAX];
        for (int d = 0; d <= last; d++) order[d] = d < axis ? d : d == axis ? last : d - 1;
        v = qc_graph_add(g, QC_NODE(QC_OP_Transpose, QC_INPUTS(v), QC_ATTRS(QC_INTS("perm", (size_t)last + 1, order))),
                         st);
    }
    if (exact) {
        to->scale = l.scale;
        to->zero_point = l.zero_point;
        v = add_linear(g, QC_OP_DequantizeLinear, v, &l, NULL, st);
    } else {
        v = add_steps(g, qc_graph_cast(g, v, QC_F32, st), p, axis, st);
    }
    return type->dtype != QC_F32 ? qc_graph_cast(g, v, type->dtype, st) : v;
}

static qc_id port_input(struct porting *x, bool *done, size_t i, const struct qc_port_choice *choice,
                        struct qc_status *st)
{
    const struct qc_port *port = &x->g->inputs[i];
    const struct qc_type *type = &x->g->values[port->value].type;
    const bool real = qc_dtype_info(type->dtype)->is_float;
    struct levels l = {.dtype = QC_NONE};
    const int axis = choice->image && real ? channel_axis(&type->shape, choice->pixels) : -1;
    *done = axis > 0;
    if (*done) return port_image(x, i, choice->pixels, axis, st);
    if (choice->integer && real) l = input_levels(x, port->value, choice);
    const bool integer = l.dtype != QC_NONE;
    qc_id v = qc_graph_add_input_like(x->r->to, port, integer ? l.dtype : type->dtype, &type->shape, st);
    *done = integer || !real;
    if (!v || !integer) return v;
    x->r->to->inputs[i].scale = l.scale;
    x->r->to->inputs[i].zero_point = l.zero_point;
    v = add_linear(x->r->to, QC_OP_DequantizeLinear, v, &l, NULL, st);
    return type->dtype != QC_F32 ? qc_graph_cast(x->r->to, v, type->dtype, st) : v;
}

bool qc_integer_ports(struct qc_graph **out, bool *done, const struct qc_graph *g, const struct qc_port_choice *inputs,
                      const struct qc_port_choice *outputs, struct qc_status *st)
{
    QC_REBUILD_SCOPE r = {0};
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct porting x = {.g = g, .r = &r};
    struct qc_graph *made = NULL;
    struct levels *of_output = QC_NEW_ARRAY(a, struct levels, g->output_count + 1, st);
    qc_id *results = QC_NEW_ARRAY(a, qc_id, g->output_count + 1, st);
    if (!of_output || !results || !qc_uses_of(&x.uses, g, a, st) || !qc_rebuild_begin_bare(&r, g, st)) return false;
    for (size_t i = 0; st->code == QC_OK && i < g->input_count; i++)
        r.map[g->inputs[i].value] = port_input(&x, &done[i], i, &inputs[i], st);
    for (size_t o = 0; o < g->output_count; o++) {
        const struct qc_node *maker = output_maker(g, g->outputs[o].value);
        of_output[o] = (struct levels){.dtype = QC_NONE};
        if (outputs[o].integer && maker) of_output[o] = levels_of(g, maker->inputs[0], &outputs[o]);
    }
    QC_EACH_NODE(n, g) { /* Makers of integer outputs lose the name, which the integers have. */
        bool makes = false;
        for (size_t o = 0; o < g->output_count; o++)
            makes = makes || (of_output[o].dtype != QC_NONE && g->outputs[o].value == n->outputs);
        if (!makes) {
            qc_rebuild_node(&r, n->id, st);
            continue;
        }
        const qc_id in = qc_rebuild_value(&r, n->inputs[0], st);
        r.map[n->outputs] = n->op == QC_OP_Cast ? qc_graph_cast(r.to, in, g->values[n->outputs].type.dtype, st)
                                                : qc_graph_dequantize(r.to, in, st);
    }
    for (size_t o = 0; o < g->output_count; o++) {
        const qc_id v = g->outputs[o].value;
        const bool integer = of_output[o].dtype != QC_NONE;
        results[o] = !integer ? qc_rebuild_value(&r, v, st)
                              : add_linear(r.to, QC_OP_QuantizeLinear, r.map[output_maker(g, v)->outputs],
                                           &of_output[o], g->outputs[o].name, st);
        done[g->input_count + o] = integer || !qc_dtype_info(g->values[v].type.dtype)->is_float;
    }
    if (!qc_rebuild_finish_with(&made, &r, results, st)) return false;
    for (size_t o = 0; o < g->output_count; o++) {
        if (of_output[o].dtype == QC_NONE) continue;
        made->outputs[o].scale = of_output[o].scale;
        made->outputs[o].zero_point = of_output[o].zero_point;
    }
    *out = made;
    return true;
}

bool qc_real_ports(struct qc_graph **out, const struct qc_graph *g, const struct qc_affine *inputs, const bool *outputs,
                   struct qc_status *st)
{
    QC_REBUILD_SCOPE r = {0};
    QC_ARENA_SCOPE *a = qc_arena_new();
    qc_id *results = QC_NEW_ARRAY(a, qc_id, g->output_count + 1, st);
    if (!results || !qc_rebuild_begin_bare(&r, g, st)) return false;
    for (size_t i = 0; i < g->input_count; i++) {
        const struct qc_port *port = &g->inputs[i];
        const struct qc_type *type = &g->values[port->value].type;
        const bool real = inputs[i].scale > 0;
        const struct levels l = {type->dtype, inputs[i].scale, inputs[i].zero_point};
        const qc_id v = qc_graph_add_input_like(r.to, port, real ? QC_F32 : type->dtype, &type->shape, st);
        r.map[port->value] = real ? add_linear(r.to, QC_OP_QuantizeLinear, v, &l, NULL, st) : v;
    }
    QC_EACH_NODE(n, g) qc_rebuild_node(&r, n->id, st);
    for (size_t o = 0; o < g->output_count; o++) {
        /* An output that a QuantizeLinear with one constant scale makes is read with its parameters. */
        const struct qc_node *maker = qc_node_of(g, g->outputs[o].value);
        const struct qc_tensor *scale =
            outputs[o] && maker && maker->op == QC_OP_QuantizeLinear ? qc_constant_of(g, maker->inputs[1]) : NULL;
        results[o] = qc_rebuild_value(&r, g->outputs[o].value, st);
        if (scale && scale->count == 1 && scale->dtype == QC_F32) {
            qc_id in[3] = {results[o]};
            for (unsigned i = 1; i < maker->input_count; i++) in[i] = qc_rebuild_value(&r, maker->inputs[i], st);
            results[o] =
                qc_graph_add(r.to, QC_NODE(QC_OP_DequantizeLinear, .inputs = in, .input_count = maker->input_count),
                             st);
        }
    }
    return qc_rebuild_finish_with(out, &r, results, st);
}

/* Follows the first `length` operators that read input i, each the only one; *end: what they compute. Returns false if
   they are not there. */
static bool follow_chain(qc_id *end, bool *skip, const struct qc_uses *u, size_t i, size_t length)
{
    const struct qc_graph *g = u->graph;
    qc_id v = g->inputs[i].value;
    for (size_t k = 0; k < length; k++) {
        const struct qc_use_list readers = qc_readers(u, v);
        const struct qc_node *n = readers.count == 1 ? &g->nodes[readers.of[0].node] : NULL;
        if (!n || n->inputs[0] != v || n->output_count != 1 || u->output_count[v] ||
            (n->op != QC_OP_Transpose && n->op != QC_OP_Cast && n->op != QC_OP_Mul && n->op != QC_OP_Sub &&
             n->op != QC_OP_Div))
            return false;
        skip[readers.of[0].node] = true;
        v = n->outputs;
    }
    *end = v;
    return true;
}

bool qc_ports_without_pixels(struct qc_graph **out, const struct qc_graph *g, const size_t *chain, struct qc_status *st)
{
    struct qc_uses uses;
    QC_REBUILD_SCOPE r = {0};
    QC_ARENA_SCOPE *a = qc_arena_new();
    bool *skip = QC_NEW_ARRAY(a, bool, g->node_count + 1, st);
    qc_id *ends = QC_NEW_ARRAY(a, qc_id, g->input_count + 1, st);
    *out = NULL;
    if (!skip || !ends || !qc_uses_of(&uses, g, a, st)) return false;
    for (size_t i = 0; i < g->input_count; i++)
        if (!follow_chain(&ends[i], skip, &uses, i, chain[i])) return true;
    if (!qc_rebuild_begin_bare(&r, g, st)) return false;
    for (size_t i = 0; i < g->input_count; i++) {
        const struct qc_type *type = &g->values[ends[i]].type;
        r.map[ends[i]] = chain[i] ? qc_graph_add_input(r.to, g->inputs[i].name, type->dtype, &type->shape, st)
                                  : qc_graph_add_input_like(r.to, &g->inputs[i], type->dtype, &type->shape, st);
    }
    QC_EACH_NODE(n, g)
        if (!skip[n->id]) qc_rebuild_node(&r, n->id, st);
    return qc_rebuild_finish(out, &r, st);
}
