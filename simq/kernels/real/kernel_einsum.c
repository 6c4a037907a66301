// SPDX-License-Identifier: Apache-2.0
/* Einsum-28: each element of the result is a sum of products over all labels that the result does not have, in
   double or modulo 2^64. */
#include <string.h>

#include "graph/core/infer.h"
#include "simq/core/kernel_util.h"

/* One loop, over a label of the result or of the sum. */
struct loop {
    int64_t n;
    int64_t result;                 /* step in the result */
    int64_t step[QC_EINSUM_INPUTS]; /* in each input */
};

struct state {
    struct qc_einsum e;
    int outer, count; /* loops of the result come first */
    struct loop loops[QC_EINSUM_LABELS];
    bool real;
};

static void add_loop(struct state *s, const struct qc_prepare *p, int label, int64_t result)
{
    struct loop *l = &s->loops[s->count++];
    *l = (struct loop){.n = s->e.size[label], .result = result};
    for (unsigned i = 0; i < s->e.input_count; i++)
        for (int d = 0; d < s->e.rank[i]; d++)
            if (s->e.label[i][d] == label && p->in[i].dim[d] != 1) l->step[i] += p->in[i].stride[d];
}

static bool prepare_einsum(struct qc_prepare *p, struct qc_status *st)
{
    struct state *s = QC_NEW_STATE(p, struct state, st);
    const enum qc_dtype t = p->in[0].dtype;
    if (!s || !qc_einsum_of(&s->e, p->graph, p->node, st)) return false;
    s->real = qc_dtype_info(t)->is_float;
    if ((s->real && t != QC_F32 && t != QC_F64) || qc_dtype_info(t)->bits < 8) return qc_kernel_no_type(t, st);
    for (int d = 0; d < s->e.result_rank; d++) add_loop(s, p, s->e.result[d], p->out[0].stride[d]);
    s->outer = s->count;
    for (int k = 0; k < QC_EINSUM_LABELS; k++) {
        bool in_result = s->e.size[k] < 0;
        for (int d = 0; d < s->e.result_rank; d++) in_result = in_result || s->e.result[d] == k;
        if (!in_result) add_loop(s, p, k, 0);
    }
    return true;
}

/* Moves to the next index of loops [first, end); returns false after the last one. */
static bool next_einsum(int64_t index[], int64_t at[], const struct state *s, int first, int end)
{
    for (int k = end; k-- > first;) {
        const struct loop *l = &s->loops[k];
        const bool more = ++index[k] < l->n;
        const int64_t steps = more ? 1 : 1 - l->n;
        for (unsigned i = 0; i < s->e.input_count; i++) at[i] += steps * l->step[i];
        at[s->e.input_count] += steps * l->result;
        if (more) return true;
        index[k] = 0;
    }
    return false;
}

static bool run_einsum(const struct qc_run *r, struct qc_status *st)
{
    const struct state *s = r->state;
    int64_t index[QC_EINSUM_LABELS] = {0}, at[QC_EINSUM_INPUTS + 1] = {0};
    do {
        const struct qc_view *y = &r->out[0];
        const unsigned n = s->e.input_count;
        double real = 0;
        uint64_t whole = 0;
        bool any = true;
        for (int k = s->outer; k < s->count; k++) any = any && s->loops[k].n > 0;
        if (any) do {
                double product = 1;
                uint64_t whole_product = 1;
                for (unsigned i = 0; i < n && s->real; i++) product *= qc_kernel_real(&r->in[i], at[i]);
                for (unsigned i = 0; i < n && !s->real; i++)
                    whole_product *= (uint64_t)qc_kernel_integer(&r->in[i], at[i]);
                real += product;
                whole += whole_product;
            } while (next_einsum(index, at, s, s->outer, s->count));
        if (s->real)
            qc_kernel_put_real(y, at[n], real);
        else
            memcpy(qc_at(y, at[n]), &whole, qc_dtype_size(y->dtype)); /* little endian: the low bytes */
    } while (next_einsum(index, at, s, 0, s->outer));
    return true;
}

QC_KERNEL(einsum, .order = QC_ORDER_ANY, .prepare = prepare_einsum, .run = run_einsum);
