// SPDX-License-Identifier: Apache-2.0
/* Demands on the result, and the search for the fewest layers with wider types that meet them. */
#include "graph/text/text.h"
#include "quantize/search/attempts.h"
#include "quantize/search/searches.h"
#include "tests/check.h"
#include "tests/quantize/made_network.h"

#define MODEL QC_TEST_SOURCE "/datasets/digits_cnn.onnx"
#define DATA QC_TEST_SOURCE "/datasets/digits_calib.h5"

enum { EVERY_BATCH = 1000 };

static const double none = (double)NAN;

Test(demand, is_met_where_every_part_of_it_holds)
{
    static const struct {
        double max_drop, min_sqnr, max_nll; /* demanded */
        double value, sqnr_db, nll;         /* measured; top-1 in float is 0.9 */
        bool met;
    } rows[] = {
        {none, none, none, 0.1, none, none, true},
        {0.5, none, none, 0.9, none, none, true},
        {0.5, none, none, 0.89, none, none, false},
        {1.5, none, none, 0.89, none, none, true},
        {none, 30, none, 0.1, 30, none, true},
        {none, 30, none, 0.9, 29.9, none, false},
        {none, 30, none, 0.9, none, none, false},
        {none, none, 2, 0.9, none, 2, true},
        {none, none, 2, 0.9, none, 2.01, false},
        {none, none, 2, 0.9, none, none, false},
        {0.5, 30, 2, 0.9, 31, 1, true},
        {0.5, 30, 2, 0.8, 31, 1, false},
        {0.5, 30, 2, 0.9, 29, 1, false},
        {0.5, 30, 2, 0.9, 31, 3, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct qc_demand d = FIELDS(.max_drop = rows[i].max_drop, .min_sqnr = rows[i].min_sqnr,
                                          .max_nll = rows[i].max_nll, .fp32 = {.kind = QC_METRIC_TOP1, .value = 0.9});
        const struct qc_standing s =
            FIELDS(.metric = {.kind = QC_METRIC_TOP1, .value = rows[i].value, .nll = rows[i].nll},
                   .sqnr_db = rows[i].sqnr_db, .output = "y");
        struct qc_status st = QC_STATUS_INIT;
        bool drop;
        cr_expect_eq(qc_demand_met(&d, &s), rows[i].met, "row %zu", i);
        cr_expect_eq(qc_demand_check(&drop, &d, &s, &st), rows[i].met, "row %zu: %s", i, st.message);
        cr_expect_eq(st.code, rows[i].met ? QC_OK : QC_DEMAND, "row %zu", i);
        cr_expect(!drop || strstr(st.message, "--max-drop"), "row %zu: %s", i, st.message);
    }
}

struct searched {
    struct qc_arena *arena;
    struct qc_options options;
    struct qc_job_inputs in;
    struct made_network m;
    struct qc_demand demand;
    struct qc_standing before, after;
    struct qc_json *path;
    char *was, *is; /* the produced graph */
};

static char *produced(const struct qc_network *net)
{
    const struct qc_text_options all = QC_TEXT_ALL;
    return qc_graph_print(net->produced, &all, ST);
}

/* `more` dB are demanded beyond what the network has without help. */
static void search(struct searched *s, double more, enum qc_option option, const char *value)
{
    OWN(qc_sensitivity) *effects = NULL;
    *s = (struct searched){.arena = qc_arena_new(), .in = {.model = {.file = MODEL}, .data = {.file = DATA}}};
    MUST(qc_options_init(&s->options, QC_COMMAND_quantize, s->arena, ST) &&
         qc_options_set(&s->options, QC_OPTION_SAMPLES, "24", ST) &&
         qc_options_set(&s->options, QC_OPTION_THREADS, "1", ST) &&
         qc_options_set(&s->options, QC_OPTION_METHOD, "minmax", ST) &&
         qc_options_set(&s->options, QC_OPTION_MIN_SQNR, "0", ST) && qc_options_set(&s->options, option, value, ST));
    MUST(make_network(&s->m, &s->options, &s->in, NULL, ST));
    MUST(qc_demand_begin(&s->demand, s->m.c, ST) && qc_demand_measure(&s->before, &s->demand, ST));
    MUST(qc_measure_sensitivity(&effects, s->m.c->network, NULL, EVERY_BATCH, NULL, ST));
    qc_sensitivity_sort(effects, QC_EFFECTS_BY_NOISE);
    s->was = produced(s->m.c->network);
    s->demand.min_sqnr = s->before.sqnr_db + more;
    s->after = s->before;
    MUST(qc_fall_back(&s->path, &s->after, &s->demand, effects, ST));
    s->is = produced(s->m.c->network);
}

static void end(struct searched *s)
{
    qc_json_free(s->path);
    free(s->was);
    free(s->is);
    qc_demand_end(&s->demand);
    free_network(&s->m);
    qc_arena_free(s->arena);
}

static bool is(const struct qc_json *v, const char *key)
{
    return qc_json_find_number(v, key) > 0;
}

static double number(const struct qc_json *v, const char *key)
{
    return qc_json_find_number(v, key);
}

static const struct qc_json *chosen(const struct qc_json *path)
{
    const struct qc_json *found = NULL, *steps = qc_json_get(path, "steps");
    for (size_t i = 0; i < qc_json_size(steps); i++)
        if (is(qc_json_at(steps, i), "chosen")) {
            cr_expect_null(found, "two steps are chosen");
            found = qc_json_at(steps, i);
        }
    return found;
}

Test(fallback, takes_the_fewest_layers_that_do)
{
    struct searched s;
    struct qc_standing again = {0};
    search(&s, 3, QC_OPTION_TARGET, "fused");
    const struct qc_json *c = chosen(s.path), *steps = qc_json_get(s.path, "steps"),
                         *options = qc_json_get(s.path, "options");
    cr_assert(is(s.path, "met") && c && is(c, "met"), "3 dB more need wider types somewhere");
    cr_expect_geq(s.after.sqnr_db, s.demand.min_sqnr);
    MUST(qc_demand_measure(&again, &s.demand, ST));
    cr_expect_float_eq(again.sqnr_db, s.after.sqnr_db, 1e-12, "the candidate is in the state that was measured");
    cr_expect_str_neq(s.is, s.was);
    const double taken = number(c, "layers");
    bool fewer = taken <= 1;
    for (size_t i = 0; i < qc_json_size(steps); i++) {
        const struct qc_json *step = qc_json_at(steps, i);
        const double layers = number(step, "layers");
        const bool same = i && strcmp(qc_json_find_text(step, "type"), qc_json_find_text(c, "type")) == 0;
        cr_expect(!same || !is(step, "met") || layers >= taken, "%g layers do, %g are taken", layers, taken);
        cr_expect_eq(is(step, "met"), number(step, "sqnr_db") >= s.demand.min_sqnr);
        fewer = fewer || (same && layers >= taken - 1 && layers < taken && !is(step, "met"));
    }
    cr_expect(fewer, "nobody looked whether one layer fewer does");
    cr_expect_leq((double)qc_json_size(options), taken);
    const char *command = qc_json_find_text(s.path, "command");
    cr_expect(qc_json_size(options) && command && strstr(command, qc_json_text(qc_json_at(options, 0))), "%s", command);
    end(&s);
}

static double price(const struct searched *s, const struct qc_json *step)
{
    const double bytes = (double)s->m.c->setup->model.graph->budget.model_bytes;
    return number(step, "cost.latency") + QC_PRICE_OF_BYTES * number(step, "cost.bytes") / bytes;
}

Test(fallback, takes_the_cheapest_of_all_that_do)
{
    static const char *const targets[] = {"fused", "ort"};
    for (size_t k = 0; k < 2; k++) {
        struct searched s;
        size_t met = 0;
        search(&s, 3, QC_OPTION_TARGET, targets[k]);
        const struct qc_json *c = chosen(s.path), *steps = qc_json_get(s.path, "steps");
        cr_assert(c, "%s", targets[k]);
        for (size_t i = 0; i < qc_json_size(steps); i++) {
            const struct qc_json *step = qc_json_at(steps, i);
            cr_expect(!is(step, "met") || price(&s, step) >= price(&s, c), "%s: %g layers in %s", targets[k],
                      number(step, "layers"), qc_json_find_text(step, "type"));
            met += is(step, "met");
        }
        /* ONNX Runtime computes this network faster in float: the first layer there takes all others with it */
        cr_expect_gt(met, strcmp(targets[k], "ort") == 0 ? 0 : 1, "%s: there is nothing to compare", targets[k]);
        end(&s);
    }
}

Test(fallback, leaves_the_network_as_it_was_where_nothing_does)
{
    struct searched s;
    search(&s, 500, QC_OPTION_REQUIRE_INTEGER, NULL);
    const struct qc_json *steps = qc_json_get(s.path, "steps");
    cr_expect(!is(s.path, "met") && !chosen(s.path) && !qc_json_size(qc_json_get(s.path, "options")) &&
              !qc_json_find(s.path, "command"));
    cr_expect_gt(qc_json_size(steps), 1, "nothing was tried");
    for (size_t i = 1; i < qc_json_size(steps); i++)
        cr_expect_str_eq(qc_json_find_text(qc_json_at(steps, i), "type"), "16 bits");
    cr_expect_str_eq(s.is, s.was);
    cr_expect_float_eq(s.after.sqnr_db, s.before.sqnr_db, 1e-12);
    end(&s);
}
