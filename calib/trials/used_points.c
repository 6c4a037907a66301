// SPDX-License-Identifier: Apache-2.0
#include "calib/trials/used_points.h"

#include "graph/core/function.h"

enum { STEPS_MOST = 8 };

struct finding {
    const struct qc_graph *g, *real;
    struct qc_uses uses;
    struct qc_used_points *out;
    size_t *index;   /* [value_count + 1] by source: watched + 1 */
    bool *corrected; /* [value_count + 1]: behind the end of some way */
};

static bool is_constant(const struct qc_graph *g, qc_id v)
{
    v = qc_source_of(g, v);
    return !v || qc_constant_of(g, v) != NULL;
}

/* The node that alone uses any form of v, and once; 0: there is none, or it is an output of the graph. */
static qc_id only_user(const struct finding *f, qc_id v, unsigned *input)
{
    qc_id forms[STEPS_MOST] = {v}, user = 0;
    size_t count = 1;
    for (size_t k = 0; k < count; k++) {
        const struct qc_use_list uses = qc_all_uses(&f->uses, forms[k]);
        for (size_t i = 0; i < uses.count; i++) {
            const struct qc_use *use = &uses.of[i];
            const bool converts = use->node && qc_is_conversion(f->g->nodes[use->node].op);
            if (!use->node || (!converts && user) || (converts && count == STEPS_MOST)) return 0;
            if (converts) {
                forms[count++] = f->g->nodes[use->node].outputs;
            } else {
                user = use->node;
                *input = use->input;
            }
        }
    }
    return user;
}

static bool is_stored(const struct qc_graph *g, qc_id v)
{
    const struct qc_qparams *s = qc_graph_parameters(g, v);
    return s && s->kind == QC_QPARAMS_QUANTIZER;
}

/* What others read of a source: its integers, else real numbers; 0: an accumulator, which nobody makes real. */
static qc_id stored_form(const struct finding *f, qc_id source)
{
    qc_id forms[STEPS_MOST] = {source}, real = 0;
    size_t count = 1;
    for (size_t k = 0; k < count; k++) {
        if (is_stored(f->g, forms[k])) return forms[k];
        if (!real && f->g->values[forms[k]].type.qparams == QC_REAL) real = forms[k];
        const struct qc_use_list readers = qc_readers(&f->uses, forms[k]);
        for (size_t i = 0; i < readers.count && count < STEPS_MOST; i++)
            if (qc_is_conversion(f->g->nodes[readers.of[i].node].op))
                forms[count++] = f->g->nodes[readers.of[i].node].outputs;
    }
    return real;
}

/* Number + 1 of the watched value of a source; 0: the float network has no such value. */
static size_t watch(struct finding *f, qc_id source, int axis)
{
    const struct qc_value *v = qc_value(f->g, source);
    struct qc_used_points *p = f->out;
    if (f->index[source]) return p->watched[f->index[source] - 1].axis == axis ? f->index[source] : 0;
    const qc_id real = v->name ? qc_graph_find_value(f->real, v->name) : 0;
    if (!real || axis < 0 || axis >= v->type.shape.rank || v->type.shape.dim[axis] <= 0) return 0;
    const struct qc_type *t = &f->real->values[real].type;
    if (t->dtype != QC_F32 || !qc_shape_equal(&t->shape, &v->type.shape) || qc_constant_of(f->real, real)) return 0;
    p->watched[p->watched_count] = (struct qc_watched){.source = source,
                                                       .real = real,
                                                       .stored = stored_form(f, source),
                                                       .axis = axis,
                                                       .channels = (size_t)v->type.shape.dim[axis]};
    return f->index[source] = ++p->watched_count;
}

static enum qc_used_slope slope_of(enum qc_op op)
{
    if (qc_op_info(op)->affine == QC_AFFINE_BOUND) return QC_SLOPE_CLAMP;
    return op == QC_OP_LeakyRelu || op == QC_OP_PRelu ? QC_SLOPE_RATIO : QC_SLOPE_REGRESSION;
}

/* The step over the node that alone reads v; false: the way ends at v. */
static bool step_of(struct qc_used_step *s, qc_id *next, struct finding *f, qc_id v, int axis)
{
    const struct qc_graph *g = f->g;
    unsigned input = 0;
    const qc_id id = only_user(f, v, &input);
    if (!id) return false;
    const struct qc_node *n = &g->nodes[id];
    const bool linear = n->op == QC_OP_Add || n->op == QC_OP_Sub;
    if (n->op != QC_OP_Table && n->op != QC_OP_PRelu && !qc_op_in_function(n->op)) return false;
    if (!qc_shape_equal(&g->values[n->outputs].type.shape, &g->values[v].type.shape)) return false;
    *s = (struct qc_used_step){.sign = n->op == QC_OP_Sub ? -1 : 1, .slope = slope_of(n->op)};
    for (unsigned i = 0; i < n->input_count; i++) {
        if (i == input || is_constant(g, n->inputs[i])) continue;
        const qc_id other = qc_source_of(g, n->inputs[i]);
        if (!linear || (n->op == QC_OP_Sub && input != 0)) return false;
        if (!qc_shape_equal(&g->values[other].type.shape, &g->values[v].type.shape)) return false;
        s->joins = true;
        s->other = qc_node_of(g, other) ? watch(f, other, axis) : 0;
    }
    const size_t in = watch(f, v, axis), out = watch(f, n->outputs, axis);
    if (!in || !out) return false;
    s->in = in - 1;
    s->out = out - 1;
    *next = n->outputs;
    return true;
}

/* Is a value of the way rounded before its end? */
static bool stored_on_the_way(const struct finding *f, const struct qc_used_point *p)
{
    bool stored = false;
    for (size_t k = p->first_step; k < p->first_step + p->step_count; k++) {
        const struct qc_used_step *s = &f->out->steps[k];
        const qc_id form = f->out->watched[s->in].stored;
        stored = stored || (s->slope != QC_SLOPE_CLAMP && form && is_stored(f->g, form));
    }
    return stored;
}

static void add_point(struct finding *f, qc_id id)
{
    const struct qc_graph *g = f->g;
    struct qc_used_points *o = f->out;
    struct qc_used_point p = {.first_step = o->step_count};
    if (!qc_layer_bias_find(&p.of, &f->uses, id)) return;
    const int axis = qc_layer_channel_axis(g, id);
    qc_id v = p.of.own;
    const size_t own = watch(f, v, axis);
    if (!own || qc_constant_of(g, p.of.bias)->count != o->watched[own - 1].channels) return;
    while (p.step_count < STEPS_MOST && step_of(&o->steps[p.first_step + p.step_count], &v, f, v, axis)) p.step_count++;
    p.own = own - 1;
    p.used = f->index[v] - 1;
    if (!stored_on_the_way(f, &p) || !o->watched[p.used].stored) return;
    o->step_count += p.step_count;
    for (size_t k = 0; k < o->count; k++)
        if (o->of[k].used == p.used) o->of[k].of.layer = 0; /* the last one takes it up */
    o->of[o->count++] = p;
}

static void leave_out_earlier(struct qc_used_points *o)
{
    size_t count = 0;
    for (size_t k = 0; k < o->count; k++)
        if (o->of[k].of.layer) o->of[count++] = o->of[k];
    o->count = count;
}

/* Will the error of a watched value go, and is it seen? */
static bool goes(const struct finding *f, size_t watched)
{
    const struct qc_watched *w = &f->out->watched[watched - 1];
    return f->corrected[w->source] && w->stored;
}

/* Errors behind the end of a way go with the error there; of what does not lie behind one they stay. */
static void find_corrected(struct finding *f)
{
    const struct qc_graph *g = f->g;
    struct qc_used_points *o = f->out;
    for (size_t k = 0; k < o->count; k++) f->corrected[o->watched[o->of[k].used].source] = true;
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        bool some = false;
        for (unsigned i = 0; i < n->input_count; i++) some = some || f->corrected[n->inputs[i]];
        for (unsigned k = 0; k < n->output_count; k++)
            f->corrected[n->outputs + k] = some || f->corrected[n->outputs + k];
    }
    for (size_t i = 0; i < o->step_count; i++)
        if (o->steps[i].other && !goes(f, o->steps[i].other)) o->steps[i].other = 0;
    for (size_t k = 0; k < o->count; k++) o->of[k].goes = f->corrected[g->nodes[o->of[k].of.layer].inputs[0]];
}

bool qc_used_points_find(struct qc_used_points *out, const struct qc_graph *g, const struct qc_graph *real,
                         struct qc_arena *a, struct qc_status *st)
{
    *out = (struct qc_used_points){.of = QC_NEW_ARRAY(a, struct qc_used_point, g->node_count + 1, st),
                                   .watched = QC_NEW_ARRAY(a, struct qc_watched, g->value_count + 1, st),
                                   .steps = QC_NEW_ARRAY(a, struct qc_used_step, STEPS_MOST * (g->node_count + 1), st)};
    struct finding f = {.g = g,
                        .real = real,
                        .out = out,
                        .index = QC_NEW_ARRAY(a, size_t, g->value_count + 1, st),
                        .corrected = QC_NEW_ARRAY(a, bool, g->value_count + 1, st)};
    if (!out->of || !out->watched || !out->steps || !f.index || !f.corrected || !qc_uses_of(&f.uses, g, a, st))
        return false;
    for (qc_id id = 1; id <= g->node_count; id++) add_point(&f, id);
    leave_out_earlier(out);
    find_corrected(&f);
    return true;
}
