// SPDX-License-Identifier: Apache-2.0
/* protobuf-c copies all bytes of a message. Here it gets a short form of the message, where raw_data is only a number:
   which of the places that were left out it is. They are put in afterwards. */
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "onnx/read/proto.h"

enum {
    RAW_DATA = 9, /* the field of a TensorProto */
    NUMBER = 8,   /* bytes: raw_data of as many or more becomes a number of this size, shorter stays */
    LENGTH = 5,   /* bytes of a length that is filled in later */
    WIRE_64 = 1,  /* wire types of protobuf that have bytes behind the key */
    WIRE_BYTES = 2,
    WIRE_32 = 5
};

struct place {
    const uint8_t *data;
    size_t size;
};

struct shortened {
    const struct qc_budget *budget;
    uint8_t *bytes;
    size_t size, capacity;
    struct place *places;
    size_t place_count, place_capacity;
};

static bool room(struct shortened *s, size_t more, struct qc_status *st)
{
    size_t need;
    if (!qc_add_size(&need, s->size, more)) return qc_fail_memory(st, SIZE_MAX);
    if (need <= s->capacity) return true;
    const size_t capacity = need < SIZE_MAX / 2 ? 2 * need : need;
    if (!qc_budget_hold(s->budget, capacity, st)) return false;
    uint8_t *bytes = realloc(s->bytes, capacity);
    if (!bytes) return qc_fail_memory(st, capacity);
    s->bytes = bytes;
    s->capacity = capacity;
    return true;
}

static bool put(struct shortened *s, const void *from, size_t n, struct qc_status *st)
{
    if (!room(s, n, st)) return false;
    if (n) memcpy(s->bytes + s->size, from, n);
    s->size += n;
    return true;
}

static bool put_place(struct shortened *s, const uint8_t *data, size_t size, struct qc_status *st)
{
    const uint8_t length = NUMBER;
    const uint64_t number = s->place_count;
    if (s->place_count == s->place_capacity) {
        const size_t capacity = s->place_capacity ? 2 * s->place_capacity : 64;
        struct place *places = realloc(s->places, capacity * sizeof *places);
        if (!places) return qc_fail_memory(st, capacity * sizeof *places);
        s->places = places;
        s->place_capacity = capacity;
    }
    s->places[s->place_count++] = (struct place){.data = data, .size = size};
    return put(s, &length, 1, st) && put(s, &number, NUMBER, st);
}

/* A length always takes LENGTH bytes, so that it can be written when it is known: protobuf lets a number have zeros in
   front. */
static void set_length(uint8_t *at, size_t length)
{
    for (unsigned i = 0; i < LENGTH; i++) at[i] = (uint8_t)(length >> 7 * i & 0x7f) | (i + 1 < LENGTH ? 0x80 : 0);
}

/* Bytes that qc_proto_check has seen, which bounds the recursion. */
static bool shorten(struct shortened *s, const ProtobufCMessageDescriptor *d, const uint8_t *p, size_t size,
                    struct qc_status *st)
{
    for (size_t at = 0; at < size;) {
        const size_t start = at;
        uint64_t key = 0, value = 0;
        if (!qc_proto_varint(&key, p, &at, size)) return qc_fail(st, QC_BAD_INPUT, "damaged at byte %zu", start);
        const size_t behind_key = at;
        const unsigned wire = (unsigned)(key & 7);
        const ProtobufCFieldDescriptor *f = protobuf_c_message_descriptor_get_field(d, (unsigned)(key >> 3));
        if (wire == WIRE_64 || wire == WIRE_32)
            at += wire == WIRE_64 ? 8 : 4;
        else if (!qc_proto_varint(&value, p, &at, size))
            return qc_fail(st, QC_BAD_INPUT, "damaged at byte %zu", start);
        const size_t content = at, length = wire == WIRE_BYTES ? (size_t)value : 0;
        at += length;
        if (wire == WIRE_BYTES && f && f->type == PROTOBUF_C_TYPE_MESSAGE) {
            if (!put(s, p + start, behind_key - start, st) || !room(s, LENGTH, st)) return false;
            const size_t length_at = s->size;
            s->size += LENGTH;
            if (!shorten(s, f->descriptor, p + content, length, st)) return false;
            set_length(s->bytes + length_at, s->size - length_at - LENGTH);
        } else if (wire == WIRE_BYTES && d == &onnx__tensor_proto__descriptor && f && f->id == RAW_DATA &&
                   length >= NUMBER) {
            if (!put(s, p + start, behind_key - start, st) || !put_place(s, p + content, length, st)) return false;
        } else if (!put(s, p + start, at - start, st)) {
            return false;
        }
    }
    return true;
}

static void put_back(ProtobufCMessage *m, const struct shortened *s);

/* The messages of one field, by where protobuf-c keeps them. */
static void put_back_field(const ProtobufCMessage *m, const ProtobufCFieldDescriptor *f, const struct shortened *s)
{
    const char *base = (const char *)m;
    if (f->label == PROTOBUF_C_LABEL_REPEATED) {
        size_t count;
        ProtobufCMessage **all;
        memcpy(&count, base + f->quantifier_offset, sizeof count);
        memcpy(&all, base + f->offset, sizeof all);
        for (size_t i = 0; i < count; i++) put_back(all[i], s);
        return;
    }
    if (f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
        uint32_t which;
        memcpy(&which, base + f->quantifier_offset, sizeof which);
        if (which != f->id) return;
    }
    ProtobufCMessage *one;
    memcpy(&one, base + f->offset, sizeof one);
    if (one) put_back(one, s);
}

static void put_back(ProtobufCMessage *m, const struct shortened *s)
{
    if (m->descriptor == &onnx__tensor_proto__descriptor) {
        Onnx__TensorProto *t = (Onnx__TensorProto *)m;
        uint64_t number;
        if (t->has_raw_data && t->raw_data.len == NUMBER) {
            memcpy(&number, t->raw_data.data, NUMBER);
            free(t->raw_data.data);
            t->raw_data.data = (uint8_t *)(uintptr_t)s->places[number].data; /* nobody writes there */
            t->raw_data.len = s->places[number].size;
        }
    }
    for (unsigned i = 0; i < m->descriptor->n_fields; i++)
        if (m->descriptor->fields[i].type == PROTOBUF_C_TYPE_MESSAGE) put_back_field(m, &m->descriptor->fields[i], s);
}

bool qc_proto_unpack_borrowing(ProtobufCMessage **out, const ProtobufCMessageDescriptor *d, const void *bytes,
                               size_t size, const char *what, const struct qc_budget *budget, struct qc_status *st)
{
    struct shortened s = {.budget = budget};
    ProtobufCMessage *m;
    const bool ok = shorten(&s, d, bytes, size, st) && qc_proto_unpack(&m, d, s.bytes, s.size, what, st);
    if (ok) {
        put_back(m, &s);
        *out = m;
    }
    free(s.bytes);
    free(s.places);
    return ok;
}

static void *never(void *lent, size_t size)
{
    (void)lent;
    (void)size;
    return NULL;
}

/* What lies in the borrowed bytes is not the message's. */
static void free_own(void *lent, void *p)
{
    const struct place *bytes = lent;
    if ((uintptr_t)p - (uintptr_t)bytes->data >= bytes->size) free(p);
}

void qc_proto_free_borrowing(ProtobufCMessage *m, const void *bytes, size_t size)
{
    struct place lent = {.data = bytes, .size = size};
    ProtobufCAllocator allocator = {.alloc = never, .free = free_own, .allocator_data = &lent};
    protobuf_c_message_free_unpacked(m, &allocator);
}
