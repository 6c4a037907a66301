// SPDX-License-Identifier: Apache-2.0
/* The functions of QC_UNARY rows and Gelu against libm in double, on dense grids. */
#include "simq/kernels/real/unary.h"
#include "tests/check.h"

/* |got - want| in units of the last place of want. */
static double ulps(float got, double want)
{
    const float w = (float)want;
    if (isnan(want)) return isnan(got) ? 0 : HUGE_VAL;
    if (isinf(w) || isinf(got)) return got == w ? 0 : HUGE_VAL;
    const double unit = fabs(want) < 0x1p-126 ? 0x1p-149 : ldexp(1, ilogb(want) - 23);
    return fabs((double)got - want) / unit;
}

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double softplus(double x)
{
    return fmax(x, 0) + log1p(exp(-fabs(x)));
}

Test(vector_math, is_as_precise_as_float32_allows)
{
    enum { N = 200000 };
    static const struct {
        enum qc_op op;
        double (*exact)(double);
        double lo, hi, most; /* units in the last place */
    } cases[] = {
        {QC_OP_Exp, exp, -87, 88.7, 1.5},       {QC_OP_Exp, exp, -106, -86, 1.5},  {QC_OP_Exp, exp, -1, 1, 1.5},
        {QC_OP_Tanh, tanh, -10, 10, 5},         {QC_OP_Tanh, tanh, -0.7, 0.7, 4},  {QC_OP_Erf, erf, -5, 5, 2},
        {QC_OP_Erf, erf, -1.2, 1.2, 2},         {QC_OP_Log, log, 1e-6, 10, 1.5},   {QC_OP_Log, log, 0.5, 2, 1.5},
        {QC_OP_Log, log, 0, 1e-37, 1.5},        {QC_OP_Elu, expm1, -20, -1e-3, 3}, {QC_OP_Elu, expm1, -1e-3, -1e-9, 3},
        {QC_OP_Softplus, softplus, -20, 20, 3},
    };
    QC_FREED float *x = malloc(N * sizeof *x), *y = malloc(N * sizeof *y);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const struct qc_node n = {.op = cases[k].op};
        struct qc_unary u;
        MUST(qc_unary_of(&u, &n, ST));
        for (int i = 0; i < N; i++) x[i] = (float)(cases[k].lo + (cases[k].hi - cases[k].lo) * i / (N - 1));
        u.fn(y, x, N, u.a, u.b);
        double worst = 0;
        int at = 0;
        for (int i = 0; i < N; i++) {
            const double e = ulps(y[i], cases[k].exact((double)x[i]));
            if (e > worst) {
                worst = e;
                at = i;
            }
        }
        cr_expect(worst <= cases[k].most, "%s: %.2f units in the last place at %.9g", qc_op_info(cases[k].op)->name,
                  worst, (double)x[at]);
    }
}

Test(vector_math, keeps_infinities_and_nan)
{
    static const struct {
        enum qc_op op;
        double (*exact)(double);
    } cases[] = {{QC_OP_Exp, exp}, {QC_OP_Tanh, tanh}, {QC_OP_Erf, erf}, {QC_OP_Log, log}, {QC_OP_Sigmoid, sigmoid}};
    static const float special[] = {INFINITY, -INFINITY, NAN, 0, -1, 1e38f, -1e38f, 1e-40f, 89, -104, 200, -200};
    enum { N = sizeof special / sizeof *special };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const struct qc_node n = {.op = cases[k].op};
        struct qc_unary u;
        float y[N];
        MUST(qc_unary_of(&u, &n, ST));
        u.fn(y, special, N, u.a, u.b);
        for (int i = 0; i < N; i++) {
            const double want = cases[k].exact((double)special[i]);
            /* Sigmoid's and Tanh's fractions are of a fixed number of digits near 0. */
            const bool near = ulps(y[i], want) <= 3 || (fabs((double)y[i] - want) <= 1e-7 &&
                                                        (cases[k].op == QC_OP_Sigmoid || cases[k].op == QC_OP_Tanh));
            cr_expect(near, "%s(%g) is %g, expected %g", qc_op_info(cases[k].op)->name, (double)special[i],
                      (double)y[i], want);
        }
    }
}

/* ONNX Runtime's results, 1.16.3 and 1.31.1 alike, on x86-64. Those of the C library differ in 4 and 7 of them. */
Test(vector_math, sigmoid_and_tanh_are_those_of_onnxruntime)
{
    enum { N = 12 };
    static const float x[N] = {-200,  -17.423687f, -8.209091f, -2.5f, -0.6957251f, -0.01f,
                               0.01f, 0.6957251f,  1.25f,      3.3f,  7.7f,        20};
    static const struct {
        enum qc_op op;
        float y[N];
    } cases[] = {
        {QC_OP_Sigmoid,
         {0, 0x1.4p-23f, 0x1.1d50p-12f, 0x1.36b71p-4f, 0x1.54bf3ap-2f, 0x1.fd70a6p-2f, 0x1.0147aep-1f, 0x1.55a064p-1f,
          0x1.8dfa4p-1f, 0x1.edc99ep-1f, 0x1.ffc4acp-1f, 1}},
        {QC_OP_Tanh,
         {-1, -1, -0x1.000002p+0f, -0x1.f92584p-1f, -0x1.340b2p-1f, -0x1.47ab46p-7f, 0x1.47ab46p-7f, 0x1.340b2p-1f,
          0x1.b2523cp-1f, 0x1.fe9bdep-1f, 0x1.fffff2p-1f, 1}},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const struct qc_node n = {.op = cases[k].op};
        struct qc_unary u;
        float y[N];
        MUST(qc_unary_of(&u, &n, ST));
        u.fn(y, x, N, u.a, u.b);
        for (int i = 0; i < N; i++)
            cr_expect(y[i] == cases[k].y[i], "%s(%a) is %a, expected %a", qc_op_info(n.op)->name, (double)x[i],
                      (double)y[i], (double)cases[k].y[i]);
    }
}

/* Far from 0 a fraction of fixed digits is precise in itself, not in units of a small result. */
Test(vector_math, sigmoid_is_within_2e7_everywhere)
{
    const struct qc_node n = {.op = QC_OP_Sigmoid};
    struct qc_unary u;
    MUST(qc_unary_of(&u, &n, ST));
    for (float x = -100; x < 40; x += 0.0123f) {
        float y;
        u.fn(&y, &x, 1, u.a, u.b);
        cr_expect(fabs((double)y - sigmoid((double)x)) <= 2e-7 && y >= 0 && y <= 1, "%g: %g", (double)x, (double)y);
    }
}

/* Same bits whatever the length, so whether an element falls into a vector or into the rest. */
Test(vector_math, does_not_depend_on_the_place_in_an_array)
{
    enum { N = 67 };
    float x[N], all[N], one;
    for (int i = 0; i < N; i++) x[i] = 0.37f * (float)(i - N / 2);
    for (enum qc_op op = QC_OP_INVALID + 1; op < QC_OP_COUNT; op++) {
        const struct qc_node n = {.op = op};
        struct qc_unary u;
        if (!qc_unary_of(&u, &n, ST)) continue;
        u.fn(all, x, N, u.a, u.b);
        for (int i = 0; i < N; i++) {
            u.fn(&one, &x[i], 1, u.a, u.b);
            cr_expect(one == all[i] || (isnan(one) && isnan(all[i])), "%s(%g)", qc_op_info(op)->name, (double)x[i]);
        }
    }
}
