// SPDX-License-Identifier: Apache-2.0
#include "export/formats/lowering.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arith/params.h"
#include "base/scope.h"
#include "graph/core/custom.h"
#include "graph/core/function.h"
#include "graph/core/parameters.h"
#include "graph/core/rebuild.h"
#include "graph/core/recurrent.h"
#include "graph/core/source_call.h"
#include "graph/core/uses.h"
#include "graph/types/number_format.h"
#include "rewrite/passes/operator_times.h"

/* A residual sum before a LayerNormalization. ONNX Runtime (1.32) fuses an Add of three dimensions and the
   normalisation to SkipLayerNormalization, whose CPU kernel takes longer than both if rows are not short
   (qc_is_slower_fused; 32 x 128: 22 us against 4 + 5). It does not fuse Sum, which gives the same bits. */

static bool is_real_activation(const struct qc_graph *g, qc_id v)
{
    const struct qc_type *t = &g->values[v].type;
    return t->dtype == QC_F32 && t->qparams == QC_REAL && t->shape.rank == 3 && !qc_constant_of(g, v);
}

/* Returns true for an Add that is written as a Sum. */
static bool lower_is_residual(const struct qc_lowering *x, const struct qc_node *n)
{
    const struct qc_graph *g = x->from;
    return n->op == QC_OP_Add && is_real_activation(g, n->outputs) && is_real_activation(g, n->inputs[0]) &&
           is_real_activation(g, n->inputs[1]) && qc_is_slower_fused(&x->uses, n);
}

/* Caches in a type of their own: outputs are the integers of the last step, and inputs take them. */

/* Returns the node that makes v, or the one before it if it is a Cast. */
static const struct qc_node *maker_of(const struct qc_graph *g, qc_id v)
{
    const struct qc_node *n = qc_node_of(g, v);
    return n && n->op == QC_OP_Cast ? qc_node_of(g, n->inputs[0]) : n;
}

static bool is_number(const struct qc_graph *g, const struct qc_node *n, unsigned i)
{
    const struct qc_tensor *t = i < n->input_count ? qc_constant_of(g, n->inputs[i]) : NULL;
    return t && t->count == 1;
}

/* Returns true if the QuantizeLinear or DequantizeLinear has the parameters of qparams. */
static bool has_parameters(const struct qc_graph *g, const struct qc_node *linear, qc_id qparams, enum qc_dtype stored)
{
    const struct qc_qparams *s = &g->qparams_of[qparams];
    if (!qparams || s->kind != QC_QPARAMS_QUANTIZER || s->state != QC_QPARAMS_BOUND || s->count != 1 ||
        s->dtype != stored)
        return false;
    if (!is_number(g, linear, 1) || qc_constant_of(g, linear->inputs[1])->dtype != QC_F32) return false;
    if (((const float *)qc_constant_of(g, linear->inputs[1])->data)[0] != s->scale[0]) return false;
    if (linear->input_count < 3 || !linear->inputs[2]) return s->zero_point[0] == 0;
    return is_number(g, linear, 2) && qc_tensor_int(qc_constant_of(g, linear->inputs[2]), 0) == s->zero_point[0];
}

static bool leaves(const struct qc_graph *g, const struct qc_node *n)
{
    const struct qc_node *from = n->op == QC_OP_QuantizeLinear ? qc_node_of(g, n->inputs[0]) : NULL;
    return from && from->op == QC_OP_Dequantize &&
           has_parameters(g, n, g->values[from->inputs[0]].type.qparams, g->values[n->outputs].type.dtype);
}

/* Name of a float value inside the graph: the original one, unless it belongs to a graph output that is made
   elsewhere. */
const char *qc_lower_inner_name(struct qc_lowering *x, qc_id v, struct qc_status *st)
{
    const char *name = x->from->values[v].name;
    bool taken = false;
    for (size_t i = 0; name && i < x->from->output_count; i++) {
        if (x->from->outputs[i].value == v) return name;
        taken = taken || strcmp(x->from->outputs[i].name, name) == 0;
    }
    return taken ? qc_arena_printf(x->to->arena, st, "%s_float", name) : name;
}

qc_id qc_lower_constant(struct qc_lowering *x, enum qc_dtype dtype, const struct qc_shape *shape, const void *data,
                        const char *qparams, const char *what, struct qc_status *st)
{
    const char *name = qc_arena_printf(x->to->arena, st, "%s_%s", qparams, what);
    return qc_graph_add_made_constant(x->to, name, qc_tensor_of(dtype, shape, data, st), st);
}

enum qc_dtype qc_lower_type(const struct qc_qparams *s)
{
    return s->dtype == QC_U4 ? QC_U8 : s->dtype == QC_I4 ? QC_I8 : s->dtype;
}

/* Returns true if the qparams have fewer levels than their type in the file: integers are then clipped to the levels,
   else returned unchanged. */
static bool is_narrower(const struct qc_qparams *s)
{
    const struct qc_levels have = qc_qparams_levels(s), all = qc_levels_of(qc_lower_type(s), false);
    return have.lo > all.lo || have.hi < all.hi;
}

void qc_lower_parameters(qc_id out[2], struct qc_lowering *x, const struct qc_qparams *s, bool vector,
                         struct qc_status *st)
{
    const struct qc_shape shape = vector ? qc_shape_of(1, (const int64_t[]){(int64_t)s->count}) : QC_SCALAR;
    const enum qc_dtype type = qc_lower_type(s);
    const size_t size = qc_dtype_size(type);
    out[0] = qc_lower_constant(x, QC_F32, &shape, s->scale, s->name, "scale", st);
    out[1] = QC_ABSENT;
    unsigned char *zero = s->dtype != QC_I32 ? qc_arena_get(x->arena, s->count, size, st) : NULL;
    if (!zero) return;
    for (size_t i = 0; i < s->count; i++) {
        int32_t z = s->zero_point[i]; /* little endian or one byte: the low bytes are the value */
        if (size == 1)
            zero[i] = (unsigned char)z;
        else
            memcpy(zero + i * size, &(int16_t){(int16_t)z}, size);
    }
    out[1] = qc_lower_constant(x, type, &shape, zero, s->name, "zero_point", st);
}

/* Gives new names for an added node and its result. Names of nodes must be unique, like names of values. */
void qc_lower_fresh_names(const char **name, const char **node, struct qc_lowering *x, enum qc_op op, const char *base,
                          const char *what, struct qc_status *st)
{
    const char *unique = base;
    *name = qc_arena_printf(x->to->arena, st, "%s_%s", base, what);
    for (unsigned k = 1; *name && qc_graph_find_value(x->to, *name); k++) {
        unique = qc_arena_printf(x->to->arena, st, "%s_%u", base, k);
        *name = unique ? qc_arena_printf(x->to->arena, st, "%s_%s", unique, what) : NULL;
    }
    *node = unique ? qc_arena_printf(x->to->arena, st, "%s_%s", unique, qc_op_info(op)->onnx) : NULL;
}

qc_id qc_lower_add(struct qc_lowering *x, struct qc_node_def def, const char *base, const char *what,
                   struct qc_status *st)
{
    const char *name;
    if (st->code != QC_OK) return 0;
    qc_lower_fresh_names(&name, &def.name, x, def.op, base, what, st);
    if (!def.output_names) def.output_names = &name;
    return qc_graph_add(x->to, &def, st);
}

/* given: name of the result, or NULL. */
static qc_id linear(struct qc_lowering *x, enum qc_op op, qc_id input, qc_id qparams, int axis, const char *base,
                    const char *given, struct qc_status *st)
{
    const struct qc_qparams *s = &x->from->qparams_of[qparams];
    bool vector = s->per_channel && s->count > 1;
    qc_id inputs[3] = {input}, *p = inputs + 1;
    if (s->state != QC_QPARAMS_BOUND) return qc_fail(st, QC_BAD_INPUT, "qparams '%s' have no parameters", s->name);
    qc_lower_parameters(p, x, s, vector, st);
    const struct qc_attr attr = QC_INT("axis", axis);
    return qc_lower_add(x,
                        *QC_NODE(op, .input_count = p[1] ? 3 : 2, .inputs = inputs, .attr_count = vector,
                                 .attrs = &attr, .output_names = given ? &given : NULL),
                        base, op == QC_OP_QuantizeLinear ? "quantized" : "dequantized", st);
}

/* Returns the base name for Q and DQ of a value: its own name, that of the value quantized, or that of its qparams. */
const char *qc_lower_base(const struct qc_lowering *x, qc_id v)
{
    const struct qc_value *value = &x->from->values[v];
    const struct qc_node *n = qc_node_of(x->from, v);
    if (value->name) return value->name;
    if (n && (n->op == QC_OP_Quantize || n->op == QC_OP_Requantize) && x->from->values[n->inputs[0]].name)
        return x->from->values[n->inputs[0]].name;
    return x->from->qparams_of[value->type.qparams].name;
}

static qc_id add_named(struct qc_lowering *x, enum qc_op op, unsigned count, const qc_id *in,
                       const struct qc_attr *attr, const char *base, const char *what, struct qc_status *st)
{
    const struct qc_node_def def = {
        .op = op, .input_count = count, .inputs = in, .attr_count = attr != NULL, .attrs = attr};
    return qc_lower_add(x, def, base, what, st);
}

/* Adds an affine constant as an integer initializer, converted to the type that operators read. */
void qc_lower_integer(struct qc_lowering *x, qc_id v, struct qc_status *st)
{
    const struct qc_qparams *s = &x->from->qparams_of[x->from->values[v].type.qparams];
    const enum qc_dtype type = qc_lower_type(s);
    if (x->integer[v]) return;
    const char *base = qc_lower_base(x, v), *name = qc_arena_printf(x->to->arena, st, "%s_quantized", base);
    x->integer[v] =
        qc_graph_add_made_constant(x->to, name, qc_tensor_levels(s->dtype, x->from->values[v].constant, st), st);
    const struct qc_attr to = QC_INT("to", qc_dtype_info(type)->onnx);
    if (type != s->dtype) x->integer[v] = add_named(x, QC_OP_Cast, 1, &x->integer[v], &to, base, "widened", st);
}

qc_id qc_lower_cut(struct qc_lowering *x, qc_id integer, const struct qc_qparams *s, const char *base,
                   struct qc_status *st)
{
    if (!is_narrower(s)) return integer;
    const struct qc_levels levels = qc_qparams_levels(s);
    const struct qc_shape scalar = QC_SCALAR;
    const int32_t lo = levels.lo, hi = levels.hi;
    const enum qc_dtype type = qc_lower_type(s);
    const qc_id in[3] = {integer, qc_lower_constant(x, type, &scalar, &lo, s->name, "lowest", st),
                         qc_lower_constant(x, type, &scalar, &hi, s->name, "highest", st)};
    return add_named(x, QC_OP_Clip, 3, in, NULL, base, "clipped", st);
}

/* Rewrites of runtimes that fail, change results or cost time. All but the last two are of ONNX Runtime, around an op
   between DequantizeLinear and QuantizeLinear. */
enum runtime_rewrite {
    JOINS_CHANNELS, /* fuses to one operator without checking for several scales, and then refuses it (1.31) */
    JOINS_BLOCKS,   /* fuses to an integer product, even with a weight in blocks (1.31): wrong results with 8 bits,
                       refused with 2; no fusion with 4 */
    POOLS_INTEGERS, /* moves the rounding before the pool (1.32), whose integer kernel takes four times as long unless
                       it follows an integer convolution */
    ROUNDS_WEIGHTS, /* from about 1.20 on (not 1.16) rounds the float weights of Conv, ConvTranspose and Gemm to 8 bits,
                       with scales of its own */
    MOVES_CACHE,   /* moves a DequantizeLinear of int8 with one scale past a Transpose, makes int8 of it uint8, and then
                      refuses its own output_dtype (1.32, files of opset 21 and later) */
    JOINS_CLAMP,   /* makes no integer product before a clamp whose result float ops read (1.32), and dequantizes
                      the weight in every run */
    JOINS_AVERAGE, /* makes an average pool a QLinearAveragePool (1.32), which has no dilations, and other results with
                      ceil_mode and count_include_pad */
    JOINS_MEAN,    /* OpenVINO (2026.4): computes a Sub within the reduction before it, and if that reduces the first or
                      the last of three dimensions, reads wrong numbers of its vector for batches of more than one */
    OPENVINO       /* its rewrites in export/formats/lowering_openvino.c */
};

/* Adds an identity op that the runtime does not remove, so that it cannot fuse across it. Returns its result. */
static qc_id keep_apart(struct qc_lowering *x, enum runtime_rewrite from, qc_id float_value, const char *base,
                        struct qc_status *st)
{
    static const struct {
        enum qc_op op;
        const char *name;
        unsigned inputs; /* OpenVINO removes ops of one input */
    } identity[] = {[JOINS_CHANNELS] = {QC_OP_Max, "apart", 1}, [JOINS_BLOCKS] = {QC_OP_Sum, "read", 1},
                    [POOLS_INTEGERS] = {QC_OP_Max, "apart", 1}, [ROUNDS_WEIGHTS] = {QC_OP_Sum, "read", 1},
                    [MOVES_CACHE] = {QC_OP_Max, "apart", 1},    [JOINS_CLAMP] = {QC_OP_Max, "apart", 1},
                    [JOINS_AVERAGE] = {QC_OP_Max, "apart", 1},  [JOINS_MEAN] = {QC_OP_Max, "apart", 2},
                    [OPENVINO] = {QC_OP_Max, "apart", 2}};
    const qc_id same[2] = {float_value, float_value};
    return add_named(x, identity[from].op, identity[from].inputs, same, NULL, base, identity[from].name, st);
}

static bool has_channels(const struct qc_lowering *x, qc_id v)
{
    const struct qc_value *value = &x->from->values[v];
    return !value->constant && x->from->qparams_of[value->type.qparams].count > 1;
}

/* Adds a bias as integers of 8 bits and their DequantizeLinear. 0 without a status: it needs more bits. */
static qc_id lower_short_bias(struct qc_lowering *x, qc_id v, struct qc_status *st)
{
    const struct qc_tensor *t = x->from->values[v].constant;
    const struct qc_type *type = &x->from->values[v].type;
    const struct qc_qparams *s = &x->from->qparams_of[type->qparams];
    const int32_t *steps = t->data;
    const size_t each = s->count > 1 ? 1 : t->count; /* elements of a scale */
    const bool vector = s->per_channel && s->count > 1;
    const struct qc_shape shape = vector ? qc_shape_of(1, (const int64_t[]){(int64_t)s->count}) : QC_SCALAR;
    struct qc_arena *a = x->to->arena;
    int8_t *q = QC_NEW_ARRAY(a, int8_t, t->count, st), *zero = QC_NEW_ARRAY(a, int8_t, s->count, st);
    float *scale = QC_NEW_ARRAY(a, float, s->count, st);
    if (!q || !zero || !scale || (s->count > 1 && s->count != t->count)) return 0;
    for (size_t i = 0; i < t->count; i += each) {
        double most = 0;
        for (size_t k = i; k < i + each; k++) most = fmax(most, fabs((double)steps[k]));
        const int32_t unit = 1 << qc_short_bias_shift(most);
        scale[i / each] = s->scale[i / each] * (float)unit;
        for (size_t k = i; k < i + each; k++) {
            if (steps[k] % unit || most > 127.0 * unit) return 0;
            q[k] = (int8_t)(steps[k] / unit);
        }
    }
    const char *base = qc_lower_base(x, v), *name = qc_arena_printf(a, st, "%s_short", base);
    if (!name) return 0;
    const qc_id in[3] = {qc_lower_constant(x, QC_I8, &t->shape, q, base, "quantized", st),
                         qc_lower_constant(x, QC_F32, &shape, scale, name, "scale", st),
                         qc_lower_constant(x, QC_I8, &shape, zero, name, "zero_point", st)};
    const struct qc_attr axis = QC_INT("axis", type->axis);
    return add_named(x, QC_OP_DequantizeLinear, 3, in, vector ? &axis : NULL, base, "dequantized", st);
}

/* Adds an affine constant as real numbers by operators on constants, which runtimes fold when they load the file: ONNX
   Runtime (1.32) folds a Cast and a Mul, but computes DequantizeLinear in every run. */
static qc_id lower_at_load(struct qc_lowering *x, qc_id v, struct qc_status *st)
{
    const struct qc_type *type = &x->from->values[v].type;
    const struct qc_qparams *s = &x->from->qparams_of[type->qparams];
    const struct qc_attr to = QC_INT("to", qc_dtype_info(QC_F32)->onnx);
    const char *base = qc_lower_base(x, v);
    struct qc_shape along = QC_SCALAR;
    bool zero = true;
    qc_lower_integer(x, v, st);
    if (s->per_channel && s->count > 1) {
        along = type->shape;
        for (int i = 0; i < along.rank; i++) along.dim[i] = i == type->axis ? (int64_t)s->count : 1;
    }
    float *zeros = QC_NEW_ARRAY(x->arena, float, s->count, st);
    if (!zeros) return 0;
    for (size_t i = 0; i < s->count; i++) {
        zeros[i] = (float)s->zero_point[i];
        zero = zero && s->zero_point[i] == 0;
    }
    qc_id real = add_named(x, QC_OP_Cast, 1, &x->integer[v], &to, base, "levels", st);
    if (!zero) {
        const qc_id in[2] = {real, qc_lower_constant(x, QC_F32, &along, zeros, s->name, "zero", st)};
        real = add_named(x, QC_OP_Sub, 2, in, NULL, base, "centred", st);
    }
    const qc_id in[2] = {real, qc_lower_constant(x, QC_F32, &along, s->scale, s->name, "scale", st)};
    return add_named(x, QC_OP_Mul, 2, in, NULL, base, "dequantized", st);
}

qc_id qc_lower_real(struct qc_lowering *x, qc_id v, struct qc_status *st)
{
    const struct qc_value *value = &x->from->values[v];
    if (x->real[v]) return x->real[v];
    if (value->constant && !value->type.qparams)
        return x->real[v] = qc_graph_add_constant(x->to, value->name, value->constant, st);
    if (value->constant && x->from->qparams_of[value->type.qparams].at_load)
        return x->real[v] = lower_at_load(x, v, st);
    if (value->constant && x->from->qparams_of[value->type.qparams].block)
        return x->real[v] = qc_lower_blocks(x, v, st);
    if (value->constant && x->from->qparams_of[value->type.qparams].kind == QC_QPARAMS_PRODUCT) {
        if (x->options.target->bias == QC_BIAS_FLOAT)
            return x->real[v] = qc_graph_add_made_constant(x->to, qc_lower_base(x, v),
                                                           qc_tensor_of_parameters(x->from, v, st), st);
        if (x->options.target->bias == QC_BIAS_INT8 && ((x->real[v] = lower_short_bias(x, v, st)) || st->code != QC_OK))
            return x->real[v];
    }
    if (value->constant) qc_lower_integer(x, v, st);
    if (!x->integer[v]) return qc_fail(st, QC_BAD_INPUT, "value '%s' is used before it is made", qc_lower_base(x, v));
    const qc_id real = linear(x, QC_OP_DequantizeLinear, x->integer[v], value->type.qparams, value->type.axis,
                              qc_lower_base(x, v), NULL, st);
    if (has_channels(x, v)) return x->real[v] = keep_apart(x, JOINS_CHANNELS, real, qc_lower_base(x, v), st);
    bool cache = false; /* the integers of one that is an output of the graph (--kv-type int8) */
    for (size_t i = 0; i < x->from->output_count; i++)
        cache = cache || (x->options.caches && x->cache[x->from->outputs[i].value] == v);
    return x->real[v] = cache && x->from->qparams_of[value->type.qparams].dtype == QC_I8
                            ? keep_apart(x, MOVES_CACHE, real, qc_lower_base(x, v), st)
                            : real;
}

/* Gives an affine value its integers: QuantizeLinear of a float value, or an initializer for an affine constant. */
static void store_integers(struct qc_lowering *x, qc_id v, qc_id float_value, struct qc_status *st)
{
    const struct qc_type *t = &x->from->values[v].type;
    const struct qc_qparams *s = &x->from->qparams_of[t->qparams];
    const char *base = qc_lower_base(x, v);
    const struct qc_node *made = qc_node_of(x->to, float_value), *n = qc_node_of(x->from, v),
                         *of = n && n->op == QC_OP_Quantize ? qc_node_of(x->from, n->inputs[0]) : NULL;
    /* ONNX Runtime (1.32) fuses a clamp and the QuantizeLinear after it, but not with zero points of 8-bit floats. */
    const bool clamp = made && qc_is_small_float(s->dtype) && (made->op == QC_OP_Clip || made->op == QC_OP_Relu);
    if (has_channels(x, v) || clamp) float_value = keep_apart(x, JOINS_CHANNELS, float_value, base, st);
    if (of && of->op == QC_OP_MaxPool) float_value = keep_apart(x, POOLS_INTEGERS, float_value, base, st);
    if (of && of->op == QC_OP_AveragePool && /* without an integer form (rewrite/rules/patterns.rules) */
        (qc_attr_find(of, "dilations") || (qc_attr_int(of, "ceil_mode", 0) && qc_attr_int(of, "count_include_pad", 0))))
        float_value = keep_apart(x, JOINS_AVERAGE, float_value, base, st);
    const qc_id q = linear(x, QC_OP_QuantizeLinear, float_value, t->qparams, t->axis, base,
                           is_narrower(s) ? NULL : x->given[v], st);
    x->integer[v] = qc_lower_cut(x, q, s, base, st);
}

/* Returns true if only a Quantize reads the result, or the result of clamps on it. */
static bool is_stored_alone(const struct qc_uses *uses, qc_id v)
{
    for (;;) {
        const struct qc_use_list readers = qc_readers(uses, v);
        if (readers.count != 1) return false;
        const struct qc_node *n = &uses->graph->nodes[readers.of[0].node];
        if (n->op == QC_OP_Quantize) return true;
        if (n->op != QC_OP_Relu && n->op != QC_OP_Clip) return false;
        v = n->outputs;
    }
}

static bool is_rounded_by_runtime(const struct qc_lowering *x, const struct qc_node *n, qc_id input)
{
    if (n->op != QC_OP_Conv && n->op != QC_OP_ConvTranspose && n->op != QC_OP_Gemm) return false;
    const struct qc_node *dq = qc_node_of(x->to, input);
    /* ONNX Runtime (1.32) treats a product that reads floats of 4 or 8 bits as an integer product and rounds its bias
       to multiples of the product of the scales, which are coarse for floats. */
    bool floats = false;
    for (unsigned i = 0; i < 2; i++) {
        const struct qc_node *from = qc_node_of(x->from, n->inputs[i]);
        const qc_id read = from && from->op == QC_OP_Dequantize ? x->from->values[from->inputs[0]].type.qparams : 0;
        floats = floats || (read && qc_is_small_float(x->from->qparams_of[read].dtype));
    }
    if (dq && dq->op == QC_OP_DequantizeLinear && floats) return true;
    const struct qc_node *made = qc_node_of(x->from, n->inputs[1]);
    const qc_id w = made && made->op == QC_OP_Dequantize ? made->inputs[0] : n->inputs[1],
                qparams = x->from->values[w].type.qparams;
    return dq && dq->op == QC_OP_DequantizeLinear && qc_constant_of(x->from, w) &&
           (!qparams || x->from->qparams_of[qparams].at_load) && !x->from->values[n->outputs].type.qparams &&
           is_stored_alone(&x->uses, n->outputs);
}

static bool joins_blocks(const struct qc_lowering *x, const struct qc_node *n, qc_id input)
{
    if (n->op != QC_OP_MatMul && n->op != QC_OP_Gemm) return false;
    const struct qc_node *dq = qc_node_of(x->to, input);
    const qc_id weight = qc_lower_in_blocks(x->from, qc_node_of(x->from, n->inputs[1]));
    if (!weight || !dq || dq->op != QC_OP_DequantizeLinear) return false;
    const struct qc_qparams *w = &x->from->qparams_of[x->from->values[weight].type.qparams];
    return w->bits == 2 || qc_dtype_info(w->dtype)->bits == 8;
}

static bool is_dequantized(const struct qc_graph *g, qc_id v)
{
    const struct qc_node *n = qc_node_of(g, v);
    return n && n->op == QC_OP_DequantizeLinear;
}

/* Returns true for a clamp of an integer product, with or without a bias, whose result only float ops read. */
static bool joins_clamp(const struct qc_lowering *x, const struct qc_node *n, qc_id input)
{
    const struct qc_node *of = qc_node_of(x->to, input);
    const struct qc_use_list readers = qc_readers(&x->uses, n->outputs);
    if ((n->op != QC_OP_Relu && n->op != QC_OP_Clip) || !readers.count) return false;
    for (size_t i = 0; i < readers.count; i++)
        if (x->from->nodes[readers.of[i].node].op == QC_OP_Quantize) return false;
    const bool rows = x->to->values[input].type.shape.rank == 2; /* of more dimensions it is no Gemm */
    for (unsigned i = 0; of && of->op == QC_OP_Add && rows && i < 2; i++)
        if (qc_constant_of(x->to, of->inputs[i])) of = qc_node_of(x->to, of->inputs[1 - i]);
    return of && (of->op == QC_OP_Gemm || of->op == QC_OP_MatMul) && is_dequantized(x->to, of->inputs[0]) &&
           is_dequantized(x->to, of->inputs[1]);
}

/* Returns true for a Sub of a constant, such as of a centred input, from a mean or another reduction of a value of
   three dimensions, or from an elementwise function of it. */
static bool joins_mean(const struct qc_lowering *x, const struct qc_node *n, const qc_id *inputs)
{
    const struct qc_tensor *c = n->op == QC_OP_Sub ? qc_constant_of(x->to, inputs[1]) : NULL;
    if (!c || c->count < 2) return false;
    const struct qc_node *of = qc_node_of(x->to, inputs[0]);
    while (of && (qc_op_info(of->op)->unary || qc_op_info(of->op)->affine == QC_AFFINE_BOUND))
        of = qc_node_of(x->to, of->inputs[0]);
    return of && of->op >= QC_OP_ReduceMean && of->op <= QC_OP_ReduceLogSumExp &&
           x->to->values[of->inputs[0]].type.shape.rank == 3;
}

/* Lowers any other op unchanged, on the float forms of its inputs; results with a quantizer are quantized. */
static void lower_float_op(struct qc_lowering *x, qc_id id, struct qc_status *st)
{
    const struct qc_graph *g = x->from;
    struct qc_shuffled shuffled;
    const struct qc_node *n = qc_lower_shuffle(&shuffled, x, &g->nodes[id], st);
    const char *own = qc_lower_base(x, n->outputs), *base = QC_VALUE_LABEL(g, n->outputs);
    qc_id *inputs = QC_NEW_ARRAY(x->arena, qc_id, n->input_count + 1, st);
    const char **names = QC_NEW_ARRAY(x->arena, const char *, n->output_count, st);
    if (!inputs || !names) return;
    for (unsigned i = 0; i < n->input_count; i++) {
        if (!n->inputs[i]) continue;
        const struct qc_value *value = &g->values[n->inputs[i]];
        const struct qc_tensor *bias = qc_lower_is_bias(x, n, i) ? value->constant : NULL;
        const struct qc_shape shape = QC_SHAPE(1, 1, bias ? (int64_t)bias->count : 1);
        inputs[i] = !bias ? qc_lower_real(x, n->inputs[i], st)
                          : qc_graph_add_made_constant(x->to, value->name,
                                                       qc_tensor_of(bias->dtype, &shape, bias->data, st), st);
    }
    if (shuffled.shape) inputs[1] = shuffled.shape;
    for (unsigned k = 0; k < n->output_count; k++) names[k] = qc_lower_inner_name(x, n->outputs + k, st);
    if (is_rounded_by_runtime(x, n, inputs[0])) inputs[0] = keep_apart(x, ROUNDS_WEIGHTS, inputs[0], own, st);
    if (joins_blocks(x, n, inputs[0])) inputs[0] = keep_apart(x, JOINS_BLOCKS, inputs[0], own, st);
    if (joins_clamp(x, n, inputs[0])) inputs[0] = keep_apart(x, JOINS_CLAMP, inputs[0], own, st);
    if (joins_mean(x, n, inputs)) inputs[0] = keep_apart(x, JOINS_MEAN, inputs[0], own, st);
    for (unsigned i = 0; x->options.target->openvino && i < n->input_count; i++)
        if (inputs[i] && qc_lower_reads_apart(x, n, i)) inputs[i] = keep_apart(x, OPENVINO, inputs[i], own, st);
    const bool linear_kept = n->op == QC_OP_QuantizeLinear || n->op == QC_OP_DequantizeLinear;
    const struct qc_tensor *scale = linear_kept ? qc_constant_of(g, n->inputs[1]) : NULL;
    const bool apart = scale && scale->count > 1 && !qc_constant_of(g, n->inputs[0]); /* several scales of data */
    if (apart && n->op == QC_OP_QuantizeLinear) inputs[0] = keep_apart(x, JOINS_CHANNELS, inputs[0], base, st);
    const struct qc_node_def with = {.op = lower_is_residual(x, n) ? QC_OP_Sum : n->op,
                                     .inputs = inputs,
                                     .output_names = names};
    struct qc_function f; /* a Table is written as the ops that it was made of */
    qc_id first = n->op != QC_OP_Table ? qc_graph_add_like(x->to, g, n, &with, st)
                  : qc_function_of(&f, n, x->to->arena, st)
                      ? qc_function_write_out(x->to, &f, inputs[0], n->name, names[0], st)
                      : 0;
    if (apart && n->op == QC_OP_DequantizeLinear) first = keep_apart(x, JOINS_CHANNELS, first, base, st);
    if (x->options.target->openvino && qc_lower_is_rewritten(x, n)) first = keep_apart(x, OPENVINO, first, base, st);
    for (unsigned k = 0; first && k < n->output_count; k++) {
        qc_id v = n->outputs + k, qparams = g->values[v].type.qparams;
        if (qparams && g->qparams_of[qparams].kind == QC_QPARAMS_QUANTIZER)
            store_integers(x, v, first + k, st);
        else
            x->real[v] = first + k;
    }
}

void qc_lower_plain(struct qc_lowering *x, qc_id id, struct qc_status *st)
{
    const struct qc_graph *g = x->from;
    const struct qc_node *n = &g->nodes[id], *from = n->input_count ? qc_node_of(g, n->inputs[0]) : NULL;
    /* In a produced graph, integers that are inputs or outputs of the graph are converted by
       Quantize(DequantizeLinear(i)) and QuantizeLinear(Dequantize(q)) with the parameters of their affine form. The
       second of such a pair is omitted, and its result is an existing value. */
    if (n->op == QC_OP_Quantize && from && from->op == QC_OP_DequantizeLinear &&
        has_parameters(g, from, g->values[n->outputs].type.qparams, g->values[from->inputs[0]].type.dtype)) {
        x->integer[n->outputs] = x->real[from->inputs[0]];
        x->real[n->outputs] = x->real[from->outputs];
        return;
    }
    if (leaves(g, n) && x->integer[from->inputs[0]]) {
        x->real[n->outputs] = x->integer[from->inputs[0]];
        return;
    }
    if (n->op == QC_OP_Quantize || n->op == QC_OP_Requantize)
        store_integers(x, n->outputs, qc_lower_real(x, n->inputs[0], st), st);
    else if (qc_lower_rows(x, n, st) || qc_lower_pad(x, n, st))
        return;
    else if (n->op == QC_OP_Dequantize || n->op == QC_OP_Expect)
        x->real[n->outputs] = qc_lower_real(x, n->inputs[0], st);
    else
        lower_float_op(x, id, st);
}

static const char unreadable[] = "qcalib.four"; /* domain of a node that no file may have */

static bool caches_are_read(const struct qc_graph *g, struct qc_status *st)
{
    QC_EACH_NODE(n, g) {
        if (n->op == QC_OP_Custom && strcmp(qc_attr_string(n, QC_CUSTOM_DOMAIN, ""), unreadable) == 0)
            return qc_fail(
                st, QC_UNSUPPORTED,
                "--kv-type int4: cache '%.200s' is not one of a GroupQueryAttention that is written with its "
                "own caches for ONNX Runtime; use int8",
                g->values[n->inputs[0]].name);
    }
    return true;
}

/* Adds input i. A cache is read in its stored type. */
static void lower_input(struct qc_lowering *x, size_t i, struct qc_status *st)
{
    const struct qc_port *port = &x->from->inputs[i];
    const struct qc_type *type = &x->from->values[port->value].type,
                         *stored = &x->from->values[x->cache[port->value]].type;
    const bool cache = x->cache[port->value] != 0;
    const enum qc_dtype dtype = cache ? x->from->qparams_of[stored->qparams].dtype : type->dtype;
    qc_id *v = &x->real[port->value];
    struct qc_shape shape = type->shape;
    const bool four = cache && dtype == QC_I4;    /* two numbers in a byte */
    for (int d = 1; cache && d < shape.rank; d++) /* the size of a head is known from what is appended */
        if (shape.dim[d] < 0) shape.dim[d] = stored->shape.dim[d];
    if (four && shape.dim[shape.rank - 1] > 0) shape.dim[shape.rank - 1] /= 2;
    *v = qc_graph_add_input_like(x->to, port, four ? QC_U8 : dtype, &shape, st);
    if (!cache) return;
    if (four) {
        /* The numbers of a cache of 4 bits, as a value that only an operator with such a cache can do without. */
        int64_t types[QC_RANK_MAX + 2] = {type->dtype, type->shape.rank};
        for (int d = 0; d < type->shape.rank; d++) types[2 + d] = type->shape.dim[d];
        *v = qc_graph_add(x->to,
                          QC_NODE(QC_OP_Custom, QC_INPUTS(*v),
                                  QC_ATTRS(QC_STRING(QC_CUSTOM_DOMAIN, unreadable), QC_STRING(QC_CUSTOM_OP, "Numbers"),
                                           QC_INT(QC_CUSTOM_VERSION, 1),
                                           QC_INTS(QC_CUSTOM_TYPES, (size_t)type->shape.rank + 2, types))),
                          st);
        return;
    }
    const struct qc_attr to = QC_INT("to", qc_dtype_info(type->dtype)->onnx);
    *v = linear(x, QC_OP_DequantizeLinear, *v, stored->qparams, stored->axis, port->name, NULL, st);
    if (type->dtype != QC_F32)
        *v = add_named(x, QC_OP_Cast, 1, v, &to, port->name, qc_dtype_info(type->dtype)->name, st);
}

bool qc_lower_graph(struct qc_graph **out, const struct qc_graph *g, qc_lower_node_fn *node,
                    const struct qc_lower_options *options, struct qc_status *st)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_lowering x = {.from = g, .arena = a};
    if (options) x.options = *options;
    if (!x.options.target) x.options.target = &qc_target_plain;
    x.real = QC_NEW_ARRAY(a, qc_id, g->value_count + 1, st);
    x.integer = QC_NEW_ARRAY(a, qc_id, g->value_count + 1, st);
    x.given = QC_NEW_ARRAY(a, const char *, g->value_count + 1, st);
    x.cache = QC_NEW_ARRAY(a, qc_id, g->value_count + 1, st);
    x.called = QC_NEW_ARRAY(a, bool, g->value_count + 1, st);
    if (st->code != QC_OK || !qc_uses_of(&x.uses, g, a, st) || !qc_graph_new_like(&x.to, g, st)) return false;
    /* With options.caches: fill cache, and given of what is found. */
    struct qc_cache c;
    for (size_t i = 0; x.options.caches && i < g->input_count; i++) {
        const qc_id input = g->inputs[i].value;
        if (!qc_dtype_info(g->values[input].type.dtype)->is_float || !qc_cache_of(&c, &x.uses, input)) continue;
        for (size_t k = 0; k < g->output_count; k++) {
            const qc_id output = g->outputs[k].value;
            const struct qc_node *read = maker_of(g, output);
            const qc_id v = read && read->op == QC_OP_Dequantize ? read->inputs[0] : 0;
            const struct qc_node *n = qc_node_of(g, v); /* the result of the Concat, rounded */
            if (!v || maker_of(g, n && n->op == QC_OP_Quantize ? n->inputs[0] : v) != c.joins) continue;
            x.cache[input] = x.cache[output] = v;
            x.given[v] = g->outputs[k].name;
        }
    }
    for (size_t i = 0; i < g->call_count; i++)
        for (unsigned k = 0; g->calls[i].op && k < g->calls[i].input_count; k++) x.called[g->calls[i].inputs[k]] = true;
    for (size_t i = 0; i < g->input_count; i++) lower_input(&x, i, st);
    for (size_t i = 0; i < g->output_count; i++) {
        const qc_id v = g->outputs[i].value;
        const struct qc_node *n = qc_node_of(g, v), *made = n && leaves(g, n) ? qc_node_of(g, n->inputs[0]) : NULL;
        if (made) x.given[made->inputs[0]] = g->values[v].name;
    }
    QC_EACH_NODE(n, g) {
        x.recurrent = x.recurrent || qc_is_recurrent(n->op);
        x.old = x.old || (n->op == QC_OP_RoiAlign && x.options.target->onnxruntime);
    }
    for (qc_id id = 1; st->code == QC_OK && id <= g->node_count; id++) node(&x, id, st);
    for (size_t i = 0; st->code == QC_OK && i < g->output_count; i++) {
        const qc_id value = g->outputs[i].value,
                    v = x.cache[value] ? x.integer[x.cache[value]] : qc_lower_real(&x, value, st);
        if (qc_graph_add_output(x.to, g->outputs[i].name, v, st))
            qc_port_copy(&x.to->outputs[i], &g->outputs[i], x.to->arena, st);
    }
    const bool ok = st->code == QC_OK && qc_lower_restore_calls(&x, st) &&
                    (!x.options.caches || caches_are_read(x.to, st)) &&
                    (!x.options.target->onnxruntime || qc_lower_share_tables(&x.to, st)) && qc_lower_unshare(&x.to, st);
    return QC_HAND_OVER(ok, out, x.to, qc_graph_free);
}

/* QDQ: every op stays a float op between DequantizeLinear and QuantizeLinear, which runtimes fuse into integer kernels.
   An activation has one QuantizeLinear and one DequantizeLinear for any number of consumers. Weights are int8
   initializers. Biases are int32 initializers with the accumulator's qparams: scale f(input scale * weight scale), zero
   point 0. */

static bool lower_qdq(struct qc_graph **out, const struct qc_graph *g, const struct qc_lower_options *options,
                      struct qc_status *st)
{
    return qc_lower_graph(out, g, qc_lower_plain, options, st);
}

extern const struct qc_exporter qc_exporter_qdq;
const struct qc_exporter qc_exporter_qdq = {
    .summary = "ONNX with QuantizeLinear / DequantizeLinear around float ops; opset 13 or later",
    .suffix = ".int8.onnx",
    .lower = lower_qdq,
};
