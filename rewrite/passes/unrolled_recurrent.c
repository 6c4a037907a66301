// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/unrolled_recurrent.h"

#include "graph/core/rebuild.h"
#include "graph/core/recurrent.h"

enum { STEPS_MAX = 256 }; /* operands of a Concat */

static bool unrolls(struct qc_recurrent *r, const struct qc_graph *g, const struct qc_node *n)
{
    struct qc_status unknown = QC_STATUS_INIT;
    const unsigned needless[] = {QC_RECURRENT_LENGTHS, QC_RECURRENT_P};
    for (size_t i = 0; i < sizeof needless / sizeof *needless; i++)
        if (needless[i] < n->input_count && n->inputs[needless[i]]) return false;
    return qc_is_recurrent(n->op) && qc_recurrent_of(r, g, n, &unknown) && !r->dynamic && !r->batchwise &&
           r->steps > 0 && r->steps <= STEPS_MAX && r->hidden > 0 && !qc_attr_find(n, "activations") &&
           !qc_attr_find(n, "clip") && !qc_attr_int(n, "input_forget", 0) &&
           g->values[n->inputs[QC_RECURRENT_X]].type.dtype == QC_F32;
}

/* State of the unrolling of a direction. The functions below return 0 after the first failure. */
struct steps {
    struct qc_graph *g;
    const struct qc_node *n;
    struct qc_recurrent r;
    struct qc_status *st;
};

static qc_id add_with(struct steps *s, enum qc_op op, unsigned count, const qc_id *inputs, const struct qc_attr *attr)
{
    return qc_graph_add(s->g,
                        QC_NODE(op, .input_count = count, .inputs = inputs, .attr_count = attr != NULL, .attrs = attr),
                        s->st);
}

static qc_id unary(struct steps *s, enum qc_op op, qc_id x)
{
    return add_with(s, op, 1, &x, NULL);
}

static qc_id binary(struct steps *s, enum qc_op op, qc_id a, qc_id b)
{
    return add_with(s, op, 2, (const qc_id[]){a, b}, NULL);
}

static qc_id joined(struct steps *s, int64_t axis, unsigned count, const qc_id *parts)
{
    const struct qc_attr at = {.name = "axis", .kind = QC_ATTR_INT, .i = axis};
    return count == 1 ? parts[0] : add_with(s, QC_OP_Concat, count, parts, &at);
}

static qc_id add_int(struct steps *s, int64_t v)
{
    const struct qc_shape shape = QC_SHAPE(1);
    struct qc_tensor *t = qc_tensor_new(QC_I64, &shape, s->st);
    if (t) *(int64_t *)t->data = v;
    return qc_graph_add_made_constant(s->g, NULL, t, s->st);
}

static qc_id part(struct steps *s, qc_id x, int64_t axis, int64_t begin, int64_t count)
{
    return add_with(s, QC_OP_Slice, 4,
                    (const qc_id[]){x, add_int(s, begin), add_int(s, begin + count), add_int(s, axis)}, NULL);
}

/* Gates `first` to `first + count - 1` along the last axis of a value of rank 3, or of a bias. */
static qc_id gates(struct steps *s, qc_id x, int axis, int first, int count)
{
    return part(s, x, axis, first * s->r.hidden, count * s->r.hidden);
}

/* Direction d of a weight, transposed. */
static qc_id weight(struct steps *s, qc_id all, int d)
{
    static const int64_t order[] = {1, 0};
    const struct qc_attr perm = {.name = "perm", .kind = QC_ATTR_INTS, .count = 2, .ints = order};
    const qc_id one = binary(s, QC_OP_Squeeze, part(s, all, 0, d, 1), add_int(s, 0));
    return add_with(s, QC_OP_Transpose, 1, &one, &perm);
}

static qc_id zeros(struct steps *s, struct qc_shape shape)
{
    return qc_graph_add_made_constant(s->g, NULL, qc_tensor_new(QC_F32, &shape, s->st), s->st);
}

/* Direction d of an initial state. */
static qc_id state(struct steps *s, qc_id all, int d)
{
    return all ? part(s, all, 0, d, 1) : zeros(s, QC_SHAPE(1, 1, s->r.hidden));
}

/* x: gates of the input with all biases. */
static void lstm_step(struct steps *s, qc_id x, qc_id r, qc_id *h, qc_id *c)
{
    const qc_id all = binary(s, QC_OP_Add, x, binary(s, QC_OP_MatMul, *h, r)),
                open = unary(s, QC_OP_Sigmoid, gates(s, all, 2, 0, 3)), /* input, output, forget */
        cell = unary(s, QC_OP_Tanh, gates(s, all, 2, 3, 1));
    *c = binary(s, QC_OP_Add, binary(s, QC_OP_Mul, gates(s, open, 2, 2, 1), *c),
                binary(s, QC_OP_Mul, gates(s, open, 2, 0, 1), cell));
    *h = binary(s, QC_OP_Mul, gates(s, open, 2, 1, 1), unary(s, QC_OP_Tanh, *c));
}

/* x: gates of the input with the biases that are not multiplied by the reset gate; b: that one, or 0. */
static void gru_step(struct steps *s, qc_id x, qc_id r, qc_id b, bool reset_after, qc_id *h)
{
    const qc_id open = unary(s, QC_OP_Sigmoid,
                             binary(s, QC_OP_Add, gates(s, x, 2, 0, 2),
                                    binary(s, QC_OP_MatMul, *h, gates(s, r, 1, 0, 2)))),
                update = gates(s, open, 2, 0, 1), reset = gates(s, open, 2, 1, 1), weights = gates(s, r, 1, 2, 1);
    qc_id inner;
    if (reset_after) {
        inner = binary(s, QC_OP_MatMul, *h, weights);
        if (b) inner = binary(s, QC_OP_Add, inner, b);
        inner = binary(s, QC_OP_Mul, reset, inner);
    } else {
        inner = binary(s, QC_OP_MatMul, binary(s, QC_OP_Mul, reset, *h), weights);
    }
    const qc_id made = unary(s, QC_OP_Tanh, binary(s, QC_OP_Add, gates(s, x, 2, 2, 1), inner));
    *h = binary(s, QC_OP_Add, made, binary(s, QC_OP_Mul, update, binary(s, QC_OP_Sub, *h, made)));
}

/* Unrolls direction d. y: [steps, 1, batch, hidden]; h and c: the last states. */
static void direction(qc_id *y, qc_id *h, qc_id *c, struct steps *s, const qc_id in[QC_RECURRENT_INPUTS], int d)
{
    const int g = s->r.gates;
    const bool back = s->r.directions == 2 ? d == 1 : s->r.reverse,
               reset_after = g == 3 && qc_attr_int(s->n, "linear_before_reset", 0) != 0;
    const qc_id w = weight(s, in[QC_RECURRENT_W], d), r = weight(s, in[QC_RECURRENT_R], d);
    qc_id x = binary(s, QC_OP_MatMul, in[QC_RECURRENT_X], w), apart = 0, every[STEPS_MAX];
    if (in[QC_RECURRENT_B]) {
        const qc_id b = part(s, in[QC_RECURRENT_B], 0, d, 1);
        x = binary(s, QC_OP_Add, x, gates(s, b, 1, 0, g));
        apart = reset_after ? gates(s, b, 1, 5, 1) : 0;
        const qc_id both[] = {gates(s, b, 1, g, g - reset_after), zeros(s, QC_SHAPE(1, s->r.hidden))};
        x = binary(s, QC_OP_Add, x, joined(s, 1, 1 + reset_after, both));
    }
    *h = state(s, in[QC_RECURRENT_H], d);
    *c = g == 4 ? state(s, in[QC_RECURRENT_C], d) : 0;
    for (int64_t i = 0; i < s->r.steps; i++) {
        const int64_t t = back ? s->r.steps - 1 - i : i;
        const qc_id now = part(s, x, 0, t, 1);
        if (g == 4)
            lstm_step(s, now, r, h, c);
        else if (g == 3)
            gru_step(s, now, r, apart, reset_after, h);
        else
            *h = unary(s, QC_OP_Tanh, binary(s, QC_OP_Add, now, binary(s, QC_OP_MatMul, *h, r)));
        every[t] = *h;
    }
    *y = binary(s, QC_OP_Unsqueeze, joined(s, 0, (unsigned)s->r.steps, every), add_int(s, 1));
}

bool qc_unroll_recurrent(struct qc_graph **out, const struct qc_graph *g, struct qc_status *st)
{
    QC_REBUILD_SCOPE r = {0};
    struct qc_recurrent of;
    if (!qc_rebuild_begin(&r, g, st)) return false;
    QC_EACH_NODE(n, g) {
        if (unrolls(&of, g, n)) {
            struct steps s = {.g = r.to, .n = n, .r = of, .st = st};
            qc_id in[QC_RECURRENT_INPUTS] = {0}, parts[3][2] = {0};
            for (unsigned i = 0; i < n->input_count; i++) in[i] = qc_rebuild_value(&r, n->inputs[i], st);
            for (int d = 0; d < of.directions; d++) direction(&parts[0][d], &parts[1][d], &parts[2][d], &s, in, d);
            for (unsigned k = 0; k < n->output_count; k++)
                r.map[n->outputs + k] = joined(&s, k ? 0 : 1, (unsigned)of.directions, parts[k]);
        } else
            qc_rebuild_node(&r, n->id, st);
    }
    return qc_rebuild_finish(out, &r, st);
}
