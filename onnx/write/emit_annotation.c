// SPDX-License-Identifier: Apache-2.0
#include "onnx/write/emitting.h"

/* Adds an initializer of the annotation. Returns its name, or NULL and sets a status. */
static const char *add_tensor(struct qc_emitter *e, const struct qc_tensor *t, const char *base, const char *suffix,
                              struct qc_status *st)
{
    const char *name = qc_emit_fresh_name(e, base, suffix, st);
    Onnx__TensorProto *p = name ? qc_emit_tensor(e->arena, name, t, st) : NULL;
    return p && qc_emit_initializer(e, p, st) ? name : NULL;
}

static struct qc_tensor tensor_of(enum qc_dtype t, const struct qc_shape *shape, size_t count, const void *data)
{
    return (struct qc_tensor){.dtype = t,
                              .shape = *shape,
                              .count = count,
                              .bytes = count * qc_dtype_size(t),
                              .data = (void *)(uintptr_t)data};
}

/* Returns zero points in their own type: little endian, so the low bytes are the value. */
static const void *zero_points(struct qc_emitter *e, const struct qc_onnx_annotation *a, struct qc_status *st)
{
    const size_t size = qc_dtype_size(a->dtype);
    uint8_t *z = QC_NEW_ARRAY(e->arena, uint8_t, a->count * size, st);
    for (size_t i = 0; z && i < a->count; i++) {
        z[i * size] = (uint8_t)a->zero_point[i];
        if (size == 2) z[i * size + 1] = (uint8_t)((uint32_t)a->zero_point[i] >> 8);
    }
    return z;
}

static bool add_key(struct qc_emitter *e, Onnx__TensorAnnotation *to, const char *key, const char *tensor,
                    struct qc_status *st)
{
    Onnx__StringStringEntryProto *p = QC_NEW(e->arena, Onnx__StringStringEntryProto, st);
    if (!p || !tensor) return false;
    onnx__string_string_entry_proto__init(p);
    p->key = qc_emit_text(key);
    p->value = qc_emit_text(tensor);
    to->quant_parameter_tensor_names[to->n_quant_parameter_tensor_names++] = p;
    return true;
}

static Onnx__TensorAnnotation *annotation(struct qc_emitter *e, const struct qc_onnx_annotation *a,
                                          const Onnx__TensorAnnotation *same, struct qc_status *st)
{
    Onnx__TensorAnnotation *p = QC_NEW(e->arena, Onnx__TensorAnnotation, st);
    const struct qc_shape scalar = QC_SCALAR, vector = qc_shape_of(1, (const int64_t[]){(int64_t)a->count});
    const struct qc_shape *shape = a->axis < 0 ? &scalar : &vector;
    if (!p) return NULL;
    onnx__tensor_annotation__init(p);
    p->tensor_name = qc_emit_text(e->names[a->value]);
    if (same) {
        p->n_quant_parameter_tensor_names = same->n_quant_parameter_tensor_names;
        p->quant_parameter_tensor_names = same->quant_parameter_tensor_names;
        return p;
    }
    if (!(p->quant_parameter_tensor_names = QC_NEW_ARRAY(e->arena, Onnx__StringStringEntryProto *, 3, st))) return NULL;
    const struct qc_tensor scale = tensor_of(QC_F32, shape, a->count, a->scale);
    if (!add_key(e, p, "SCALE_TENSOR", add_tensor(e, &scale, a->base, "scale", st), st)) return NULL;
    if (a->dtype != QC_I32) {
        const void *data = zero_points(e, a, st);
        const struct qc_tensor zero = tensor_of(a->dtype, shape, a->count, data);
        if (!data || !add_key(e, p, "ZERO_POINT_TENSOR", add_tensor(e, &zero, a->base, "zero_point", st), st))
            return NULL;
    }
    if (a->axis < 0) return p;
    const int64_t *axis = qc_arena_dup(e->arena, &(const int64_t){a->axis}, 1, sizeof *axis, st);
    const struct qc_tensor t = tensor_of(QC_I64, &scalar, 1, axis);
    return axis && add_key(e, p, "AXIS_TENSOR", add_tensor(e, &t, a->base, "axis", st), st) ? p : NULL;
}

/* Tensors of one quantizer share its initializers. */
static const Onnx__TensorAnnotation *shared(Onnx__TensorAnnotation *const *made, const struct qc_onnx_annotation *all,
                                            size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (made[k] && all[k].scale == all[i].scale && all[k].zero_point == all[i].zero_point &&
            all[k].axis == all[i].axis && all[k].dtype == all[i].dtype)
            return made[k];
    return NULL;
}

bool qc_emit_annotations(Onnx__GraphProto *p, struct qc_emitter *e, const struct qc_onnx_emit_options *o,
                         struct qc_status *st)
{
    if (!o->annotation_count) return true;
    Onnx__TensorAnnotation **made =
        QC_NEW_ARRAY(e->arena, Onnx__TensorAnnotation *, o->annotation_count, st); /* by annotation */
    if (!made ||
        !(p->quantization_annotation = QC_NEW_ARRAY(e->arena, Onnx__TensorAnnotation *, o->annotation_count, st)))
        return false;
    for (size_t i = 0; i < o->annotation_count; i++) {
        if (!e->used[o->annotations[i].value]) continue;
        if (!(made[i] = annotation(e, &o->annotations[i], shared(made, o->annotations, i), st))) return false;
        p->quantization_annotation[p->n_quantization_annotation++] = made[i];
    }
    return true;
}
