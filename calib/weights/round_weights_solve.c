// SPDX-License-Identifier: Apache-2.0
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arith/float_level.h"
#include "base/simd.h"
#include "calib/ablation.h"
#include "calib/moments/moments_parts.h"
#include "calib/weights/compensation.h"
#include "calib/weights/round_weights_parts.h"
#include "calib/weights/rounded_layers.h"

/* Columns to prefetch ahead: if outputs are contiguous, each column is in another page. */
enum { AHEAD = 12 };

/* AGAIN_COLUMNS: with more columns coordinate descent costs more than the rest of a layer. RESCALED: times that scales
   of blocks are refitted, to moments without damping: an error proportional to the output accumulates from layer to
   layer. */
enum { AGAIN_COLUMNS = 1024, RESCALED = 3 };

/* Scales tried below one that a limit on pairs has raised, and the ratio below which they are tried. A large bias or a
   small accumulator step may have raised the scale instead (calib/ranges/weights.c): BIAS_ROOM and STEP_ROOM exclude
   these. */
enum { SCALES_TRIED = 2 };
static const double SCALE_WORTH = 0.99, BIAS_ROOM = 0x1p28, STEP_ROOM = 1e-28;

/* Moments of few rows show spurious correlation, so they are shrunk toward a multiple of the identity (Ledoit and Wolf
   2004), in proportion to columns per row. The damping is that ratio times DAMPING_A_ROW of the mean diagonal. With few
   levels, whose errors are large, it is FEW_LEVELS_A_ROW, up to FEW_LEVELS_MOST
   (docs/decisions/0043-moments-of-few-rows.md). */
static const double DAMPING_A_ROW = 0.03, FEW_LEVELS_A_ROW = 2, FEW_LEVELS_MOST = 0.3;

/* Scratch of one matrix of w columns, for the whole team. */
struct matrix {
    size_t w;
    double *seen;   /* [w][w]: damped moments that weights of few levels are fitted to; NULL */
    double *square; /* [w][w]: the factor above the diagonal; from it down the moments that errors are measured with */
    double *mean, *other; /* [w] */
    double *quantized;    /* [w]: means of the input in the quantized network */
    double *panel;        /* [QC_FACTOR_SCRATCH(w)] */
    size_t *order;        /* [w] */
    bool factorised;
    struct qc_low_rank few_fit, few_judge; /* with few rows they replace the factor and order, and the moments; else
                                              empty. few_judge is empty if few_fit serves for both */
    struct qc_crossed crossed;             /* if pairs of float and quantized input are known; else empty */
};

static bool is_crossed(const struct qc_round_weights_layer *l)
{
    return l->quantized && l->quantized->paired;
}

/* Scratch of one worker, for QC_LANES outputs. */
enum { OWN_SIDES = 3, BLOCK_SIDES = 3, PAIR_SIDES = 3 };
struct lanes {
    double *d, *nearest, *x;     /* [w][QC_LANES] */
    double *scratch;             /* [2 w][QC_LANES]; half of it with few rows */
    float *few;                  /* the same memory */
    double *lo, *hi, *scales;    /* [w][QC_LANES] of weights in blocks */
    double *target;              /* [w][QC_LANES] of crossed layers */
    struct qc_round_pairs pairs; /* of weights with a limit on pairs; else empty */
    double *best_d, *best_x;     /* [w][QC_LANES]: d and x at the best scale so far; of weights with such a limit */
};

enum { FIT = 1 << QC_MOMENTS_FIT, HELD = 1 << QC_MOMENTS_HELD };

/* The parts of the samples that weights are fitted to and judged by, and whether each has few rows. */
struct parts {
    unsigned fit, judge;
    bool few_fit, few_judge;
};

/* Returns true if coordinate descent follows: weights of few levels are worth the whole matrix, however few rows it
   has. */
static bool rounds_again(const struct qc_second_moments_layer *l)
{
    return l->few_levels && l->block <= AGAIN_COLUMNS;
}

static struct parts parts_of(const struct qc_second_moments_layer *l)
{
    const bool held = qc_round_weights_holds(l);
    const unsigned fit = held ? FIT : FIT | HELD, judge = held ? HELD : FIT | HELD;
    const bool whole = rounds_again(l);
    return (struct parts){fit, judge, !whole && qc_low_rank_pays(l, fit),
                          !(whole && fit == judge) && qc_low_rank_pays(l, judge)};
}

size_t qc_round_weights_shared_bytes(const struct qc_second_moments_layer *l)
{
    const struct parts p = parts_of(l);
    const size_t w = l->block, square = sizeof(double) * w * w;
    size_t bytes = sizeof(double) * 3 * w + sizeof(float) * l->outputs * l->columns +
                   sizeof(struct qc_round_weights_output) * l->outputs + qc_second_moments_spilled_bytes(l);
    bytes += p.few_fit ? qc_low_rank_bytes(l, p.fit, true) : sizeof(double) * QC_FACTOR_SCRATCH(w) + sizeof(size_t) * w;
    if (p.few_judge && p.fit != p.judge) bytes += qc_low_rank_bytes(l, p.judge, false);
    if (rounds_again(l)) bytes += square;
    return p.few_judge && p.few_fit ? bytes : bytes + square;
}

double qc_round_weights_work(const struct qc_second_moments_layer *l)
{
    const struct parts p = parts_of(l);
    const double w = (double)l->block, matrices = (double)(l->groups * l->blocks),
                 outputs = (double)l->outputs / (double)l->groups,
                 rows[2] = {(double)qc_second_moments_rows(l, p.fit), (double)qc_second_moments_rows(l, p.judge)};
    const double factor = p.few_fit ? 1.5 * w * rows[0] * rows[0] : w * w * w / 3,
                 rounding = p.few_fit ? 2 * w * rows[0] : w * w / 2, judging = p.few_judge ? 2 * w * rows[1] : w * w;
    return matrices * (factor + outputs * (rounding + judging));
}

/* Returns the sides of scratch. */
static size_t scratch_sides(const struct qc_second_moments_layer *l)
{
    return parts_of(l).few_fit ? 1 : 2;
}

size_t qc_round_weights_worker_bytes(const struct qc_second_moments_layer *l)
{
    return sizeof(double) * (OWN_SIDES + scratch_sides(l) + BLOCK_SIDES + PAIR_SIDES) * l->block * QC_LANES;
}

size_t qc_round_weights_bytes(const struct qc_second_moments_layer *l)
{
    return qc_round_weights_shared_bytes(l) + qc_round_weights_worker_bytes(l);
}

size_t qc_round_weights_bytes_of_all(const struct qc_second_moments *m)
{
    size_t most = 0;
    for (size_t i = 0; i < m->count; i++) {
        const size_t bytes = qc_round_weights_bytes(m->layers[i]);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static void free_rounding_matrix(struct matrix *m)
{
    free(m->square);
    free(m->seen);
    free(m->mean);
    free(m->panel);
    free(m->order);
    qc_low_rank_free(&m->few_fit);
    qc_low_rank_free(&m->few_judge);
    qc_crossed_free(&m->crossed);
}

static bool new_rounding_matrix(struct matrix *m, const struct qc_second_moments_layer *l, bool few_levels,
                                struct qc_status *st)
{
    const size_t w = l->block, square = w * w * sizeof(double);
    const struct parts p = parts_of(l);
    *m = (struct matrix){.mean = malloc(3 * w * sizeof(double))};
    bool ok = m->mean != NULL;
    if (ok && !(p.few_fit && p.few_judge)) ok = (m->square = malloc(square)) != NULL;
    if (ok && few_levels && rounds_again(l)) ok = (m->seen = malloc(square)) != NULL;
    if (ok && !p.few_fit) {
        m->panel = malloc(QC_FACTOR_SCRATCH(w) * sizeof(double));
        m->order = malloc(w * sizeof(size_t));
        ok = m->panel && m->order;
    }
    if (!ok) qc_fail_memory(st, square);
    ok = ok && (!p.few_fit || qc_low_rank_new(&m->few_fit, l, p.fit, true, st)) &&
         (!p.few_judge || p.fit == p.judge || qc_low_rank_new(&m->few_judge, l, p.judge, false, st));
    if (!ok) {
        free_rounding_matrix(m);
        return false;
    }
    m->other = m->mean + w;
    m->quantized = m->other + w;
    return true;
}

static void free_lanes(struct lanes *l, unsigned workers)
{
    for (unsigned i = 0; l && i < workers; i++) {
        free(l[i].d);
        free(l[i].pairs.known);
    }
    free(l);
}

static bool new_rounding_lanes(struct lanes **out, unsigned workers, const struct qc_round_weights_layer *of,
                               struct qc_status *st)
{
    const bool blocks = of->qparams->block != 0, pairs = of->qparams->pair_limit != 0;
    const size_t side = of->moments->block * QC_LANES, scratch = scratch_sides(of->moments),
                 all = OWN_SIDES + scratch + (blocks ? BLOCK_SIDES : 0) + (pairs ? (size_t)PAIR_SIDES : 0) +
                       (size_t)is_crossed(of);
    *out = calloc(workers, sizeof **out);
    for (unsigned i = 0; *out && i < workers; i++) {
        struct lanes *l = &(*out)[i];
        if (!(l->d = malloc(all * side * sizeof *l->d)) || (pairs && !(l->pairs.known = malloc(of->moments->block)))) {
            free_lanes(*out, workers);
            *out = NULL;
            break;
        }
        l->nearest = l->d + side;
        l->x = l->nearest + side;
        l->scratch = l->x + side;
        l->few = (float *)(void *)l->scratch;
        l->target = l->d + (all - 1) * side;
        l->pairs.limit = of->qparams->pair_limit;
        l->pairs.level = l->scratch + scratch * side;
        l->best_d = l->pairs.level + side;
        l->best_x = l->best_d + side;
        if (!blocks) continue;
        l->lo = l->scratch + scratch * side;
        l->hi = l->lo + side;
        l->scales = l->hi + side;
    }
    return *out || qc_fail_memory(st, all * side * sizeof(double));
}

/* The moments that weights are fitted to, for the factor. */
struct fitting {
    struct matrix *m;
    const struct qc_second_moments_layer *layer;
    unsigned parts;
    bool centred;
    size_t group, block;
    struct qc_damping damping;
};

static struct qc_damping damping_of(const struct qc_round_weights_layer *l, unsigned parts, size_t group, size_t w)
{
    const double rows = (double)qc_second_moments_rows(l->moments, parts), columns = rows > 0 ? (double)w / rows : 0,
                 few_levels = qc_qparams_are_few(l->qparams) ? fmin(FEW_LEVELS_A_ROW * columns, FEW_LEVELS_MOST) : 0;
    return (struct qc_damping){.part = DAMPING_A_ROW * columns > QC_DAMPING && qc_ablated("damping")
                                           ? QC_DAMPING
                                           : fmax(fmax(DAMPING_A_ROW * columns, few_levels), QC_DAMPING),
                               .noise = qc_round_weights_input_noise(l->input, group)};
}

static void read_fit(void *user, double *a)
{
    const struct fitting *f = user;
    if (f->m->crossed.w)
        memcpy(a, f->m->crossed.h, f->m->w * f->m->w * sizeof *a);
    else
        qc_second_moments_read(a, f->m->other, f->layer, f->parts, f->group, f->block);
    if (f->centred && !f->m->crossed.w) qc_round_weights_centre(a, f->m->other, f->m->mean, f->m->w);
    if (f->m->seen) {
        /* Keep the damped moments for coordinate descent */
        const size_t w = f->m->w;
        double sum = 0;
        for (size_t i = 0; i < w; i++) sum += a[i * w + i];
        memcpy(f->m->seen, a, w * w * sizeof *a);
        for (size_t i = 0; i < w; i++) f->m->seen[i * w + i] += f->damping.part * sum / (double)w + f->damping.noise;
    }
}

static bool read_matrix(struct matrix *m, const struct qc_round_weights_layer *l, bool centred, bool compensate,
                        size_t group, size_t block, const struct qc_pool_options *team, struct qc_status *st)
{
    const struct qc_second_moments_layer *g = l->moments;
    const struct parts p = parts_of(g);
    const size_t w = m->w = qc_second_moments_width(g, block);
    const double *centre = centred ? m->mean : NULL;
    qc_second_moments_read_mean(m->mean, g, FIT | HELD, group, block * g->block, w);
    if (m->crossed.w)
        qc_crossed_read(&m->crossed, m->mean, m->quantized, l->quantized, p.fit, p.judge, centred);
    else if (l->quantized)
        qc_second_moments_read_mean(m->quantized, l->quantized, FIT | HELD, group, block * g->block, w);
    else
        memcpy(m->quantized, m->mean, w * sizeof *m->mean);
    struct fitting fitting = {m, g, p.fit, centred, group, block, damping_of(l, p.fit, group, w)};
    if (m->crossed.w) fitting.damping.noise = 0; /* the pairs contain the noise */
    m->factorised = false;
    if (p.few_fit) {
        if (!qc_low_rank_read(&m->few_fit, g, p.fit, group, block, centre, st) ||
            (compensate && !qc_low_rank_factorise(&m->factorised, &m->few_fit, fitting.damping, team, st)))
            return false;
    } else if (compensate) {
        const struct qc_factorised of = {.read = read_fit, .user = &fitting, .n = w, .damping = fitting.damping};
        if (!qc_factorise_read(&m->factorised, m->square, m->order, &of, m->panel, team, st)) return false;
    }
    if (m->crossed.w && m->factorised) qc_crossed_keep(&m->crossed, m->square, m->order);
    if (p.few_judge)
        return !m->few_judge.turned || qc_low_rank_read(&m->few_judge, g, p.judge, group, block, centre, st);
    /* the moments that errors are measured with, below the factor */
    qc_second_moments_read_lower(m->square, m->other, g, p.judge, group, block);
    const double *own = m->other;
    for (size_t i = 0; centred && i < w; i++)
        for (size_t j = 0; j <= i; j++)
            m->square[i * w + j] += centre[i] * centre[j] - centre[i] * own[j] - own[i] * centre[j];
    return true;
}

static void errors_of(double *error, const double *d, const struct matrix *m, const struct parts *p, float *scratch)
{
    if (p->few_judge)
        qc_low_rank_errors(error, d, m->few_judge.turned ? &m->few_judge : &m->few_fit, scratch);
    else
        qc_row_errors(error, d, m->square, m->w);
}

/* Returns the grid of some outputs with weights in blocks, in real units. */
static struct qc_round_grid blocks_of(const struct qc_round_weights_layer *l, const struct lanes *own, size_t w,
                                      size_t first, size_t count, size_t column)
{
    const struct qc_levels levels = qc_qparams_levels(l->qparams);
    for (size_t k = 0; k < QC_LANES; k++) {
        const size_t o = first + (k < count ? k : 0);
        for (size_t i = 0; i < w; i++) {
            const size_t e = qc_round_weights_element(l, o, column + i), at = i * QC_LANES + k,
                         c = qc_scale_at(&l->scales, e);
            own->scales[at] = (double)l->qparams->scale[c];
            own->lo[at] = (double)(levels.lo - l->qparams->zero_point[c]);
            own->hi[at] = (double)(levels.hi - l->qparams->zero_point[c]);
        }
    }
    return (struct qc_round_grid){.lo = own->lo,
                                  .hi = own->hi,
                                  .scale = own->scales,
                                  .step = QC_LANES,
                                  .mantissa = levels.mantissa,
                                  .least = levels.least};
}

QC_VECTOR(in_steps, (double *restrict to, const float *restrict from, const float *restrict divisor),
          (to, from, divisor))
{
    for (size_t k = 0; k < QC_LANES; k++) to[k] = (double)(from[k] / divisor[k]);
}

/* New weights of some outputs, and the resulting shifts of their means. */
struct settling {
    int64_t moved[QC_LANES]; /* weights differ from nearest rounding */
    double scale[QC_LANES], shift[QC_LANES], nearest_shift[QC_LANES];
};

/* Settles one column. The old weights are `from`; the new ones are x - d or x - nearest, in steps. means: of the input,
   and its excess over the input in the quantized network. */
QC_VECTOR(settle,
          (double *restrict made, struct settling *restrict s, const float *restrict from, const double *restrict x,
           const double *restrict d, const double *restrict nearest, const double means[2]),
          (made, s, from, x, d, nearest, means))
{
    const double mean = means[0], more = means[1];
    for (size_t k = 0; k < QC_LANES; k++) {
        const double off = s->moved[k] ? d[k] : nearest[k];
        const float to = (float)((x[k] - off) * s->scale[k]), near = (float)((x[k] - nearest[k]) * s->scale[k]);
        made[k] = x[k] - off;
        s->shift[k] += ((double)from[k] - (double)to) * mean + (double)to * more;
        s->nearest_shift[k] += ((double)from[k] - (double)near) * mean + (double)near * more;
    }
}

/* Stores a weight, given in steps without the zero point. It lies on the grid but for the rounding of doubles. */
static void put_weight(const struct qc_round_weights_layer *l, size_t element, double level, struct qc_levels levels)
{
    static const double round = 0x1.8p52;
    const int32_t zero = l->qparams->zero_point[qc_scale_at(&l->scales, element)];
    const double lo = levels.lo - zero, hi = levels.hi - zero;
    if (levels.mantissa) level = qc_float_level_double(level, lo, hi, levels.mantissa, levels.least);
    if (l->rounded->dtype == QC_F32)
        ((float *)l->rounded->data)[element] = (float)level;
    else /* NaN: lo */
        qc_round_weights_put(l, element, (int32_t)(level > lo ? level < hi ? (level + round) - round : hi : lo) + zero);
}

/* Gathers the weights of one column of some outputs, `step` apart; missing outputs get the first one's. */
static void gather_lanes(float to[QC_LANES], const float *from, size_t step, size_t count)
{
    for (size_t k = 0; k < count; k++) to[k] = from[k * step];
    for (size_t k = count; k < QC_LANES; k++) to[k] = from[0];
}

/* Outputs of a group that share a matrix, while they are rounded. */
struct outputs {
    struct qc_round_weights_layer *layer;
    const struct matrix *matrix;
    struct lanes *own;
    struct parts parts;
    size_t first, count, column; /* column: first column of the block */
    bool crossed;
    struct qc_round_grid grid;
    double lo[QC_LANES], hi[QC_LANES], scale[QC_LANES]; /* scale: 1 if weights are rounded in real units */
};

/* Loads the weights in steps. Column by column: if outputs are contiguous, each alone would read the whole weight. */
static void load_outputs(const struct outputs *o)
{
    const struct qc_round_weights_layer *l = o->layer;
    const float *from = l->weight->data;
    const size_t step = qc_round_weights_step(l);
    float divisor[QC_LANES], was[QC_LANES];
    for (size_t k = 0; k < QC_LANES; k++) divisor[k] = (float)o->scale[k];
    for (size_t i = 0; i < o->matrix->w; i++) {
        if (i + AHEAD < o->matrix->w)
            __builtin_prefetch(from + qc_round_weights_element(l, o->first, o->column + i + AHEAD));
        gather_lanes(was, from + qc_round_weights_element(l, o->first, o->column + i), step, o->count);
        in_steps(o->own->x + i * QC_LANES, was, divisor);
    }
}

/* Rounds the loaded outputs with the factor into own->d; error: in steps squared. For crossed outputs the errors are
   measured on the fitting samples and serve only to compare scales. */
static void compensate(double error[QC_LANES], const struct outputs *o)
{
    const struct matrix *m = o->matrix;
    const struct qc_round_weights_layer *l = o->layer;
    struct lanes *own = o->own;
    const double *to = o->crossed ? own->target : own->x;
    struct qc_round_grid grid = o->grid;
    double fitted[QC_LANES] = {0};
    if (l->qparams->pair_limit) {
        own->pairs.count = m->w;
        memset(own->pairs.known, 0, m->w);
        grid.pairs = &own->pairs;
    }
    if (o->crossed) qc_crossed_target(own->target, &m->crossed, own->x, own->scratch);
    if (o->parts.few_fit)
        qc_low_rank_round(fitted, own->d, own->x, &m->few_fit, &grid, own->few);
    else
        qc_round_compensated(own->d, to, m->square, m->order, m->w, &grid, own->scratch);
    if (m->seen) qc_round_again(own->d, to, m->seen, m->w, &grid, own->scratch);
    for (int k = 0; k < RESCALED && o->crossed && m->seen && l->new_scale; k++) {
        if (k) qc_round_again(own->d, to, m->seen, m->w, &grid, own->scratch);
        qc_round_rescale(own->d, own->scales, to, m->crossed.h, m->w, (size_t)l->qparams->block, own->scratch);
    }
    for (size_t k = 0; k < QC_LANES; k++) error[k] = 0;
    if (o->crossed)
        qc_row_errors(error, own->d, m->crossed.h, m->w);
    else if (o->parts.few_fit && o->parts.fit == o->parts.judge)
        memcpy(error, fitted, sizeof fitted);
    else
        errors_of(error, own->d, m, &o->parts, own->few);
    for (size_t i = 0; o->crossed && i < m->w * QC_LANES; i++) own->d[i] += own->x[i] - to[i];
}

/* Returns the least ratio to its scale at which an output's weights still fit, if a limit on pairs has raised the
   scale; 1 if the scale stays. */
static double least_part(const struct outputs *o, size_t lane)
{
    const struct qc_round_weights_layer *l = o->layer;
    const size_t at = o->first + (lane < o->count ? lane : 0);
    const double scale = o->scale[lane],
                 step = l->input && l->input->count == 1 ? scale * (double)l->input->scale[0] : scale,
                 bias = l->bias && at < l->bias->count ? fabs((double)((const float *)l->bias->data)[at]) : 0;
    double most = 0;
    if (bias > BIAS_ROOM * step || step < STEP_ROOM) return 1; /* the bias or the step raised the scale */
    for (size_t i = 0; i < o->matrix->w; i++) most = fmax(most, fabs(o->own->x[i * QC_LANES + lane]));
    const double normal = 2 * (double)FLT_MIN / scale; /* scales stay normal numbers */
    return most > 0 ? fmin(fmax(most / o->hi[lane], normal), 1) : 1;
}

/* Tries SCALES_TRIED scales below the one at which nearest weights keep the limit on pairs, and keeps the best for each
   output. Compensated weights can keep the limit at smaller scales: some pairs get larger errors, all other weights
   smaller ones. errors: in squared steps of the original scale. On return the outputs are loaded and rounded with the
   chosen scales. */
static void choose_scales(double errors[QC_LANES], struct outputs *o)
{
    struct lanes *own = o->own;
    const size_t bytes = o->matrix->w * QC_LANES * sizeof *own->d;
    double part[QC_LANES], best[QC_LANES], was[QC_LANES], error[QC_LANES];
    bool any = false;
    for (size_t k = 0; k < QC_LANES; k++) {
        part[k] = least_part(o, k);
        any = any || part[k] < SCALE_WORTH;
        was[k] = best[k] = o->scale[k];
    }
    if (!any) return;
    memcpy(own->best_d, own->d, bytes);
    memcpy(own->best_x, own->x, bytes);
    for (int t = 1; t <= SCALES_TRIED; t++) {
        bool better[QC_LANES];
        for (size_t k = 0; k < QC_LANES; k++)
            o->scale[k] = (double)(float)(was[k] * pow(part[k], (double)t / SCALES_TRIED));
        load_outputs(o);
        compensate(error, o);
        for (size_t k = 0; k < QC_LANES; k++) {
            const double ratio = o->scale[k] / was[k];
            better[k] = error[k] * ratio * ratio < errors[k];
            if (!better[k]) continue;
            errors[k] = error[k] * ratio * ratio;
            best[k] = o->scale[k];
        }
        /* Copy d and x of some lanes */
        for (size_t i = 0; i < o->matrix->w * QC_LANES; i += QC_LANES)
            for (size_t k = 0; k < QC_LANES; k++) {
                own->best_d[i + k] = better[k] ? own->d[i + k] : own->best_d[i + k];
                own->best_x[i + k] = better[k] ? own->x[i + k] : own->best_x[i + k];
            }
    }
    memcpy(o->scale, best, sizeof best);
    if (o->crossed) { /* the target of each depends on the scales of all */
        load_outputs(o);
        compensate(error, o);
        return;
    }
    memcpy(own->d, own->best_d, bytes);
    memcpy(own->x, own->best_x, bytes);
}

/* Stores the new weights of outputs, and the shifts of their means. base: the original scales, which outputs with
   nearest weights take. */
static void settle_outputs(struct outputs *o, struct settling *s, const double base[QC_LANES])
{
    struct qc_round_weights_layer *l = o->layer;
    const struct matrix *m = o->matrix;
    const struct lanes *own = o->own;
    const struct qc_levels levels = qc_qparams_levels(l->qparams);
    const float *from = l->weight->data;
    const bool blocks = l->qparams->block != 0;
    float was[QC_LANES];
    double made_of[QC_LANES];
    bool any = false;
    for (size_t k = 0; k < QC_LANES; k++) {
        if (s->moved[k] || !(o->scale[k] < base[k])) continue;
        o->scale[k] = base[k];
        any = true;
    }
    if (any) load_outputs(o);
    memcpy(s->scale, o->scale, sizeof s->scale);
    const size_t step = qc_round_weights_step(l), width = qc_dtype_size(l->rounded->dtype);
    for (size_t i = 0; i < m->w; i++) {
        const size_t place = qc_round_weights_element(l, o->first, o->column + i), at = i * QC_LANES;
        if (i + AHEAD < m->w) {
            const size_t next = qc_round_weights_element(l, o->first, o->column + i + AHEAD);
            __builtin_prefetch(from + next);
            __builtin_prefetch((const char *)l->rounded->data + next * width);
        }
        gather_lanes(was, from + place, step, o->count);
        settle(made_of, s, was, own->x + at, (m->factorised ? own->d : own->nearest) + at, own->nearest + at,
               (const double[]){m->mean[i], m->mean[i] - m->quantized[i]});
        for (size_t k = 0; k < o->count; k++) {
            const size_t e = place + k * step, c = blocks ? qc_scale_at(&l->scales, e) : 0;
            if (o->crossed && l->new_scale && s->moved[k]) l->new_scale[c] = (float)own->scales[at + k];
            const float scale = !blocks ? 1 : l->new_scale ? l->new_scale[c] : l->qparams->scale[c];
            put_weight(l, e, made_of[k] / (double)scale, levels);
        }
    }
    for (size_t k = 0; k < o->count; k++) {
        l->made[o->first + k].shift = s->shift[k];
        l->made[o->first + k].nearest_shift = s->nearest_shift[k];
    }
}

/* Rounds outputs first .. first + count of a group, which share a matrix. */
static void round_outputs(struct qc_round_weights_layer *l, const struct matrix *m, struct lanes *own, size_t first,
                          size_t count, size_t column, bool may_scale)
{
    const struct qc_second_moments_layer *g = l->moments;
    const struct qc_levels levels = qc_qparams_levels(l->qparams);
    const size_t per = g->outputs / g->groups;
    double before[QC_LANES] = {0}, after[QC_LANES] = {0}, base[QC_LANES];
    const bool blocks = l->qparams->block != 0;
    struct outputs o = {.layer = l,
                        .matrix = m,
                        .own = own,
                        .parts = parts_of(g),
                        .first = first,
                        .count = count,
                        .column = column,
                        .crossed = m->factorised && m->crossed.w};
    o.grid = blocks
                 ? blocks_of(l, own, m->w, first, count, column)
                 : (struct qc_round_grid){.lo = o.lo, .hi = o.hi, .mantissa = levels.mantissa, .least = levels.least};
    for (size_t k = 0; blocks && k < QC_LANES; k++) o.scale[k] = 1; /* rounded in real units */
    for (size_t k = 0; !blocks && k < QC_LANES; k++) {
        const size_t at = first + (k < count ? k : 0), c = l->qparams->count == 1 ? 0 : g->transposed ? at % per : at;
        o.scale[k] = (double)l->qparams->scale[c];
        o.lo[k] = (double)(levels.lo - l->qparams->zero_point[c]);
        o.hi[k] = (double)(levels.hi - l->qparams->zero_point[c]);
    }
    memcpy(base, o.scale, sizeof base);
    load_outputs(&o);
    qc_round_nearest(own->nearest, own->x, m->w, &o.grid);
    errors_of(before, own->nearest, m, &o.parts, own->few);
    if (m->factorised) compensate(after, &o);
    if (m->factorised && may_scale) choose_scales(after, &o);
    if (o.crossed) { /* errors like those of other outputs, in squared steps of the original scales */
        for (size_t k = 0; k < QC_LANES; k++) after[k] = 0;
        errors_of(after, own->d, m, &o.parts, own->few);
        for (size_t k = 0; k < QC_LANES; k++) after[k] *= o.scale[k] / base[k] * (o.scale[k] / base[k]);
    }
    struct settling s = {.moved = {0}};
    for (size_t k = 0; k < count; k++) {
        struct qc_round_weights_output *made = &l->made[first + k];
        const bool better = m->factorised && (o.crossed || after[k] < before[k]) && (first + k) % per < l->fitted;
        s.moved[k] = better;
        s.shift[k] = made->shift;
        s.nearest_shift[k] = made->nearest_shift;
        made->moved = made->moved || better;
        made->nearest_error += before[k] * base[k] * base[k];
        made->error += (better ? after[k] : before[k]) * base[k] * base[k];
        if (better && o.scale[k] < base[k]) made->scale = (float)o.scale[k];
    }
    settle_outputs(&o, &s, base);
}

struct rounding {
    struct qc_round_weights_layer *layer;
    const struct matrix *matrix;
    struct lanes *lanes;        /* [workers] */
    size_t group, block, every; /* every: one item of this many is rounded */
    bool may_scale;             /* outputs may get smaller scales (choose_scales) */
};

static bool round_some(void *user, size_t item, unsigned worker, struct qc_status *st)
{
    const struct rounding *r = user;
    const struct qc_second_moments_layer *g = r->layer->moments;
    const size_t per = g->outputs / g->groups, first = item * r->every * QC_LANES;
    round_outputs(r->layer, r->matrix, &r->lanes[worker], r->group * per + first,
                  per - first < QC_LANES ? per - first : QC_LANES, r->block * g->block, r->may_scale);
    return true;
}

/* Returns the number of items of QC_LANES outputs in a group, and the interval at which they are taken. */
static size_t items_of(size_t *every, size_t outputs, size_t judged)
{
    const size_t all = (outputs + QC_LANES - 1) / QC_LANES, few = (judged + QC_LANES - 1) / QC_LANES;
    *every = few && few < all ? all / few : 1;
    return (all + *every - 1) / *every;
}

bool qc_round_weights_is_judged(size_t o, size_t outputs, size_t judged)
{
    size_t every;
    items_of(&every, outputs, judged);
    return o / QC_LANES % every == 0;
}

static size_t judged_outputs(const struct qc_second_moments_layer *g, const struct qc_round_weights_options *options)
{
    const size_t per = g->outputs / g->groups;
    size_t every, count = 0;
    const size_t items = items_of(&every, per, options->judged);
    for (size_t i = 0; i < items; i++) {
        const size_t left = per - i * every * QC_LANES;
        count += left < QC_LANES ? left : QC_LANES;
    }
    return count * g->groups;
}

static bool round_layer(struct qc_round_weights_layer *l, const struct qc_round_weights_options *options,
                        const struct qc_pool_options *team, struct qc_status *st)
{
    const struct qc_second_moments_layer *g = l->moments;
    size_t every;
    const size_t items = items_of(&every, g->outputs / g->groups, options->judged);
    struct matrix m;
    bool pays = options->settings->compensate;
    if (!qc_round_weights_pays(&pays, l, st) || !new_rounding_matrix(&m, g, pays && qc_qparams_are_few(l->qparams), st))
        return false;
    struct rounding r = {.layer = l,
                         .matrix = &m,
                         .every = every,
                         .may_scale = l->qparams->pair_limit && l->qparams->count == g->outputs && !l->recurrent &&
                                      g->blocks == 1 && options->settings->plan.accumulator.bits % 32 == 0};
    bool ok = (!is_crossed(l) || qc_crossed_new(&m.crossed, l->quantized, st)) &&
              new_rounding_lanes(&r.lanes, team->workers, l, st);
    for (r.group = 0; ok && r.group < g->groups; r.group++)
        for (r.block = 0; ok && r.block < g->blocks; r.block++)
            ok = read_matrix(&m, l, l->result->bias_corrected, pays, r.group, r.block, team, st) &&
                 qc_pool_run(items, round_some, &r, team, st);
    free_lanes(r.lanes, team->workers);
    free_rounding_matrix(&m);
    return ok;
}

bool qc_round_weights_can_cross(const struct qc_round_weights_layer *l, bool all, double share)
{
    const struct qc_second_moments_layer *g = l->moments;
    if (!g || g->groups != 1 || g->blocks != 1 || g->lanes) return false;
    const bool many = share * (double)qc_second_moments_rows(g, FIT | HELD) >= QC_CROSSED_ROWS * (double)g->columns;
    return qc_qparams_are_few(l->qparams) ? rounds_again(g)
                                          : all && many && g->block <= AGAIN_COLUMNS && !parts_of(g).few_fit;
}

static bool solve_unknown(struct qc_round_weights_layer *l, const struct qc_round_weights_options *options,
                          unsigned workers, struct qc_status *st)
{
    const struct qc_second_moments_layer *g = l->moments;
    struct qc_rounded_weights *r = l->result;
    const struct qc_pool_options team = {.workers = workers};
    if (!(l->rounded = qc_tensor_new(qc_qparams_storage(l->qparams), &l->weight->shape, st))) return false;
    l->made = calloc(g->outputs, sizeof *l->made);
    if (!l->made) return qc_fail_memory(st, g->outputs * sizeof *l->made);
    r->held = qc_round_weights_holds(g);
    r->outputs = g->outputs;
    r->blocks = g->blocks;
    r->bias_corrected = options->settings->correct_bias && l->correctable;
    if (!round_layer(l, options, &team, st)) return false;
    const unsigned bits = options->settings->plan.accumulator.bits;
    if (bits && bits < 32 && l->input) qc_round_weights_bound(l, bits);
    for (size_t o = 0; o < g->outputs; o++) {
        const double a = r->bias_corrected ? fabs(l->made[o].shift) : 0;
        r->nearest += !l->made[o].moved;
        r->error += l->made[o].error;
        r->error_nearest += l->made[o].nearest_error;
        r->bias_rms += a * a;
        r->bias_max = a > r->bias_max ? a : r->bias_max;
    }
    r->bias_rms = sqrt(r->bias_rms / (double)g->outputs);
    r->error /= (double)judged_outputs(g, options);
    r->error_nearest /= (double)judged_outputs(g, options);
    r->compensated = r->nearest < g->outputs;
    return true;
}

bool qc_round_weights_solve(struct qc_round_weights_layer *l, const struct qc_round_weights_options *options,
                            unsigned workers, struct qc_status *st)
{
    bool known = false;
    if (options->known && !qc_rounded_layers_recall(&known, l, options->known, st)) return false;
    if (known) return true;
    if (options->file && !qc_rounded_file_recall(&known, l, options->file, st)) return false;
    if (!known && !solve_unknown(l, options, workers, st)) return false;
    qc_tensor_rest(l->weight);
    qc_tensor_hash(l->rounded); /* by the worker that has it in its cache; graphs would hash one after the other */
    return (options->settings->memory_limit || qc_tensor_keep_forms(l->rounded, st)) &&
           (!l->g->spills || qc_tensor_spill(l->rounded, st)) &&
           (!options->known || qc_rounded_layers_keep(options->known, l, st)) &&
           (known || !options->file || qc_rounded_file_keep(options->file, l, st));
}
