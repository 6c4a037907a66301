// SPDX-License-Identifier: Apache-2.0
#include <sys/types.h>
#include <time.h>

#include "base/command.h"
#include "tests/check.h"

TestSuite(command, .timeout = 60);

static void expect_words(const char *text, size_t count, const char *const *expected)
{
    const char **words;
    size_t n;
    MUST(qc_command_split(&words, &n, text, test_arena(), ST));
    cr_assert_eq(n, count, "%s: %zu words", text, n);
    for (size_t i = 0; i < n; i++) cr_expect_str_eq(words[i], expected[i]);
    cr_expect_null(words[n]);
}

Test(command, splits_at_blanks_and_keeps_what_is_quoted)
{
    expect_words("a {}", 2, (const char *[]){"a", "{}"});
    expect_words("  a\t b\n", 2, (const char *[]){"a", "b"});
    expect_words("'a b' c' 'd \"it's\" ''", 4, (const char *[]){"a b", "c d", "it's", ""});
    expect_words("$HOME;*|>x", 1, (const char *[]){"$HOME;*|>x"});
}

Test(command, refuses_what_is_no_command)
{
    static const char *const wrong[] = {"", "  ", "a 'b", "a \"b'"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const char **words;
        size_t n;
        REFUSES_ROW(wrong[i], qc_command_split(&words, &n, wrong[i], test_arena(), ST), QC_USAGE, "");
    }
}

static bool run(const char **out, const char *text, const char *file, struct qc_status *st)
{
    const char **words;
    size_t n;
    cr_assert(qc_command_split(&words, &n, text, test_arena(), st), "%s", st->message);
    return qc_command_run(out, words, file, NULL, NULL, test_arena(), st);
}

Test(command, gets_the_file_in_every_place_and_no_shell)
{
    const char *out;
    MUST(run(&out, "printf %s|%s|%s {} --model={} $HOME;", "a b'.onnx", ST));
    cr_expect_str_eq(out, "a b'.onnx|--model=a b'.onnx|$HOME;");
    cr_assert(run(&out, "cat", "x", ST), "it reads nothing: %s", failure.message);
    cr_expect_str_eq(out, "");
}

Test(command, keeps_the_end_of_what_was_printed)
{
    const char *out;
    MUST(run(&out, "sh -c 'seq 200000; seq 200000 >&2'", "x", ST));
    cr_expect_leq(strlen(out), 4096);
    cr_expect_str_eq(out + strlen(out) - 14, "199999\n200000\n");
}

Test(command, says_how_it_ended)
{
    static const struct {
        const char *command, *message;
        enum qc_code code;
    } cases[] = {{"/no/such/program {}", "cannot start '/no/such/program'", QC_USAGE},
                 {"sh -c 'exit 3'", "exit code 3", QC_MACHINE},
                 {"sh -c 'echo first >&2; echo no model >&2; exit 1'", "exit code 1: no model", QC_MACHINE},
                 {"sh -c 'kill -9 $$'", "signal 9", QC_MACHINE}};
#ifdef QC_TEST_EMULATED
    const size_t first = 1; /* its posix_spawn starts what cannot be started */
#else
    const size_t first = 0;
#endif
    for (size_t i = first; i < sizeof cases / sizeof *cases; i++) {
        const char *out;
        REFUSES_ROW(cases[i].command, run(&out, cases[i].command, "x", ST), cases[i].code, cases[i].message);
    }
}

static bool stop(void *user, struct qc_status *st)
{
    return --*(int *)user > 0 || qc_fail(st, QC_INTERRUPTED, "stopped");
}

Test(command, is_killed_with_all_that_it_started)
{
    const char **words, *out;
    char path[] = "/tmp/qcalib-test-XXXXXX", text[32] = "";
    int asked = 8;
    size_t n;
    const int fd = mkstemp(path);
    cr_assert_geq(fd, 0);
    MUST(qc_command_split(&words, &n, "sh -c 'sleep 1000 & echo $! >$0; wait' {}", test_arena(), ST));
    REFUSES(qc_command_run(&out, words, path, stop, &asked, test_arena(), ST), QC_INTERRUPTED, "");
    FILE *f = fopen(path, "r");
    cr_assert(f && fgets(text, sizeof text, f), "it has started its child");
    fclose(f);
    remove(path);
    const pid_t child = (pid_t)strtol(text, NULL, 10);
    bool gone = false;
    for (int i = 0; i < 1000 && !gone; i++) { /* until whoever took it over has seen its end */
        char state = 'Z', stat_path[64];
        qc_text(stat_path, sizeof stat_path, "/proc/%d/stat", (int)child);
        f = fopen(stat_path, "r");
        gone = !f || fscanf(f, "%*d %*s %c", &state) != 1 || state == 'Z';
        if (f) fclose(f);
        if (!gone) nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    cr_expect(gone, "process %d", (int)child);
}

Test(command, last_number)
{
    HOLD(qc_last_number("1.5") == 1.5, qc_last_number("mean 3 ms, least 2.25 ms\n") == 2.25,
         qc_last_number("12.5ms") == 12.5, qc_last_number("1e-2 of int8") == 1e-2,
         isnan(qc_last_number("int8 u_8 none\n")), isnan(qc_last_number("")));
}
