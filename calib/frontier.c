// SPDX-License-Identifier: Apache-2.0
#include "calib/frontier.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct kept {
    struct qc_kept_form form;
    bool there, shaped;
    size_t count, bytes; /* elements of a unit, bytes of a unit */
    struct unit {
        void *data;
        size_t size; /* of its memory */
    } *units;            /* [units]; NULL when spilled */
    bool spilled;
    int64_t set;         /* spilled: of qc_spill_add */
};

struct qc_frontier {
    const struct qc_graph *g;
    size_t units;
    struct kept *now, *next; /* [value_count + 1] */
    struct qc_spill *spill;
    bool reuse;
    size_t idle_count, idle_capacity;
    struct idle { /* memory that is free, ascending by size */
        void *data;
        size_t size;
    } *idle;
    pthread_mutex_t lock; /* of the first shape of a value, and of idle */
};

/* Memory of at least `size` bytes; *got is what it has. */
static void *take(size_t *got, struct qc_frontier *f, size_t size)
{
    void *data = NULL;
    pthread_mutex_lock(&f->lock);
    size_t i = 0;
    while (i < f->idle_count && f->idle[i].size < size) i++;
    if (i < f->idle_count) {
        data = f->idle[i].data;
        *got = f->idle[i].size;
        f->idle_count--;
        memmove(f->idle + i, f->idle + i + 1, (f->idle_count - i) * sizeof *f->idle);
    }
    pthread_mutex_unlock(&f->lock);
    if (data) return data;
    *got = size;
    return malloc(size);
}

static void give_back(struct qc_frontier *f, void *data, size_t size)
{
    if (!data) return;
    pthread_mutex_lock(&f->lock);
    if (f->reuse && f->idle_count == f->idle_capacity) {
        const size_t capacity = f->idle_capacity ? 2 * f->idle_capacity : 256;
        struct idle *more = realloc(f->idle, capacity * sizeof *more);
        if (more) {
            f->idle = more;
            f->idle_capacity = capacity;
        }
    }
    const bool keep = f->reuse && f->idle_count < f->idle_capacity;
    if (keep) {
        size_t i = f->idle_count++;
        for (; i && f->idle[i - 1].size > size; i--) f->idle[i] = f->idle[i - 1];
        f->idle[i] = (struct idle){.data = data, .size = size};
    }
    pthread_mutex_unlock(&f->lock);
    if (!keep) free(data);
}

size_t qc_frontier_bytes(const struct qc_graph *g, qc_id space, size_t elements)
{
    return elements * (space ? qc_dtype_size(g->spaces[space].dtype) : sizeof(float));
}

bool qc_frontier_new(struct qc_frontier **out, const struct qc_graph *g, size_t units, bool reuse, struct qc_status *st)
{
    struct qc_frontier *f = calloc(1, sizeof *f);
    if (!f) return qc_fail_memory(st, sizeof *f);
    *f = (struct qc_frontier){.g = g, .units = units, .reuse = reuse, .now = calloc(g->value_count + 1, sizeof *f->now), .next = calloc(g->value_count + 1, sizeof *f->next)};
    pthread_mutex_init(&f->lock, NULL);
    if (!f->now || !f->next) {
        qc_frontier_free(f);
        return qc_fail_memory(st, (g->value_count + 1) * sizeof *f->now);
    }
    *out = f;
    return true;
}

static void clear(struct qc_frontier *f, struct kept *k)
{
    for (size_t u = 0; k->units && u < f->units; u++) give_back(f, k->units[u].data, k->units[u].size);
    free(k->units);
    if (k->set) qc_spill_drop(f->spill, k->set);
    *k = (struct kept){0};
}

void qc_frontier_free(struct qc_frontier *f)
{
    if (!f) return;
    for (qc_id v = 0; f->now && f->next && v <= f->g->value_count; v++) {
        clear(f, &f->now[v]);
        clear(f, &f->next[v]);
    }
    for (size_t i = 0; i < f->idle_count; i++) free(f->idle[i].data);
    free(f->idle);
    free(f->now);
    free(f->next);
    qc_spill_free(f->spill);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

bool qc_frontier_prepare(struct qc_frontier *f, qc_id value, qc_id space, bool spilled, const char *folder, struct qc_status *st)
{
    struct kept *k = &f->next[value];
    if (spilled && !f->spill && !qc_spill_new(&f->spill, folder, st)) return false;
    *k = (struct kept){.there = true, .spilled = spilled, .form.space = space};
    if (!spilled && !(k->units = calloc(f->units + 1, sizeof *k->units))) return qc_fail_memory(st, f->units * sizeof *k->units);
    return true;
}

/* The order in which elements of a view are kept: that of its memory where possible. */
static enum qc_layout layout_of(const struct qc_view *v, const struct qc_shape *shape)
{
    if (v->rank < 3 || v->rank > 5 || qc_view_row_major(v)) return QC_LAYOUT_ROW;
    const struct qc_view last = qc_view_of(QC_F32, shape, QC_LAYOUT_LAST, NULL);
    return qc_view_same_order(v, &last) ? QC_LAYOUT_LAST : QC_LAYOUT_ROW;
}

static bool shape_once(struct qc_frontier *f, struct kept *k, const struct qc_view *v, struct qc_status *st)
{
    bool ok = true;
    pthread_mutex_lock(&f->lock);
    if (!k->shaped) {
        k->form.shape = qc_shape_of(v->rank, v->dim);
        k->form.layout = layout_of(v, &k->form.shape);
        k->count = qc_view_count(v);
        k->bytes = qc_frontier_bytes(f->g, k->form.space, k->count);
        ok = !k->spilled || !k->bytes || qc_spill_add(&k->set, f->spill, f->units, k->bytes, st);
        k->shaped = ok;
    }
    pthread_mutex_unlock(&f->lock);
    return ok;
}

/* Centred numbers to stored integers and back. */
#define CODEC(type, name)                                                                        \
    static void encode_##name(void *to, const float *x, size_t n, int32_t zero)                  \
    {                                                                                            \
        type *q = to;                                                                            \
        for (size_t i = 0; i < n; i++) q[i] = (type)((int32_t)x[i] + zero);                      \
    }                                                                                            \
    static void decode_##name(float *to, const void *from, size_t n, int32_t zero, float scale)  \
    {                                                                                            \
        const type *q = from;                                                                    \
        for (size_t i = 0; i < n; i++) to[i] = (float)((int32_t)q[i] - zero) * scale;            \
    }
CODEC(uint8_t, u8)
CODEC(int8_t, i8)
CODEC(uint16_t, u16)
CODEC(int16_t, i16)

static void encode(void *to, const float *x, size_t n, const struct qc_space *s)
{
    const bool wide = qc_dtype_size(s->dtype) == 2, sign = qc_levels_of(s->dtype, false).lo < 0;
    (wide ? sign ? encode_i16 : encode_u16 : sign ? encode_i8 : encode_u8)(to, x, n, s->zero_point[0]);
}

static void decode(float *to, const void *from, size_t n, const struct qc_space *s)
{
    const bool wide = qc_dtype_size(s->dtype) == 2, sign = qc_levels_of(s->dtype, false).lo < 0;
    (wide ? sign ? decode_i16 : decode_u16 : sign ? decode_i8 : decode_u8)(to, from, n, s->zero_point[0], s->scale[0]);
}

bool qc_frontier_put(struct qc_frontier *f, qc_id value, size_t unit, const struct qc_view *v, struct qc_status *st)
{
    struct kept *k = &f->next[value];
    if (!shape_once(f, k, v, st)) return false;
    if (!k->bytes) return true;
    struct qc_view kept = qc_view_of(QC_F32, &k->form.shape, k->form.layout, NULL);
    const bool coded = k->form.space != QC_REAL, copied = coded && !qc_view_same_order(v, &kept);
    struct unit u = {0};
    float *row = copied ? malloc(k->count * sizeof *row) : NULL;
    u.data = !copied || row ? take(&u.size, f, k->bytes) : NULL;
    bool ok = u.data != NULL || qc_fail_memory(st, k->count * sizeof *row);
    if (ok && (copied || !coded)) {
        kept.data = coded ? row : u.data;
        qc_view_copy(&kept, v);
    }
    if (ok && coded) encode(u.data, row ? row : v->data, k->count, &f->g->spaces[k->form.space]);
    free(row);
    if (ok && !k->spilled) {
        k->units[unit] = u;
        return true;
    }
    ok = ok && qc_spill_write(f->spill, k->set, unit, k->bytes, u.data, st);
    give_back(f, u.data, u.size);
    return ok;
}

void qc_frontier_commit(struct qc_frontier *f, qc_id value)
{
    clear(f, &f->now[value]);
    f->now[value] = f->next[value];
    f->next[value] = (struct kept){0};
}

void qc_frontier_drop(struct qc_frontier *f, qc_id value)
{
    clear(f, &f->now[value]);
}

bool qc_frontier_has(const struct qc_frontier *f, qc_id value)
{
    return f->now[value].there;
}

const struct qc_kept_form *qc_frontier_form(const struct qc_frontier *f, qc_id value)
{
    return &f->now[value].form;
}

bool qc_frontier_get(float *out, struct qc_frontier *f, qc_id value, size_t unit, bool last, struct qc_status *st)
{
    struct kept *k = &f->now[value];
    const bool coded = k->form.space != QC_REAL;
    void *read = NULL;
    if (!k->bytes) return true;
    if (k->spilled && coded && !(read = malloc(k->bytes))) return qc_fail_memory(st, k->bytes);
    if (k->spilled && !qc_spill_read(coded ? read : out, f->spill, k->set, unit, k->bytes, st)) {
        free(read);
        return false;
    }
    const void *from = k->spilled ? read : k->units[unit].data;
    if (coded) decode(out, from, k->count, &f->g->spaces[k->form.space]);
    else if (!k->spilled) memcpy(out, from, k->bytes);
    free(read);
    if (last && k->units) {
        give_back(f, k->units[unit].data, k->units[unit].size);
        k->units[unit].data = NULL;
    }
    return true;
}
