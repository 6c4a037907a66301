// SPDX-License-Identifier: Apache-2.0
#include "calib/trials/trials.h"

#include <math.h>
#include <string.h>

#include "base/simd.h"
#include "calib/weights/round_weights_parts.h"
#include "graph/core/rebuild.h"

/* Largest magnitude of a bias in steps of its accumulator: half of int32. */
static const double BIAS_MOST = 0x1p30;

qc_id qc_source_of(const struct qc_graph *g, qc_id v)
{
    for (const struct qc_node *n; (n = qc_node_of(g, v)) && qc_op_is_conversion(n->op);) v = n->inputs[0];
    return v;
}

/* Returns the constant that an input of a node is dequantized from of a node, float32 and without other readers; 0:
 * none. */
static qc_id own_constant(const struct qc_uses *u, qc_id v)
{
    const struct qc_graph *g = u->graph;
    for (const struct qc_node *n; qc_only_reader(u, v) && (n = qc_node_of(g, v)) && qc_op_is_conversion(n->op);)
        v = n->inputs[0];
    const struct qc_tensor *t = qc_only_reader(u, v) ? qc_constant_of(g, v) : NULL;
    return t && t->dtype == QC_F32 ? v : 0;
}

bool qc_layer_bias_find(struct qc_layer_bias *out, const struct qc_uses *u, qc_id id)
{
    const struct qc_graph *g = u->graph;
    const struct qc_node *n = &g->nodes[id];
    const qc_id weight = qc_second_moments_weight(g, n);
    const qc_id behind = n->op == QC_OP_MatMul ? qc_bias_after_matmul(u, id, false) : 0;
    if (!weight || g->qparams_of[g->values[weight].type.qparams].given) return false;
    *out = (struct qc_layer_bias){.layer = id, .own = n->outputs};
    if (behind) {
        const struct qc_node *add = &g->nodes[behind];
        const qc_id first = qc_source_of(g, add->inputs[0]);
        out->bias = own_constant(u, add->inputs[qc_constant_of(g, first) ? 0 : 1]);
        out->own = add->outputs;
    } else if (n->op != QC_OP_MatMul && n->input_count > 2 && n->inputs[2]) {
        out->bias = own_constant(u, n->inputs[2]);
    }
    return out->bias != 0;
}

/* Returns the axis of the channels in the layer's result. */
static int layer_channel_axis(const struct qc_graph *g, qc_id id)
{
    const struct qc_node *n = &g->nodes[id];
    const bool window = n->op == QC_OP_Conv || n->op == QC_OP_ConvTranspose;
    return window ? 1 : g->values[n->outputs].type.shape.rank - 1;
}

static bool new_shifted_bias(bool *changed, struct qc_rebuild *b, const struct qc_graph *g,
                             const struct qc_bias_shift *s, struct qc_status *st)
{
    const qc_id bias = s->of.bias;
    const struct qc_tensor *old = qc_constant_of(g, bias);
    const struct qc_qparams *product = qc_graph_parameters(g, g->nodes[s->of.layer].outputs);
    struct qc_tensor *t = qc_tensor_new(QC_F32, &old->shape, st);
    if (!t) return false;
    for (size_t o = 0; o < old->count; o++) {
        const float was = ((const float *)old->data)[o];
        const double x = (double)was + s->shift[o],
                     most = product ? BIAS_MOST * (double)product->scale[product->count > 1 ? o : 0] : (double)INFINITY;
        ((float *)t->data)[o] = fabs(x) < most ? (float)x : was;
    }
    *changed = memcmp(t->data, old->data, old->count * sizeof(float)) != 0;
    if (*changed) b->map[bias] = qc_graph_add_constant(b->to, g->values[bias].name, t, st);
    qc_tensor_unref(t);
    return !*changed || b->map[bias];
}

bool qc_shift_biases(struct qc_graph **out, size_t *changed, const struct qc_graph *g,
                     const struct qc_bias_shift *shifts, size_t count, struct qc_status *st)
{
    struct qc_rebuild b;
    *changed = 0;
    if (!qc_rebuild_begin(&b, g, st)) return false;
    bool ok = true;
    for (size_t i = 0; ok && i < count; i++) {
        bool other = false;
        ok = new_shifted_bias(&other, &b, g, &shifts[i], st);
        *changed += other;
    }
    for (qc_id id = 1; ok && id <= g->node_count; id++) ok = qc_rebuild_node(&b, id, st) != 0;
    ok = ok && qc_rebuild_finish(out, &b, st);
    qc_rebuild_free(&b);
    return ok;
}

/* STEPS_MOST: nodes between a layer and the output. MEANS_BYTES: limit on stored means. GAIN_DB: least expected gain.
   OVER_LUCK: for noise alone the squared means equal their variances, so less than twice that is not corrected.
 */
enum { STEPS_MOST = 16, MEANS_BYTES = 32 << 20 };
static const double GAIN_DB = 0.05, OVER_LUCK = 2;

struct mean_of {
    size_t output, channels, inner; /* element e is of channel e / inner % channels */
    size_t part;                    /* the only part of the output */
    size_t at;                      /* index of its means among the numbers of a unit */
    struct qc_layer_bias layer;
};

struct means {
    size_t count, numbers;
    struct mean_of *of;
    double *sums; /* [units][numbers]: means of a unit; after those of an output, the number of elements of a channel */
    struct qc_error *errors; /* [units][outputs] of the quantized network */
    size_t outputs;
};

static bool keeps_order(enum qc_op op)
{
    return qc_op_is_conversion(op) || op == QC_OP_Flatten || op == QC_OP_Reshape || op == QC_OP_Squeeze ||
           op == QC_OP_Unsqueeze;
}

/* Finds the layer that makes an output. */
static bool layer_of(struct mean_of *to, const struct qc_uses *u, const struct qc_layer_bias *by_own, size_t output)
{
    const struct qc_graph *g = u->graph;
    qc_id v = g->outputs[output].value;
    for (size_t k = 0; k < STEPS_MOST && qc_all_uses(u, v).count == 1; k++) {
        const struct qc_layer_bias *layer = &by_own[v];
        const struct qc_node *n = qc_node_of(g, v);
        if (layer->layer) {
            const struct qc_shape *shape = &g->values[v].type.shape;
            const int axis = layer_channel_axis(g, layer->layer);
            int64_t inner = 1;
            for (int i = axis + 1; i < shape->rank; i++) inner *= shape->dim[i] > 0 ? shape->dim[i] : 0;
            *to = (struct mean_of){.output = output,
                                   .channels = qc_constant_of(g, layer->bias)->count,
                                   .inner = (size_t)inner,
                                   .layer = *layer};
            return axis >= 0 && axis < shape->rank && inner > 0 && shape->dim[axis] == (int64_t)to->channels;
        }
        if (!n || !keeps_order(n->op)) return false;
        v = n->inputs[0];
    }
    return false;
}

static bool find_means(struct means *m, const struct qc_graph *g, size_t units, struct qc_arena *a,
                       struct qc_status *st)
{
    struct qc_uses uses;
    struct qc_layer_bias *by_own = QC_NEW_ARRAY(a, struct qc_layer_bias, g->value_count + 1, st);
    m->of = QC_NEW_ARRAY(a, struct mean_of, g->output_count, st);
    if (!by_own || !m->of || !qc_uses_of(&uses, g, a, st)) return false;
    for (qc_id id = 1; id <= g->node_count; id++) {
        struct qc_layer_bias l;
        if (qc_layer_bias_find(&l, &uses, id)) by_own[l.own] = l;
    }
    for (size_t o = 0; o < g->output_count; o++) {
        struct mean_of *to = &m->of[m->count];
        if (!layer_of(to, &uses, by_own, o)) continue;
        if (to->channels + 1 > MEANS_BYTES / sizeof *m->sums / (units + 1) - m->numbers) continue;
        to->at = m->numbers;
        m->numbers += to->channels + 1;
        m->count++;
    }
    m->sums = QC_NEW_ARRAY(a, double, units * m->numbers + 1, st);
    return m->sums != NULL;
}

static QC_INLINE void add_differences_body(double *restrict sum, const float *restrict x, const float *restrict y,
                                           size_t n)
{
    for (size_t i = 0; i < n; i++) sum[i] += (double)y[i] - (double)x[i];
}
QC_SIMD(add_differences, (double *sum, const float *x, const float *y, size_t n), (sum, x, y, n))

/* Stores the mean errors of one unit's output, by channel. */
static void add_output_means(void *user, size_t place, size_t output, const struct qc_view *wanted,
                             const struct qc_view *got)
{
    const struct means *m = user;
    for (size_t i = 0; i < m->count; i++) {
        const struct mean_of *to = &m->of[i];
        const float *x = wanted->data, *y = got->data;
        double *sum = m->sums + place * m->numbers + to->at;
        const size_t n = qc_view_count(wanted), row = to->channels * to->inner;
        if (to->output != output || n % row) continue;
        for (size_t e = 0; e < n; e += row)
            if (to->inner == 1)
                add_differences(sum, x + e, y + e, row);
            else
                for (size_t c = 0, k = e; c < to->channels; c++)
                    for (const size_t end = k + to->inner; k < end; k++) sum[c] += (double)y[k] - (double)x[k];
        for (size_t c = 0; n && c < to->channels; c++) sum[c] *= (double)row / (double)n / (double)to->inner;
        sum[to->channels] = (double)n / (double)to->channels;
    }
}

/* Statistics of an output over some units. */
struct shown {
    double squares, luck; /* sums over channels: of m^2; of v, the sampling variance of m */
    double elements;      /* elements of a channel in a unit, mean */
    double noise;         /* squared error of all elements in a unit, mean */
};

static struct shown look_at_output(const struct means *m, const struct mean_of *o, size_t units)
{
    struct shown s = {0};
    for (size_t u = 0; u < units; u++) {
        s.elements += m->sums[u * m->numbers + o->at + o->channels] / (double)units;
        s.noise += m->errors[u * m->outputs + o->part].noise / (double)units;
    }
    for (size_t c = 0; c < o->channels; c++) {
        double sum = 0, squares = 0;
        for (size_t u = 0; u < units; u++) sum += m->sums[u * m->numbers + o->at + c];
        const double mean = sum / (double)units;
        for (size_t u = 0; u < units; u++) {
            const double d = m->sums[u * m->numbers + o->at + c] - mean;
            squares += d * d;
        }
        s.squares += mean * mean;
        s.luck += squares / ((double)units - 1) / (double)units;
    }
    return s;
}

/* Returns the gain in dB of an output if its noise drops by `squares` per element of a channel. */
static double gain_of(const struct shown *s, double squares)
{
    const double part = squares * s->elements / s->noise;
    return part < 1 ? -10 * log10(1 - part) : (double)INFINITY;
}

/* Returns true if some output may gain: the sum of squared means gets an allowance of two standard deviations of its
   noise. */
static bool may_gain(const struct means *m, size_t units)
{
    bool some = false;
    for (size_t i = 0; i < m->count; i++) {
        const struct shown s = look_at_output(m, &m->of[i], units);
        const double most = s.squares - s.luck + 2 * s.luck * sqrt(2 / (double)m->of[i].channels);
        some = some || (s.noise > 0 && gain_of(&s, most) > GAIN_DB);
    }
    return some;
}

/* Computes the shifts of the outputs that gain. */
static bool solve_means(struct qc_bias_shift *shifts, size_t *count, double *gain_db, const struct means *m,
                        size_t units, struct qc_arena *a, struct qc_status *st)
{
    for (size_t i = 0; i < m->count; i++) {
        const struct mean_of *o = &m->of[i];
        const struct shown s = look_at_output(m, o, units);
        const double part = 1 - s.luck / s.squares, gain = gain_of(&s, part * part * s.squares);
        double *shift = QC_NEW_ARRAY(a, double, o->channels, st);
        if (!shift) return false;
        if (!(s.squares > OVER_LUCK * s.luck) || !(s.noise > 0) || !isfinite(s.squares) || !(gain > GAIN_DB)) continue;
        for (size_t c = 0; c < o->channels; c++) {
            for (size_t u = 0; u < units; u++) shift[c] -= m->sums[u * m->numbers + o->at + c];
            shift[c] *= part / (double)units;
        }
        *gain_db = fmax(*gain_db, gain);
        shifts[(*count)++] = (struct qc_bias_shift){.of = o->layer, .shift = shift};
    }
    return true;
}

bool qc_correct_outputs(struct qc_graph **out, struct qc_output_correction *done, const struct qc_graph *g,
                        struct qc_trials *trials, const struct qc_trial_graphs *written, struct qc_status *st)
{
    const struct qc_output_parts *parts = qc_trials_parts(trials);
    const size_t units = qc_trials_units(trials);
    struct means m = {.outputs = parts->count};
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_bias_shift *shifts = NULL;
    size_t count = 0;
    *done = (struct qc_output_correction){0};
    bool ok = (a || qc_fail_memory(st, 1)) && find_means(&m, g, units, a, st) &&
              (m.errors = QC_NEW_ARRAY(a, struct qc_error, units * m.outputs + 1, st)) &&
              (shifts = QC_NEW_ARRAY(a, struct qc_bias_shift, m.count + 1, st));
    for (size_t i = 0; ok && i < m.count; i++) m.of[i].part = parts->first[m.of[i].output];
    const size_t first = units < QC_SOME_UNITS ? units : QC_SOME_UNITS;
    qc_trials_look(trials, add_output_means, &m);
    if (ok && m.count && units > 1) {
        ok = qc_trials_run(&m.errors, NULL, trials, written, 0, first, st);
        done->units = first;
        if (ok && may_gain(&m, first)) {
            ok = qc_trials_run(&m.errors, NULL, trials, written, first, units - first, st) &&
                 solve_means(shifts, &count, &done->gain_db, &m, units, a, st);
            done->units = units;
        }
        ok = ok && (!count || qc_shift_biases(out, &done->outputs, g, shifts, count, st));
    }
    qc_trials_look(trials, NULL, NULL);
    return ok;
}
