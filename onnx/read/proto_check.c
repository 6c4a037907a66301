// SPDX-License-Identifier: Apache-2.0
#include "onnx/read/proto.h"

#include <stdlib.h>

enum { DEPTH = 100, VARINT_MAX = 10 };
enum wire { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

struct level {
    size_t end;
    const ProtobufCMessageDescriptor *d; /* NULL: of a field we do not know; its contents are not looked at */
};

bool qc_proto_varint(uint64_t *out, const uint8_t *p, size_t *at, size_t end)
{
    uint64_t v = 0;
    for (unsigned i = 0; i < VARINT_MAX && *at < end; i++) {
        uint8_t b = p[(*at)++];
        v |= (uint64_t)(b & 0x7f) << (7 * i);
        if (!(b & 0x80)) {
            *out = v;
            return true;
        }
    }
    return false;
}

/* The wire type of one element of a field. */
static enum wire wire_of(const ProtobufCFieldDescriptor *f)
{
    switch (f->type) {
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_BYTES:
    case PROTOBUF_C_TYPE_MESSAGE: return WIRE_BYTES;
    case PROTOBUF_C_TYPE_FLOAT:
    case PROTOBUF_C_TYPE_FIXED32:
    case PROTOBUF_C_TYPE_SFIXED32: return WIRE_32;
    case PROTOBUF_C_TYPE_DOUBLE:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_SFIXED64: return WIRE_64;
    case PROTOBUF_C_TYPE_INT32:
    case PROTOBUF_C_TYPE_SINT32:
    case PROTOBUF_C_TYPE_UINT32:
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_BOOL:
    case PROTOBUF_C_TYPE_ENUM: return WIRE_VARINT;
    }
    return WIRE_VARINT;
}

/* Elements of a repeated number may be packed into bytes. */
static bool wire_fits(const ProtobufCFieldDescriptor *f, unsigned wire)
{
    return wire == (unsigned)wire_of(f) || (wire == WIRE_BYTES && f->label == PROTOBUF_C_LABEL_REPEATED);
}

bool qc_proto_check(const ProtobufCMessageDescriptor *d, const void *bytes, size_t size, const char *what,
                    struct qc_status *st)
{
    const uint8_t *p = bytes;
    struct level stack[DEPTH];
    unsigned depth = 0, known = 0;
    size_t at = 0;
    stack[0] = (struct level){.end = size, .d = d};
    for (;;) {
        while (at == stack[depth].end) {
            if (depth == 0) return true;
            depth--;
        }
        const size_t start = at, end = stack[depth].end;
        uint64_t key = 0, value = 0;
        bool fits = qc_proto_varint(&key, p, &at, end);
        const uint64_t number = key >> 3;
        const ProtobufCFieldDescriptor *f = NULL;
        if (fits && number >= 1 && number < 1u << 29)
            f = protobuf_c_message_descriptor_get_field(stack[depth].d, (unsigned)number);
        if (!fits || number < 1 || number >= 1u << 29 || (f && !wire_fits(f, (unsigned)(key & 7)))) goto damaged;
        switch ((unsigned)(key & 7)) {
        case WIRE_VARINT: fits = qc_proto_varint(&value, p, &at, end); break;
        case WIRE_64:
            fits = end - at >= 8;
            at += fits ? 8 : 0;
            break;
        case WIRE_32:
            fits = end - at >= 4;
            at += fits ? 4 : 0;
            break;
        case WIRE_BYTES:
            fits = qc_proto_varint(&value, p, &at, end);
            if (fits && value > end - at) {
                if (f && depth + known > 0 && value > size - at)
                    return qc_fail(
                        st, QC_BAD_INPUT,
                        "truncated: field '%s' at byte %zu has %llu bytes, but only %zu are left; get the file again",
                        f->name, start, (unsigned long long)value, size - at);
                fits = false;
            }
            if (fits && f && f->type == PROTOBUF_C_TYPE_MESSAGE) {
                if (depth + 1 == DEPTH)
                    return qc_fail(st, QC_BAD_INPUT, "messages are nested more than %d deep at byte %zu", DEPTH, start);
                stack[++depth] = (struct level){.end = at + (size_t)value, .d = f->descriptor};
            } else if (fits) {
                at += (size_t)value;
            }
            break;
        default: fits = false; break;
        }
        if (!fits) goto damaged;
        known += f != NULL;
        continue;
    damaged:
        if (known == 0) return qc_fail(st, QC_BAD_INPUT, "not %s (not a protobuf)", what);
        return qc_fail(st, QC_BAD_INPUT, "truncated or damaged at byte %zu of %zu; get the file again", start, size);
    }
}

/* The library says NULL for damage and for want of memory alike. */
static void *noted_malloc(void *refused, size_t size)
{
    void *p = malloc(size);
    if (!p) *(size_t *)refused = size ? size : 1;
    return p;
}

static void plain_free(void *refused, void *p)
{
    (void)refused;
    free(p);
}

bool qc_proto_unpack(ProtobufCMessage **out, const ProtobufCMessageDescriptor *d, const void *bytes, size_t size,
                     const char *what, struct qc_status *st)
{
    size_t refused = 0;
    ProtobufCAllocator allocator = {.alloc = noted_malloc, .free = plain_free, .allocator_data = &refused};
    ProtobufCMessage *m = protobuf_c_message_unpack(d, &allocator, size, bytes);
    if (!m && refused) return qc_fail_memory(st, refused);
    if (!m) return qc_fail(st, QC_BAD_INPUT, "not %s, or damaged (a field has the wrong type)", what);
    *out = m;
    return true;
}
