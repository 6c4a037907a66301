// SPDX-License-Identifier: Apache-2.0
/* qcalib check FILE: judges a quantized model; exit 1 if something was found. */
#include <math.h>
#include <stdio.h>

#include "cli/commands/cmd.h"
#include "cli/outputs.h"
#include "cli/terminal/screen.h"
#include "evaluate/evaluate.h"

static bool print_json(const char *file, const struct qc_model_check *m, const struct qc_cli_options *o,
                       struct qc_status *st)
{
    struct qc_json *root = qc_json_object(), *list = qc_json_array();
    qc_json_put(root, "file %s target %s products %zu integer_products %zu integer_share %g latency %g samples %zu",
                file, o->job.runs_on->name, m->products, m->integer_products, m->integer_share, m->latency, m->samples);
    for (size_t i = 0; i < m->finding_count; i++)
        qc_json_add(list,
                    QC_JSON("kind %s name %s text %s", m->findings[i].kind, m->findings[i].name, m->findings[i].text));
    qc_json_set(root, "findings", list);
    return qc_print_json(root, st);
}

static void print_text(const char *file, const struct qc_model_check *m, const struct qc_cli_options *o)
{
    enum { SHOWN = 12 };
    const size_t shown = o->verbose || m->finding_count <= SHOWN ? m->finding_count : SHOWN;
    qc_say("model       %s\n", file);
    qc_say("target      %s\n", o->job.runs_on->name);
    qc_say("integers    %zu of %zu products", m->integer_products, m->products);
    if (isfinite(m->integer_share)) qc_say(", %.1f %% of multiply-adds", 100 * m->integer_share);
    putchar('\n');
    if (isfinite(m->latency)) qc_say("latency     %.0f %% of the float model's (estimated)\n", 100 * m->latency);
    if (m->samples) qc_say("samples     %zu\n", m->samples);
    for (size_t i = 0; i < shown; i++)
        qc_say("%-11s %s%s%s\n", m->findings[i].kind, m->findings[i].name, *m->findings[i].name ? ": " : "",
               m->findings[i].text);
    if (shown < m->finding_count) qc_say("            and %zu more; -v shows them\n", m->finding_count - shown);
    if (!m->finding_count) qc_say("found       nothing\n");
}

bool qc_cmd_check(const struct qc_cli_options *o, struct qc_status *st)
{
    const char *file = o->operands.items[0];
    struct qc_warnings *w = NULL;
    struct qc_progress *progress = NULL;
    struct qc_model_check m;
    bool ok = qc_warnings_new(&w, st) && qc_progress_bar_new(&progress, o, st) &&
              qc_check_model(&m, file, &(struct qc_data_source){.file = o->job.data}, &o->job, progress, w, st);
    if (ok && o->json)
        ok = print_json(file, &m, o, st);
    else if (ok && !o->quiet)
        print_text(file, &m, o);
    if (ok && m.finding_count)
        ok = qc_fail(st, QC_DEMAND, "%s: %zu thing%s to correct", file, m.finding_count, qc_plural(m.finding_count));
    if (w && !o->quiet) qc_warnings_print(w, o->verbose ? QC_WARNINGS_ALL : QC_WARNINGS_SOME);
    qc_progress_bar_free(progress);
    qc_warnings_free(w);
    return ok;
}
