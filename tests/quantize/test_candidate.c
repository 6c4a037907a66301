// SPDX-License-Identifier: Apache-2.0
/* Candidates: a derived one leaves the one that it comes from as it is, and the network of a scheme does not depend on
   the networks made before it. */
#include "graph/text/text.h"
#include "quantize/search/searches.h"
#include "tests/check.h"
#include "tests/quantize/made_network.h"

#define MODEL QC_TEST_SOURCE "/datasets/digits_cnn.onnx"
#define DATA QC_TEST_SOURCE "/datasets/digits_calib.h5"

enum { BEFORE = 40 };

static const struct qc_job_inputs in = {.model = {.file = MODEL}, .data = {.file = DATA}};

static void set_options(struct qc_options *o, struct qc_arena *a, const struct qc_option_text *set, size_t count)
{
    cr_assert(qc_options_init(o, QC_COMMAND_quantize, a, ST) && qc_options_set(o, QC_OPTION_SAMPLES, "24", ST) &&
              qc_options_set(o, QC_OPTION_THREADS, "1", ST));
    for (size_t i = 0; i < count; i++) {
        enum qc_option which;
        MUST(qc_options_find(&which, o, set[i].name, ST) && qc_options_set(o, which, set[i].value, ST));
    }
}

static char *text_of(const struct qc_network *net)
{
    const struct qc_text_options all = QC_TEXT_ALL;
    char *text = qc_graph_print(net->produced, &all, ST);
    MUST(text);
    return text;
}

/* Weights of few bits alone, so that channels are scaled. */
Test(candidate, that_is_derived_has_warnings_of_its_own)
{
    static const struct qc_option_text few[] = {{"activation-type", "none"}, {"weight-type", "int4"}};
    static const struct qc_change none = {.count = 0};
    struct qc_options o;
    MADE_NETWORK m;
    set_options(&o, test_arena(), few, 2);
    MUST(make_network(&m, &o, &in, NULL, ST));
    for (int i = 0; i < BEFORE; i++) qc_warn(m.c->warnings, "of the job: %d", i);
    const size_t count = qc_warnings_count(m.c->warnings);
    QC_FREED char *was = text_of(m.c->network);
    for (int how = QC_SAME_FORM; how <= QC_ANOTHER_FORM; how++) {
        struct qc_candidate *t = NULL;
        MUST(qc_candidate_derive(&t, m.c, &none, (enum qc_derivation)how, ST));
        const struct qc_channel_scaling *scaling = t->network->form->scaling;
        bool scaled = false;
        for (size_t i = 0; scaling && i < scaling->group_count; i++) scaled = scaled || scaling->groups[i].kind;
        cr_assert(scaled, "scaling drops the warnings of the passes before it");
        for (size_t i = 0; i < qc_warnings_count(t->warnings); i++)
            cr_expect_neq(qc_warnings_text(t->warnings, i)[0], 'o', "%s", qc_warnings_text(t->warnings, i));
        QC_FREED char *same = text_of(t->network);
        cr_expect_str_eq(same, was, "no option differs");
        qc_candidate_free(t);
    }
    cr_expect_eq(qc_warnings_count(m.c->warnings), count);
    QC_FREED char *is = text_of(m.c->network);
    cr_expect_str_eq(is, was, "a derived candidate has changed it");
}

/* The statistics of the job serve a candidate until its channels are scaled; what that does to them is its own. */
Test(candidate, that_scales_channels_shares_statistics_until_then)
{
    static const struct qc_option_text smooth[] = {{"scale-channels", "smooth"}};
    static const struct qc_change none = {.count = 0}, scaled = {.count = 1, .options = smooth};
    struct qc_options o;
    MADE_NETWORK m;
    struct qc_candidate *other = NULL, *t = NULL, *again = NULL;
    set_options(&o, test_arena(), NULL, 0);
    MUST(make_network(&m, &o, &in, NULL, ST));
    QC_FREED char *was = text_of(m.c->network);
    MUST(qc_candidate_derive(&other, m.c, &scaled, QC_ANOTHER_FORM, ST));
    MUST(qc_candidate_derive(&t, m.c, &scaled, QC_SCALED_FORM, ST));
    cr_assert(t->network->form->scaled, "so the samples run again");
    cr_expect_neq(t->evidence->statistics, m.c->evidence->statistics);
    cr_expect_eq(t->evidence->known_of, t->network->real, "outputs of the scaled network are kept");
    QC_FREED char *wanted = text_of(other->network), *is = text_of(t->network);
    cr_expect_str_eq(is, wanted);
    cr_expect_str_neq(is, was);
    qc_candidate_free(t);
    qc_candidate_free(other);
    MUST(qc_candidate_derive(&t, m.c, &none, QC_SCALED_FORM, ST));
    cr_expect_eq(t->evidence->statistics, m.c->evidence->statistics, "nothing is scaled");
    MUST(qc_candidate_derive(&again, m.c, &none, QC_SAME_FORM, ST));
    QC_FREED char *same = text_of(t->network), *third = text_of(again->network);
    cr_expect_str_eq(same, was);
    cr_expect_str_eq(third, was, "second moments are as before");
    qc_candidate_free(again);
    qc_candidate_free(t);
}

Test(candidate, has_the_network_of_its_scheme_whatever_was_made_before)
{
    static const struct qc_option_text wide[] = {{"activation-type", "uint16:Conv"}, {"skip", "Gemm"}};
    static const struct qc_change change = {.count = 2, .options = wide};
    struct qc_options o, changed;
    struct made_network m, direct;
    set_options(&o, test_arena(), NULL, 0);
    set_options(&changed, test_arena(), wide, 2);
    MUST(make_network(&m, &o, &in, NULL, ST) && make_network(&direct, &changed, &in, NULL, ST));
    const struct qc_scheme first = m.c->scheme;
    QC_FREED char *was = text_of(m.c->network), *wanted = text_of(direct.c->network);
    MUST(qc_candidate_change(m.c, &first, &change, ST));
    QC_FREED char *is = text_of(m.c->network);
    cr_expect_str_eq(is, wanted, "the changed scheme makes the network that its options make");
    MUST(qc_candidate_make(m.c, &first, NULL, ST));
    QC_FREED char *again = text_of(m.c->network);
    cr_expect_str_eq(again, was, "the first scheme makes the first network again");
    free_network(&direct);
    free_network(&m);
}

/* A failed attempt leaves no network, and the next one can still be made. */
Test(candidate, survives_a_change_that_is_not_possible)
{
    static const struct qc_option_text everything[] = {{"skip", "*"}}, nowhere[] = {{"skip", "no such node"}};
    struct qc_options o;
    MADE_NETWORK m;
    set_options(&o, test_arena(), NULL, 0);
    MUST(make_network(&m, &o, &in, NULL, ST));
    const struct qc_scheme first = m.c->scheme;
    const size_t warnings = qc_warnings_count(m.c->warnings);
    QC_FREED char *was = text_of(m.c->network);
    for (int k = 0; k < 2; k++) {
        const struct qc_change change = {.count = 1, .options = k ? nowhere : everything};
        struct qc_status why = QC_STATUS_INIT;
        cr_expect(!qc_candidate_change(m.c, &first, &change, &why));
        cr_expect_eq(why.code, k ? QC_USAGE : QC_UNSUPPORTED, "%s", why.message);
        cr_expect_null(m.c->network);
    }
    MUST(qc_candidate_make(m.c, &first, NULL, ST));
    QC_FREED char *is = text_of(m.c->network);
    HOLD(strcmp(is, was) == 0, qc_warnings_count(m.c->warnings) == warnings);
}

/* What concerns one scheme alone has a reason; anything else ends the job. */
Test(candidate, is_refused_for_reasons_of_its_own)
{
    static const struct {
        enum qc_code code;
        const char *limit;
        bool refused;
    } rows[] = {{QC_UNSUPPORTED, NULL, true},  {QC_USAGE, NULL, true},       {QC_DEMAND, NULL, true},
                {QC_MACHINE, NULL, false},     {QC_MACHINE, "8G", true},     {QC_BAD_INPUT, NULL, false},
                {QC_INTERRUPTED, NULL, false}, {QC_INTERRUPTED, "8G", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct qc_status st = QC_STATUS_INIT, why = QC_STATUS_INIT;
        QC_ARENA_SCOPE *a = qc_arena_new();
        struct qc_options o;
        struct qc_setup s = {.options = &o};
        struct qc_candidate c = {.setup = &s, .arena = a};
        const char *reason = NULL;
        cr_assert(qc_options_init(&o, QC_COMMAND_quantize, a, &st));
        cr_assert(!rows[i].limit || qc_options_set(&o, QC_OPTION_MEMORY_LIMIT, rows[i].limit, &st));
        qc_fail(&why, rows[i].code, "no %d", 1);
        cr_expect_eq(qc_candidate_refused(&reason, &c, &why, &st), rows[i].refused, "row %zu", i);
        cr_expect_str_eq(rows[i].refused ? reason : st.message, "no 1", "row %zu", i);
        cr_expect_eq(st.code, rows[i].refused ? QC_OK : rows[i].code, "row %zu", i);
    }
}
