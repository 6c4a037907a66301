// SPDX-License-Identifier: Apache-2.0
/* Inside onnx/: the generated messages, and a check that makes it safe to unpack bytes into them. */
#pragma once

#include "base/budget.h"
#include "onnx/onnx.pb-c.h"

/* Walks the wire format of a message of type d (protobuf encoding, wire types 0, 1, 2 and 5) without unpacking: every
   length lies inside its parent, nesting is at most 100. Unpacking recurses and would otherwise overflow the stack on a
   hostile file. Errors (QC_BAD_INPUT): truncated, damaged, or no protobuf; `what` names what was expected ("an ONNX
   model"). */
bool qc_proto_check(const ProtobufCMessageDescriptor *d, const void *bytes, size_t size, const char *what,
                    struct qc_status *st);

/* Unpacks what qc_proto_check lets through; *out is freed by the message's free_unpacked with no allocator.
   QC_BAD_INPUT: "not WHAT, or damaged", where a field has the wrong type; QC_MACHINE: memory is out. */
bool qc_proto_unpack(ProtobufCMessage **out, const ProtobufCMessageDescriptor *d, const void *bytes, size_t size,
                     const char *what, struct qc_status *st);

/* Both of bytes that outlive the message: raw_data of tensors stays where it is, at any address, and the message
   points to it. It is freed with qc_proto_free_borrowing and the same bytes. The rest is asked of the budget. Errors:
   as of both, and of the budget. */
bool qc_proto_unpack_borrowing(ProtobufCMessage **out, const ProtobufCMessageDescriptor *d, const void *bytes,
                               size_t size, const char *what, const struct qc_budget *budget, struct qc_status *st);
void qc_proto_free_borrowing(ProtobufCMessage *m, const void *bytes, size_t size); /* NULL-safe */

/* Optional strings are NULL when absent. */
static inline const char *qc_proto_text(const char *s)
{
    return s ? s : "";
}
