// SPDX-License-Identifier: Apache-2.0
/* Elementwise operators, softmax, Quantize and Dequantize. */
#include <math.h>

#include "tflite/write/tflite_writing.h"

/* Adds a float tensor of the shape of a stored tensor. */
static int real_beside(struct qc_tfl_writer *w, int tensor, const char *suffix)
{
    struct qc_tfl_tensor t = w->tensors[tensor];
    t.dtype = QC_F32;
    t.scale_count = 0;
    t.data = NULL;
    t.name = qc_arena_printf(w->arena, w->st, "%s%s", t.name, suffix);
    return qc_tfl_out_add_tensor(w, &t);
}

/* Writes an operator from tensors x to tensor y. If it has no kernel for these integers, it is computed in float
   between DEQUANTIZE and QUANTIZE. */
static bool apply(struct qc_tfl_writer *w, enum qc_tfl_operator code, struct qc_fb_object *o, bool integers,
                  unsigned count, const int *x, int y)
{
    if (integers || w->tensors[x[0]].scale_count == 0) return qc_tfl_out_add_node(w, code, count, x, y, o);
    int real[2];
    for (unsigned i = 0; i < count; i++) {
        real[i] = real_beside(w, x[i], "_real");
        if (!qc_tfl_out_add_node(w, QC_TFL_OP_DEQUANTIZE, 1, &x[i], real[i], NULL)) return false;
    }
    const int result = real_beside(w, y, "_real");
    return qc_tfl_out_add_node(w, code, count, real, result, o) &&
           qc_tfl_out_add_node(w, QC_TFL_OP_QUANTIZE, 1, &result, y, NULL);
}

/* Returns whether TensorFlow Lite's ADD and SUB can compute the integers. They abort the program if an operand's scale
   is too large beside that of the result, or if the scale of the result is, as with a mask of -3e38. */
static bool sum_fits(const struct qc_tfl_writer *w, int a, int b, int y)
{
    if (!w->tensors[a].scale_count || !w->tensors[b].scale_count || !w->tensors[y].scale_count) return true;
    const float sa = w->tensors[a].scale[0], sb = w->tensors[b].scale[0],
                unit = (w->tensors[y].dtype == QC_I16 ? 0x1p15f : 0x1p20f) * w->tensors[y].scale[0];
    return isfinite(unit) && 2 * (double)(sa > sb ? sa : sb) < (double)unit;
}

bool qc_tfl_write_binary(struct qc_tfl_writer *w, const struct qc_node *n)
{
    const struct qc_tfl_write_row *row = qc_tfl_write_row(n->op);
    const struct qc_graph *g = w->g;
    qc_id y = n->outputs;
    const bool affine = qc_graph_parameters(g, y) != NULL;
    const enum qc_dtype type = g->values[y].type.dtype;
    const int rank = g->values[y].type.shape.rank;
    if (n->input_count != 2) return qc_tfl_out_refuse(w, n, "it has %u operands, not 2", n->input_count);
    for (unsigned i = 0; i < 2; i++)
        if ((qc_graph_parameters(g, n->inputs[i]) != NULL) != affine)
            return qc_tfl_out_refuse(w, n, "one operand is stored in integers, the other is not");
    if (affine && !row->integers) return qc_tfl_out_refuse(w, n, "it has no integer form: give --skip for it");
    const bool wide = type == QC_I64 && (n->op == QC_OP_Add || n->op == QC_OP_Sub || n->op == QC_OP_Mul);
    if (!affine && type != QC_F32 && type != QC_I32 && !wide)
        return qc_tfl_out_refuse(w, n, "it computes %s", qc_dtype_long_name(type));
    const enum qc_tfl_order order = w->order[y];
    const int a = qc_tfl_out_operand(w, n->inputs[0], rank, order),
              b = qc_tfl_out_operand(w, n->inputs[1], rank, order);
    const bool fuses = n->op == QC_OP_Add || n->op == QC_OP_Sub || n->op == QC_OP_Mul || n->op == QC_OP_Div;
    const enum qc_tfl_activation clamp = fuses ? qc_tfl_out_take_clamp(&y, w) : QC_TFL_ACTIVATION_NONE;
    const int inputs[] = {a, b}, to = qc_tfl_out_result(w, y);
    struct qc_fb_object *o = qc_tfl_out_options(w, row->code);
    if (n->op == QC_OP_Add) {
        qc_fb_set_int(o, QC_TFL_AddOptions_fused_activation_function, clamp);
        if (type == QC_I16) qc_fb_set_int(o, QC_TFL_AddOptions_pot_scale_int16, 0);
    } else if (n->op == QC_OP_Sub) {
        qc_fb_set_int(o, QC_TFL_SubOptions_fused_activation_function, clamp);
        if (type == QC_I16) qc_fb_set_int(o, QC_TFL_SubOptions_pot_scale_int16, 0);
    } else if (n->op == QC_OP_Mul) {
        qc_fb_set_int(o, QC_TFL_MulOptions_fused_activation_function, clamp);
    } else if (n->op == QC_OP_Div) {
        qc_fb_set_int(o, QC_TFL_DivOptions_fused_activation_function, clamp);
    }
    const bool sum = n->op == QC_OP_Add || n->op == QC_OP_Sub;
    return apply(w, row->code, o, !affine || !sum || sum_fits(w, a, b, to), 2, inputs, to);
}

static bool has_fixed_parameters(const struct qc_graph *g, enum qc_op op, qc_id y)
{
    const struct qc_qparams *s = qc_graph_parameters(g, y);
    struct qc_affine fixed;
    return s && s->count == 1 && qc_fixed_parameters(&fixed, QC_CONTRACT_TFLITE, op, s->dtype) &&
           s->scale[0] == fixed.scale && s->zero_point[0] == fixed.zero_point;
}

bool qc_tfl_write_unary(struct qc_tfl_writer *w, const struct qc_node *n)
{
    const struct qc_tfl_write_row *row = qc_tfl_write_row(n->op);
    const int x = qc_tfl_out_tensor_of(w, n->inputs[0], w->order[n->outputs]), y = qc_tfl_out_result(w, n->outputs);
    if (w->tensors[x].dtype == QC_I64) return qc_tfl_out_refuse(w, n, "it computes int64");
    struct qc_fb_object *o = qc_tfl_out_options(w, row->code);
    if (n->op == QC_OP_LeakyRelu) qc_fb_set_float(o, QC_TFL_LeakyReluOptions_alpha, qc_attr_float(n, "alpha", 0.01f));
    if (n->op == QC_OP_Elu && qc_attr_float(n, "alpha", 1) != 1) return qc_tfl_out_refuse(w, n, "its alpha is not 1");
    if (n->op == QC_OP_Gelu)
        qc_fb_set_int(o, QC_TFL_GeluOptions_approximate, qc_attr_string(n, "approximate", "none")[0] == 't');
    const bool fixed = (n->op == QC_OP_Sigmoid || n->op == QC_OP_Tanh) && has_fixed_parameters(w->g, n->op, n->outputs),
               both = qc_graph_parameters(w->g, n->inputs[0]) && qc_graph_parameters(w->g, n->outputs);
    const bool wide = w->tensors[x].dtype == QC_I16 && n->op == QC_OP_HardSwish;
    return apply(w, row->code, o, both && !wide && (row->integers || fixed), 1, &x, y);
}

/* Gives the qparams of a QuantizeLinear or DequantizeLinear, which are inputs. Returns false if they are not one
   constant scale and one zero point. */
static bool linear_parameters(struct qc_tfl_tensor *t, struct qc_tfl_writer *w, const struct qc_node *n)
{
    const struct qc_tensor *scale = qc_constant_of(w->g, n->inputs[1]),
                           *zero = n->input_count > 2 ? qc_constant_of(w->g, n->inputs[2]) : NULL;
    int32_t *z = QC_NEW(w->arena, int32_t, w->st);
    if (!z || !scale || scale->dtype != QC_F32 || scale->count != 1) return false;
    if (n->input_count > 2 && n->inputs[2] && (!zero || zero->count != 1)) return false;
    *z = zero ? (int32_t)qc_tensor_int(zero, 0) : 0;
    t->scale_count = 1;
    t->scale = scale->data;
    t->zero_point = z;
    return true;
}

/* True if the integers of `stored` have these qparams. */
static bool is_stored_so(const struct qc_graph *g, qc_id stored, const struct qc_tfl_tensor *t)
{
    const struct qc_qparams *s = qc_graph_parameters(g, stored);
    return s && s->kind == QC_QPARAMS_QUANTIZER && s->count == 1 && s->dtype == t->dtype &&
           s->scale[0] == t->scale[0] && s->zero_point[0] == t->zero_point[0];
}

/* Writes the QuantizeLinear and DequantizeLinear of a model with integer inputs and outputs (docs/decisions/0008).
   Beside a Dequantize or Quantize with the same qparams they are left out. */
bool qc_tfl_write_linear(struct qc_tfl_writer *w, const struct qc_node *n)
{
    const struct qc_graph *g = w->g;
    const bool quantizes = n->op == QC_OP_QuantizeLinear;
    const enum qc_tfl_order order = w->order[n->outputs];
    const struct qc_node *from = qc_node_of(g, n->inputs[0]);
    struct qc_tfl_tensor t = {.dtype = g->values[quantizes ? n->outputs : n->inputs[0]].type.dtype};
    if (!linear_parameters(&t, w, n))
        return w->st->code == QC_OK && qc_tfl_out_refuse(w, n, "its parameters are not one scale and zero point");
    if (quantizes && from && from->op == QC_OP_Dequantize && is_stored_so(g, from->inputs[0], &t)) {
        const int x = qc_tfl_out_tensor_of(w, from->inputs[0], order);
        w->made[order][n->outputs] = x;
        return true;
    }
    const int x = qc_tfl_out_tensor_of(w, n->inputs[0], order), y = qc_tfl_out_result(w, n->outputs);
    struct qc_tfl_tensor *integers = &w->tensors[quantizes ? y : x];
    integers->scale_count = t.scale_count;
    integers->scale = t.scale;
    integers->zero_point = t.zero_point;
    return qc_tfl_out_add_node(w, quantizes ? QC_TFL_OP_QUANTIZE : QC_TFL_OP_DEQUANTIZE, 1, &x, y, NULL);
}

bool qc_tfl_write_convert(struct qc_tfl_writer *w, const struct qc_node *n)
{
    const struct qc_qparams *s = qc_graph_parameters(w->g, n->inputs[0]);
    if (s && s->kind == QC_QPARAMS_PRODUCT) return true; /* refused at the product that computes it */
    const bool quantizes = n->op == QC_OP_Quantize;
    const struct qc_node *from = qc_node_of(w->g, n->inputs[0]);
    if (quantizes && from && from->op == QC_OP_DequantizeLinear) {
        /* Quantize may restore the integers that DequantizeLinear read. */
        struct qc_tfl_tensor t = {.dtype = w->g->values[from->inputs[0]].type.dtype};
        const bool same = linear_parameters(&t, w, from) && is_stored_so(w->g, n->outputs, &t);
        const int given = same ? qc_tfl_out_tensor_of(w, from->inputs[0], w->order[n->outputs]) : QC_TFL_NO_TENSOR;
        if (given != QC_TFL_NO_TENSOR) {
            w->made[w->order[n->outputs]][n->outputs] = given;
            return true;
        }
    }
    const int x = qc_tfl_out_tensor_of(w, n->inputs[0], w->order[n->outputs]), y = qc_tfl_out_result(w, n->outputs);
    const int version = !quantizes && w->tensors[x].scale_count > 1 ? 5 : 0;
    return qc_tfl_out_add_versioned(w, quantizes ? QC_TFL_OP_QUANTIZE : QC_TFL_OP_DEQUANTIZE, version, 1, &x, y, NULL);
}

bool qc_tfl_write_requantize(struct qc_tfl_writer *w, const struct qc_node *n)
{
    const struct qc_qparams *s = qc_graph_parameters(w->g, n->inputs[0]);
    if (s && s->kind == QC_QPARAMS_PRODUCT) {
        const struct qc_node *from = qc_node_of(w->g, n->inputs[0]);
        if (!from || qc_op_info(from->op)->affine != QC_AFFINE_PRODUCT)
            return qc_tfl_out_refuse(w, n, "it stores an accumulator that another operator has changed");
        return qc_tfl_write_accumulator(w, from, n->outputs);
    }
    const int x = qc_tfl_out_tensor_of(w, n->inputs[0], w->order[n->outputs]), y = qc_tfl_out_result(w, n->outputs);
    return qc_tfl_out_add_node(w, QC_TFL_OP_QUANTIZE, 1, &x, y, NULL);
}

/* Writes a softmax, with a TRANSPOSE on both sides if its axis is not the last one of the file. Between Dequantize and
   Quantize with the fixed qparams the operator takes integers. */
bool qc_tfl_write_softmax(struct qc_tfl_writer *w, const struct qc_node *n)
{
    const struct qc_graph *g = w->g;
    const int rank = g->values[n->outputs].type.shape.rank;
    int64_t axis = qc_attr_int(n, "axis", -1);
    if (axis < 0) axis += rank;
    const struct qc_node *from = qc_node_of(g, n->inputs[0]);
    const qc_id reader = qc_only_reader(&w->uses, n->outputs);
    qc_id xv = n->inputs[0], yv = n->outputs;
    const struct qc_qparams *s = from && from->op == QC_OP_Dequantize ? qc_graph_parameters(g, from->inputs[0]) : NULL;
    if (s && s->kind == QC_QPARAMS_QUANTIZER && reader && g->nodes[reader].op == QC_OP_Quantize &&
        has_fixed_parameters(g, n->op, g->nodes[reader].outputs) &&
        s->dtype == g->values[g->nodes[reader].outputs].type.dtype) {
        xv = from->inputs[0];
        yv = g->nodes[reader].outputs;
        w->done[reader] = true;
    }
    const enum qc_tfl_order order = w->order[yv];
    const int x = qc_tfl_out_tensor_of(w, xv, order), y = qc_tfl_out_result(w, yv);
    const enum qc_tfl_operator code = qc_tfl_write_row(n->op)->code;
    struct qc_fb_object *o = qc_tfl_out_options(w, code);
    if (n->op == QC_OP_Softmax) qc_fb_set_float(o, QC_TFL_SoftmaxOptions_beta, 1);
    const int at = qc_tfl_out_axis((int)axis, rank, order);
    if (at == rank - 1 || x == QC_TFL_NO_TENSOR) return qc_tfl_out_add_node(w, code, 1, &x, y, o);
    int swapped[QC_RANK_MAX];
    for (int i = 0; i < rank; i++) swapped[i] = i == at ? rank - 1 : i == rank - 1 ? at : i;
    struct qc_shape turned = w->tensors[x].shape;
    for (int i = 0; i < rank; i++) turned.dim[i] = w->tensors[x].shape.dim[swapped[i]];
    const int before = qc_tfl_out_like(w, xv, &turned, "_axis_last"),
              after = qc_tfl_out_like(w, yv, &turned, "_axis_last");
    return qc_tfl_out_permute(w, x, swapped, before) && qc_tfl_out_add_node(w, code, 1, &before, after, o) &&
           qc_tfl_out_permute(w, after, swapped, y);
}
