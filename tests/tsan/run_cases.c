// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

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

int main(void)
{
    unsigned passes = 0, failures = 0;
    for (const struct tsan_case *c = cases; c; c = c->next) {
        if (!c->run || c->options.disabled || c->options.signal || c->options.exit_code) continue;
        const struct tsan_options *suite = NULL;
        for (const struct tsan_case *s = cases; s; s = s->next) {
            if (!s->run && strcmp(s->suite, c->suite) == 0) suite = &s->options;
        }
        run(c, suite);
        fprintf(stderr, "[%s] %s::%s\n", failed ? "FAIL" : skipped ? "SKIP" : "PASS", c->suite, c->name);
        if (failed) {
            failures++;
        } else if (!skipped) {
            passes++;
        }
    }
    fprintf(stderr, "[====] Synthesis: Tested: %u | Passing: %u | Failing: %u\n", passes + failures, passes, failures);
    return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
