// SPDX-License-Identifier: Apache-2.0
/* --method auto: the reported trials, and the chosen observer. */
#include "graph/text/text.h"
#include "quantize/job.h"
#include "tests/check.h"

#define MODEL QC_TEST_SOURCE "/datasets/digits_cnn.onnx"
#define DATA QC_TEST_SOURCE "/datasets/digits_calib.h5"

struct chosen {
    struct qc_arena *arena;
    struct qc_options options;
    struct qc_job_inputs in;
    struct qc_job *job;
    const struct qc_auto_method *found; /* NULL: no trials */
    char *produced;
};

static void run(struct chosen *s, const char *method, const char *threads, const char *activations)
{
    const struct qc_text_options all = QC_TEXT_ALL;
    *s = (struct chosen){.arena = qc_arena_new(), .in = {.model = {.file = MODEL}, .data = {.file = DATA}}};
    MUST(qc_options_init(&s->options, QC_COMMAND_quantize, s->arena, ST) &&
         qc_options_set(&s->options, QC_OPTION_SAMPLES, "48", ST) &&
         qc_options_set(&s->options, QC_OPTION_ADVICE, "off", ST) &&
         qc_options_set(&s->options, QC_OPTION_METHOD, method, ST) &&
         qc_options_set(&s->options, QC_OPTION_ACTIVATION_TYPE, activations, ST) &&
         qc_options_set(&s->options, QC_OPTION_THREADS, threads, ST));
    MUST(qc_job_new(&s->job, &s->options, &s->in, NULL, ST) && qc_job_run(s->job, ST));
    s->found = qc_job_network(s->job)->auto_method;
    MUST(s->produced = qc_graph_print(qc_job_network(s->job)->produced, &all, ST));
}

static void end(struct chosen *s)
{
    free(s->produced);
    qc_job_free(s->job);
    qc_arena_free(s->arena);
}

/* Of 4 bits, where ranges matter most. */
static const char *const few_bits = "uint4", *const usual = "uint8";

Test(auto_method, takes_what_gains_most_beyond_luck)
{
    for (int few = 0; few < 2; few++) {
        struct chosen s;
        run(&s, "auto", "1", few ? few_bits : usual);
        const struct qc_auto_method *r = s.found;
        cr_assert_gt(r->trial_count, 1, "one observer is no choice");
        cr_expect_str_eq(r->trials[0].method, "mse");
        size_t chosen = 0, best = 0;
        for (size_t i = 0; i < r->trial_count; i++) {
            chosen += r->trials[i].chosen;
            if (r->trials[i].worth_db > r->trials[best].worth_db) best = i;
            cr_expect_leq(r->trials[i].samples, 48);
            for (size_t k = 0; k < i; k++) cr_expect_str_neq(r->trials[i].method, r->trials[k].method);
        }
        cr_expect_eq(chosen, 1);
        cr_expect(r->trials[best].chosen, "%s is worth most, and not taken", r->trials[best].method);
        cr_expect_geq(r->trials[best].worth_db, 0);
        end(&s);
    }
}

Test(auto_method, does_not_depend_on_threads)
{
    struct chosen one, three;
    run(&one, "auto", "1", few_bits);
    run(&three, "auto", "3", few_bits);
    cr_expect_str_eq(one.produced, three.produced);
    cr_assert_eq(one.found->trial_count, three.found->trial_count);
    for (size_t i = 0; i < one.found->trial_count; i++)
        cr_expect(memcmp(&one.found->trials[i].sqnr_db, &three.found->trials[i].sqnr_db, sizeof(double)) == 0);
    end(&one);
    end(&three);
}

/* Ranges of the observer that is taken are those that it has by name. */
Test(auto_method, is_the_observer_that_it_names)
{
    struct chosen found, named;
    run(&found, "auto", "1", few_bits);
    const char *method = NULL;
    for (size_t i = 0; i < found.found->trial_count; i++)
        if (found.found->trials[i].chosen) method = found.found->trials[i].method;
    cr_assert_not_null(method);
    run(&named, method, "1", few_bits);
    const struct qc_graph *a = qc_job_network(found.job)->simulated, *b = qc_job_network(named.job)->simulated;
    cr_assert_eq(a->qparams_count, b->qparams_count);
    for (qc_id id = 1; id <= a->qparams_count; id++) {
        const struct qc_qparams *x = &a->qparams_of[id], *y = &b->qparams_of[id];
        if (x->kind != QC_QPARAMS_QUANTIZER || x->is_weight) continue; /* those follow how weights are rounded */
        cr_assert_eq(x->count, y->count);
        cr_expect(memcmp(x->scale, y->scale, x->count * sizeof *x->scale) == 0, "%s: %s", method, x->name);
        cr_expect(memcmp(x->zero_point, y->zero_point, x->count * sizeof *x->zero_point) == 0, "%s: %s", method,
                  x->name);
    }
    cr_expect(!named.found || named.found->trial_count == 0);
    end(&found);
    end(&named);
}
