/* SPDX-License-Identifier: Apache-2.0 */
/* An observer of your own, in a shared object that needs nothing but this header:

     cc -std=c17 -shared -fPIC -I PREFIX/include my_observer.c -o my_observer.so
     qcalib --plugin ./my_observer.so --method mine:factor=0.9 --data calib.h5 model.onnx

   The shared object defines one variable, `const struct qcalib_observer qcalib_observer_entry`.

   For every tensor to be quantized, and every sample, a state of its own is begun and scanned once with all finite
   values of the tensor in that sample (memory order; NaN and infinity are left out, n may be 0). States are merged two
   by two, the earlier sample always in `into`, in a tree that the samples' order alone decides: ((0 1)(2 3))((4 5) 6).
   So the answer is the same for any number of threads, and the same as scanning one sample after the other if merge is
   associative. Weights: one state per channel (or tensor), scanned once. Functions run in several threads at a time,
   each on states of its own; they must not keep anything between calls outside the state. Return 0 when all is well;
   anything else stops the run with a message that names the plugin, the function, the code and the tensor. */
#ifndef QCALIB_OBSERVER_H
#define QCALIB_OBSERVER_H

#include <stddef.h>
#include <stdint.h>

#define QCALIB_OBSERVER_ABI 1 /* changes when a struct here does */

struct qcalib_observer_option {
    const char *name, *help;
    double preset, min, max; /* default and limits, both included; finite */
};

/* What finish may want to know. 0 is always a level. */
struct qcalib_observer_request {
    double min, max;            /* extremes of the finite values, each moved to 0 when it lies beyond it */
    double known_lo, known_hi;  /* what the graph guarantees (sigmoid: 0 and 1), or -INFINITY, INFINITY */
    uint64_t count, zeros;      /* finite values; exact zeros among them */
    int32_t level_lo, level_hi; /* integers of the type: 0 and 255, -127 and 127 */
    int32_t symmetric;          /* 1: scale = max(|lo|, |hi|) / levels, zero point 0 */
};

struct qcalib_observer {
    uint32_t abi;                                 /* QCALIB_OBSERVER_ABI */
    uint32_t option_count;                        /* at most 8 */
    const char *name, *summary;                   /* name: letters, digits, '-', '_'; summary: one line */
    const struct qcalib_observer_option *options; /* may be NULL when there are none */
    void *(*begin)(const double *options);        /* values in the order of options; NULL: no memory */
    int (*scan)(void *state, const float *x, size_t n);
    int (*merge)(void *into, const void *later);
    /* Sets range[0] <= range[1], both finite. It is then widened to 0 and cut to [min, max] and what is known. Not
     * asked when all is zero. */
    int (*finish)(const void *state, const struct qcalib_observer_request *request, double range[2]);
    void (*end)(void *state); /* frees it */
};

#ifdef __cplusplus
extern "C"
#else
extern
#endif
#if defined(__GNUC__)
    __attribute__((visibility("default")))
#endif
    const struct qcalib_observer qcalib_observer_entry;

#endif
