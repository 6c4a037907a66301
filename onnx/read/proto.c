// SPDX-License-Identifier: Apache-2.0
/* Walks the wire format before protobuf-c reads it, and checks that every length lies inside its parent. Optionally
   writes a short form of the message in which each raw_data is only an index into the list of omitted places.
   protobuf-c would copy all of them; they are restored after unpacking. */
#include "onnx/read/proto.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/checked.h"

const Onnx__AttributeProto__AttributeType qc_proto_attr_types[] = {
    [QC_ATTR_INT] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT,
    [QC_ATTR_FLOAT] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT,
    [QC_ATTR_STRING] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING,
    [QC_ATTR_INTS] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS,
    [QC_ATTR_FLOATS] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS,
    [QC_ATTR_STRINGS] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS,
    [QC_ATTR_TENSOR] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR,
    [QC_ATTR_GRAPH] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH,
};

enum {
    DEPTH = 100,
    VARINT_MAX = 10,
    RAW_DATA = 9, /* the field of a TensorProto */
    NUMBER = 8,   /* bytes: raw_data of at least this size becomes an index of this size; shorter data stay */
    LENGTH = 5    /* bytes for a length that is filled in later */
};
enum wire { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

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

struct level {
    size_t end;
    const ProtobufCMessageDescriptor *d; /* NULL: an unknown field, whose contents are skipped */
    size_t length_at;                    /* in the short form: the place of its length */
};

/* Reads a varint at *at and advances *at. Returns false if it runs past end or is too long. */
static bool read_varint(uint64_t *out, const uint8_t *p, size_t *at, size_t end)
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
    struct place *places = qc_grown(s->places, s->place_count, &s->place_capacity, sizeof *places, st);
    if (!places) return false;
    s->places = places;
    s->places[s->place_count++] = (struct place){.data = data, .size = size};
    return put(s, &length, 1, st) && put(s, &number, NUMBER, st);
}

/* A length always takes LENGTH bytes, so that it can be filled in later: protobuf allows padding with zeros. */
static void set_length(uint8_t *at, size_t length)
{
    for (unsigned i = 0; i < LENGTH; i++) at[i] = (uint8_t)(length >> 7 * i & 0x7f) | (i + 1 < LENGTH ? 0x80 : 0);
}

/* Returns the wire type of one element of a field. */
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

/* Returns true if the wire type fits the field. Repeated numbers may be packed into bytes. */
static bool wire_fits(const ProtobufCFieldDescriptor *f, unsigned wire)
{
    return wire == (unsigned)wire_of(f) || (wire == WIRE_BYTES && f->label == PROTOBUF_C_LABEL_REPEATED);
}

/* s: the short form, may be NULL. */
static bool walk(struct shortened *s, const ProtobufCMessageDescriptor *d, const void *bytes, size_t size,
                 const char *what, struct qc_status *st)
{
    const uint8_t *p = bytes;
    struct level stack[DEPTH];
    unsigned depth = 0, known = 0;
    size_t at = 0;
    stack[0] = (struct level){.end = size, .d = d};
    for (;;) {
        while (at == stack[depth].end) {
            if (depth == 0) return true;
            if (s) set_length(s->bytes + stack[depth].length_at, s->size - stack[depth].length_at - LENGTH);
            depth--;
        }
        const size_t start = at, end = stack[depth].end;
        uint64_t key = 0, value = 0;
        bool fits = read_varint(&key, p, &at, end);
        const size_t behind_key = at;
        const uint64_t number = key >> 3;
        bool whole = true; /* the short form copies the whole field */
        const ProtobufCFieldDescriptor *f = NULL;
        if (fits && number >= 1 && number < 1u << 29)
            f = protobuf_c_message_descriptor_get_field(stack[depth].d, (unsigned)number);
        if (!fits || number < 1 || number >= 1u << 29 || (f && !wire_fits(f, (unsigned)(key & 7)))) goto damaged;
        switch ((unsigned)(key & 7)) {
        case WIRE_VARINT: fits = read_varint(&value, p, &at, end); break;
        case WIRE_64:
            fits = end - at >= 8;
            at += fits ? 8 : 0;
            break;
        case WIRE_32:
            fits = end - at >= 4;
            at += fits ? 4 : 0;
            break;
        case WIRE_BYTES:
            fits = read_varint(&value, p, &at, end);
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
                if (s && (!put(s, p + start, behind_key - start, st) || !room(s, LENGTH, st))) return false;
                stack[++depth] = (struct level){at + (size_t)value, f->descriptor, s ? s->size : 0};
                if (s) s->size += LENGTH;
                whole = false;
            } else if (fits) {
                if (f && f->type == PROTOBUF_C_TYPE_STRING && strcmp(f->name, "doc_string") != 0 &&
                    memchr(p + at, 0, (size_t)value))
                    return qc_fail(st, QC_BAD_INPUT,
                                   "field '%s' at byte %zu holds '%.200s' and a zero byte; names cannot hold one",
                                   f->name, start, (const char *)p + at);
                whole = !s || stack[depth].d != &onnx__tensor_proto__descriptor || !f || f->id != RAW_DATA ||
                        value < NUMBER;
                if (!whole && (!put(s, p + start, behind_key - start, st) || !put_place(s, p + at, (size_t)value, st)))
                    return false;
                at += (size_t)value;
            }
            break;
        default: fits = false; break;
        }
        if (!fits) goto damaged;
        if (s && whole && !put(s, p + start, at - start, st)) return false;
        known += f != NULL;
        continue;
    damaged:
        if (known == 0) return qc_fail(st, QC_BAD_INPUT, "not %s (not a protobuf)", what);
        return qc_fail(st, QC_BAD_INPUT, "truncated or damaged at byte %zu of %zu; get the file again", start, size);
    }
}

bool qc_proto_check(const ProtobufCMessageDescriptor *d, const void *bytes, size_t size, const char *what,
                    struct qc_status *st)
{
    return walk(NULL, d, bytes, size, what, st);
}

/* The library returns NULL for damage and for lack of memory alike; this notes the latter. */
static void *noted_malloc(void *refused, size_t size)
{
    void *p = malloc(size);
    if (!p) *(size_t *)refused = size ? size : 1;
    return p;
}

static void plain_free(void *refused, void *p)
{
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

static void put_back(ProtobufCMessage *m, const struct shortened *s);

/* Restores raw_data in the messages of one field, which protobuf-c keeps by label. */
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
            t->raw_data.data = (uint8_t *)(uintptr_t)s->places[number].data; /* never written */
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
    const bool ok = walk(&s, d, bytes, size, what, st) && qc_proto_unpack(&m, d, s.bytes, s.size, what, st);
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
    return NULL;
}

/* Frees memory unless it lies in the borrowed bytes. */
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
