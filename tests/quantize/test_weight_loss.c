// SPDX-License-Identifier: Apache-2.0
/* The loss of weights, element by element, with scales of tensors, channels and blocks on any axis. */
#include "arith/float_level.h"
#include "graph/core/parameters.h"
#include "quantize/report/record.h"
#include "tests/check.h"

enum { SCALES = 512 };

struct one {
    enum qc_dtype type;
    struct qc_shape shape;
    int axis;
    int64_t block; /* 0: none */
    size_t count;  /* of scales */
};

static double random_value(uint32_t *state)
{
    *state = *state * 1664525u + 1013904223u;
    return (double)(*state >> 8) / (1 << 24) - 0.5;
}

static void reference(struct qc_loss *out, const struct qc_tensor *t, const struct qc_tensor *stored,
                      const struct qc_qparams *s, int axis)
{
    const struct qc_scale_layout layout = qc_scale_layout_of(s, &t->shape, axis);
    const struct qc_levels levels = qc_qparams_levels(s);
    for (size_t i = 0; i < t->count; i++) {
        const size_t q = qc_scale_at(&layout, i);
        const double v = (double)((float *)t->data)[i], x = v / (double)s->scale[q],
                     level = levels.mantissa ? qc_float_level_double(x, -(double)INFINITY, (double)INFINITY,
                                                                     levels.mantissa, levels.least)
                                             : nearbyint(x) + s->zero_point[q],
                     off = v - (double)s->scale[q] * (qc_tensor_float(stored, i) - s->zero_point[q]);
        out->signal += v * v;
        *(level < levels.lo || level > levels.hi ? &out->clipping : &out->rounding) += off * off;
    }
}

Test(weight_loss, equals_the_sum_over_elements)
{
    const struct one cases[] = {
        {QC_I8, QC_SHAPE(37, 11), 0, 0, 1},      {QC_I8, QC_SHAPE(37, 11), 0, 0, 37},
        {QC_U8, QC_SHAPE(37, 11), 1, 0, 11},     {QC_I8, QC_SHAPE(5, 3, 3, 7), 1, 0, 3},
        {QC_I4, QC_SHAPE(64, 9), 0, 16, 36},     {QC_U4, QC_SHAPE(9, 80), 1, 32, 27},
        {QC_I4, QC_SHAPE(3, 40, 5), 1, 16, 45},  {QC_I8, QC_SHAPE(1, 300), 1, 0, 300},
        {QC_F8E4M3, QC_SHAPE(37, 11), 1, 0, 11}, {QC_F8E4M3, QC_SHAPE(3, 40, 5), 1, 16, 45},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const struct one *c = &cases[k];
        float scale[SCALES];
        int32_t zero[SCALES];
        uint32_t state = (uint32_t)k + 1;
        const bool floats = c->type == QC_F8E4M3;
        OWN(qc_tensor) *t = qc_tensor_new(QC_F32, &c->shape, ST),
                       *stored = qc_tensor_new(floats ? QC_F32 : c->type, &c->shape, ST);
        struct qc_loss want = {0}, got;
        cr_assert(t && stored);
        for (size_t i = 0; i < c->count; i++) {
            scale[i] = (float)(floats                                 ? 0.001
                               : c->type == QC_I4 || c->type == QC_U4 ? 0.06
                                                                      : 0.003) *
                       (1 + 0.01f * (float)(i % 9));
            zero[i] = floats ? 0 : (int32_t)(i % 3);
        }
        const struct qc_qparams s =
            FIELDS(.dtype = c->type, .is_weight = true, .per_channel = c->count > 1, .block = c->block,
                   .state = QC_QPARAMS_BOUND, .count = c->count, .scale = scale, .zero_point = zero);
        const struct qc_levels levels = qc_qparams_levels(&s);
        for (size_t i = 0; i < t->count; i++) {
            const double level = floor(levels.lo + (levels.hi - levels.lo) * (0.5 + random_value(&state)));
            ((float *)t->data)[i] = (float)random_value(&state);
            if (floats)
                ((float *)stored->data)[i] =
                    qc_float_level((float)level, (float)levels.lo, (float)levels.hi, levels.mantissa, levels.least);
            else
                ((uint8_t *)stored->data)[i] = (uint8_t)(int)level;
        }
        reference(&want, t, stored, &s, c->axis);
        qc_weight_loss(&got, t, stored, &s, c->axis);
        cr_expect_eq(got.signal, want.signal, "case %zu", k);
        cr_expect_eq(got.rounding, want.rounding, "case %zu: %g and %g", k, got.rounding, want.rounding);
        cr_expect_eq(got.clipping, want.clipping, "case %zu: %g and %g", k, got.clipping, want.clipping);
        cr_expect(want.rounding > 0 && (floats || want.clipping > 0), "case %zu", k);
    }
}
