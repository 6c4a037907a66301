// SPDX-License-Identifier: Apache-2.0
/* An observer as a user writes it, with the installed header and nothing else: the median of the samples' minima and
   maxima.

     cc -std=c17 -shared -fPIC -I PREFIX/include median_observer.c -o median.so
     qcalib --plugin ./median.so --method median:widen=1.1 --data calib.h5 model.onnx */
#include <qcalib/qcalib_observer.h>
#include <stdlib.h>

struct extremes {
    double min, max;
};

struct state {
    double widen;
    size_t count;
    struct extremes *samples;
};

static void *begin(const double *options)
{
    struct state *s = calloc(1, sizeof *s);
    if (s) s->widen = options[0];
    return s;
}

static int append(struct state *s, const struct extremes *more, size_t n)
{
    struct extremes *all = realloc(s->samples, (s->count + n) * sizeof *all);
    if (!all) return 1;
    for (size_t i = 0; i < n; i++) all[s->count + i] = more[i];
    s->samples = all;
    s->count += n;
    return 0;
}

static int scan(void *state, const float *x, size_t n)
{
    if (!n) return 0;
    struct extremes e = {x[0], x[0]};
    for (size_t i = 1; i < n; i++) {
        if (x[i] < e.min) e.min = x[i];
        if (x[i] > e.max) e.max = x[i];
    }
    return append(state, &e, 1);
}

static int merge(void *into, const void *later)
{
    const struct state *s = later;
    return s->count ? append(into, s->samples, s->count) : 0;
}

static int by_min(const void *a, const void *b)
{
    const struct extremes *x = a, *y = b;
    return (x->min > y->min) - (x->min < y->min);
}

static int by_max(const void *a, const void *b)
{
    const struct extremes *x = a, *y = b;
    return (x->max > y->max) - (x->max < y->max);
}

static int finish(const void *state, const struct qcalib_observer_request *request, double range[2])
{
    const struct state *s = state;
    (void)request;
    if (!s->count) return 2;
    qsort(s->samples, s->count, sizeof *s->samples, by_min);
    range[0] = s->widen * s->samples[s->count / 2].min;
    qsort(s->samples, s->count, sizeof *s->samples, by_max);
    range[1] = s->widen * s->samples[s->count / 2].max;
    return 0;
}

static void end(void *state)
{
    struct state *s = state;
    free(s->samples);
    free(s);
}

static const struct qcalib_observer_option options[] = {{"widen", "factor on the median", 1, 0.1, 10}};

const struct qcalib_observer qcalib_observer_entry = {
    .abi = QCALIB_OBSERVER_ABI,
    .name = "median",
    .summary = "median of the samples' minima and maxima",
    .options = options,
    .option_count = 1,
    .begin = begin,
    .scan = scan,
    .merge = merge,
    .finish = finish,
    .end = end,
};
