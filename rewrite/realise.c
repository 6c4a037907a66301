// SPDX-License-Identifier: Apache-2.0
#include "graph/rebuild.h"
#include "rewrite/simulate.h"

bool qc_realise(struct qc_graph **out, const struct qc_graph *g, struct qc_status *st)
{
    struct qc_rebuild r = {0};
    bool ok = qc_rebuild_begin(&r, g, st);
    if (ok) {
        r.to->simulated = false;
        ok = qc_rebuild_finish(out, &r, st);
    }
    qc_rebuild_free(&r);
    return ok;
}
