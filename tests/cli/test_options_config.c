// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>

#include "cli/options/command_line.h"
#include "quantize/report/command_text.h"
#include "tests/check.h"

static struct qc_cli_options o;
static char file[64];

static void start(void)
{
    snprintf(file, sizeof file, "config-%ld.json", (long)getpid());
}

static void stop(void)
{
    remove(file);
}

TestSuite(config, .init = start, .fini = stop);

static bool parse_with(const char *json, const char *extra, const char *value)
{
    FILE *f = fopen(file, "wb");
    cr_assert(f && fputs(json, f) >= 0 && fclose(f) == 0);
    char *argv[] = {"qcalib", "m.onnx", "--config", file, (char *)(uintptr_t)extra, (char *)(uintptr_t)value};
    return qc_options_parse(&o, extra ? value ? 6 : 5 : 4, argv, test_arena(), ST);
}

static void refuses(const char *json, enum qc_code code, const char *part)
{
    cr_assert(!parse_with(json, NULL, NULL), "accepted: %s", json);
    cr_assert_eq(failure.code, code, "%s: %s", json, failure.message);
    cr_assert(strstr(failure.message, part) && strstr(failure.message, file), "%s: %s", json, failure.message);
}

Test(config, loads_no_code)
{
    refuses("{\"plugin\": \"a.so\"}", QC_USAGE, "\"plugin\" loads code");
    refuses("{\"kernel\": [\"a.so\"]}", QC_USAGE, "give --kernel itself");
    MUST(parse_with("{\"plugin\": [], \"kernel\": null}", NULL, NULL));
    cr_assert(parse_with("{\"data\": \"c.h5\"}", "--plugin", "a.so") && o.job.method.plugins.count == 1, "%s",
              failure.message);
}

Test(config, values)
{
    MUST(parse_with(
        "{\"data\": \"c.h5\", \"threads\": 3, \"max-drop\": 0.5, \"per-tensor\": true, \"require-integer\": false,"
        " \"skip\": [\"a\", \"b\"], \"only\": \"conv2d\", \"symmetric\": [\"activations\", \"weights\"],"
        " \"memory-limit\": \"1M\", \"eval\": null, \"seed\": 7}",
        NULL, NULL));
    cr_assert_str_eq(o.job.data.file, "c.h5");
    cr_assert(o.job.run.threads == 3 && o.job.types.per_tensor && !o.job.graph.require_integer &&
              o.job.types.symmetric_activations && o.job.run.memory_limit == 1 << 20);
    cr_assert_float_eq(o.job.demand.max_drop, 0.5, 0);
    cr_assert(o.job.graph.skip.count == 2 && o.job.graph.only.count == 1 && !o.job.data.eval &&
              o.job.given[QC_OPTION_SEED] && o.job.data.seed == 7);
    cr_assert(!o.job.given[QC_OPTION_EVAL] && !o.job.given[QC_OPTION_REQUIRE_INTEGER]);
}

Test(config, command_line_wins)
{
    cr_assert(parse_with("{\"method\": \"kl\", \"skip\": [\"a\", \"b\"]}", "--skip", "c"));
    cr_assert_str_eq(o.job.method.observer, "kl");
    cr_assert(o.job.graph.skip.count == 1 && strcmp(o.job.graph.skip.items[0], "c") == 0);
    cr_assert(parse_with("{\"per-tensor\": true}", "--per-channel", NULL));
    cr_assert(!o.job.types.per_tensor);
    cr_assert(parse_with("{\"no-report\": true}", "--report", "dir"));
    cr_assert_str_eq(o.report, "dir");
    /* A value that the line replaces is not even looked at. */
    cr_assert(parse_with("{\"threads\": \"many\"}", "--threads", "2"));
    cr_assert_eq(o.job.run.threads, 2);
}

Test(config, keys_of_other_commands_are_left_alone)
{
    FILE *f = fopen(file, "wb");
    cr_assert(f && fputs("{\"method\": \"kl\", \"data\": \"x.h5\"}", f) >= 0 && fclose(f) == 0);
    char *argv[] = {"qcalib", "run", "m.onnx", "--config", file};
    MUST(qc_options_parse(&o, 5, argv, test_arena(), ST));
    MUST_HOLD(strcmp(o.job.data.file, "x.h5") == 0, strcmp(o.job.method.observer, "auto") == 0);
}

Test(config, refused)
{
    refuses("{\"metod\": \"kl\"}", QC_USAGE, "did you mean 'method'?");
    refuses("{\"threads\": \"many\"}", QC_USAGE, "--threads");
    refuses("{\"threads\": -2}", QC_USAGE, "-2");
    refuses("{\"threads\": 1.5}", QC_USAGE, "1.5");
    refuses("{\"per-tensor\": 1}", QC_USAGE, "true or false");
    refuses("{\"data\": true}", QC_USAGE, "\"data\"");
    refuses("{\"data\": {}}", QC_USAGE, "\"data\"");
    refuses("{\"skip\": [true]}", QC_USAGE, "\"skip\"");
    refuses("{\"config\": \"other.json\"}", QC_USAGE, "\"config\"");
    refuses("{\"help\": true}", QC_USAGE, "\"help\"");
    refuses("[1]", QC_USAGE, "JSON object");
    refuses("{\"data\": ", QC_BAD_INPUT, "line 1");
    refuses("", QC_BAD_INPUT, file);
    QC_FREED char *text = malloc(5000);
    cr_assert(text);
    memset(text, 'a', 5000);
    memcpy(text, "{\"data\":\"", 9);
    memcpy(text + 4990, "\"}", 3);
    refuses(text, QC_USAGE, "\"data\"");
}

/* As on the command line: a number is the digits that stand in the file, however many there are. */
Test(config, numbers_are_exact)
{
    static const struct {
        const char *text;
        uint64_t value;
    } whole[] = {{"9007199254740993", 9007199254740993u},
                 {"18446744073709551615", UINT64_MAX},
                 {"9007199254740993.0", 9007199254740993u},
                 {"1e3", 1000},
                 {"12.50E+1", 125},
                 {"1000e-2", 10},
                 {"0", 0},
                 {"0.0e5", 0},
                 {"0e99999999999999999999", 0}};
    static const char *const none[] = {
        "18446744073709551616",   "9007199254740992.5", "1e20", "1e99", "1e308", "-1", "1.5", "125e-1", "1e-1",
        "1e-99999999999999999999"};
    char json[128];
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++) {
        snprintf(json, sizeof json, "{\"seed\": %s}", whole[i].text);
        cr_assert(parse_with(json, NULL, NULL), "%s: %s", json, failure.message);
        cr_assert_eq(o.job.data.seed, whole[i].value, "%s", json);
        OWN(qc_json) *options = qc_options_json(&o.job);
        char *text = qc_json_print(qc_json_get(options, "seed"), 0), want[32];
        snprintf(want, sizeof want, "%" PRIu64, whole[i].value);
        cr_assert_str_eq(text, want);
        free(text);
    }
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        snprintf(json, sizeof json, "{\"seed\": %s}", none[i]);
        refuses(json, QC_USAGE, none[i]);
    }
    static const char *const decimals[] = {"0.1", "0.30000000000000004", "1e-3", "100.0",
                                           "0.1000000000000000055511151231257827"};
    for (size_t i = 0; i < sizeof decimals / sizeof *decimals; i++) {
        snprintf(json, sizeof json, "{\"max-drop\": %s}", decimals[i]);
        cr_assert(parse_with(json, NULL, NULL), "%s: %s", json, failure.message);
        const double given = o.job.demand.max_drop;
        cr_assert(parse_with("{}", "--max-drop", decimals[i]) && o.job.demand.max_drop == given, "%s", json);
    }
    /* A number where a text is wanted is that text. */
    MUST(parse_with("{\"accumulator\": 16, \"memory-limit\": 9007199254740993, \"rounding\": 0.10}", NULL, NULL));
    MUST_HOLD(strcmp(o.job.types.accumulator, "16") == 0, strcmp(o.job.graph.rounding, "0.10") == 0,
              o.job.run.memory_limit == 9007199254740993u);
}

Test(config, command_of_the_report_repeats_numbers)
{
    char *argv[] = {"qcalib", "m.onnx", "--samples", "12345678", "--seed", "18446744073709551615", "--max-drop", "0.1"};
    const char *text;
    MUST(qc_options_parse(&o, (int)(sizeof argv / sizeof *argv), argv, test_arena(), ST));
    MUST(qc_command_text(&text, test_arena(), &o.job, o.operands.items, o.operands.count, NULL, ST));
    cr_assert(strstr(text, "--samples=12345678 ") && strstr(text, "--seed=18446744073709551615 ") &&
                  strstr(text, "--max-drop=0.1 "),
              "%s", text);
}

Test(config, effective_options_are_a_configuration)
{
    char *argv[] = {"qcalib", "m.onnx", "--data",    "c.h5", "--method",  "kl:bins=512", "--symmetric", "--per-tensor",
                    "--skip", "a",      "--samples", "9",    "--threads", "2",           "-o",          "x.onnx"};
    MUST(qc_options_parse(&o, (int)(sizeof argv / sizeof *argv), argv, test_arena(), ST));
    OWN(qc_json) *json = qc_options_json(&o.job);
    cr_assert(json);
    cr_assert_null(qc_json_get(json, "threads"), "what does not change the result has no place in the report");
    cr_assert_null(qc_json_get(json, "output"));
    struct qc_options again;
    MUST(qc_options_init(&again, QC_COMMAND_quantize, test_arena(), ST));
    MUST(qc_options_configure(&again, json, "report", ST));
    MUST_HOLD(strcmp(again.method.observer, "kl:bins=512") == 0, strcmp(again.method.weight_method, "minmax") == 0);
    cr_assert(again.data.samples == 9 && again.types.per_tensor && again.types.symmetric_activations &&
              again.types.symmetric_weights && again.graph.skip.count == 1);
    OWN(qc_json) *second = qc_options_json(&again);
    QC_FREED char *a = qc_json_print(json, 0), *b = qc_json_print(second, 0);
    cr_assert_str_eq(a, b);
}
