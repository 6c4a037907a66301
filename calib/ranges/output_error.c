// SPDX-License-Identifier: Apache-2.0
#include "calib/ranges/output_error.h"

#include <math.h>
#include <stdlib.h>

#include "calib/statistics/stream.h"
#include "calib/weights/compensate.h"
#include "calib/weights/factorise.h"
#include "calib/weights/round_weights_parts.h"

enum { STEPS = 24, CANDIDATES = STEPS + 1, OCTAVE = 16 };

/* 2^(-k/16), as a product of exact roots, the same on every machine. */
static double ratio(int k)
{
    const double step = 0.95760328069857364694; /* 2^(-1/16) */
    double r = 1;
    for (int i = 0; i < k % OCTAVE; i++) r *= step;
    return ldexp(r, -(k / OCTAVE));
}

struct scratch {
    double *h;                     /* [block][block]: what errors are taken from */
    double *mean, *other;          /* [block] */
    double *x, *d;                 /* [block][QC_LANES] */
    double *factor, *panel, *work; /* with compensate: [block][block], QC_FACTOR_SCRATCH(block), [2 block][QC_LANES] */
    size_t *order, held; /* order: [block]; held: 1 + the group and block that are read, of one number; 0: none */
    bool factorised;
};

struct judging {
    const struct qc_output_error *e;
    const struct qc_range *widest;    /* [channels] */
    struct qc_round_weights_layer at; /* to find weights with */
    size_t chunks;                    /* of a group's outputs */
    struct scratch *scratch;          /* [workers] */
    const struct qc_qparams *input;   /* NULL: real */
    double *errors;                   /* [outputs][CANDIDATES] */
};

const struct qc_second_moments_layer *qc_output_layer(const struct qc_second_moments *m, qc_id node)
{
    const struct qc_second_moments_layer *found = qc_second_moments_of(m, NULL, node);
    return found && found->product_count && found->parts[QC_MOMENTS_FIT].rows + found->parts[QC_MOMENTS_HELD].rows
               ? found
               : NULL;
}

static size_t channel_of(const struct judging *j, size_t output)
{
    const struct qc_second_moments_layer *l = j->e->layer;
    return j->e->channels == 1 ? 0 : l->transposed ? output % (l->outputs / l->groups) : output;
}

static void read_part(const struct judging *j, const struct scratch *s, size_t w, unsigned parts, size_t group,
                      size_t block)
{
    const double noise = qc_round_weights_input_noise(j->input, group);
    qc_second_moments_read(s->h, s->other, j->e->layer, parts, group, block);
    if (j->e->centred) qc_round_weights_centre(s->h, s->other, s->mean, w);
    for (size_t i = 0; i < w; i++) s->h[i * w + i] += noise;
}

static bool read_moments(const struct judging *j, struct scratch *s, size_t w, size_t group, size_t block,
                         struct qc_status *st)
{
    const struct qc_pool_options alone = {.workers = 1};
    const size_t number = 1 + group * j->e->layer->blocks + block;
    if (s->held == number) return true;
    s->held = number;
    const unsigned all = 1u << QC_MOMENTS_FIT | 1u << QC_MOMENTS_HELD;
    const bool held = j->e->compensate && qc_round_weights_holds(j->e->layer);
    qc_second_moments_read_mean(s->mean, j->e->layer, all, group, block * j->e->layer->block, w);
    read_part(j, s, w, held ? 1u << QC_MOMENTS_FIT : all, group, block);
    if (j->e->compensate && !qc_factorise_damped(&s->factorised, s->factor, s->order, s->h, w, 0, s->panel, &alone, st))
        return false;
    if (held) read_part(j, s, w, 1u << QC_MOMENTS_HELD, group, block);
    return true;
}

/* Adds the errors of outputs first .. first + count, which share a matrix, in one block of columns. */
static void judge_block(const struct judging *j, const struct scratch *s, size_t first, size_t count, size_t w,
                        size_t column)
{
    const struct qc_qparams *qparams = j->e->qparams;
    const struct qc_levels levels = qc_qparams_levels(qparams);
    const float *weights = j->e->weight->data;
    for (int k = 0; k < CANDIDATES; k++) {
        double lo[QC_LANES], hi[QC_LANES], scale[QC_LANES], nearest[QC_LANES] = {0}, compensated[QC_LANES] = {0};
        for (size_t l = 0; l < QC_LANES; l++) {
            const size_t o = first + (l < count ? l : 0);
            const struct qc_range *r = &j->widest[channel_of(j, o)];
            const struct qc_affine p =
                qc_affine_from_range(r->lo * ratio(k), r->hi * ratio(k), levels, qparams->symmetry);
            lo[l] = (double)(levels.lo - p.zero_point);
            hi[l] = (double)(levels.hi - p.zero_point);
            scale[l] = (double)p.scale;
            for (size_t i = 0; i < w; i++)
                s->x[i * QC_LANES + l] = (double)(weights[qc_round_weights_element(&j->at, o, column + i)] / p.scale);
        }
        const struct qc_round_grid grid = {.lo = lo, .hi = hi};
        qc_round_nearest(s->d, s->x, w, &grid);
        qc_row_errors(nearest, s->d, s->h, w);
        const bool both = j->e->compensate && s->factorised;
        if (both) {
            qc_round_compensated(s->d, s->x, s->factor, s->order, w, &grid, s->work);
            qc_row_errors(compensated, s->d, s->h, w);
        }
        for (size_t l = 0; l < count; l++)
            j->errors[(first + l) * CANDIDATES + (size_t)k] +=
                (both && compensated[l] < nearest[l] ? compensated[l] : nearest[l]) * scale[l] * scale[l];
    }
}

static bool judge(void *user, size_t item, unsigned worker, struct qc_status *st)
{
    const struct judging *j = user;
    const struct qc_second_moments_layer *l = j->e->layer;
    const size_t per = l->outputs / l->groups, group = item / j->chunks, o = item % j->chunks * QC_LANES;
    for (size_t b = 0; b < l->blocks; b++) {
        const size_t w = qc_second_moments_width(l, b);
        if (!read_moments(j, &j->scratch[worker], w, group, b, st)) return false;
        judge_block(j, &j->scratch[worker], group * per + o, per - o < QC_LANES ? per - o : QC_LANES, w, b * l->block);
    }
    return true;
}

/* The least sum over the outputs of a channel. */
static void choose(struct qc_range *ranges, const struct judging *j)
{
    for (size_t c = 0; c < j->e->channels; c++) {
        double sums[CANDIDATES] = {0};
        int best = 0;
        for (size_t o = 0; o < j->e->layer->outputs; o++)
            for (int k = 0; channel_of(j, o) == c && k < CANDIDATES; k++)
                sums[k] += j->errors[o * CANDIDATES + (size_t)k];
        for (int k = 1; k < CANDIDATES; k++)
            if (sums[k] < sums[best]) best = k;
        ranges[c].lo *= ratio(best);
        ranges[c].hi *= ratio(best);
        ranges[c].objective = sums[best];
        ranges[c].objective_minmax = sums[0];
        ranges[c].candidates = CANDIDATES;
    }
}

static bool new_scratch(struct scratch *s, size_t w, bool compensate)
{
    *s = (struct scratch){.h = malloc(w * w * sizeof(double)),
                          .mean = malloc(w * sizeof(double)),
                          .other = malloc(w * sizeof(double)),
                          .x = malloc(w * QC_LANES * sizeof(double)),
                          .d = malloc(w * QC_LANES * sizeof(double))};
    if (!s->h || !s->mean || !s->other || !s->x || !s->d) return false;
    if (!compensate) return true;
    s->factor = malloc(w * w * sizeof(double));
    s->panel = malloc(QC_FACTOR_SCRATCH(w) * sizeof(double));
    s->work = malloc(2 * w * QC_LANES * sizeof(double));
    s->order = malloc(w * sizeof *s->order);
    return s->factor && s->panel && s->work && s->order;
}

bool qc_output_ranges(struct qc_range *ranges, const struct qc_output_error *e, struct qc_status *st)
{
    const struct qc_second_moments_layer *l = e->layer;
    const size_t w = l->block, bytes = sizeof(double) * ((e->compensate ? 2 : 1) * w * w + w * (3 + 4 * QC_LANES) +
                                                         QC_FACTOR_SCRATCH(w));
    const qc_id input = e->g->values[e->g->nodes[e->node].inputs[0]].type.qparams;
    struct judging j = {.e = e,
                        .widest = ranges,
                        .at = {.g = e->g, .node = e->node, .moments = l},
                        .chunks = (l->outputs / l->groups + QC_LANES - 1) / QC_LANES,
                        .input = input ? &e->g->qparams_of[input] : NULL};
    unsigned workers;
    if (!qc_stream_workers(&workers, e->workers, e->memory_limit, qc_stream_held_bytes(), bytes, st)) return false;
    j.errors = calloc(l->outputs * CANDIDATES, sizeof *j.errors);
    j.scratch = calloc(workers, sizeof *j.scratch);
    bool ok = j.errors && j.scratch;
    for (unsigned k = 0; ok && k < workers; k++) {
        struct scratch *s = &j.scratch[k];
        ok = new_scratch(s, w, e->compensate);
    }
    const struct qc_pool_options pool = {.workers = workers};
    if (!ok) qc_fail_memory(st, bytes);
    ok = ok && qc_pool_run(l->groups * j.chunks, judge, &j, &pool, st);
    if (ok) choose(ranges, &j);
    for (unsigned k = 0; j.scratch && k < workers; k++) {
        free(j.scratch[k].h);
        free(j.scratch[k].mean);
        free(j.scratch[k].other);
        free(j.scratch[k].x);
        free(j.scratch[k].d);
        free(j.scratch[k].factor);
        free(j.scratch[k].panel);
        free(j.scratch[k].work);
        free(j.scratch[k].order);
    }
    free(j.scratch);
    free(j.errors);
    return ok;
}
