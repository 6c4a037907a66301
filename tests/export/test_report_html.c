// SPDX-License-Identifier: Apache-2.0
/* report.html: well formed with any names, self-contained, without times. tests/browser checks its appearance. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "export/report/comparison.h"
#include "export/report/html.h"
#include "export/report/report.h"

#define HOSTILE "</script></title><b onclick=\"x\">&'\x01\xff"

static const float scale[3] = {0.1f, 0.2f, 0.1f}, low[3] = {-1, -20, -1}, high[3] = {1, 2, 1};
static const int32_t zero[3] = {0, 0, 0};
static const uint64_t bars[4] = {5, 0, 1000, 1};
static const struct qc_report_histogram histogram = {.lo = -1, .hi = 3, .zeros = 17, .bar_count = 4, .bars = bars};
static const struct qc_layer_tried tried[3] = {{.min = -1, .max = 3, .objective = 0.75, .refused = (double)NAN},
                                               {.min = -1, .max = 2, .objective = 0.25, .refused = (double)NAN},
                                               {.min = -1, .max = 1, .objective = (double)INFINITY, .refused = 0.5}};

/* Everything hostile that can be. */
static struct qc_report hostile(void)
{
    static struct qc_layer layers[2];
    static const size_t from[2] = {0, 1};
    static const struct qc_report_node nodes[3] = {
        {.kind = QC_NODE_INPUT, .name = HOSTILE, .label = "input", .layer = QC_NO_INDEX},
        {.kind = QC_NODE_FLOAT,
         .name = HOSTILE,
         .label = HOSTILE,
         .reason = HOSTILE,
         .input_count = 1,
         .inputs = &from[0],
         .layer = 0},
        {.kind = QC_NODE_OUTPUT,
         .name = HOSTILE,
         .label = "output",
         .input_count = 1,
         .inputs = &from[1],
         .layer = QC_NO_INDEX}};
    static const struct qc_report_suggestion suggestion = {
        .node = HOSTILE, .op = "Conv", .before_db = 30, .after_db = 10, .why = HOSTILE, .layer = 0};
    static const double db[1] = {20};
    static const struct qc_report_advice advice = {.action = "Keep it in float",
                                                   .node = HOSTILE,
                                                   .command = "qcalib " HOSTILE,
                                                   .before_db = 20,
                                                   .after_db = 21,
                                                   .held_before_db = 20,
                                                   .held_after_db = 22,
                                                   .outputs_before_db = db,
                                                   .outputs_after_db = db,
                                                   .layer = 0};
    static const struct qc_float_op op = {.name = HOSTILE, .op = "Softmax", .reason = HOSTILE};
    static const char *const texts[1] = {HOSTILE};
    static const size_t bytes[1] = {1000};
    static const struct qc_report_effect effects[2] = {{.node = HOSTILE,
                                                        .op = HOSTILE,
                                                        .sqnr_db = 12.5,
                                                        .weights_sqnr_db = (double)NAN,
                                                        .metric = (double)NAN,
                                                        .lost = (double)NAN},
                                                       {.node = "",
                                                        .op = "Conv",
                                                        .sqnr_db = 60,
                                                        .weights_sqnr_db = (double)INFINITY,
                                                        .metric = (double)NAN,
                                                        .lost = (double)NAN}};
    static const struct qc_report_fallback_step steps[3] = {
        {.type = "", .value = 0.5, .drop = 40, .int8_share = 1},
        {.layers = 1,
         .type = HOSTILE,
         .value = (double)NAN,
         .drop = (double)NAN,
         .int8_share = (double)NAN,
         .reason = HOSTILE},
        {.layers = 2, .type = "float", .value = 0.8, .drop = 10, .int8_share = 0.9375, .met = true, .chosen = true}};
    static const struct qc_report_fallback fallback = {.limit = 12,
                                                       .min_sqnr = (double)NAN,
                                                       .max_nll = (double)NAN,
                                                       .met = true,
                                                       .step_count = 3,
                                                       .steps = steps,
                                                       .option_count = 1,
                                                       .options = texts,
                                                       .command = "qcalib by-hand " HOSTILE};
    static const struct qc_report_output output = {.name = HOSTILE, .sqnr_db = 12.5, .cosine = 0.99, .max_abs = 3};
    static const struct qc_report_trial taken = {.method = "minmax", .gain_db = 0.625};
    static const struct qc_report_choice choice = {.trial = &taken};
    layers[0] = (struct qc_layer){.name = HOSTILE,
                                  .op = "Conv",
                                  .type = "u8",
                                  .kind = "activation",
                                  .node = HOSTILE,
                                  .axis = -1,
                                  .count = 1,
                                  .scale = scale,
                                  .zero_point = zero,
                                  .method = HOSTILE,
                                  .choice = &choice,
                                  .observed_max = 3,
                                  .chosen_max = 2,
                                  .sqnr_db = 10,
                                  .cosine = 0.9,
                                  .alone_db = 40,
                                  .isolated_db = 35,
                                  .histogram = &histogram,
                                  .solver = {.objective = 0.25,
                                             .objective_minmax = 0.75,
                                             .candidates = 9,
                                             .known_min = 0,
                                             .known_max = (double)INFINITY,
                                             .curve_count = 3,
                                             .curve = tried,
                                             .runner_up = &tried[0]},
                                  .accumulator_bits = 40,
                                  .accumulator_bits_seen = 20};
    layers[1] = (struct qc_layer){.name = HOSTILE,
                                  .op = "Conv",
                                  .type = "i8",
                                  .kind = "weight",
                                  .axis = 0,
                                  .count = 3,
                                  .scale = scale,
                                  .zero_point = zero,
                                  .method = "minmax",
                                  .sqnr_db = (double)NAN,
                                  .cosine = (double)NAN,
                                  .max_abs = (double)NAN,
                                  .alone_db = (double)NAN,
                                  .isolated_db = (double)NAN,
                                  .channel_count = 3,
                                  .channel_low = low,
                                  .channel_high = high};
    return (struct qc_report){.version = "1",
                              .command = HOSTILE,
                              .model_file = "a/" HOSTILE,
                              .model_sha256 = "00",
                              .model_bytes = 4000,
                              .data_file = HOSTILE,
                              .data_sha256 = "11",
                              .data_samples = 3,
                              .data_total = 4,
                              .metric = "top1",
                              .eval_file = HOSTILE,
                              .fp32 = 0.9,
                              .int8 = 0.8,
                              .fp32_low = 0.85,
                              .fp32_high = 0.95,
                              .int8_low = 0.7,
                              .int8_high = 0.85,
                              .fp32_top5 = (double)NAN,
                              .int8_top5 = (double)NAN,
                              .eval_samples = 100,
                              .float_op_count = 1,
                              .float_ops = &op,
                              .warning_count = 1,
                              .warnings = texts,
                              .layer_count = 2,
                              .layers = layers,
                              .measured_samples = 3,
                              .output_count = 1,
                              .outputs = &output,
                              .suggestion_count = 1,
                              .suggestions = &suggestion,
                              .advice_state = QC_ADVICE_TRIED,
                              .advice_count = 1,
                              .advice_tried = 1,
                              .advice = &advice,
                              .node_count = 3,
                              .nodes = nodes,
                              .file_count = 1,
                              .files = texts,
                              .file_bytes = bytes,
                              .effect_count = 2,
                              .effects = effects,
                              .effect_samples = 7,
                              .fallback = &fallback};
}

static char *page(const struct qc_report *r)
{
    struct qc_status st = QC_STATUS_INIT;
    size_t size = 0;
    char *text = qc_report_html(&size, r, &st);
    cr_assert(text, "%s", st.message);
    cr_assert_eq(strlen(text), size, "a NUL is in the page");
    return text;
}

static bool is_void(const char *name, size_t n)
{
    static const char *const names[] = {"meta", "link", "br", "wbr", "input"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strlen(names[i]) == n && memcmp(names[i], name, n) == 0) return true;
    return false;
}

/* Every tag is closed in order, attributes are quoted; what is in style and script is skipped. */
static void check_tags(const char *s)
{
    struct {
        const char *name;
        size_t length;
    } open[64];
    size_t depth = 0;
    for (s = strchr(s, '\n'); (s = strchr(s, '<')); s++) {
        bool closes = s[1] == '/';
        const char *name = s + 1 + closes, *end = name;
        size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789");
        cr_assert(n > 0, "not a tag: %.40s", s);
        for (bool quoted = false; *end && (quoted || *end != '>'); end++) {
            if (*end == '"')
                quoted = !quoted;
            else
                cr_assert(*end != '<', "'<' in a tag: %.60s", s);
        }
        cr_assert(*end == '>', "a tag does not end: %.60s", s);
        if (closes) {
            cr_assert(depth > 0 && open[depth - 1].length == n && memcmp(open[depth - 1].name, name, n) == 0,
                      "closes what is not open: %.40s", s);
            depth--;
        } else if (end[-1] != '/' && !is_void(name, n)) {
            cr_assert_lt(depth, 64);
            open[depth].name = name;
            open[depth++].length = n;
            if (n == 5 && memcmp(name, "style", 5) == 0) end = strstr(end, "</style>") - 1;
            if (n == 6 && memcmp(name, "script", 6) == 0) end = strstr(end, "</script>") - 1;
        }
        s = end;
    }
    cr_expect_eq(depth, 0, "%zu tags stay open", depth);
}

static size_t times(const char *text, const char *what)
{
    size_t n = 0;
    for (; (text = strstr(text, what)); text++) n++;
    return n;
}

Test(report_html, hostile_names_are_text)
{
    struct qc_report r = hostile();
    char *text = page(&r);
    check_tags(text);
    cr_expect_eq(times(text, "</script>"), 1);
    cr_expect_eq(times(text, "<script>"), 1);
    cr_expect_eq(times(text, "<b onclick"), 0);
    cr_expect_eq(times(text, "\x01"), 0);
    cr_expect_eq(times(text, "\xff"), 0);
    cr_expect(times(text, "&lt;/script&gt;&lt;/title&gt;&lt;b onclick=&quot;x&quot;&gt;&amp;&#39;\\x01\\xff") > 10);
    cr_expect_eq(times(text, "nan") + times(text, "inf\""), 0);
    free(text);
}

Test(report_html, shows_what_was_measured)
{
    struct qc_report r = hostile();
    char *text = page(&r);
    cr_expect(strstr(text, "90.00 → 80.00 %") && strstr(text, "−10.00 points"));
    cr_expect(strstr(text, "95 % interval of int8: 70.00 to 85.00 %. fp32 lies outside it."));
    cr_expect(strstr(text, "3.9 KB → 1000 bytes"));
    cr_expect(strstr(text, "30.0 → <b>10.0 dB</b>"));
    cr_expect(strstr(text, "Objective of &lt;/script") && strstr(text, "threshold: the larger magnitude"));
    cr_expect(strstr(text, "Exact zeros are left out: 17."));
    cr_expect(strstr(text, "Least and largest weight of each channel."));
    cr_expect(strstr(text, "limit 32.") && strstr(text, " (0.62 dB less noise of the outputs than with mse); clipped"));
    free(text);
}

/* Where the chart of the curve has its choice: pixels across. */
static double choice_at(const char *text)
{
    const char *chart = strstr(text, "What the solver saw"), *line = NULL;
    cr_assert(chart && (line = strstr(chart, "class=\"limit\" d=\"M")), "no chart, or no choice on it");
    cr_assert(strstr(line, "<circle class=\"dot\"") && strstr(line, "<circle class=\"dot\"") < strstr(line, "</svg>"));
    return atof(line + strlen("class=\"limit\" d=\"M"));
}

Test(report_html, a_curve_has_the_choice_on_it_wherever_it_is)
{
    static const double chosen[] = {0.5, 1, 2.5, 3, 4};
    struct qc_report r = hostile();
    struct qc_layer layers[2] = {r.layers[0], r.layers[1]};
    double before = 0;
    r.layers = layers;
    layers[0].chosen_min = -0.25;
    for (size_t i = 0; i < sizeof chosen / sizeof *chosen; i++) {
        layers[0].chosen_max = chosen[i];
        char *text = page(&r);
        double at = choice_at(text);
        cr_expect(at >= 46 && at <= 320 && at > before, "%g lies at %g", chosen[i], at);
        cr_expect(strstr(text, "dotted: ranges that are not admitted"));
        before = chosen[i] < 1 || chosen[i] >= 3 ? 0 : at; /* the axis grows */
        free(text);
    }
    layers[0].chosen_max = 2;
    layers[0].solver.curve_count = 1;
    char *text = page(&r);
    cr_expect(!strstr(text, "What the solver saw") && !strstr(text, "for the ranges that the solver tried"),
              "a grid without a curve");
    free(text);
}

Test(report_html, shows_the_path_of_a_demand)
{
    struct qc_report r = hostile();
    struct qc_report_fallback missed = *r.fallback;
    char *text = page(&r);
    cr_expect(strstr(text, "How the demand was met: at most 12 points lost") && strstr(text, "by-hand"));
    cr_expect(
        strstr(text, ">50.00</td><td class=\"n\">40.00</td><td class=\"n\">100.0</td><td class=\"name\">missed<"));
    cr_expect(strstr(text, "not possible: &lt;/script"));
    cr_expect(strstr(
        text,
        ">80.00</td><td class=\"n\">10.00</td><td class=\"n\">93.8</td><td class=\"name\"><b>met, and written</b>"));
    cr_expect(strstr(text, "on 7 samples if only the inputs and weights of this layer") &&
              strstr(text, ">12.50</td><td class=\"n\">–<"));
    free(text);
    missed.met = false;
    missed.command = NULL;
    r.fallback = &missed;
    r.metric = "psnr";
    text = page(&r);
    cr_expect(strstr(text, "The demand was not met: at most 12 dB lost") && !strstr(text, "by-hand") &&
              strstr(text, ">0.50</td><td class=\"n\">40.00<"));
    free(text);
    r.fallback = NULL;
    r.effect_count = 0;
    text = page(&r);
    cr_expect(!strstr(text, "demand") && !strstr(text, "if only the inputs"));
    free(text);
}

Test(report_html, shows_latencies_where_they_were_measured)
{
    static const struct qc_report_latency_step steps[] = {
        {.group = HOSTILE,
         .op_count = 3,
         .to_float = true,
         .before_ms = 8,
         .after_ms = 6.5,
         .sqnr_db = 31,
         .kept = true},
        {.group = "Gemm", .op_count = 1, .before_ms = (double)NAN, .after_ms = (double)NAN, .reason = "no room"}};
    struct qc_report_latency latency = {.command = "cmd " HOSTILE " {}",
                                        .float_ms = 12.5,
                                        .default_ms = 8,
                                        .integers_ms = 9.5,
                                        .best_ms = 6.5,
                                        .step_count = 2,
                                        .steps = steps,
                                        .left = 4};
    struct qc_report r = hostile();
    char *text = page(&r);
    cr_expect(!strstr(text, "Latency") && !strstr(text, "Placement by latency"));
    free(text);
    r.latency = &latency;
    text = page(&r);
    cr_expect(strstr(text, "Float 12.5 ms, default 8 ms, everything in integers 9.5 ms. Measured by <code>cmd &lt;/"));
    cr_expect(strstr(text, "Placement by latency: 1 of 2 changes kept") && strstr(text, "4 more groups"));
    cr_expect(strstr(text,
                     ">3</td><td>float</td><td class=\"n\">8</td><td class=\"n\">6.5</td><td class=\"n\">31.00</td><td "
                     "class=\"name\"><b>kept"));
    cr_expect(strstr(text, "not possible: no room"));
    free(text);
    latency.float_ms = (double)NAN;
    latency.reverted = true;
    text = page(&r);
    cr_expect(strstr(text, "\"note\">Default 8 ms, everything") && strstr(text, "gain nothing over the default"));
    free(text);
}

static size_t placement_marks(const char *text, const char *css)
{
    char mark[64];
    snprintf(mark, sizeof mark, "<path class=\"%s\" d=\"M", css);
    return times(text, mark);
}

/* The y of the steps of the frontier, which begins at the fastest placement on it. */
static bool frontier_reaches(const char *text, size_t steps)
{
    const char *chart = strstr(text, "<title>SQNR of the outputs over latency"),
               *line = chart ? strstr(chart, "<path class=\"line\" d=\"M") : NULL,
               *end = line ? strstr(line, "/>") : NULL;
    size_t seen = 0;
    for (const char *c = line; end && c < end; c++) seen += *c == 'H';
    return end && seen == steps;
}

Test(report_html, plots_the_error_of_placements_over_their_latency)
{
    static const struct qc_report_latency_step steps[] = {
        {.group = "Conv",
         .op_count = 3,
         .to_float = true,
         .before_ms = 8,
         .after_ms = 6.5,
         .sqnr_db = 31,
         .kept = true},
        {.group = "Add", .op_count = 1, .before_ms = 6.5, .after_ms = 9, .sqnr_db = 25}, /* beaten */
        {.group = "Gemm",
         .op_count = 1,
         .before_ms = (double)NAN,
         .after_ms = (double)NAN,
         .sqnr_db = (double)NAN,
         .reason = "no room"}};
    struct qc_report_latency latency = {.command = "cmd {}",
                                        .float_ms = 12.5,
                                        .default_ms = 8,
                                        .default_db = 30.25,
                                        .integers_ms = 9.5,
                                        .integers_db = 28,
                                        .best_ms = 6.25,
                                        .best_db = 31.5,
                                        .step_count = 3,
                                        .steps = steps};
    struct qc_report r = hostile();
    r.latency = &latency;
    char *text = page(&r);
    cr_expect_eq(placement_marks(text, "tried"), 2); /* the one that was not made has no place */
    for (int i = 0; i < 4; i++)
        cr_expect_eq(placement_marks(text, (const char *[]){"dot", "dot2", "dot3", "dot4"}[i]), 2, "plot and table");
    cr_expect(frontier_reaches(text, 1), "what is written, and float");
    cr_expect(strstr(text, "Default</td><td class=\"n\">8</td><td class=\"n\">30.25</td>"));
    cr_expect(strstr(text, "Float</td><td class=\"n\">12.5</td><td class=\"n\">no error</td>"));
    free(text);
    latency.default_db = 40; /* slower than what is written, but nearer to float */
    text = page(&r);
    cr_expect(frontier_reaches(text, 2));
    free(text);
    latency.default_db = latency.integers_db = latency.best_db = (double)NAN; /* no samples */
    latency.step_count = 0;
    text = page(&r);
    cr_expect(!strstr(text, "SQNR of the outputs over latency") && placement_marks(text, "dot") == 1);
    free(text);
}

Test(report_html, needs_nothing_from_elsewhere_and_knows_no_time)
{
    struct qc_report r = hostile(), later = hostile();
    later.total_seconds = later.collect_seconds = 77;
    later.workers = 9;
    later.worker_bytes = later.statistics_bytes = 12345;
    char *text = page(&r), *other = page(&later);
    cr_expect_str_eq(text, other);
    cr_expect_eq(times(text, "http://") + times(text, "https://") + times(text, "src=") + times(text, "@import") +
                     times(text, "url("),
                 0);
    free(text);
    free(other);
}

Test(report_html, of_nothing_is_a_page_too)
{
    struct qc_report r = {.version = "1",
                          .command = "qcalib",
                          .model_file = "m.onnx",
                          .model_sha256 = "00",
                          .data_file = "d.h5",
                          .data_sha256 = "11"};
    char *text = page(&r);
    check_tags(text);
    cr_expect(strstr(text, "No layer was measured.") && strstr(text, "Nothing was measured"));
    free(text);
    r.measured_samples = 3;
    text = page(&r);
    cr_expect(strstr(text, "No op adds error"));
    free(text);
}

/* What is packed is seen in tests/browser. */
Test(report_html, of_many_layers_is_packed)
{
    enum { MANY = 1001, PIECES = 16, PARTS = 4 };
    static struct qc_layer layers[MANY];
    struct qc_report r = hostile();
    for (size_t i = 0; i < MANY; i++) layers[i] = r.layers[0];
    r.layers = layers;
    r.layer_count = MANY - 1;
    char *text = page(&r);
    cr_expect_eq(times(text, "class=\"packed\""), 0);
    cr_expect_eq(times(text, "<details><summary><span"), MANY - 1);
    free(text);
    r.layer_count = MANY;
    text = page(&r);
    check_tags(text);
    cr_expect_eq(times(text, "<script type=\"text/plain\" class=\"packed\">"), PARTS + PIECES);
    cr_expect_eq(times(text, "<details><summary><span"), 0);
    cr_expect(strlen(text) < 200000, "%zu", strlen(text));
    free(text);
}

Test(report_html, ticks_are_round_and_inside)
{
    static const double cases[][2] = {{0, 1}, {-1e-7, 3e-7}, {-12.5, 200}, {99.1, 99.4}, {0, 1e9}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double first, step, lo = cases[i][0], hi = cases[i][1];
        qc_html_ticks(&first, &step, lo, hi, 5);
        double part = step / pow(10, floor(log10(step) + 1e-9));
        cr_expect(fabs(part - 1) < 1e-6 || fabs(part - 2) < 1e-6 || fabs(part - 5) < 1e-6, "step %g", step);
        cr_expect(first >= lo - step * 1e-6 && first < lo + step && (hi - lo) / step <= 5 + 1e-9);
    }
}

/* An equal layer, one that is apart, one that is real. */
static struct qc_compared compared(void)
{
    static const struct qc_compared_layer layers[3] = {{.name = HOSTILE,
                                                        .op = "Conv",
                                                        .by_name = true,
                                                        .sqnr_db = (double)INFINITY,
                                                        .cosine = 1,
                                                        .elements = 1000,
                                                        .steps = {1000}},
                                                       {.name = "second",
                                                        .op = HOSTILE,
                                                        .mse = 0.25,
                                                        .sqnr_db = 20,
                                                        .cosine = 0.99,
                                                        .max_abs = 2,
                                                        .elements = 1000,
                                                        .differing = 111,
                                                        .max_steps = 5,
                                                        .steps = {889, 100, 10, 1}},
                                                       {.name = NULL,
                                                        .op = "Softmax",
                                                        .sqnr_db = 18,
                                                        .cosine = 0.98,
                                                        .elements = 10,
                                                        .differing = 10,
                                                        .max_steps = (double)NAN}};
    static const struct qc_compared_output outputs[2] = {
        {.name = HOSTILE, .sqnr_db = 12.5, .cosine = 0.9, .max_abs = 3, .elements = 10, .differing = 7},
        {.name = "index", .sqnr_db = (double)NAN, .cosine = (double)NAN, .max_abs = (double)NAN, .elements = 4}};
    return (struct qc_compared){.version = "1",
                                .command = HOSTILE,
                                .file = {"x/" HOSTILE, "y/" HOSTILE},
                                .sha256 = {"00", "11"},
                                .rounding = {"onnx", "tflite"},
                                .contracts = true,
                                .data_file = HOSTILE,
                                .data_sha256 = "22",
                                .samples = 3,
                                .tolerance = 2,
                                .output_count = 2,
                                .outputs = outputs,
                                .layer_count = 3,
                                .layers = layers};
}

static char *comparison(const struct qc_compared *c)
{
    struct qc_status st = QC_STATUS_INIT;
    size_t size = 0;
    char *text = qc_comparison_html(&size, c, &st);
    cr_assert(text, "%s", st.message);
    cr_assert_eq(strlen(text), size);
    check_tags(text);
    return text;
}

Test(comparison_html, shows_what_was_compared_whatever_the_names)
{
    struct qc_compared c = compared();
    char *text = comparison(&c);
    cr_expect_eq(times(text, "</script>"), 1);
    cr_expect_eq(times(text, "<b onclick"), 0);
    cr_expect_eq(times(text, "nan") + times(text, "inf\"") + times(text, "http:") + times(text, "https:"), 0);
    cr_expect(strstr(text, "12.50 dB") &&
              strstr(text, "; 7 of 10 elements differ. The tolerance 2 is <b class=\"bad\">exceeded</b>"));
    cr_expect(strstr(text, "<b>onnx</b>") && strstr(text, "<b>tflite</b>") &&
              strstr(text, "How differences between the two contracts grow"));
    cr_expect(strstr(text, "1 <small>of 3</small>") &&
              strstr(text, "The first that differs: <a class=\"name\" href=\"#L2\">second</a>"));
    cr_expect(strstr(text, "Furthest apart: <a class=\"name\" href=\"#L3\">(no name)</a> (Softmax) 18.00 dB, <a "
                           "class=\"name\" href=\"#L2\">"));
    cr_expect(strstr(text, "889 elements 0 steps apart, 100 elements 1 step apart, 10 elements 2 steps apart, 1 "
                           "element 3 or more steps apart"));
    cr_expect(strstr(text, "second: 1 step or more: 11.10 %, 2 steps or more: 1.10 %, 3 steps or more: 0.10 %"),
              "shares add up from above");
    free(text);
}

Test(comparison_html, of_equal_graphs_has_no_plots)
{
    struct qc_compared c = compared();
    struct qc_compared_output same = c.outputs[0];
    same.differing = 0;
    same.sqnr_db = (double)INFINITY;
    same.max_abs = 0;
    c.outputs = &same;
    c.output_count = c.layer_count = 1;
    c.contracts = false;
    char *text = comparison(&c);
    cr_expect(strstr(text, "bit for bit") && strstr(text, "No layer differs.") && !strstr(text, "along the network"));
    free(text);
}

Test(report_html, isolated_error_is_drawn_where_it_was_measured)
{
    struct qc_report r = hostile();
    char *with = page(&r);
    struct qc_layer layers[2] = {r.layers[0], r.layers[1]};
    layers[0].isolated_db = (double)NAN;
    r.layers = layers;
    char *without = page(&r);
    cr_expect(strstr(with, "isolated: of the output") && strstr(with, "isolated 35.00 dB") &&
              !strstr(without, "isolated"));
    free(with);
    free(without);
}

Test(report_html, accuracy_of_layers_where_there_are_labels)
{
    struct qc_report r = hostile();
    struct qc_report_effect effects[2] = {
        {.node = "a", .op = "Conv", .sqnr_db = 12.5, .weights_sqnr_db = 14, .metric = 0.75, .lost = 5.25},
        {.node = "b", .op = "Conv", .sqnr_db = 60, .weights_sqnr_db = 61, .metric = 0.8125, .lost = -0.5}};
    char *without = page(&r);
    r.effects = effects;
    r.eval_samples = 11;
    char *text = page(&r);
    check_tags(text);
    cr_expect(strstr(
        text,
        "Top-1 accuracy and its loss on 11 samples, and SQNR of the outputs on 7, if only the inputs and weights"));
    cr_expect(strstr(text, "top-1, %</th><th class=\"n\">lost, points</th><th class=\"n\">SQNR, dB</th>") &&
              !strstr(without, "its loss"));
    cr_expect(strstr(
        text,
        "<td class=\"n\">75.00</td><td class=\"n\">5.25</td><td class=\"n\">12.50</td><td class=\"n\">14.00</td>"));
    cr_expect(strstr(text, "<td class=\"n\">81.25</td><td class=\"n\">−0.50</td>"));
    free(text);
    r.metric = "psnr";
    effects[0].metric = 30.25;
    text = page(&r);
    cr_expect(strstr(text, "PSNR and its loss on 11 samples") &&
              strstr(text, "PSNR, dB</th><th class=\"n\">lost, dB</th>") &&
              strstr(text, "<td class=\"n\">30.25</td><td class=\"n\">5.25</td>"));
    free(text);
    free(without);
}

Test(report_html, rounding_of_weights_and_narrow_accumulators)
{
    static const struct qc_report_rounding compensated = {.method = "compensated",
                                                          .judged = true,
                                                          .held = true,
                                                          .outputs = 8,
                                                          .nearest_outputs = 2,
                                                          .error_nearest = 0.5,
                                                          .error = 0.125,
                                                          .bias_corrected = true,
                                                          .bias_rms = 0.01,
                                                          .bias_max = 0.03},
                                           nearest = {.method = "nearest", .reason = HOSTILE};
    static const struct qc_report_overflow over = {.name = HOSTILE, .bits = 18, .overflows = 5, .results = 4000};
    struct qc_report_accumulator narrow = {.bits = 14,
                                           .overflow = "wrap",
                                           .bound = "seen",
                                           .file = "d/test.h5",
                                           .samples = 6,
                                           .layer_count = 1,
                                           .layers = &over,
                                           .scales_raised = 3,
                                           .channels_bounded = 1};
    struct qc_report r = hostile();
    struct qc_layer layers[2] = {r.layers[0], r.layers[1]};
    r.layers = layers;
    layers[1].rounding = &compensated;
    layers[1].scales_raised = 3;
    layers[1].scale_raise_max = 1.5;
    r.accumulator = &narrow;
    char *text = page(&r);
    check_tags(text);
    cr_expect(strstr(text, "compensated; mean squared error of its output, on held-out samples: 0.5 to the nearest, "
                           "now 0.125 (2 of 8 outputs stay nearest)"));
    cr_expect(strstr(text, "by 0.01 (root mean square), 0.03 at most") &&
              strstr(text, "3 scales raised, by a factor of 1.5 at most"));
    cr_expect(strstr(text, "Accumulators of 14 bits") &&
              strstr(text, "<td class=\"n\">4000</td><td class=\"n\">5</td><td class=\"n\">18</td>") &&
              strstr(text, "limit 14."));
    cr_expect(
        strstr(text, "3 scales of weights were raised, and 1 output channel rounded to nearest or corrected in part"));
    cr_expect(strstr(text, "<b>5</b> of 4000 results overflowed in the 1 layer that can"));
    free(text);
    layers[1].rounding = &nearest;
    layers[1].scales_raised = 0;
    narrow.samples = 0;
    r.measured_samples = 0;
    r.metric = NULL;
    text = page(&r);
    check_tags(text);
    cr_expect(strstr(text, "nearest: &lt;/script&gt;") && !strstr(text, "bias corrected") &&
              strstr(text, "not known without samples") && strstr(text, "not measured"));
    free(text);
}
