// SPDX-License-Identifier: Apache-2.0
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "tflite/write/tflite_writing.h"

static const struct {
    enum qc_tfl_operator code;
    struct {
        int version;
        const char *runtime;
    } of[3]; /* float, int8, int16 */
} versions[] = {
#define QC_TFL_VERSIONS_OF(name, f, f_runtime, i8, i8_runtime, i16, i16_runtime)                                       \
    {QC_TFL_OP_##name, {{f, f_runtime}, {i8, i8_runtime}, {i16, i16_runtime}}},
#include "tflite/write/tflite_versions.def"
#undef QC_TFL_VERSIONS_OF
};
enum { VERSION_COUNT = sizeof versions / sizeof *versions };

const char *qc_tfl_out_runtime_of(enum qc_tfl_operator code, int version)
{
    if (code == QC_TFL_OP_FULLY_CONNECTED && version == 5) return "2.0.0";
    if (code == QC_TFL_OP_FULLY_CONNECTED && version == 9) return "2.3.0";
    if (code == QC_TFL_OP_FULLY_CONNECTED && version == 12) return "2.17.0";
    if (code == QC_TFL_OP_DEQUANTIZE && version == 6) return "2.16.0";
    if (code == QC_TFL_OP_CONV_2D && version == 6) return "2.9.0";
    for (size_t i = 0; i < VERSION_COUNT; i++)
        for (size_t k = 0; versions[i].code == code && k < 3; k++)
            if (versions[i].of[k].version == version) return versions[i].of[k].runtime;
    return "2.14.0";
}

/* Returns the version for the type of the data, 0 if there is none: an integer result's type (as for QUANTIZE),
   otherwise the type of the first operand. */
static int version_of(const struct qc_tfl_writer *w, enum qc_tfl_operator code, const int *inputs, int output)
{
    const enum qc_dtype type = code == QC_TFL_OP_QUANTIZE ? w->tensors[output].dtype : w->tensors[inputs[0]].dtype;
    const size_t column = type == QC_I8 ? 1 : type == QC_I16 ? 2 : 0;
    for (size_t i = 0; i < VERSION_COUNT; i++)
        if (versions[i].code == code) return versions[i].of[column].version;
    return 1;
}

bool qc_tfl_out_add_versioned(struct qc_tfl_writer *w, enum qc_tfl_operator code, int version, unsigned input_count,
                              const int *inputs, int output, struct qc_fb_object *options)
{
    if (w->st->code != QC_OK) return false;
    struct qc_tfl_node_out *more =
        qc_arena_grown(w->arena, w->nodes, w->node_count, &w->node_capacity, sizeof *more, w->st);
    if (!more) return false;
    w->nodes = more;
    struct qc_tfl_node_out *n = &w->nodes[w->node_count];
    int *ends = QC_NEW_ARRAY(w->arena, int, input_count + 1, w->st);
    if (!ends) return false;
    /* Integers next to the model's inputs and outputs (docs/decisions/0008) are moved unchanged. */
    const struct qc_tfl_tensor *x = &w->tensors[inputs[0]];
    struct qc_tfl_tensor *y = &w->tensors[output];
    if (x->scale_count == 1 && y->scale_count == 0 && x->dtype == y->dtype) {
        y->scale_count = 1;
        y->scale = x->scale;
        y->zero_point = x->zero_point;
    }
    memcpy(ends, inputs, input_count * sizeof *ends);
    ends[input_count] = output;
    *n = (struct qc_tfl_node_out){.code = code,
                                  .version = version ? version : version_of(w, code, inputs, output),
                                  .input_count = input_count,
                                  .output_count = 1,
                                  .ends = ends,
                                  .inputs = ends,
                                  .outputs = ends + input_count,
                                  .options = options ? options : qc_tfl_out_options(w, code)};
    w->node_count++;
    return true;
}

bool qc_tfl_out_add_node(struct qc_tfl_writer *w, enum qc_tfl_operator code, unsigned input_count, const int *inputs,
                         int output, struct qc_fb_object *options)
{
    return qc_tfl_out_add_versioned(w, code, 0, input_count, inputs, output, options);
}

bool qc_tfl_out_add_output(struct qc_tfl_writer *w, int output)
{
    if (w->st->code != QC_OK) return false;
    struct qc_tfl_node_out *n = &w->nodes[w->node_count - 1];
    const unsigned count = n->input_count + n->output_count;
    int *ends = QC_NEW_ARRAY(w->arena, int, count + 1, w->st);
    if (!ends) return false;
    memcpy(ends, n->ends, count * sizeof *ends);
    ends[count] = output;
    n->ends = ends;
    n->inputs = ends;
    n->outputs = ends + n->input_count;
    n->output_count++;
    return true;
}

int qc_tfl_out_cast(struct qc_tfl_writer *w, int tensor, enum qc_dtype type)
{
    struct qc_tfl_tensor t = w->tensors[tensor];
    if (t.dtype == type) return tensor;
    struct qc_fb_object *o = qc_tfl_out_options(w, QC_TFL_OP_CAST);
    qc_fb_set_int(o, QC_TFL_CastOptions_in_data_type, qc_tfl_type_of(t.dtype));
    qc_fb_set_int(o, QC_TFL_CastOptions_out_data_type, qc_tfl_type_of(type));
    t.dtype = type;
    t.data = NULL;
    t.name = qc_arena_printf(w->arena, w->st, "%s_%s", t.name, qc_dtype_info(type)->name);
    const int to = qc_tfl_out_add_tensor(w, &t);
    qc_tfl_out_add_node(w, QC_TFL_OP_CAST, 1, &tensor, to, o);
    return to;
}

struct qc_fb_object *qc_tfl_out_options(struct qc_tfl_writer *w, enum qc_tfl_operator code)
{
    const enum qc_tfl_table table = qc_tfl_operator_info(code)->options;
    return table == QC_TFL_TABLE_NONE ? NULL : qc_fb_make(w->builder, table);
}

bool qc_tfl_out_reshape(struct qc_tfl_writer *w, int from, int to)
{
    const struct qc_shape *s = &w->tensors[to].shape;
    int64_t dims[QC_RANK_MAX];
    unsigned unknown = 0;
    for (int i = 0; i < s->rank; i++) unknown += (dims[i] = s->dim[i]) == QC_FREE;
    if (unknown > 1)
        return qc_tfl_out_refuse(w, NULL, "RESHAPE to '%s', which has several free dimensions", w->tensors[to].name);
    const int inputs[] = {from, qc_tfl_out_ints(w, dims, (size_t)s->rank, "shape")};
    return qc_tfl_out_add_node(w, QC_TFL_OP_RESHAPE, 2, inputs, to, NULL);
}

bool qc_tfl_out_refuse(struct qc_tfl_writer *w, const struct qc_node *n, const char *fmt, ...)
{
    char text[512], label[QC_LABEL];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const char *line = n ? qc_arena_printf(w->arena, w->st, "%s '%s': %s", qc_op_info(n->op)->name,
                                           n->name ? n->name : qc_value_label(label, w->g, n->outputs), text)
                         : qc_arena_strdup(w->arena, text, w->st);
    if (!line) return false;
    for (size_t i = 0; i < w->refused_count; i++)
        if (strcmp(w->refused[i], line) == 0) return true;
    const char **more =
        qc_arena_grown(w->arena, w->refused, w->refused_count, &w->refused_capacity, sizeof *more, w->st);
    if (!more) return false;
    w->refused = more;
    w->refused[w->refused_count++] = line;
    return true;
}

/* Gives the number in constant input i, or `otherwise` if the input is absent. */
static bool bound_of(float *out, const struct qc_tfl_writer *w, const struct qc_node *n, unsigned i, float otherwise)
{
    *out = otherwise;
    if (i >= n->input_count || !n->inputs[i]) return true;
    const struct qc_tensor *t = qc_constant_of(w->g, n->inputs[i]);
    if (!t || t->count != 1 || qc_graph_parameters(w->g, n->inputs[i])) return false;
    *out = (float)qc_tensor_float(t, 0);
    return true;
}

/* Returns the activation that equals a clamp, or NONE. */
static enum qc_tfl_activation activation_of(const struct qc_tfl_writer *w, const struct qc_node *n)
{
    float lo = 0, hi = 0;
    if (n->op == QC_OP_Relu) return QC_TFL_ACTIVATION_RELU;
    if (n->op != QC_OP_Clip || !bound_of(&lo, w, n, 1, -3.4e38f) || !bound_of(&hi, w, n, 2, 3.4e38f))
        return QC_TFL_ACTIVATION_NONE;
    if (lo == 0 && hi == 6) return QC_TFL_ACTIVATION_RELU6;
    if (lo == -1 && hi == 1) return QC_TFL_ACTIVATION_RELU_N1_TO_1;
    return lo == 0 && hi >= 3e38f ? QC_TFL_ACTIVATION_RELU : QC_TFL_ACTIVATION_NONE;
}

enum qc_tfl_activation qc_tfl_out_take_clamp(qc_id *v, struct qc_tfl_writer *w)
{
    const qc_id reader = qc_only_reader(&w->uses, *v);
    if (!reader) return QC_TFL_ACTIVATION_NONE;
    const struct qc_node *n = &w->g->nodes[reader];
    if (w->g->values[n->outputs].type.qparams != w->g->values[*v].type.qparams) return QC_TFL_ACTIVATION_NONE;
    const enum qc_tfl_activation a = n->inputs[0] == *v ? activation_of(w, n) : QC_TFL_ACTIVATION_NONE;
    if (a == QC_TFL_ACTIVATION_NONE) return a;
    w->done[reader] = true;
    *v = n->outputs;
    return a;
}

int qc_tfl_out_number_like(struct qc_tfl_writer *w, int tensor, float value, const char *suffix)
{
    struct qc_tfl_tensor t = w->tensors[tensor];
    void *data = qc_arena_get(w->arena, 1, sizeof(float), w->st);
    if (!data) return QC_TFL_NO_TENSOR;
    if (t.scale_count == 0) {
        memcpy(data, &value, sizeof value);
    } else {
        const struct qc_affine p = {.scale = t.scale[0], .zero_point = t.zero_point[0]};
        const int32_t q = qc_quantize_by(QC_CONTRACT_TFLITE, value, p, qc_levels_of(t.dtype, false));
        if (t.dtype == QC_I8)
            memcpy(data, &(int8_t){(int8_t)q}, 1);
        else
            memcpy(data, &(int16_t){(int16_t)q}, 2);
    }
    t.data = data;
    t.shape = QC_SCALAR;
    t.name = qc_arena_printf(w->arena, w->st, "%s_%s", t.name, suffix);
    return qc_tfl_out_add_tensor(w, &t);
}

bool qc_tfl_write_clamp(struct qc_tfl_writer *w, const struct qc_node *n)
{
    const qc_id y = n->outputs;
    const int x = qc_tfl_out_tensor_of(w, n->inputs[0], w->order[y]), out = qc_tfl_out_result(w, y);
    const enum qc_tfl_activation a = activation_of(w, n);
    const enum qc_dtype type = w->tensors[out].dtype;
    if (a == QC_TFL_ACTIVATION_RELU) return qc_tfl_out_add_node(w, QC_TFL_OP_RELU, 1, &x, out, NULL);
    if (a == QC_TFL_ACTIVATION_RELU6) return qc_tfl_out_add_node(w, QC_TFL_OP_RELU6, 1, &x, out, NULL);
    if (a == QC_TFL_ACTIVATION_RELU_N1_TO_1 && type == QC_F32)
        return qc_tfl_out_add_node(w, QC_TFL_OP_RELU_N1_TO_1, 1, &x, out, NULL);
    float bound[2];
    if (!bound_of(&bound[0], w, n, 1, -3.4e38f) || !bound_of(&bound[1], w, n, 2, 3.4e38f))
        return qc_tfl_out_refuse(w, n, "its bounds are no constants");
    /* MAXIMUM with the lower bound and MINIMUM with the upper bound, both in the qparams of the value. */
    int at = x;
    for (int i = 0; i < 2; i++) {
        const bool last = i == 1;
        const int inputs[] = {at, qc_tfl_out_number_like(w, out, bound[i], last ? "max" : "min")};
        at = last ? out : qc_tfl_out_like(w, y, &w->tensors[out].shape, "_above");
        qc_tfl_out_add_node(w, last ? QC_TFL_OP_MINIMUM : QC_TFL_OP_MAXIMUM, 2, inputs, at, NULL);
    }
    return true;
}
