// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "calib/statistics/statistics.h"
#include "cli/commands/inspect.h"
#include "cli/terminal/screen.h"

static void print_sample(uint64_t id)
{
    if (id != QC_NO_SAMPLE)
        qc_say(" (sample %llu of part %llu)", (unsigned long long)QC_SAMPLE_NUMBER(id),
               (unsigned long long)QC_SAMPLE_PART(id));
}

static void print_text(const char *path, const struct qc_collection *c, bool all)
{
    enum { LISTED = 4 };
    qc_say("file     %s: statistics of qcalib, version %u\n", path, qc_statistics_version(c));
    qc_say("model    SHA-256 %s\n", c->model_sha256);
    for (size_t i = 0; i < c->part_count && (all || i < LISTED); i++)
        qc_say("part %-3zu SHA-256 %s, %llu of %llu samples chosen\n", i, c->parts[i].sha256,
               (unsigned long long)c->parts[i].chosen, (unsigned long long)c->parts[i].samples);
    if (!all && c->part_count > LISTED) qc_say("and %zu more parts; -v lists them\n", c->part_count - LISTED);
    qc_say("samples  %llu\n", (unsigned long long)qc_collection_samples(c));
    for (size_t i = 0; i < c->count && (all || i < LISTED); i++) {
        const struct qc_tally *t = &c->values[i].histogram->tally;
        qc_say("tensor   %s from %g", c->values[i].name, (double)t->min);
        if (all) print_sample(t->min_sample);
        qc_say(" to %g", (double)t->max);
        if (all) print_sample(t->max_sample);
        qc_say(", %llu values\n", (unsigned long long)t->count);
    }
    if (!all && c->count > LISTED) qc_say("and %zu more tensors; -v lists them\n", c->count - LISTED);
}

bool qc_inspect_statistics(const char *path, const struct qc_cli_options *o, struct qc_status *st)
{
    struct qc_collection *c = NULL;
    const bool ok = qc_statistics_load(&c, path, st);
    if (ok) print_text(path, c, o->verbose);
    qc_collection_free(c);
    return ok;
}
