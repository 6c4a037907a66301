// SPDX-License-Identifier: Apache-2.0
#include "export/report/html.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include "base/shown.h"

void qc_html_text(FILE *f, const char *text)
{
    qc_html_part(f, text, SIZE_MAX);
}

void qc_html_part(FILE *f, const char *text, size_t count)
{
    char piece[QC_SHOWN];
    bool escaped;
    for (size_t at = 0; text && at < count && text[at];) {
        at += qc_shown(piece, &escaped, text + at);
        switch (*piece) {
        case '&': fputs("&amp;", f); break;
        case '<': fputs("&lt;", f); break;
        case '>': fputs("&gt;", f); break;
        case '"': fputs("&quot;", f); break;
        case '\'': fputs("&#39;", f); break;
        default: fputs(piece, f);
        }
    }
}

void qc_html_name(FILE *f, const char *name)
{
    for (const char *slash; (slash = strchr(name, '/')) && slash[1]; name = slash + 1) {
        qc_html_part(f, name, (size_t)(slash - name) + 1);
        if (slash != name && slash[-1] != ' ') fputs("<wbr>", f); /* not behind the first of a name */
    }
    qc_html_text(f, name);
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
    if (isnan(v))
        fputs("–", f);
    else if (isinf(v))
        fputs(v > 0 ? "∞" : "−∞", f);
    return !isfinite(v);
}

void qc_html_fixed(FILE *f, double v, int decimals)
{
    if (special(f, v)) return;
    if (v < 0) fputs("−", f);
    fprintf(f, "%.*f", decimals, fabs(v));
}

void qc_html_count(FILE *f, uint64_t n)
{
    char digits[24];
    const int length = snprintf(digits, sizeof digits, "%" PRIu64, n);
    for (int i = 0; i < length; i++) {
        if (i && (length - i) % 3 == 0) putc(',', f);
        putc(digits[i], f);
    }
}

void qc_html_short(FILE *f, double v)
{
    if (special(f, v)) return;
    if (v < 0) fputs("−", f);
    if (fabs(v) >= 999.5 && fabs(v) < 1e9)
        qc_html_count(f, (uint64_t)(fabs(v) + .5));
    else
        fprintf(f, "%.3g", fabs(v));
}

void qc_html_bytes(FILE *f, size_t n)
{
    static const char *const units[] = {"bytes", "KB", "MB", "GB", "TB"};
    double v = (double)n;
    size_t unit = 0;
    for (; v >= 1024 && unit + 1 < sizeof units / sizeof *units; unit++) v /= 1024;
    fprintf(f, unit == 0 || v >= 100 ? "%.0f %s" : "%.1f %s", v, units[unit]);
}

void qc_html_power(FILE *f, double x, double y, double power)
{
    fprintf(f,
            "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">10<tspan dy=\"-4\" font-size=\"8\">%s%.0f</tspan></text>",
            x, y, power < 0 ? "−" : "", fabs(power));
}

void qc_html_percent(FILE *f, double share)
{
    if (special(f, share)) return;
    double p = 100 * share;
    if (p > 0 && p < 0.005)
        fputs("&lt; 0.01 %", f);
    else
        fprintf(f, p == 0 ? "%.0f %%" : "%.2f %%", p);
}

void qc_html_ticks(double *first, double *step, double lo, double hi, int most)
{
    double rough = (hi - lo) / most, power = pow(10, floor(log10(rough))), part = rough / power;
    *step = (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10) * power;
    *first = ceil(lo / *step - 1e-9) * *step + 0.0; /* no -0 */
}
