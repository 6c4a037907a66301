// SPDX-License-Identifier: Apache-2.0
/* The record of a job on the shipped example has the figures of its network and its measurement, and knows no time
   outside of "timing". Its form is checked by the schema (tests/e2e/test_report_schema.py). */
#include "graph/core/parameters.h"
#include "quantize/job.h"
#include "quantize/report/record.h"
#include "tests/check.h"

#define MODEL QC_TEST_SOURCE "/datasets/digits_cnn.onnx"
#define DATA QC_TEST_SOURCE "/datasets/digits_calib.h5"

struct recorded {
    struct qc_arena *arena;
    struct qc_options options;
    struct qc_job_inputs in;
    struct qc_job *job;
    struct qc_json *record;
};

static void run(struct recorded *s, const char *threads)
{
    *s = (struct recorded){.arena = qc_arena_new(), .in = {.model = {.file = MODEL}, .data = {.file = DATA}}};
    MUST(qc_options_init(&s->options, QC_COMMAND_quantize, s->arena, ST) &&
         qc_options_set(&s->options, QC_OPTION_SAMPLES, "48", ST) &&
         qc_options_set(&s->options, QC_OPTION_ADVICE, "off", ST) &&
         qc_options_set(&s->options, QC_OPTION_PREFER, "integers", ST) &&
         qc_options_set(&s->options, QC_OPTION_THREADS, threads, ST));
    MUST(qc_job_new(&s->job, &s->options, &s->in, NULL, ST) && qc_job_run(s->job, ST) &&
         qc_job_record(&s->record, s->job, ST));
}

static void end(struct recorded *s)
{
    qc_json_free(s->record);
    qc_job_free(s->job);
    qc_arena_free(s->arena);
}

static double nth(const struct qc_json *v, size_t i)
{
    return qc_json_value(qc_json_kind(v) == QC_JSON_ARRAY ? qc_json_at(v, i) : v);
}

Test(record, has_the_parameters_of_the_network)
{
    struct recorded s;
    run(&s, "1");
    const struct qc_network *net = qc_job_network(s.job);
    const struct qc_json *layers = qc_json_get(s.record, "layers");
    size_t weights = 0;
    cr_assert_gt(qc_json_size(layers), 10);
    for (size_t i = 0; i < qc_json_size(layers); i++) {
        const struct qc_json *l = qc_json_at(layers, i);
        const char *name = qc_json_find_text(l, "name");
        const struct qc_qparams *q = NULL;
        qc_id id = 0;
        for (qc_id k = 1; k <= net->folded->qparams_count && !q; k++)
            if (net->folded->qparams_of[k].name && strcmp(net->folded->qparams_of[k].name, name) == 0)
                q = &net->folded->qparams_of[id = k];
        cr_assert(q, "%s", name);
        const struct qc_choice *c = &net->calibration->choices[id];
        for (size_t k = 0; k < q->count; k++) {
            cr_expect_eq((float)nth(qc_json_get(l, "scale"), k), q->scale[k], "%s", name);
            cr_expect_eq((int)nth(qc_json_get(l, "zero_point"), k), q->zero_point[k], "%s", name);
        }
        cr_expect_str_eq(qc_json_find_text(l, "type"), qc_dtype_info(q->dtype)->name);
        HOLD(strcmp(qc_json_find_text(l, "method"), c->method) == 0,
             qc_json_find_number(l, "chosen.min") == c->range.lo, qc_json_find_number(l, "chosen.max") == c->range.hi,
             qc_json_find_number(l, "clipped_fraction") == c->range.clipped_fraction,
             (float)qc_json_find_number(l, "observed.max") == c->seen.max,
             (uint64_t)qc_json_find_number(l, "observed.count") == c->seen.count);
        weights += strcmp(qc_json_find_text(l, "kind"), "weight") == 0;
        cr_expect_eq(q->is_weight, strcmp(qc_json_find_text(l, "kind"), "weight") == 0);
        const double own = qc_json_find_number(l, "sqnr_db"), alone = qc_json_find_number(l, "sqnr_alone_db");
        cr_expect(q->is_weight ? isnan(own) : own > 10, "%s", name);
        cr_expect(alone > 10 && alone != own, "%s: %.2f dB alone", name, alone);
        cr_expect_eq(qc_json_size(qc_json_find(l, "histogram.counts")), 64);
        if (!q->is_weight) continue;
        double sum = 0;
        for (size_t k = 0; k < 64; k++) sum += nth(qc_json_find(l, "histogram.counts"), k);
        cr_expect_eq(sum + qc_json_find_number(l, "histogram.zeros"), (double)c->seen.count, "%s", name);
    }
    cr_expect_gt(weights, 3);
    cr_expect_eq(qc_json_find_number(s.record, "data.samples"), 48);
    cr_expect_gt(qc_json_find_number(s.record, "quantized_ops"), 3);
    cr_expect_eq(qc_json_kind(qc_json_get(s.record, "accuracy")), QC_JSON_NULL);
    end(&s);
}

Test(record, lists_no_scales_in_the_millions)
{
    enum { MANY = 16385 };
    static float scale[MANY];
    static int32_t zero[MANY];
    struct recorded s;
    run(&s, "1");
    struct qc_report r = *qc_job_report(s.job);
    struct qc_layer layer = r.layers[0];
    for (size_t i = 0; i < MANY; i++) scale[i] = 1 + (float)(i * 7919 % MANY), zero[i] = (int32_t)(i % 16);
    layer.stored.scale = scale;
    layer.stored.zero_point = zero;
    layer.stored.axis = 0;
    r.layers = &layer;
    r.layer_count = 1;
    for (layer.stored.count = MANY - 1; layer.stored.count <= MANY; layer.stored.count++) {
        MUST(qc_record_layers(&r, qc_job_network(s.job), NULL, ST));
        const struct qc_json *one = qc_json_at(qc_json_get(r.record, "layers"), 0);
        if (layer.stored.count < MANY) {
            cr_expect_eq(qc_json_size(qc_json_get(one, "scale")), layer.stored.count);
        } else {
            cr_expect(qc_json_find_number(one, "scale.count") == MANY && qc_json_find_number(one, "scale.min") == 1 &&
                      qc_json_find_number(one, "scale.max") == MANY);
            cr_expect(qc_json_find_number(one, "zero_point.min") == 0 &&
                      qc_json_find_number(one, "zero_point.max") == 15);
        }
    }
    end(&s);
}

static char *text_without_timing(struct recorded *s)
{
    qc_json_set(s->record, "timing", qc_json_null());
    return qc_json_print(s->record, 1);
}

Test(record, depends_on_threads_only_under_timing)
{
    struct recorded one, three;
    run(&one, "1");
    run(&three, "3");
    qc_json_set(one.record, "options", qc_json_null());
    qc_json_set(three.record, "options", qc_json_null());
    qc_json_set(one.record, "command", qc_json_null());
    qc_json_set(three.record, "command", qc_json_null());
    char *a = text_without_timing(&one), *b = text_without_timing(&three);
    cr_assert(a && b);
    cr_expect_str_eq(a, b);
    free(a);
    free(b);
    end(&one);
    end(&three);
}
