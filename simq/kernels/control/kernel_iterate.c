// SPDX-License-Identifier: Apache-2.0
/* If-16, Loop-11 and Scan-9. Loop and Scan run a body repeatedly: each run passes its states to the next; other outputs
   are stacked. */
#include <stdlib.h>

#include "base/budget.h"
#include "base/checked.h"
#include "base/scope.h"
#include "graph/core/body.h"
#include "simq/core/kernel.h"
#include "simq/core/kernel_util.h"
#include "simq/plan/plan.h"

/* ---- Plans and runners of the bodies ---- */

struct state {
    const struct qc_node *node; /* of the plan's graph */
    struct qc_bodies bodies;
    struct qc_variants *variants[QC_BODIES];
    const struct qc_body_watch *watch;
};

struct local {
    struct qc_variant_runners *runners[QC_BODIES];
};

static bool prepare_bodies(struct qc_prepare *p, struct qc_status *st)
{
    struct state *s = QC_NEW_STATE(p, struct state, st);
    const struct qc_plan_options options = {.accumulator = p->accumulator,
                                            .rounding = p->contract,
                                            .lowering = p->int16 ? QC_LOWERING_INT16 : QC_LOWERING_INT8,
                                            .isa = p->isa};
    if (!s) return false;
    s->node = p->node;
    s->watch = p->watch;
    if (!qc_bodies_of(&s->bodies, p->node, st)) return false;
    for (unsigned k = 0; k < s->bodies.count; k++)
        if (!qc_variants_new(&s->variants[k], s->bodies.graph[k], &options, st)) return false;
    return true;
}

static void release_bodies(void *state)
{
    struct state *s = state;
    for (unsigned k = 0; k < QC_BODIES; k++) qc_variants_free(s->variants[k]);
}

static void close_bodies(void *local)
{
    struct local *l = local;
    for (unsigned k = 0; l && k < QC_BODIES; k++) qc_variant_runners_free(l->runners[k]);
    free(l);
}

static bool open_bodies(void **local, const struct qc_run *r, struct qc_status *st)
{
    const struct state *s = r->state;
    struct local *l = calloc(1, sizeof *l);
    bool ok = l != NULL || qc_fail_memory(st, sizeof *l);
    for (unsigned k = 0; ok && k < s->bodies.count; k++)
        ok = qc_variant_runners_new(&l->runners[k], s->variants[k], st);
    return QC_HAND_OVER(ok, local, l, close_bodies);
}

/* Runs body k once with the given inputs (as many as it has, any strides). Outputs of *runner are valid until its
   next run. */
static bool qc_body_run(struct qc_runner **runner, const struct qc_run *r, unsigned k, const struct qc_view *in,
                        struct qc_status *st)
{
    const struct state *s = r->state;
    const struct local *l = r->local;
    const size_t count = s->bodies.graph[k]->input_count;
    const struct qc_graph *body = s->bodies.graph[k];
    if (s->watch && !s->watch->fn(s->watch->user, body->shaped_from ? body->shaped_from : body, count, in, st))
        return false;
    struct qc_shape *shapes = calloc(count + 1, sizeof *shapes);
    if (!shapes) return qc_fail_memory(st, count * sizeof *shapes);
    for (size_t i = 0; i < count; i++) shapes[i] = qc_shape_of(in[i].rank, in[i].dim);
    bool ok = qc_variant_runner(runner, l->runners[k], shapes, st);
    free(shapes);
    for (size_t i = 0; ok && i < count; i++) {
        const struct qc_view to = qc_runner_input(*runner, i);
        if (qc_view_count(&to)) qc_view_copy(&to, &in[i]);
    }
    return (ok && qc_runner_run(*runner, NULL, NULL, st)) || qc_where(st, "body '%s'", s->bodies.attr[k]);
}

static const struct qc_budget *budget_of(const struct qc_run *r)
{
    return &((const struct state *)r->state)->bodies.graph[0]->budget;
}

/* Adds to *held, the bytes of results of this node, and checks that one run may hold them. */
static bool count_bytes(size_t *held, const struct qc_run *r, size_t bytes, struct qc_status *st)
{
    if (!qc_add_size(held, *held, bytes)) return qc_fail_memory(st, UINT64_MAX);
    return qc_budget_run(budget_of(r), *held, 0, st);
}

/* Returns a copy of a view as a tensor, and adds its bytes to *held. */
static struct qc_tensor *qc_body_keep(size_t *held, const struct qc_run *r, const struct qc_view *v,
                                      struct qc_status *st)
{
    const struct qc_shape shape = qc_shape_of(v->rank, v->dim);
    const size_t bytes = qc_view_bytes(v);
    if (!count_bytes(held, r, bytes, st) || !qc_budget_hold(budget_of(r), bytes, st)) return NULL;
    struct qc_tensor *t = qc_tensor_new(v->dtype, &shape, st);
    if (!t || !t->count) return t;
    const struct qc_view to = qc_view_of(v->dtype, &shape, QC_LAYOUT_ROW, t->data);
    qc_view_copy(&to, v);
    return t;
}

/* Reads the first element of a condition. Fails if it has none (QC_BAD_INPUT). */
static bool qc_body_condition(bool *out, const struct qc_view *v, struct qc_status *st)
{
    const size_t count = qc_view_count(v);
    if (count != 1) return qc_fail(st, QC_BAD_INPUT, "its condition has %zu elements instead of one", count);
    *out = *(const uint8_t *)v->data != 0;
    return true;
}

/* Implements `run` for results of known shapes with the kernel's `make`, by copying. */
static bool qc_run_made(bool (*make)(struct qc_tensor **outputs, const struct qc_run *r, struct qc_status *st),
                        const struct qc_run *r, struct qc_status *st)
{
    struct qc_tensor **made = calloc(r->output_count + 1, sizeof(struct qc_tensor *));
    bool ok = made ? make(made, r, st) : qc_fail_memory(st, r->output_count * sizeof(struct qc_tensor *));
    for (unsigned k = 0; ok && k < r->output_count; k++) {
        const struct qc_shape want = qc_shape_of(r->out[k].rank, r->out[k].dim);
        char is[QC_SHAPE_TEXT], planned[QC_SHAPE_TEXT];
        if (!qc_shape_equal(&want, &made[k]->shape)) {
            ok = qc_fail(st, QC_BAD_INPUT, "output %u is %s, expected %s", k, qc_shape_text(is, &made[k]->shape),
                         qc_shape_text(planned, &want));
        } else if (r->out[k].data && made[k]->count) {
            const struct qc_view from = qc_view_of(made[k]->dtype, &want, QC_LAYOUT_ROW, made[k]->data);
            qc_view_copy(&r->out[k], &from);
        }
    }
    for (unsigned k = 0; made && k < r->output_count; k++) qc_tensor_unref(made[k]);
    free(made);
    return ok;
}

/* Parts of one output, stored one after the other. */
struct stack {
    enum qc_dtype dtype;
    struct qc_shape part;
    size_t part_bytes, used, capacity;
    char *data;
};

struct iterating {
    const struct qc_run *r;
    const struct state *s;
    int64_t count;            /* iterations so far */
    struct qc_view *in;       /* inputs of the body */
    struct qc_tensor **state; /* [states]: from the last run of the body */
    struct stack *stacks;     /* [stacked] */
    size_t held;              /* bytes of states and stacks */
};

static bool begin_iterate(struct iterating *it, const struct qc_run *r, struct qc_status *st)
{
    const struct qc_bodies *b = &((const struct state *)r->state)->bodies;
    *it = (struct iterating){.r = r,
                             .s = r->state,
                             .in = calloc(b->graph[0]->input_count + 1, sizeof *it->in),
                             .state = calloc(b->states + 1, sizeof(struct qc_tensor *)),
                             .stacks = calloc(b->stacked + 1, sizeof *it->stacks)};
    if (!it->in || !it->state || !it->stacks) return qc_fail_memory(st, r->input_count * sizeof *it->in);
    for (size_t i = 0; i < b->graph[0]->input_count; i++)
        if (i < r->input_count) it->in[i] = r->in[i];
    return true;
}

static void end_iterate(struct iterating *it)
{
    for (unsigned k = 0; it->state && k < it->s->bodies.states; k++) qc_tensor_unref(it->state[k]);
    for (unsigned k = 0; it->stacks && k < it->s->bodies.stacked; k++) free(it->stacks[k].data);
    free(it->in);
    free(it->state);
    free(it->stacks);
}

static bool push(struct iterating *it, unsigned k, const struct qc_view *v, struct qc_status *st)
{
    struct stack *s = &it->stacks[k];
    const struct qc_shape shape = qc_shape_of(v->rank, v->dim);
    char a[QC_SHAPE_TEXT], b[QC_SHAPE_TEXT];
    size_t wanted;
    if (it->count == 0) *s = (struct stack){.dtype = v->dtype, .part = shape};
    if (!qc_shape_equal(&s->part, &shape))
        return qc_fail(st, QC_BAD_INPUT, "output %u is %s in iteration %lld, %s before", it->s->bodies.states + k,
                       qc_shape_text(a, &shape), (long long)it->count, qc_shape_text(b, &s->part));
    s->part_bytes = qc_view_bytes(v);
    if (!qc_add_size(&wanted, s->used, s->part_bytes)) return qc_fail_memory(st, UINT64_MAX);
    if (!count_bytes(&it->held, it->r, s->part_bytes, st)) return false;
    if (wanted > s->capacity) {
        struct qc_status unused = QC_STATUS_INIT;
        size_t more = wanted < 256 ? 512 : 2 * wanted;
        if (!qc_budget_hold(budget_of(it->r), more - s->capacity, &unused)) {
            more = wanted;
            if (!qc_budget_hold(budget_of(it->r), more - s->capacity, st)) return false;
        }
        char *grown = realloc(s->data, more);
        if (!grown) return qc_fail_memory(st, more);
        s->data = grown;
        s->capacity = more;
    }
    if (!s->part_bytes) return true;
    const struct qc_view to = qc_view_of(v->dtype, &shape, QC_LAYOUT_ROW, s->data + s->used);
    qc_view_copy(&to, v);
    s->used = wanted;
    return true;
}

/* Runs one iteration. The inputs before and after the states are set. *go_on: its condition, if it has one. */
static bool run_iteration(bool *go_on, struct iterating *it, unsigned first_state, struct qc_status *st)
{
    const struct qc_bodies *b = &it->s->bodies;
    struct qc_runner *runner;
    for (unsigned k = 0; k < b->states && it->count > 0; k++)
        it->in[first_state + k] =
            qc_view_of(it->state[k]->dtype, &it->state[k]->shape, QC_LAYOUT_ROW, it->state[k]->data);
    if (!qc_body_run(&runner, it->r, 0, it->in, st)) return false;
    if (b->before) {
        const struct qc_view v = qc_runner_output(runner, 0);
        if (!qc_body_condition(go_on, &v, st)) return false;
    }
    for (unsigned k = 0; k < b->states; k++) {
        const struct qc_view v = qc_runner_output(runner, b->before + k);
        struct qc_tensor *t = qc_body_keep(&it->held, it->r, &v, st);
        if (!t) return false;
        if (it->state[k]) it->held -= it->state[k]->bytes;
        qc_tensor_unref(it->state[k]);
        it->state[k] = t;
    }
    for (unsigned k = 0; k < b->stacked; k++) {
        const struct qc_view v = qc_runner_output(runner, b->before + b->states + k);
        if (!push(it, k, &v, st)) return false;
    }
    it->count++;
    return true;
}

/* Returns part `at` of a view along an axis, which the part lacks. */
static struct qc_view scan_part(const struct qc_view *whole, int64_t axis, int64_t at)
{
    const int d0 = (int)(axis < 0 ? axis + whole->rank : axis);
    struct qc_view v = qc_view_part(whole, d0, at, 1);
    for (int d = d0; d + 1 < v.rank; d++) {
        v.dim[d] = v.dim[d + 1];
        v.stride[d] = v.stride[d + 1];
    }
    v.rank--;
    return v;
}

/* Returns the parts of output k stacked along an axis, in reverse order if `backwards`. */
static struct qc_tensor *stacked(const struct iterating *it, unsigned k, int64_t axis, bool backwards,
                                 struct qc_status *st)
{
    const struct qc_bodies *b = &it->s->bodies;
    const struct qc_graph *g = b->graph[0];
    const struct qc_type *type = &qc_value(g, g->outputs[b->before + b->states + k].value)->type;
    const struct stack *s = &it->stacks[k];
    struct qc_shape part = it->count ? s->part : type->shape, whole = {.rank = (part.rank < 0 ? 0 : part.rank) + 1};
    if (whole.rank > QC_RANK_MAX) {
        qc_fail(st, QC_UNSUPPORTED, "output %u has %d dimensions, at most %d are handled", b->states + k, whole.rank,
                QC_RANK_MAX);
        return NULL;
    }
    if (axis < 0) axis += whole.rank;
    for (int i = 0, from = 0; i < whole.rank; i++)
        whole.dim[i] = i == axis ? it->count : part.dim[from++] < 0 ? 0 : part.dim[from - 1];
    if (!qc_budget_hold(budget_of(it->r), s->used, st)) return NULL;
    struct qc_tensor *t = qc_tensor_new(type->dtype, &whole, st);
    if (!t || !t->count) return t;
    const struct qc_view v = qc_view_of(t->dtype, &whole, QC_LAYOUT_ROW, t->data);
    for (int64_t i = 0; i < it->count; i++) {
        const struct qc_view to = scan_part(&v, axis, backwards ? it->count - 1 - i : i),
                             from = qc_view_of(s->dtype, &s->part, QC_LAYOUT_ROW, s->data + (size_t)i * s->part_bytes);
        qc_view_copy(&to, &from);
    }
    return t;
}

/* States that no iteration changed keep their input values. */
static bool hand_over(struct qc_tensor **outputs, struct iterating *it, unsigned first_state, struct qc_status *st)
{
    const struct qc_bodies *b = &it->s->bodies;
    const struct qc_node *n = it->s->node;
    const bool scan = n->op == QC_OP_Scan;
    for (unsigned k = 0; k < b->states; k++) {
        outputs[k] =
            it->count ? qc_tensor_ref(it->state[k]) : qc_body_keep(&it->held, it->r, &it->in[first_state + k], st);
        if (!outputs[k]) return false;
    }
    for (unsigned k = 0; k < b->stacked; k++) {
        const int64_t axis = scan ? qc_scan_entry(n, "scan_output_axes", k) : 0;
        const bool backwards = scan && qc_scan_entry(n, "scan_output_directions", k);
        if (!(outputs[b->states + k] = stacked(it, k, axis, backwards, st))) return false;
        free(it->stacks[k].data);
        it->stacks[k].data = NULL;
    }
    return true;
}

static bool make_loop(struct qc_tensor **outputs, const struct qc_run *r, struct qc_status *st)
{
    struct iterating it;
    const struct qc_graph *g = ((const struct state *)r->state)->bodies.graph[0];
    bool go_on = true;
    if (r->in[0].rank >= 0 && qc_view_count(&r->in[0]) != 1)
        return qc_fail(st, QC_BAD_INPUT, "its number of trips has %zu elements instead of one",
                       qc_view_count(&r->in[0]));
    if (r->in[1].rank >= 0 && !qc_body_condition(&go_on, &r->in[1], st)) return false;
    const int64_t most = r->in[0].rank < 0 ? INT64_MAX : *(const int64_t *)r->in[0].data;
    uint8_t condition = 1;
    bool ok = begin_iterate(&it, r, st);
    if (ok) {
        it.in[0] = qc_view_of(QC_I64, &qc_value(g, g->inputs[0].value)->type.shape, QC_LAYOUT_ROW, &it.count);
        it.in[1] = qc_view_of(QC_BOOL, &qc_value(g, g->inputs[1].value)->type.shape, QC_LAYOUT_ROW, &condition);
    }
    while (ok && go_on && it.count < most) {
        ok = run_iteration(&go_on, &it, 2, st) || qc_where(st, "iteration %lld", (long long)it.count);
        condition = go_on;
    }
    ok = ok && hand_over(outputs, &it, 2, st);
    end_iterate(&it);
    return ok;
}

static int64_t scan_length(const struct qc_run *r, unsigned k)
{
    const struct state *s = r->state;
    const struct qc_view *v = &r->in[s->bodies.states + k];
    const int64_t axis = qc_scan_entry(s->node, "scan_input_axes", k);
    return v->dim[axis < 0 ? axis + v->rank : axis];
}

static bool make_scan(struct qc_tensor **outputs, const struct qc_run *r, struct qc_status *st)
{
    struct iterating it;
    const struct state *s = r->state;
    const unsigned first = s->bodies.states;
    const int64_t length = scan_length(r, 0);
    bool unused, ok = begin_iterate(&it, r, st);
    for (unsigned k = 1; ok && k < s->bodies.scanned; k++)
        if (scan_length(r, k) != length) ok = qc_fail(st, QC_BAD_INPUT, "its scanned inputs have different lengths");
    while (ok && it.count < length) {
        for (unsigned k = 0; k < s->bodies.scanned; k++) {
            const bool backwards = qc_scan_entry(s->node, "scan_input_directions", k) != 0;
            it.in[first + k] = scan_part(&r->in[first + k], qc_scan_entry(s->node, "scan_input_axes", k),
                                         backwards ? length - 1 - it.count : it.count);
        }
        ok = run_iteration(&unused, &it, 0, st) || qc_where(st, "iteration %lld", (long long)it.count);
    }
    ok = ok && hand_over(outputs, &it, 0, st);
    end_iterate(&it);
    return ok;
}

static bool run_loop(const struct qc_run *r, struct qc_status *st)
{
    return qc_run_made(make_loop, r, st);
}

static bool run_scan(const struct qc_run *r, struct qc_status *st)
{
    return qc_run_made(make_scan, r, st);
}

QC_KERNEL(loop, .order = QC_ORDER_ROW, .prepare = prepare_bodies, .run = run_loop, .make = make_loop,
          .release = release_bodies, .open = open_bodies, .close = close_bodies);
QC_KERNEL(scan, .order = QC_ORDER_ROW, .prepare = prepare_bodies, .run = run_scan, .make = make_scan,
          .release = release_bodies, .open = open_bodies, .close = close_bodies);

/* If-11: one of two bodies. */

static bool make_if(struct qc_tensor **outputs, const struct qc_run *r, struct qc_status *st)
{
    const struct state *s = r->state;
    bool condition;
    struct qc_runner *runner;
    size_t held = 0;
    if (!qc_body_condition(&condition, &r->in[0], st)) return false;
    if (!qc_body_run(&runner, r, condition ? 0 : 1, r->in + 1, st)) return false;
    for (unsigned k = 0; k < s->node->output_count; k++) {
        const struct qc_view v = qc_runner_output(runner, k);
        if (!(outputs[k] = qc_body_keep(&held, r, &v, st))) return false;
    }
    return true;
}

static bool run_if(const struct qc_run *r, struct qc_status *st)
{
    return qc_run_made(make_if, r, st);
}

QC_KERNEL(if, .order = QC_ORDER_ROW, .prepare = prepare_bodies, .run = run_if, .make = make_if,
          .release = release_bodies, .open = open_bodies, .close = close_bodies);
