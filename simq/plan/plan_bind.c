// SPDX-License-Identifier: Apache-2.0
/* Visits the nodes in order, assigns memory and a memory order to each value, and appends the steps. */
#include <math.h>
#include <stdlib.h>

#include "base/array.h"
#include "simq/core/integer.h"
#include "simq/core/kernel_util.h"
#include "simq/plan/plan_parts.h"

/* `pending` of a reordered copy, which may have further users: it is never overwritten. */
#define SHARED (UINT64_MAX / 2)

/* One step under construction. */
struct work {
    qc_id node;
    struct qc_step_def def;
    struct qc_plan_operand in[QC_PLAN_INPUTS], out[QC_PLAN_OUTPUTS];
    struct qc_scales in_scales[QC_PLAN_INPUTS], out_scales[QC_PLAN_OUTPUTS];
    bool centred; /* affine results are centred float32, whatever the graph holds */
};

static struct qc_plan_operand operand_of(const struct qc_plan_binding *b, qc_id value)
{
    if (!value) return QC_OPERAND_ABSENT;
    const qc_id root = b->root[value];
    const struct qc_tensor *t = qc_plan_known(b, root);
    return t ? (struct qc_plan_operand){.view = qc_view_of_tensor(t)} : b->held[root];
}

/* Returns whether the channels are contiguous and v is not row-major as well (one channel or one pixel). */
static bool prefers_last(const struct qc_view *v)
{
    return v->rank >= 3 && v->rank <= 5 && v->dim[1] > 1 && v->stride[1] == 1 && !qc_view_row_major(v);
}

static bool emit_convert(struct qc_plan_binding *b, qc_id node, const char *label, const struct qc_plan_operand *to,
                         const struct qc_plan_operand *from, struct qc_status *st)
{
    const struct qc_step_def d = {.kernel = &qc_kernel_convert,
                                  .node = node,
                                  .label = label,
                                  .input_count = 1,
                                  .output_count = 1,
                                  .in = from,
                                  .out = to,
                                  .in_scales = &qc_scales_real,
                                  .out_scales = &qc_scales_real};
    return qc_plan_emit(b, &d, st);
}

/* Returns the value in dense row-major or channels-last order: itself, or a copy that is made once. */
static bool turn(struct qc_plan_operand *out, struct qc_plan_binding *b, qc_id node, qc_id value, enum qc_layout layout,
                 struct qc_status *st)
{
    struct qc_plan_operand o = operand_of(b, value);
    struct qc_shape shape = qc_shape_of(o.view.rank, o.view.dim);
    const struct qc_view want = qc_view_of(o.view.dtype, &shape, layout, o.view.data);
    const qc_id root = b->root[value];
    struct qc_plan_operand *cached = &b->turned[root];
    if (qc_view_same_order(&want, &o.view)) {
        o.view = want;
        *out = o;
        return true;
    }
    if (cached->view.rank < 0 || !qc_view_same_order(&want, &cached->view)) {
        struct qc_plan_operand copy = {.view = want};
        copy.view.data = NULL;
        if (o.storage == 0) {
            if (!qc_plan_turn_constant(&copy, b->plan, &o.view, layout, st)) return false;
        } else {
            copy.storage = qc_plan_new_storage(b->plan, qc_view_bytes(&want), st);
            if (!copy.storage || !emit_convert(b, node, NULL, &copy, &o, st)) return false;
            b->plan->storages[copy.storage].pending = SHARED;
        }
        *cached = copy;
    }
    *out = *cached;
    return true;
}

static bool add_report(struct qc_plan *p, size_t index, const struct qc_plan_operand *o, struct qc_status *st)
{
    struct qc_plan_report *grown = qc_grown(p->reports, p->report_count, &p->report_capacity, sizeof *grown, st);
    if (!grown) return false;
    p->reports = grown;
    p->reports[p->report_count++] = (struct qc_plan_report){.index = index, .after = p->step_count, .what = *o};
    qc_plan_touch(p, o, p->step_count);
    return true;
}

/* Completes a value: adds its users to its memory and reports it to observers. */
static bool publish(struct qc_plan_binding *b, qc_id value, const struct qc_plan_operand *o, struct qc_status *st)
{
    b->held[value] = *o;
    if (o->storage) b->plan->storages[o->storage].pending += b->uses[value];
    for (size_t i = b->first_observed[value]; i; i = b->next_observed[i - 1])
        if (!add_report(b->plan, i - 1, o, st)) return false;
    return true;
}

static void consume(struct qc_plan_binding *b, qc_id value)
{
    if (!value) return;
    const struct qc_plan_operand *o = &b->held[b->root[value]];
    if (!qc_plan_known(b, b->root[value]) && o->storage) b->plan->storages[o->storage].pending--;
}

/* Returns whether o is dense memory of its own without other users after this step. */
static bool overwritable(const struct qc_plan_binding *b, const struct qc_plan_operand *o)
{
    if (!o->storage || o->offset) return false;
    const struct qc_storage *s = &b->plan->storages[o->storage];
    return s->pending <= 1 && qc_view_dense(&o->view) &&
           qc_view_count(&o->view) * qc_dtype_size(o->view.dtype) == s->bytes;
}

/* Converts *io to other qparams or another type, in place if possible. */
static bool rescale(struct qc_plan_operand *io, struct qc_plan_binding *b, qc_id node, const struct qc_scales *from,
                    const struct qc_scales *to, enum qc_dtype type, struct qc_status *st)
{
    struct qc_plan_operand out = *io;
    out.view.dtype = type;
    if (!overwritable(b, io) || qc_dtype_size(type) != qc_dtype_size(io->view.dtype)) {
        struct qc_shape shape = qc_shape_of(io->view.rank, io->view.dim);
        if (!qc_plan_new_operand(&out, b->plan, type, &shape, prefers_last(&io->view) ? QC_LAYOUT_LAST : QC_LAYOUT_ROW,
                                 st))
            return false;
    }
    const struct qc_step_def d = {.kernel = to->identity     ? &qc_kernel_dequantize
                                            : from->identity ? &qc_kernel_quantize
                                                             : &qc_kernel_requantize,
                                  .node = node,
                                  .input_count = 1,
                                  .output_count = 1,
                                  .in = io,
                                  .out = &out,
                                  .in_scales = from,
                                  .out_scales = to};
    if (!qc_plan_emit(b, &d, st)) return false;
    *io = out;
    return true;
}

static enum qc_dtype dtype_of(const struct qc_plan_binding *b, qc_id value)
{
    return qc_plan_dtype(b->g, qc_value(b->g, value), &b->scales[value]);
}

static bool is_stored_binding(const struct qc_plan_operand *o, const struct qc_scales *s)
{
    return !s->identity && o->view.dtype != QC_F32;
}

/* Converts stored integers among the inputs to centred numbers. */
static bool centre(struct work *w, struct qc_plan_binding *b, struct qc_status *st)
{
    for (unsigned i = 0; i < w->def.input_count; i++)
        if (w->in[i].view.rank >= 0 && is_stored_binding(&w->in[i], &w->in_scales[i]) &&
            !rescale(&w->in[i], b, w->node, &w->in_scales[i], &w->in_scales[i], QC_F32, st))
            return false;
    return true;
}

/* Converts the results to the types that the plan holds. */
static bool store_results(struct work *w, struct qc_plan_binding *b, qc_id value, struct qc_status *st)
{
    for (unsigned i = 0; i < w->def.output_count; i++) {
        const struct qc_scales *s = &b->scales[value + i];
        if (!s->identity && w->out[i].view.dtype != dtype_of(b, value + i) &&
            !rescale(&w->out[i], b, w->node, s, s, dtype_of(b, value + i), st))
            return false;
    }
    return true;
}

static struct work *new_work(struct qc_plan_binding *b, qc_id node, struct qc_status *st)
{
    const struct qc_node *n = &b->g->nodes[node];
    struct work *w = calloc(1, sizeof *w);
    if (!w) {
        qc_fail_memory(st, sizeof *w);
        return NULL;
    }
    w->node = node;
    w->def = (struct qc_step_def){.kernel = qc_kernel_of(n->op),
                                  .node = node,
                                  .input_count = n->input_count,
                                  .output_count = n->output_count,
                                  .in = w->in,
                                  .out = w->out,
                                  .in_scales = w->in_scales,
                                  .out_scales = w->out_scales};
    for (unsigned i = 0; i < n->input_count; i++)
        w->in_scales[i] = n->inputs[i] ? b->scales[b->root[n->inputs[i]]] : qc_scales_real;
    for (unsigned i = 0; i < n->output_count; i++) w->out_scales[i] = b->scales[n->outputs + i];
    return w;
}

/* Returns whether rows or columns are contiguous, without overlap or negative strides. */
static bool is_matrix(const struct qc_view *v)
{
    if (v->rank < 2) return false;
    const int64_t rows = v->dim[v->rank - 2], columns = v->dim[v->rank - 1];
    const int64_t row = v->stride[v->rank - 2], column = v->stride[v->rank - 1];
    for (int i = 0; i < v->rank; i++)
        if (v->stride[i] <= 0) return false;
    return (column == 1 && row >= columns) || (row == 1 && column >= rows);
}

/* Sets the inputs of the kernel in the memory order that the kernel requires. */
static bool gather_binding(struct work *w, struct qc_plan_binding *b, struct qc_status *st)
{
    const struct qc_node *n = &b->g->nodes[w->node];
    const enum qc_kernel_order order = w->def.kernel->order;
    for (unsigned i = 0; i < n->input_count; i++) {
        struct qc_view *v = &w->in[i].view;
        w->in[i] = operand_of(b, n->inputs[i]);
        if (!n->inputs[i] || order == QC_ORDER_ANY || (order == QC_ORDER_MATRIX && i < 2 && is_matrix(v))) continue;
        const bool last = order == QC_ORDER_LAST && i == 0 && v->rank >= 3 && v->rank <= 5;
        if (!turn(&w->in[i], b, w->node, n->inputs[i], last ? QC_LAYOUT_LAST : QC_LAYOUT_ROW, st)) return false;
    }
    return true;
}

static enum qc_layout output_layout(const struct work *w, int rank)
{
    switch (w->def.kernel->order) {
    case QC_ORDER_MATRIX:
    case QC_ORDER_ROW: return QC_LAYOUT_ROW;
    case QC_ORDER_LAST: return QC_LAYOUT_LAST;
    case QC_ORDER_ANY: break;
    }
    for (unsigned i = 0; i < w->def.input_count; i++)
        if (w->in[i].storage && w->in[i].view.rank == rank && prefers_last(&w->in[i].view)) return QC_LAYOUT_LAST;
    return QC_LAYOUT_ROW;
}

/* Reorders constants of full rank to follow channels-last data, so that elementwise loops stay flat. */
static bool turn_constants(struct work *w, struct qc_plan_binding *b, struct qc_status *st)
{
    const struct qc_node *n = &b->g->nodes[w->node];
    const struct qc_shape *shape = &qc_value(b->g, n->outputs)->type.shape;
    if (w->def.kernel->order != QC_ORDER_ANY || output_layout(w, shape->rank) != QC_LAYOUT_LAST) return true;
    for (unsigned i = 0; i < n->input_count; i++) {
        const struct qc_view *v = &w->in[i].view;
        if (w->in[i].storage || !v->data || v->rank != shape->rank) continue;
        if (!turn(&w->in[i], b, w->node, n->inputs[i], QC_LAYOUT_LAST, st)) return false;
    }
    return true;
}

static bool place_outputs(struct work *w, struct qc_plan_binding *b, qc_id value, struct qc_status *st)
{
    for (unsigned i = 0; i < w->def.output_count; i++) {
        const struct qc_value *v = qc_value(b->g, value + i);
        const struct qc_shape *shape = &v->type.shape;
        const enum qc_layout layout = output_layout(w, shape->rank);
        const enum qc_dtype type = w->centred && !b->scales[value + i].identity ? QC_F32 : dtype_of(b, value + i);
        const struct qc_view want = qc_view_of(type, shape, layout, NULL);
        bool placed = false;
        for (unsigned k = 0; i == 0 && !placed && k < w->def.input_count && k < 64; k++) {
            if (!(w->def.kernel->in_place >> k & 1) || !overwritable(b, &w->in[k]) ||
                !qc_view_same_order(&want, &w->in[k].view) ||
                qc_dtype_size(want.dtype) != qc_dtype_size(w->in[k].view.dtype))
                continue;
            w->out[i] = w->in[k];
            w->out[i].view = want;
            placed = true;
        }
        if (placed || qc_plan_new_operand(&w->out[i], b->plan, want.dtype, shape, layout, st)) continue;
        const struct qc_node *n = &b->g->nodes[w->node];
        char label[QC_LABEL], text[QC_SHAPE_TEXT];
        return qc_where(st, "%s '%s' %s", qc_op_info(n->op)->name,
                        n->name && *n->name ? n->name : qc_value_label(label, b->g, value + i),
                        qc_shape_text(text, shape));
    }
    return true;
}

static bool finish_binding(struct work *w, struct qc_plan_binding *b, qc_id value, struct qc_status *st)
{
    const struct qc_node *n = &b->g->nodes[w->node];
    for (unsigned i = 0; i < n->input_count; i++) consume(b, n->inputs[i]);
    for (unsigned i = 0; i < w->def.output_count; i++)
        if (!publish(b, value + i, &w->out[i], st)) return false;
    return true;
}

/* Places the result in the memory of the residual if this is its last use, else in a copy of it. */
static bool place_residual(struct work *w, struct qc_plan_binding *b, qc_id tail, qc_id residual, struct qc_status *st)
{
    const struct qc_value *v = qc_value(b->g, b->g->nodes[tail].outputs);
    const struct qc_plan_operand from = operand_of(b, residual);
    const struct qc_view want = qc_view_of(QC_F32, &v->type.shape, QC_LAYOUT_LAST, NULL);
    bool shared = false;
    for (unsigned i = 0; i < w->def.input_count; i++) shared = shared || w->in[i].storage == from.storage;
    if (overwritable(b, &from) && !shared && qc_view_same_order(&want, &from.view)) {
        w->out[0] = from;
        w->out[0].view = want;
        return true;
    }
    return qc_plan_new_operand(&w->out[0], b->plan, QC_F32, &v->type.shape, QC_LAYOUT_LAST, st) &&
           emit_convert(b, tail, "copy", &w->out[0], &from, st);
}

/* Returns whether a product of centred float32 numbers that fit in bytes with constant weights is faster in bytes,
   conversion included. This needs AVX-512 VNNI and at least SHARING outputs per input. */
static bool faster_in_bytes(const struct qc_int_node *n, const struct qc_plan_binding *b)
{
    enum { SHARING = 16 };
    const struct qc_view *w = &n->in[1];
    const struct qc_levels x = n->in_scales[0].levels;
    if (!w->data || x.hi - x.lo > UINT8_MAX || b->plan->int16 || b->plan->isa < QC_ISA_AVX512_VNNI) return false;
    if (n->node->op == QC_OP_Conv) return w->dim[0] / qc_attr_int(n->node, "group", 1) >= SHARING;
    if (qc_kernel_is_large(b->g, w) && !b->plan->many_runs) return false; /* float32 reads them where they are */
    return w->rank == 2 && w->dim[n->node->op == QC_OP_Gemm && qc_attr_int(n->node, "transB", 0) ? 0 : 1] >= SHARING;
}

enum qc_contract qc_plan_contract(const struct qc_plan *p, const struct qc_node *n, const struct qc_view *in,
                                  unsigned count)
{
    bool wide = false;
    for (unsigned i = 0; i < count; i++) wide = wide || in[i].dtype == QC_I16;
    return p->contract == QC_CONTRACT_XNNPACK && wide && qc_node_affine(n) != QC_AFFINE_PRODUCT ? QC_CONTRACT_TFLITE
                                                                                                : p->contract;
}

/* Sets *out to the integer kernel of a node, or NULL. A simulated graph uses it only if float32 may be too narrow or
   bytes are faster. */
static bool integer_kernel(const struct qc_kernel **out, const struct work *w, struct qc_plan_binding *b,
                           struct qc_status *st)
{
    const struct qc_node *n = &b->g->nodes[w->node];
    const bool product = qc_node_affine(n) == QC_AFFINE_PRODUCT;
    struct qc_view in[3];
    struct qc_int_node d = {.graph = b->g,
                            .node = n,
                            .in = in,
                            .in_scales = w->in_scales,
                            .result = &b->scales[n->outputs],
                            .result_type = dtype_of(b, n->outputs)};
    *out = NULL;
    if (b->scales[n->outputs].identity || n->input_count == 0 || (b->g->simulated && !product)) return true;
    d.input_count = n->input_count < 3 ? n->input_count : 3;
    for (unsigned i = 0; i < d.input_count; i++) in[i] = operand_of(b, n->inputs[i]).view;
    d.contract = qc_plan_contract(b->plan, n, in, d.input_count);
    if (!product) *out = qc_int_affine_kernel(&d);
    if (!product || !d.result->rounds) return true;
    const struct qc_accumulator *a = &b->plan->accumulator;
    double bound;
    if (!qc_int_product_bound(&bound, &d, st)) return false;
    const bool fits = bound < ldexp(1, (int)a->bits - 1);
    if (b->g->simulated && fits && bound < 0x1p24 && !faster_in_bytes(&d, b)) return true;
    *out = qc_int_product_kernel(&d);
    if (*out || fits || a->bits == 32) return true;
    struct qc_status why = QC_STATUS_INIT;
    char label[QC_LABEL];
    qc_fail(&why, QC_UNSUPPORTED, "%s '%s': an accumulator of %u bits is not handled in this form",
            qc_op_info(n->op)->name, n->name ? n->name : qc_value_label(label, b->g, n->outputs), a->bits);
    qc_plan_note_unsupported(b, &why);
    return true;
}

static bool bind_group(struct qc_plan_binding *b, qc_id tail, struct qc_status *st)
{
    const struct qc_group *group = &b->groups[tail];
    const qc_id value = b->g->nodes[tail].outputs;
    struct work *w = new_work(b, group->head, st);
    bool ok = false;
    if (w && b->g->nodes[group->head].op == QC_OP_QuantizeLinear) w->def.kernel = &qc_kernel_fake_quantize;
    if (w && b->g->nodes[group->head].op == QC_OP_Dequantize) w->def.kernel = &qc_kernel_int_softmax;
    if (w && b->g->nodes[group->head].op == QC_OP_DequantizeLinear) w->def.kernel = &qc_kernel_int_requantize;
    const struct qc_node *head = &b->g->nodes[group->head];
    const size_t first_step = b->plan->step_count;
    if (!w || !qc_plan_make_weight(b, head, st)) goto out;
    const struct qc_kernel *integer = NULL;
    if (!integer_kernel(&integer, w, b, st)) goto out;
    if (integer) w->def.kernel = integer;
    if (!gather_binding(w, b, st)) goto out;
    w->centred = !integer && w->def.kernel->fuses;
    if (w->centred && !centre(w, b, st)) goto out;
    if (group->bias) {
        if (w->def.input_count < 3) w->def.input_count = 3;
        w->in[2] = operand_of(b, group->bias);
        w->in_scales[2] = qc_scales_real;
    }
    if (w->def.kernel->fuses) w->def.fusion = &group->fusion;
    w->out_scales[0] = b->scales[value];
    if (!(group->residual ? place_residual(w, b, tail, group->residual, st) : place_outputs(w, b, value, st))) goto out;
    if (!qc_plan_emit(b, &w->def, st) || !store_results(w, b, value, st)) goto out;
    consume(b, group->residual);
    ok = finish_binding(w, b, value, st);
    if (ok) qc_plan_drop_weight(b, head, first_step);
out:
    free(w);
    return ok;
}

/* Binds an op that computes: with a kernel on affine values if there is one, else as dequantize, the real op,
   quantize. */
static bool bind_computing(struct work *w, struct qc_plan_binding *b, struct qc_status *st)
{
    const struct qc_node *n = &b->g->nodes[w->node];
    const struct qc_kernel *own = qc_affine_kernel(n, n->input_count, w->in_scales, w->out_scales);
    const struct qc_scales result = w->out_scales[0];
    w->centred = true;
    if (own) w->def.kernel = own;
    if (!gather_binding(w, b, st) || (own && !centre(w, b, st))) return false;
    for (unsigned i = 0; !own && i < n->input_count; i++) {
        if (w->in_scales[i].identity) continue;
        if (!rescale(&w->in[i], b, w->node, &w->in_scales[i], &qc_scales_real, QC_F32, st)) return false;
        w->in_scales[i] = qc_scales_real;
    }
    if (!own) w->out_scales[0] = qc_scales_real;
    if (!turn_constants(w, b, st) || !place_outputs(w, b, n->outputs, st) || !qc_plan_emit(b, &w->def, st))
        return false;
    if (own || result.identity) return store_results(w, b, n->outputs, st);
    return rescale(&w->out[0], b, w->node, &qc_scales_real, &result, dtype_of(b, n->outputs), st);
}

static bool bind_moving(struct work *w, struct qc_plan_binding *b, struct qc_status *st)
{
    const struct qc_node *n = &b->g->nodes[w->node];
    if (!gather_binding(w, b, st)) return false;
    const bool bytes =
        qc_kernel_of(n->op) == &qc_kernel_pool && (w->in[0].view.dtype == QC_U8 || w->in[0].view.dtype == QC_I8);
    w->centred = !qc_op_is_conversion(n->op) && !qc_plan_moves(n) && !bytes;
    for (unsigned i = 0; qc_node_affine(n) == QC_AFFINE_JOIN && i < n->input_count; i++) {
        const struct qc_scales *x = &w->in_scales[i], *y = &w->out_scales[0];
        if (x->identity ? y->identity : x->qparams == y->qparams) continue;
        if (!rescale(&w->in[i], b, w->node, &w->in_scales[i], &w->out_scales[0], dtype_of(b, n->outputs), st))
            return false;
        w->in_scales[i] = w->out_scales[0];
    }
    if (w->centred && !centre(w, b, st)) return false;
    return turn_constants(w, b, st) && place_outputs(w, b, n->outputs, st) && qc_plan_emit(b, &w->def, st) &&
           store_results(w, b, n->outputs, st);
}

static bool bind_step(struct qc_plan_binding *b, qc_id node, struct qc_status *st)
{
    const struct qc_node *n = &b->g->nodes[node];
    const enum qc_affine_behaviour how = qc_node_affine(n);
    struct work *w = new_work(b, node, st);
    const size_t first_step = b->plan->step_count;
    bool affine = false, ok;
    if (!w || !qc_plan_make_weight(b, n, st)) {
        free(w);
        return false;
    }
    for (unsigned i = 0; i < n->input_count; i++) affine = affine || !w->in_scales[i].identity;
    affine = !qc_op_is_conversion(n->op) && (affine || !w->out_scales[0].identity);
    const struct qc_kernel *integer = NULL;
    if (affine && !integer_kernel(&integer, w, b, st))
        ok = false;
    else if (integer) {
        /* Binds a kernel on stored integers. */
        w->def.kernel = integer;
        ok = gather_binding(w, b, st) && turn_constants(w, b, st) &&
             place_outputs(w, b, b->g->nodes[w->node].outputs, st) && qc_plan_emit(b, &w->def, st);
    } else if (affine && (how == QC_AFFINE_MERGE || how == QC_AFFINE_NONE))
        ok = bind_computing(w, b, st);
    else
        ok = bind_moving(w, b, st);
    ok = ok && finish_binding(w, b, n->outputs, st);
    if (ok) qc_plan_drop_weight(b, n, first_step);
    free(w);
    return ok;
}

/* Binds the node as another view of its input's memory, if possible (*done). */
static bool bind_alias(bool *done, struct qc_plan_binding *b, qc_id node, struct qc_status *st)
{
    const struct qc_node *n = &b->g->nodes[node];
    struct qc_plan_operand in = operand_of(b, n->inputs[0]), out[QC_PLAN_OUTPUTS];
    *done = false;
    if (!in.storage) return true;
    if (!qc_plan_alias(out, b->g, n, &in)) {
        if (!qc_kernel_of(n->op)->alias) return true;
        if (!turn(&in, b, node, n->inputs[0], QC_LAYOUT_ROW, st)) return false;
        if (!qc_plan_alias(out, b->g, n, &in)) return true;
    }
    for (unsigned i = 0; i < n->output_count; i++)
        if (!publish(b, n->outputs + i, &out[i], st)) return false;
    consume(b, n->inputs[0]);
    for (unsigned i = 1; i < n->input_count; i++) consume(b, n->inputs[i]);
    *done = true;
    return true;
}

static bool bind_inputs(struct qc_plan_binding *b, struct qc_status *st)
{
    struct qc_plan *p = b->plan;
    for (size_t i = 0; i < p->input_count; i++) {
        const qc_id v = b->g->inputs[i].value;
        const struct qc_value *value = qc_value(b->g, v);
        if (!qc_plan_new_operand(&p->inputs[i], p, value->type.dtype, &value->type.shape,
                                 p->input_layouts ? p->input_layouts[i] : QC_LAYOUT_ROW, st))
            return false;
        qc_plan_touch(p, &p->inputs[i], 0);
        if (!publish(b, v, &p->inputs[i], st)) return false;
    }
    for (size_t i = 0; i < p->observed_count; i++) {
        const struct qc_tensor *t = qc_plan_known(b, b->root[b->observed[i]]);
        const struct qc_plan_operand o = t ? (struct qc_plan_operand){.view = qc_view_of_tensor(t)} : QC_OPERAND_ABSENT;
        if (t && !add_report(p, i, &o, st)) return false;
    }
    return true;
}

static bool bind_output(struct qc_plan_operand *out, struct qc_plan_binding *b, qc_id value, struct qc_status *st)
{
    const struct qc_type *t = &qc_value(b->g, value)->type;
    const struct qc_scales *s = &b->scales[b->root[value]];
    const struct qc_plan_operand in = operand_of(b, value);
    if (s->identity || is_stored_binding(&in, s)) return turn(out, b, 0, value, QC_LAYOUT_ROW, st);
    struct qc_scales stored = *s;
    stored.axis = t->axis;
    if (!qc_plan_new_operand(out, b->plan, t->dtype, &t->shape, QC_LAYOUT_ROW, st)) return false;
    const struct qc_step_def d = {.kernel = &qc_kernel_store,
                                  .input_count = 1,
                                  .output_count = 1,
                                  .in = &in,
                                  .out = out,
                                  .in_scales = &stored,
                                  .out_scales = &stored};
    return qc_plan_emit(b, &d, st);
}

bool qc_plan_bind(struct qc_plan_binding *b, struct qc_status *st)
{
    struct qc_plan *p = b->plan;
    if (!bind_inputs(b, st)) return false;
    for (size_t k = 1; k <= b->g->node_count; k++) {
        bool done = false;
        if (!b->live[k] || b->fused[k]) continue;
        if (qc_plan_shapeless(b->g, &b->g->nodes[k])) {
            /* Bind a node whose result shapes depend on data: the results are tensors of the runner and inputs of the
               next plan */
            const qc_id node = (qc_id)k;
            const struct qc_node *n = &b->g->nodes[node];
            struct work *w = new_work(b, node, st);
            bool ok = w != NULL;
            for (unsigned i = 0; ok && i < n->input_count; i++) {
                w->in[i] = QC_OPERAND_ABSENT;
                if (n->inputs[i]) ok = turn(&w->in[i], b, node, n->inputs[i], QC_LAYOUT_ROW, st);
            }
            for (unsigned i = 0; ok && i < n->output_count; i++) {
                w->out[i] = QC_OPERAND_ABSENT;
                w->out[i].view.dtype = qc_value(b->g, n->outputs + i)->type.dtype;
                b->plan->made_at[n->outputs + i] = b->plan->made_count + i;
            }
            ok = ok && qc_plan_emit_making(b, &w->def, st);
            for (unsigned i = 0; ok && i < n->input_count; i++) consume(b, n->inputs[i]);
            free(w);
            if (!ok) return false;
            continue;
        }
        if (b->groups[k].head) {
            if (!bind_group(b, (qc_id)k, st)) return false;
            continue;
        }
        if (!bind_alias(&done, b, (qc_id)k, st) || (!done && !bind_step(b, (qc_id)k, st))) return false;
    }
    for (size_t i = 0; i < p->output_count; i++)
        if (!bind_output(&p->outputs[i], b, b->g->outputs[i].value, st)) return false;
    for (size_t i = 0; i < p->output_count; i++) qc_plan_touch(p, &p->outputs[i], p->step_count + 1);
    return true;
}
