// SPDX-License-Identifier: Apache-2.0
/* User-defined operators: their kernels give the types of the results. */
#include "graph/core/custom.h"
#include "graph/infer/infer_help.h"

static bool set_output(struct qc_infer *c, unsigned i, const struct qcalib_kernel_tensor *t, struct qc_status *st)
{
    const enum qc_dtype dtype = t->type < 1 || t->type > 99 ? QC_NONE : qc_dtype_from_onnx(t->type);
    struct qc_shape s = {.rank = t->rank};
    if (dtype == QC_NONE || qc_dtype_info(dtype)->bits < 8)
        return qc_fail(st, QC_BAD_INPUT, "its kernel gave output %u the type %d, which is not handled", i,
                       (int)t->type);
    if (t->rank < -1 || t->rank > QC_RANK_MAX)
        return qc_fail(st, QC_BAD_INPUT, "its kernel gave output %u %d dimensions, at most %d are handled", i,
                       (int)t->rank, QC_RANK_MAX);
    for (int k = 0; k < s.rank; k++) {
        if (t->dims[k] < -1)
            return qc_fail(st, QC_BAD_INPUT, "its kernel gave output %u a dimension of %lld", i, (long long)t->dims[k]);
        s.dim[k] = t->dims[k] < 0 ? QC_FREE : t->dims[k];
    }
    return qc_infer_set(c, i, dtype, &s, st);
}

bool qc_infer_custom(struct qc_infer *c, struct qc_status *st)
{
    const struct qcalib_kernel *k;
    struct qcalib_kernel_call call;
    const struct qc_node *n = c->node;
    if (!qc_custom_kernel(&k, c->graph, n, st)) return false;
    if (n->input_count < k->inputs_min || n->input_count > k->inputs_max || n->output_count > k->outputs_max)
        return qc_fail(st, QC_BAD_INPUT, "its kernel takes %u to %u inputs and up to %u outputs, here are %u and %u",
                       k->inputs_min, k->inputs_max, k->outputs_max, n->input_count, n->output_count);
    struct qc_arena *a = qc_arena_new();
    bool ok = a ? qc_custom_call(&call, c->graph, n, a, st) : qc_fail_memory(st, 1);
    const int code = ok ? k->shape(&call) : 0;
    if (code) ok = qc_fail(st, QC_BAD_INPUT, "shape of the kernel of '%s' failed with code %d", k->op, code);
    for (unsigned i = 0; ok && i < n->output_count; i++) ok = set_output(c, i, &call.outputs[i], st);
    qc_arena_free(a);
    return ok;
}
