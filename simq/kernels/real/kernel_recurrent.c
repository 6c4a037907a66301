// SPDX-License-Identifier: Apache-2.0
/* RNN, GRU and LSTM in float32. One matrix product before the first step multiplies the input of all steps; each
   step multiplies the state of all samples by R. Samples with a shorter sequence_lens end early: later outputs are
   0, and the final states of an empty sequence are 0, as in ONNX Runtime. A dynamic LSTM first rounds the inputs of
   its products. ONNX Runtime then sums integers; its additions and functions differ from ours in the last bits. */
#include <math.h>
#include <string.h>

#include "arith/params.h"
#include "base/checked.h"
#include "simq/core/kernel_util.h"
#include "simq/kernels/real/product.h"
#include "simq/kernels/real/recurrent_cell.h"

/* Products of one direction. RESET: the third gate of a GRU, whose R multiplies the state after the reset. */
enum { PROJECT, RECUR, RESET, PRODUCTS };

/* Parts of the scratch, as offsets in floats: */
enum {
    PROJECTED, /* [steps * batch, gates * hidden] input times W */
    PRODUCT,   /* [batch, gates * hidden] state times R; then the gates */
    STATE,     /* [batch, hidden] */
    CELL,      /* [batch, hidden] */
    GATED,     /* [batch, hidden] state after the reset */
    THIRD,     /* [batch, hidden] GATED times R */
    ROUNDED,   /* [steps * batch, input] the input as a dynamic LSTM reads it */
    LAST,      /* [batch, hidden] the state as a dynamic LSTM reads it */
    BIAS,      /* [gates * hidden], then [hidden] for the bias inside a GRU's reset */
    PARTS
};

struct state {
    struct qc_recurrent r;
    struct qc_cell cell[2];
    struct qc_product *product[2][PRODUCTS];
    bool reset_last; /* a GRU with RESET */
    bool packed_w, packed_r;
    size_t at[PARTS + 1]; /* offsets of the parts; the last: scratch of the products */
};

static void release_recurrent(void *p)
{
    struct state *s = p;
    for (int d = 0; d < 2; d++)
        for (int k = 0; k < PRODUCTS; k++) qc_product_free(s->product[d][k]);
}

static struct qc_view matrix(void *data, int64_t rows, int64_t columns, int64_t row_step, int64_t column_step)
{
    return (struct qc_view){
        .dtype = QC_F32, .rank = 2, .dim = {rows, columns}, .stride = {row_step, column_step}, .data = data};
}

static float *part_of(const struct qc_view *v, int64_t offset)
{
    return v->data ? (float *)v->data + offset : NULL;
}

/* Makes the product dst [rows, columns] (rows of `row_step` numbers) = src [rows, depth] times the transposed rows
   of w, starting at row `first`. */
struct extent {
    int64_t first, rows, columns, depth, row_step;
};

static bool new_product(struct qc_product **out, const struct qc_prepare *p, unsigned input, struct extent e,
                        struct qc_status *st)
{
    const struct qc_view a = matrix(NULL, e.rows, e.depth, e.depth, 1),
                         b = matrix(part_of(&p->in[input], e.first * e.depth), e.depth, e.columns, 1, e.depth),
                         dst = matrix(NULL, e.rows, e.columns, e.row_step, 1);
    const struct qc_product_matrix m = {
        .a = &a, .b = &b, .dst = &dst, .tail = {.lo = -INFINITY, .hi = INFINITY}, .packs = p->packs, .isa = p->isa};
    return qc_product_matrix_new(out, &m, st);
}

static bool lay_out_recurrent(struct state *s, struct qc_status *st)
{
    const struct qc_recurrent *r = &s->r;
    const size_t batch = (size_t)r->batch, hidden = (size_t)r->hidden;
    size_t width, rows, states, count[PARTS];
    bool fits = qc_mul_size(&width, (size_t)r->gates, hidden) && qc_mul_size(&rows, (size_t)r->steps, batch) &&
                qc_mul_size(&count[PROJECTED], rows, width) && qc_mul_size(&count[PRODUCT], batch, width) &&
                qc_mul_size(&states, batch, hidden);
    if (fits) {
        count[STATE] = states;
        count[CELL] = r->gates == 4 ? states : 0;
        count[GATED] = count[THIRD] = s->reset_last ? states : 0;
        count[BIAS] = width + hidden;
        count[LAST] = r->dynamic ? states : 0;
        count[ROUNDED] = 0;
        fits = !r->dynamic || qc_mul_size(&count[ROUNDED], rows, (size_t)r->input);
    }
    for (int k = 0; fits && k < PARTS; k++)
        fits = count[k] <= SIZE_MAX / 64 && qc_add_size(&s->at[k + 1], s->at[k], (count[k] + 15) / 16 * 16);
    return (fits && s->at[PARTS] <= PTRDIFF_MAX / sizeof(float)) ||
           qc_fail(st, QC_BAD_INPUT, "%d gates of %zu numbers for %zu steps of %zu samples do not fit in memory",
                   r->gates, hidden, (size_t)r->steps, batch);
}

static bool prepare_recurrent(struct qc_prepare *p, struct qc_status *st)
{
    struct state *s = QC_NEW_STATE(p, struct state, st);
    if (!s || !qc_recurrent_of(&s->r, p->graph, p->node, st)) return false;
    const struct qc_recurrent *r = &s->r;
    if (p->in[0].dtype != QC_F32) return qc_kernel_no_type(p->in[0].dtype, st);
    for (int d = 0; d < r->directions; d++)
        if (!qc_cell_of(&s->cell[d], p->node, r, d, st)) return false;
    s->reset_last = r->gates == 3 && !s->cell[0].linear_before_reset;
    if (!lay_out_recurrent(s, st)) return false;
    const int64_t h = r->hidden, width = r->gates * h;
    for (int d = 0; d < r->directions; d++) {
        struct qc_product **to = s->product[d];
        if (r->steps && r->batch &&
            (!new_product(&to[PROJECT], p, 1, (struct extent){d * width, r->steps * r->batch, width, r->input, width},
                          st) ||
             !new_product(&to[RECUR], p, 2,
                          (struct extent){d * width, r->batch, s->reset_last ? 2 * h : width, h, width}, st) ||
             (s->reset_last &&
              !new_product(&to[RESET], p, 2, (struct extent){d * width + 2 * h, r->batch, h, h, h}, st))))
            return false;
    }
    size_t scratch = 0;
    for (int d = 0; d < r->directions; d++)
        for (int k = 0; k < PRODUCTS; k++) {
            if (!s->product[d][k]) continue;
            const struct qc_product_facts facts = qc_product_facts(s->product[d][k]);
            scratch = facts.scratch > scratch ? facts.scratch : scratch;
            p->constant_bytes += facts.bytes;
            p->detail = facts.name;
        }
    s->packed_w = p->in[1].data != NULL;
    s->packed_r = p->in[2].data != NULL;
    p->packed = (s->packed_w ? 1U << QC_RECURRENT_W : 0U) | (s->packed_r ? 1U << QC_RECURRENT_R : 0U);
    return qc_add_size(&p->scratch, s->at[PARTS] * sizeof(float), scratch) ||
           qc_fail(st, QC_BAD_INPUT, "does not fit in memory");
}

static float *part(const struct qc_run *r, int which)
{
    const struct state *s = r->state;
    return (float *)r->scratch + s->at[which];
}

static void multiply_recurrent(const struct qc_run *r, int d, int k)
{
    const struct state *s = r->state;
    const int64_t first = d * s->r.gates * s->r.hidden + (k == RESET ? 2 * s->r.hidden : 0);
    const float *weights = NULL, *source = part(r, k == RESET ? GATED : s->r.dynamic ? LAST : STATE);
    if (k == PROJECT) source = s->r.dynamic ? part(r, ROUNDED) : (float *)r->in[0].data;
    if (k == PROJECT && !s->packed_w)
        weights = part_of(&r->in[1], first * s->r.input);
    else if (k != PROJECT && !s->packed_r)
        weights = part_of(&r->in[2], first * s->r.hidden);
    const struct qc_product_memory m = {.src = source,
                                        .weights = weights,
                                        .dst = part(r, k == PROJECT ? PROJECTED
                                                       : k == RECUR ? PRODUCT
                                                                    : THIRD),
                                        .scratch = part(r, PARTS)};
    qc_product_run(s->product[d][k], &m);
}

static bool given(const struct qc_run *r, unsigned i)
{
    return i < r->input_count && r->in[i].rank >= 0;
}

/* Sums the biases Wb + Rb. The third gate of a GRU with linear_before_reset has Wb alone; its Rb follows. */
static void sum_bias(const struct qc_run *r, int d)
{
    const struct state *s = r->state;
    const int64_t h = s->r.hidden, width = s->r.gates * h;
    float *to = part(r, BIAS);
    memset(to, 0, (size_t)(width + h) * sizeof *to);
    if (!given(r, QC_RECURRENT_B)) return;
    const float *w = (const float *)r->in[QC_RECURRENT_B].data + d * 2 * width, *recurrent = w + width;
    const int64_t apart = s->r.gates == 3 && !s->reset_last ? 2 * h : width;
    for (int64_t i = 0; i < width; i++) to[i] = w[i] + (i < apart ? recurrent[i] : 0);
    for (int64_t i = apart; i < width; i++) to[width + i - apart] = recurrent[i];
}

/* Returns the row of direction d and sample b in initial_h, initial_c, Y_h or Y_c. */
static float *state_row(const struct state *s, const struct qc_view *v, int d, int64_t b)
{
    const int64_t row = s->r.batchwise ? b * s->r.directions + d : d * s->r.batch + b;
    return (float *)v->data + row * s->r.hidden;
}

static void begin_state(const struct qc_run *r, unsigned input, float *to, int d)
{
    const struct state *s = r->state;
    const size_t bytes = (size_t)s->r.hidden * sizeof(float);
    for (int64_t b = 0; b < s->r.batch; b++)
        if (given(r, input))
            memcpy(to + b * s->r.hidden, state_row(s, &r->in[input], d, b), bytes);
        else
            memset(to + b * s->r.hidden, 0, bytes);
}

static int64_t length_of(const struct qc_run *r, int64_t b)
{
    const struct state *s = r->state;
    return given(r, QC_RECURRENT_LENGTHS) ? ((const int32_t *)r->in[QC_RECURRENT_LENGTHS].data)[b] : s->r.steps;
}

static int64_t input_row(const struct state *s, int64_t t, int64_t b)
{
    return s->r.batchwise ? b * s->r.steps + t : t * s->r.batch + b;
}

static float *output_row(const struct qc_run *r, int64_t t, int d, int64_t b)
{
    const struct state *s = r->state;
    const int64_t row =
        s->r.batchwise ? (b * s->r.steps + t) * s->r.directions + d : (t * s->r.directions + d) * s->r.batch + b;
    return (float *)r->out[0].data + row * s->r.hidden;
}

/* Returns whether the sequence of sample b has a step `step`; *t: the row of its input. */
static bool runs(const struct qc_run *r, int64_t *t, int64_t step, bool backwards, int64_t b)
{
    const int64_t n = length_of(r, b);
    *t = backwards ? n - 1 - step : step;
    return step < n;
}

/* A GRU step: two gates, then the third, whose product may depend on them. */
static void step_gru(const struct qc_run *r, int d, int64_t step, bool backwards)
{
    const struct state *s = r->state;
    const struct qc_cell *cell = &s->cell[d];
    const int64_t h = s->r.hidden, width = 3 * h;
    const float *bias = part(r, BIAS);
    int64_t t;
    for (int64_t b = 0; b < s->r.batch; b++) {
        float *z = part(r, PRODUCT) + b * width, *state = part(r, STATE) + b * h;
        if (!runs(r, &t, step, backwards, b)) continue;
        const float *x = part(r, PROJECTED) + input_row(s, t, b) * width;
        qc_cell_add(z, x, bias, 2 * h);
        qc_cell_gru_gates(cell, z);
        if (s->reset_last)
            qc_cell_gru_reset(cell, part(r, GATED) + b * h, z + h, state);
        else
            qc_cell_gru_linear(cell, z + 2 * h, x + 2 * h, bias + 2 * h, z + h, bias + width);
    }
    if (s->reset_last) multiply_recurrent(r, d, RESET);
    for (int64_t b = 0; b < s->r.batch; b++) {
        float *z = part(r, PRODUCT) + b * width, *third = s->reset_last ? part(r, THIRD) + b * h : z + 2 * h;
        if (!runs(r, &t, step, backwards, b)) continue;
        if (s->reset_last) qc_cell_add(third, part(r, PROJECTED) + input_row(s, t, b) * width + 2 * h, bias + 2 * h, h);
        qc_cell_gru_finish(cell, part(r, STATE) + b * h, third, z);
    }
}

static void step_other(const struct qc_run *r, int d, int64_t step, bool backwards)
{
    const struct state *s = r->state;
    const int64_t h = s->r.hidden, width = s->r.gates * h;
    const float *peephole =
        given(r, QC_RECURRENT_P) ? (const float *)r->in[QC_RECURRENT_P].data + d * 3 * h : (const float *)NULL;
    for (int64_t b = 0; b < s->r.batch; b++) {
        float *z = part(r, PRODUCT) + b * width, *state = part(r, STATE) + b * h;
        int64_t t;
        if (!runs(r, &t, step, backwards, b)) continue;
        qc_cell_add(z, part(r, PROJECTED) + input_row(s, t, b) * width, part(r, BIAS), width);
        if (s->r.gates == 4)
            qc_cell_lstm(&s->cell[d], state, part(r, CELL) + b * h, z, peephole);
        else
            qc_cell_rnn(&s->cell[d], state, z);
    }
}

static void end_recurrent(const struct qc_run *r, int d)
{
    const struct state *s = r->state;
    const size_t bytes = (size_t)s->r.hidden * sizeof(float);
    for (int64_t b = 0; b < s->r.batch; b++) {
        const int64_t n = length_of(r, b);
        for (int64_t t = n; t < s->r.steps; t++) memset(output_row(r, t, d, b), 0, bytes);
        for (unsigned k = 1; k < r->output_count; k++) {
            float *to = state_row(s, &r->out[k], d, b);
            if (n)
                memcpy(to, part(r, k == 1 ? STATE : CELL) + b * s->r.hidden, bytes);
            else
                memset(to, 0, bytes);
        }
    }
}

static bool run_recurrent(const struct qc_run *r, struct qc_status *st)
{
    const struct state *s = r->state;
    int64_t longest = 0;
    for (int64_t b = 0; b < s->r.batch; b++) {
        const int64_t n = length_of(r, b);
        if (n < 0 || n > s->r.steps)
            return qc_fail(st, QC_BAD_INPUT, "sequence_lens of sample %lld is %lld, expected 0 to %lld", (long long)b,
                           (long long)n, (long long)s->r.steps);
        if (n > longest) longest = n;
    }
    if (s->r.dynamic) {
        const size_t read = (size_t)(longest * s->r.batch * s->r.input);
        qc_dynamic_round(part(r, ROUNDED), r->in[0].data, read);
        memset(part(r, ROUNDED) + read, 0, (size_t)((s->r.steps - longest) * s->r.batch * s->r.input) * sizeof(float));
    }
    for (int d = 0; d < s->r.directions; d++) {
        const bool backwards = s->r.reverse || d == 1;
        sum_bias(r, d);
        begin_state(r, QC_RECURRENT_H, part(r, STATE), d);
        if (s->r.gates == 4) begin_state(r, QC_RECURRENT_C, part(r, CELL), d);
        if (longest) multiply_recurrent(r, d, PROJECT);
        for (int64_t step = 0; step < longest; step++) {
            if (s->r.dynamic) qc_dynamic_round(part(r, LAST), part(r, STATE), (size_t)(s->r.batch * s->r.hidden));
            multiply_recurrent(r, d, RECUR);
            if (s->r.gates != 3)
                step_other(r, d, step, backwards);
            else
                step_gru(r, d, step, backwards);
            for (int64_t b = 0; b < s->r.batch; b++) {
                int64_t t;
                if (runs(r, &t, step, backwards, b))
                    memcpy(output_row(r, t, d, b), part(r, STATE) + b * s->r.hidden,
                           (size_t)s->r.hidden * sizeof(float));
            }
        }
        end_recurrent(r, d);
    }
    return true;
}

QC_KERNEL(recurrent, .order = QC_ORDER_ROW, .prepare = prepare_recurrent, .run = run_recurrent,
          .release = release_recurrent);
