// SPDX-License-Identifier: Apache-2.0
#include "calib/ranges/one_scale.h"

#include <stdlib.h>
#include <string.h>

#include "base/simd.h"
#include "calib/ablation.h"
#include "graph/core/stored_values.h"

/* How much more room below zero than the observer gave: what is cut off there is of one sign, so it does not average
   out behind later layers as rounding does. */
static const double ROOM = 1.15;
/* How often the square of the mean error counts beside the errors about it, for the same reason: scales that are no
   multiples of each other round whole stretches of levels to the same side. */
static const double MEAN = 16;
enum { LEVELS_MAX = 65536, POINTS = 2 /* of each bin */, BLOCK = 256 };

static void run_slope(void *user, double *y, const double *x, size_t n)
{
    const double slope = *(const double *)user;
    for (size_t i = 0; i < n; i++) y[i] = x[i] < 0 ? slope * x[i] : x[i];
}

/* A PRelu as the LeakyRelu whose errors are those of its channels on average. */
static bool function_of_prelu(struct qc_output_function *f, const struct qc_graph *g, const struct qc_node *n,
                              struct qc_arena *a, struct qc_status *st)
{
    const struct qc_tensor *t = qc_constant_of(g, n->inputs[1]);
    double sum = 0, *slope = QC_NEW(a, double, st);
    if (!slope) return false;
    if (!t || t->dtype != QC_F32 || !t->count) return true;
    for (size_t i = 0; i < t->count; i++) {
        const double s = (double)qc_tensor_float(t, i);
        if (!(fabs(s) <= 1)) return true;
        sum += s * s;
    }
    *slope = sqrt(sum / (double)t->count);
    *f = (struct qc_output_function){.run = run_slope, .user = slope};
    return true;
}

/* Is the text of qc_output_function_of the function of this node alone? It is the shortest that is not linear. */
static bool is_whole(const char *text, const struct qc_node *n)
{
    if (n->op == QC_OP_Table) {
        for (unsigned i = 0; i < n->attr_count; i++)
            if (strcmp(n->attrs[i].name, "f") == 0) return strcmp(n->attrs[i].s, text) == 0;
        return false;
    }
    const size_t length = strlen(qc_op_info(n->op)->name);
    return n->input_count == 1 && strncmp(text, qc_op_info(n->op)->name, length) == 0 &&
           strncmp(text + length, "(x", 2) == 0;
}

/* The node that alone reads what the quantizer stores, as it is or dequantized; 0: there is none. */
static qc_id only_reader(const struct qc_graph *g, const struct qc_uses *uses, const struct qc_stored_values *stored,
                         qc_id quantizer)
{
    qc_id found = 0;
    for (size_t k = stored->first[quantizer]; k < stored->first[quantizer + 1]; k++) {
        const struct qc_use_list readers = qc_all_uses(uses, stored->value[k]);
        for (size_t i = 0; i < readers.count; i++) {
            qc_id node = readers.of[i].node;
            if (!node) return 0;
            const qc_id out = g->nodes[node].outputs;
            if (g->values[out].type.qparams == quantizer) continue; /* moves or clamps it */
            if (g->nodes[node].op == QC_OP_Dequantize) {
                if (!qc_all_uses(uses, out).count) continue;
                if (!(node = qc_only_reader(uses, out))) return 0;
            }
            if ((found && found != node) || g->nodes[node].output_count != 1) return 0;
            found = node;
        }
    }
    return found;
}

/* The quantizer that alone takes a node's result, and nothing else; 0: there is none. */
static qc_id quantizer_behind(const struct qc_graph *g, const struct qc_uses *uses, qc_id node)
{
    const qc_id y = g->nodes[node].outputs, reader = qc_only_reader(uses, y);
    qc_id quantizer = g->values[y].type.qparams;
    if (!quantizer && reader && g->nodes[reader].op == QC_OP_Quantize)
        quantizer = g->values[g->nodes[reader].outputs].type.qparams;
    if (!quantizer || g->qparams_of[quantizer].observed_count != 1) return 0;
    const qc_id seen = g->qparams_of[quantizer].observed[0];
    const struct qc_node *made = qc_node_of(g, seen);
    const bool same = seen == y || (made && made->op == QC_OP_Dequantize && made->inputs[0] == y);
    return same ? quantizer : 0;
}

static bool is_chosen(const struct qc_qparams *s)
{
    return s->kind == QC_QPARAMS_QUANTIZER && !s->is_weight && !s->per_channel && !s->given && s->observed_count;
}

bool qc_one_scale_pairs(struct qc_one_scale **out, const struct qc_graph *g, const struct qc_uses *uses,
                        const struct qc_look *looks, struct qc_arena *a, struct qc_status *st)
{
    struct qc_stored_values stored;
    struct qc_one_scale *pairs = QC_NEW_ARRAY(a, struct qc_one_scale, g->qparams_count + 1, st);
    if (!pairs || !qc_stored_values_of(&stored, g, a, st)) return false;
    for (qc_id s = 1; s <= g->qparams_count; s++) {
        if (pairs[s].before || !is_chosen(&g->qparams_of[s])) continue;
        const qc_id node = only_reader(g, uses, &stored, s);
        if (!node) continue;
        const qc_id behind = quantizer_behind(g, uses, node);
        if (!behind || behind == s || !is_chosen(&g->qparams_of[behind])) continue;
        if (pairs[behind].before || pairs[behind].behind) continue;
        const struct qc_node *n = &g->nodes[node];
        struct qc_output_function f = {0};
        if (n->op == QC_OP_PRelu && !function_of_prelu(&f, g, n, a, st)) return false;
        if (looks[s].text && is_whole(looks[s].text, n)) f = looks[s].behind;
        if (!f.run || qc_ablated("one_scale")) continue;
        pairs[s].behind = behind;
        pairs[s].f = f;
        pairs[behind].before = s;
    }
    *out = pairs;
    return true;
}

struct quantizer {
    struct qc_levels levels;
    enum qc_symmetry symmetry;
    struct qc_affine p;
};

static struct quantizer quantizer_of(const struct qc_graph *g, qc_id s, double lo, double hi)
{
    struct quantizer q = {.levels = qc_qparams_levels(&g->qparams_of[s]), .symmetry = g->qparams_of[s].symmetry};
    q.p = qc_affine_from_range(lo, hi, q.levels, q.symmetry);
    return q;
}

static size_t level_count(const struct quantizer *q)
{
    return (size_t)((int64_t)q->levels.hi - q->levels.lo + 1);
}

struct trying {
    const struct qc_output_function *f;
    const struct qc_one_scale_seen *seen;
    double *levels, *images,
        *stored; /* [level_count(before)]: its levels; f of them; what the quantizer behind makes of that */
};

void qc_one_scale_forget(struct qc_one_scale_seen *seen)
{
    free(seen->x);
    free(seen->y);
    free(seen->weight);
    *seen = (struct qc_one_scale_seen){0};
}

static bool look(struct qc_one_scale_seen *seen, const struct qc_histogram *h, const struct qc_output_function *f,
                 struct qc_status *st)
{
    struct qc_bin *bins = NULL;
    size_t n = 0;
    if (seen->x) return true;
    if (!qc_histogram_bins(&bins, &n, h, st)) return false;
    seen->count = n * POINTS;
    seen->x = malloc((seen->count + 1) * sizeof(double));
    seen->y = malloc((seen->count + 1) * sizeof(double));
    seen->weight = malloc((seen->count + 1) * sizeof(double));
    const bool ok =
        (seen->x && seen->y && seen->weight) || qc_fail_memory(st, 3 * (uint64_t)seen->count * sizeof(double));
    for (size_t i = 0; ok && i < seen->count; i++) {
        const struct qc_bin *b = &bins[i / POINTS];
        seen->x[i] = b->lo + (b->hi - b->lo) * ((double)(i % POINTS) + 0.5) / POINTS;
        seen->weight[i] = (double)b->count / POINTS;
        seen->total += seen->weight[i];
    }
    if (ok)
        f->run(f->user, seen->y, seen->x, seen->count);
    else
        qc_one_scale_forget(seen);
    free(bins);
    return ok;
}

static bool begin(struct trying *t, const struct qc_output_function *f, const struct qc_one_scale_seen *seen,
                  const struct quantizer *before, struct qc_status *st)
{
    const size_t n = level_count(before);
    *t = (struct trying){.f = f, .seen = seen, .levels = malloc(n * sizeof(double))};
    t->images = malloc(n * sizeof(double));
    t->stored = malloc(n * sizeof(double));
    return (t->levels && t->images && t->stored) || qc_fail_memory(st, 3 * (uint64_t)n * sizeof(double));
}

static void end(struct trying *t)
{
    free(t->levels);
    free(t->images);
    free(t->stored);
}

/* The levels of the quantizer before, what f makes of them, and the extremes of that with 0. */
static void map_levels(struct trying *t, double *least, double *most, const struct quantizer *before)
{
    const size_t n = level_count(before);
    *least = *most = 0;
    for (size_t i = 0; i < n; i++) t->levels[i] = (double)qc_dequantize_one(before->levels.lo + (int32_t)i, before->p);
    t->f->run(t->f->user, t->images, t->levels, n);
    for (size_t i = 0; i < n; i++) {
        *least = fmin(*least, t->images[i]);
        *most = fmax(*most, t->images[i]);
    }
}

/* After map_levels: is f the identity on the levels from 0 on, and are there any? */
static bool keeps_positive(const struct trying *t, const struct quantizer *before)
{
    const size_t n = level_count(before), zero = (size_t)((int64_t)before->p.zero_point - before->levels.lo);
    for (size_t i = zero; i < n; i++)
        if (t->images[i] < t->levels[i] || t->images[i] > t->levels[i]) return false;
    return zero + 1 < n;
}

/* How far what is stored is from y, where `stored` has what becomes of the levels: qc_quantize_one of x, in vectors. */
static QC_INLINE void differences_body(const bool native, double *restrict e, const double *restrict x,
                                       const double *restrict y, size_t n, const double *restrict stored, float scale,
                                       float lo, float hi)
{
    for (size_t i = 0; i < n; i++) {
        float r = qc_round_even((float)x[i] / scale, native);
        r = r > lo ? (r < hi ? r : hi) : lo;
        e[i] = stored[(int32_t)(r - lo)] - y[i];
    }
}
QC_SIMD_ROUND(differences,
              (double *e, const double *x, const double *y, size_t n, const double *stored, float scale, float lo,
               float hi),
              (e, x, y, n, stored, scale, lo, hi))

/* After map_levels: the mean squared error behind both. */
static double error(const struct trying *t, const struct quantizer *before, const struct quantizer *behind)
{
    const float lo = (float)(before->levels.lo - before->p.zero_point),
                hi = (float)(before->levels.hi - before->p.zero_point);
    const struct qc_one_scale_seen *seen = t->seen;
    double e[BLOCK], sum = 0, squares = 0;
    for (size_t i = 0; i < level_count(before); i++)
        t->stored[i] =
            (double)qc_dequantize_one(qc_quantize_one((float)t->images[i], behind->p, behind->levels), behind->p);
    for (size_t first = 0; first < seen->count; first += BLOCK) {
        const size_t n = seen->count - first < BLOCK ? seen->count - first : BLOCK;
        differences(e, seen->x + first, seen->y + first, n, t->stored, before->p.scale, lo, hi);
        for (size_t i = 0; i < n; i++) {
            const double weighted = seen->weight[first + i] * e[i];
            sum += weighted;
            squares += weighted * e[i];
        }
    }
    return squares / seen->total + MEAN * (sum / seen->total) * (sum / seen->total);
}

/* The quantizer behind with the scale of that before, or the smallest whole part of it with which its levels still
   reach from `least` to `most`; false: not even with the scale itself. */
static bool fit(struct quantizer *behind, const struct quantizer *before, double least, double most)
{
    const struct qc_levels l = behind->levels;
    const double scale = (double)before->p.scale;
    if (level_count(behind) == level_count(before) && behind->symmetry == before->symmetry &&
        (most - least) * 2 > scale * ((double)l.hi - l.lo)) {
        behind->p = before->p; /* what is read and what is stored are the same integers */
        return true;
    }
    const int32_t middle = l.lo < 0 ? 0 : least < 0 ? l.hi / 2 + 1 : l.lo;
    for (double k = fmax(1, floor(scale * ((double)l.hi - l.lo) / (most - least))); k >= 1; k--) {
        const double below = ceil(-least * k / scale - 0.5), above = nearbyint(most * k / scale);
        const bool fits = behind->symmetry == QC_SYMMETRIC ? below <= l.hi - middle && above <= l.hi - middle
                                                           : below + above <= (double)l.hi - l.lo;
        if (!fits) continue;
        behind->p = (struct qc_affine){.scale = (float)(scale / k),
                                       .zero_point = behind->symmetry == QC_SYMMETRIC ? middle : l.lo + (int32_t)below};
        return behind->p.scale >= QC_SCALE_MIN;
    }
    return false;
}

/* A range that gives a quantizer its parameters. */
static void range_of(struct qc_range *r, const struct quantizer *q)
{
    const double scale = (double)q->p.scale, hi = scale * ((double)q->levels.hi - q->p.zero_point),
                 lo = scale * ((double)q->levels.lo - q->p.zero_point);
    *r = (struct qc_range){.lo = q->symmetry == QC_SYMMETRIC && lo < 0 ? -hi : lo, .hi = hi};
}

bool qc_one_scale_choose(bool *shared, struct qc_range *first, struct qc_range *second, struct qc_one_scale_seen *seen,
                         const struct qc_one_scale *pair, const struct qc_graph *g, qc_id before,
                         const struct qc_range *chosen, double known_lo, const struct qc_histogram *h,
                         struct qc_status *st)
{
    const double lo = fmin(chosen->lo, fmax(ROOM * chosen->lo, fmax((double)h->tally.min, known_lo)));
    struct quantizer narrow = quantizer_of(g, before, chosen->lo, chosen->hi),
                     wide = quantizer_of(g, before, lo, chosen->hi);
    struct trying t;
    double least, most;
    *shared = false;
    if (!(chosen->hi > 0) || level_count(&narrow) > LEVELS_MAX) return true;
    if (!look(seen, h, &pair->f, st)) return false;
    const bool ok = begin(&t, &pair->f, seen, &narrow, st);
    if (ok) {
        map_levels(&t, &least, &most, &narrow);
        struct quantizer behind = quantizer_of(g, pair->behind, least, most);
        const double apart = error(&t, &narrow, &behind);
        map_levels(&t, &least, &most, &wide);
        *shared = keeps_positive(&t, &wide) && fit(&behind, &wide, least, most) && error(&t, &wide, &behind) <= apart;
        if (*shared) {
            *first = (struct qc_range){.lo = lo, .hi = chosen->hi};
            range_of(second, &behind);
        }
    }
    end(&t);
    return ok;
}
