// SPDX-License-Identifier: Apache-2.0
/* Moments of recurrent layers against sums computed one by one. */
#include "calib/moments/second_moments.h"
#include "tests/check.h"

enum { STEPS = 6, BATCH = 2, INPUT = 3, MOST = 40 };

static const struct {
    const char *what;
    int64_t ways, hidden, layout;
} cases[] = {
    {"one direction", 1, 5, 0},
    {"both, small enough to stand side by side", 2, 3, 0},
    {"both, one after the other", 2, MOST, 0},
    {"batch first", 1, 4, 1},
    {"both, batch first", 2, 4, 1},
};

static float number(size_t i)
{
    return (float)((int)(i * 2654435761U >> 16 & 255) - 128) / 128; /* 8 bits: exact in the moments */
}

static qc_id constant(struct qc_graph *g, const char *name, const struct qc_shape *shape)
{
    OWN(qc_tensor) *t = qc_tensor_new(QC_F32, shape, ST);
    for (size_t i = 0; i < t->count; i++) ((float *)t->data)[i] = number(i);
    const qc_id v = qc_graph_add_constant(g, name, t, ST);
    return v;
}

/* x [steps, batch, input] -> GRU -> y */
static struct qc_graph *graph_of(int64_t ways, int64_t hidden, int64_t layout)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_graph *g = qc_graph_new(&st);
    const struct qc_shape x = layout ? QC_SHAPE(BATCH, STEPS, INPUT) : QC_SHAPE(STEPS, BATCH, INPUT),
                          w = QC_SHAPE(ways, 3 * hidden, INPUT), r = QC_SHAPE(ways, 3 * hidden, hidden);
    const qc_id inputs[] = {qc_graph_add_input(g, "x", QC_F32, &x, &st), constant(g, "w", &w), constant(g, "r", &r)};
    const struct qc_attr attrs[] = {FIELDS(.name = "direction", .kind = QC_ATTR_STRING,
                                           .s = ways == 2 ? "bidirectional" : "reverse"),
                                    QC_INT("layout", layout)};
    const char *name = "y";
    const struct qc_node_def def = {
        .op = QC_OP_GRU, .input_count = 3, .inputs = inputs, .attr_count = 2, .attrs = attrs, .output_names = &name};
    const qc_id y = qc_graph_add(g, &def, &st);
    cr_assert(y && qc_graph_add_output(g, "y", y, &st), "%s", st.message);
    return g;
}

/* Element of y, [steps, ways, batch, hidden] or batch first. */
static size_t at(size_t k, size_t t, size_t b, size_t d, size_t i)
{
    const size_t ways = (size_t)cases[k].ways, hidden = (size_t)cases[k].hidden;
    return cases[k].layout ? ((b * STEPS + t) * ways + d) * hidden + i : ((t * ways + d) * BATCH + b) * hidden + i;
}

static void expect_states(size_t k, const struct qc_second_moments_layer *l, const float *y)
{
    double h[MOST * MOST], mean[MOST];
    const size_t n = (size_t)cases[k].hidden;
    cr_assert(l->groups == (size_t)cases[k].ways && l->columns == n, "%s", cases[k].what);
    for (size_t d = 0; d < l->groups; d++) {
        qc_second_moments_read(h, mean, l, 3, d, 0);
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++) {
                double sum = 0;
                for (size_t t = 0; t < STEPS; t++)
                    for (size_t b = 0; b < BATCH; b++)
                        sum += (double)y[at(k, t, b, d, i)] * (double)y[at(k, t, b, d, j)];
                cr_assert_float_eq(h[i * n + j], sum / (STEPS * BATCH), 1e-9, "%s: direction %zu, %zu, %zu",
                                   cases[k].what, d, i, j);
            }
    }
}

Test(moments_recurrent, of_inputs_and_of_the_states_of_each_direction)
{
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        OWN(qc_graph) *g = graph_of(cases[k].ways, cases[k].hidden, cases[k].layout);
        OWN(qc_second_moments) *m = NULL;
        MUST(qc_second_moments_new(&m, g, QC_MOMENTS_ALL, 0, ST) && qc_second_moments_begin(m, 1, ST));
        const struct qc_second_moments_layer *w = qc_second_moments_of_recurrent(m, 1, QC_MOMENTS_INPUT),
                                             *r = qc_second_moments_of_recurrent(m, 1, QC_MOMENTS_STATE);
        cr_assert(w && r && qc_second_moments_count(m) == 2, "%s", cases[k].what);
        HOLD(w->value == g->inputs[0].value, w->groups == 1 && w->columns == INPUT && w->outputs == r->outputs);
        struct qc_view v = qc_view_of(QC_F32, &g->values[r->value].type.shape, QC_LAYOUT_ROW, NULL);
        const size_t n = (size_t)(STEPS * BATCH * cases[k].ways * cases[k].hidden);
        QC_FREED float *y = malloc(n * sizeof *y);
        for (size_t i = 0; i < n; i++) y[i] = number(i);
        v.data = y;
        MUST(qc_second_moments_observe(m, 0, 1, r->value, QC_MOMENTS_NO_PEAK, &v, ST) && qc_second_moments_end(m, ST));
        expect_states(k, r, y);
    }
}
