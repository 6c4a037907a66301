// SPDX-License-Identifier: Apache-2.0
#include "calib/metrics/compare.h"

#include <stdint.h>
#include <string.h>

enum { DEPTH = 64 }; /* nodes on a path from an output to a part: bounds the recursion */

struct dividing {
    const struct qc_graph *g;
    struct qc_output_part *of; /* of all outputs */
    size_t count, begin;       /* begin: of this output */
    size_t reserved;           /* parts that inputs of outer joins will be */
    unsigned depth;
};

/* Where an axis of a value lies in the output: along an axis, or -1; one step is this many elements of it. */
struct place {
    int axis;
    int64_t step;
};

/* axes: [rank of v]. part: the box of v in the output. */
static void divide(struct dividing *d, qc_id v, const struct place axes[QC_RANK_MAX],
                   const struct qc_output_part *part);

/* Returns the place of axis `in` of a node's input in its result. If a Reshape merges it with those behind it, it is
   the outermost of them. */
static struct place find_place(const struct qc_graph *g, const struct qc_node *n, const struct qc_shape *x,
                               const struct qc_shape *y, int in)
{
    const struct place kept = {.axis = qc_kept_axis(g, n, x, y, in), .step = 1}, none = {.axis = -1};
    if (kept.axis >= 0 || (n->op != QC_OP_Reshape && n->op != QC_OP_Flatten) || in >= y->rank) return kept;
    for (int i = 0; i < in; i++)
        if (x->dim[i] != y->dim[i]) return none;
    int64_t step = 1;
    for (int i = in + 1; i < x->rank && x->dim[in] > 0 && step * x->dim[in] != y->dim[in]; i++) {
        if (x->dim[i] < 0 || step > INT32_MAX) return none;
        step *= x->dim[i];
    }
    return x->dim[in] > 0 && step * x->dim[in] == y->dim[in] ? (struct place){.axis = in, .step = step} : none;
}

/* Returns the only input that is not constant of an op that computes element by element, and has its shape; 0: none. */
static qc_id shifted(const struct qc_graph *g, const struct qc_node *n)
{
    if (n->op == QC_OP_Cast || n->op == QC_OP_Quantize || n->op == QC_OP_Dequantize) return n->inputs[0];
    if (n->op != QC_OP_Add && n->op != QC_OP_Sub && n->op != QC_OP_Mul && n->op != QC_OP_Div) return 0;
    const unsigned i = qc_constant_of(g, n->inputs[0]) != NULL;
    const bool one = (qc_constant_of(g, n->inputs[0]) != NULL) != (qc_constant_of(g, n->inputs[1]) != NULL);
    return one && qc_shape_equal(&g->values[n->inputs[i]].type.shape, &g->values[n->outputs].type.shape) ? n->inputs[i]
                                                                                                         : 0;
}

static bool divide_join(struct dividing *d, const struct qc_node *n, const struct place axes[QC_RANK_MAX],
                        const struct qc_output_part *part)
{
    const struct qc_graph *g = d->g;
    const struct qc_shape *shape = &g->values[n->outputs].type.shape;
    const int64_t given = qc_attr_int(n, "axis", 0);
    const int along = (int)(given < 0 ? given + shape->rank : given);
    if (along < 0 || along >= shape->rank || axes[along].axis < 0) return false;
    size_t parts = 0;
    for (unsigned i = 0; i < n->input_count; i++) {
        /* the place of a part behind one with a free size is unknown */
        if (i + 1 < n->input_count && g->values[n->inputs[i]].type.shape.dim[along] < 0) return false;
        parts += qc_constant_of(g, n->inputs[i]) == NULL;
    }
    if (!parts || d->count - d->begin + d->reserved + parts > QC_OUTPUT_PARTS) return false;
    const int to = axes[along].axis;
    int64_t at = part->first[to];
    for (unsigned i = 0; i < n->input_count; i++) {
        const int64_t size = g->values[n->inputs[i]].type.shape.dim[along] * axes[along].step;
        struct qc_output_part box = *part;
        box.join = (qc_id)(n - g->nodes);
        box.first[to] = at;
        box.end[to] = i + 1 == n->input_count ? part->end[to] : at + size;
        at += size;
        if (qc_constant_of(g, n->inputs[i])) continue;
        d->reserved += --parts;
        divide(d, n->inputs[i], axes, &box);
        d->reserved -= parts;
    }
    return true;
}

static void divide(struct dividing *d, qc_id v, const struct place axes[QC_RANK_MAX], const struct qc_output_part *part)
{
    const struct qc_graph *g = d->g;
    const struct qc_node *n = qc_node_of(g, v);
    if (n && ++d->depth < DEPTH && qc_node_affine(n) == QC_AFFINE_JOIN && divide_join(d, n, axes, part)) {
        d->depth--;
        return;
    }
    const qc_id same = n && d->depth < DEPTH ? shifted(g, n) : 0;
    const bool moved = n && d->depth < DEPTH && qc_node_affine(n) == QC_AFFINE_KEEP;
    if (same || moved) {
        const struct qc_shape *x = &g->values[same ? same : n->inputs[0]].type.shape, *y = &g->values[v].type.shape;
        struct place before[QC_RANK_MAX];
        for (int i = 0; i < x->rank; i++) {
            const struct place to = same ? (struct place){.axis = i, .step = 1} : find_place(g, n, x, y, i);
            before[i] = to.axis < 0 ? to : axes[to.axis];
            if (to.axis >= 0) before[i].step *= to.step;
        }
        divide(d, same ? same : n->inputs[0], before, part);
    } else {
        d->of[d->count] = *part;
        d->of[d->count++].value = v;
    }
    if (n) d->depth--;
}

bool qc_output_parts_of(struct qc_output_parts *out, const struct qc_graph *real, struct qc_arena *a,
                        struct qc_status *st)
{
    struct dividing d = {.g = real};
    size_t *first = QC_NEW_ARRAY(a, size_t, real->output_count + 1, st);
    d.of = QC_NEW_ARRAY(a, struct qc_output_part, real->output_count * QC_OUTPUT_PARTS, st);
    if (!first || !d.of) return false;
    for (size_t o = 0; o < real->output_count; o++) {
        const qc_id v = real->outputs[o].value;
        const struct qc_shape *shape = &real->values[v].type.shape;
        struct qc_output_part whole = {.output = o, .value = v};
        struct place axes[QC_RANK_MAX];
        for (int i = 0; i < QC_RANK_MAX; i++) {
            whole.end[i] = -1;
            axes[i] = (struct place){.axis = i, .step = 1};
        }
        d.begin = first[o] = d.count;
        if (shape->rank >= 0 && real->values[v].type.dtype == QC_F32) divide(&d, v, axes, &whole);
        if (d.count <= d.begin + 1) { /* all of the output, constants included */
            whole.value = d.count == d.begin ? v : d.of[d.begin].value;
            d.of[d.begin] = whole;
            d.count = d.begin + 1;
        }
    }
    first[real->output_count] = d.count;
    *out = (struct qc_output_parts){.count = d.count, .first = first, .of = d.of};
    return true;
}

/* Elements of a part, gathered to be compared in blocks. */
enum { BLOCK = 1024 };
struct gathering {
    float r[BLOCK], x[BLOCK];
    size_t count;
};

void qc_compare_part(const struct qc_output_part *p, const struct qc_view *r, const struct qc_view *x,
                     qc_compare_fn *compare, void *user)
{
    int64_t first[QC_RANK_MAX], end[QC_RANK_MAX], at[QC_RANK_MAX], inner = 1;
    int last = -1;
    for (int i = 0; i < (int)r->rank; i++) {
        first[i] = at[i] = p->first[i] < r->dim[i] ? p->first[i] : r->dim[i];
        end[i] = p->end[i] < 0 || p->end[i] > r->dim[i] ? r->dim[i] : p->end[i];
        if (first[i] > 0 || end[i] < r->dim[i]) last = i;
        if (first[i] >= end[i]) return;
    }
    if (last < 0) {
        compare(user, r->data, x->data, qc_view_count(r));
        return;
    }
    for (int i = last + 1; i < (int)r->rank; i++) inner *= r->dim[i];
    struct gathering b = {.count = 0};
    for (;;) {
        int64_t offset = 0;
        for (int i = 0; i <= last; i++) offset = offset * r->dim[i] + at[i];
        const float *from_r = (const float *)r->data + offset * inner,
                    *from_x = (const float *)x->data + offset * inner;
        for (size_t n = (size_t)((end[last] - first[last]) * inner), some; n; n -= some) {
            some = n < BLOCK - b.count ? n : BLOCK - b.count;
            memcpy(b.r + b.count, from_r, some * sizeof *from_r);
            memcpy(b.x + b.count, from_x, some * sizeof *from_x);
            from_r += some;
            from_x += some;
            b.count = (b.count + some) % BLOCK;
            if (!b.count) compare(user, b.r, b.x, BLOCK);
        }
        int i = last - 1;
        while (i >= 0 && ++at[i] == end[i]) {
            at[i] = first[i];
            i--;
        }
        if (i < 0) break;
    }
    if (b.count) compare(user, b.r, b.x, b.count);
}
