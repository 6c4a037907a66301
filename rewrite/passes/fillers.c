// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/fillers.h"

#include <math.h>
#include <string.h>

#include "graph/core/uses.h"

bool qc_is_extreme(enum qc_op op)
{
    return op == QC_OP_MaxPool || op == QC_OP_GlobalMaxPool || op == QC_OP_ReduceMax || op == QC_OP_ReduceMin ||
           op == QC_OP_Max || op == QC_OP_Min;
}

bool qc_pads_with_value(const struct qc_graph *g, const struct qc_node *n)
{
    if (n->op != QC_OP_Pad || n->input_count < 3 || !n->inputs[2] ||
        strcmp(qc_attr_string(n, "mode", "constant"), "constant") != 0)
        return false;
    const struct qc_tensor *t = qc_constant_of(g, n->inputs[2]);
    return !t || (t->count && qc_tensor_float(t, 0) != 0);
}

static bool moves(const struct qc_node *n)
{
    const enum qc_affine_behaviour b = qc_node_affine(n);
    return (b == QC_AFFINE_KEEP && !qc_is_extreme(n->op)) || b == QC_AFFINE_JOIN;
}

static bool is_sum(const struct qc_node *n)
{
    return n->op == QC_OP_Add || n->op == QC_OP_Sub;
}

static bool scatters(const struct qc_node *n)
{
    return n->op == QC_OP_ScatterND || n->op == QC_OP_ScatterElements;
}

/* Returns true for a constant of zeros and one other number. */
static bool is_mask(const struct qc_tensor *t)
{
    const float *x = t && t->dtype == QC_F32 ? t->data : NULL;
    float other = 0;
    bool zero = false;
    for (size_t i = 0; x && i < t->count; i++) {
        if (x[i] != 0 && other != 0 && x[i] != other) return false;
        zero = zero || x[i] == 0;
        other = x[i] != 0 ? x[i] : other;
    }
    return zero && other != 0;
}

/* Numbers beyond 2^20 are not rounded beside others: TensorFlow Lite's fixed point ends at 2^30 times the scale of a
   sum. LiteRT (2.3) adds a mask of 65504 wrongly, whose scale is 2^14 times that of the sum. */
bool qc_adds_vast_mask(const struct qc_graph *g, const struct qc_node *n)
{
    for (unsigned i = 0; is_sum(n) && i < n->input_count; i++) {
        const struct qc_tensor *t = qc_constant_of(g, n->inputs[i]);
        const double most = is_mask(t) ? 0x1p10 : 0x1p20;
        float lo, hi;
        if (t && qc_tensor_extremes(&lo, &hi, t) && fmax(-(double)lo, (double)hi) > most) return true;
    }
    return false;
}

/* Returns true if the node puts a constant between elements that are computed. filler: by value, a constant, or copies
   of one. */
static bool fills(const struct qc_graph *g, const struct qc_node *n, const bool *filler)
{
    if (is_sum(n)) return is_mask(qc_constant_of(g, n->inputs[0])) || is_mask(qc_constant_of(g, n->inputs[1]));
    const bool chooses = n->op == QC_OP_Where || scatters(n) || n->op == QC_OP_Concat;
    for (unsigned i = 0; chooses && i < n->input_count; i++)
        if (filler[n->inputs[i]]) return true;
    return qc_pads_with_value(g, n);
}

bool *qc_read_by_extremes(const struct qc_graph *g, const qc_id *class_of, struct qc_arena *a, struct qc_status *st)
{
    bool *filled = QC_NEW_ARRAY(a, bool, g->value_count + 1, st),
         *filler = QC_NEW_ARRAY(a, bool, g->value_count + 1, st),
         *chosen = QC_NEW_ARRAY(a, bool, g->value_count + 1, st), any = false;
    struct qc_uses uses;
    if (!filled || !filler || !chosen) return NULL;
    for (qc_id v = 1; v <= g->value_count; v++) {
        const struct qc_tensor *t = qc_constant_of(g, v); /* with other numbers than 0 */
        for (size_t i = 0; t && t->dtype == QC_F32 && !filler[v] && i < t->count; i++)
            filler[v] = ((const float *)t->data)[i] != 0;
    }
    QC_EACH_NODE(n, g) {
        const bool copies =
            n->op == QC_OP_ConstantOfShape || (moves(n) && n->op != QC_OP_Concat && filler[n->inputs[0]]);
        bool is = fills(g, n, filler);
        /* The results hold the elements of the inputs, perhaps after a function of each. */
        const bool passes_on = moves(n) || qc_is_extreme(n->op) || qc_op_info(n->op)->unary || scatters(n) ||
                               is_sum(n) || n->op == QC_OP_Where || n->op == QC_OP_Mul || n->op == QC_OP_Cast;
        for (unsigned i = 0; passes_on && i < n->input_count; i++) is = is || filled[n->inputs[i]];
        for (unsigned k = 0; k < n->output_count; k++) {
            filled[n->outputs + k] = is;
            filler[n->outputs + k] = copies;
        }
        any = any || is;
    }
    if (!any) return chosen;
    if (!qc_uses_of(&uses, g, a, st)) return NULL;
    for (qc_id v = (qc_id)g->value_count; v >= 1; v--) {
        const struct qc_use_list readers = qc_readers(&uses, v);
        chosen[v] = (filled[v] || filler[v]) && readers.count && !uses.output_count[v];
        for (size_t i = 0; chosen[v] && i < readers.count; i++) {
            const struct qc_node *n = &g->nodes[readers.of[i].node];
            bool moved = moves(n);
            for (unsigned k = 0; moved && k < n->output_count; k++)
                moved = chosen[n->outputs + k] && (!class_of || class_of[n->outputs + k] == class_of[v]);
            chosen[v] = moved || (qc_is_extreme(n->op) && filled[v]);
        }
    }
    return chosen;
}
