// SPDX-License-Identifier: Apache-2.0
#include "export/report/report_page.h"

#include <stdlib.h>
#include <string.h>

#include "export/report/html.h"
#include "export/report_assets.h"

static void asset(FILE *f, const char *name)
{
    for (size_t i = 0; i < qc_report_assets_count; i++)
        if (strcmp(qc_report_assets[i].name, name) == 0)
            fwrite(qc_report_assets[i].text, 1, qc_report_assets[i].size, f);
}

/* Those of the assets that end so. */
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

void qc_page_name(FILE *f, const char *text)
{
    fputs("<b class=\"name\">", f);
    qc_html_text(f, text);
    fputs("</b>", f);
}

void qc_page_command(FILE *f, const char *text)
{
    fputs("<div class=\"command\"><code>", f);
    for (const char *qparams; (qparams = strchr(text, ' ')); text = qparams + 1) {
        fputs("<span>", f);
        qc_html_part(f, text, (size_t)(qparams - text));
        fputs("</span> ", f);
    }
    fputs("<span>", f);
    qc_html_text(f, text);
    fputs("</span></code></div>", f);
}

void qc_page_begin(FILE *f, const char *name, const char *words, const char *const *assets)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<meta name=\"viewport\" "
          "content=\"width=device-width, initial-scale=1\">\n"
          "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
          "script-src 'unsafe-inline'; img-src data:\">\n"
          "<link rel=\"icon\" href=\"data:,\">\n<title>",
          f);
    qc_html_text(f, name);
    qc_html(f, "%s</title>\n<style>\n", words);
    assets_like(f, assets, ".css");
    fputs("</style>\n<script>\n", f);
    assets_like(f, assets, ".js");
    fputs("</script></head><body>\n", f);
}

void qc_page_end(FILE *f, const char *footer)
{
    qc_html(f, "</main>\n<footer>%s</footer>\n</body></html>\n", footer);
}

void qc_page_file(FILE *f, const char *term, const char *path, const char *sha256)
{
    qc_html(f, "<dt>%s</dt><dd>", term);
    qc_html_text(f, path);
    if (sha256) {
        fputs("<br><code>sha256 ", f);
        qc_html_text(f, sha256);
        fputs("</code>", f);
    }
    fputs("</dd>", f);
}

bool qc_page_options(FILE *f, const struct qc_json *options, struct qc_status *st)
{
    if (!options) return true;
    char *text = qc_json_print(options, 2);
    if (!text) return qc_fail_memory(st, 1);
    fputs("<details><summary>All options, with what was not given</summary><pre>", f);
    qc_html_text(f, text);
    fputs("</pre></details>\n", f);
    free(text);
    return true;
}
