// SPDX-License-Identifier: Apache-2.0
#include "tflite/flatbuffer/flatbuffer_read.h"

#include <string.h>

enum { DEPTH_MAX = 16, VTABLE_HEAD = 4, PLACE = 256 };

/* Path from the root to a value. */
struct place {
    const struct place *above;
    const char *name;
    bool numbered;
    size_t index;
};

struct verifier {
    const struct qc_fb_schema *schema;
    const uint8_t *bytes;
    size_t size;
    size_t tables; /* number of tables that may still be visited */
    struct qc_status *st;
};

size_t qc_fb_size(enum qc_fb_type t)
{
    switch (t) {
    case QC_FB_BOOL:
    case QC_FB_I8:
    case QC_FB_U8: return 1;
    case QC_FB_U16: return 2;
    case QC_FB_I64:
    case QC_FB_U64: return 8;
    case QC_FB_I32:
    case QC_FB_U32:
    case QC_FB_F32:
    case QC_FB_STRING:
    case QC_FB_TABLE:
    case QC_FB_TABLES:
    case QC_FB_UNION: break;
    }
    return 4;
}

/* Returns the table with this number in the union, or 0 if it is unknown. */
static unsigned fb_union_table(const struct qc_fb_schema *s, unsigned number)
{
    for (unsigned i = 1; number && i < s->table_count; i++)
        if (s->tables[i].in_union == number) return i;
    return 0;
}

static uint64_t load(const uint8_t *p, size_t size)
{
    uint64_t v = 0;
    for (size_t i = 0; i < size; i++) v |= (uint64_t)p[i] << (8 * i);
    return v;
}

static int64_t load_int(const uint8_t *p, enum qc_fb_type t)
{
    const uint64_t v = load(p, qc_fb_size(t));
    switch (t) {
    case QC_FB_BOOL: return v != 0;
    case QC_FB_I8: return (int8_t)v;
    case QC_FB_I32: return (int32_t)v;
    case QC_FB_I64: return (int64_t)v;
    case QC_FB_U64: return v > INT64_MAX ? INT64_MAX : (int64_t)v;
    case QC_FB_U8:
    case QC_FB_U16:
    case QC_FB_U32:
    case QC_FB_F32:
    case QC_FB_STRING:
    case QC_FB_TABLE:
    case QC_FB_TABLES:
    case QC_FB_UNION: break;
    }
    return (int64_t)v;
}

static float load_float(const uint8_t *p)
{
    const uint32_t bits = (uint32_t)load(p, 4);
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* --- Verification --- */

static bool damaged(const struct verifier *v, const struct place *where, const char *what)
{
    char text[PLACE] = "", next[PLACE];
    for (const struct place *p = where; p; p = p->above) {
        if (p->numbered)
            qc_text(next, PLACE, "%s[%zu]%s%s", p->name, p->index, *text ? "." : "", text);
        else
            qc_text(next, PLACE, "%s%s%s", p->name, *text ? "." : "", text);
        memcpy(text, next, PLACE);
    }
    return qc_fail(v->st, QC_BAD_INPUT, "%s: %s; the file is truncated or damaged", text, what);
}

/* True if the `n` bytes from `at` on are inside the file. */
static bool inside(const struct verifier *v, size_t at, size_t n)
{
    return at <= v->size && n <= v->size - at;
}

/* Returns the target of the offset at position `at`, which is inside the file. */
static size_t follow(const uint8_t *bytes, size_t at)
{
    return at + (size_t)load(bytes + at, 4);
}

static bool verify_table(struct verifier *v, const struct place *where, unsigned table, size_t at, unsigned depth);

static bool verify_elements(struct verifier *v, const struct place *where, size_t at, size_t each, size_t *count)
{
    *count = 0;
    if (!inside(v, at, 4)) return damaged(v, where, "begins outside of the file");
    *count = (size_t)load(v->bytes + at, 4);
    if (*count > (v->size - at - 4) / each) return damaged(v, where, "is longer than the file");
    return true;
}

/* Returns the offset of a field from the start of its table, or 0 if it is absent. */
static size_t field_offset(const uint8_t *bytes, size_t at, unsigned number)
{
    const size_t vtable = (size_t)((int64_t)at - load_int(bytes + at, QC_FB_I32));
    const size_t place = VTABLE_HEAD + 2 * (size_t)number;
    return place + 2 <= load(bytes + vtable, 2) ? (size_t)load(bytes + vtable + place, 2) : 0;
}

static bool verify_field(struct verifier *v, const struct place *above, const struct qc_fb_field *f, size_t at,
                         size_t table_size, unsigned depth)
{
    const struct place where = {.above = above, .name = f->name};
    const size_t offset = field_offset(v->bytes, at, f->number), own = f->vector ? 4 : qc_fb_size(f->type);
    if (!offset) return true;
    if (offset < 4 || own > table_size || offset > table_size - own)
        return damaged(v, &where, "lies outside of its table");
    if (!f->vector && f->type < QC_FB_STRING) return true;
    const size_t to = follow(v->bytes, at + offset);
    size_t count;
    if (f->vector) return verify_elements(v, &where, to, qc_fb_size(f->type), &count);
    if (f->type == QC_FB_STRING) {
        if (!verify_elements(v, &where, to, 1, &count)) return false;
        if (!inside(v, to + 4, count + 1) || v->bytes[to + 4 + count]) return damaged(v, &where, "has no end");
        return !memchr(v->bytes + to + 4, 0, count) || damaged(v, &where, "holds a zero byte");
    }
    if (f->type == QC_FB_TABLES) {
        if (!verify_elements(v, &where, to, 4, &count)) return false;
        for (size_t i = 0; f->child && i < count; i++) {
            const struct place one = {.above = where.above, .name = where.name, .numbered = true, .index = i};
            if (!verify_table(v, &one, f->child, follow(v->bytes, to + 4 + 4 * i), depth)) return false;
        }
        return true;
    }
    unsigned table = f->child;
    if (f->type == QC_FB_UNION) {
        const size_t which = field_offset(v->bytes, at, f->number - 1);
        const unsigned kind = which && which < table_size ? v->bytes[at + which] : 0;
        table = kind ? fb_union_table(v->schema, f->child + kind) : 0;
    }
    if (!inside(v, to, 4)) return damaged(v, &where, "begins outside of the file");
    return !table || verify_table(v, &where, table, to, depth);
}

static bool verify_table(struct verifier *v, const struct place *where, unsigned table, size_t at, unsigned depth)
{
    const struct qc_fb_table_info *info = &v->schema->tables[table];
    if (depth == DEPTH_MAX) return damaged(v, where, "is nested too deep");
    if (!v->tables--) return damaged(v, where, "is one table more than the file has room for");
    if (!inside(v, at, 4)) return damaged(v, where, "begins outside of the file");
    const int64_t vtable = (int64_t)at - load_int(v->bytes + at, QC_FB_I32);
    if (vtable < 0 || !inside(v, (size_t)vtable, VTABLE_HEAD))
        return damaged(v, where, "has its vtable outside of the file");
    const size_t vtable_size = (size_t)load(v->bytes + vtable, 2), size = (size_t)load(v->bytes + vtable + 2, 2);
    if (vtable_size < VTABLE_HEAD || !inside(v, (size_t)vtable, vtable_size))
        return damaged(v, where, "has its vtable outside of the file");
    if (size < 4 || !inside(v, at, size)) return damaged(v, where, "is longer than the file");
    for (size_t i = info->first; i < v->schema->field_count && v->schema->fields[i].table == table; i++)
        if (!verify_field(v, where, &v->schema->fields[i], at, size, depth + 1)) return false;
    return true;
}

bool qc_fb_open(struct qc_fb_table *root, const struct qc_fb_schema *schema, unsigned root_table, const void *bytes,
                size_t size, struct qc_status *st)
{
    struct verifier v = {.schema = schema, .bytes = bytes, .size = size, .tables = size / 4, .st = st};
    const struct place where = {.name = schema->tables[root_table].name};
    /* Offsets have 32 bits, so in larger files they reach only the first 4 GiB. */
    if (size < 8) return damaged(&v, &where, "the file is too short");
    const size_t at = follow(v.bytes, 0);
    if (!verify_table(&v, &where, root_table, at, 0)) return false;
    *root = (struct qc_fb_table){.schema = schema, .bytes = bytes, .at = at};
    return true;
}

/* --- Access to a verified file --- */

/* Returns the position of a field in the file, or 0 if it is absent. */
static size_t place_of(const struct qc_fb_table *t, unsigned field)
{
    const size_t offset = t->at ? field_offset(t->bytes, t->at, t->schema->fields[field].number) : 0;
    return offset ? t->at + offset : 0;
}

int64_t qc_fb_int(const struct qc_fb_table *t, unsigned field)
{
    const size_t at = place_of(t, field);
    const struct qc_fb_field *f = &t->schema->fields[field];
    return at ? load_int(t->bytes + at, f->type) : (int64_t)f->value;
}

float qc_fb_float(const struct qc_fb_table *t, unsigned field)
{
    const size_t at = place_of(t, field);
    return at ? load_float(t->bytes + at) : (float)t->schema->fields[field].value;
}

const char *qc_fb_string(const struct qc_fb_table *t, unsigned field)
{
    const size_t at = place_of(t, field);
    return at ? (const char *)t->bytes + follow(t->bytes, at) + 4 : "";
}

struct qc_fb_vector qc_fb_vector(const struct qc_fb_table *t, unsigned field)
{
    struct qc_fb_vector v = {.schema = t->schema, .bytes = t->bytes, .type = t->schema->fields[field].type};
    const size_t at = place_of(t, field);
    if (!at) return v;
    v.at = follow(t->bytes, at) + 4;
    v.count = (size_t)load(t->bytes + v.at - 4, 4);
    return v;
}

struct qc_fb_table qc_fb_child(const struct qc_fb_table *t, unsigned field)
{
    const size_t at = place_of(t, field);
    return (struct qc_fb_table){.schema = t->schema, .bytes = t->bytes, .at = at ? follow(t->bytes, at) : 0};
}

int64_t qc_fb_vector_int(const struct qc_fb_vector *v, size_t i)
{
    return load_int(v->bytes + v->at + i * qc_fb_size(v->type), v->type);
}

float qc_fb_vector_float(const struct qc_fb_vector *v, size_t i)
{
    return load_float(v->bytes + v->at + 4 * i);
}

struct qc_fb_table qc_fb_vector_table(const struct qc_fb_vector *v, size_t i)
{
    return (struct qc_fb_table){.schema = v->schema, .bytes = v->bytes, .at = follow(v->bytes, v->at + 4 * i)};
}
