// SPDX-License-Identifier: Apache-2.0
/* If-11: one of two bodies. */
#include "simq/kernels/control/bodies.h"

static bool make(struct qc_tensor **outputs, const struct qc_run *r, struct qc_status *st)
{
    const struct qc_bodies_state *s = r->state;
    bool condition;
    struct qc_runner *runner;
    if (!qc_body_condition(&condition, &r->in[0], st)) return false;
    if (!qc_body_run(&runner, r, condition ? 0 : 1, r->in + 1, st)) return false;
    for (unsigned k = 0; k < s->node->output_count; k++) {
        const struct qc_view v = qc_runner_output(runner, k);
        if (!(outputs[k] = qc_body_keep(r, &v, st))) return false;
    }
    return true;
}

static bool run(const struct qc_run *r, struct qc_status *st)
{
    return qc_run_made(make, r, st);
}

QC_KERNEL(if, .order = QC_ORDER_ROW, .prepare = qc_bodies_prepare, .run = run, .make = make,
          .release = qc_bodies_release_state, .open = qc_bodies_open, .close = qc_bodies_close);
