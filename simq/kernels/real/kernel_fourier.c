// SPDX-License-Identifier: Apache-2.0
/* DFT-20, STFT-17, MelWeightMatrix-17, in double. Lengths that are powers of two take n log n steps, others n^2. */
#include <math.h>
#include <string.h>

#include "simq/core/kernel_util.h"

static const double tau = 6.28318530717958647692;

/* Transforms x[n] to y; all arrays are [n][2]. w: [n][2], e^(-i tau k / n) or its conjugate. */
static void transform(double *y, const double *x, const double *w, int64_t n, int64_t step, int64_t of)
{
    if (n == 1) {
        y[0] = x[0];
        y[1] = x[1];
        return;
    }
    if (n % 2) {
        for (int64_t k = 0; k < n; k++) {
            double re = 0, im = 0;
            for (int64_t i = 0; i < n; i++) {
                const double *t = w + 2 * (k * i % n * (of / n)), *v = x + 2 * i * step;
                re += v[0] * t[0] - v[1] * t[1];
                im += v[0] * t[1] + v[1] * t[0];
            }
            y[2 * k] = re;
            y[2 * k + 1] = im;
        }
        return;
    }
    const int64_t half = n / 2;
    transform(y, x, w, half, 2 * step, of);
    transform(y + 2 * half, x + 2 * step, w, half, 2 * step, of);
    for (int64_t k = 0; k < half; k++) {
        const double *t = w + 2 * k * (of / n);
        double *a = y + 2 * k, *b = y + 2 * (k + half);
        const double re = b[0] * t[0] - b[1] * t[1], im = b[0] * t[1] + b[1] * t[0];
        b[0] = a[0] - re;
        b[1] = a[1] - im;
        a[0] += re;
        a[1] += im;
    }
}

static void make_turns(double *w, int64_t n, bool inverse)
{
    for (int64_t k = 0; k < n; k++) {
        w[2 * k] = cos(tau * (double)k / (double)n);
        w[2 * k + 1] = (inverse ? 1 : -1) * sin(tau * (double)k / (double)n);
    }
}

static bool take_scratch(struct qc_prepare *p, int64_t n, struct qc_status *st)
{
    if (p->in[0].dtype != QC_F32 && p->in[0].dtype != QC_F64) return qc_kernel_no_type(p->in[0].dtype, st);
    if (n < 0 || n > INT64_MAX / (int64_t)(8 * sizeof(double))) return qc_fail(st, QC_BAD_INPUT, "it is too long");
    p->scratch = 6 * (size_t)n * sizeof(double);
    return true;
}

/* --- DFT --- */

struct dft {
    int axis;
    int64_t n;
    bool inverse, onesided;
};

static bool prepare_dft(struct qc_prepare *p, struct qc_status *st)
{
    struct dft *s = QC_NEW_STATE(p, struct dft, st);
    int64_t axis = -2, length;
    size_t count;
    if (!s) return false;
    *s = (struct dft){.inverse = qc_attr_int(p->node, "inverse", 0) != 0,
                      .onesided = qc_attr_int(p->node, "onesided", 0) != 0};
    if (qc_kernel_has(p, 2) && !qc_kernel_ints(&axis, &count, 1, p, 2, "axis", st)) return false;
    if (!qc_axis_of(&s->axis, axis, p->in[0].rank, st)) return false;
    s->n = p->in[0].dim[s->axis];
    if (s->inverse && s->onesided) s->n = 2 * (s->n - 1);
    if (qc_kernel_has(p, 1)) {
        if (!qc_kernel_ints(&length, &count, 1, p, 1, "dft_length", st)) return false;
        if (count) s->n = length;
    }
    return take_scratch(p, s->n, st);
}

static bool run_dft(const struct qc_run *r, struct qc_status *st)
{
    const struct dft *s = r->state;
    const struct qc_view *x = &r->in[0], *y = &r->out[0];
    const int last = x->rank - 1;
    const int64_t n = s->n, there = x->dim[s->axis], im_in = x->dim[last] > 1 ? x->stride[last] : 0,
                  im_out = y->dim[last] > 1 ? y->stride[last] : 0;
    double *w = r->scratch, *in = w + 2 * n, *out = in + 2 * n;
    make_turns(w, n, s->inverse);
    if (n <= 0) return true;
    QC_WALK(walk, 1U << s->axis | 1U << last, x, y) {
        memset(in, 0, (size_t)n * 2 * sizeof *in);
        for (int64_t i = 0; i < there && i < n; i++) {
            const int64_t at = walk.at[0] + i * x->stride[s->axis];
            in[2 * i] = qc_kernel_real(x, at);
            in[2 * i + 1] = im_in ? qc_kernel_real(x, at + im_in) : 0;
        }
        for (int64_t i = n / 2 + 1; i < n && s->inverse && s->onesided; i++) { /* conjugates of the first half */
            in[2 * i] = in[2 * (n - i)];
            in[2 * i + 1] = -in[2 * (n - i) + 1];
        }
        transform(out, in, w, n, 1, n);
        for (int64_t k = 0; k < y->dim[s->axis]; k++) {
            const double scale = s->inverse ? 1 / (double)n : 1;
            const int64_t at = walk.at[1] + k * y->stride[s->axis];
            qc_kernel_put_real(y, at, out[2 * k] * scale);
            if (im_out) qc_kernel_put_real(y, at + im_out, out[2 * k + 1] * scale);
        }
    }
    return true;
}

/* --- STFT: [N, frames, bins, 2] --- */

struct stft {
    int64_t step, n;
};

static bool prepare_stft(struct qc_prepare *p, struct qc_status *st)
{
    struct stft *s = QC_NEW_STATE(p, struct stft, st);
    size_t count;
    if (!s || !qc_kernel_ints(&s->step, &count, 1, p, 1, "frame_step", st)) return false;
    s->n = qc_kernel_has(p, 2) ? p->in[2].dim[0] : p->in[0].dim[1];
    if (qc_kernel_has(p, 3) && !qc_kernel_ints(&s->n, &count, 1, p, 3, "frame_length", st)) return false;
    return take_scratch(p, s->n, st);
}

static bool run_stft(const struct qc_run *r, struct qc_status *st)
{
    const struct stft *s = r->state;
    const struct qc_view *x = &r->in[0], *y = &r->out[0];
    const struct qc_view *window = r->input_count > 2 && r->in[2].rank >= 0 ? &r->in[2] : NULL;
    double *w = r->scratch, *in = w + 2 * s->n, *out = in + 2 * s->n;
    const bool complex = x->rank > 2 && x->dim[2] > 1;
    make_turns(w, s->n, false);
    for (int64_t b = 0; b < y->dim[0]; b++)
        for (int64_t f = 0; f < y->dim[1]; f++) {
            for (int64_t i = 0; i < s->n; i++) {
                const int64_t at = b * x->stride[0] + (f * s->step + i) * x->stride[1];
                const double shape = window ? qc_kernel_real(window, i * window->stride[0]) : 1;
                in[2 * i] = shape * qc_kernel_real(x, at);
                in[2 * i + 1] = complex ? shape * qc_kernel_real(x, at + x->stride[2]) : 0;
            }
            transform(out, in, w, s->n, 1, s->n);
            for (int64_t k = 0; k < 2 * y->dim[2]; k++)
                qc_kernel_put_real(y, b * y->stride[0] + f * y->stride[1] + k / 2 * y->stride[2] + k % 2 * y->stride[3],
                                   out[k]);
        }
    return true;
}

/* --- MelWeightMatrix: triangles over the bins of a spectrum --- */

static double scalar_of(const struct qc_view *v)
{
    const struct qc_tensor t = {.dtype = v->dtype, .count = 1, .data = v->data};
    return qc_tensor_float(&t, 0);
}

static int64_t bin_of(const struct qc_run *r, int64_t i)
{
    const double n = scalar_of(&r->in[1]), rate = scalar_of(&r->in[2]), bands = scalar_of(&r->in[0]);
    const double low = 2595 * log10(1 + scalar_of(&r->in[3]) / 700),
                 high = 2595 * log10(1 + scalar_of(&r->in[4]) / 700);
    const double mel = (double)i * (high - low) / (bands + 2) + low, hertz = 700 * (pow(10, mel / 2595) - 1);
    const double bin = floor((n + 1) * hertz / rate);
    return bin > 0 && bin < 0x1p40 ? (int64_t)bin : 0;
}

static bool run_mel(const struct qc_run *r, struct qc_status *st)
{
    const struct qc_view *y = &r->out[0];
    uint64_t element = 0;
    qc_view_fill(y, &element);
    for (int64_t i = 0; i < y->dim[1]; i++) {
        const int64_t left = bin_of(r, i), middle = bin_of(r, i + 1), right = bin_of(r, i + 2);
        for (int64_t j = left; j < y->dim[0] && (j < right || j == middle); j++) {
            double v = middle == left ? 1 : (double)(j - left) / (double)(middle - left);
            if (j >= middle && right > middle) v = (double)(right - j) / (double)(right - middle);
            qc_element_of(&element, y->dtype, v);
            memcpy(qc_at(y, j * y->stride[0] + i * y->stride[1]), &element, qc_dtype_size(y->dtype));
        }
    }
    return true;
}

QC_KERNEL(dft, .order = QC_ORDER_ANY, .prepare = prepare_dft, .run = run_dft);
QC_KERNEL(stft, .order = QC_ORDER_ANY, .prepare = prepare_stft, .run = run_stft);
QC_KERNEL(mel_weights, .halves = true, .order = QC_ORDER_ANY, .run = run_mel);
