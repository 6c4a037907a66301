// SPDX-License-Identifier: Apache-2.0
/* Whole layers of 8-bit integers in the plainest loops, with the arithmetic of arith/: what
   tests/tflite compares with TensorFlow Lite. Built as a shared object by tests/tflite/tflite_layers.py. Each function
   returns 0, or 1 when the contract refuses the parameters. Layouts are TensorFlow's: [H,W,C], weights [O,kh,kw,C] and
   [1,kh,kw,C*M]. */
#include "arith/qbinary.h"
#include "arith/real_steps.h"
#include "arith/requantize.h"
#include "arith/tflite.h"

struct layer_window {
    int32_t height, width, channels, out_height, out_width, out_channels, kernel_height, kernel_width;
    int32_t stride_height, stride_width, dilation_height, dilation_width, top, left;
};

enum { LAYER_CONV, LAYER_DEPTHWISE, LAYER_DENSE };

struct layer_qparams {
    float scale;
    int32_t zero_point, lo, hi;
};

static struct qc_affine affine(const struct layer_qparams *s)
{
    return (struct qc_affine){.scale = s->scale, .zero_point = s->zero_point};
}

static struct qc_levels levels(const struct layer_qparams *s)
{
    return (struct qc_levels){.lo = s->lo, .hi = s->hi};
}

static struct qc_requantize_def definition(int contract, int source, const struct layer_qparams *x,
                                           const struct layer_qparams *y)
{
    return (struct qc_requantize_def){.contract = (enum qc_contract)contract,
                                      .source = (enum qc_requantize_source)source,
                                      .input_scale = x->scale,
                                      .count = 1,
                                      .divisor = 1,
                                      .output = affine(y),
                                      .levels = levels(y)};
}

int layer_conv(int32_t *y, const int32_t *x, const int32_t *w, const int32_t *bias, const struct layer_window *k,
               int kind, int contract, const struct layer_qparams *in, const struct layer_qparams *out,
               const float *scale, int32_t count)
{
    struct qc_status st = QC_STATUS_INIT;
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_requantizer r;
    struct qc_requantize_def d = definition(contract, kind == LAYER_DENSE ? QC_FROM_DENSE : QC_FROM_PRODUCT, in, out);
    const int depthwise = kind == LAYER_DEPTHWISE;
    d.count = (size_t)count;
    d.weight_scale = scale;
    const int ok = a && qc_requantizer_of(&r, &d, a, &st);
    const int32_t per_group = depthwise ? 1 : k->channels, multiplier = depthwise ? k->out_channels / k->channels : 0;
    for (int32_t i = 0; ok && i < k->out_height * k->out_width * k->out_channels; i++) {
        const int32_t o = i % k->out_channels, column = i / k->out_channels % k->out_width,
                      row = i / k->out_channels / k->out_width;
        int64_t sum = bias ? bias[o] : 0;
        for (int32_t kh = 0; kh < k->kernel_height; kh++) {
            for (int32_t kw = 0; kw < k->kernel_width; kw++) {
                const int32_t ih = row * k->stride_height + kh * k->dilation_height - k->top;
                const int32_t iw = column * k->stride_width + kw * k->dilation_width - k->left;
                if (ih < 0 || ih >= k->height || iw < 0 || iw >= k->width) continue;
                for (int32_t c = 0; c < per_group; c++) {
                    const int32_t channel = depthwise ? o / multiplier : c;
                    const int32_t at = depthwise
                                           ? (kh * k->kernel_width + kw) * k->out_channels + o
                                           : ((o * k->kernel_height + kh) * k->kernel_width + kw) * k->channels + c;
                    sum += (int64_t)(x[(ih * k->width + iw) * k->channels + channel] - in->zero_point) * w[at];
                }
            }
        }
        y[i] = qc_requantize_one(&r, (size_t)o, sum);
    }
    return !ok;
}

/* x [n,windows]: each row of `divisor` integers becomes its mean, with the same qparams (tflite's pools) or another. */
int layer_mean(int32_t *y, const int32_t *x, int32_t n, int32_t divisor, int contract, const struct layer_qparams *in,
               const struct layer_qparams *out)
{
    struct qc_status st = QC_STATUS_INIT;
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_requantizer r;
    struct qc_requantize_def d = definition(contract, QC_FROM_SUM, in, out);
    d.divisor = divisor;
    const int ok = a && qc_requantizer_of(&r, &d, a, &st);
    for (int32_t i = 0; ok && i < n; i++) {
        int64_t sum = 0;
        for (int32_t k = 0; k < divisor; k++) sum += x[i * divisor + k] - in->zero_point;
        y[i] = qc_requantize_one(&r, 0, sum);
    }
    return !ok;
}

int layer_average(int32_t *y, const int32_t *x, const int32_t *count, int32_t n, int32_t window,
                  const struct layer_qparams *out)
{
    for (int32_t i = 0; i < n; i++) {
        int64_t sum = 0;
        for (int32_t k = 0; k < count[i]; k++) sum += x[i * window + k];
        const int32_t q = qc_average_away(sum, count[i]);
        y[i] = q < out->lo ? out->lo : q > out->hi ? out->hi : q;
    }
    return 0;
}

int layer_merge(int32_t *y, const int32_t *a, const int32_t *b, int32_t n, int op, int contract,
                const struct layer_qparams *sa, const struct layer_qparams *sb, const struct layer_qparams *sy)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_qbinary m;
    const struct qc_affine p[] = {affine(sa), affine(sb), affine(sy)};
    const struct qc_levels l[] = {levels(sa), levels(sb), levels(sy)};
    if (!qc_qbinary_of(&m, (enum qc_contract)contract, (enum qc_qbinary_op)op, p, l, &st)) return 1;
    for (int32_t i = 0; i < n; i++) y[i] = qc_qbinary_one(&m, a[i], b[i]);
    return 0;
}

int layer_softmax(int32_t *y, const int32_t *x, int32_t rows, int32_t n, float scale, float beta, int32_t lowest)
{
    const struct qc_tflite_softmax s = qc_tflite_softmax_of(scale, beta);
    for (int32_t i = 0; i < rows; i++) qc_tflite_softmax_row(&s, y + i * n, x + i * n, (size_t)n, lowest);
    return 0;
}

int layer_rescale(int32_t *y, const int32_t *x, int32_t n, int contract, const struct layer_qparams *in,
                  const struct layer_qparams *out)
{
    struct qc_status st = QC_STATUS_INIT;
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_requantizer r;
    struct qc_requantize_def d = definition(contract, QC_FROM_QUANTIZER, in, out);
    d.input_zero_point = in->zero_point;
    const int ok = a && qc_requantizer_of(&r, &d, a, &st);
    for (int32_t i = 0; ok && i < n; i++) y[i] = qc_requantize_one(&r, 0, x[i]);
    return !ok;
}

int layer_quantize(int32_t *y, const float *x, int32_t n, int contract, const struct layer_qparams *out)
{
    for (int32_t i = 0; i < n; i++) y[i] = qc_quantize_by((enum qc_contract)contract, x[i], affine(out), levels(out));
    return 0;
}

/* kind: 0 leaky relu, 1 relu, 2 hard-swish, 3 sigmoid, 4 tanh. */
static float sigmoid_of(float x, const void *context)
{
    return 1.0f / (1.0f + expf(-x));
}

static float tanh_of(float x, const void *context)
{
    return tanhf(x);
}

int layer_unary(int32_t *y, const int32_t *x, int32_t n, int kind, float alpha, const struct layer_qparams *in,
                const struct layer_qparams *out)
{
    static const enum qc_tflite_function kinds[] = {QC_TFLITE_LEAKY_RELU, QC_TFLITE_LEAKY_RELU, QC_TFLITE_HARD_SWISH};
    struct qc_status st = QC_STATUS_INIT;
    struct qc_tflite_unary u = {.kind = kind < 3 ? kinds[kind] : QC_TFLITE_TABLE,
                                .input = affine(in),
                                .output = affine(out),
                                .levels = levels(out),
                                .alpha = kind == 0 ? alpha : 0,
                                .function = kind == 3 ? sigmoid_of : tanh_of};
    if (!qc_tflite_unary_of(&u, &st)) return 1;
    for (int32_t i = 0; i < n; i++) y[i] = qc_tflite_unary_one(&u, x[i]);
    return 0;
}
