// SPDX-License-Identifier: Apache-2.0
/* Pages: the viewer with a record in it, which no text can break, and what shows without JavaScript. tests/browser
   looks at the viewer. */
#include "export/report/report.h"
#include "tests/check.h"

#define HOSTILE "</script></noscript><b onclick=\"x\">&'\x01{{record}}"

static char *page_of(const struct qc_json *record)
{
    size_t size;
    char *text = qc_page(&size, record, ST);
    MUST(text);
    cr_expect_eq(size, strlen(text));
    return text;
}

static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;
    for (; (text = strstr(text, part)); text += strlen(part)) count++;
    return count;
}

/* Returns the record that is in a page. */
static struct qc_json *record_in(const char *page)
{
    static const char begin[] = "<script type=\"application/json\" id=\"record\">";
    struct qc_json *read = NULL;
    const char *text = strstr(page, begin);
    cr_assert(text);
    text += strlen(begin);
    MUST(qc_json_parse(&read, text, (size_t)(strstr(text, "</script>") - text), ST));
    return read;
}

Test(page, hostile_texts_stay_texts)
{
    struct qc_json *record = QC_JSON("version %s command %s", HOSTILE, HOSTILE), *layers = qc_json_array();
    qc_json_set(record, "model", QC_JSON("file %s", HOSTILE));
    qc_json_set(record, "verdict", QC_JSON("text %s", HOSTILE));
    qc_json_add(layers, QC_JSON("name %s op %s kind %s type %s", HOSTILE, HOSTILE, HOSTILE, HOSTILE));
    qc_json_set(record, "layers", layers);
    qc_json_set(record, HOSTILE, qc_json_string(HOSTILE));
    OWN(qc_json) *plain = qc_json_object();
    QC_FREED char *page = page_of(record), *frame = page_of(plain);
    cr_expect_null(strstr(page, "<b onclick"));
    cr_expect_null(strchr(page, '\x01'));
    static const char *const ends[] = {"</script>", "</noscript>", "</title>", "</html>"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        cr_expect_eq(count_of(page, ends[i]), count_of(frame, ends[i]), "%s", ends[i]);
    cr_expect_eq(count_of(page, "&#60;/script&#62;&#60;/noscript&#62;&#60;b onclick=&#34;x&#34;&#62;&#38;&#39;\\x01"),
                 9);
    OWN(qc_json) *read = record_in(page);
    HOLD(strcmp(qc_json_text(qc_json_get(read, "command")), HOSTILE) == 0,
         strcmp(qc_json_text(qc_json_get(qc_json_at(qc_json_get(read, "layers"), 0), "name")), HOSTILE) == 0,
         strcmp(qc_json_text(qc_json_get(read, HOSTILE)), HOSTILE) == 0);
    qc_json_free(record);
}

Test(page, verdict_and_layers_are_there_without_javascript)
{
    struct qc_json *record = QC_JSON("version %s", "1.2.3"), *layers = qc_json_array(), *two = qc_json_array();
    qc_json_set(record, "verdict", QC_JSON("text %s", "accuracy is kept"));
    qc_json_add(layers, QC_JSON("name %s op %s output_sqnr_db %g sqnr_db %g", "a", "Conv", 31.256, (double)NAN));
    qc_json_add(two, qc_json_number(20));
    qc_json_add(two, qc_json_number(25.5));
    qc_json_add(layers, QC_JSON("name %s op %s", "b", "Gemm"));
    qc_json_set((struct qc_json *)(uintptr_t)qc_json_at(layers, 1), "sqnr_db", two);
    qc_json_set(record, "layers", layers);
    char *page = page_of(record), *script = strstr(page, "<script");
    cr_assert(script);
    *script = '\0';
    cr_expect(strstr(page, "<p class=\"verdict\">accuracy is kept.</p>"));
    cr_expect(strstr(page, "<td class=\"name\">a</td><td>Conv</td><td>–</td><td>–</td><td class=\"n\">31.26</td><td "
                           "class=\"n\">–</td>"));
    cr_expect(strstr(page, "<td class=\"name\">b</td><td>Gemm</td>") && strstr(page, "20 → 25.50"));
    cr_expect_null(strstr(page, "{{"));
    qc_json_free(record);
    free(page);
}

Test(page, needs_nothing_from_elsewhere_and_knows_no_time)
{
    struct qc_json *record = QC_JSON("version %s", "1"), *timing = QC_JSON("total_seconds %g", 12345.5);
    qc_json_set(timing, "benchmark", QC_JSON("best_ms %g", 7.5));
    qc_json_set(record, "timing", timing);
    QC_FREED char *page = page_of(record);
    OWN(qc_json) *read = record_in(page);
    cr_expect_null(strstr(page, "12345.5"));
    cr_expect_eq(qc_json_value(qc_json_get(qc_json_get(qc_json_get(read, "timing"), "benchmark"), "best_ms")), 7.5);
    cr_expect_eq(count_of(page, "http"), count_of(page, "http-equiv") + count_of(page, "http://www.w3.org/2000/svg"));
    cr_expect(strstr(page, "default-src 'none'"));
    cr_expect_null(strstr(page, " src="));
    qc_json_free(record);
}

enum { LARGE = 1000, SMALL = 250, NONE = 0 };

struct verdict_case {
    const char *metric, *grade, *text;
    double fp32, int8, int8_high, sqnr_db;
    size_t bytes;
    bool unmet;
};

Test(verdict, is_a_grade_and_a_sentence)
{
    static const struct verdict_case cases[] = {
        {"top1", "good", "accuracy is kept (91.00 %, 90.00 in float). The file is 25 % of the original", .9, .91, .95,
         35, SMALL, false},
        {"top1", "good", "which may be chance: float lies in the 95 % interval", .9, .895, .92, 35, SMALL, false},
        {"top1", "usable", "accuracy falls by 2.00 points (88.00 %, 90.00 in float), which may be chance", .9, .88, .92,
         35, SMALL, false},
        {"top1", "usable", "accuracy falls by 0.50 points (89.50 %, 90.00 in float).", .9, .895, .896, 35, SMALL,
         false},
        {"top1", "poor", "accuracy falls by 5.00 points (85.00 %, 90.00 in float).", .9, .85, .87, 35, SMALL, false},
        {"top1", "usable", "differ much from those of the float model (19.9 dB)", .9, .9, .95, 19.9, SMALL, false},
        {"top1", "good", "accuracy is kept (90.00 %, 90.00 in float).", .9, .9, .95, 20.1, SMALL, false},
        {"psnr", "poor", "PSNR falls by 1.00 dB (29.00 dB, 30.00 in float).", 30, 29, (double)NAN, 35, SMALL, false},
        {NULL, "good", "the outputs are close to those of the float model (46.0 dB: an error of 0.5 %)", 0, 0, 0, 46,
         SMALL, false},
        {NULL, "usable", "differ noticeably from those of the float model (16.7 dB: an error of 15 %)", 0, 0, 0, 16.66,
         SMALL, false},
        {NULL, "poor", "the outputs are too noisy to be useful (4.0 dB: an error of 63 %)", 0, 0, 0, 4, SMALL, false},
        {NULL, "poor", "the outputs are too noisy to be useful (-2.0 dB: an error of 126 %)", 0, 0, 0, -2, SMALL,
         false},
        {NULL, "good", "the outputs equal those of the float model", 0, 0, 0, (double)INFINITY, LARGE, false},
        {NULL, "unknown", "accuracy was not measured", 0, 0, 0, (double)NAN, LARGE, false},
        {NULL, "poor", "; --max-drop 0.5 and --min-sqnr 50 could not be met. The file is 25 %", 0, 0, 0, 46, SMALL,
         true},
        {NULL, "poor", "; no model was written, since --max-drop 0.5 and --min-sqnr 50 could not be met", 0, 0, 0, 46,
         NONE, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct verdict_case *c = &cases[i];
        struct qc_json *r = QC_JSON("integer_share %g", .5), *outputs = qc_json_array(), *files = qc_json_array();
        qc_json_add(outputs, QC_JSON("sqnr_db %g state %s", c->sqnr_db,
                                     isnan(c->sqnr_db)   ? "not measured"
                                     : isinf(c->sqnr_db) ? "equal"
                                                         : "measured"));
        if (c->bytes) qc_json_add(files, QC_JSON("bytes %zu", c->bytes));
        qc_json_set(r, "outputs", outputs);
        qc_json_set(r, "files", files);
        qc_json_set(r, "model", QC_JSON("bytes %d", 1000));
        qc_json_set(r, "demand", QC_JSON("met %hhd", !c->unmet));
        qc_json_set(r, "options", QC_JSON("max-drop %g min-sqnr %g max-nll %g", .5, 50., (double)NAN));
        if (c->metric) {
            struct qc_json *a = QC_JSON("metric %s fp32 %g int8 %g", c->metric, c->fp32, c->int8);
            if (!isnan(c->int8_high))
                qc_json_set(a, "int8_interval", qc_json_pair(qc_json_number(0), qc_json_number(c->int8_high)));
            qc_json_set(r, "accuracy", a);
        }
        OWN(qc_json) *v = qc_verdict_json(r);
        const char *text = qc_json_text(qc_json_get(v, "text"));
        cr_expect_str_eq(qc_json_text(qc_json_get(v, "grade")), c->grade, "case %zu: %s", i, text);
        cr_expect(strstr(text, c->text) && strstr(text, "50.0 % of multiply-adds are in integers"), "case %zu: %s", i,
                  text);
        qc_json_free(r);
    }
}

/* A piece of advice that changes the second output. */
static struct qc_json *advice(double after)
{
    struct qc_json *measured = qc_json_object();
    qc_json_set(measured, "outputs",
                qc_json_pair(QC_JSON("sqnr_db_before %g sqnr_db_after %g", 30., 30.),
                             QC_JSON("sqnr_db_before %g sqnr_db_after %g", 14.91, after)));
    struct qc_json *a = qc_json_object();
    qc_json_set(a, "measured", measured);
    return a;
}

/* A member of the record that changes the verdict. */
static struct qc_json *with(const char *key, struct qc_json *value)
{
    struct qc_json *r = QC_JSON("quantized_ops %d", strcmp(key, "float_ops") == 0 ? 0 : 3),
                   *accuracy = QC_JSON("metric %s fp32 %g int8 %g", "top1", .9, .5);
    qc_json_set(r, "accuracy", accuracy);
    qc_json_set(r, "advice", qc_json_pair(advice(24), advice(20)));
    qc_json_set(r, key, value);
    return r;
}

/* A record of a file with quantized weights and float operators. */
static struct qc_json *only_weights(void)
{
    struct qc_json *r = QC_JSON("quantized_ops %d integer_share %d", 0, 0), *files = qc_json_array(),
                   *layers = qc_json_array(), *ops = qc_json_array();
    qc_json_add(files, QC_JSON("bytes %d", 25));
    qc_json_add(layers, QC_JSON("name %s", "w"));
    qc_json_add(ops, QC_JSON("name %s", "product"));
    qc_json_set(r, "files", files);
    qc_json_set(r, "layers", layers);
    qc_json_set(r, "float_ops", ops);
    qc_json_set(r, "model", QC_JSON("bytes %d", 100));
    return r;
}

Test(verdict, says_where_a_file_is_slower_than_float)
{
    static const struct {
        const char *processor, *text;
        double vnni, avx2;
    } cases[] = {
        {"any", "; its latency is 139 % of that of the float model on avx2 (estimated)", 1, 1.39},
        {"any", "; its latency is 150 % of that of the float model on avx512-vnni (estimated)", 1.5, 1.39},
        {"avx512-vnni", "", 1, 1.39}, /* avx2 does not count */
        {"avx2", "", .9, 1.04},
        {"any", "", 1.04, (double)NAN},
        {"any", "", 1.5, 1.39}, /* the target is not what the times are of */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct qc_json *r = QC_JSON("quantized_ops %d", 3), *on = qc_json_object(), *cost = qc_json_object(),
                       *files = qc_json_array();
        qc_json_set(on, "avx512-vnni", qc_json_number(cases[i].vnni));
        qc_json_set(on, "avx2", qc_json_number(cases[i].avx2));
        qc_json_set(cost, "processors", on);
        qc_json_set(r, "cost", cost);
        qc_json_set(r, "processors", QC_JSON("estimated %hhd", (bool)(i + 1 < sizeof cases / sizeof *cases)));
        qc_json_add(files, QC_JSON("bytes %d", 25));
        qc_json_set(r, "files", files);
        qc_json_set(r, "model", QC_JSON("bytes %d", 100));
        qc_json_set(r, "options", QC_JSON("processor %s", cases[i].processor));
        OWN(qc_json) *v = qc_verdict_json(r);
        const char *text = qc_json_text(qc_json_get(v, "text"));
        const bool slower = *cases[i].text == ';';
        cr_expect_eq(strstr(text, "latency") != NULL, slower, "case %zu: %s", i, text);
        cr_expect(!slower || strstr(text, cases[i].text), "case %zu: %s", i, text);
        qc_json_free(r);
    }
}

Test(verdict, names_causes_that_are_no_layers)
{
    struct qc_json *ops = qc_json_array();
    struct qc_json *one = qc_json_array();
    qc_json_add(ops, QC_JSON("name %s", "conv"));
    qc_json_add(one, advice(26));
    const struct {
        struct qc_json *record;
        const char *grade, *text;
    } cases[] = {
        {with("samples_differ", QC_JSON("calibrated_sqnr_db %g", 46.)), "poor",
         "accuracy falls by 40.00 points (50.00 %, 90.00 in float); the calibration samples differ from those of "
         "--eval"},
        {with("advice", one), "poor",
         "accuracy falls by 40.00 points (50.00 %, 90.00 in float). 1 tested change improves the outputs, from 14.9 to "
         "26.0 dB (see the advice)"},
        {only_weights(), "unknown",
         "accuracy was not measured. The file is 25 % of the original; only weights are quantized"},
        {with("float_ops", ops), "unknown", "nothing is quantized: the outputs are those of the float model"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct qc_json *v = qc_verdict_json(cases[i].record);
        cr_expect_str_eq(qc_json_text(qc_json_get(v, "grade")), cases[i].grade, "case %zu", i);
        cr_expect_str_eq(qc_json_text(qc_json_get(v, "text")), cases[i].text, "case %zu", i);
        qc_json_free(v);
        qc_json_free(cases[i].record);
    }
}
