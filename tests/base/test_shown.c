// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <limits.h>

#include "base/shown.h"
#include "base/words.h"
#include "tests/check.h"

#define BOTH(...)                                                                                                      \
    do {                                                                                                               \
        char *a = NULL, *b = NULL;                                                                                     \
        size_t an, bn;                                                                                                 \
        FILE *f = open_memstream(&a, &an), *g = open_memstream(&b, &bn);                                               \
        const int n = qc_print(f, __VA_ARGS__), m = fprintf(g, __VA_ARGS__);                                           \
        fclose(f);                                                                                                     \
        fclose(g);                                                                                                     \
        cr_expect_str_eq(a, b);                                                                                        \
        cr_expect_eq(n, m);                                                                                            \
        free(a);                                                                                                       \
        free(b);                                                                                                       \
    } while (0)

/* The C library is the reference where nothing is escaped. */
Test(shown, prints_as_the_c_library_does)
{
    BOTH("plain\n\t");
    BOTH("%s|%10s|%-10s|%.2s|%*s|%-*s|%.*s|", "text", "text", "text", "text", 7, "text", 7, "text", 3, "text");
    BOTH("%d %5d %-5d| %05d %+d %i %u %x %c%%\n", -3, 42, 42, 42, 42, INT_MIN, UINT_MAX, 255u, 'q');
    BOTH("%ld %lld %zu %zd %jd %" PRIu64 " %" PRId64, LONG_MIN, LLONG_MAX, SIZE_MAX, (ptrdiff_t)-1, INTMAX_MIN,
         UINT64_MAX, INT64_MIN);
    BOTH("%f %.2f %8.3f %-9.1f| %g %.3g %.*g %e %+.2f", 1.5, 2.345, -1e3, 0.25, 1e-7, 1234567.0, 17, 0.1, 1e300, 0.0);
    BOTH("%s%s%s %-3zu.%s", "", "a", "", (size_t)7, "%s %d");
    BOTH("%.300f", 1e308);
}

static void shows(const char *text, const char *want)
{
    QC_FREED char *a = NULL;
    size_t n;
    FILE *f = open_memstream(&a, &n);
    const int columns = qc_print(f, "%s", text);
    fclose(f);
    HOLD(strcmp(a, want) == 0, columns <= (int)strlen(want));
}

Test(shown, what_is_not_printable_is_escaped)
{
    shows("conv\xc3\xa9 \xe5\xb1\x82 \xf0\x9f\x98\x80", "conv\xc3\xa9 \xe5\xb1\x82 \xf0\x9f\x98\x80");
    shows("\033[31m\a\r\n\t\x7f", "\\x1b[31m\\x07\\x0d\\x0a\\x09\\x7f");
    shows("\xff|\xc0\xaf|\xe2\x82|\xed\xa0\x80|\xf4\x90\x80\x80|\xc3(",
          "\\xff|\\xc0\\xaf|\\xe2\\x82|\\xed\\xa0\\x80|\\xf4\\x90\\x80\\x80|\\xc3(");
    shows("\xc2\x9b|\xc2\x85|\xc2\xad", "\\u009b|\\u0085|\\u00ad");
    shows("\xe2\x80\xae|\xe2\x81\xa9|\xe2\x80\x8b|\xef\xbb\xbf|\xe2\x80\xa8",
          "\\u202e|\\u2069|\\u200b|\\ufeff|\\u2028");
    shows("\xf3\xa0\x80\x81|\xf4\x8f\xbf\xbf|\xee\x80\x80|\xef\xbf\xbe", "\\U000e0001|\\U0010ffff|\\ue000|\\ufffe");
    shows("%n%s", "%n%s");
}

Test(shown, width_counts_what_is_seen)
{
    QC_FREED char *a = NULL;
    size_t n;
    FILE *f = open_memstream(&a, &n);
    cr_expect_eq(qc_print(f, "%-6s|%6s|%2s|", "\xc3\xa9\033", "\xe5\xb1\x82", "abc"), 18);
    fclose(f);
    cr_expect_str_eq(a, "\xc3\xa9\\x1b |     \xe5\xb1\x82|abc|");
}

Test(number_text, counts_and_bytes)
{
    char buf[QC_NUMBER_TEXT];
    cr_assert_str_eq(qc_count_text(buf, 0), "0");
    cr_assert_str_eq(qc_count_text(buf, 999), "999");
    cr_assert_str_eq(qc_count_text(buf, 269722), "269,722");
    cr_assert_str_eq(qc_count_text(buf, UINT64_MAX), "18,446,744,073,709,551,615");
    cr_assert_str_eq(qc_bytes_text(buf, 1023), "1023 bytes");
    cr_assert_str_eq(qc_bytes_text(buf, 1536), "1.5 KB");
    cr_assert_str_eq(qc_bytes_text(buf, UINT64_MAX), "16777216 TB");
}
