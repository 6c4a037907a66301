// SPDX-License-Identifier: Apache-2.0
/* qcalib check FILE: judges a quantized model; exit 1 if something was found. */
#include <math.h>

#include "cli/commands/cmd.h"
#include "cli/outputs.h"
#include "cli/terminal/screen.h"
#include "evaluate/evaluate.h"

bool qc_cmd_check(const struct qc_cli_options *o, struct qc_status *st)
{
    const char *file = o->operands.items[0];
    struct qc_warnings *w = NULL;
    struct qc_progress *progress = NULL;
    struct qc_json *m = NULL;
    bool ok = qc_warnings_new(&w, st) && qc_progress_bar_new(&progress, o, st) &&
              qc_check_model(&m, file, &(struct qc_data_source){.file = o->job.data.file}, &o->job, progress, w, st);
    const struct qc_json *findings = qc_json_find(m, "findings");
    const size_t found = qc_json_size(findings);
    if (ok && o->json)
        ok = qc_print_json(m, st);
    else if (ok && !o->quiet) {
        enum { SHOWN = 12 };
        const size_t shown = o->verbose || found <= SHOWN ? found : SHOWN;
        const double share = qc_json_find_number(m, "integer_share"), latency = qc_json_find_number(m, "latency"),
                     samples = qc_json_find_number(m, "samples");
        qc_say("model       %s\n", qc_json_find_text(m, "file"));
        qc_say("target      %s\n", qc_json_find_text(m, "target"));
        qc_say("integers    %.0f of %.0f products", qc_json_find_number(m, "integer_products"),
               qc_json_find_number(m, "products"));
        if (isfinite(share)) qc_say(", %.1f %% of multiply-adds", 100 * share);
        qc_say("\n");
        if (isfinite(latency)) qc_say("latency     %.0f %% of the float model's (estimated)\n", 100 * latency);
        if (samples > 0) qc_say("samples     %.0f\n", samples);
        for (size_t i = 0; i < shown; i++) {
            const struct qc_json *f = qc_json_at(findings, i);
            const char *name = qc_json_find_text(f, "name");
            qc_say("%-11s %s%s%s\n", qc_json_find_text(f, "kind"), name, *name ? ": " : "",
                   qc_json_find_text(f, "text"));
        }
        if (shown < found) qc_say("            and %zu more; -v shows them\n", found - shown);
        if (!found) qc_say("found       nothing\n");
    }
    if (ok && found) ok = qc_fail(st, QC_DEMAND, "%s: %zu thing%s to correct", file, found, qc_plural(found));
    qc_warnings_print(w, o);
    if (!o->json) qc_json_free(m);
    qc_progress_bar_free(progress);
    qc_warnings_free(w);
    return ok;
}
