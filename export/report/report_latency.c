// SPDX-License-Identifier: Apache-2.0
#include "export/report/report_parts.h"

#include <math.h>
#include <stdlib.h>

#include "export/report/html.h"
#include "export/report/report_charts.h"

static void number(FILE *f, const char *name, double ms)
{
    if (!isnan(ms)) qc_html(f, "%s %s ms", name, QC_SHORT(ms));
}

void qc_html_latency_tile(FILE *f, const struct qc_report *r)
{
    const struct qc_report_latency *l = r->latency;
    if (!l) return;
    qc_html(f, "<section class=\"tile\"><h2>Latency</h2><div class=\"big\">%s ms</div><div class=\"note\">",
            QC_SHORT(l->best_ms));
    number(f, "Float", l->float_ms);
    number(f, isnan(l->float_ms) ? "Default" : ", default", l->default_ms);
    number(f, ", everything in integers", l->integers_ms);
    qc_html(f, ". Measured by <code>%s</code></div></section>", l->command);
}

/* Writes a row: the mark in the plot, the name, latency and SQNR. */
static void placement_row(FILE *f, const struct qc_placement_point *p, const char *name)
{
    qc_html(f,
            "<tr><td><svg width=\"11\" height=\"11\" viewBox=\"0 0 11 11\" aria-hidden=\"true\"><path class=\"%s\" "
            "d=\"M5.5 5.5%s\"/></svg>%s</td><td class=\"n\">%s</td><td class=\"n\">%s</td></tr>\n",
            p->css, p->shape, name, QC_SHORT(p->ms),
            isinf(p->sqnr_db) && p->sqnr_db > 0 ? "no error" : QC_FIXED(p->sqnr_db, 2));
}

/* Writes a plot, if errors were measured, and a table of the named placements and of all changes. */
static bool placements(FILE *f, const struct qc_report_latency *l, struct qc_status *st)
{
    static const char *const names[] = {"Float", "Written", "Default", "Everything in integers"};
    const struct qc_placement_point named[] = {
        {.ms = l->float_ms, .sqnr_db = (double)INFINITY, .css = "dot4", .shape = "m-4-4h8v8h-8z"},
        {.ms = l->best_ms,
         .sqnr_db = l->best_db,
         .css = "dot",
         .shape = "m-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z"},
        {.ms = l->default_ms, .sqnr_db = l->default_db, .css = "dot2", .shape = "m0-5l5 9h-10z"},
        {.ms = l->integers_ms, .sqnr_db = l->integers_db, .css = "dot3", .shape = "m-5 0l5-5l5 5l-5 5z"}};
    enum { NAMED = sizeof named / sizeof *named };
    struct qc_placement_point *points = calloc(NAMED + l->step_count, sizeof *points);
    size_t count = 0;
    bool finite = false;
    if (!points) return qc_fail_memory(st, (NAMED + l->step_count) * sizeof *points);
    for (size_t i = 0; i < l->step_count + NAMED; i++) {
        points[count] = i < l->step_count
                            ? (struct qc_placement_point){.ms = l->steps[i].after_ms, .sqnr_db = l->steps[i].sqnr_db}
                            : named[i - l->step_count];
        finite = finite || isfinite(points[count].sqnr_db);
        count += !isnan(points[count].ms) && !isnan(points[count].sqnr_db);
    }
    fputs("<h2>Latency and error of placements</h2>\n<div class=\"plots\">", f);
    if (finite) {
        fputs("<figure>", f);
        qc_chart_placements(f, points, count);
        fputs("<figcaption>SQNR of the outputs in dB. Small dots are changes that were tried, with ranges and rounding "
              "chosen in a cheaper way. The line joins placements that no other beats in both. Float has no error: it "
              "is at the upper edge.</figcaption></figure>",
              f);
    }
    fputs("<div class=\"key\"><table><thead><tr><th>placement</th><th class=\"n\">ms</th><th class=\"n\">SQNR, "
          "dB</th></tr></thead><tbody>\n",
          f);
    for (size_t i = 0; i < NAMED; i++)
        if (!isnan(named[i].ms)) placement_row(f, &named[i], names[i]);
    fputs("</tbody></table></div></div>\n", f);
    free(points);
    return true;
}

bool qc_html_latency(FILE *f, const struct qc_report *r, struct qc_status *st)
{
    const struct qc_report_latency *l = r->latency;
    size_t kept = 0;
    if (!l) return true;
    if (!placements(f, l, st)) return false;
    for (size_t i = 0; i < l->step_count; i++) kept += l->steps[i].kept;
    qc_html(f, "<h2>Placement by latency: %zu of %zu changes kept</h2>\n", kept, l->step_count);
    fputs("<div class=\"scroll\"><table><thead><tr><th>operators</th><th class=\"n\">count</th><th>to</th><th "
          "class=\"n\">ms before</th><th class=\"n\">ms after</th><th class=\"n\">SQNR, "
          "dB</th><th></th></tr></thead><tbody>\n",
          f);
    for (size_t i = 0; i < l->step_count; i++) {
        const struct qc_report_latency_step *s = &l->steps[i];
        qc_html(f,
                "<tr><td class=\"name\">%s</td><td class=\"n\">%zu</td><td>%s</td><td class=\"n\">%s</td>"
                "<td class=\"n\">%s</td><td class=\"n\">%s</td><td class=\"name\">",
                s->group, s->op_count, s->to_float ? "float" : "integers", QC_SHORT(s->before_ms),
                QC_SHORT(s->after_ms), QC_FIXED(s->sqnr_db, 2));
        if (s->reason)
            qc_html(f, "not possible: %s", s->reason);
        else if (s->kept)
            fputs("<b>kept</b>", f);
        fputs("</td></tr>\n", f);
    }
    fputs("</tbody></table></div>\n", f);
    if (l->reverted) fputs("<p class=\"note\">They gain nothing over the default, which was written.</p>\n", f);
    if (l->left) qc_html(f, "<p class=\"note\">%zu more groups were not tried.</p>\n", l->left);
    return true;
}

struct qc_json *qc_json_latency(const struct qc_report_latency *l)
{
    struct qc_json *o = qc_json_object(), *list = qc_json_array(), *item;
    qc_json_set(o, "command", qc_json_string(l->command));
    qc_json_set(o, "float_ms", qc_json_number(l->float_ms));
    qc_json_set(o, "default_ms", qc_json_number(l->default_ms));
    qc_json_set(o, "integers_ms", qc_json_number(l->integers_ms));
    qc_json_set(o, "best_ms", qc_json_number(l->best_ms));
    qc_json_set(o, "default_sqnr_db", qc_json_number(l->default_db));
    qc_json_set(o, "integers_sqnr_db", qc_json_number(l->integers_db));
    qc_json_set(o, "best_sqnr_db", qc_json_number(l->best_db));
    qc_json_set(o, "reverted", qc_json_bool(l->reverted));
    qc_json_set(o, "all_float", qc_json_bool(l->all_float));
    for (size_t i = 0; i < l->step_count; i++) {
        const struct qc_report_latency_step *s = &l->steps[i];
        qc_json_add(list, item = qc_json_object());
        qc_json_set(item, "group", qc_json_string(s->group));
        qc_json_set(item, "ops", qc_json_whole(s->op_count));
        qc_json_set(item, "to", qc_json_string(s->to_float ? "float" : "integers"));
        qc_json_set(item, "before_ms", qc_json_number(s->before_ms));
        qc_json_set(item, "after_ms", qc_json_number(s->after_ms));
        qc_json_set(item, "sqnr_db", qc_json_number(s->sqnr_db));
        qc_json_set(item, "kept", qc_json_bool(s->kept));
        qc_json_set(item, "reason", qc_json_string(s->reason));
    }
    qc_json_set(o, "changes", list);
    qc_json_set(o, "groups_left", qc_json_whole(l->left));
    qc_json_set(o, "placement", l->all_float ? qc_json_null() : qc_latency_placement(l));
    qc_json_set(o, "seconds", qc_json_number(l->seconds));
    return o;
}

struct qc_json *qc_latency_placement(const struct qc_report_latency *l)
{
    struct qc_json *o = qc_json_object(), *skip = qc_json_array();
    for (size_t i = 0; i < l->skip_count; i++) qc_json_add(skip, qc_json_string(l->skip[i]));
    qc_json_set(o, "prefer", qc_json_string(l->prefer));
    qc_json_set(o, "skip", skip);
    return o;
}
