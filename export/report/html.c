// SPDX-License-Identifier: Apache-2.0
#include "export/report/html.h"

#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "export/report_assets.h"

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
        if (slash != name && slash[-1] != ' ') fputs("<wbr>", f); /* not after the first slash of a name */
    }
    qc_html(f, "%s", name);
}

void qc_html(FILE *f, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    qc_vprint_by(f, qc_html_part, fmt, ap);
    va_end(ap);
}

/* Returns the text of a number that is not finite; NULL: it is finite. */
static const char *special(double v)
{
    return isnan(v) ? "–" : isfinite(v) ? NULL : v > 0 ? "∞" : "−∞";
}

const char *qc_fixed_text(char buf[QC_HTML_NUMBER], double v, int decimals)
{
    if (!isfinite(v)) return special(v);
    snprintf(buf, QC_HTML_NUMBER, "%s%.*f", v < 0 ? "−" : "", decimals, fabs(v));
    return buf;
}

const char *qc_short_text(char buf[QC_HTML_NUMBER], double v)
{
    if (!isfinite(v)) return special(v);
    if (fabs(v) >= 999.5 && fabs(v) < 1e9)
        snprintf(buf, QC_HTML_NUMBER, "%s%s", v < 0 ? "−" : "", QC_COUNT((uint64_t)(fabs(v) + .5)));
    else
        snprintf(buf, QC_HTML_NUMBER, "%s%.3g", v < 0 ? "−" : "", fabs(v));
    return buf;
}

const char *qc_percent_text(char buf[QC_HTML_NUMBER], double share)
{
    const double p = 100 * share;
    if (!isfinite(share)) return special(share);
    if (p > 0 && p < 0.005) return "< 0.01 %";
    snprintf(buf, QC_HTML_NUMBER, p == 0 ? "%.0f %%" : "%.2f %%", p);
    return buf;
}

void qc_html_cell(FILE *f, double v, const char *text)
{
    if (isnan(v))
        qc_html(f, "<td class=\"n\" data-v=\"\">%s</td>", text);
    else
        qc_html(f, "<td class=\"n\" data-v=\"%.9g\">%s</td>", isinf(v) ? v > 0 ? 1e9 : -1e9 : v, text);
}

void qc_html_power(FILE *f, double x, double y, double power)
{
    qc_html(f,
            "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">10<tspan dy=\"-4\" font-size=\"8\">%s%.0f</tspan></text>",
            x, y, power < 0 ? "−" : "", fabs(power));
}

void qc_html_ticks(double *first, double *step, double lo, double hi, int most)
{
    double rough = (hi - lo) / most, power = pow(10, floor(log10(rough))), part = rough / power;
    *step = (part <= 1 ? 1 : part <= 2 ? 2 : part <= 5 ? 5 : 10) * power;
    *first = ceil(lo / *step - 1e-9) * *step + 0.0; /* no -0 */
}

static void asset(FILE *f, const char *name)
{
    for (size_t i = 0; i < qc_report_assets_count; i++)
        if (strcmp(qc_report_assets[i].name, name) == 0)
            fwrite(qc_report_assets[i].text, 1, qc_report_assets[i].size, f);
}

/* Writes the assets whose names have this ending. */
static void assets_like(FILE *f, const char *const *assets, const char *ending)
{
    for (; *assets; assets++) {
        const char *dot = strrchr(*assets, '.');
        if (dot && strcmp(dot, ending) == 0) asset(f, *assets);
    }
}

const char *qc_page_file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

void qc_page_command(FILE *f, const char *text)
{
    fputs("<div class=\"command\"><code>", f);
    for (const char *space; (space = strchr(text, ' ')); text = space + 1)
        qc_html(f, "<span>%.*s</span> ", (int)(space - text), text);
    qc_html(f, "<span>%s</span></code></div>", text);
}

void qc_page_begin(FILE *f, const char *name, const char *words, const char *const *assets)
{
    qc_html(f,
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" "
            "content=\"width=device-width, initial-scale=1\">\n"
            "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
            "script-src 'unsafe-inline'; img-src data:\">\n"
            "<link rel=\"icon\" href=\"data:,\">\n<title>%s%s</title>\n<style>\n",
            name, words);
    assets_like(f, assets, ".css");
    fputs("</style>\n<script>\n", f);
    assets_like(f, assets, ".js");
    fputs("</script></head><body>\n", f);
}

void qc_page_end(FILE *f, const char *footer)
{
    fprintf(f, "</main>\n<footer>%s</footer>\n</body></html>\n", footer);
}

void qc_page_file(FILE *f, const char *term, const char *path, const char *sha256)
{
    qc_html(f, "<dt>%s</dt><dd>%s", term, path);
    if (sha256) qc_html(f, "<br><code>sha256 %s</code>", sha256);
    fputs("</dd>", f);
}

bool qc_page_options(FILE *f, const struct qc_json *options, struct qc_status *st)
{
    if (!options) return true;
    char *text = qc_json_print(options, 2);
    if (!text) return qc_fail_memory(st, 1);
    qc_html(f, "<details><summary>All options, including defaults</summary><pre>%s</pre></details>\n", text);
    free(text);
    return true;
}

void qc_page_again(FILE *f, const char *command, const char *version)
{
    fputs("<h2>To get the same again</h2>\n", f);
    qc_page_command(f, command);
    qc_html(f, "<dl style=\"margin-top:10px\"><dt>version</dt><dd>qcalib %s</dd>", version);
}

char *qc_page_text(size_t *size, bool (*write)(FILE *, const void *, struct qc_status *), const void *of,
                   struct qc_status *st)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, size);
    const bool ok = f && write(f, of, st);
    if (f && fclose(f) == 0 && ok) return text;
    free(text);
    qc_fail_memory(st, 1);
    return NULL;
}
