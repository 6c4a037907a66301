// SPDX-License-Identifier: Apache-2.0
#include "simq/kernels/real/recurrent_cell.h"

#include <math.h>
#include <strings.h>

#include "base/simd.h"

/* --- Functions: those of the op table, and three that only recurrent ops have --- */

QC_VECTOR(relu, (float *y, const float *x, int64_t n, float a, float b), (y, x, n, a, b))
{
    QC_IVDEP
    for (int64_t i = 0; i < n; i++) y[i] = x[i] < 0 ? 0 : x[i];
}

QC_VECTOR(affine, (float *y, const float *x, int64_t n, float a, float b), (y, x, n, a, b))
{
    QC_IVDEP
    for (int64_t i = 0; i < n; i++) y[i] = a * x[i] + b;
}

static void scaled_tanh(float *y, const float *x, int64_t n, float a, float b)
{
    struct qc_status unused = QC_STATUS_INIT;
    struct qc_unary tanh_fn;
    affine(y, x, n, b, 0);
    if (qc_unary_of(&tanh_fn, &(struct qc_node){.op = QC_OP_Tanh}, &unused)) tanh_fn.fn(y, y, n, 0, 0);
    affine(y, y, n, a, 0);
}

/* `takes`: number of parameters (alpha, beta). Defaults are those of the op; Affine and ScaledTanh, which are not
   ops, default to 0 as in ONNX Runtime. */
static const struct {
    const char *name;
    enum qc_op op;
    qc_unary_fn *fn;
    int takes;
} functions[] = {
    {.name = "Sigmoid", .op = QC_OP_Sigmoid},
    {.name = "Tanh", .op = QC_OP_Tanh},
    {.name = "Relu", .fn = relu},
    {.name = "Affine", .fn = affine, .takes = 2},
    {.name = "LeakyRelu", .op = QC_OP_LeakyRelu, .takes = 1},
    {.name = "ThresholdedRelu", .op = QC_OP_ThresholdedRelu, .takes = 1},
    {.name = "ScaledTanh", .fn = scaled_tanh, .takes = 2},
    {.name = "HardSigmoid", .op = QC_OP_HardSigmoid, .takes = 2},
    {.name = "Elu", .op = QC_OP_Elu, .takes = 1},
    {.name = "Softsign", .op = QC_OP_Softsign},
    {.name = "Softplus", .op = QC_OP_Softplus},
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

/* Takes the next value of activation_alpha or activation_beta; functions without the parameter skip it. */
static void next_parameter(float *value, size_t *next, const struct qc_attr *list)
{
    if (list && *next < list->count) *value = list->floats[(*next)++];
}

bool qc_cell_of(struct qc_cell *c, const struct qc_node *n, const struct qc_recurrent *r, int d, struct qc_status *st)
{
    static const char *const usual[] = {"Sigmoid", "Tanh", "Tanh"};
    const struct qc_attr *names = qc_attr_find(n, "activations"), *alpha = qc_attr_find(n, "activation_alpha"),
                         *beta = qc_attr_find(n, "activation_beta");
    const int each = r->gates == 4 ? 3 : r->gates == 3 ? 2 : 1, all = each * r->directions;
    size_t alphas = 0, betas = 0;
    if (names && names->count != (size_t)all)
        return qc_fail(st, QC_BAD_INPUT, "attribute activations has %zu names, expected %d", names->count, all);
    *c = (struct qc_cell){.hidden = r->hidden,
                          .clip = qc_attr_float(n, "clip", INFINITY),
                          .input_forget = qc_attr_int(n, "input_forget", 0) != 0,
                          .linear_before_reset = qc_attr_int(n, "linear_before_reset", 0) != 0};
    if (!(c->clip > 0)) return qc_fail(st, QC_BAD_INPUT, "attribute clip is %g, expected more than 0", (double)c->clip);
    for (int i = 0; i < (d + 1) * each; i++) {
        const char *name = names ? names->strings[i] : usual[r->gates == 1 ? 1 : i % each];
        struct qc_unary u = {.fn = NULL};
        int k = 0;
        while (k < FUNCTIONS && strcasecmp(functions[k].name, name) != 0) k++;
        if (k == FUNCTIONS)
            return qc_fail(st, QC_BAD_INPUT, "attribute activations has the unknown name '%.40s'", name);
        u.fn = functions[k].fn;
        if (!u.fn && !qc_unary_of(&u, &(struct qc_node){.op = functions[k].op}, st)) return false;
        if (functions[k].takes > 0) next_parameter(&u.a, &alphas, alpha);
        if (functions[k].takes > 1) next_parameter(&u.b, &betas, beta);
        if (i >= d * each) c->function[i - d * each] = u;
    }
    return true;
}

/* --- Steps --- */

QC_VECTOR(sum, (float *z, const float *x, const float *bias, int64_t n), (z, x, bias, n))
{
    QC_IVDEP
    for (int64_t i = 0; i < n; i++) z[i] = (x[i] + z[i]) + bias[i];
}

/* z += w * c */
QC_VECTOR(peep, (float *z, const float *w, const float *c, int64_t n), (z, w, c, n))
{
    QC_IVDEP
    for (int64_t i = 0; i < n; i++) z[i] += w[i] * c[i];
}

QC_VECTOR(clamp, (float *z, float most, int64_t n), (z, most, n))
{
    QC_IVDEP
    for (int64_t i = 0; i < n; i++) {
        const float v = z[i] > most ? most : z[i];
        z[i] = v < -most ? -most : v;
    }
}

/* forget NULL: 1 - in */
QC_VECTOR(remember, (float *c, const float *in, const float *forget, const float *cell, int64_t n),
          (c, in, forget, cell, n))
{
    QC_IVDEP
    for (int64_t i = 0; i < n; i++) c[i] = c[i] * (forget ? forget[i] : 1 - in[i]) + in[i] * cell[i];
}

QC_VECTOR(multiply, (float *y, const float *a, const float *b, int64_t n), (y, a, b, n))
{
    QC_IVDEP
    for (int64_t i = 0; i < n; i++) y[i] = a[i] * b[i];
}

QC_VECTOR(linear, (float *z, const float *x, const float *bias, const float *reset, const float *late, int64_t n),
          (z, x, bias, reset, late, n))
{
    QC_IVDEP
    for (int64_t i = 0; i < n; i++) z[i] = (x[i] + bias[i]) + reset[i] * (z[i] + late[i]);
}

QC_VECTOR(mix, (float *h, const float *update, const float *now, int64_t n), (h, update, now, n))
{
    QC_IVDEP
    for (int64_t i = 0; i < n; i++) h[i] = (1 - update[i]) * now[i] + update[i] * h[i];
}

static void gate(const struct qc_cell *l, int function, float *z, int64_t n)
{
    const struct qc_unary *u = &l->function[function];
    if (l->clip < INFINITY) clamp(z, l->clip, n);
    u->fn(z, z, n, u->a, u->b);
}

void qc_cell_add(float *z, const float *x, const float *bias, int64_t n)
{
    sum(z, x, bias, n);
}

void qc_cell_lstm(const struct qc_cell *l, float *h, float *c, float *z, const float *peephole)
{
    const int64_t n = l->hidden;
    const struct qc_unary *last = &l->function[2];
    float *in = z, *out = z + n, *forget = z + 2 * n, *cell = z + 3 * n;
    if (peephole) {
        peep(in, peephole, c, n);
        peep(forget, peephole + 2 * n, c, n);
    }
    gate(l, 0, in, n);
    if (!l->input_forget) gate(l, 0, forget, n);
    gate(l, 1, cell, n);
    remember(c, in, l->input_forget ? NULL : forget, cell, n);
    if (peephole) peep(out, peephole + n, c, n);
    gate(l, 0, out, n);
    last->fn(h, c, n, last->a, last->b);
    multiply(h, h, out, n);
}

void qc_cell_rnn(const struct qc_cell *l, float *h, float *z)
{
    const struct qc_unary *u = &l->function[0];
    if (l->clip < INFINITY) clamp(z, l->clip, l->hidden);
    u->fn(h, z, l->hidden, u->a, u->b);
}

void qc_cell_gru_gates(const struct qc_cell *l, float *z)
{
    gate(l, 0, z, 2 * l->hidden);
}

void qc_cell_gru_reset(const struct qc_cell *l, float *out, const float *reset, const float *h)
{
    multiply(out, reset, h, l->hidden);
}

void qc_cell_gru_linear(const struct qc_cell *l, float *z, const float *x, const float *bias, const float *reset,
                        const float *recurrent_bias)
{
    linear(z, x, bias, reset, recurrent_bias, l->hidden);
}

void qc_cell_gru_finish(const struct qc_cell *l, float *h, float *z, const float *update)
{
    gate(l, 1, z, l->hidden);
    mix(h, update, z, l->hidden);
}
