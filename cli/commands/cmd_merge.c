// SPDX-License-Identifier: Apache-2.0
/* qcalib merge A.stats.h5 B.stats.h5 ... -o ALL.stats.h5: exact, in any order and grouping. */

#include "base/file.h"
#include "calib/statistics/statistics.h"
#include "cli/commands/cmd.h"
#include "cli/outputs.h"
#include "cli/terminal/screen.h"

bool qc_cmd_merge(const struct qc_cli_options *o, struct qc_status *st)
{
    struct qc_collection *all = NULL;
    if (!o->output) return qc_fail(st, QC_USAGE, "merge needs -o FILE for the result; see 'qcalib help merge'");
    struct qc_file_list outputs;
    bool ok = qc_outputs_apart(&outputs, &o->output, 1, NULL, o, st) && qc_output_check(o->output, st);
    for (size_t i = 0; ok && i < o->operands.count; i++) {
        const char *path = o->operands.items[i];
        struct qc_collection *c = NULL;
        if (!(ok = qc_statistics_load(&c, path, st))) break;
        ok = !all || qc_collection_merge(all, c, st) || qc_where(st, "%s", path);
        if (!all)
            all = c;
        else
            qc_collection_free(c);
        ok = ok && qc_interrupt_check(st);
    }
    ok = ok && qc_statistics_save(o->output, all, st);
    if (ok) {
        uint64_t samples = qc_collection_samples(all), chosen = 0;
        for (size_t i = 0; i < all->part_count; i++) chosen += all->parts[i].chosen;
        if (o->json)
            ok = qc_print_json(QC_JSON("file %s merged %zu data_files %zu samples %zu samples_chosen %zu tensors %zu",
                                       o->output, o->operands.count, all->part_count, samples, chosen, all->count),
                               st);
        else if (!o->quiet) {
            qc_say("merged   %zu file%s: %llu of %llu samples that were chosen, %zu tensors\n", o->operands.count,
                   qc_plural(o->operands.count), (unsigned long long)samples, (unsigned long long)chosen, all->count);
            qc_say("wrote    %s\n", o->output);
        }
    }
    qc_collection_free(all);
    return ok;
}
