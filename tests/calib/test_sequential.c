// SPDX-License-Identifier: Apache-2.0
/* qc_calibrate_sequentially against its definition: for every quantizer the whole graph is run again over all samples,
 * with everything bound so far. */
#include "calib/ranges/calibrate_parts.h"
#include "calib/sequential/sequential.h"
#include "calib_case.h"
#include "graph/core/bounds.h"
#include "graph/core/verify.h"
#include "graph/text/text.h"
#include "observers/histogram.h"

enum { SAMPLES = 24, CHANNELS = 3, SIDE = 8, PIXELS = SIDE * SIDE };

/* ---- Models: channels [3, 8, 8] in, everything that decides what is kept between runs ---- */

struct model {
    const char *name, *body; /* %1 is the input; constants as in `constants` below */
};

static const struct {
    unsigned id;
    const char *name, *shape;
    size_t count;
    float scale;
} constants[] = {
    {20, "w1", "8,3,3,3", 216, 0.3f}, {21, "b1", "8", 8, 0.2f},        {22, "w2", "8,8,3,3", 576, 0.15f},
    {23, "b2", "8", 8, 0.2f},         {24, "w3", "8,8,1,1", 64, 0.4f}, {25, "b3", "8", 8, 0.1f},
    {26, "dw", "8,1,3,3", 72, 0.4f},  {27, "wf", "5,32", 160, 0.2f},   {28, "bf", "5", 5, 0.1f},
    {29, "wc", "4,16,1,1", 64, 0.3f},
};

#define PAD " {pads=[1,1,1,1]}\n"
#define POOL " {kernel_shape=[2,2], strides=[2,2]}\n"
static const struct model models[] = {
    {"chain", "%40 = Conv(%1, %20, %21)" PAD "%41 = Relu(%40)\n%42 = Conv(%41, %26) {group=8, pads=[1,1,1,1]}\n%43 = "
              "Relu(%42)\n%44 = Conv(%43, %24, %25)\noutput \"y\" %44\n"},
    {"pool and dense", "%40 = Conv(%1, %20, %21)" PAD "%41 = Relu(%40)\n%42 = MaxPool(%41)" POOL
                       "%43 = Conv(%42, %22, %23)" PAD "%44 = AveragePool(%43)" POOL "%45 = MaxPool(%43)" POOL
                       "%46 = Add(%44, %45)\n%47 = Flatten(%46)\n%48 = Relu(%47)\n%49 = Gemm(%48, %27, %28) "
                       "{transB=1}\noutput \"y\" %49\n"},
    {"branches",
     "%40 = Conv(%1, %20, %21)" PAD "%41 = Relu(%40)\n%42 = Conv(%41, %22, %23)" PAD
     "%43 = Relu(%42)\n%44 = Conv(%43, %24, %25)\n%45 = Add(%44, %41)\n%46 = Relu(%45)\n"
     "%47 = Conv(%46, %26) {group=8, pads=[1,1,1,1]}\n%48 = Add(%47, %46)\noutput \"y\" %48\noutput \"middle\" %43\n"},
    {"concat of one quantizer", "%40 = Conv(%1, %20, %21)" PAD "%41 = Relu(%40)\n%42 = Conv(%41, %22, %23)" PAD
                                "%43 = Conv(%41, %24, %25)\n%44 = Concat(%42, %43) {axis=1}\n"
                                "%45 = Conv(%44, %29)\noutput \"y\" %45\n"},
    {"concat across depths", "%40 = Conv(%1, %20, %21)" PAD "%41 = Sigmoid(%40)\n%42 = Conv(%41, %22, %23)" PAD
                             "%43 = Concat(%41, %42) {axis=1}\n%44 = Conv(%43, %29)\noutput \"y\" %44\n"},
    {"one weight twice",
     "%40 = Conv(%1, %20, %21)" PAD
     "%41 = Relu(%40)\n%42 = Conv(%41, %24, %25)\n%43 = Relu(%42)\n%44 = Conv(%43, %24, %25)\noutput \"y\" %44\n"},
    {"float in the middle", "%40 = Conv(%1, %20, %21)" PAD "%41 = Softmax(%40) {axis=1}\n%42 = Conv(%41, %22, %23)" PAD
                            "%43 = Mul(%42, %41)\n%44 = Conv(%43, %24, %25)\noutput \"y\" %44\n"},
};
enum { MODELS = sizeof models / sizeof *models };

static struct qc_graph *make(const struct model *m)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    const char *text = "graph \"g\"\ninput %1 \"x\" f32[N,3,8,8]\n";
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
        char use[8];
        qc_text(use, sizeof use, "%%%u", constants[i].id);
        if (!strstr(m->body, use)) continue;
        QC_FREED char *numbers = case_numbers(constants[i].count, constants[i].scale, constants[i].id);
        text = qc_arena_printf(a, ST, "%sconst %%%u \"%s\" f32[%s] = %s\n", text, constants[i].id, constants[i].name,
                               constants[i].shape, numbers);
    }
    text = qc_arena_printf(a, ST, "%s%s", text, m->body);
    struct qc_graph *g = test_graph(text);
    return g;
}

/* ---- Settings of a run, and its result as text with all numbers ---- */

struct how {
    bool weights, bias, backwards;
    const char *method;
    unsigned workers;
};

struct bench {
    struct qc_graph *model;
    struct case_run run; /* as far as simulated, and data */
    struct qc_second_moments *second_moments;
    struct qc_weight_rounder *weight_rounder;
    struct qc_settings settings;
    struct qc_calibration_options options;
    char path[CASE_PATH];
};

static void begin(struct bench *b, const struct model *m, const struct how *h)
{
    *b = (struct bench)
        FIELDS(.model = make(m),
               .settings = {.workers = h->workers ? h->workers : 1, .compensate = true, .correct_bias = h->bias},
               .options = {.settings = &b->settings});
    cr_assert(case_simulate(&b->run, b->model, &CASE_SETUP, ST), "%s: %s", m->name, failure.message);
    cr_assert(
        qc_observer_parse(&b->options.activation, &b->options.activation_values, h->method ? h->method : "mse", ST) &&
        qc_observer_parse(&b->options.weight, &b->options.weight_values, "minmax", ST));
    float *x = malloc(SAMPLES * CHANNELS * PIXELS * sizeof *x);
    cr_assert(x);
    for (uint64_t s = 0; s < SAMPLES; s++) {
        uint64_t seed = 100 + s;
        float *to = x + (h->backwards ? SAMPLES - 1 - s : s) * CHANNELS * PIXELS;
        for (size_t i = 0; i < CHANNELS * PIXELS; i++) to[i] = 0.3f * (float)(i / PIXELS) + 0.2f + case_normal(&seed);
    }
    struct case_data set = {.name = "x", .dtype = QC_F32, .values = x, .rank = 3, .dims = {CHANNELS, SIDE, SIDE}};
    case_write(b->path, &set, 1, SAMPLES);
    free(x);
    b->run.data = case_open(b->run.simulated, b->path, false);
    if (!h->weights) return;
    struct qc_collection *seen = NULL;
    const struct qc_collect_options collect = {.need = QC_NEED_EXTREMES, .moments = true, .settings = CASE_WORKERS(1)};
    const struct qc_round_weights_options r = {.settings = &b->settings};
    MUST(qc_collect(&seen, NULL, b->run.simulated, &(const struct qc_named_values){0}, b->run.data, &collect, ST));
    b->second_moments = seen->second_moments;
    seen->second_moments = NULL;
    qc_collection_free(seen);
    MUST(qc_weight_rounder_new(&b->weight_rounder, b->run.simulated, b->second_moments, &r, ST));
}

/* Frees; the text of the graph, or of the one with new weights. */
static char *finish(struct bench *b)
{
    struct qc_text_options all = QC_TEXT_ALL;
    struct qc_weight_rounding *w = NULL;
    struct qc_graph *g = NULL;
    cr_assert(!b->weight_rounder || qc_weight_rounder_finish(&w, &g, b->weight_rounder, ST), "%s", failure.message);
    MUST(qc_graph_verify(g ? g : b->run.simulated, ST));
    char *text = qc_graph_print(g ? g : b->run.simulated, &all, ST);
    MUST(text);
    qc_graph_free(g);
    qc_weight_rounding_free(w);
    qc_weight_rounder_free(b->weight_rounder);
    qc_second_moments_free(b->second_moments);
    case_free(&b->run);
    qc_graph_free(b->model);
    case_unlink(b->path);
    return text;
}

static char *propagated(const struct model *m, const struct how *h)
{
    struct bench b;
    begin(&b, m, h);
    const struct qc_sequential_options o = {.calibration = &b.options, .weight_rounder = b.weight_rounder};
    struct qc_calibration *c = NULL;
    cr_assert(qc_calibrate_sequentially(&c, b.run.simulated, b.run.data, &o, ST), "%s: %s", m->name, failure.message);
    for (qc_id s = 1; s <= b.run.simulated->qparams_count; s++)
        if (b.run.simulated->qparams_of[s].kind == QC_QPARAMS_QUANTIZER)
            cr_expect(c->choices[s].chosen, "%s: '%s'", m->name, b.run.simulated->qparams_of[s].name);
    qc_calibration_free(c);
    return finish(&b);
}

/* ---- The definition ---- */

/* The whole graph with the constants that there are by now; at[count] become its values. */
static struct qc_graph *whole(const struct bench *b, size_t count, qc_id *at)
{
    const struct qc_graph *g = b->run.simulated;
    struct qc_rebuild r;
    struct qc_graph *out = NULL;
    bool copied = false;
    MUST(qc_rebuild_begin(&r, g, ST));
    for (qc_id id = 1; id <= g->node_count; id++) {
        if (g->nodes[id].op == QC_OP_Quantize && qc_constant_of(g, g->nodes[id].inputs[0])) continue;
        cr_assert(!b->weight_rounder || qc_weight_rounder_copy(&copied, &r, b->weight_rounder, id, ST), "%s",
                  failure.message);
        MUST(copied || qc_rebuild_node(&r, id, ST));
        copied = false;
    }
    for (size_t i = 0; i < count; i++) cr_assert(at[i] = qc_rebuild_value(&r, at[i], ST));
    MUST(qc_rebuild_finish(&out, &r, ST));
    qc_rebuild_free(&r);
    return out;
}

struct watching {
    struct qc_scan *scan; /* NULL: means */
    struct qc_second_moments *means;
    qc_id node;
    float scale;
};

static bool observe(void *user, const struct qc_unit *at, size_t index, const struct qc_view *v, struct qc_status *st)
{
    struct watching *w = user;
    struct qc_shape shape = qc_shape_of(v->rank, v->dim);
    const size_t n = qc_view_count(v);
    QC_FREED float *row = malloc((n + 1) * sizeof *row);
    struct qc_view real = qc_view_of(QC_F32, &shape, QC_LAYOUT_ROW, row);
    qc_view_copy(&real, v);
    for (size_t i = 0; !w->scan && i < n; i++) row[i] *= w->scale;
    bool ok = w->scan ? qc_scan_sample(w->scan, row, n, at->sample, st)
                      : qc_second_moments_observe_layer(w->means, 0, at->key, w->node, &real, st);
    return ok;
}

static void run_whole(const struct bench *b, size_t count, const qc_id *values, struct watching *w)
{
    qc_id at[8];
    cr_assert_leq(count, 8);
    memcpy(at, values, count * sizeof *at);
    OWN(qc_graph) *g = whole(b, count, at);
    OWN(qc_plan) *plan = NULL;
    const struct qc_plan_options how = {.observed_count = count, .observed = at};
    MUST(qc_plan_new(&plan, g, qc_stream_shapes(g, b->run.data, test_arena(), ST), &how, ST));
    const struct qc_stream stream = FIELDS(.data = b->run.data, .input_count = g->input_count, .plan_count = 1,
                                           .plans = {plan}, .workers = 1, .keyed = true, .observe = observe, .user = w);
    MUST(qc_stream_run(&stream, ST));
}

/* Is everything that v depends on bound, and every layer solved that will be? */
static bool is_final(const struct bench *b, qc_id v)
{
    const struct qc_graph *g = b->run.simulated;
    const struct qc_node *n = qc_node_of(g, v);
    if (!n) return true;
    const qc_id qparams = g->values[v].type.qparams;
    if ((qparams && g->qparams_of[qparams].state == QC_QPARAMS_UNBOUND) ||
        (b->weight_rounder && qc_weight_rounder_waits(b->weight_rounder, g->values[v].node)))
        return false;
    for (unsigned i = 0; i < n->input_count; i++)
        if (n->inputs[i] && !is_final(b, n->inputs[i])) return false;
    return true;
}

static bool depends(const struct qc_graph *g, qc_id v, qc_id node)
{
    const struct qc_node *n = qc_node_of(g, v);
    if (!n || g->values[v].node < node) return false;
    if (g->values[v].node == node) return true;
    for (unsigned i = 0; i < n->input_count; i++)
        if (n->inputs[i] && depends(g, n->inputs[i], node)) return true;
    return false;
}

/* New constants of the layers that `values` depend on (none: of all). */
static void solve_layers(const struct bench *b, bool bias, size_t count, const qc_id *values)
{
    const struct qc_graph *g = b->run.simulated;
    for (qc_id id = 1; b->weight_rounder && id <= g->node_count; id++) {
        bool asked = !count;
        for (size_t i = 0; i < count; i++) asked = asked || depends(g, values[i], id);
        if (!asked || !qc_weight_rounder_waits(b->weight_rounder, id) || !is_final(b, g->nodes[id].inputs[0])) continue;
        const struct qc_qparams *s = qc_graph_parameters(g, g->nodes[id].inputs[0]);
        struct watching w = {.node = id, .scale = s ? s->scale[0] : 1};
        if (bias) {
            cr_assert(qc_second_moments_new_means(&w.means, g, ST) && qc_second_moments_begin(w.means, 1, ST));
            run_whole(b, 1, &g->nodes[id].inputs[0], &w);
            MUST(qc_second_moments_end(w.means, ST));
        }
        MUST(qc_weight_rounder_solve(b->weight_rounder, id, w.means, ST));
        qc_second_moments_free(w.means);
    }
}

/* Chooses and binds the weights whose activations are bound. */
static void choose_ready_weights(struct qc_calibration *c, const struct bench *b)
{
    struct qc_ready_weights *r = NULL;
    cr_assert(qc_ready_weights_new(&r, c, b->run.simulated, &b->options, ST) && qc_ready_weights_choose(r, ST));
    qc_ready_weights_free(r);
}

static char *plain(const struct model *m, const struct how *h)
{
    struct bench b;
    begin(&b, m, h);
    struct qc_graph *g = b.run.simulated;
    struct qc_calibration c = {.arena = qc_arena_new(), .qparams_count = g->qparams_count};
    const struct qc_bounds *bounds = qc_graph_bounds(g, c.arena, ST);
    cr_assert(c.arena && bounds && (c.choices = QC_NEW_ARRAY(c.arena, struct qc_choice, g->qparams_count + 1, ST)));
    choose_ready_weights(&c, &b);
    for (qc_id last = 1; last <= g->value_count; last++)
        for (qc_id quantizer = 1; quantizer <= g->qparams_count; quantizer++) {
            const struct qc_qparams *s = &g->qparams_of[quantizer];
            qc_id latest = 0;
            for (size_t i = 0; i < s->observed_count; i++) latest = s->observed[i] > latest ? s->observed[i] : latest;
            if (latest != last) continue;
            solve_layers(&b, h->bias, s->observed_count, s->observed);
            struct watching w = {0};
            OWN(qc_histogram) *histogram = NULL;
            struct qc_range range;
            struct qc_solve request = QC_SOLVE_INIT(qc_qparams_levels(s), s->symmetry);
            cr_assert(qc_scan_new(&w.scan, qc_need_of_scan(b.options.activation->need), ST) &&
                      qc_histogram_new(&histogram, qc_need_of_scan(b.options.activation->need), ST));
            run_whole(&b, s->observed_count, s->observed, &w);
            MUST(qc_histogram_add_scan(histogram, w.scan, ST));
            const struct qc_statistics seen = qc_statistics_of(histogram);
            request.known_lo = (double)INFINITY;
            request.known_hi = -(double)INFINITY;
            for (size_t i = 0; i < s->observed_count; i++) {
                request.known_lo = fmin(request.known_lo, bounds[s->observed[i]].lo);
                request.known_hi = fmax(request.known_hi, bounds[s->observed[i]].hi);
            }
            MUST(qc_observer_solve(&range, b.options.activation, &b.options.activation_values, &seen, &request, ST));
            const struct qc_affine p = qc_affine_from_range(range.lo, range.hi, request.levels, s->symmetry);
            MUST(qc_graph_bind_quantizer(g, quantizer, 1, &p.scale, &p.zero_point, ST));
            choose_ready_weights(&c, &b);
            qc_scan_free(w.scan);
        }
    solve_layers(&b, h->bias, 0, NULL);
    qc_arena_free(c.arena);
    return finish(&b);
}

static void expect_equal(char *a, char *b, const char *model, const char *what)
{
    if (strcmp(a, b) != 0) {
        size_t i = 0;
        while (a[i] == b[i]) i++;
        const size_t from = i > 100 ? i - 100 : 0;
        cr_expect_fail("%s, %s: they differ at\n%.160s\n---\n%.160s", model, what, a + from, b + from);
    }
    free(a);
    free(b);
}

Test(propagate, is_the_plain_re_run_with_weights_to_nearest)
{
    for (size_t i = 0; i < MODELS; i++) {
        const struct how h = {.method = i % 2 ? "mse" : "percentile"};
        expect_equal(plain(&models[i], &h), propagated(&models[i], &h), models[i].name, "nearest");
    }
}

Test(propagate, is_the_plain_re_run_with_rounded_weights)
{
    const struct how h = {.weights = true};
    for (size_t i = 0; i < MODELS; i++)
        expect_equal(plain(&models[i], &h), propagated(&models[i], &h), models[i].name, "rounded");
}

Test(propagate, is_the_plain_re_run_with_biases_that_take_up_what_came_before)
{
    const struct how h = {.weights = true, .bias = true};
    for (size_t i = 0; i < MODELS; i++)
        expect_equal(plain(&models[i], &h), propagated(&models[i], &h), models[i].name, "biases");
}

Test(propagate, workers_and_order_make_no_difference)
{
    for (size_t i = 0; i < MODELS; i++) {
        const struct how one = {.weights = true, .bias = true}, three = {.weights = true, .bias = true, .workers = 3},
                         back = {.weights = true, .bias = true, .backwards = true};
        expect_equal(propagated(&models[i], &one), propagated(&models[i], &three), models[i].name, "three workers");
        expect_equal(propagated(&models[i], &one), propagated(&models[i], &back), models[i].name, "samples backwards");
    }
}

/* The definition matters: what earlier quantizers do is seen. */
Test(propagate, sees_the_error_of_earlier_quantizers)
{
    const struct how h = {.method = "minmax"};
    struct bench b;
    begin(&b, &models[0], &h);
    MUST(case_choose(&b.run, &b.options, ST));
    QC_FREED char *without = finish(&b), *with = propagated(&models[0], &h);
    cr_expect(strcmp(without, with) != 0, "the same parameters as without");
}
