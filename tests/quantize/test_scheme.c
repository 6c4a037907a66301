// SPDX-License-Identifier: Apache-2.0
/* Schemes: the difference of two schemes is a list of options, so a change that is printed as a command line and parsed
   again gives the same scheme, and so the same network. */
#include "graph/text/text.h"
#include "quantize/report/command_text.h"
#include "tests/check.h"
#include "tests/quantize/made_network.h"

#define MODEL QC_TEST_SOURCE "/datasets/digits_cnn.onnx"
#define DATA QC_TEST_SOURCE "/datasets/digits_calib.h5"

static const struct qc_job_inputs in = {.model = {.file = MODEL}, .data = {.file = DATA}};

/* Parses the words of a command line; those without -- are operands. */
static void parse(struct qc_options *o, struct qc_arena *a, const struct qc_text_list *words)
{
    MUST(qc_options_init(o, QC_COMMAND_quantize, a, ST));
    for (size_t i = 0; i < words->count; i++) {
        char name[64];
        enum qc_option which;
        const char *word = words->items[i];
        if (strncmp(word, "--", 2) != 0 || strncmp(word, "--data", 6) == 0) continue;
        const size_t length = strcspn(word + 2, "=");
        cr_assert_lt(length, sizeof name);
        memcpy(name, word + 2, length);
        name[length] = 0;
        const char *value = word[2 + length] ? word + 3 + length : NULL;
        cr_assert(qc_options_find(&which, o, name, ST) && qc_options_set(o, which, value, ST), "%s: %s", word,
                  failure.message);
    }
}

static char *network_text(const struct qc_options *o)
{
    MADE_NETWORK m;
    const struct qc_text_options all = QC_TEXT_ALL;
    MUST(make_network(&m, o, &in, NULL, ST));
    char *text = qc_graph_print(m.c->network->produced, &all, ST);
    MUST(text);
    return text;
}

/* Options of the job that is changed; the last one alone for the change that leaves it out. */
static const struct qc_option_text job[] = {{"samples", "16"},           {"threads", "1"}, {"effort", "low"},
                                            {"activation-type", "int8"}, {"skip", "Gemm"}, {"min-sqnr", "10"},
                                            {"per-tensor", NULL}};
enum { JOB = sizeof job / sizeof *job, OPTIONS = 3, CHANGES = 9 };

static const struct {
    struct qc_change how;
    struct qc_option_text options[OPTIONS];
} changes[CHANGES] = {
    {{.count = 0}, {{NULL, NULL}}},
    {{.count = 1}, {{"equalize", "free"}}},
    {{.count = 1}, {{"scale-channels", "smooth"}}},
    {{.count = 2}, {{"weight-method", "output"}, {"range", "full"}}},
    {{.count = 3}, {{"weight-type", "int4"}, {"weight-method", "mse:norm=2.4"}, {"weight-block", "16"}}},
    {{.count = 2}, {{"activation-type", "uint16:Conv"}, {"method", "minmax"}}},
    {{.count = 1, .first = true}, {{"activation-type", "int16:Conv"}}},
    {{.count = 1, .met = true}, {{"per-channel", "activations,weights"}}},
    {{.count = 1, .without = "per-tensor"}, {{"method", "percentile:p=99.9"}}},
};

Test(scheme, a_change_printed_as_options_gives_the_same_scheme)
{
    char *texts[CHANGES];
    for (size_t i = 0; i < CHANGES; i++) {
        QC_ARENA_SCOPE *a = qc_arena_new();
        struct qc_options o, changed, parsed;
        struct qc_change change = changes[i].how;
        struct qc_text_list words;
        const char *operand = MODEL;
        change.options = changes[i].options;
        MUST(qc_options_init(&o, QC_COMMAND_quantize, a, ST));
        for (size_t k = 0; k + (change.without == NULL) < JOB; k++) {
            enum qc_option which;
            cr_assert(qc_options_find(&which, &o, job[k].name, ST) && qc_options_set(&o, which, job[k].value, ST));
        }
        MUST(qc_options_change(&changed, &o, &change, a, ST));
        MUST(qc_command_words(&words, a, &o, &operand, 1, &change, ST));
        parse(&parsed, a, &words);
        texts[i] = network_text(&changed);
        QC_FREED char *same = network_text(&parsed);
        cr_expect_str_eq(same, texts[i], "change %zu", i);
    }
    for (size_t i = 2; i < CHANGES; i++) cr_expect_str_neq(texts[i], texts[0], "change %zu has an effect", i);
    for (size_t i = 0; i < CHANGES; i++) free(texts[i]);
}

Test(change, grows_and_leaves_what_it_was_copied_from)
{
    static const struct qc_option_text first[] = {{"method", "mse"}};
    struct qc_change change = {.count = 1, .options = first}, more = {0};
    char value[8];
    for (int i = 0; i < 20; i++) {
        snprintf(value, sizeof value, "n%d", i);
        MUST(qc_change_add(&more, "skip", qc_arena_strdup(test_arena(), value, ST), test_arena(), ST));
    }
    const struct qc_change copy = more;
    MUST(qc_change_join(&change, &more, test_arena(), ST));
    HOLD(change.count == 21, strcmp(change.options[0].name, "method") == 0,
         strcmp(change.options[20].value, "n19") == 0, copy.count == 20, strcmp(first[0].value, "mse") == 0);
    cr_expect(!qc_change_add(&change, "skip", NULL, test_arena(), ST), "a text that could not be made");
}
