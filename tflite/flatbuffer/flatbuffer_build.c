// SPDX-License-Identifier: Apache-2.0
#include "tflite/flatbuffer/flatbuffer_build.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/index.h"

enum { FIELDS_MAX = 24, ALIGN_MAX = 16, LEAF_ALIGN = 4 };
#define FILE_MAX ((size_t)INT32_MAX)

struct member {
    bool set;
    const struct qc_fb_field *field;
    int64_t number; /* an integer, or the bits of a float */
    const void *data;
    size_t count, align; /* for vectors and strings */
    const struct qc_fb_object *child;
    struct qc_fb_object *const *children;
};

struct qc_fb_object {
    struct qc_fb_builder *b;
    unsigned table;
    struct member members[FIELDS_MAX]; /* by field number */
};

/* A vector or string whose offset is not stored yet. */
struct leaf {
    size_t offset_at;
    const struct member *of;
};

struct qc_fb_builder {
    const struct qc_fb_schema *schema;
    struct qc_arena *arena;
    struct qc_status failed; /* the first failure */
    uint8_t *bytes;
    size_t size, capacity;
    struct leaf *leaves;
    size_t leaf_count, leaf_capacity;
    size_t *vtables; /* start of each vtable */
    size_t vtable_count, vtable_capacity;
};

struct qc_fb_builder *qc_fb_builder_new(const struct qc_fb_schema *schema, struct qc_arena *a, struct qc_status *st)
{
    struct qc_fb_builder *b = QC_NEW(a, struct qc_fb_builder, st);
    if (b) *b = (struct qc_fb_builder){.schema = schema, .arena = a};
    return b;
}

struct qc_fb_object *qc_fb_make(struct qc_fb_builder *b, unsigned table)
{
    struct qc_fb_object *o = QC_NEW(b->arena, struct qc_fb_object, &b->failed);
    if (!o) return NULL;
    o->b = b;
    o->table = table;
    return o;
}

static struct member *member_of(struct qc_fb_object *o, unsigned field)
{
    const struct qc_fb_field *f = &o->b->schema->fields[field];
    assert(f->table == o->table && f->number < FIELDS_MAX);
    struct member *m = &o->members[f->number];
    *m = (struct member){.set = true, .field = f};
    return m;
}

void qc_fb_set_int(struct qc_fb_object *o, unsigned field, int64_t value)
{
    if (!o) return;
    struct member *m = member_of(o, field);
    m->number = value;
    m->set = (double)value != m->field->value;
}

void qc_fb_set_float(struct qc_fb_object *o, unsigned field, float value)
{
    if (!o) return;
    struct member *m = member_of(o, field);
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    m->number = bits;
    m->set = (double)value != m->field->value;
}

void qc_fb_set_string(struct qc_fb_object *o, unsigned field, const char *text)
{
    if (!o) return;
    struct member *m = member_of(o, field);
    m->count = strlen(text);
    m->data = qc_arena_strdup(o->b->arena, text, &o->b->failed);
    m->align = LEAF_ALIGN;
    m->set = m->data != NULL;
}

void qc_fb_set_vector(struct qc_fb_object *o, unsigned field, const void *data, size_t count, size_t align)
{
    if (!o) return;
    struct member *m = member_of(o, field);
    m->data = data;
    m->count = count;
    m->align = align < LEAF_ALIGN ? LEAF_ALIGN : align;
    assert(m->align <= ALIGN_MAX && m->align >= qc_fb_size(m->field->type));
}

void qc_fb_set_child(struct qc_fb_object *o, unsigned field, struct qc_fb_object *child)
{
    if (!o || !child) return;
    const struct qc_fb_schema *s = o->b->schema;
    if (s->fields[field].type == QC_FB_UNION)
        qc_fb_set_int(o, field - 1, s->tables[child->table].in_union - s->fields[field].child);
    member_of(o, field)->child = child;
}

void qc_fb_set_children(struct qc_fb_object *o, unsigned field, struct qc_fb_object *const *children, size_t count)
{
    if (!o) return;
    struct member *m = member_of(o, field);
    m->children = children;
    m->count = count;
}

static bool is_offset(const struct qc_fb_field *f)
{
    return f->vector || f->type == QC_FB_STRING || f->type == QC_FB_TABLE || f->type == QC_FB_TABLES ||
           f->type == QC_FB_UNION;
}

static size_t inline_size(const struct qc_fb_field *f)
{
    return is_offset(f) ? 4 : qc_fb_size(f->type);
}

static void store(uint8_t *p, uint64_t v, size_t size)
{
    for (size_t i = 0; i < size; i++) p[i] = (uint8_t)(v >> (8 * i));
}

/* Appends `size` zeroed bytes. On failure, keeps the status in the builder and returns false. */
static bool extend(size_t *at, struct qc_fb_builder *b, size_t size)
{
    if (b->failed.code != QC_OK) return false;
    if (size > FILE_MAX - b->size)
        return qc_fail(&b->failed, QC_UNSUPPORTED, "the file would have 2 GB or more, which its offsets cannot span");
    if (b->size + size > b->capacity) {
        size_t capacity = b->capacity ? b->capacity : 4096;
        while (capacity < b->size + size) capacity *= 2;
        uint8_t *bytes = realloc(b->bytes, capacity);
        if (!bytes) return qc_fail_memory(&b->failed, capacity);
        b->bytes = bytes;
        b->capacity = capacity;
    }
    memset(b->bytes + b->size, 0, size);
    *at = b->size;
    b->size += size;
    return true;
}

/* Pads so that the position `ahead` bytes further on is aligned. */
static bool pad(struct qc_fb_builder *b, size_t ahead, size_t align)
{
    size_t at;
    const size_t over = (b->size + ahead) % align;
    return extend(&at, b, over ? align - over : 0);
}

/* Gives the position of the vtable with these bytes, which is written unless it exists. */
static bool vtable_at(size_t *at, struct qc_fb_builder *b, const uint8_t *vtable, size_t size)
{
    for (size_t i = 0; i < b->vtable_count; i++) {
        const uint8_t *have = b->bytes + b->vtables[i];
        if ((size_t)(have[0] | have[1] << 8) == size && memcmp(have, vtable, size) == 0) {
            *at = b->vtables[i];
            return true;
        }
    }
    size_t *more = qc_grown(b->vtables, b->vtable_count, &b->vtable_capacity, sizeof *more, &b->failed);
    if (!more) return false;
    b->vtables = more;
    if (!pad(b, 0, 2) || !extend(at, b, size)) return false;
    memcpy(b->bytes + *at, vtable, size);
    b->vtables[b->vtable_count++] = *at;
    return true;
}

/* Sets the offsets of the fields in the table, from the largest numbers to the smallest. A table with 8-byte numbers
   begins 4 bytes before a multiple of 8, so they are aligned. */
static size_t lay_out(uint16_t offset[FIELDS_MAX], unsigned *count, size_t *align, const struct qc_fb_object *o)
{
    static const size_t sizes[] = {8, 4, 2, 1};
    size_t end = 4;
    *count = 0;
    *align = 4;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (unsigned i = 0; i < FIELDS_MAX; i++) {
            const struct member *m = &o->members[i];
            if (!m->set || inline_size(m->field) != sizes[k]) continue;
            if (sizes[k] == 8) *align = 8;
            offset[i] = (uint16_t)end;
            end += sizes[k];
            if (*count <= i) *count = i + 1;
        }
    return end;
}

static void point(struct qc_fb_builder *b, size_t offset_at, size_t target)
{
    store(b->bytes + offset_at, target - offset_at, 4);
}

/* The recursion is as deep as the schema. */
static bool write_table(struct qc_fb_builder *b, size_t offset_at, const struct qc_fb_object *o)
{
    uint16_t offset[FIELDS_MAX] = {0};
    uint8_t vtable[4 + 2 * FIELDS_MAX];
    unsigned count;
    size_t align, at, vt;
    const size_t size = lay_out(offset, &count, &align, o);
    store(vtable, 4 + 2 * (uint64_t)count, 2);
    store(vtable + 2, size, 2);
    for (unsigned i = 0; i < count; i++) store(vtable + 4 + 2 * i, offset[i], 2);
    if (!vtable_at(&vt, b, vtable, 4 + 2 * (size_t)count)) return false;
    if (!pad(b, align == 8 ? 4 : 0, align) || !extend(&at, b, size)) return false;
    point(b, offset_at, at);
    store(b->bytes + at, at - vt, 4);
    for (unsigned i = 0; i < count; i++) {
        const struct member *m = &o->members[i];
        if (!m->set) continue;
        const size_t here = at + offset[i];
        if (m->child) {
            if (!write_table(b, here, m->child)) return false;
        } else if (m->children) {
            size_t first;
            if (!pad(b, 0, 4) || !extend(&first, b, 4 + 4 * m->count)) return false;
            point(b, here, first);
            store(b->bytes + first, m->count, 4);
            for (size_t k = 0; k < m->count; k++)
                if (m->children[k] && !write_table(b, first + 4 + 4 * k, m->children[k])) return false;
        } else if (is_offset(m->field)) {
            struct leaf *more = qc_grown(b->leaves, b->leaf_count, &b->leaf_capacity, sizeof *more, &b->failed);
            if (!more) return false;
            b->leaves = more;
            more[b->leaf_count++] = (struct leaf){.offset_at = here, .of = m};
        } else {
            store(b->bytes + here, (uint64_t)m->number, inline_size(m->field));
        }
    }
    return true;
}

/* Vectors follow all tables, so that several tables can reference the same one. */
static bool write_leaves(struct qc_fb_builder *b)
{
    struct qc_index index = {0};
    size_t *where = calloc(b->leaf_count + 1, sizeof *where);
    bool ok = where || qc_fail_memory(&b->failed, b->leaf_count * sizeof *where);
    for (size_t i = 0; ok && i < b->leaf_count; i++) {
        const struct member *m = b->leaves[i].of;
        const size_t bytes = m->field->type == QC_FB_STRING ? m->count : m->count * qc_fb_size(m->field->type);
        uint64_t h = qc_hash_bytes(QC_HASH_START, &m->field->type, sizeof m->field->type);
        h = qc_hash_bytes(h, m->data, bytes);
        size_t slot = SIZE_MAX;
        for (uint32_t k; !where[i] && (k = qc_index_next(&index, h, &slot)) != 0;) {
            const struct member *old = b->leaves[k - 1].of;
            if (old->field->type == m->field->type && old->count == m->count && old->align >= m->align &&
                (old->data == m->data || memcmp(old->data, m->data, bytes) == 0))
                where[i] = where[k - 1];
        }
        if (!where[i]) {
            ok = pad(b, 4, m->align) && extend(&where[i], b, 4 + bytes + (m->field->type == QC_FB_STRING)) &&
                 qc_index_add(&index, h, (uint32_t)i + 1, &b->failed);
            if (!ok) break;
            store(b->bytes + where[i], m->count, 4);
            if (bytes) memcpy(b->bytes + where[i] + 4, m->data, bytes);
        }
        point(b, b->leaves[i].offset_at, where[i]);
    }
    qc_index_free(&index);
    free(where);
    return ok;
}

bool qc_fb_finish(void **bytes, size_t *size, struct qc_fb_builder *b, const struct qc_fb_object *root,
                  const char *kind, struct qc_status *st)
{
    enum { HEAD = 8 };
    size_t at;
    const bool ok = b->failed.code == QC_OK && root && extend(&at, b, HEAD) && write_table(b, 0, root) &&
                    write_leaves(b) && pad(b, 0, 4);
    free(b->leaves);
    free(b->vtables);
    b->leaves = NULL;
    b->vtables = NULL;
    if (!ok) {
        free(b->bytes);
        b->bytes = NULL;
        return b->failed.code != QC_OK ? qc_fail(st, b->failed.code, "%s", b->failed.message)
                                       : qc_fail(st, QC_BAD_INPUT, "there is no root table");
    }
    memcpy(b->bytes + 4, kind, 4);
    *bytes = b->bytes;
    *size = b->size;
    b->bytes = NULL;
    return true;
}
