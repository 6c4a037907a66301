// SPDX-License-Identifier: Apache-2.0
/* User-defined operators, on dense buffers. */
#include <string.h>

#include "base/user_code.h"
#include "graph/core/custom.h"
#include "simq/core/kernel_util.h"

struct state {
    const struct qcalib_kernel *kernel;
    struct qcalib_kernel_call call; /* without data */
};

static bool prepare_custom(struct qc_prepare *p, struct qc_status *st)
{
    struct state *s = QC_NEW_STATE(p, struct state, st);
    if (!s || !qc_custom_kernel(&s->kernel, p->graph, p->node, st) ||
        !qc_custom_call(&s->call, p->graph, p->node, p->arena, st))
        return false;
    for (unsigned i = 0; i < p->output_count; i++) {
        struct qcalib_kernel_tensor *t = &s->call.outputs[i];
        *t = (struct qcalib_kernel_tensor){.type = qc_dtype_info(p->out[i].dtype)->onnx, .rank = p->out[i].rank};
        memcpy(t->dims, p->out[i].dim, sizeof t->dims);
    }
    p->scratch = (s->call.input_count + s->call.output_count) * sizeof(struct qcalib_kernel_tensor);
    return true;
}

/* Uses a copy of the tensors for this worker, with its data. */
static bool run_custom(const struct qc_run *r, struct qc_status *st)
{
    const struct state *s = r->state;
    struct qcalib_kernel_call call = s->call;
    struct qcalib_kernel_tensor *in = r->scratch, *out = in + call.input_count;
    if (call.input_count) memcpy(in, call.inputs, call.input_count * sizeof *in);
    memcpy(out, call.outputs, call.output_count * sizeof *out);
    for (unsigned i = 0; i < call.input_count; i++) in[i].data = in[i].type ? r->in[i].data : NULL;
    for (unsigned i = 0; i < call.output_count; i++) out[i].data = r->out[i].data;
    call.inputs = in;
    call.outputs = out;
    qc_user_code_enter("kernel", s->kernel->op, "compute");
    const int code = s->kernel->compute(&call);
    qc_user_code_leave();
    return !code || qc_fail(st, QC_BAD_INPUT, "compute of the kernel of '%s' failed with code %d", s->kernel->op, code);
}

QC_KERNEL(custom, .order = QC_ORDER_ROW, .prepare = prepare_custom, .run = run_custom);
