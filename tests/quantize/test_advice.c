// SPDX-License-Identifier: Apache-2.0
/* Advice: the gain that a job reports for an option equals that of a job with the option. */
#include "graph/text/text.h"
#include "quantize/job.h"
#include "tests/check.h"

#define MODEL QC_TEST_SOURCE "/datasets/digits_cnn.onnx"
#define DATA QC_TEST_SOURCE "/datasets/digits_calib.h5"

struct setting {
    enum qc_option option;
    const char *value;
};

struct advised {
    struct qc_arena *arena;
    struct qc_options options;
    struct qc_job_inputs in;
    struct qc_job *job;
    struct qc_json *record;
};

static bool has_state(const struct advised *s, const char *state)
{
    return strcmp(qc_json_find_text(s->record, "advice_state"), state) == 0;
}

static double gain(const struct qc_json *advice)
{
    return qc_json_find_number(advice, "measured.sqnr_db_after") -
           qc_json_find_number(advice, "measured.sqnr_db_before");
}

static double output_db(const struct advised *s, size_t k)
{
    return qc_json_find_number(qc_json_at(qc_json_get(s->record, "outputs"), k), "sqnr_db");
}

static size_t output_count(const struct advised *s)
{
    return qc_json_size(qc_json_get(s->record, "outputs"));
}

/* Weights of 4 bits, ranges of all values: there is something to gain. words: --name=value, or NULL. */
static void run(struct advised *s, const struct setting *set, size_t count, const struct qc_json *words)
{
    *s = (struct advised){.arena = qc_arena_new(), .in = {.model = {.file = MODEL}, .data = {.file = DATA}}};
    MUST(qc_options_init(&s->options, QC_COMMAND_quantize, s->arena, ST) &&
         qc_options_set(&s->options, QC_OPTION_SAMPLES, "96", ST) &&
         qc_options_set(&s->options, QC_OPTION_THREADS, "1", ST));
    for (size_t i = 0; i < count; i++) MUST(qc_options_set(&s->options, set[i].option, set[i].value, ST));
    for (size_t i = 0; i < qc_json_size(words); i++) { /* "qcalib" and the model are no options */
        const char *all = qc_json_text(qc_json_at(words, i));
        char *word = strncmp(all, "--", 2) == 0 ? strdup(all + 2) : NULL, *value = word ? strchr(word, '=') : NULL;
        enum qc_option which;
        if (!word) continue;
        if (value) *value++ = '\0';
        MUST(qc_options_find(&which, &s->options, word, ST));
        const char *kept = value ? qc_arena_strdup(s->arena, value, ST) : NULL;
        if (which != QC_OPTION_DATA)
            cr_assert(qc_options_set(&s->options, which, kept, ST), "%s: %s", all, failure.message);
        free(word);
    }
    MUST(qc_job_new(&s->job, &s->options, &s->in, NULL, ST) && qc_job_run(s->job, ST));
    MUST(qc_job_record(&s->record, s->job, ST));
}

static void end(struct advised *s)
{
    qc_json_free(s->record);
    qc_job_free(s->job);
    qc_arena_free(s->arena);
}

static char *produced(const struct advised *s)
{
    const struct qc_text_options all = QC_TEXT_ALL;
    return qc_graph_print(qc_job_network(s->job)->produced, &all, ST);
}

static const struct setting few_bits[] = {{QC_OPTION_METHOD, "minmax"},
                                          {QC_OPTION_WEIGHT_TYPE, "int4"},
                                          {QC_OPTION_ADVICE, "on"}};
static const size_t few_bits_count = sizeof few_bits / sizeof *few_bits;

Test(advice, gains_what_its_command_gains)
{
    struct advised s;
    run(&s, few_bits, few_bits_count, NULL);
    const struct qc_json *advice = qc_json_get(s.record, "advice");
    cr_assert(has_state(&s, "tried"));
    cr_assert_gt(qc_json_size(advice), 0, "weights of 4 bits can be mended");
    cr_expect_geq(qc_json_find_number(s.record, "advice_tried"), (double)qc_json_size(advice));
    cr_expect_eq(qc_json_size(qc_json_get(s.record, "advice_left_out")), 0, "--advice on tries all");
    for (size_t i = 0; i < qc_json_size(advice); i++) {
        const struct qc_json *a = qc_json_at(advice, i), *held = qc_json_find(a, "measured.held_back"),
                             *outputs = qc_json_find(a, "measured.outputs");
        const char *command = qc_json_find_text(a, "shell");
        cr_expect_gt(gain(a), 0, "%s", command);
        cr_expect_gt(qc_json_find_number(held, "sqnr_db_after"), qc_json_find_number(held, "sqnr_db_before"), "%s",
                     command);
        cr_expect(!i || gain(qc_json_at(advice, i - 1)) >= gain(a), "the best comes first");
        struct advised then;
        run(&then, NULL, 0, qc_json_get(a, "command"));
        cr_assert_eq(output_count(&then), output_count(&s));
        cr_assert_eq(qc_json_size(outputs), output_count(&s));
        for (size_t k = 0; k < output_count(&s); k++) {
            const struct qc_json *o = qc_json_at(outputs, k);
            cr_expect_float_eq(qc_json_find_number(o, "sqnr_db_before"), output_db(&s, k), 1e-9);
            cr_expect_float_eq(qc_json_find_number(o, "sqnr_db_after"), output_db(&then, k), 1e-9, "%s", command);
        }
        end(&then);
    }
    end(&s);
}

Test(advice, changes_nothing_of_the_job)
{
    struct advised with, without;
    struct setting set[sizeof few_bits / sizeof *few_bits];
    memcpy(set, few_bits, sizeof few_bits);
    run(&with, set, few_bits_count, NULL);
    set[few_bits_count - 1].value = "off";
    run(&without, set, few_bits_count, NULL);
    cr_expect(has_state(&without, "off"));
    cr_expect_eq(qc_json_size(qc_json_get(without.record, "advice")), 0);
    char *a = produced(&with), *b = produced(&without);
    cr_assert(a && b);
    cr_expect_str_eq(a, b);
    cr_expect_eq(qc_dataset_samples(qc_job_setup(with.job)->data), 96, "the samples of --samples are chosen");
    cr_expect_eq(qc_json_size(qc_json_get(with.record, "warnings")),
                 qc_json_size(qc_json_get(without.record, "warnings")));
    free(a);
    free(b);
    end(&with);
    end(&without);
}

Test(advice, always_tries_the_best_idea)
{
    struct advised s;
    run(&s, few_bits, few_bits_count - 1, NULL); /* --advice auto */
    const struct qc_json *left_out = qc_json_get(s.record, "advice_left_out");
    cr_assert(has_state(&s, "tried"));
    cr_expect_geq(qc_json_find_number(s.record, "advice_tried"), 1);
    for (size_t i = 0; i < qc_json_size(left_out); i++)
        cr_expect(*qc_json_find_text(qc_json_at(left_out, i), "action"));
    end(&s);
}

/* Hardly anything is lost: 4 bits are tried, and said where they do. */
Test(advice, is_not_needed_above_40_db)
{
    struct advised s;
    const struct setting wide[] = {{QC_OPTION_ACTIVATION_TYPE, "int16"}, {QC_OPTION_WEIGHT_TYPE, "int8"}};
    run(&s, wide, 2, NULL);
    cr_assert(has_state(&s, "not needed"), "%.1f dB", output_db(&s, 0));
    cr_expect_eq(qc_json_size(qc_json_get(s.record, "advice")), 0);
    cr_expect(!qc_json_find(s.record, "cheaper") || gain(qc_json_find(s.record, "cheaper")) >= -1);
    end(&s);
}
