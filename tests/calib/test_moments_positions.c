// SPDX-License-Identifier: Apache-2.0
/* The number of positions of a sample that second moments use, and the values read there. */
#include "calib/moments/moments_parts.h"
#include "calib_case.h"

Test(moments_positions, large_samples_show_more_positions)
{
    const struct qc_second_moments_layer l = {.columns = 64, .outputs = 64, .groups = 1};
    const size_t sizes[][2] = {{49, 49}, {196, 128}, {784, 196}, {3136, 256}, {12544, 256}, {25600, 400}, {50176, 512}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        cr_expect_eq(qc_second_moments_positions(&l, sizes[i][0]), sizes[i][1], "%zu", sizes[i][0]);
}

enum { CHANNELS = 6, SIDE = 5, TAPS = 6, WIDE = CHANNELS * TAPS };

static void moments_of(double *h, double *mean, const struct qc_graph *g, const struct qc_view *x)
{
    OWN(qc_second_moments) *m = NULL;
    MUST(qc_second_moments_new(&m, g, QC_MOMENTS_ALL, 0, ST) && qc_second_moments_begin(m, 1, ST));
    const struct qc_second_moments_layer *l = qc_second_moments_at(m, 0);
    MUST(qc_second_moments_observe(m, 0, 1, l->value, QC_MOMENTS_NO_PEAK, x, ST) && qc_second_moments_end(m, ST));
    for (size_t i = 0; i < l->groups; i++) {
        qc_second_moments_read(h, mean, l, 3, i, 0);
        h += l->columns * l->columns;
        mean += l->columns;
    }
}

/* Lines of taps are read at once where channels lie side by side, else each tap for itself. */
Test(moments_positions, nothing_depends_on_the_order_in_memory)
{
    static const struct {
        const char *attributes;
        size_t each; /* channels of a group */
    } cases[] = {{"pads=[1,2,0,1]", 6},
                 {"pads=[0,4,0,4], strides=[2,1]", 6},
                 {"pads=[1,1,1,1], strides=[1,2]", 6},
                 {"dilations=[1,2], pads=[1,2,1,2]", 6},
                 {"pads=[1,1,1,1], group=6", 1},
                 {"pads=[1,1,1,1], group=3", 2}};
    float x[CHANNELS * SIDE * SIDE], last[CHANNELS * SIDE * SIDE];
    const struct qc_shape shape = qc_shape_of(4, (int64_t[]){1, CHANNELS, SIDE, SIDE});
    const struct qc_view row = qc_view_of(QC_F32, &shape, QC_LAYOUT_ROW, x),
                         pixels = qc_view_of(QC_F32, &shape, QC_LAYOUT_LAST, last);
    for (size_t i = 0; i < CHANNELS * SIDE * SIDE; i++) x[i] = (float)((int)(i * 7919 % 1001) - 300);
    qc_view_copy(&pixels, &row);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char text[4096];
        double h[2][WIDE * WIDE] = {{0}}, mean[2][WIDE] = {{0}};
        QC_FREED char *numbers = case_numbers(CHANNELS * cases[k].each * TAPS, 0.3f, 5);
        snprintf(text, sizeof text,
                 "graph \"g\"\ninput %%1 \"x\" f32[1,6,5,5]\nconst %%2 \"w\" f32[6,%zu,2,3] = %s\n%%3 \"y\" = "
                 "Conv(%%1, %%2) {%s}\noutput \"y\" %%3\n",
                 cases[k].each, numbers, cases[k].attributes);
        OWN(qc_graph) *g = test_graph(text);
        moments_of(h[0], mean[0], g, &row);
        moments_of(h[1], mean[1], g, &pixels);
        cr_expect(memcmp(h[0], h[1], sizeof h[0]) == 0 && memcmp(mean[0], mean[1], sizeof mean[0]) == 0, "%s",
                  cases[k].attributes);
        cr_expect(mean[0][0] > 0 || mean[0][0] < 0);
    }
}

enum { MANY = 8, ROWS = 16 * MANY /* all of them are taken */ };

/* The moments of a matrix product that is shown its rows in samples of `each`. */
static struct qc_second_moments *rows_in_samples(const struct qc_graph *g, float *x, size_t rows, size_t each)
{
    struct qc_second_moments *m = NULL;
    MUST(qc_second_moments_new(&m, g, QC_MOMENTS_ALL, 0, ST) && qc_second_moments_begin(m, 1, ST));
    const struct qc_shape shape = QC_SHAPE((int64_t)each, MANY);
    for (size_t r = 0; r < rows; r += each) {
        const struct qc_view v = qc_view_of(QC_F32, &shape, QC_LAYOUT_ROW, x + r * MANY);
        MUST(qc_second_moments_observe(m, 0, 1, qc_second_moments_at(m, 0)->value, QC_MOMENTS_NO_PEAK, &v, ST));
    }
    return m;
}

/* A sample that fills a buffer takes none of its layer, and its sums are those of its rows one by one. */
Test(moments_positions, samples_of_many_rows_share_a_buffer)
{
    float x[ROWS * MANY];
    double h[2][MANY * MANY], mean[2][MANY];
    QC_FREED char *numbers = case_numbers(MANY * 64, 0.3f, 5);
    const size_t room = strlen(numbers) + 256;
    QC_FREED char *graph = malloc(room);
    snprintf(graph, room,
             "graph \"g\"\ninput %%1 \"x\" f32[N,8]\nconst %%2 \"w\" f32[8,64] = %s\n%%3 \"y\" = "
             "MatMul(%%1, %%2)\noutput \"y\" %%3\n",
             numbers);
    OWN(qc_graph) *g = test_graph(graph);
    for (size_t i = 0; i < ROWS * MANY; i++) /* all rows are of one step */
        x[i] = i % MANY ? (float)((int)(i * 7919 % 1001) - 300) : 1000;
    struct qc_second_moments *m[2] = {rows_in_samples(g, x, ROWS, ROWS), rows_in_samples(g, x, ROWS, 1)};
    bool own[2] = {false, false};
    for (size_t k = 0; k < 2; k++) {
        for (size_t i = 0; i < QC_MOMENTS_BUFFERS; i++) own[k] = own[k] || m[k]->workers[0].buffers[i].rows;
        MUST(qc_second_moments_end(m[k], ST));
        qc_second_moments_read(h[k], mean[k], qc_second_moments_at(m[k], 0), 3, 0, 0);
        qc_second_moments_free(m[k]);
    }
    HOLD(!own[0] && own[1], memcmp(h[0], h[1], sizeof h[0]) == 0 && memcmp(mean[0], mean[1], sizeof mean[0]) == 0);
    cr_expect(mean[0][0] >= 999 && mean[0][0] <= 1001, "%g", mean[0][0]);
}
