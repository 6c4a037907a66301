// SPDX-License-Identifier: Apache-2.0
#include "calib/ranges/calibrate_parts.h"

#include <math.h>
#include <stdlib.h>

#include "calib/statistics/stream.h"
#include "calib/weights/compensation.h"
#include "calib/weights/round_weights_parts.h"

/* Ranges are tried in STEPS steps of 2^(-1/16), down to a third of the largest magnitude, as those of blocks. */
enum { STEPS = 24, CANDIDATES = STEPS + 1, OCTAVE = 16 };

/* Returns 2^(-k/16) as a product of exact roots, so that every machine has the same value. */
static double ratio(int k)
{
    const double step = 0.95760328069857364694; /* 2^(-1/16) */
    double r = 1;
    for (int i = 0; i < k % OCTAVE; i++) r *= step;
    return ldexp(r, -(k / OCTAVE));
}

/* Moments of one group and block. All workers share one, unless groups are many and small: then each has its own. */
struct matrix {
    double *h;              /* [block][block]: second moments that errors are measured with; one allocation for all */
    double *mean, *other;   /* [block] */
    double *factor, *panel; /* with compensate: [block][block], QC_FACTOR_SCRATCH(block) */
    size_t *order;          /* [block] */
    bool factorised;
};

struct lanes {
    double *x, *d, *work; /* [block][QC_LANES]; work: with compensate, [2 block][QC_LANES] */
};

struct judging {
    const struct qc_output_error *e;
    const struct qc_range *widest;    /* [channels] */
    struct qc_round_weights_layer at; /* maps outputs and columns to weights */
    size_t chunks;                    /* per group, of QC_LANES outputs */
    size_t group, block;              /* of the shared matrix */
    struct matrix *matrices;          /* [1 or workers] */
    struct lanes *lanes;              /* [workers] */
    const struct qc_qparams *input;   /* NULL: not quantized */
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

static void read_judging_part(const struct judging *j, const struct matrix *s, size_t w, unsigned parts, size_t group,
                              size_t block)
{
    const double noise = qc_round_weights_input_noise(j->input, group);
    qc_second_moments_read(s->h, s->other, j->e->layer, parts, group, block);
    if (j->e->centred) qc_round_weights_centre(s->h, s->other, s->mean, w);
    for (size_t i = 0; i < w; i++) s->h[i * w + i] += noise;
}

static bool read_moments(const struct judging *j, struct matrix *s, size_t group, size_t block,
                         const struct qc_pool_options *team, struct qc_status *st)
{
    const size_t w = qc_second_moments_width(j->e->layer, block);
    const unsigned all = 1u << QC_MOMENTS_FIT | 1u << QC_MOMENTS_HELD;
    const bool held = j->e->settings->compensate && qc_round_weights_holds(j->e->layer);
    qc_second_moments_read_mean(s->mean, j->e->layer, all, group, block * j->e->layer->block, w);
    read_judging_part(j, s, w, held ? 1u << QC_MOMENTS_FIT : all, group, block);
    const struct qc_factorised of = {.h = s->h, .n = w, .damping = {.part = QC_DAMPING}};
    if (j->e->settings->compensate && !qc_factorise_read(&s->factorised, s->factor, s->order, &of, s->panel, team, st))
        return false;
    if (held) read_judging_part(j, s, w, 1u << QC_MOMENTS_HELD, group, block);
    return true;
}

/* Adds the errors of outputs first .. first + count, which share a matrix, in one block of columns. */
static void judge_block(const struct judging *j, const struct matrix *m, const struct lanes *s, size_t first,
                        size_t count, size_t block)
{
    const size_t w = qc_second_moments_width(j->e->layer, block), column = block * j->e->layer->block;
    const struct qc_qparams *qparams = j->e->qparams;
    const struct qc_levels levels = qc_levels_around_zero(qparams);
    const float *weights = j->e->weight->data;
    const size_t step = qc_round_weights_step(&j->at);
    for (int k = 0; k < CANDIDATES; k++) {
        float divisor[QC_LANES];
        double lo[QC_LANES], hi[QC_LANES], scale[QC_LANES], nearest[QC_LANES] = {0}, compensated[QC_LANES] = {0};
        for (size_t l = 0; l < QC_LANES; l++) {
            const size_t o = first + (l < count ? l : 0);
            const struct qc_range *r = &j->widest[channel_of(j, o)];
            const struct qc_affine p =
                qc_affine_from_range(r->lo * ratio(k), r->hi * ratio(k), levels, qparams->symmetry);
            lo[l] = (double)(levels.lo - p.zero_point);
            hi[l] = (double)(levels.hi - p.zero_point);
            divisor[l] = p.scale;
            scale[l] = (double)p.scale;
        }
        for (size_t i = 0; i < w; i++) { /* column by column: weights of several outputs may be contiguous */
            const float *x = weights + qc_round_weights_element(&j->at, first, column + i);
            for (size_t l = 0; l < QC_LANES; l++)
                s->x[i * QC_LANES + l] = (double)(x[(l < count ? l : 0) * step] / divisor[l]);
        }
        const struct qc_round_grid grid = {.lo = lo, .hi = hi, .mantissa = levels.mantissa, .least = levels.least};
        qc_round_nearest(s->d, s->x, w, &grid);
        qc_row_errors(nearest, s->d, m->h, w);
        const bool both = j->e->settings->compensate && m->factorised;
        if (both) {
            qc_round_compensated(s->d, s->x, m->factor, m->order, w, &grid, s->work);
            qc_row_errors(compensated, s->d, m->h, w);
        }
        for (size_t l = 0; l < count; l++)
            j->errors[(first + l) * CANDIDATES + (size_t)k] +=
                (both && compensated[l] < nearest[l] ? compensated[l] : nearest[l]) * scale[l] * scale[l];
    }
}

/* Judges one chunk of outputs with the shared matrix. */
static bool judge_chunk(void *user, size_t item, unsigned worker, struct qc_status *st)
{
    const struct judging *j = user;
    const struct qc_second_moments_layer *l = j->e->layer;
    const size_t per = l->outputs / l->groups, o = item * QC_LANES;
    judge_block(j, &j->matrices[0], &j->lanes[worker], j->group * per + o, per - o < QC_LANES ? per - o : QC_LANES,
                j->block);
    return true;
}

/* Judges a whole group of at most QC_LANES outputs. */
static bool judge_group(void *user, size_t group, unsigned worker, struct qc_status *st)
{
    const struct judging *j = user;
    const struct qc_second_moments_layer *l = j->e->layer;
    const size_t per = l->outputs / l->groups;
    const struct qc_pool_options alone = {.workers = 1};
    for (size_t b = 0; b < l->blocks; b++) {
        if (!read_moments(j, &j->matrices[worker], group, b, &alone, st)) return false;
        judge_block(j, &j->matrices[worker], &j->lanes[worker], group * per, per, b);
    }
    return true;
}

static bool judge_all(struct judging *j, bool together, const struct qc_pool_options *team, struct qc_status *st)
{
    const struct qc_second_moments_layer *l = j->e->layer;
    if (!together) return qc_pool_run(l->groups, judge_group, j, team, st);
    for (j->group = 0; j->group < l->groups; j->group++)
        for (j->block = 0; j->block < l->blocks; j->block++)
            if (!read_moments(j, &j->matrices[0], j->group, j->block, team, st) ||
                !qc_pool_run(j->chunks, judge_chunk, j, team, st))
                return false;
    return true;
}

/* Chooses the candidate of least error, summed over the outputs of a channel. */
static void choose_least_error(struct qc_range *ranges, const struct judging *j)
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

bool qc_output_ranges(struct qc_range *ranges, const struct qc_output_error *e, struct qc_status *st)
{
    const struct qc_second_moments_layer *l = e->layer;
    const size_t w = l->block, side = sizeof(double) * w, each = (e->settings->compensate ? 4 : 2) * side * QC_LANES,
                 matrix = side * (e->settings->compensate ? 2 * w + 3 : w + 2) +
                          (e->settings->compensate ? sizeof(double) * QC_FACTOR_SCRATCH(w) : 0);
    const qc_id input = e->g->values[e->g->nodes[e->node].inputs[0]].type.qparams;
    struct judging j = {.e = e,
                        .widest = ranges,
                        .at = {.g = e->g, .node = e->node, .moments = l},
                        .chunks = (l->outputs / l->groups + QC_LANES - 1) / QC_LANES,
                        .input = input ? &e->g->qparams_of[input] : NULL};
    const bool together = j.chunks > 1 || l->groups == 1;
    struct qc_pool_options team = {0};
    if (!qc_stream_workers(&team.workers, e->settings->workers, e->settings->memory_limit,
                           qc_stream_held_bytes(e->settings->memory_limit) + (together ? matrix : 0),
                           each + (together ? 0 : matrix), st))
        return false;
    const size_t matrices = together ? 1 : team.workers;
    j.errors = calloc(l->outputs * CANDIDATES, sizeof *j.errors);
    j.matrices = calloc(matrices, sizeof *j.matrices);
    j.lanes = calloc(team.workers, sizeof *j.lanes);
    bool ok = j.errors && j.matrices && j.lanes;
    for (size_t k = 0; ok && k < matrices; k++) {
        struct matrix *m = &j.matrices[k];
        if (!(ok = (m->h = malloc(matrix)) != NULL)) break;
        m->mean = m->h + w * w;
        m->other = m->mean + w;
        if (!e->settings->compensate) continue;
        m->factor = m->other + w;
        m->panel = m->factor + w * w;
        m->order = (size_t *)(void *)(m->panel + QC_FACTOR_SCRATCH(w));
    }
    for (size_t k = 0; ok && k < team.workers; k++) {
        struct lanes *own = &j.lanes[k];
        if (!(ok = (own->x = malloc(each)) != NULL)) break;
        own->d = own->x + w * QC_LANES;
        own->work = own->d + w * QC_LANES;
    }
    if (!ok) qc_fail_memory(st, matrix + each);
    ok = ok && judge_all(&j, together, &team, st);
    if (ok) choose_least_error(ranges, &j);
    for (size_t k = 0; j.matrices && k < matrices; k++) free(j.matrices[k].h);
    for (size_t k = 0; j.lanes && k < team.workers; k++) free(j.lanes[k].x);
    free(j.matrices);
    free(j.lanes);
    free(j.errors);
    return ok;
}
