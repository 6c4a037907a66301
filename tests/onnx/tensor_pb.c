// SPDX-License-Identifier: Apache-2.0
#include "tensor_pb.h"

#include <stdlib.h>

#include "onnx/read/importing.h"
#include "onnx/write/emitting.h"

bool qc_tensor_pb_parse(struct qc_tensor **out, const void *bytes, size_t size, struct qc_status *st)
{
    if (size == 0) return qc_fail(st, QC_BAD_INPUT, "empty; an ONNX tensor was expected");
    if (!qc_proto_check(&onnx__tensor_proto__descriptor, bytes, size, "an ONNX tensor", st)) return false;
    ProtobufCMessage *message;
    if (!qc_proto_unpack(&message, &onnx__tensor_proto__descriptor, bytes, size, "an ONNX tensor", st)) return false;
    Onnx__TensorProto *p = (Onnx__TensorProto *)message;
    bool ok = p->has_data_type ? qc_import_tensor(out, p, NULL, st)
                               : qc_fail(st, QC_BAD_INPUT, "a protobuf, but not an ONNX tensor (it has no data type)");
    onnx__tensor_proto__free_unpacked(p, NULL);
    return ok;
}

bool qc_tensor_pb_print(void **bytes, size_t *size, const char *name, const struct qc_tensor *t, struct qc_status *st)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_emitter e = {.arena = a, .st = st, .spare = a ? qc_arena_get(a, 1, QC_EMIT_SPARE, st) : NULL};
    Onnx__TensorProto *p = e.spare ? qc_emit_tensor(&e, name, t) : NULL;
    void *packed = NULL;
    if (!a) {
        qc_fail_memory(st, 1);
    } else if (p && st->code == QC_OK) {
        const size_t n = onnx__tensor_proto__get_packed_size(p);
        packed = malloc(n + 1);
        if (!packed) {
            qc_fail_memory(st, n);
        } else {
            *size = onnx__tensor_proto__pack(p, packed);
            *bytes = packed;
        }
    }
    return packed != NULL;
}
