// SPDX-License-Identifier: Apache-2.0
#include "quantize/setup/passes.h"

static const struct {
    const char *name, *summary;
} passes[] = {
#define QC_PASS(name, summary) [QC_PASS_##name] = {#name, summary},
#include "quantize/setup/passes.def"
#undef QC_PASS
};

const char *qc_pass_name(enum qc_pass p)
{
    return passes[p].name;
}

const char *qc_pass_summary(enum qc_pass p)
{
    return passes[p].summary;
}

bool qc_pass_done(const struct qc_listener *l, enum qc_pass pass, const struct qc_graph *g,
                  const struct qc_partition *partition, struct qc_status *st)
{
    return !l->done || l->done(l->user, pass, g, partition, st);
}
