// SPDX-License-Identifier: Apache-2.0
/* RandomNormal-22, RandomUniform-22, their Like forms, Multinomial-22. Each run draws the numbers that ONNX Runtime
   draws in its first run: std::minstd_rand0 with the polar method of libstdc++'s normal_distribution. A node without a
   seed takes a hash of its name, so that a model and its quantized file draw the same numbers. */
#include <math.h>

#include "base/index.h"
#include "simq/core/kernel_util.h"

enum { MODULUS = 2147483647, FACTOR = 16807 };

struct state {
    uint32_t seed;
    float a, b; /* mean and scale, or low and high */
    bool normal;
};

static uint32_t next_random(uint32_t *x)
{
    return *x = (uint32_t)((uint64_t)*x * FACTOR % MODULUS);
}

/* generate_canonical<float, 24>: [0, 1) */
static float next_float(uint32_t *x)
{
    const float u = (float)(next_random(x) - 1) / (float)(MODULUS - 1);
    return u < 1 ? u : nextafterf(1, 0);
}

/* generate_canonical<double, 53>: two numbers */
static double next_double(uint32_t *x)
{
    const double range = MODULUS - 1, low = next_random(x) - 1, high = next_random(x) - 1,
                 u = (low + high * range) / (range * range);
    return u < 1 ? u : nextafter(1, 0);
}

static bool prepare_random(struct qc_prepare *p, struct qc_status *st)
{
    struct state *s = QC_NEW_STATE(p, struct state, st);
    if (!s) return false;
    /* The seed of std::default_random_engine. */
    const struct qc_attr *given = qc_attr_find(p->node, "seed");
    const char *name = p->node->name ? p->node->name : p->graph->values[p->node->outputs].name;
    const double seed = given ? (double)given->f : (double)(uint32_t)qc_hash_text(name ? name : "");
    const uint32_t x = seed >= 0 && seed <= UINT32_MAX ? (uint32_t)((uint64_t)seed % MODULUS) : 0;
    s->seed = x ? x : 1;
    s->normal = p->node->op == QC_OP_RandomNormal || p->node->op == QC_OP_RandomNormalLike;
    s->a = qc_attr_float(p->node, s->normal ? "mean" : "low", 0);
    s->b = qc_attr_float(p->node, s->normal ? "scale" : "high", 1);
    return p->node->op == QC_OP_Multinomial || p->out[0].dtype == QC_F32 || p->out[0].dtype == QC_F64 ||
           qc_kernel_no_type(p->out[0].dtype, st);
}

/* Sets y and *saved to two numbers of the polar method. */
#define QC_POLAR(NAME, T, NEXT, ROOT, LOG)                                                                             \
    static T NAME(T *saved, uint32_t *x)                                                                               \
    {                                                                                                                  \
        T u, v, square;                                                                                                \
        do {                                                                                                           \
            u = (T)(2.0 * (double)NEXT(x) - 1.0);                                                                      \
            v = (T)(2.0 * (double)NEXT(x) - 1.0);                                                                      \
            square = u * u + v * v;                                                                                    \
        } while (square > 1 || square == 0);                                                                           \
        const T by = ROOT(-2 * LOG(square) / square);                                                                  \
        *saved = u * by;                                                                                               \
        return v * by;                                                                                                 \
    }
QC_POLAR(polar_float, float, next_float, sqrtf, logf)
QC_POLAR(polar_double, double, next_double, sqrt, log)

#define QC_DRAW(T, NEXT, POLAR)                                                                                        \
    do {                                                                                                               \
        T *to = y->data, saved = 0;                                                                                    \
        for (size_t i = 0; i < n; i++) {                                                                               \
            if (!s->normal)                                                                                            \
                to[i] = NEXT(&x) * ((T)s->b - (T)s->a) + (T)s->a;                                                      \
            else                                                                                                       \
                to[i] = (i % 2 ? saved : POLAR(&saved, &x)) * (T)s->b + (T)s->a;                                       \
        }                                                                                                              \
    } while (0)

static bool run_random(const struct qc_run *r, struct qc_status *st)
{
    const struct state *s = r->state;
    const struct qc_view *y = &r->out[0];
    const size_t n = qc_view_count(y);
    uint32_t x = s->seed;
    if (y->dtype == QC_F32)
        QC_DRAW(float, next_float, polar_float);
    else
        QC_DRAW(double, next_double, polar_double);
    return true;
}

/* Draws classes by their unnormalized logarithms; logits that are not finite have no weight. */
static bool run_multinomial(const struct qc_run *r, struct qc_status *st)
{
    const struct state *s = r->state;
    const struct qc_view *x = &r->in[0], *y = &r->out[0];
    uint32_t random = s->seed;
    for (int64_t row = 0; row < x->dim[0]; row++) {
        const int64_t from = row * x->stride[0], classes = x->dim[1];
        double most = -(double)INFINITY, total = 0;
        for (int64_t c = 0; c < classes; c++) {
            const double v = qc_kernel_real(x, from + c * x->stride[1]);
            if (isfinite(v) && v > most) most = v;
        }
        for (int64_t c = 0; c < classes; c++) {
            const double v = qc_kernel_real(x, from + c * x->stride[1]);
            if (isfinite(v)) total += exp(v - most);
        }
        for (int64_t k = 0; k < y->dim[1]; k++) {
            const double drawn = next_double(&random) * total;
            double sum = 0;
            int64_t c = 0;
            for (; c < classes; c++) {
                const double v = qc_kernel_real(x, from + c * x->stride[1]);
                if (isfinite(v)) sum += exp(v - most);
                if (sum > drawn) break;
            }
            qc_element_of(qc_at(y, row * y->stride[0] + k * y->stride[1]), y->dtype, (double)c);
        }
    }
    return true;
}

QC_KERNEL(random, .order = QC_ORDER_ROW, .takes_any = true, .prepare = prepare_random, .run = run_random);
QC_KERNEL(multinomial, .order = QC_ORDER_ROW, .takes_any = true, .prepare = prepare_random, .run = run_multinomial);
