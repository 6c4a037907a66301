// SPDX-License-Identifier: Apache-2.0
#include "graph/core/body.h"
#include "onnx/write/emitting.h"

/* Recursion is bounded by QC_BODY_DEPTH_MAX. */
Onnx__GraphProto *qc_emit_body(struct qc_emitter *outer, const struct qc_node *n, const struct qc_graph *body,
                               struct qc_status *st)
{
    Onnx__GraphProto *p = QC_NEW(outer->arena, Onnx__GraphProto, st);
    struct qc_emitter e = {.arena = outer->arena,
                           .g = body,
                           .outer = outer,
                           .opset = outer->opset,
                           .tensors = outer->tensors,
                           .captured = QC_NEW_ARRAY(outer->arena, const char *, body->input_count, st)};
    const size_t captures = qc_captures_of(n);
    if (!p || !e.captured) return NULL;
    for (size_t k = 0; k < captures; k++)
        e.captured[body->input_count - captures + k] = outer->names[n->inputs[n->input_count - captures + k]];
    onnx__graph_proto__init(p);
    if (!qc_emit_mark_used(&e, st) || !qc_emit_assign_names(&e, st) || !qc_emit_graph(p, &e, NULL, st)) return NULL;
    outer->contrib |= e.contrib;
    return p;
}
