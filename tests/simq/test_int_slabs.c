// SPDX-License-Identifier: Apache-2.0
/* Integer convolutions whose data exceeds the second-level cache, computed some lines at a time: sums against loops,
   with all instructions. */
#include "random_graph.h"
#include "simq/plan/plan.h"
#include "tests/check.h"

struct layer {
    const char *name;
    bool transposed;
    int64_t in, out, groups; /* channels */
    int64_t height, width, kernel, stride, dilation, pad;
};

static const struct layer layers[] = {
    {"padded", false, 64, 20, 1, 70, 70, 3, 1, 1, 1},
    {"pointwise, two panels", false, 64, 50, 1, 70, 70, 1, 1, 1, 0},
    {"stride", false, 64, 17, 1, 141, 70, 3, 2, 1, 1},
    {"groups, dilation", false, 64, 36, 2, 70, 70, 3, 1, 2, 2},
    {"narrow lines", false, 64, 16, 1, 1100, 4, 3, 1, 1, 1},
    {"transposed", true, 64, 18, 1, 41, 37, 3, 2, 1, 1},
};

static int64_t out_size(const struct layer *l, int64_t in)
{
    const int64_t reach = (l->kernel - 1) * l->dilation + 1;
    return l->transposed ? (in - 1) * l->stride + reach - 2 * l->pad : (in + 2 * l->pad - reach) / l->stride + 1;
}

/* Adds up, for each datum and weight, what it gives to the result. */
static void expected(int32_t *y, const struct layer *l, const int32_t *x, const float *w)
{
    const int64_t in = l->in / l->groups, out = l->out / l->groups, k = l->kernel, high = out_size(l, l->height),
                  wide = out_size(l, l->width), tall = l->transposed ? l->height : high,
                  broad = l->transposed ? l->width : wide;
    for (int64_t m = 0; m < l->out; m++)
        for (int64_t c = 0; c < in; c++)
            for (int64_t t = 0; t < k * k; t++) {
                const int64_t channel = m / out * in + c;
                const int32_t weight =
                    (int32_t)(l->transposed ? w[(channel * out + m % out) * k * k + t] : w[(m * in + c) * k * k + t]);
                for (int64_t i = 0; i < tall; i++)
                    for (int64_t j = 0; j < broad; j++) {
                        const int64_t a = i * l->stride - l->pad + t / k * l->dilation,
                                      b = j * l->stride - l->pad + t % k * l->dilation;
                        if (a < 0 || b < 0 || a >= (l->transposed ? high : l->height) ||
                            b >= (l->transposed ? wide : l->width))
                            continue;
                        const int64_t from = l->transposed ? i * l->width + j : a * l->width + b,
                                      to = l->transposed ? a * wide + b : i * wide + j;
                        y[m * high * wide + to] += weight * x[channel * l->height * l->width + from];
                    }
            }
}

static qc_id add(struct qc_graph *g, struct qc_node_def d, struct qc_status *st)
{
    const qc_id v = qc_graph_add(g, &d, st);
    cr_assert(v, "%s", st->message);
    return v;
}

static void check(const struct layer *l, enum qc_dtype type, int32_t zero, enum qc_isa isa, const int32_t *x,
                  const struct qc_tensor *w, const int32_t *y)
{
    struct qc_status st = QC_STATUS_INIT;
    OWN(qc_graph) *g = qc_graph_new(&st);
    OWN(qc_plan) *plan = NULL;
    OWN(qc_runner) *r = NULL;
    const struct qc_shape shape = qc_shape_of(4, (const int64_t[]){1, l->in, l->height, l->width});
    const struct qc_plan_options options = {.isa = isa};
    const struct qc_qparams of_data = {.name = "x", .dtype = type},
                            of_weights = {.name = "w", .dtype = QC_I8, .is_weight = true};
    const qc_id xs = qc_graph_add_quantizer(g, &of_data, &st), ws = qc_graph_add_quantizer(g, &of_weights, &st);
    cr_assert(xs && ws && qc_graph_bind_quantizer(g, xs, 1, (const float[]){1}, &zero, &st) &&
              qc_graph_bind_quantizer(g, ws, 1, (const float[]){1}, (const int32_t[]){0}, &st));
    const qc_id real = qc_graph_add_input(g, "data", QC_F32, &shape, &st),
                constant = qc_graph_add_constant(g, "weights", w, &st);
    const struct qc_attr attrs[] = {QC_INTS("strides", 2, ((const int64_t[]){l->stride, l->stride})),
                                    QC_INTS("dilations", 2, ((const int64_t[]){l->dilation, l->dilation})),
                                    QC_INTS("pads", 4, ((const int64_t[]){l->pad, l->pad, l->pad, l->pad})),
                                    QC_INT("group", l->groups)};
    const qc_id in[] = {
        add(g, (struct qc_node_def){.op = QC_OP_Quantize, .input_count = 1, .inputs = &real, .qparams = xs}, &st),
        add(g, (struct qc_node_def){.op = QC_OP_Quantize, .input_count = 1, .inputs = &constant, .qparams = ws}, &st)};
    const qc_id out =
        add(g,
            (struct qc_node_def)FIELDS(.op = l->transposed ? QC_OP_ConvTranspose : QC_OP_Conv, .input_count = 2,
                                       .inputs = in, .qparams = qc_graph_add_product(g, xs, ws, &st),
                                       .attr_count = sizeof attrs / sizeof *attrs, .attrs = attrs),
            &st);
    cr_assert(qc_graph_add_output(g, "y", out, &st) && qc_plan_new(&plan, g, &shape, &options, &st) &&
                  qc_runner_new(&r, plan, &st),
              "%s: %s", l->name, st.message);
    const struct qc_view v = qc_runner_input(r, 0);
    for (int64_t i = 0; i < l->in * l->height * l->width; i++) ((float *)v.data)[i] = (float)x[i];
    cr_assert(qc_runner_run(r, NULL, NULL, &st), "%s", st.message);
    const struct qc_view got = qc_runner_output(r, 0);
    cr_assert(got.dtype == QC_I32 && qc_view_row_major(&got));
    size_t wrong = 0;
    for (size_t i = 0; i < qc_view_count(&got); i++) wrong += ((const int32_t *)got.data)[i] != y[i];
    cr_expect_eq(wrong, 0, "%s, %s, %s: %zu of %zu sums are wrong", l->name, qc_dtype_info(type)->name,
                 qc_isa_name(isa), wrong, qc_view_count(&got));
}

static void check_all(const struct layer *l, enum qc_dtype type, int32_t zero)
{
    const size_t data = (size_t)(l->in * l->height * l->width),
                 results = (size_t)(l->out * out_size(l, l->height) * out_size(l, l->width));
    const int64_t first = l->transposed ? l->in : l->out, second = (l->transposed ? l->out : l->in) / l->groups;
    const struct qc_dtype_info *info = qc_dtype_info(type);
    const struct qc_shape shape = qc_shape_of(4, (const int64_t[]){first, second, l->kernel, l->kernel});
    struct random_source random = {7};
    OWN(qc_tensor) *w = qc_tensor_new(QC_F32, &shape, ST);
    QC_FREED int32_t *x = malloc(data * sizeof *x), *y = calloc(results, sizeof *y);
    for (size_t i = 0; i < data; i++) x[i] = (int32_t)random_int(&random, info->lo, info->hi) - zero;
    for (size_t i = 0; i < w->count; i++) ((float *)w->data)[i] = (float)random_int(&random, -128, 127);
    expected(y, l, x, w->data);
    for (enum qc_isa isa = QC_ISA_PLAIN; isa < QC_ISA_COUNT; isa++)
        if (qc_isa_detect(isa) == isa) check(l, type, zero, isa, x, w, y);
}

Test(integer, lines_that_are_computed_together_give_the_sums_of_all)
{
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        if (i % test_one_of(1, 4) == 0) check_all(&layers[i], QC_U8, 0);
        if ((i + 1) % test_one_of(1, 4) == 0) check_all(&layers[i], QC_I8, -9);
    }
}
