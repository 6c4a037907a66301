// SPDX-License-Identifier: Apache-2.0
/* Cached activations are read back unchanged, with whole units in any number of blocks: in memory that others released,
   in their own memory, and in files. */
#include "calib/sequential/sequential_parts.h"
#include "graph/types/number_format.h"
#include "tests/check.h"

enum { UNITS = 5, VALUES = 3 };

/* A graph with three inputs as values, and a quantizer of each width. */
static struct qc_graph *make_graph(qc_id values[VALUES], qc_id qparams_of[2], struct qc_status *st)
{
    static const enum qc_dtype types[] = {QC_U8, QC_I16};
    static const char *const names[] = {"a", "b", "c"};
    const struct qc_shape shape = qc_shape_of(1, (const int64_t[]){1});
    struct qc_graph *g = qc_graph_new(st);
    cr_assert(g);
    for (size_t i = 0; i < VALUES; i++) cr_assert(values[i] = qc_graph_add_input(g, names[i], QC_F32, &shape, st));
    for (size_t i = 0; i < 2; i++) {
        const struct qc_qparams def = {.name = names[i], .dtype = types[i]};
        qparams_of[i] = qc_graph_add_quantizer(g, &def, st);
        cr_assert(qparams_of[i] && qc_graph_bind_quantizer(g, qparams_of[i], 1, (const float[]){0.5f},
                                                           (const int32_t[]){i ? -7 : 100}, st));
    }
    return g;
}

/* Centred numbers of both types. */
static float number(size_t value, size_t unit, size_t i)
{
    return (float)((i * 7 + value * 13 + unit * 29) % 150) - 70;
}

static void put(struct qc_activation_cache *f, qc_id id, size_t value, qc_id qparams, bool spilled, bool last_axis,
                const struct qc_shape *shape, struct qc_status *st)
{
    size_t n;
    cr_assert(qc_shape_count(&n, shape));
    QC_FREED float *x = malloc(n * sizeof *x);
    cr_assert(x && qc_activation_cache_prepare(f, id, qparams, spilled, NULL, st), "%s", st->message);
    for (size_t u = 0; u < UNITS; u++) {
        for (size_t i = 0; i < n; i++) x[i] = number(value, u, i);
        const struct qc_view v = qc_view_of(QC_F32, shape, last_axis ? QC_LAYOUT_LAST : QC_LAYOUT_ROW, x);
        cr_assert(qc_activation_cache_put(f, id, u, &v, st), "%s", st->message);
    }
    qc_activation_cache_commit(f, id);
    cr_assert(qc_activation_cache_has(f, id));
}

static void get(struct qc_activation_cache *f, qc_id id, size_t value, bool coded, bool last, size_t n,
                struct qc_status *st)
{
    QC_FREED float *x = malloc(n * sizeof *x);
    for (size_t u = 0; u < UNITS; u++) {
        size_t wrong = 0;
        cr_assert(x && qc_activation_cache_get(x, f, id, u, last, st), "%s", st->message);
        for (size_t i = 0; i < n; i++) wrong += x[i] != number(value, u, i) * (coded ? 0.5f : 1.0f);
        cr_expect_eq(wrong, 0, "value %zu, unit %zu: %zu of %zu", value, u, wrong, n);
    }
}

Test(frontier, keeps_units)
{
    /* Less than a block, some blocks and a rest, whole blocks. */
    static const int64_t sizes[VALUES][4] = {{1, 3, 5, 7}, {1, 12, 30, 41}, {1, 16, 64, 32}};
    for (int how = 0; how < 16; how++) {
        const bool reuse = how & 1, spilled = how & 2, last_axis = how & 4, mapped = how & 8;
        struct qc_shape shapes[VALUES];
        size_t n[VALUES];
        qc_id values[VALUES], qparams_of[2];
        OWN(qc_graph) *g = make_graph(values, qparams_of, ST);
        OWN(qc_activation_cache) *f = NULL;
        MUST(qc_activation_cache_new(&f, g, UNITS, reuse, mapped ? 0 : SIZE_MAX, ST));
        for (size_t k = 0; k < VALUES; k++) {
            shapes[k] = qc_shape_of(4, sizes[k]);
            cr_assert(qc_shape_count(&n[k], &shapes[k]));
        }
        put(f, values[1], 1, QC_REAL, spilled, last_axis, &shapes[1], ST);
        get(f, values[1], 1, false, false, n[1], ST); /* it may be read again */
        get(f, values[1], 1, false, true, n[1], ST);
        put(f, values[2], 2, qparams_of[1], spilled, last_axis, &shapes[2],
            ST); /* in what the first gave up, and more */
        put(f, values[0], 0, qparams_of[0], spilled, last_axis, &shapes[0], ST);
        get(f, values[2], 2, true, false, n[2], ST);
        put(f, values[1], 1, qparams_of[0], false, last_axis, &shapes[1], ST); /* another form of what was there */
        cr_expect_eq(qc_activation_cache_form(f, values[1])->qparams, qparams_of[0]);
        get(f, values[0], 0, true, true, n[0], ST);
        get(f, values[1], 1, true, true, n[1], ST);
        get(f, values[2], 2, true, true, n[2], ST);
        qc_activation_cache_drop(f, values[0]);
        cr_expect_not(qc_activation_cache_has(f, values[0]));
    }
}

/* All numbers of the type, most of which are no integers or beyond a byte. */
Test(frontier, keeps_floats_of_eight_bits)
{
    enum { CODES = 256 };
    const struct qc_shape shape = QC_SHAPE(CODES);
    const struct qc_qparams def = {.name = "q", .dtype = QC_F8E4M3, .symmetry = QC_SYMMETRIC};
    OWN(qc_graph) *g = qc_graph_new(ST);
    OWN(qc_activation_cache) *f = NULL;
    const qc_id v = g ? qc_graph_add_input(g, "x", QC_F32, &shape, ST) : 0,
                q = v ? qc_graph_add_quantizer(g, &def, ST) : 0;
    float x[CODES], y[CODES];
    for (unsigned i = 0; i < CODES; i++) x[i] = (i & 0x7f) == 0x7f ? 0 : qc_small_to_float(QC_F8E4M3, (uint8_t)i);
    MUST(q && qc_graph_bind_quantizer(g, q, 1, (const float[]){0.5f}, (const int32_t[]){0}, ST));
    MUST(qc_activation_cache_new(&f, g, 1, false, SIZE_MAX, ST) &&
         qc_activation_cache_prepare(f, v, q, false, NULL, ST));
    const struct qc_view view = qc_view_of(QC_F32, &shape, QC_LAYOUT_ROW, x);
    MUST(qc_activation_cache_put(f, v, 0, &view, ST));
    qc_activation_cache_commit(f, v);
    MUST(qc_activation_cache_get(y, f, v, 0, true, ST));
    for (size_t i = 0; i < CODES; i++) cr_expect_float_eq(y[i], 0.5f * x[i], 0, "code %zu", i);
}
