// SPDX-License-Identifier: Apache-2.0
/* DynamicQuantizeLSTM of ONNX Runtime. W [directions, input, 4 * hidden] and R [directions, hidden, 4 * hidden] have 8
   bits and are transposed in comparison with an LSTM. Scales are one for each row of each gate [directions, 4 * hidden]
   or for each direction; zero points have the same shape and are all equal. */
#include <stdlib.h>
#include <string.h>

#include "export/formats/lowering.h"
#include "graph/core/recurrent.h"

/* Returns the affine constant behind a weight of an LSTM, or 0. A Reshape may separate the directions. */
static qc_id stored_behind(const struct qc_graph *g, const struct qc_node *n)
{
    if (n && n->op == QC_OP_Reshape) n = qc_node_of(g, n->inputs[0]);
    return n && n->op == QC_OP_Dequantize && qc_constant_of(g, n->inputs[0]) ? n->inputs[0] : 0;
}

static bool is_stored(const struct qc_graph *g, qc_id v, size_t rows)
{
    const qc_id w = stored_behind(g, qc_node_of(g, v));
    if (!w) return false;
    const struct qc_qparams *s = &g->qparams_of[g->values[w].type.qparams];
    bool same = true;
    for (size_t i = 1; i < s->count; i++) same = same && s->zero_point[i] == s->zero_point[0];
    return same && (s->dtype == QC_I8 || s->dtype == QC_U8) && !s->block && (s->count == 1 || s->count == rows);
}

bool qc_lower_has_lstm(const struct qc_lowering *x, const struct qc_node *n)
{
    const struct qc_graph *g = x->from;
    if (n->op != QC_OP_LSTM || !qc_attr_int(n, QC_RECURRENT_DYNAMIC, 0) || g->values[n->inputs[0]].type.dtype != QC_F32)
        return false;
    const struct qc_shape *r = &g->values[n->inputs[QC_RECURRENT_R]].type.shape;
    if (!qc_shape_fixed(r) || !qc_shape_fixed(&g->values[n->inputs[QC_RECURRENT_W]].type.shape)) return false;
    const size_t rows = (size_t)r->dim[0] * (size_t)r->dim[1];
    return is_stored(g, n->inputs[QC_RECURRENT_W], rows) && is_stored(g, n->inputs[QC_RECURRENT_R], rows);
}

bool qc_lower_is_lstm_weight(const struct qc_lowering *x, const struct qc_node *n)
{
    const struct qc_use_list readers = qc_readers(&x->uses, n->outputs);
    if (!stored_behind(x->from, n) || !readers.count) return false;
    for (size_t i = 0; i < readers.count; i++) {
        const struct qc_node *reader = readers.of[i].node ? &x->from->nodes[readers.of[i].node] : NULL;
        if (!reader) return false;
        if (reader->op == QC_OP_Reshape ? !qc_lower_is_lstm_weight(x, reader) : !qc_lower_has_lstm(x, reader))
            return false;
    }
    return true;
}

/* The weight, its scales and its zero points. sizes: of the turned one. */
static bool weight(qc_id out[3], struct qc_lowering *x, const struct qc_node *n, unsigned input, struct qc_status *st)
{
    const qc_id v = stored_behind(x->from, qc_node_of(x->from, n->inputs[input]));
    const struct qc_shape *shape = &x->from->values[n->inputs[input]].type.shape;
    const struct qc_qparams *s = &x->from->qparams_of[x->from->values[v].type.qparams];
    const size_t directions = (size_t)shape->dim[0], rows = (size_t)shape->dim[1], depth = (size_t)shape->dim[2],
                 count = s->count > 1 ? s->count : directions;
    const struct qc_shape turned = QC_SHAPE(shape->dim[0], shape->dim[2], shape->dim[1]),
                          each = QC_SHAPE(shape->dim[0], shape->dim[1]), one = QC_SHAPE(shape->dim[0]);
    const uint8_t *from = x->from->values[v].constant->data;
    uint8_t *to = malloc(directions * rows * depth), *zero = malloc(count);
    float *scale = malloc(count * sizeof *scale);
    bool ok = (to && zero && scale) || qc_fail_memory(st, directions * rows * depth);
    for (size_t d = 0; ok && d < directions; d++)
        for (size_t i = 0; i < rows; i++)
            for (size_t k = 0; k < depth; k++) to[(d * depth + k) * rows + i] = from[(d * rows + i) * depth + k];
    for (size_t i = 0; ok && i < count; i++) {
        scale[i] = s->scale[s->count > 1 ? i : 0];
        zero[i] = (uint8_t)s->zero_point[0];
    }
    ok = ok && (out[0] = qc_lower_constant(x, s->dtype, &turned, to, qc_lower_base(x, v), "quantized", st)) &&
         (out[1] = qc_lower_constant(x, QC_F32, s->count > 1 ? &each : &one, scale, s->name, "scale", st)) &&
         (out[2] = qc_lower_constant(x, s->dtype, s->count > 1 ? &each : &one, zero, s->name, "zero_point", st));
    free(to);
    free(zero);
    free(scale);
    return ok;
}

bool qc_lower_lstm(struct qc_lowering *x, const struct qc_node *n, struct qc_status *st)
{
    qc_id w[3], r[3], in[QC_RECURRENT_INPUTS + 4] = {QC_ABSENT};
    const char *names[] = {NULL, NULL, NULL};
    if (!weight(w, x, n, QC_RECURRENT_W, st) || !weight(r, x, n, QC_RECURRENT_R, st)) return false;
    for (unsigned i = 0; i < n->input_count; i++)
        if (i != QC_RECURRENT_W && i != QC_RECURRENT_R && n->inputs[i] && !(in[i] = qc_lower_real(x, n->inputs[i], st)))
            return false;
    in[QC_RECURRENT_W] = w[0];
    in[QC_RECURRENT_R] = r[0];
    for (unsigned i = 0; i < 2; i++) {
        in[QC_RECURRENT_INPUTS + i] = w[i + 1];
        in[QC_RECURRENT_INPUTS + 2 + i] = r[i + 1];
    }
    struct qc_attr *attrs = calloc(n->attr_count + 1U, sizeof *attrs);
    if (!attrs) return qc_fail_memory(st, n->attr_count * sizeof *attrs);
    unsigned count = 0;
    for (unsigned i = 0; i < n->attr_count; i++)
        if (strcmp(n->attrs[i].name, QC_RECURRENT_DYNAMIC) != 0) attrs[count++] = n->attrs[i];
    for (unsigned k = 0; k < n->output_count; k++) names[k] = qc_lower_inner_name(x, n->outputs + k, st);
    const struct qc_node_def def = {.op = QC_OP_DynamicQuantizeLSTM,
                                    .name = n->name,
                                    .input_count = QC_RECURRENT_INPUTS + 4,
                                    .output_count = n->output_count,
                                    .inputs = in,
                                    .attr_count = count,
                                    .attrs = attrs,
                                    .output_names = names};
    const qc_id first = qc_graph_add(x->to, &def, st);
    for (unsigned k = 0; first && k < n->output_count; k++) x->real[n->outputs + k] = first + k;
    free(attrs);
    return first != 0;
}
