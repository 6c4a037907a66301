// SPDX-License-Identifier: Apache-2.0
/* Criterion's macros for the presets tsan and arm64: the real one maps memory where ThreadSanitizer keeps its own, and
   starts each case as a program of its own, which an emulator does not do. Cases run one after the other in one process
   (run_cases.c); the text behind an assertion is not printed. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct tsan_options {
    void (*init)(void), (*fini)(void);
    double timeout;
    const char *description;
    bool disabled;
    int signal, exit_code;
};

struct tsan_case {
    const char *suite, *name;
    void (*run)(void);
    struct tsan_options options;
    struct tsan_case *next;
};

void tsan_add_case(struct tsan_case *c);
void tsan_check(bool ok, bool fatal, const char *text, const char *file, int line);
void tsan_skip(const char *file, int line);

#define Test(S, N, ...)                                                                                                \
    static void S##_##N##_run(void);                                                                                   \
    __attribute__((constructor)) static void S##_##N##_add(void)                                                       \
    {                                                                                                                  \
        static struct tsan_case c = {#S, #N, S##_##N##_run, {__VA_ARGS__}};                                            \
        tsan_add_case(&c);                                                                                             \
    }                                                                                                                  \
    static void S##_##N##_run(void)

#define TestSuite(S, ...)                                                                                              \
    __attribute__((constructor)) static void S##_suite_add(void)                                                       \
    {                                                                                                                  \
        static struct tsan_case c = {#S, NULL, NULL, {__VA_ARGS__}};                                                   \
        tsan_add_case(&c);                                                                                             \
    }                                                                                                                  \
    extern int tsan_semicolon

#define TSAN_CHECK(fatal, c, text) tsan_check(!!(c), fatal, text, __FILE__, __LINE__)

#define cr_skip_test(...) tsan_skip(__FILE__, __LINE__)
#define cr_skip(...) tsan_skip(__FILE__, __LINE__)
#define cr_log_info(...) ((void)0)
#define cr_log_warn(...) ((void)0)
#define cr_log_error(...) ((void)0)
#define cr_fatal(...) TSAN_CHECK(true, false, "fatal")
#define cr_assert_fail(...) TSAN_CHECK(true, false, "fail")
#define cr_expect_fail(...) TSAN_CHECK(false, false, "fail")

#define cr_assert(c, ...) TSAN_CHECK(true, c, #c)
#define cr_assert_not(c, ...) TSAN_CHECK(true, !(c), "!(" #c ")")
#define cr_assert_null(p, ...) TSAN_CHECK(true, (p) == NULL, #p " == NULL")
#define cr_assert_not_null(p, ...) TSAN_CHECK(true, (p) != NULL, #p " != NULL")
#define cr_assert_eq(a, b, ...) TSAN_CHECK(true, (a) == (b), #a " == " #b)
#define cr_assert_neq(a, b, ...) TSAN_CHECK(true, (a) != (b), #a " != " #b)
#define cr_assert_lt(a, b, ...) TSAN_CHECK(true, (a) < (b), #a " < " #b)
#define cr_assert_leq(a, b, ...) TSAN_CHECK(true, (a) <= (b), #a " <= " #b)
#define cr_assert_gt(a, b, ...) TSAN_CHECK(true, (a) > (b), #a " > " #b)
#define cr_assert_geq(a, b, ...) TSAN_CHECK(true, (a) >= (b), #a " >= " #b)
#define cr_assert_float_eq(a, b, e, ...) TSAN_CHECK(true, fabs((double)(a) - (double)(b)) <= (double)(e), #a " ~ " #b)
#define cr_assert_str_eq(a, b, ...) TSAN_CHECK(true, strcmp(a, b) == 0, #a " == " #b)
#define cr_assert_str_neq(a, b, ...) TSAN_CHECK(true, strcmp(a, b) != 0, #a " != " #b)
#define cr_assert_arr_eq(a, b, n, ...) TSAN_CHECK(true, memcmp(a, b, n) == 0, #a " == " #b)

#define cr_expect(c, ...) TSAN_CHECK(false, c, #c)
#define cr_expect_not(c, ...) TSAN_CHECK(false, !(c), "!(" #c ")")
#define cr_expect_null(p, ...) TSAN_CHECK(false, (p) == NULL, #p " == NULL")
#define cr_expect_not_null(p, ...) TSAN_CHECK(false, (p) != NULL, #p " != NULL")
#define cr_expect_eq(a, b, ...) TSAN_CHECK(false, (a) == (b), #a " == " #b)
#define cr_expect_neq(a, b, ...) TSAN_CHECK(false, (a) != (b), #a " != " #b)
#define cr_expect_lt(a, b, ...) TSAN_CHECK(false, (a) < (b), #a " < " #b)
#define cr_expect_leq(a, b, ...) TSAN_CHECK(false, (a) <= (b), #a " <= " #b)
#define cr_expect_gt(a, b, ...) TSAN_CHECK(false, (a) > (b), #a " > " #b)
#define cr_expect_geq(a, b, ...) TSAN_CHECK(false, (a) >= (b), #a " >= " #b)
#define cr_expect_float_eq(a, b, e, ...) TSAN_CHECK(false, fabs((double)(a) - (double)(b)) <= (double)(e), #a " ~ " #b)
#define cr_expect_str_eq(a, b, ...) TSAN_CHECK(false, strcmp(a, b) == 0, #a " == " #b)
#define cr_expect_str_neq(a, b, ...) TSAN_CHECK(false, strcmp(a, b) != 0, #a " != " #b)
#define cr_expect_arr_eq(a, b, n, ...) TSAN_CHECK(false, memcmp(a, b, n) == 0, #a " == " #b)
