// SPDX-License-Identifier: Apache-2.0
#include "graph/core/recurrent.h"

#include <inttypes.h>
#include <string.h>

static const char *const names[QC_RECURRENT_INPUTS] = {"X",         "W",         "R", "B", "sequence_lens",
                                                       "initial_h", "initial_c", "P"};

static int gates_of(enum qc_op op)
{
    return op == QC_OP_LSTM ? 4 : op == QC_OP_GRU ? 3 : op == QC_OP_RNN ? 1 : 0;
}

bool qc_is_recurrent(enum qc_op op)
{
    return gates_of(op) > 0;
}

/* Sets a size of which an input gives a multiple. Fails if other inputs gave a different one. */
static bool meet(int64_t *size, int64_t times, int64_t given, unsigned input, int axis, struct qc_status *st)
{
    if (given == QC_FREE) return true;
    if (given % times != 0)
        return qc_fail(st, QC_BAD_INPUT, "%s has %" PRId64 " along axis %d, expected a multiple of %" PRId64,
                       names[input], given, axis, times);
    given /= times;
    if (*size != QC_FREE && *size != given)
        return qc_fail(st, QC_BAD_INPUT, "%s has %" PRId64 " along axis %d, expected %" PRId64, names[input], given,
                       axis, *size);
    *size = given;
    return true;
}

bool qc_recurrent_of(struct qc_recurrent *out, const struct qc_graph *g, const struct qc_node *n, struct qc_status *st)
{
    static const int ranks[QC_RECURRENT_INPUTS] = {3, 3, 3, 2, 1, 3, 3, 2};
    struct qc_recurrent r = {.steps = QC_FREE, .batch = QC_FREE, .input = QC_FREE};
    const char *direction = qc_attr_string(n, "direction", "forward");
    const int64_t layout = qc_attr_int(n, "layout", 0), hidden = qc_attr_int(n, "hidden_size", QC_FREE);
    r.gates = gates_of(n->op);
    r.reverse = strcmp(direction, "reverse") == 0;
    r.directions = strcmp(direction, "bidirectional") == 0 ? 2 : 1;
    r.batchwise = layout == 1;
    r.dynamic = qc_attr_int(n, QC_RECURRENT_DYNAMIC, 0) == 1;
    if (!r.reverse && r.directions == 1 && strcmp(direction, "forward") != 0)
        return qc_fail(st, QC_BAD_INPUT,
                       "attribute direction is \"%.40s\", expected \"forward\", \"reverse\" or \"bidirectional\"",
                       direction);
    if (layout != 0 && layout != 1)
        return qc_fail(st, QC_BAD_INPUT, "attribute layout is %" PRId64 ", expected 0 or 1", layout);
    if (r.dynamic && (r.gates != 4 || r.batchwise))
        return qc_fail(st, QC_BAD_INPUT, "only an LSTM with steps on the first axis can round its inputs at run time");
    if (qc_attr_find(n, "hidden_size") && (hidden < 1 || hidden > INT32_MAX))
        return qc_fail(st, QC_BAD_INPUT, "attribute hidden_size is %" PRId64 ", expected 1 or more", hidden);
    r.hidden = hidden;
    int64_t directions = r.directions;
    const struct {
        int64_t *size, times;
    } expected[QC_RECURRENT_INPUTS][3] = {
        [QC_RECURRENT_X] = {{&r.steps, 1}, {&r.batch, 1}, {&r.input, 1}},
        [QC_RECURRENT_W] = {{&directions, 1}, {&r.hidden, r.gates}, {&r.input, 1}},
        [QC_RECURRENT_R] = {{&directions, 1}, {&r.hidden, r.gates}, {&r.hidden, 1}},
        [QC_RECURRENT_B] = {{&directions, 1}, {&r.hidden, 2 * r.gates}},
        [QC_RECURRENT_LENGTHS] = {{&r.batch, 1}},
        [QC_RECURRENT_H] = {{&directions, 1}, {&r.batch, 1}, {&r.hidden, 1}},
        [QC_RECURRENT_C] = {{&directions, 1}, {&r.batch, 1}, {&r.hidden, 1}},
        [QC_RECURRENT_P] = {{&directions, 1}, {&r.hidden, 3}},
    };
    for (unsigned i = 0; i < n->input_count; i++) {
        if (!n->inputs[i]) continue;
        const enum qc_dtype is = g->values[n->inputs[i]].type.dtype, x = g->values[n->inputs[0]].type.dtype;
        const struct qc_shape *s = &g->values[n->inputs[i]].type.shape;
        if (is != (i == QC_RECURRENT_LENGTHS ? QC_I32 : x) || !qc_dtype_info(x)->is_float)
            return qc_fail(st, QC_BAD_INPUT, "%s is %s, expected %s", names[i], qc_dtype_info(is)->name,
                           i == QC_RECURRENT_LENGTHS ? "i32" : "the floating-point type of X");
        if (s->rank >= 0 && s->rank != ranks[i])
            return qc_fail(st, QC_BAD_INPUT, "%s of shape %s, expected rank %d", names[i], QC_SHAPE_STR(s), ranks[i]);
        const bool swapped = r.batchwise && (i == QC_RECURRENT_X || i == QC_RECURRENT_H || i == QC_RECURRENT_C);
        for (int k = 0; k < s->rank; k++) {
            const int axis = swapped && k < 2 ? 1 - k : k; /* the batch comes before steps and directions */
            if (!meet(expected[i][k].size, expected[i][k].times, s->dim[axis], i, axis, st)) return false;
        }
    }
    *out = r;
    return true;
}
