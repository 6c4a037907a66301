// SPDX-License-Identifier: Apache-2.0
#include <float.h>
#include <inttypes.h>
#include <locale.h>

#include "base/json.h"
#include "tests/check.h"

static void prints(struct qc_json *v, const char *want)
{
    QC_FREED char *text = qc_json_print(v, 0);
    cr_assert_not_null(text);
    cr_assert_str_eq(text, want);
    qc_json_free(v);
}

/* The texts are Python's repr() of the same doubles and numpy's of the floats, which are the shortest too. */
Test(json, numbers_print_in_the_shortest_form)
{
    prints(qc_json_number(0.1), "0.1");
    prints(qc_json_number(3), "3");
    prints(qc_json_number(-0.0), "-0");
    prints(qc_json_number(1.0 / 3), "0.3333333333333333");
    prints(qc_json_number(0.1 + 0.2), "0.30000000000000004");
    prints(qc_json_number(DBL_MAX), "1.7976931348623157e+308");
    prints(qc_json_number(5e-324), "5e-324");
    prints(qc_json_number((double)NAN), "null");
    prints(qc_json_number(-(double)INFINITY), "null");
    prints(qc_json_float(0.1f), "0.1");
    prints(qc_json_float(1.0f / 3), "0.33333334");
    prints(qc_json_float(0.0078125f), "0.0078125");
    prints(qc_json_float(16777216.0f), "16777216");
    prints(qc_json_float(FLT_MAX), "3.4028235e+38");
    prints(qc_json_float(1e-45f), "1e-45");
    prints(qc_json_float(NAN), "null");
    prints(qc_json_integer(INT64_MIN), "-9223372036854775808");
    prints(qc_json_integer(INT64_MAX), "9223372036854775807");
    prints(qc_json_bool(true), "true");
}

Test(json, every_float_reads_back)
{
    uint32_t bits = 12345;
    for (int i = 0; i < 20000; i++) {
        bits = bits * 1664525u + 1013904223u;
        float f;
        memcpy(&f, &bits, sizeof f);
        if (!isfinite(f)) continue;
        OWN(qc_json) *v = qc_json_float(f), *w = NULL;
        QC_FREED char *text = qc_json_print(v, 0);
        cr_assert(strtof(text, NULL) == f, "%s", text);
        cr_assert(qc_json_parse(&w, text, strlen(text), ST), "%s", text);
        cr_assert((float)qc_json_value(w) == f, "%s", text);
    }
}

Test(json, the_locale_does_not_show)
{
    char folder[] = "/tmp/qcalib-locale-XXXXXX", command[256];
    cr_assert_not_null(mkdtemp(folder));
    snprintf(command, sizeof command, "localedef --no-archive -i de_DE -f UTF-8 %s/de_DE.UTF-8 >/dev/null 2>&1",
             folder);
    bool set = system(command) != -1 && setenv("LOCPATH", folder, 1) == 0 && setlocale(LC_NUMERIC, "de_DE.UTF-8");
    snprintf(command, sizeof command, "rm -rf %s", folder);
    cr_assert_eq(system(command), 0);
    if (!set) cr_skip_test("no locale with a decimal comma can be made (package locales)");
    char text[8];
    snprintf(text, sizeof text, "%.1f", 0.5);
    cr_assert_str_eq(text, "0,5");
    prints(qc_json_number(0.5), "0.5");
    prints(qc_json_float(-1.5e-7f), "-1.5e-07");
    setlocale(LC_NUMERIC, "C");
}

Test(json, keys_keep_their_order_and_the_last_value_counts)
{
    struct qc_json *o = qc_json_object(), *a = qc_json_array();
    qc_json_set(o, "z", qc_json_integer(1));
    qc_json_set(o, "a", a);
    qc_json_add(a, qc_json_null());
    qc_json_add(a, qc_json_object());
    qc_json_add(a, qc_json_array());
    qc_json_set(o, "m", qc_json_string("x"));
    qc_json_set(o, "z", qc_json_integer(2));
    char *text = qc_json_print(o, 2);
    cr_assert_str_eq(text, "{\n  \"z\": 2,\n  \"a\": [\n    null,\n    {},\n    []\n  ],\n  \"m\": \"x\"\n}");
    free(text);
    prints(o, "{\"z\": 2, \"a\": [null, {}, []], \"m\": \"x\"}");
}

Test(json, strings_are_escaped_and_valid)
{
    prints(qc_json_string("a\"\\\n\t\x01\x7f/"), "\"a\\\"\\\\\\n\\t\\u0001\\u007f/\"");
    prints(qc_json_string("\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"), "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"");
    /* lone continuation, cut sequence, overlong, surrogate, beyond U+10FFFF */
    prints(qc_json_string("\x80|\xe2\x82|\xc0\xaf|\xed\xa0\x80|\xf4\x90\x80\x80|\xff"),
           "\"\\\\x80|\\\\xe2\\\\x82|\\\\xc0\\\\xaf|\\\\xed\\\\xa0\\\\x80|\\\\xf4\\\\x90\\\\x80\\\\x80|\\\\xff\"");
    prints(qc_json_string("\xe2\x80\xae\xc2\x9b\xf3\xa0\x80\x81"), "\"\\u202e\\u009b\\udb40\\udc01\"");
    struct qc_json *o = qc_json_object();
    qc_json_set(o, "\xff", qc_json_integer(1));
    qc_json_set(o, "\xff", qc_json_integer(2));
    prints(o, "{\"\\\\xff\": 2}");
    prints(qc_json_string(NULL), "null");
}

Test(json, reading)
{
    static const char text[] = "{\"a\": [1, -2.5e3, true, null, \"\\u00e9\"], \"b\": {}}";
    OWN(qc_json) *v = NULL;
    MUST(qc_json_parse(&v, text, strlen(text), ST));
    MUST_HOLD(qc_json_kind(v) == QC_JSON_OBJECT, qc_json_size(v) == 2, strcmp(qc_json_key(v, 1), "b") == 0);
    cr_assert_null(qc_json_key(v, 2));
    cr_assert_null(qc_json_get(v, "c"));
    const struct qc_json *a = qc_json_get(v, "a");
    MUST_HOLD(a == qc_json_at(v, 0), qc_json_size(a) == 5, qc_json_value(qc_json_at(a, 0)) == 1,
              qc_json_value(qc_json_at(a, 1)) == -2500, qc_json_value(qc_json_at(a, 2)) == 1,
              isnan(qc_json_value(qc_json_at(a, 3))), strcmp(qc_json_text(qc_json_at(a, 4)), "\xc3\xa9") == 0);
    cr_assert_null(qc_json_text(qc_json_at(a, 0)));
    cr_assert_null(qc_json_at(a, 5));
    cr_assert_null(qc_json_get(a, "a"));
}

Test(json, numbers_keep_their_digits)
{
    static const char text[] =
        "[9007199254740993, {\"1\": 18446744073709551615, \"\\\\\": 0.10}, \"2\\\"3\", -1.50E+2,1e-5]";
    struct qc_json *v;
    MUST(qc_json_parse(&v, text, strlen(text), ST));
    MUST_HOLD(strcmp(qc_json_digits(qc_json_at(v, 0)), "9007199254740993") == 0,
              strcmp(qc_json_digits(qc_json_at(qc_json_at(v, 1), 0)), "18446744073709551615") == 0,
              strcmp(qc_json_digits(qc_json_at(qc_json_at(v, 1), 1)), "0.10") == 0);
    cr_assert_null(qc_json_digits(qc_json_at(v, 2)));
    MUST_HOLD(strcmp(qc_json_digits(qc_json_at(v, 3)), "-1.50E+2") == 0,
              strcmp(qc_json_digits(qc_json_at(v, 4)), "1e-5") == 0, qc_json_value(qc_json_at(v, 3)) == -150);
    struct qc_json *copy = qc_json_copy(v);
    qc_json_free(v);
    prints(copy, "[9007199254740993, {\"1\": 18446744073709551615, \"\\\\\": 0.10}, \"2\\\"3\", -1.50E+2, 1e-5]");
    prints(qc_json_whole(UINT64_MAX), "18446744073709551615");
}

/* What follows the size that is given is not read. */
Test(json, the_size_ends_a_number)
{
    static const struct {
        const char *text;
        size_t size;
        const char *printed;
    } cases[] = {{"405", 2, "40"}, {"4e05", 4, "4e05"}, {"[1, 2]3", 6, "[1, 2]"}, {"-1.5.", 4, "-1.5"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct qc_json *v;
        MUST(qc_json_parse(&v, cases[i].text, cases[i].size, ST));
        prints(v, cases[i].printed);
    }
}

Test(json, damaged_text_is_a_status_with_a_place)
{
    static const char *const cases[] = {
        "",   "{",  "[1,]", "{\"a\":1,\"a\":2}", "nul", "1e999", "[\"\\u0000\"]", "\"\xff\"", "[1] 2", "{1:2}",
        "01", "1.", "NaN",  "\"\\ud800\""};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct qc_json *v = NULL;
        cr_assert_not(qc_json_parse(&v, cases[i], strlen(cases[i]), ST), "%s", cases[i]);
        cr_assert_null(v);
        cr_assert_eq(failure.code, QC_BAD_INPUT);
        MUST(strstr(failure.message, "column"));
    }
    enum { DEEP = 100000 };
    QC_FREED char *deep = malloc(DEEP);
    memset(deep, '[', DEEP);
    struct qc_json *v;
    cr_assert_not(qc_json_parse(&v, deep, DEEP, ST));
}

Test(json, members_are_put_by_a_format)
{
    static const char *const words[] = {"x", NULL};
    const char *volatile none = NULL; /* the compiler must not see that it is NULL */
    struct qc_json *o = QC_JSON("name %s none %s share %g scale %f met %hhd", "a", none, 0.5, (double)0.1f, (bool)true);
    qc_json_put(o, "bits %d count %zu most %" PRIu64 " least %" PRId64 " level %u", -8, (size_t)3, UINT64_MAX,
                INT64_MIN, 7u);
    qc_json_set(o, "words", qc_json_strings(words, 2));
    prints(o, "{\"name\": \"a\", \"none\": null, \"share\": 0.5, \"scale\": 0.1, \"met\": true, \"bits\": -8, "
              "\"count\": 3, \"most\": 18446744073709551615, \"least\": -9223372036854775808, \"level\": 7, "
              "\"words\": [\"x\", null]}");
}

/* What could not be allocated is NULL, and reads as nothing. */
Test(json, nothing_has_no_content)
{
    cr_expect_eq(qc_json_size(NULL), 0);
    cr_expect_null(qc_json_at(NULL, 0));
    cr_expect_null(qc_json_get(NULL, "key"));
    cr_expect_not(qc_json_is_whole(NULL));
}

/* NULL stands for a value that memory was out for. */
Test(json, a_tree_without_one_of_its_values_is_not_whole)
{
    for (int depth = 0; depth < 3; depth++) {
        struct qc_json *root = qc_json_object(), *at = root;
        for (int i = 0; i < depth; i++) {
            struct qc_json *below = qc_json_object();
            qc_json_set(at, "below", below);
            at = below;
        }
        qc_json_set(at, "list", qc_json_array());
        cr_expect(qc_json_is_whole(root));
        qc_json_set(at, "list", NULL); /* behind the object's place in the tree */
        OWN(qc_json) *copy = qc_json_copy(root);
        cr_expect_not(qc_json_is_whole(root), "depth %d", depth);
        cr_expect_null(qc_json_print(root, 0), "depth %d", depth);
        cr_expect_not(qc_json_is_whole(copy), "depth %d", depth);
        qc_json_free(root);
    }
}

Test(json, null_instead_of_an_object_takes_no_members)
{
    OWN(qc_json) *o = qc_json_copy(NULL);
    qc_json_set(o, "key", qc_json_integer(1));
    cr_expect_not(qc_json_is_whole(o));
    qc_json_add(o, qc_json_integer(1));
    cr_expect_eq(qc_json_size(o), 0);
}

Test(json, an_empty_list_is_left_out_but_not_one_that_lost_its_values)
{
    struct qc_json *o = qc_json_object(), *list = qc_json_array();
    qc_json_set_some(o, "none", qc_json_array());
    qc_json_add(list, qc_json_integer(1));
    qc_json_set_some(o, "some", list);
    prints(qc_json_copy(o), "{\"some\": [1]}");
    list = qc_json_array();
    qc_json_add(list, NULL);
    qc_json_set_some(o, "lost", list);
    cr_expect_not(qc_json_is_whole(o));
    qc_json_free(o);
    o = qc_json_object();
    qc_json_set_some(o, "lost", NULL);
    cr_expect_not(qc_json_is_whole(o));
    qc_json_free(o);
}
