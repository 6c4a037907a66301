// SPDX-License-Identifier: Apache-2.0
/* Conv, ConvTranspose, Gemm, MatMul against the sums that ONNX defines, written as loops. Small integers: exact. */
#include "simq/plan/plan_parts.h"
#include "tests/check.h"

static struct qc_status st;
static uint64_t state = 3;

static struct qc_tensor *tensor(const struct qc_shape *s)
{
    struct qc_tensor *t = qc_tensor_new(QC_F32, s, &st);
    for (size_t i = 0; i < t->count; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        ((float *)t->data)[i] = (float)((int64_t)((state >> 33) % 9) - 4);
    }
    return t;
}

struct spatial {
    const char *name;
    int rank; /* spatial */
    int64_t n, c, m, group, in[3], kernel[3], stride[3], dilation[3], begin[3], end[3], extra[3];
};

static const struct spatial cases[] = {
    FIELDS(.name = "plain", .rank = 2, .n = 2, .c = 3, .m = 5, .group = 1, .in = {7, 6}, .kernel = {3, 3},
           .begin = {1, 1}, .end = {1, 1}),
    FIELDS(.name = "one row", .rank = 1, .n = 1, .c = 4, .m = 8, .group = 1, .in = {17}, .kernel = {5}, .stride = {2},
           .begin = {2}, .end = {1}),
    FIELDS(.name = "volume", .rank = 3, .n = 1, .c = 2, .m = 3, .group = 1, .in = {4, 5, 6}, .kernel = {2, 3, 1},
           .begin = {1, 0, 0}, .end = {0, 1, 0}),
    {.name = "groups", .rank = 2, .n = 1, .c = 6, .m = 9, .group = 3, .in = {8, 8}, .kernel = {3, 2}, .stride = {1, 2}},
    FIELDS(.name = "depthwise", .rank = 2, .n = 2, .c = 16, .m = 16, .group = 16, .in = {9, 9}, .kernel = {3, 3},
           .stride = {2, 2}, .end = {1, 1}),
    FIELDS(.name = "depthwise times 2", .rank = 2, .n = 1, .c = 5, .m = 10, .group = 5, .in = {6, 6}, .kernel = {3, 3},
           .begin = {1, 1}, .end = {1, 1}),
    FIELDS(.name = "dilated", .rank = 2, .n = 1, .c = 3, .m = 4, .group = 1, .in = {12, 11}, .kernel = {3, 3},
           .dilation = {2, 3}, .begin = {2, 0}, .end = {1, 3}),
    {.name = "rest", .rank = 2, .n = 1, .c = 2, .m = 2, .group = 1, .in = {8, 9}, .kernel = {3, 3}, .stride = {3, 4}},
    FIELDS(.name = "one channel", .rank = 2, .n = 1, .c = 1, .m = 8, .group = 1, .in = {10, 8}, .kernel = {10, 4},
           .stride = {2, 2}, .begin = {4, 1}, .end = {5, 1}),
    {.name = "pointwise", .rank = 2, .n = 3, .c = 40, .m = 24, .group = 1, .in = {5, 5}, .kernel = {1, 1}},
    FIELDS(.name = "output padding", .rank = 2, .n = 1, .c = 4, .m = 6, .group = 2, .in = {5, 4}, .kernel = {3, 3},
           .stride = {2, 3}, .begin = {1, 0}, .end = {1, 1}, .extra = {1, 2}),
};

static int64_t or_one(int64_t v)
{
    return v ? v : 1;
}

/* y[n,m,o] += x[n,c,o*stride - begin + k*dilation] w; transposed: y[n,m,i*stride - begin + k*dilation] += x[n,c,i] w.
 */
static void naive(struct qc_tensor *y, const struct qc_tensor *x, const struct qc_tensor *w, const struct qc_tensor *b,
                  const struct spatial *s, bool transposed)
{
    const int64_t c_group = s->c / s->group, m_group = s->m / s->group;
    const struct qc_tensor *walked = transposed ? x : y;
    int64_t dim[3], other[3], k[3], from[3] = {0}, to = 1, at = 1, kernel = 1;
    for (int i = 0; i < 3; i++) {
        dim[i] = i < s->rank ? walked->shape.dim[2 + i] : 1;
        other[i] = i < s->rank ? (transposed ? y : x)->shape.dim[2 + i] : 1;
        k[i] = i < s->rank ? s->kernel[i] : 1;
        to *= dim[i];
        at *= other[i];
        kernel *= k[i];
    }
    float *py = y->data;
    const float *px = x->data, *pw = w->data;
    for (int64_t n = 0; n < s->n; n++)
        for (int64_t m = 0; m < s->m; m++)
            for (int64_t p = 0; b && p < (transposed ? at : to); p++)
                py[(n * s->m + m) * (transposed ? at : to) + p] = ((float *)b->data)[m];
    for (int64_t n = 0; n < s->n; n++)
        for (int64_t m = 0; m < s->m; m++)
            for (int64_t cc = 0; cc < c_group; cc++)
                for (int64_t p = 0; p < to; p++)
                    for (int64_t q = 0; q < kernel; q++) {
                        const int64_t c = m / m_group * c_group + cc,
                                      pi[] = {p / (dim[1] * dim[2]), p / dim[2] % dim[1], p % dim[2]};
                        const int64_t qi[] = {q / (k[1] * k[2]), q / k[2] % k[1], q % k[2]};
                        bool inside = true;
                        for (int i = 0; i < 3; i++) {
                            from[i] = pi[i] * or_one(s->stride[i]) - s->begin[i] + qi[i] * or_one(s->dilation[i]);
                            inside = inside && from[i] >= 0 && from[i] < other[i];
                        }
                        if (!inside) continue;
                        const int64_t f = (from[0] * other[1] + from[1]) * other[2] + from[2];
                        if (transposed)
                            py[(n * s->m + m) * at + f] +=
                                px[(n * s->c + c) * to + p] * pw[(c * m_group + m % m_group) * kernel + q];
                        else
                            py[(n * s->m + m) * to + p] +=
                                px[(n * s->c + c) * at + f] * pw[(m * c_group + cc) * kernel + q];
                    }
}

/* Constants or inputs for weights and bias, both through a plan. */
static void check(const struct spatial *s, bool transposed, bool constant)
{
    struct qc_shape xs = {.rank = s->rank + 2, .dim = {s->n, s->c}}, ws = {.rank = s->rank + 2}, bs = QC_SHAPE(s->m);
    int64_t pads[6], strides[3], dilations[3];
    ws.dim[0] = transposed ? s->c : s->m;
    ws.dim[1] = (transposed ? s->m : s->c) / s->group;
    for (int i = 0; i < s->rank; i++) {
        xs.dim[2 + i] = s->in[i];
        ws.dim[2 + i] = s->kernel[i];
        pads[i] = s->begin[i];
        pads[s->rank + i] = s->end[i];
        strides[i] = or_one(s->stride[i]);
        dilations[i] = or_one(s->dilation[i]);
    }
    struct qc_tensor *t[] = {tensor(&xs), tensor(&ws), tensor(&bs)};
    struct qc_graph *g = qc_graph_new(&st);
    const size_t k = (size_t)s->rank;
    const struct qc_attr attrs[] = {QC_INTS("pads", 2 * k, pads), QC_INTS("strides", k, strides),
                                    QC_INTS("dilations", k, dilations), QC_INT("group", s->group),
                                    QC_INTS("output_padding", k, s->extra)};
    qc_id in[3];
    for (int i = 0; i < 3; i++)
        in[i] = i && constant ? qc_graph_add_constant(g, NULL, t[i], &st)
                              : qc_graph_add_input(g, "in", QC_F32, &t[i]->shape, &st);
    const struct qc_node_def d = FIELDS(.op = transposed ? QC_OP_ConvTranspose : QC_OP_Conv, .input_count = 3,
                                        .inputs = in, .attr_count = transposed ? 5 : 4, .attrs = attrs);
    const qc_id y = qc_graph_add(g, &d, &st);
    cr_assert(y && qc_graph_add_output(g, "y", y, &st), "%s: %s", s->name, st.message);
    struct qc_tensor *want = qc_tensor_new(QC_F32, &qc_value(g, y)->type.shape, &st);
    naive(want, t[0], t[1], t[2], s, transposed);
    struct qc_plan *p;
    struct qc_runner *r;
    const struct qc_shape shapes[] = {xs, ws, bs};
    cr_assert(qc_plan_new(&p, g, shapes, NULL, &st) && qc_runner_new(&r, p, &st), "%s: %s", s->name, st.message);
    for (size_t i = 0; i < g->input_count; i++) memcpy(qc_runner_input(r, i).data, t[i]->data, t[i]->bytes);
    cr_assert(qc_runner_run(r, NULL, NULL, &st), "%s: %s", s->name, st.message);
    cr_assert_eq(memcmp(qc_runner_output(r, 0).data, want->data, want->bytes), 0, "%s%s, %s weights", s->name,
                 transposed ? ", transposed" : "", constant ? "constant" : "given");
    qc_runner_free(r);
    qc_plan_free(p);
    qc_graph_free(g);
    qc_tensor_unref(want);
    for (int i = 0; i < 3; i++) qc_tensor_unref(t[i]);
}

Test(mac, convolutions)
{
    for (size_t i = 0; i + 1 < sizeof cases / sizeof *cases; i++) {
        check(&cases[i], false, true);
        check(&cases[i], false, false);
    }
}

Test(mac, transposed_convolutions)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        check(&cases[i], true, true);
        check(&cases[i], true, false);
    }
}

struct product {
    struct qc_shape a, b, y;
};

/* numpy.matmul's shapes. */
static const struct product products[] = {
    {{2, {3, 4}}, {2, {4, 5}}, {2, {3, 5}}},
    {{1, {4}}, {2, {4, 5}}, {1, {5}}},
    {{2, {3, 4}}, {1, {4}}, {1, {3}}},
    {{1, {4}}, {1, {4}}, {0, {0}}},
    {{3, {2, 3, 4}}, {2, {4, 5}}, {3, {2, 3, 5}}},
    {{4, {2, 1, 3, 4}}, {3, {6, 4, 5}}, {4, {2, 6, 3, 5}}},
    {{4, {2, 3, 7, 33}}, {4, {2, 3, 33, 17}}, {4, {2, 3, 7, 17}}},
    {{1, {4}}, {3, {2, 4, 5}}, {2, {2, 5}}},
    {{3, {2, 3, 4}}, {1, {4}}, {2, {2, 3}}},
    {{2, {1, 300}}, {2, {300, 1}}, {2, {1, 1}}},
};

/* Element (i, j) of the matrix of batch `at` (indices of the result's batch dimensions, from the right). */
static float element(const struct qc_tensor *t, const struct qc_shape *batch, int64_t at, int64_t i, int64_t j,
                     bool left)
{
    const struct qc_shape *s = &t->shape;
    if (s->rank == 1) return ((float *)t->data)[left ? j : i];
    int64_t offset = 0, step = s->dim[s->rank - 2] * s->dim[s->rank - 1];
    for (int d = 0; d < batch->rank; d++) {
        const int own = s->rank - 3 - d, of = batch->rank - 1 - d;
        const int64_t index = at % batch->dim[of];
        at /= batch->dim[of];
        if (own < 0) continue;
        if (s->dim[own] != 1) offset += index * step;
        step *= s->dim[own];
    }
    return ((float *)t->data)[offset + i * s->dim[s->rank - 1] + j];
}

Test(mac, matrix_products)
{
    for (size_t c = 0; c < sizeof products / sizeof *products; c++) {
        const struct product *q = &products[c];
        for (int constant = 0; constant < 2; constant++) {
            OWN(qc_tensor) *a = tensor(&q->a), *b = tensor(&q->b);
            OWN(qc_graph) *g = qc_graph_new(&st);
            const qc_id in[] = {qc_graph_add_input(g, "a", QC_F32, &q->a, &st),
                                constant ? qc_graph_add_constant(g, "b", b, &st)
                                         : qc_graph_add_input(g, "b", QC_F32, &q->b, &st)};
            const struct qc_node_def d = {.op = QC_OP_MatMul, .input_count = 2, .inputs = in};
            const qc_id y = qc_graph_add(g, &d, &st);
            cr_assert(y && qc_graph_add_output(g, "y", y, &st), "%s", st.message);
            cr_assert(qc_shape_equal(&qc_value(g, y)->type.shape, &q->y), "case %zu", c);
            OWN(qc_plan) *p = NULL;
            OWN(qc_runner) *r = NULL;
            const struct qc_shape shapes[] = {q->a, q->b};
            cr_assert(qc_plan_new(&p, g, shapes, NULL, &st) && qc_runner_new(&r, p, &st), "case %zu: %s", c,
                      st.message);
            memcpy(qc_runner_input(r, 0).data, a->data, a->bytes);
            if (!constant) memcpy(qc_runner_input(r, 1).data, b->data, b->bytes);
            cr_assert(qc_runner_run(r, NULL, NULL, &st), "%s", st.message);
            const int64_t rows = q->a.rank > 1 ? q->a.dim[q->a.rank - 2] : 1,
                          columns = q->b.rank > 1 ? q->b.dim[q->b.rank - 1] : 1;
            const int64_t inner = q->a.dim[q->a.rank - 1];
            struct qc_shape batch = q->y;
            batch.rank -= (q->a.rank > 1) + (q->b.rank > 1);
            const float *got = qc_runner_output(r, 0).data;
            for (int64_t at = 0; at < (int64_t)qc_shape_elements(&batch); at++)
                for (int64_t i = 0; i < rows; i++)
                    for (int64_t j = 0; j < columns; j++) {
                        float sum = 0;
                        for (int64_t k = 0; k < inner; k++)
                            sum += element(a, &batch, at, i, k, true) * element(b, &batch, at, k, j, false);
                        cr_assert_eq(got[(at * rows + i) * columns + j], sum, "case %zu constant %d", c, constant);
                    }
        }
    }
}

/* alpha A' B' + beta C for every way to give C. */
Test(mac, gemm)
{
    static const struct qc_shape biases[] = {{-1, {0}},   {0, {0}},    {1, {6}}, {2, {1, 6}},
                                             {2, {5, 1}}, {2, {5, 6}}, {1, {1}}};
    static const float factors[][2] = {{1, 1}, {0.5f, 2}, {1, 0.25f}, {2, 1}};
    for (size_t c = 0; c < sizeof biases / sizeof *biases; c++)
        for (int how = 0; how < 16; how++) {
            const bool ta = how & 1, tb = how & 2;
            const float alpha = factors[how / 4][0], beta = factors[how / 4][1];
            const struct qc_shape as = ta ? QC_SHAPE(7, 5) : QC_SHAPE(5, 7), bs = tb ? QC_SHAPE(6, 7) : QC_SHAPE(7, 6);
            OWN(qc_tensor) *a = tensor(&as), *b = tensor(&bs), *bias = biases[c].rank >= 0 ? tensor(&biases[c]) : NULL;
            OWN(qc_graph) *g = qc_graph_new(&st);
            const qc_id in[] = {qc_graph_add_input(g, "a", QC_F32, &as, &st), qc_graph_add_constant(g, "b", b, &st),
                                bias ? qc_graph_add_constant(g, "c", bias, &st) : 0};
            const struct qc_attr attrs[] = {QC_INT("transA", ta), QC_INT("transB", tb), QC_FLOAT("alpha", alpha),
                                            QC_FLOAT("beta", beta)};
            const struct qc_node_def d = {
                .op = QC_OP_Gemm, .input_count = bias ? 3 : 2, .inputs = in, .attr_count = 4, .attrs = attrs};
            qc_id y = qc_graph_add(g, &d, &st);
            const struct qc_node_def relu = {.op = QC_OP_Relu, .input_count = 1, .inputs = &y};
            y = qc_graph_add(g, &relu, &st);
            cr_assert(y && qc_graph_add_output(g, "y", y, &st), "%s", st.message);
            OWN(qc_plan) *p = NULL;
            OWN(qc_runner) *r = NULL;
            cr_assert(qc_plan_new(&p, g, &as, NULL, &st) && qc_runner_new(&r, p, &st), "%s", st.message);
            memcpy(qc_runner_input(r, 0).data, a->data, a->bytes);
            cr_assert(qc_runner_run(r, NULL, NULL, &st), "%s", st.message);
            for (int64_t i = 0; i < 5; i++)
                for (int64_t j = 0; j < 6; j++) {
                    float sum = 0, add = 0;
                    for (int64_t k = 0; k < 7; k++)
                        sum += ((float *)a->data)[ta ? k * 5 + i : i * 7 + k] *
                               ((float *)b->data)[tb ? j * 7 + k : k * 6 + j];
                    if (bias) {
                        const struct qc_shape *s = &bias->shape;
                        const int64_t row = s->rank == 2 && s->dim[0] > 1 ? i : 0,
                                      wide = s->rank ? s->dim[s->rank - 1] : 1;
                        add = ((float *)bias->data)[row * wide + (wide > 1 ? j : 0)];
                    }
                    const float want = fmaxf(0, alpha * sum + beta * add);
                    cr_assert_eq(((float *)qc_runner_output(r, 0).data)[i * 6 + j], want, "bias %zu how %d", c, how);
                }
        }
}
