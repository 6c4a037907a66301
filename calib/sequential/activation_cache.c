// SPDX-License-Identifier: Apache-2.0
#include "calib/sequential/sequential_parts.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/file_map.h"
#include "graph/types/number_format.h"

/* Reused memory has blocks of one size, so that blocks of small values fit large ones: BLOCK, or less if all values
   are smaller. */
enum { BLOCK = 16 << 10, BLOCK_LEAST = 64, SLAB = 256 };

struct kept {
    struct qc_kept_form form;
    bool there, shaped;
    size_t count, bytes;  /* elements of a unit, bytes of a unit */
    size_t piece, pieces; /* bytes of a block, blocks of a unit */
    struct block {
        char *memory; /* NULL: in the file, or not allocated */
        bool there;   /* in the file, at offset `at` */
        int64_t at;
    } * blocks;   /* [units][pieces] */
    bool spilled; /* its blocks are in the file */
};

struct qc_activation_cache {
    const struct qc_graph *g;
    size_t units;
    size_t block;            /* bytes of a block of reused memory, or of the file */
    struct kept *now, *next; /* [value_count + 1] */
    bool reuse;
    size_t slab_count, idle_count;
    void **slabs;       /* [slab_count] of SLAB blocks each */
    struct block *idle; /* [slab_count * SLAB], of which idle_count are free blocks */
    struct qc_scratch_file *file;
    size_t file_slabs, idle_in_file_count;
    struct block *idle_in_file; /* [file_slabs * SLAB] */
    size_t most;                /* bytes of slabs in memory while the file has room */
    pthread_mutex_t lock;       /* protects the first shape of a value, and blocks */
};

/* Allocates another slab in memory; its blocks are free. */
static bool add_slab(struct qc_activation_cache *f)
{
    void **slabs = realloc(f->slabs, (f->slab_count + 1) * sizeof *slabs);
    if (slabs) f->slabs = slabs;
    struct block *idle = realloc(f->idle, (f->slab_count + 1) * SLAB * sizeof *idle);
    if (idle) f->idle = idle;
    char *memory = slabs && idle ? malloc(SLAB * f->block) : NULL;
    if (!memory) return false;
    f->slabs[f->slab_count++] = memory;
    for (size_t i = SLAB; i-- > 0;) f->idle[f->idle_count++] = (struct block){.memory = memory + i * f->block};
    return true;
}

/* The same in the file. Fails if it has no room. */
static bool extend_file(struct qc_activation_cache *f, struct qc_status *st)
{
    int64_t at;
    struct block *idle = realloc(f->idle_in_file, (f->file_slabs + 1) * SLAB * sizeof *idle);
    if (!idle) return qc_fail_memory(st, (f->file_slabs + 1) * SLAB * sizeof *idle);
    f->idle_in_file = idle;
    if (!f->file && !qc_scratch_file_new(&f->file, NULL, st)) return false;
    if (!qc_scratch_file_grow(&at, f->file, SLAB * f->block, st)) return false;
    f->file_slabs++;
    for (size_t i = SLAB; i-- > 0;)
        f->idle_in_file[f->idle_in_file_count++] = (struct block){.there = true, .at = at + (int64_t)(i * f->block)};
    return true;
}

static bool take_block(struct block *b, struct qc_activation_cache *f, bool spilled, struct qc_status *st)
{
    struct qc_status no_room = QC_STATUS_INIT; /* then it stays in memory */
    const bool full = (f->slab_count + 1) * SLAB * f->block > f->most, outside = spilled || (!f->idle_count && full);
    if (outside && (f->idle_in_file_count || extend_file(f, spilled ? st : &no_room))) {
        *b = f->idle_in_file[--f->idle_in_file_count];
        return true;
    }
    if (spilled) return false;
    if (!f->idle_count && !add_slab(f)) return qc_fail_memory(st, SLAB * f->block);
    *b = f->idle[--f->idle_count];
    return true;
}

/* Allocates a unit. */
static bool allocate_unit(struct block *blocks, struct qc_activation_cache *f, const struct kept *k,
                          struct qc_status *st)
{
    if (!f->reuse && !k->spilled) return (blocks[0].memory = malloc(k->bytes)) != NULL || qc_fail_memory(st, k->bytes);
    bool ok = true;
    pthread_mutex_lock(&f->lock);
    for (size_t i = 0; ok && i < k->pieces; i++) ok = take_block(&blocks[i], f, k->spilled, st);
    pthread_mutex_unlock(&f->lock);
    return ok;
}

static void give_back(struct qc_activation_cache *f, struct block *blocks, size_t count)
{
    pthread_mutex_lock(&f->lock);
    for (size_t i = count; i-- > 0;) {
        if (blocks[i].there)
            f->idle_in_file[f->idle_in_file_count++] = blocks[i];
        else if (!f->reuse)
            free(blocks[i].memory);
        else if (blocks[i].memory)
            f->idle[f->idle_count++] = blocks[i];
        blocks[i] = (struct block){0};
    }
    pthread_mutex_unlock(&f->lock);
}

size_t qc_activation_cache_bytes(const struct qc_graph *g, qc_id qparams, size_t elements)
{
    return elements * (qparams ? qc_dtype_size(g->qparams_of[qparams].dtype) : sizeof(float));
}

/* Returns the bytes of a block: those of the largest value of a unit of one sample, at most BLOCK. */
static size_t block_of(const struct qc_graph *g)
{
    size_t block = BLOCK_LEAST;
    for (size_t v = 1; v <= g->value_count && block < BLOCK; v++) {
        struct qc_shape s = g->values[v].type.shape;
        size_t count;
        if (g->values[v].kind == QC_VALUE_CONSTANT) continue;
        if (s.rank > 0 && s.dim[0] == QC_FREE) s.dim[0] = 1;
        if (!qc_shape_count(&count, &s)) return BLOCK;
        while (block < BLOCK && block / sizeof(float) < count) block *= 2;
    }
    return block;
}

bool qc_activation_cache_new(struct qc_activation_cache **out, const struct qc_graph *g, size_t units, bool reuse,
                             size_t most, struct qc_status *st)
{
    struct qc_activation_cache *f = calloc(1, sizeof *f);
    if (!f) return qc_fail_memory(st, sizeof *f);
    *f = (struct qc_activation_cache){.g = g,
                                      .units = units,
                                      .block = block_of(g),
                                      .reuse = reuse,
                                      .most = most,
                                      .now = calloc(g->value_count + 1, sizeof *f->now),
                                      .next = calloc(g->value_count + 1, sizeof *f->next)};
    pthread_mutex_init(&f->lock, NULL);
    if (!f->now || !f->next) {
        qc_activation_cache_free(f);
        return qc_fail_memory(st, (g->value_count + 1) * sizeof *f->now);
    }
    *out = f;
    return true;
}

static void clear(struct qc_activation_cache *f, struct kept *k)
{
    if (k->blocks) give_back(f, k->blocks, f->units * k->pieces);
    free(k->blocks);
    *k = (struct kept){0};
}

void qc_activation_cache_free(struct qc_activation_cache *f)
{
    if (!f) return;
    for (qc_id v = 0; f->now && f->next && v <= f->g->value_count; v++) {
        clear(f, &f->now[v]);
        clear(f, &f->next[v]);
    }
    for (size_t i = 0; i < f->slab_count; i++) free(f->slabs[i]);
    free(f->slabs);
    free(f->idle);
    free(f->idle_in_file);
    qc_scratch_file_free(f->file);
    free(f->now);
    free(f->next);
    pthread_mutex_destroy(&f->lock);
    free(f);
}

bool qc_activation_cache_prepare(struct qc_activation_cache *f, qc_id value, qc_id qparams, bool spilled,
                                 const char *folder, struct qc_status *st)
{
    struct kept *k = &f->next[value];
    if (spilled && !f->file && !qc_scratch_file_new(&f->file, folder, st)) return false;
    *k = (struct kept){.there = true, .spilled = spilled, .form.qparams = qparams};
    return true;
}

/* Returns the order in which elements of a view are kept: that of its memory if possible. */
static enum qc_layout layout_of(const struct qc_view *v, const struct qc_shape *shape)
{
    if (v->rank < 3 || v->rank > 5 || qc_view_row_major(v)) return QC_LAYOUT_ROW;
    const struct qc_view last = qc_view_of(QC_F32, shape, QC_LAYOUT_LAST, NULL);
    return qc_view_same_order(v, &last) ? QC_LAYOUT_LAST : QC_LAYOUT_ROW;
}

static bool shape_once(struct qc_activation_cache *f, struct kept *k, const struct qc_view *v, struct qc_status *st)
{
    bool ok = true;
    pthread_mutex_lock(&f->lock);
    if (!k->shaped) {
        k->form.shape = qc_shape_of(v->rank, v->dim);
        k->form.layout = layout_of(v, &k->form.shape);
        k->count = qc_view_count(v);
        k->bytes = qc_activation_cache_bytes(f->g, k->form.qparams, k->count);
        k->piece = f->reuse || k->spilled ? f->block : k->bytes;
        k->pieces = k->bytes ? (k->bytes + k->piece - 1) / k->piece : 0;
        ok = !k->bytes || (k->blocks = calloc(f->units * k->pieces, sizeof *k->blocks)) ||
             qc_fail_memory(st, f->units * k->pieces * sizeof *k->blocks);
        k->shaped = ok;
    }
    pthread_mutex_unlock(&f->lock);
    return ok;
}

/* Centred numbers to stored integers and back. */
#define CODEC(type, name)                                                                                              \
    static void encode_##name(void *to, const float *x, size_t n, int32_t zero)                                        \
    {                                                                                                                  \
        type *q = to;                                                                                                  \
        for (size_t i = 0; i < n; i++) q[i] = (type)((int32_t)x[i] + zero);                                            \
    }                                                                                                                  \
    static void decode_##name(float *to, const void *from, size_t n, int32_t zero, float scale)                        \
    {                                                                                                                  \
        const type *q = from;                                                                                          \
        for (size_t i = 0; i < n; i++) to[i] = (float)((int32_t)q[i] - zero) * scale;                                  \
    }
CODEC(uint8_t, u8)
CODEC(int8_t, i8)
CODEC(uint16_t, u16)
CODEC(int16_t, i16)

/* Returns the parameters of the kept numbers; NULL: they are float32. */
static const struct qc_qparams *kept_parameters(const struct qc_activation_cache *f, const struct kept *k)
{
    return k->form.qparams != QC_REAL ? &f->g->qparams_of[k->form.qparams] : NULL;
}

/* Encodes part of a unit; levels of floats of few bits to their codes. */
static void encode(void *to, const float *x, size_t n, const struct qc_qparams *s)
{
    if (!s) {
        memcpy(to, x, n * sizeof *x);
        return;
    }
    if (qc_is_small_float(s->dtype)) {
        for (size_t i = 0; i < n; i++)
            ((uint8_t *)to)[i] = qc_float_to_small(s->dtype, (double)x[i], QC_SMALL_SATURATES, QC_SMALL_NEAREST);
        return;
    }
    const bool wide = qc_dtype_size(s->dtype) == 2, sign = qc_levels_of(s->dtype, false).lo < 0;
    (wide ? sign ? encode_i16 : encode_u16 : sign ? encode_i8 : encode_u8)(to, x, n, s->zero_point[0]);
}

static void decode(float *to, const void *from, size_t n, const struct qc_qparams *s)
{
    if (!s) {
        memcpy(to, from, n * sizeof *to);
        return;
    }
    if (qc_is_small_float(s->dtype)) {
        for (size_t i = 0; i < n; i++) to[i] = qc_small_to_float(s->dtype, ((const uint8_t *)from)[i]) * s->scale[0];
        return;
    }
    const bool wide = qc_dtype_size(s->dtype) == 2, sign = qc_levels_of(s->dtype, false).lo < 0;
    (wide ? sign ? decode_i16 : decode_u16 : sign ? decode_i8 : decode_u8)(to, from, n, s->zero_point[0], s->scale[0]);
}

bool qc_activation_cache_put(struct qc_activation_cache *f, qc_id value, size_t unit, const struct qc_view *v,
                             struct qc_status *st)
{
    struct kept *k = &f->next[value];
    if (!shape_once(f, k, v, st)) return false;
    if (!k->bytes) return true;
    struct qc_view kept = qc_view_of(QC_F32, &k->form.shape, k->form.layout, NULL);
    float *row = NULL;
    const float *x = v->data;
    if (!qc_view_same_order(v, &kept)) {
        if (!(row = malloc(k->count * sizeof *row))) return qc_fail_memory(st, k->count * sizeof *row);
        kept.data = row;
        qc_view_copy(&kept, v);
        x = row;
    }
    struct block *blocks = k->blocks + unit * k->pieces;
    const size_t most = k->piece / (k->bytes / k->count);
    bool ok = allocate_unit(blocks, f, k, st);
    for (size_t i = 0, first = 0; ok && first < k->count; i++, first += most) {
        const size_t n = k->count - first < most ? k->count - first : most;
        char part[BLOCK];
        encode(blocks[i].there ? part : blocks[i].memory, x + first, n, kept_parameters(f, k));
        ok = !blocks[i].there || qc_scratch_file_write(f->file, blocks[i].at, part, n * (k->bytes / k->count), st);
    }
    free(row);
    return ok;
}

void qc_activation_cache_commit(struct qc_activation_cache *f, qc_id value)
{
    clear(f, &f->now[value]);
    f->now[value] = f->next[value];
    f->next[value] = (struct kept){0};
}

void qc_activation_cache_drop(struct qc_activation_cache *f, qc_id value)
{
    clear(f, &f->now[value]);
}

bool qc_activation_cache_has(const struct qc_activation_cache *f, qc_id value)
{
    return f->now[value].there;
}

const struct qc_kept_form *qc_activation_cache_form(const struct qc_activation_cache *f, qc_id value)
{
    return &f->now[value].form;
}

bool qc_activation_cache_get(float *out, struct qc_activation_cache *f, qc_id value, size_t unit, bool last,
                             struct qc_status *st)
{
    struct kept *k = &f->now[value];
    if (!k->bytes) return true;
    struct block *blocks = k->blocks + unit * k->pieces;
    const size_t most = k->piece / (k->bytes / k->count);
    bool ok = true;
    for (size_t i = 0, first = 0; ok && first < k->count; i++, first += most) {
        const size_t n = k->count - first < most ? k->count - first : most;
        char part[BLOCK];
        ok = !blocks[i].there || qc_scratch_file_read(part, f->file, blocks[i].at, n * (k->bytes / k->count), st);
        if (ok) decode(out + first, blocks[i].there ? part : blocks[i].memory, n, kept_parameters(f, k));
    }
    if (last) give_back(f, blocks, k->pieces);
    return ok;
}
