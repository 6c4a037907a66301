// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* Cases that run in one thread and take long in this preset; other presets run them. */
static const char *const left_out[] = {
#define LEAVE_OUT(suite, name) #suite "::" #name,
#include "left_out.def"
#undef LEAVE_OUT
};

static struct tsan_case *cases;
static jmp_buf leave;
static bool failed, skipped;

void tsan_add_case(struct tsan_case *c)
{
    struct tsan_case **end = &cases;
    while (*end) end = &(*end)->next;
    *end = c;
}

void tsan_check(bool ok, bool fatal, const char *text, const char *file, int line)
{
    if (ok) return;
    fprintf(stderr, "[----] %s:%d: %s\n", file, line, text);
    failed = true;
    if (fatal) longjmp(leave, 1);
}

void tsan_skip(const char *file, int line)
{
    (void)file, (void)line;
    skipped = true;
    longjmp(leave, 1);
}

static void run(const struct tsan_case *c, const struct tsan_options *suite)
{
    failed = skipped = false;
    if (setjmp(leave) == 0) {
        if (suite && suite->init) suite->init();
        if (c->options.init) c->options.init();
        c->run();
    }
    if (c->options.fini) c->options.fini();
    if (suite && suite->fini) suite->fini();
}

static bool is_left_out(const struct tsan_case *c)
{
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++) {
        const char *at = strstr(left_out[i], "::");
        const size_t n = (size_t)(at - left_out[i]);
        if (strncmp(left_out[i], c->suite, n) == 0 && c->suite[n] == 0 && strcmp(at + 2, c->name) == 0) return true;
    }
    return false;
}

int main(void)
{
    unsigned passes = 0, failures = 0;
    for (const struct tsan_case *c = cases; c; c = c->next) {
        if (!c->run || c->options.disabled || c->options.signal || c->options.exit_code || is_left_out(c)) continue;
        const struct tsan_options *suite = NULL;
        for (const struct tsan_case *s = cases; s; s = s->next) {
            if (!s->run && strcmp(s->suite, c->suite) == 0) suite = &s->options;
        }
        struct timespec before, after;
        clock_gettime(CLOCK_MONOTONIC, &before);
        run(c, suite);
        clock_gettime(CLOCK_MONOTONIC, &after);
        const double seconds = (double)(after.tv_sec - before.tv_sec) + (double)(after.tv_nsec - before.tv_nsec) * 1e-9;
        fprintf(stderr, "[%s] %s::%s: (%.2fs)\n",
                failed    ? "FAIL"
                : skipped ? "SKIP"
                          : "PASS",
                c->suite, c->name, seconds);
        if (failed) {
            failures++;
        } else if (!skipped) {
            passes++;
        }
    }
    fprintf(stderr, "[====] Synthesis: Tested: %u | Passing: %u | Failing: %u\n", passes + failures, passes, failures);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
