/* SPDX-License-Identifier: Apache-2.0 */
/* An observer of your own, in a shared object that needs only this header:

     cc -std=c17 -shared -fPIC -I PREFIX/include my_observer.c -o my_observer.so
     qcalib --plugin ./my_observer.so --method mine:factor=0.9 --data calib.h5 model.onnx

   The shared object defines one variable, `const struct qcalib_observer qcalib_observer_entry`.

   For every quantized tensor and every sample, a new state is begun and scanned once with all finite values of the
   tensor in that sample (in memory order, without NaN and infinity; n may be 0). States are merged two by two, the
   earlier sample always in `into`, in a tree that only the order of the samples decides: ((0 1)(2 3))((4 5) 6). So the
   result does not depend on the number of threads. If merge is associative, it equals that of scanning one sample after
   the other. Weights have one state per channel (or tensor), scanned once.

   Functions run in several threads at a time, each on its own states, and must not keep anything between calls outside
   the state. They return 0 on success; any other value stops the run with a message that names the plugin, the
   function, the code and the tensor. They must not throw exceptions, abort or exit, which would end the process. */
#ifndef QCALIB_OBSERVER_H
#define QCALIB_OBSERVER_H

#include <stddef.h>
#include <stdint.h>

#define QCALIB_OBSERVER_ABI 1 /* incremented when a struct here changes */

struct qcalib_observer_option {
    const char *name, *help;
    double preset, min, max; /* default and inclusive limits; finite */
};

/* Facts for finish. 0 is always a level. */
struct qcalib_observer_request {
    double min, max;            /* extremes of the finite values, widened to include 0 */
    double known_lo, known_hi;  /* bounds guaranteed by the graph (sigmoid: 0 and 1), or -INFINITY, INFINITY */
    uint64_t count, zeros;      /* finite values; exact zeros among them */
    int32_t level_lo, level_hi; /* integer range of the type: 0 and 255, -127 and 127 */
    int32_t symmetric;          /* 1: scale = max(|lo|, |hi|) / levels, zero point 0 */
};

struct qcalib_observer {
    uint32_t abi;                                 /* QCALIB_OBSERVER_ABI */
    uint32_t option_count;                        /* at most 8 */
    const char *name, *summary;                   /* name: letters, digits, '-', '_'; summary: one line */
    const struct qcalib_observer_option *options; /* may be NULL if there are none */
    void *(*begin)(const double *options);        /* values in the order of options; returns NULL if memory is out */
    int (*scan)(void *state, const float *x, size_t n);
    int (*merge)(void *into, const void *later);
    /* Sets range[0] <= range[1], both finite. The range is then widened to 0 and cut to [min, max] and the known
       bounds. Not called if all values are zero. */
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
