// SPDX-License-Identifier: Apache-2.0
/* Constants of several graphs: the file has them once, in the outermost graph, whose names all bodies see. */
#include "graph/core/shared_constants.h"
#include "onnx/write/emitting.h"

enum { LEAST = 256 /* bytes */ };

struct qc_emit_shared {
    struct qc_shared_constants constants;
    const char **names; /* [constants.count] */
    bool *written;
};

void qc_emit_find_shared(struct qc_emitter *e)
{
    struct qc_emit_shared *s = e->g->depth ? QC_NEW(e->arena, struct qc_emit_shared, e->st) : NULL;
    if (!s || !qc_shared_constants_of(&s->constants, e->g, LEAST, e->arena, e->st)) return;
    s->names = QC_NEW_ARRAY(e->arena, const char *, s->constants.count, e->st);
    s->written = QC_NEW_ARRAY(e->arena, bool, s->constants.count, e->st);
    if (e->st->code != QC_OK) return;
    /* those that the outermost graph uses itself */
    for (size_t v = 1; v <= e->g->value_count; v++) {
        const struct qc_tensor *t = e->used[v] ? qc_constant_of(e->g, (qc_id)v) : NULL;
        const int64_t i = t && t->bytes >= LEAST ? qc_shared_constants_find(&s->constants, t) : QC_SHARED_NONE;
        if (i == QC_SHARED_NONE) continue;
        s->names[i] = e->names[v];
        s->written[i] = true;
    }
    for (size_t i = 0; i < s->constants.count; i++) {
        const char *name = s->constants.of[i].name;
        if (!s->names[i]) s->names[i] = qc_emit_unique_name(e, name ? name : "constant");
    }
    e->shared = s;
}

/* How a body reads its constants. */
enum {
    READ_PARAMETERS = 1, /* as scales or zero points */
    READ_PACKED = 2 /* as the weight of a product of floats: ONNX Runtime (1.32) packs it for MatMulNBits, and fails
                       unless weight and parameters are in the same graph */
};

void qc_emit_assign_shared(struct qc_emitter *e)
{
    struct qc_emitter *outermost = e;
    while (outermost->outer) outermost = outermost->outer;
    if (!outermost->shared || !outermost->shared->constants.count) return;
    unsigned char *how = QC_NEW_ARRAY(e->arena, unsigned char, e->g->value_count + 1, e->st);
    if (!how) return;
    QC_EACH_NODE(n, e->g) {
        const bool linear = n->op == QC_OP_DequantizeLinear || n->op == QC_OP_QuantizeLinear;
        for (unsigned k = 1; linear && k < n->input_count; k++) how[n->inputs[k]] |= READ_PARAMETERS;
        if (n->op != QC_OP_MatMul && n->op != QC_OP_Gemm) continue;
        const struct qc_node *data = qc_node_of(e->g, n->inputs[0]), *weight = qc_node_of(e->g, n->inputs[1]);
        if (weight && weight->op == QC_OP_DequantizeLinear && !(data && data->op == QC_OP_DequantizeLinear))
            how[weight->inputs[0]] |= READ_PACKED;
    }
    for (qc_id v = 1; v <= e->g->value_count; v++)
        if (e->used[v] && !e->names[v] && qc_constant_of(e->g, v) && !(how[v] & READ_PARAMETERS)) {
            struct qc_emit_shared *s = outermost->shared;
            const struct qc_tensor *t = e->g->values[v].constant;
            const int64_t i = t->bytes >= LEAST ? qc_shared_constants_find(&s->constants, t) : QC_SHARED_NONE;
            const bool copied = (how[v] & READ_PACKED) && !qc_dtype_info(t->dtype)->is_float;
            if (i == QC_SHARED_NONE) continue;
            if (!s->written[i]) qc_emit_initializer(outermost, qc_emit_tensor(e, s->names[i], t));
            s->written[i] = true;
            e->used[v] = QC_EMIT_OUTSIDE;
            e->names[v] = copied ? qc_emit_fresh_name(e, s->names[i], "here") : s->names[i];
            if (copied) qc_emit_copy(e, s->names[i], e->names[v], t->shape.rank);
        }
}
