// SPDX-License-Identifier: Apache-2.0
/* Inside onnx/: the generated messages, and a check that makes it safe to unpack bytes into them. */
#pragma once

#include <string.h>

#include "base/budget.h"
#include "graph/core/graph.h"
#include "onnx/onnx.pb-c.h"

/* Walks the wire format of a message of type d (protobuf encoding, wire types 0, 1, 2 and 5) without unpacking, and
   checks that every length lies inside its parent and nesting is at most 100. Unpacking recurses, so a hostile file
   could overflow the stack. Fails (QC_BAD_INPUT) on truncated or damaged data or no protobuf; `what` names the expected
   message ("an ONNX model"). */
bool qc_proto_check(const ProtobufCMessageDescriptor *d, const void *bytes, size_t size, const char *what,
                    struct qc_status *st);

/* Unpacks a message that passed qc_proto_check. *out is freed by the message's free_unpacked with no allocator. Fails
   with QC_BAD_INPUT ("not WHAT, or damaged") if a field has the wrong type, with QC_MACHINE if memory is out. */
bool qc_proto_unpack(ProtobufCMessage **out, const ProtobufCMessageDescriptor *d, const void *bytes, size_t size,
                     const char *what, struct qc_status *st);

/* Checks and unpacks bytes that outlive the message: raw_data of tensors points into them, at any alignment. The
   message is freed with qc_proto_free_borrowing and the same bytes. Other memory is requested from the budget. Fails as
   both, or if the budget is exceeded. */
bool qc_proto_unpack_borrowing(ProtobufCMessage **out, const ProtobufCMessageDescriptor *d, const void *bytes,
                               size_t size, const char *what, const struct qc_budget *budget, struct qc_status *st);
void qc_proto_free_borrowing(ProtobufCMessage *m, const void *bytes, size_t size); /* NULL-safe */

extern const Onnx__AttributeProto__AttributeType qc_proto_attr_types[]; /* [enum qc_attr_kind] */

/* Optional strings are NULL when absent. */
static inline const char *qc_proto_text(const char *s)
{
    return s ? s : "";
}

/* Returns the domain of an operator: "" for ONNX's own, which has a second name. */
static inline const char *qc_proto_domain(const char *s)
{
    return s && strcmp(s, "ai.onnx") != 0 ? s : "";
}

/* Returns true for a tensor with its data in another file. */
static inline bool qc_proto_outside(const Onnx__TensorProto *t)
{
    return t->has_data_location && t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
}

/* Returns what messages call a node: its name, else its first output. */
static inline const char *qc_proto_label(const Onnx__NodeProto *n)
{
    return *qc_proto_text(n->name) ? n->name : n->n_output ? n->output[0] : "";
}

/* Returns an attribute by name; NULL: it is absent. */
static inline const Onnx__AttributeProto *qc_proto_attr(const Onnx__NodeProto *n, const char *name)
{
    for (size_t i = 0; i < n->n_attribute; i++)
        if (strcmp(qc_proto_text(n->attribute[i]->name), name) == 0) return n->attribute[i];
    return NULL;
}
