// SPDX-License-Identifier: Apache-2.0
#include "export/html.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>

/* Bytes of the UTF-8 character at s (RFC 3629); 0 when it is none. */
static size_t character(const unsigned char *s)
{
    if (s[0] < 0x80) return 1;
    size_t n = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    if (s[0] < 0xc2 || s[0] > 0xf4) return 0;
    for (size_t i = 1; i < n; i++)
        if ((s[i] & 0xc0) != 0x80) return 0;
    bool overlong = (s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xf0 && s[1] < 0x90), surrogate = s[0] == 0xed && s[1] > 0x9f;
    return overlong || surrogate || (s[0] == 0xf4 && s[1] > 0x8f) ? 0 : n;
}

void qc_html_text(FILE *f, const char *text)
{
    qc_html_part(f, text, SIZE_MAX);
}

void qc_html_part(FILE *f, const char *text, size_t count)
{
    const unsigned char *s = (const unsigned char *)text, *begin = s;
    while (s && (size_t)(s - begin) < count && *s) {
        size_t n = character(s);
        if (!n || (*s < 0x20 && *s != '\n' && *s != '\t') || *s == 0x7f) {
            fputs("\xef\xbf\xbd", f);
            s++;
            continue;
        }
        switch (*s) {
        case '&': fputs("&amp;", f); break;
        case '<': fputs("&lt;", f); break;
        case '>': fputs("&gt;", f); break;
        case '"': fputs("&quot;", f); break;
        case '\'': fputs("&#39;", f); break;
        default: fwrite(s, 1, n, f);
        }
        s += n;
    }
}

void qc_html(FILE *f, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vfprintf(f, fmt, ap);
    va_end(ap);
}

static bool special(FILE *f, double v)
{
    if (isnan(v)) fputs("–", f);
    else if (isinf(v)) fputs(v > 0 ? "∞" : "−∞", f);
    return !isfinite(v);
}

void qc_html_fixed(FILE *f, double v, int decimals)
{
    if (special(f, v)) return;
    if (v < 0) fputs("−", f);
    fprintf(f, "%.*f", decimals, fabs(v));
}

void qc_html_short(FILE *f, double v)
{
    if (special(f, v)) return;
    if (v < 0) fputs("−", f);
    fprintf(f, "%.3g", fabs(v));
}

void qc_html_bytes(FILE *f, size_t n)
{
    static const char *const units[] = {"bytes", "KB", "MB", "GB", "TB"};
    double v = (double)n;
    size_t unit = 0;
    for (; v >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++) v /= 1024;
    fprintf(f, unit == 0 || v >= 100 ? "%.0f %s" : "%.1f %s", v, units[unit]);
}

void qc_html_power(FILE *f, double x, double y, double power)
{
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">10<tspan dy=\"-4\" font-size=\"8\">%s%.0f</tspan></text>", x, y, power < 0 ? "−" : "", fabs(power));
}

void qc_html_percent(FILE *f, double share)
{
    if (special(f, share)) return;
    double p = 100 * share;
    if (p > 0 && p < 0.005) fputs("&lt; 0.01 %", f);
    else fprintf(f, p == 0 ? "%.0f %%" : "%.2f %%", p);
}

void qc_html_ticks(double *first, double *step, double lo, double hi, int most)
{
    double rough = (hi - lo) / most, power = pow(10, floor(log10(rough))), part = rough / power;
    *step = (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10) * power;
    *first = ceil(lo / *step - 1e-9) * *step + 0.0; /* no -0 */
}
