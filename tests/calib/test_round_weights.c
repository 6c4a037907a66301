// SPDX-License-Identifier: Apache-2.0
/* Weights and biases computed from data, in the graph. */
#include "calib/weights/round_weights.h"
#include "calib/weights/round_weights_parts.h"
#include "calib_case.h"
#include "graph/core/verify.h"

enum { SAMPLES = 64, IN = 4, OUT = 6, PIXELS = 16 };

static const struct qc_round_weights_options both = {.settings = &case_rounds};

/* Channels that are nearly alike, with a mean of their own. */
static float *images(uint64_t seed)
{
    float *x = malloc(SAMPLES * IN * PIXELS * sizeof *x);
    cr_assert(x);
    for (size_t s = 0; s < SAMPLES; s++)
        for (size_t p = 0; p < PIXELS; p++) {
            const float common = case_normal(&seed);
            for (size_t c = 0; c < IN; c++) x[(s * IN + c) * PIXELS + p] = 2 + common + 0.2f * case_normal(&seed);
        }
    return x;
}

static struct qc_graph *convolution(const char *bias)
{
    QC_FREED char *numbers = case_numbers(OUT * IN * 9, 0.3f, 5);
    char *text = qc_arena_printf(test_arena(), ST,
                                 "graph \"g\"\ninput %%1 \"x\" f32[N,4,4,4]\nconst %%2 \"w\" f32[6,4,3,3] = %s\n%s%%4 "
                                 "\"y\" = Conv(%%1, %%2%s) {pads=[1,1,1,1]}\noutput \"y\" %%4\n",
                                 numbers, bias, *bias ? ", %3" : "");
    struct qc_graph *g = test_graph(text);
    return g;
}

static void calibrate(struct case_run *r, const struct qc_graph *g, unsigned workers)
{
    struct case_setup setup = CASE_SETUP;
    QC_FREED float *x = images(3);
    struct case_data set = {.name = "x", .dtype = QC_F32, .values = x, .rank = 3, .dims = {IN, 4, 4}};
    CASE_FILE path[CASE_PATH];
    case_write(path, &set, 1, SAMPLES);
    setup.moments = true;
    setup.workers = workers;
    MUST(case_calibrate(r, g, path, &setup, ST));
}

static const struct qc_node *find_conv(const struct qc_graph *g)
{
    for (qc_id id = 1; id <= g->node_count; id++)
        if (g->nodes[id].op == QC_OP_Conv) return &g->nodes[id];
    cr_assert_fail("there is no convolution");
    return NULL;
}

static const struct qc_tensor *constant_input(const struct qc_graph *g, const struct qc_node *n, unsigned input)
{
    return qc_constant_of(g, qc_quantized_constant(g, n->inputs[input]));
}

/* Mean square, mean variance and largest mean of y - y' per output, y' with the weights rounded and the bias of the new
 * graph; inputs in float, all positions. */
static void output_error(double *square, double *variance, double *mean, const struct qc_graph *real,
                         const struct qc_graph *g)
{
    const struct qc_node *before = find_conv(real), *after = find_conv(g);
    const struct qc_tensor *v = constant_input(g, after, 1);
    const float *w = qc_constant_of(real, before->inputs[1])->data;
    const float *b = before->input_count > 2 ? qc_constant_of(real, before->inputs[2])->data : NULL;
    const float *c = after->input_count > 2 ? constant_input(g, after, 2)->data : NULL;
    const struct qc_qparams *qparams = &g->qparams_of[g->values[after->inputs[1]].type.qparams];
    QC_FREED float *x = images(3);
    *square = *variance = *mean = 0;
    for (size_t o = 0; o < OUT; o++) {
        double sum = 0, squares = 0;
        for (size_t s = 0; s < SAMPLES; s++)
            for (int y = 0; y < 4; y++)
                for (int z = 0; z < 4; z++) {
                    double d = (b ? (double)b[o] : 0) - (c ? (double)c[o] : 0);
                    for (size_t k = 0; k < IN * 9; k++) {
                        const int i = y + (int)(k % 9) / 3 - 1, j = z + (int)(k % 3) - 1;
                        const double scale = (double)qparams->scale[o], stored = qc_tensor_float(v, o * IN * 9 + k),
                                     nearest = fmax(-127, fmin(127, nearbyint((double)((float)stored / (float)scale)))),
                                     q = scale * (v->dtype == QC_F32 ? nearest : stored);
                        if (i >= 0 && i < 4 && j >= 0 && j < 4)
                            d += ((double)w[o * IN * 9 + k] - q) *
                                 (double)x[(s * IN + k / 9) * PIXELS + (size_t)(4 * i + j)];
                    }
                    sum += d;
                    squares += d * d;
                }
        *square += squares / (SAMPLES * PIXELS * OUT);
        *variance += (squares - sum * sum / (SAMPLES * PIXELS)) / (SAMPLES * PIXELS * OUT);
        *mean = fmax(*mean, fabs(sum / (SAMPLES * PIXELS)));
    }
}

static void check_errors(const char *bias)
{
    OWN(qc_graph) *g = convolution(bias), *new = NULL;
    OWN(qc_weight_rounding) *w = NULL;
    CASE_RUN r;
    double nearest, nearest_variance, nearest_mean, better, better_variance, better_mean;
    calibrate(&r, g, 1);
    MUST(qc_round_weights(&w, &new, r.simulated, r.second_moments, &both, ST));
    MUST(qc_graph_verify(new, ST));
    output_error(&nearest, &nearest_variance, &nearest_mean, r.normalised, r.simulated);
    output_error(&better, &better_variance, &better_mean, r.normalised, new);
    cr_expect_leq(better, 0.25 * nearest, "mean square error %g, nearest %g", better, nearest);
    cr_expect_leq(better_mean, 1e-4, "an output is off by %g on average", better_mean);
    cr_expect_geq(nearest_mean, 1e-3, "nearest is off by %g only: the case shows nothing", nearest_mean);
    cr_assert_eq(w->count, 1);
    const struct qc_rounded_weights *l = &w->layers[0];
    cr_expect(l->compensated && l->held && l->bias_corrected && !l->reason && l->outputs == OUT && l->blocks == 1);
    cr_expect_leq(l->error, l->error_nearest);
    /* A corrected bias takes the mean away; what is told is the rest, on the samples that were held back. */
    cr_expect_float_eq(l->error_nearest, nearest_variance, 0.3 * nearest_variance, "told %g, is %g", l->error_nearest,
                       nearest_variance);
    cr_expect_geq(nearest, 1.5 * nearest_variance, "the case shows nothing of means");
    cr_expect_float_eq(l->error, better_variance, 0.3 * better_variance, "told %g, is %g", l->error, better_variance);
    cr_expect_gt(l->bias_max, 0);
    cr_expect_leq(l->bias_rms, l->bias_max);
    const char *name = r.simulated->qparams_of[l->quantizer].name;
    cr_expect(l->name != name && strcmp(l->name, name) == 0, "what is told outlives the graph");
}

Test(round_weights, errors_shrink_and_means_vanish)
{
    check_errors("const %3 \"b\" f32[6] = {0.5, -0.25, 0, 1, 2, -3}\n");
}

Test(round_weights, a_bias_is_made_where_there_is_none)
{
    check_errors("");
}

/* Of inputs that have nothing to do with each other rounding to nearest is the best there is. Eight rows of them look
   as if they were alike; weights that make use of that are worse on all others. The error on others is that of the
   weights themselves, since the moments of others are 1 on the diagonal. */
Test(round_weights, few_rows_are_believed_in_part)
{
    enum { ROWS = 8, COLUMNS = 64, MADE = 32 };
    char *numbers = case_numbers(COLUMNS * MADE, 0.3f, 7), path[CASE_PATH];
    OWN(qc_graph) *g = test_graph(qc_arena_printf(test_arena(), ST,
                                                  "graph \"g\"\ninput %%1 \"x\" f32[N,64]\nconst %%2 \"w\" "
                                                  "f32[64,32] = %s\n%%3 \"y\" = MatMul(%%1, %%2)\noutput \"y\" "
                                                  "%%3\n",
                                                  numbers)),
                  *new = NULL;
    float x[ROWS * COLUMNS];
    uint64_t seed = 11;
    for (size_t i = 0; i < ROWS * COLUMNS; i++) x[i] = case_normal(&seed);
    case_write(path, &(struct case_data){"x", QC_F32, x, 1, {COLUMNS}}, 1, ROWS);
    struct case_setup setup = CASE_SETUP;
    setup.moments = true;
    CASE_RUN r;
    OWN(qc_weight_rounding) *rounded = NULL;
    MUST(case_calibrate(&r, g, path, &setup, ST));
    MUST(qc_round_weights(&rounded, &new, r.simulated, r.second_moments, &both, ST));
    cr_expect(rounded->count == 1 && rounded->layers[0].compensated, "the case shows nothing");
    const struct qc_tensor *after = NULL;
    const struct qc_qparams *p = NULL;
    for (qc_id v = 1; v <= new->value_count && !after; v++)
        if (qc_constant_of(new, v) && qc_constant_of(new, v)->count == COLUMNS * MADE) {
            after = qc_constant_of(new, v);
            p = qc_graph_parameters(new, v);
        }
    cr_assert(after && p && after->dtype == p->dtype);
    const struct qc_tensor *before = qc_constant_of(r.normalised, 2);
    double error = 0, nearest = 0;
    cr_assert(before && before->count == COLUMNS * MADE);
    for (size_t i = 0; i < COLUMNS * MADE; i++) {
        const double scale = (double)p->scale[p->count > 1 ? i % MADE : 0],
                     w = (double)((const float *)before->data)[i] / scale,
                     d = w - (double)(qc_tensor_int(after, i) - p->zero_point[p->count > 1 ? i % MADE : 0]);
        error += d * d;
        nearest += (w - nearbyint(w)) * (w - nearbyint(w));
    }
    cr_expect_leq(error, 1.35 * nearest, "%g on others, nearest %g", error, nearest);
    case_unlink(path);
    free(numbers);
}

/* What rounding of a product of so many columns takes, before anything was seen of it. */
static size_t planned(unsigned columns, enum qc_dtype weight)
{
    QC_FREED char *numbers = case_numbers(8 * columns, 0.3f, 7);
    OWN(qc_graph) *g = test_graph(qc_arena_printf(test_arena(), ST,
                                                  "graph \"g\"\ninput %%1 \"x\" f32[N,%u]\nconst %%2 \"w\" "
                                                  "f32[%u,8] = %s\n%%3 \"y\" = MatMul(%%1, %%2)\noutput \"y\" %%3\n",
                                                  columns, columns, numbers));
    struct case_setup setup = CASE_SETUP;
    CASE_RUN r = {0};
    OWN(qc_second_moments) *m = NULL;
    setup.scheme.weight.dtype = weight;
    cr_assert(case_simulate(&r, g, &setup, ST) && qc_second_moments_new(&m, r.simulated, QC_MOMENTS_QUANTIZED, 0, ST) &&
                  qc_second_moments_count(m) == 1,
              "%s", failure.message);
    return qc_round_weights_bytes_of_all(m);
}

/* A second matrix is for weights of few levels alone, which have whole ones where few rows would do for others. */
Test(reweigh, memory_is_planned_by_bits)
{
    const size_t square = sizeof(double) * 64 * 64, wide = sizeof(double) * 512 * 512;
    cr_expect_eq(planned(64, QC_I4), planned(64, QC_I8) + square);
    cr_expect_geq(planned(512, QC_I4), planned(512, QC_I8) + 2 * wide - wide / 4);
}

/* Nothing asked for: the integers and the bias are those of rounding to nearest. Compensation alone leaves the bias,
 * correction alone the weights. */
Test(round_weights, what_is_off_changes_nothing)
{
    OWN(qc_graph) *g = convolution("const %3 \"b\" f32[6] = {0.5, -0.25, 0, 1, 2, -3}\n");
    CASE_RUN r;
    calibrate(&r, g, 1);
    const float *w = qc_constant_of(r.normalised, find_conv(r.normalised)->inputs[1])->data,
                *b = qc_constant_of(r.normalised, find_conv(r.normalised)->inputs[2])->data;
    const struct qc_qparams *qparams = &r.simulated->qparams_of[case_quantizer(r.simulated, "w")];
    for (int k = 0; k < 3; k++) {
        struct qc_round_weights_options o = {
            .settings = &(struct qc_settings){.compensate = k == 1, .correct_bias = k == 2, .workers = 1}};
        OWN(qc_graph) *new = NULL;
        OWN(qc_weight_rounding) *done = NULL;
        size_t moved = 0, corrected = 0;
        MUST(qc_round_weights(&done, &new, r.simulated, r.second_moments, &o, ST));
        const struct qc_tensor *v = constant_input(new, find_conv(new), 1);
        const float *c = constant_input(new, find_conv(new), 2)->data;
        cr_assert_eq(v->dtype, qparams->dtype, "the weights are no integers");
        for (size_t i = 0; i < OUT * IN * 9; i++)
            moved += (float)qc_tensor_int(v, i) != nearbyintf(w[i] / qparams->scale[i / (IN * 9)]);
        for (size_t i = 0; i < OUT; i++) corrected += b[i] != c[i];
        cr_expect_eq(moved > 0, k == 1, "%zu weights moved", moved);
        cr_expect_eq(corrected > 0, k == 2, "%zu biases corrected", corrected);
        cr_expect_eq(done->layers[0].compensated, k == 1);
    }
}

Test(round_weights, workers_make_no_difference)
{
    OWN(qc_graph) *g = convolution(""), *first = NULL;
    for (unsigned workers = 1; workers <= 4; workers *= 2) {
        struct qc_round_weights_options o = both;
        struct qc_graph *new = NULL;
        OWN(qc_weight_rounding) *w = NULL;
        CASE_RUN r;
        struct qc_settings settings = case_rounds;
        settings.workers = workers;
        o.settings = &settings;
        calibrate(&r, g, workers);
        MUST(qc_round_weights(&w, &new, r.simulated, r.second_moments, &o, ST));
        if (first)
            for (unsigned i = 1; i <= 2; i++)
                cr_expect(qc_tensor_equal(constant_input(first, find_conv(first), i),
                                          constant_input(new, find_conv(new), i)),
                          "input %u", i);
        else
            first = new;
        if (first != new) qc_graph_free(new);
    }
}

/* One weight, two layers: it cannot follow both. */
Test(round_weights, a_shared_weight_stays_nearest_and_says_why)
{
    OWN(qc_graph) *g = test_graph("graph \"g\"\ninput %1 \"x\" f32[N,4,4,4]\nconst %2 \"w\" f32[4,4,1,1] = {0.5, -1, "
                                  "0.25, 0.1, 0.7, 0.3, -0.2, 0.9, 1, 2, 3, 4, -1, -2, 0.35, 0.45}\n"
                                  "%3 \"c\" = Conv(%1, %2)\n%4 \"y\" = Conv(%3, %2)\noutput \"y\" %4\n");
    OWN(qc_graph) *new = NULL;
    OWN(qc_weight_rounding) *w = NULL;
    CASE_RUN r;
    calibrate(&r, g, 1);
    MUST(qc_round_weights(&w, &new, r.simulated, r.second_moments, &both, ST));
    cr_assert_eq(w->count, 2);
    for (size_t i = 0; i < 2; i++)
        cr_expect(w->layers[i].reason && strstr(w->layers[i].reason, "more than one") && !w->layers[i].compensated);
    const struct qc_tensor *v = constant_input(new, find_conv(new), 1),
                           *real = constant_input(r.simulated, find_conv(r.simulated), 1);
    const struct qc_qparams *q = &new->qparams_of[new->values[find_conv(new)->inputs[1]].type.qparams];
    for (size_t i = 0; i < real->count; i++)
        cr_expect_eq((float)qc_tensor_int(v, i),
                     nearbyintf(((const float *)real->data)[i] / q->scale[q->count > 1 ? i / 4 : 0]));
}

/* The mean of (x - c) (x - c)' over rows, from that of x x' and of x. */
Test(round_weights, moments_are_centred_anywhere)
{
    enum { ROWS = 5, WIDE = 3 };
    static const double centre[WIDE] = {1.5, -2, 0.25};
    double x[ROWS][WIDE], h[WIDE * WIDE] = {0}, mean[WIDE] = {0}, expected[WIDE * WIDE] = {0};
    uint64_t seed = 11;
    for (size_t r = 0; r < ROWS; r++)
        for (size_t i = 0; i < WIDE; i++) x[r][i] = 3 + (double)case_normal(&seed);
    for (size_t r = 0; r < ROWS; r++)
        for (size_t i = 0; i < WIDE; i++) {
            mean[i] += x[r][i] / ROWS;
            for (size_t j = 0; j < WIDE; j++) {
                h[i * WIDE + j] += x[r][i] * x[r][j] / ROWS;
                expected[i * WIDE + j] += (x[r][i] - centre[i]) * (x[r][j] - centre[j]) / ROWS;
            }
        }
    qc_round_weights_centre(h, mean, centre, WIDE);
    for (size_t i = 0; i < WIDE * WIDE; i++) cr_expect_float_eq(h[i], expected[i], 1e-12, "%zu: %g", i, h[i]);
}
