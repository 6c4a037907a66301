// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "rewrite/match.h"

static double value_rank(const struct qc_graph *g, const uint32_t *uses, const qc_id a[4])
{
    (void)uses;
    return a[0] ? (double)g->values[a[0]].type.shape.rank : (double)NAN;
}

static double value_elements(const struct qc_graph *g, const uint32_t *uses, const qc_id a[4])
{
    size_t n;
    (void)uses;
    return a[0] && qc_shape_count(&n, &g->values[a[0]].type.shape) ? (double)n : (double)NAN;
}

/* The constant has one element per index of `axis` (counted from the front) of x, all its other dimensions being 1. */
static bool along(const struct qc_graph *g, qc_id constant, qc_id x, int axis)
{
    const struct qc_shape *c = &g->values[constant].type.shape, *s = &g->values[x].type.shape;
    if (s->rank < 1 || axis < 0 || axis >= s->rank || c->rank > s->rank || s->dim[axis] == QC_FREE) return false;
    for (int i = 0; i < c->rank; i++) {
        int at = s->rank - c->rank + i;
        if (c->dim[i] != (at == axis ? s->dim[axis] : 1)) return false;
    }
    return s->rank - c->rank <= axis;
}

static double per_channel(const struct qc_graph *g, const uint32_t *uses, const qc_id a[4])
{
    /* the weight's first dimension is the number of channels of the result, whose rank is that of the weight */
    (void)uses;
    const struct qc_shape *c = &g->values[a[0]].type.shape, *w = &g->values[a[1]].type.shape;
    if (w->rank < 3 || c->rank > w->rank || c->rank < w->rank - 1) return 0;
    for (int i = 0; i < c->rank; i++) {
        int at = w->rank - c->rank + i;
        if (c->dim[i] != (at == 1 ? w->dim[0] : 1)) return 0;
    }
    return 1;
}

static double per_last(const struct qc_graph *g, const uint32_t *uses, const qc_id a[4])
{
    (void)uses;
    const struct qc_shape *w = &g->values[a[1]].type.shape;
    struct qc_shape last = {.rank = 2, .dim = {QC_FREE, w->rank == 2 ? w->dim[1] : 0}};
    const struct qc_shape *c = &g->values[a[0]].type.shape;
    if (w->rank != 2 || c->rank < 1 || c->rank > 2) return 0;
    return c->dim[c->rank - 1] == last.dim[1] && (c->rank == 1 || c->dim[0] == 1);
}

static double single_use(const struct qc_graph *g, const uint32_t *uses, const qc_id a[4])
{
    (void)g;
    return a[0] && uses[a[0]] == 1;
}

static double is_real(const struct qc_graph *g, const uint32_t *uses, const qc_id a[4])
{
    (void)uses;
    return a[0] && g->values[a[0]].type.space == QC_REAL && g->values[a[0]].type.dtype == QC_F32;
}

static double is_activation(const struct qc_graph *g, const uint32_t *uses, const qc_id a[4])
{
    (void)uses;
    return a[0] && !qc_constant_of(g, a[0]);
}

/* Value of a constant whose elements are all the same. */
static double value_of(const struct qc_graph *g, const uint32_t *uses, const qc_id a[4])
{
    const struct qc_tensor *t = qc_constant_of(g, a[0]);
    (void)uses;
    if (!t || !t->count) return (double)NAN;
    double v = qc_tensor_float(t, 0);
    for (size_t i = 1; i < t->count; i++)
        if (qc_tensor_float(t, i) != v) return (double)NAN;
    return v;
}

static double is_site(const struct qc_graph *g, const uint32_t *uses, const qc_id a[4])
{
    (void)uses;
    return a[0] && g->spaces[a[0]].kind == QC_SPACE_SITE;
}

static double at_floor(const struct qc_graph *g, const uint32_t *uses, const qc_id a[4])
{
    (void)uses;
    const struct qc_space *s = &g->spaces[a[0]];
    return s->state == QC_SPACE_BOUND && s->kind == QC_SPACE_SITE && s->count == 1 && s->zero_point[0] == qc_space_levels(s).lo;
}

/* Level of a bound of Clip in a space, saturated: what a quantize of it gives. */
static bool covers(const struct qc_graph *g, qc_id bound, const struct qc_space *s, bool upper)
{
    struct qc_levels levels = qc_space_levels(s);
    const struct qc_tensor *t = qc_constant_of(g, bound);
    if (!bound) return true;
    if (!t || t->count != 1) return false;
    struct qc_affine p = {.scale = s->scale[0], .zero_point = s->zero_point[0]};
    int32_t q = qc_quantize_one((float)qc_tensor_float(t, 0), p, levels);
    return upper ? q == levels.hi : q == levels.lo;
}

static double clip_covers(const struct qc_graph *g, const uint32_t *uses, const qc_id a[4])
{
    (void)uses;
    const struct qc_space *s = &g->spaces[a[2]];
    return s->state == QC_SPACE_BOUND && s->kind == QC_SPACE_SITE && s->count == 1 && covers(g, a[0], s, false) && covers(g, a[1], s, true);
}

static double along_axis_1(const struct qc_graph *g, const uint32_t *uses, const qc_id a[4])
{
    (void)uses;
    return along(g, a[0], a[1], 1);
}

static double same_space(const struct qc_graph *g, const uint32_t *uses, const qc_id a[4])
{
    (void)uses;
    return a[0] && g->values[a[0]].type.space == a[1];
}

static const struct qc_guard_info guards[] = {
    {.name = "rank", .help = "rank(x): number of dimensions, -1 when unknown", .arg_count = 1, .value = value_rank},
    {.name = "elements", .help = "elements(x): number of elements of a fixed shape", .arg_count = 1, .value = value_elements},
    {.name = "per_channel",
     .help = "per_channel(b, w): b has one element per output channel of a convolution with weight w, as [C,1,1] or [1,C,1,1]",
     .arg_count = 2,
     .value = per_channel},
    {.name = "per_last", .help = "per_last(b, w): b is [N] or [1,N] beside a matrix w of [K,N]", .arg_count = 2, .value = per_last},
    {.name = "along_channels", .help = "along_channels(b, x): b has one element per index of axis 1 of x", .arg_count = 2, .value = along_axis_1},
    {.name = "single_use", .help = "single_use(x): one node or output uses x", .arg_count = 1, .value = single_use},
    {.name = "real", .help = "real(x): x is a float32 value that is not quantized", .arg_count = 1, .value = is_real},
    {.name = "activation", .help = "activation(x): x is not a constant", .arg_count = 1, .value = is_activation},
    {.name = "value", .help = "value(c): the value of a constant whose elements are all equal", .arg_count = 1, .value = value_of},
    {.name = "site", .help = "site(S): S is the space of a stored value, not of an accumulator", .arg_count = 1, .wants_space = {true}, .value = is_site},
    {.name = "in_space", .help = "in_space(x, S): x has the parameters of S", .arg_count = 2, .wants_space = {false, true}, .value = same_space},
    {.name = "at_floor", .help = "at_floor(S): the zero point of S is its lowest level", .arg_count = 1, .wants_space = {true}, .value = at_floor},
    {.name = "clip_covers",
     .help = "clip_covers(lo, hi, S): saturation to the levels of S clips at least as much as lo and hi do",
     .arg_count = 3,
     .wants_space = {false, false, true},
     .value = clip_covers},
};

const struct qc_guard_info *qc_guard_find(const char *name)
{
    for (size_t i = 0; i < sizeof guards / sizeof *guards; i++)
        if (strcmp(guards[i].name, name) == 0) return &guards[i];
    return NULL;
}
