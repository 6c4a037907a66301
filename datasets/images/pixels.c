// SPDX-License-Identifier: Apache-2.0
#include "datasets/images/pixels.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

bool qc_pixels_new(struct qc_pixels *out, size_t width, size_t height, unsigned channels, unsigned times,
                   const struct qc_budget *budget, struct qc_status *st)
{
    size_t count;
    if (width == 0 || height == 0) return qc_fail(st, QC_BAD_INPUT, "it has no pixels");
    if (!qc_mul_size(&count, width, height) || count > QC_PIXELS_MAX)
        return qc_fail(st, QC_BAD_INPUT, "it has %zu x %zu pixels; at most %d million are read", width, height,
                       QC_PIXELS_MAX / 1000000);
    const size_t bytes = count * channels;
    if (!qc_budget_hold(budget, bytes * times, st)) return false;
    unsigned char *data = malloc(bytes);
    if (!data) return qc_fail_memory(st, bytes);
    *out = (struct qc_pixels){
        .width = (unsigned)width, .height = (unsigned)height, .channels = channels, .orientation = 1, .data = data};
    return true;
}

void qc_pixels_free(struct qc_pixels *p)
{
    free(p->data);
    *p = (struct qc_pixels){.data = NULL};
}

static void replace(struct qc_pixels *p, struct qc_pixels *with)
{
    free(p->data);
    *p = *with;
}

/* ---- Upright ---- */

bool qc_pixels_turn(struct qc_pixels *p, const struct qc_budget *budget, struct qc_status *st)
{
    const unsigned o = p->orientation;
    const bool across = o >= 5, right = o == 2 || o == 3 || o == 6 || o == 7,
               below = o == 3 || o == 4 || o == 7 || o == 8;
    struct qc_pixels t;
    if (o < 2 || o > 8) return true;
    if (!qc_pixels_new(&t, across ? p->height : p->width, across ? p->width : p->height, p->channels, 1, budget, st))
        return false;
    unsigned char *to = t.data;
    for (unsigned y = 0; y < t.height; y++)
        for (unsigned x = 0; x < t.width; x++, to += p->channels) {
            const unsigned a = right ? t.width - 1 - x : x, b = below ? t.height - 1 - y : y;
            const size_t at = across ? (size_t)a * p->width + b : (size_t)b * p->width + a;
            memcpy(to, p->data + at * p->channels, p->channels);
        }
    replace(p, &t);
    return true;
}

/* ---- Colours ---- */

bool qc_pixels_channels(struct qc_pixels *p, unsigned channels, const struct qc_budget *budget, struct qc_status *st)
{
    const size_t count = (size_t)p->width * p->height;
    struct qc_pixels t;
    if (p->channels == channels) return true;
    if (!qc_pixels_new(&t, p->width, p->height, channels, 1, budget, st)) return false;
    for (size_t i = 0; i < count; i++) {
        if (channels == 1) {
            const unsigned char *c = p->data + 3 * i;
            t.data[i] = (unsigned char)((c[0] * 19595u + c[1] * 38470u + c[2] * 7471u + 0x8000u) >> 16);
        } else {
            memset(t.data + 3 * i, p->data[i], 3);
        }
    }
    t.orientation = p->orientation;
    replace(p, &t);
    return true;
}

/* ---- Sizes ---- */

enum { PRECISION = 32 - 8 - 2 };

/* Inputs of each output pixel: `count[i]` pixels from `first[i]`, with weights from weights[i * most]. */
struct taps {
    unsigned most;
    unsigned *first, *count;
    int32_t *weights;
};

/* As Pillow's precompute_coeffs and normalize_coeffs_8bpc. */
static bool make_taps(struct taps *t, unsigned in, unsigned out, struct qc_status *st)
{
    const double scale = (double)in / out, stretch = scale < 1.0 ? 1.0 : scale, support = stretch;
    const unsigned whole = (unsigned)support;
    size_t count;
    t->most = (whole + ((double)whole < support ? 1 : 0)) * 2 + 1;
    if (!qc_mul_size(&count, t->most, out)) return qc_fail_memory(st, out);
    t->first = calloc(out, sizeof *t->first);
    t->count = calloc(out, sizeof *t->count);
    t->weights = calloc(count, sizeof *t->weights);
    double *exact = calloc(t->most, sizeof *exact);
    if (!t->first || !t->count || !t->weights || !exact) {
        free(exact);
        return qc_fail_memory(st, count * sizeof *t->weights);
    }
    for (unsigned i = 0; i < out; i++) {
        const double center = (i + 0.5) * scale, inverse = 1.0 / stretch;
        double sum = 0.0;
        int from = (int)(center - support + 0.5), to = (int)(center + support + 0.5);
        if (from < 0) from = 0;
        if (to > (int)in) to = (int)in;
        const unsigned n = (unsigned)(to - from);
        for (unsigned k = 0; k < n; k++) { /* a triangle */
            const double x = ((int)k + from - center + 0.5) * inverse, away = x < 0.0 ? -x : x;
            sum += exact[k] = away < 1.0 ? 1.0 - away : 0.0;
        }
        for (unsigned k = 0; k < n; k++)
            t->weights[(size_t)i * t->most + k] =
                (int32_t)(0.5 + (sum != 0.0 ? exact[k] / sum : exact[k]) * (1 << PRECISION));
        t->first[i] = (unsigned)from;
        t->count[i] = n;
    }
    free(exact);
    return true;
}

static unsigned char clip_sum(int32_t sum)
{
    const int32_t v = sum >> PRECISION;
    return (unsigned char)(v < 0 ? 0 : v > 255 ? 255 : v);
}

static void along_rows(struct qc_pixels *to, const struct qc_pixels *from, const struct taps *t)
{
    const unsigned channels = from->channels;
    for (unsigned y = 0; y < to->height; y++) {
        const unsigned char *row = from->data + (size_t)y * from->width * channels;
        unsigned char *out = to->data + (size_t)y * to->width * channels;
        for (unsigned x = 0; x < to->width; x++) {
            const int32_t *w = t->weights + (size_t)x * t->most;
            for (unsigned c = 0; c < channels; c++) {
                const unsigned char *p = row + (size_t)t->first[x] * channels + c;
                int32_t sum = 1 << (PRECISION - 1);
                for (unsigned k = 0; k < t->count[x]; k++, p += channels) sum += *p * w[k];
                *out++ = clip_sum(sum);
            }
        }
    }
}

/* Computes a row of sums at a time, so that memory is read in order. */
static void along_columns(struct qc_pixels *to, const struct qc_pixels *from, const struct taps *t, int32_t *sums)
{
    const size_t width = (size_t)to->width * to->channels;
    for (unsigned y = 0; y < to->height; y++) {
        const int32_t *w = t->weights + (size_t)y * t->most;
        unsigned char *out = to->data + y * width;
        for (size_t x = 0; x < width; x++) sums[x] = 1 << (PRECISION - 1);
        for (unsigned k = 0; k < t->count[y]; k++) {
            const unsigned char *row = from->data + (t->first[y] + k) * width;
            for (size_t x = 0; x < width; x++) sums[x] += row[x] * w[k];
        }
        for (size_t x = 0; x < width; x++) out[x] = clip_sum(sums[x]);
    }
}

bool qc_pixels_resize(struct qc_pixels *p, unsigned width, unsigned height, const struct qc_budget *budget,
                      struct qc_status *st)
{
    bool ok = true;
    for (int pass = 0; ok && pass < 2; pass++) {
        const bool rows = pass == 0;
        struct taps t = {.most = 0};
        struct qc_pixels next = {.data = NULL};
        int32_t *sums = NULL;
        if (rows ? width == p->width : height == p->height) continue;
        ok = qc_pixels_new(&next, rows ? width : p->width, rows ? p->height : height, p->channels, 1, budget, st) &&
             (rows ? make_taps(&t, p->width, width, st) : make_taps(&t, p->height, height, st));
        if (ok && !rows && !(sums = calloc((size_t)width * p->channels, sizeof *sums)))
            ok = qc_fail_memory(st, width * sizeof *sums);
        if (ok && rows)
            along_rows(&next, p, &t);
        else if (ok)
            along_columns(&next, p, &t, sums);
        free(sums);
        free(t.first);
        free(t.count);
        free(t.weights);
        if (ok)
            replace(p, &next);
        else
            qc_pixels_free(&next);
    }
    return ok;
}
