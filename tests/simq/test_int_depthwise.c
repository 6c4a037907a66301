// SPDX-License-Identifier: Apache-2.0
/* Depthwise and dense convolutions against sums in int64, as accumulators and requantized to bytes: channels that fill
   vectors and such that do not, lines that are done two at a time and the last one that is not, with all instructions,
   in integers and in the simulation. */
#include "random_graph.h"
#include "simq/plan/plan.h"
#include "tests/check.h"

struct convolution {
    int64_t channels, outputs /* of a group */, kernel[2], stride[2], dilation[2], pad[4], size[2];
    bool depthwise;
    enum qc_dtype data;
    int32_t zero;
};

static const struct convolution cases[] = {
    {24, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, {9, 17}, true, QC_U8, 7},
    {24, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, {8, 16}, true, QC_I8, -3},
    {3, 1, {3, 3}, {1, 1}, {1, 1}, {0, 0, 0, 0}, {7, 7}, true, QC_U8, 0},
    {40, 1, {3, 3}, {1, 1}, {1, 1}, {1, 0, 0, 1}, {5, 5}, true, QC_U8, 255},
    {48, 1, {3, 3}, {2, 2}, {1, 1}, {0, 0, 1, 1}, {10, 10}, true, QC_U8, 128},
    {64, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, {3, 3}, true, QC_U8, 1},
    {70, 1, {3, 3}, {1, 2}, {1, 1}, {1, 1, 1, 1}, {6, 9}, true, QC_U8, 9},
    {96, 1, {3, 3}, {2, 1}, {1, 1}, {1, 1, 1, 1}, {7, 5}, true, QC_I8, 100},
    {16, 1, {3, 3}, {1, 1}, {2, 1}, {2, 1, 2, 1}, {6, 11}, true, QC_U8, 20},
    {16, 1, {3, 2}, {1, 1}, {1, 2}, {1, 0, 1, 0}, {6, 11}, true, QC_U8, 20},
    {24, 1, {3, 5}, {1, 1}, {1, 1}, {1, 2, 1, 2}, {4, 13}, true, QC_U8, 20},
    {24, 1, {1, 3}, {1, 1}, {1, 1}, {0, 1, 0, 1}, {4, 13}, true, QC_U8, 20},
    {24, 1, {3, 1}, {1, 1}, {1, 1}, {1, 0, 1, 0}, {1, 13}, true, QC_U8, 20},
    {24, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, {5, 3}, true, QC_U8, 20},
    {33, 1, {3, 3}, {2, 2}, {1, 1}, {1, 1, 1, 1}, {9, 12}, true, QC_I8, -5},
    {96, 1, {3, 3}, {2, 2}, {1, 1}, {0, 0, 0, 0}, {7, 8}, true, QC_U8, 3},
    {128, 1, {3, 3}, {1, 1}, {1, 1}, {0, 0, 0, 0}, {6, 3}, true, QC_U8, 17},
    {130, 1, {3, 3}, {1, 1}, {1, 1}, {1, 2, 1, 0}, {4, 5}, true, QC_U8, 201},
    {12, 32, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, {5, 7}, false, QC_U8, 77},
    {12, 32, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, {5, 7}, false, QC_I8, -77},
    {12, 17, {1, 1}, {2, 2}, {1, 1}, {0, 0, 0, 0}, {5, 7}, false, QC_U8, 255},
    {12, 16, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, {5, 7}, false, QC_I8, 127},
    /* Tiles of 16 rows: lines done as one with gaps and without, few rows, runs that do not fill registers. */
    {64, 40, {3, 3}, {1, 1}, {1, 1}, {1, 1, 1, 1}, {8, 8}, false, QC_U8, 77},
    {64, 16, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 3}, false, QC_U8, 255},
    {64, 16, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, {10, 13}, false, QC_I8, -128},
    {48, 33, {3, 3}, {2, 2}, {1, 1}, {1, 1, 0, 1}, {15, 15}, false, QC_U8, 1},
    {36, 70, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, {5, 7}, false, QC_U8, 0},
    {24, 17, {3, 3}, {1, 1}, {2, 2}, {2, 2, 2, 2}, {5, 20}, false, QC_U8, 9},
    {100, 64, {1, 1}, {1, 1}, {1, 1}, {0, 0, 0, 0}, {7, 7}, false, QC_I8, 3},
    {40, 20, {2, 2}, {3, 1}, {1, 1}, {0, 1, 1, 0}, {9, 6}, false, QC_U8, 200},
};

static qc_id add(struct qc_graph *g, struct qc_node_def d, struct qc_status *st)
{
    const qc_id v = qc_graph_add(g, &d, st);
    cr_assert(v, "%s", st->message);
    return v;
}

/* Sum at one output; x [channels][size] and w [outputs of all groups][inputs of a group][kernel], both centred. */
static int64_t sum_at(const struct convolution *c, const int32_t *x, const int32_t *w, int64_t out, int64_t row,
                      int64_t column)
{
    const int64_t inputs = c->depthwise ? 1 : c->channels, first = c->depthwise ? out : 0;
    int64_t sum = 0;
    for (int64_t i = 0; i < inputs; i++)
        for (int64_t k = 0; k < c->kernel[0]; k++)
            for (int64_t l = 0; l < c->kernel[1]; l++) {
                const int64_t r = row * c->stride[0] + k * c->dilation[0] - c->pad[0],
                              s = column * c->stride[1] + l * c->dilation[1] - c->pad[1];
                if (r < 0 || s < 0 || r >= c->size[0] || s >= c->size[1]) continue;
                sum += (int64_t)x[((first + i) * c->size[0] + r) * c->size[1] + s] *
                       w[((out * inputs + i) * c->kernel[0] + k) * c->kernel[1] + l];
            }
    return sum;
}

/* What a result is in: the accumulator, or bytes with factors below 1 and above. */
struct form {
    bool bytes;
    enum qc_dtype to;
    float scale;
    int32_t zero;
};

static const struct form forms[] = {{.bytes = false},
                                    {true, QC_U8, 700, 100},
                                    {true, QC_I8, 900, -7},
                                    {true, QC_U8, 0.25f, 255}};

static int64_t expected(const struct form *f, int64_t sum)
{
    if (!f->bytes) return sum;
    const struct qc_dtype_info *info = qc_dtype_info(f->to);
    const float lo = (float)(info->lo - f->zero), hi = (float)(info->hi - f->zero), v = (float)sum * (1 / f->scale);
    return (int64_t)nearbyintf(fminf(fmaxf(v, lo), hi));
}

/* Element of a result, less its zero point. */
static int64_t result_at(const struct qc_view *v, int64_t at, const struct form *f)
{
    if (v->dtype == QC_F32) return (int64_t)((const float *)v->data)[at] - f->zero;
    if (v->dtype == QC_I32) return ((const int32_t *)v->data)[at];
    if (v->dtype == QC_U8) return ((const uint8_t *)v->data)[at] - f->zero;
    return ((const int8_t *)v->data)[at] - f->zero;
}

static void check(size_t which, const struct form *form, bool simulated, enum qc_isa isa)
{
    const struct convolution *c = &cases[which];
    const struct qc_dtype_info *info = qc_dtype_info(c->data);
    const int64_t groups = c->depthwise ? c->channels : 1, outputs = groups * c->outputs;
    struct random_source random = {which};
    struct qc_status st = QC_STATUS_INIT;
    OWN(qc_graph) *g = qc_graph_new(&st);
    const struct qc_shape shape = qc_shape_of(4, (const int64_t[]){1, c->channels, c->size[0], c->size[1]}),
                          kernel = qc_shape_of(4, (const int64_t[]){outputs, c->channels / groups, c->kernel[0],
                                                                    c->kernel[1]});
    OWN(qc_tensor) *weights = qc_tensor_new(QC_F32, &kernel, &st);
    QC_FREED int32_t *x = calloc((size_t)(c->channels * c->size[0] * c->size[1]), sizeof *x),
                     *w = calloc(weights->count, sizeof *w);
    g->simulated = simulated;
    for (size_t i = 0; i < weights->count; i++)
        ((float *)weights->data)[i] = (float)(w[i] = (int32_t)random_int(&random, -127, 127));
    const qc_id xs = test_quantizer(g, "x", c->data, false, 1, c->zero), ws = test_quantizer(g, "w", QC_I8, true, 1, 0);
    const qc_id real = qc_graph_add_input(g, "data", QC_F32, &shape, &st),
                constant = qc_graph_add_constant(g, "weights", weights, &st);
    const struct qc_attr attrs[] = {QC_INTS("kernel_shape", 2, c->kernel), QC_INTS("strides", 2, c->stride),
                                    QC_INTS("dilations", 2, c->dilation), QC_INTS("pads", 4, c->pad),
                                    QC_INT("group", groups)};
    const qc_id in[2] = {
        add(g, (struct qc_node_def){.op = QC_OP_Quantize, .input_count = 1, .inputs = &real, .qparams = xs}, &st),
        add(g, (struct qc_node_def){.op = QC_OP_Quantize, .input_count = 1, .inputs = &constant, .qparams = ws}, &st)};
    qc_id y = add(g,
                  (struct qc_node_def)FIELDS(.op = QC_OP_Conv, .input_count = 2, .inputs = in, .attr_count = 5,
                                             .attrs = attrs, .qparams = qc_graph_add_product(g, xs, ws, &st)),
                  &st);
    if (form->bytes) {
        const struct qc_qparams def = {.name = "y", .dtype = form->to};
        const qc_id ys = qc_graph_add_quantizer(g, &def, &st), sums = y;
        cr_assert(ys && qc_graph_bind_quantizer(g, ys, 1, &form->scale, &form->zero, &st), "%s", st.message);
        y = add(g, (struct qc_node_def){.op = QC_OP_Requantize, .input_count = 1, .inputs = &sums, .qparams = ys}, &st);
    }
    OWN(qc_plan) *plan = NULL;
    OWN(qc_runner) *r = NULL;
    cr_assert(qc_graph_add_output(g, "y", y, &st) &&
                  qc_plan_new(&plan, g, &shape, &(struct qc_plan_options){.isa = isa}, &st) &&
                  qc_runner_new(&r, plan, &st),
              "case %zu: %s", which, st.message);
    const struct qc_view v = qc_runner_input(r, 0);
    for (size_t i = 0; i < qc_view_count(&v); i++)
        ((float *)v.data)[i] = (float)(x[i] = (int32_t)random_int(&random, info->lo, info->hi) - c->zero);
    cr_assert(qc_runner_run(r, NULL, NULL, &st), "%s", st.message);
    const struct qc_view out = qc_runner_output(r, 0);
    size_t at = 0, wrong = 0;
    for (int64_t o = 0; o < outputs; o++)
        for (int64_t i = 0; i < out.dim[2]; i++)
            for (int64_t k = 0; k < out.dim[3]; k++, at++) {
                const int64_t got = result_at(&out, o * out.stride[1] + i * out.stride[2] + k * out.stride[3], form);
                wrong += got != expected(form, sum_at(c, x, w, o, i, k));
            }
    cr_expect_eq(at, qc_view_count(&out));
    cr_expect_eq(wrong, 0, "case %zu, %s, %s, %s: %zu of %zu", which,
                 form->bytes ? qc_dtype_info(form->to)->name : "sums", simulated ? "simulated" : "produced",
                 qc_isa_name(isa), wrong, at);
}

Test(int_depthwise, sums_and_bytes_are_exact)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int isa = QC_ISA_BEST; isa < QC_ISA_COUNT; isa++) {
            for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
                if ((i + (size_t)isa + f) % test_one_of(1, 3)) continue;
                check(i, &forms[f], false, (enum qc_isa)isa);
                check(i, &forms[f], true, (enum qc_isa)isa);
            }
        }
}
