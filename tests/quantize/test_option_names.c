// SPDX-License-Identifier: Apache-2.0
/* Options by name and text, as a program sets them: the table and the messages are those of the command line. */
#include "quantize/options/options.h"
#include "tests/check.h"

static struct qc_options o;

static void start(void)
{
    MUST(qc_options_init(&o, QC_COMMAND_quantize, test_arena(), ST));
}

TestSuite(option_names, .init = start);

static bool set(const char *name, const char *value)
{
    enum qc_option option;
    return qc_options_find(&option, &o, name, ST) && qc_options_set(&o, option, value, ST);
}

Test(option_names, every_choice_is_its_value)
{
    for (unsigned k = 0; k < QC_OPTION_COUNT; k++) {
        const struct qc_option_info *i = qc_option_info((enum qc_option)k);
        if (i->kind != QC_KIND_CHOICE && i->kind != QC_KIND_SWITCH) continue;
        for (const struct qc_option_choice *c = i->values; c->text; c++) {
            const void *field = (const char *)&o + i->field;
            cr_assert(qc_options_set(&o, (enum qc_option)k, c->text, ST), "--%s: %s", i->name, failure.message);
            cr_expect_eq(i->kind == QC_KIND_SWITCH ? *(const bool *)field : *(const unsigned *)field, c->value,
                         "--%s %s", i->name, c->text);
            cr_expect_str_eq(qc_option_choice_text(&o, i), c->text, "--%s", i->name);
            cr_expect(strstr(i->choices, c->text), "--%s: %s", i->name, i->choices);
        }
    }
}

Test(option_names, every_row_is_found)
{
    for (unsigned k = 0; k < QC_OPTION_COUNT; k++) {
        const struct qc_option_info *i = qc_option_info((enum qc_option)k);
        enum qc_option found = QC_OPTION_COUNT;
        unsigned c = 0;
        while (!(i->commands & 1u << c)) c++;
        o.command = (enum qc_command)c;
        cr_assert(c < QC_COMMAND_COUNT && qc_options_find(&found, &o, i->name, ST), "--%s", i->name);
        cr_assert_eq((unsigned)found, k);
        cr_assert(i->group != QC_GROUP_OUTPUT && i->group != QC_GROUP_ABOUT, "--%s is the terminal's", i->name);
    }
}

Test(option_names, values_and_flags)
{
    MUST(set("method", "mse") && set("skip", "a") && set("skip", "b") && set("require-integer", NULL) &&
         set("memory-limit", "2M"));
    cr_assert_str_eq(o.method.observer, "mse");
    cr_assert(o.graph.skip.count == 2 && o.graph.require_integer && o.run.memory_limit == 2 << 20 &&
              o.given[QC_OPTION_SKIP] && !o.given[QC_OPTION_ONLY]);
}

Test(option_names, messages)
{
    static const struct {
        const char *name, *value, *message;
    } cases[] = {
        {"metod", "kl", "unknown option --metod (did you mean '--method'?)"},
        {"zzzzzzzz", "1", "unknown option --zzzzzzzz"},
        {"json", NULL, "unknown option --json"},
        {"tolerance", "1", "quantize has no option --tolerance"},
        {"range", "Full", "--range: unknown value 'Full' (did you mean 'full'?); expected full or restricted"},
        {"threads", "0", "--threads: '0' is not a positive integer"},
        {"max-drop", "-1", "--max-drop: '-1' is not a number of 0 or more"},
        {"method", NULL, "--method needs a value: NAME[:key=value,..]"},
        {"require-integer", "yes", "--require-integer takes no value, but got 'yes'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_expect(!set(cases[i].name, cases[i].value) && failure.code == QC_USAGE, "%s", cases[i].name);
        cr_expect_str_eq(failure.message, cases[i].message);
    }
}

static bool configure(const char *text)
{
    OWN(qc_json) *json = NULL;
    MUST(qc_json_parse(&json, text, strlen(text), ST));
    const bool ok = qc_options_configure(&o, json, "options", ST);
    return ok;
}

Test(option_names, configuration)
{
    MUST(configure("{\"method\": \"mse\", \"threads\": 2, \"skip\": [\"a\", \"b\"], \"tolerance\": 3}"));
    cr_assert(o.run.threads == 2 && o.graph.skip.count == 2 && !o.given[QC_OPTION_TOLERANCE]);
    cr_assert(!configure("{\"metod\": \"mse\"}") &&
                  strstr(failure.message, "options: unknown key \"metod\" (did you mean 'method'?)"),
              "%s", failure.message);
    cr_assert(!configure("{\"json\": true}") && strstr(failure.message, "unknown key \"json\""), "%s", failure.message);
    cr_assert(!configure("{\"threads\": [1]}") && strstr(failure.message, "\"threads\" must be"), "%s",
              failure.message);
}
