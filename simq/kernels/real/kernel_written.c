// SPDX-License-Identifier: Apache-2.0
/* Operators that are written into files only. Where they are read, functions say what they are made of
   (rewrite/rules/functions.rules). */
#include "simq/core/kernel.h"

static bool prepare(struct qc_prepare *p, struct qc_status *st)
{
    return qc_fail(st, QC_UNSUPPORTED, "%s is computed as the function that it is, not by itself",
                   qc_op_info(p->node->op)->onnx);
}

static bool run(const struct qc_run *r, struct qc_status *st)
{
    (void)r;
    return qc_fail(st, QC_UNSUPPORTED, "is not computed");
}

QC_KERNEL(written, .order = QC_ORDER_ROW, .prepare = prepare, .run = run);
