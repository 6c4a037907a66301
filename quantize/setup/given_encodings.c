// SPDX-License-Identifier: Apache-2.0
#include "quantize/setup/setup.h"

#include <math.h>
#include <string.h>
#include <strings.h>

#include "arith/params.h"
#include "base/file.h"
#include "base/json.h"
#include "graph/core/uses.h"

/* Why entries were not used. */
enum unused { UNKNOWN_NAME, IS_FLOAT, WIDTH, BLOCKS, NO_RANGE, UNUSED_COUNT };

static const char *const reasons[UNUSED_COUNT] = {
    [UNKNOWN_NAME] = "the model has no such tensor",
    [IS_FLOAT] = "it stays float (--skip leaves operators in float)",
    [WIDTH] = "its width is not 4, 8 or 16 bits",
    [BLOCKS] = "it has blocks (--weight-block)",
    [NO_RANGE] = "it has a type without a range (--activation-type T:NODE, --weight-type T:NODE)",
};

struct adding {
    struct qc_given_values *to;
    const struct qc_graph *g;
    struct qc_uses uses;
    struct qc_arena *a;
    size_t unused[UNUSED_COUNT];
    const char *first[UNUSED_COUNT];
};

/* One entry, in the form of all files: elements of scale and so on are of channels. */
struct entry {
    const char *name;
    enum qc_dtype dtype; /* QC_NONE: it is not used, for `why` */
    enum unused why;
    bool bias;
    int axis; /* -1: not given */
    size_t count;
    float *scale;
    int32_t *zero_point;
};

/* The following take NULL: a missing value. */
static double number(const struct qc_json *v)
{
    return v ? qc_json_value(v) : (double)NAN;
}

static bool is_list(const struct qc_json *v)
{
    return v && qc_json_kind(v) == QC_JSON_ARRAY;
}

static bool is_true(const struct qc_json *v)
{
    return v && (qc_json_text(v) ? strcasecmp(qc_json_text(v), "true") == 0 : qc_json_value(v) > 0);
}

/* Returns a number that is no axis of any tensor for what is no axis. */
static int axis_of(const struct qc_json *v)
{
    const double axis = number(v);
    return axis >= -QC_RANK_MAX && axis < QC_RANK_MAX ? (int)axis : QC_RANK_MAX;
}

static enum qc_dtype type_of(double bits, bool is_signed)
{
    return bits == 4    ? (is_signed ? QC_I4 : QC_U4)
           : bits == 8  ? (is_signed ? QC_I8 : QC_U8)
           : bits == 16 ? (is_signed ? QC_I16 : QC_U16)
                        : QC_NONE;
}

static struct entry not_used(const char *name, enum unused why)
{
    return (struct entry){.name = name, .why = why, .axis = -1};
}

static bool new_entry(struct entry *e, const char *name, enum qc_dtype dtype, size_t count, struct qc_arena *a,
                      struct qc_status *st)
{
    *e = (struct entry){.name = name, .dtype = dtype, .axis = -1, .count = count};
    e->scale = QC_NEW_ARRAY(a, float, count, st);
    e->zero_point = QC_NEW_ARRAY(a, int32_t, count, st);
    return e->scale && e->zero_point;
}

/* Element i of a list, or a number for all. */
static double element(const struct qc_json *v, size_t i)
{
    return is_list(v) ? number(qc_json_at(v, i)) : number(v);
}

/* Sets channel i. A signed type with symmetric levels has zero point 0. NaN scale: from min and max. */
static void set_channel(struct entry *e, size_t i, double scale, double zero_point, double min, double max,
                        bool symmetric)
{
    const struct qc_dtype_info *t = qc_dtype_info(e->dtype);
    if (isnan(scale) && symmetric) {
        scale = -min == max ? max / t->hi : (max - min) / (t->hi - t->lo); /* the former: without the lowest level */
        zero_point = t->lo < 0 ? 0 : (t->hi + 1) / 2;
    } else if (isnan(scale)) {
        scale = (fmax(max, 0) - fmin(min, 0)) / (t->hi - t->lo);
        zero_point = t->lo - rint(fmin(min, 0) / scale);
    }
    e->scale[i] = (float)scale;
    e->zero_point[i] = isnan(zero_point) || fabs(zero_point) > 65536 ? INT32_MAX : (int32_t)zero_point;
}

/* AIMET 0.6.1 and QNN: a list of objects, one for each channel. offset: the lowest level, of unsigned integers. */
static bool read_list(struct entry *e, const char *name, const struct qc_json *list, bool weight, struct adding *x,
                      struct qc_status *st)
{
    const struct qc_json *first = qc_json_at(list, 0);
    const double bits = number(qc_json_get(first, "bitwidth"));
    const char *kind = qc_json_find_text(first, "dtype");
    const bool symmetric = weight && is_true(qc_json_get(first, "is_symmetric"));
    const enum qc_dtype dtype = type_of(bits, symmetric);
    if (kind && strcasecmp(kind, "float") == 0) {
        *e = not_used(name, IS_FLOAT);
        return true;
    }
    if (dtype == QC_NONE) {
        *e = not_used(name, WIDTH);
        e->bias = bits == 32;
        return true;
    }
    if (!new_entry(e, name, dtype, qc_json_size(list), x->a, st)) return false;
    for (size_t i = 0; i < e->count; i++) {
        const struct qc_json *c = qc_json_at(list, i);
        const double offset = number(qc_json_get(c, "offset"));
        set_channel(e, i, number(qc_json_get(c, "scale")), symmetric ? 0 : -offset, number(qc_json_get(c, "min")),
                    number(qc_json_get(c, "max")), symmetric);
    }
    return true;
}

/* AIMET 1.0: one object with lists. */
static bool read_lists(struct entry *e, const struct qc_json *o, bool weight, struct adding *x, struct qc_status *st)
{
    const char *name = qc_json_find_text(o, "name"), *kind = qc_json_find_text(o, "dtype"),
               *form = qc_json_find_text(o, "enc_type");
    const double bits = number(qc_json_get(o, "bw"));
    const struct qc_json *scale = qc_json_get(o, "scale"), *offset = qc_json_get(o, "offset");
    const bool symmetric = weight && is_true(qc_json_get(o, "is_sym"));
    const enum qc_dtype dtype = type_of(bits, symmetric);
    *e = not_used(name, WIDTH);
    e->bias = bits == 32;
    if (kind && strcasecmp(kind, "FLOAT") == 0) e->why = IS_FLOAT;
    if (form && strcasecmp(form, "PER_TENSOR") != 0 && strcasecmp(form, "PER_CHANNEL") != 0) e->why = BLOCKS;
    if (dtype == QC_NONE || e->why != WIDTH) return true;
    if (!new_entry(e, name, dtype, qc_json_size(scale), x->a, st)) return false;
    for (size_t i = 0; i < e->count; i++)
        set_channel(e, i, element(scale, i), symmetric ? 0 : -element(offset, i), (double)NAN, (double)NAN, symmetric);
    return true;
}

/* AIMET 2.0: parameters of ONNX's QuantizeLinear. */
static bool read_linear(struct entry *e, const struct qc_json *o, struct adding *x, struct qc_status *st)
{
    const char *name = qc_json_find_text(o, "name"), *type = qc_json_find_text(o, "output_dtype");
    const struct qc_json *scale = qc_json_get(o, "y_scale"), *zero = qc_json_get(o, "y_zero_point"),
                         *axis = qc_json_get(o, "axis");
    const enum qc_dtype dtype = type ? qc_dtype_from_name(type) : QC_NONE;
    const bool list = is_list(scale), zeros = zero && qc_json_kind(zero) != QC_JSON_NULL;
    *e = not_used(name, WIDTH);
    e->bias = dtype == QC_I32;
    if (type && strncmp(type, "float", 5) == 0) e->why = IS_FLOAT;
    if (!scale) e->why = NO_RANGE;
    if (qc_json_get(o, "block_size") || (list && is_list(qc_json_at(scale, 0)))) e->why = BLOCKS;
    if (dtype == QC_NONE || type_of(qc_dtype_info(dtype)->bits, qc_dtype_info(dtype)->lo < 0) != dtype ||
        e->why != WIDTH)
        return true;
    if (!new_entry(e, name, dtype, list ? qc_json_size(scale) : 1, x->a, st)) return false;
    if (axis && qc_json_kind(axis) != QC_JSON_NULL) e->axis = axis_of(axis);
    for (size_t i = 0; i < e->count; i++)
        set_channel(e, i, element(scale, i), zeros ? element(zero, i) : 0, (double)NAN, (double)NAN, false);
    return true;
}

/* ONNX Runtime: TensorQuantOverrides, a list of objects. */
static bool read_override(struct entry *e, const char *name, const struct qc_json *list, bool weight, struct adding *x,
                          struct qc_status *st)
{
    const struct qc_json *first = qc_json_at(list, 0), *axis = qc_json_get(first, "axis");
    const char *type = qc_json_find_text(first, "quant_type"), *dot = type ? strrchr(type, '.') : NULL;
    const bool symmetric = is_true(qc_json_get(first, "symmetric"));
    enum qc_dtype dtype = weight ? QC_I8 : QC_U8;
    if (dot) type = dot + 1;
    if (type)
        dtype = qc_dtype_from_name(strncasecmp(type, "QU", 2) == 0   ? (strcasecmp(type, "QUInt4") == 0    ? "u4"
                                                                        : strcasecmp(type, "QUInt16") == 0 ? "u16"
                                                                                                           : "u8")
                                   : strcasecmp(type, "QInt4") == 0  ? "i4"
                                   : strcasecmp(type, "QInt16") == 0 ? "i16"
                                   : strcasecmp(type, "QInt8") == 0  ? "i8"
                                                                     : type);
    *e = not_used(name, WIDTH);
    if (dtype == QC_NONE || type_of(qc_dtype_info(dtype)->bits, qc_dtype_info(dtype)->lo < 0) != dtype) return true;
    if (!qc_json_get(first, "scale") && !qc_json_get(first, "rmax")) {
        e->why = NO_RANGE;
        return true;
    }
    if (!new_entry(e, name, dtype, qc_json_size(list), x->a, st)) return false;
    if (axis) e->axis = axis_of(axis);
    for (size_t i = 0; i < e->count; i++) {
        const struct qc_json *c = qc_json_at(list, i), *zero = qc_json_get(c, "zero_point");
        set_channel(e, i, element(qc_json_get(c, "scale"), 0), zero ? element(zero, 0) : 0,
                    number(qc_json_get(c, "rmin")), number(qc_json_get(c, "rmax")), symmetric);
    }
    return true;
}

/* Adds an entry, or takes the place of the given parameters of its tensor. */
static bool add(struct adding *x, struct entry *e, struct qc_status *st)
{
    if (!e->name) return qc_fail(st, QC_BAD_INPUT, "an entry has no name");
    const qc_id v = qc_graph_find_value(x->g, e->name);
    if (e->bias) return true;
    if (!v || e->dtype == QC_NONE) {
        const enum unused why = v ? e->why : UNKNOWN_NAME;
        if (!x->unused[why]++) x->first[why] = e->name;
        return true;
    }
    const struct qc_shape *shape = &x->g->values[v].type.shape;
    const struct qc_dtype_info *t = qc_dtype_info(e->dtype);
    /* The axis of the output channels of a weight, by the operator that reads it. */
    const struct qc_use_list readers = qc_readers(&x->uses, v);
    const struct qc_node *n = readers.count ? &x->g->nodes[readers.of[0].node] : NULL;
    int axis = e->count == 1                  ? 0
               : e->axis != -1                ? e->axis
               : !n                           ? -1
               : n->op == QC_OP_ConvTranspose ? 1
               : n->op == QC_OP_Gemm          ? !qc_attr_int(n, "transB", 0)
               : n->op == QC_OP_MatMul        ? shape->rank - 1
                                              : 0;
    if (axis < 0) axis += shape->rank;
    if (!e->count || (e->count > 1 && (axis < 0 || axis >= shape->rank || shape->dim[axis] != (int64_t)e->count)))
        return qc_fail(st, QC_BAD_INPUT, "tensor '%s' has %zu scales, and its axis %d has another number of channels",
                       e->name, e->count, axis);
    for (size_t i = 0; i < e->count; i++)
        if (!(e->scale[i] >= QC_SCALE_MIN) || !isfinite(e->scale[i]) || e->zero_point[i] < t->lo ||
            e->zero_point[i] > t->hi)
            return qc_fail(st, QC_BAD_INPUT,
                           "tensor '%s', channel %zu: scale %g and zero point %d do not fit %s; expected a positive "
                           "scale, or min and max, and an offset within the levels",
                           e->name, i, (double)e->scale[i], e->zero_point[i], qc_dtype_long_name(e->dtype));
    struct qc_given_value made = {.name = qc_arena_strdup(x->a, e->name, st),
                                  .weight = qc_constant_of(x->g, v),
                                  .parameters = {e->dtype, e->count, e->count > 1 ? axis : 0, e->scale, e->zero_point}};
    if (!made.name) return false;
    for (size_t i = 0; i < x->to->count; i++) {
        struct qc_given_value *old = &x->to->of[i];
        const bool same = made.weight ? old->weight && qc_tensor_equal(old->weight, made.weight)
                                      : !old->weight && strcmp(old->name, made.name) == 0;
        if (!same) continue;
        old->parameters = made.parameters;
        return true;
    }
    x->to->of[x->to->count++] = made;
    return true;
}

/* Adds the entries of one list or object of AIMET's and QNN's files. */
static bool add_part(struct adding *x, const struct qc_json *part, bool weight, struct qc_status *st)
{
    struct entry e;
    const bool lists = is_list(part);
    for (size_t i = 0; i < qc_json_size(part); i++) {
        const struct qc_json *one = qc_json_at(part, i);
        if (!(lists ? read_lists(&e, one, weight, x, st) : read_list(&e, qc_json_key(part, i), one, weight, x, st)) ||
            !add(x, &e, st))
            return false;
    }
    return true;
}

static bool add_all(struct adding *x, const struct qc_json *root, struct qc_status *st)
{
    const struct qc_json *activations = qc_json_get(root, "activation_encodings"),
                         *weights = qc_json_get(root, "param_encodings"), *all = qc_json_get(root, "encodings");
    struct entry e;
    if (qc_json_kind(root) != QC_JSON_OBJECT)
        return qc_fail(st, QC_BAD_INPUT, "expected an object with encodings, or with overrides by tensor");
    if (activations || weights) return add_part(x, activations, false, st) && add_part(x, weights, true, st);
    for (size_t i = 0; i < qc_json_size(all); i++)
        if (!read_linear(&e, qc_json_at(all, i), x, st) || !add(x, &e, st)) return false;
    for (size_t i = 0; !all && i < qc_json_size(root); i++) {
        const char *name = qc_json_key(root, i);
        if (!is_list(qc_json_at(root, i)))
            return qc_fail(st, QC_BAD_INPUT,
                           "'%s' is no list; expected activation_encodings and param_encodings (AIMET, QNN), encodings "
                           "(AIMET 2.0), or a list of overrides for each tensor (ONNX Runtime)",
                           name);
        const qc_id v = qc_graph_find_value(x->g, name);
        const bool weight = v && qc_constant_of(x->g, v);
        if (!read_override(&e, name, qc_json_at(root, i), weight, x, st) || !add(x, &e, st)) return false;
    }
    return true;
}

bool qc_add_encodings(struct qc_given_values *given, const char *file, const struct qc_graph *g, struct qc_arena *a,
                      struct qc_warnings *w, struct qc_status *st)
{
    struct qc_given_values all = *given;
    struct adding x = {.to = &all, .g = g, .a = a};
    struct qc_json *root = NULL;
    void *text;
    size_t size;
    QC_ARENA_SCOPE *scratch = qc_arena_new();
    if (!scratch) return qc_fail_memory(st, 1);
    bool ok = qc_file_read(&text, &size, file, scratch, st) && qc_json_parse(&root, text, size, st) &&
              qc_uses_of(&x.uses, g, scratch, st);
    size_t most = given->count + qc_json_size(root) + 1; /* with the tensors in all lists and objects of the file */
    for (size_t i = 0; i < qc_json_size(root); i++) most += qc_json_size(qc_json_at(root, i));
    ok = ok && (all.of = QC_NEW_ARRAY(a, struct qc_given_value, most, st));
    if (ok && given->count) memcpy(all.of, given->of, given->count * sizeof *given->of);
    ok = ok && add_all(&x, root, st);
    for (int why = 0; ok && why < UNUSED_COUNT; why++)
        if (x.unused[why])
            qc_warn(w, "%s: %zu entr%s not used, '%s' first: %s", file, x.unused[why],
                    x.unused[why] == 1 ? "y is" : "ies are", x.first[why], reasons[why]);
    qc_json_free(root);
    if (!ok) return qc_where(st, "--encodings %s", file);
    *given = all;
    return true;
}
