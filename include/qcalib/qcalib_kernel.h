/* SPDX-License-Identifier: Apache-2.0 */
/* A kernel of your own for an operator that qcalib does not support, in a shared object that needs only this header:

     cc -std=c17 -shared -fPIC -I PREFIX/include my_kernel.c -o my_kernel.so
     qcalib --kernel ./my_kernel.so --data calib.h5 model.onnx

   The shared object defines one variable, `const struct qcalib_kernel qcalib_kernel_entry`. It then computes every node
   of its domain and operator, in float, when a model is run, evaluated, compared or calibrated. In the written model
   the node is unchanged.

   `shape` derives the outputs' types and shapes from what is known of the inputs. It is called more than once:
   dimensions may be unknown (-1) at first, and are all known later. `compute` receives dense buffers in row-major
   order. Both run in several threads at a time and must not keep anything between calls. They return 0 on success; any
   other value stops the run with a message that names the operator, the function and the code. They must not throw
   exceptions, abort or exit, which would end the process. */
#ifndef QCALIB_KERNEL_H
#define QCALIB_KERNEL_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define QCALIB_KERNEL_ABI 1 /* incremented when a struct here changes */
enum { QCALIB_KERNEL_RANK_MAX = 8 };

/* type: a number of ONNX's TensorProto.DataType: 1 float, 2 uint8, 3 int8, 6 int32, 7 int64, 9 bool, 11 double, ... */
struct qcalib_kernel_tensor {
    int32_t type;                         /* 0: an omitted input */
    int32_t rank;                         /* -1: not known */
    int64_t dims[QCALIB_KERNEL_RANK_MAX]; /* -1: not known yet */
    void *data; /* inputs are read-only; in `shape` only constants have data, others are NULL */
};

/* kind: a number of ONNX's AttributeProto.AttributeType */
enum {
    QCALIB_KERNEL_FLOAT = 1,
    QCALIB_KERNEL_INT = 2,
    QCALIB_KERNEL_STRING = 3,
    QCALIB_KERNEL_TENSOR = 4,
    QCALIB_KERNEL_FLOATS = 6,
    QCALIB_KERNEL_INTS = 7,
    QCALIB_KERNEL_STRINGS = 8
};

struct qcalib_kernel_attribute {
    const char *name;
    int32_t kind;
    size_t count;               /* number of values below; 1 for a single number, text or tensor */
    const float *floats;        /* FLOAT, FLOATS */
    const int64_t *ints;        /* INT, INTS */
    const char *const *strings; /* STRING, STRINGS */
    const struct qcalib_kernel_tensor *tensor;
};

struct qcalib_kernel_call {
    uint32_t input_count, output_count, attribute_count;
    const struct qcalib_kernel_tensor *inputs; /* trailing optional inputs may be missing */
    struct qcalib_kernel_tensor *outputs;      /* `shape` sets type, rank and dims; `compute` fills data */
    const struct qcalib_kernel_attribute *attributes;
};

struct qcalib_kernel {
    uint32_t abi;                    /* QCALIB_KERNEL_ABI */
    uint32_t inputs_min, inputs_max; /* at most 64 */
    uint32_t outputs_max;            /* 1 to 64 */
    const char *domain, *op;         /* as in the model file; "" is ONNX's own domain */
    int (*shape)(const struct qcalib_kernel_call *call);
    int (*compute)(const struct qcalib_kernel_call *call);
};

/* Returns the attribute of this name and kind, or NULL. */
static inline const struct qcalib_kernel_attribute *qcalib_kernel_attribute_of(const struct qcalib_kernel_call *call,
                                                                               const char *name, int32_t kind)
{
    for (uint32_t i = 0; i < call->attribute_count; i++)
        if (call->attributes[i].kind == kind && strcmp(call->attributes[i].name, name) == 0)
            return &call->attributes[i];
    return NULL;
}

static inline float qcalib_kernel_float(const struct qcalib_kernel_call *call, const char *name, float otherwise)
{
    const struct qcalib_kernel_attribute *a = qcalib_kernel_attribute_of(call, name, QCALIB_KERNEL_FLOAT);
    return a ? a->floats[0] : otherwise;
}

static inline int64_t qcalib_kernel_int(const struct qcalib_kernel_call *call, const char *name, int64_t otherwise)
{
    const struct qcalib_kernel_attribute *a = qcalib_kernel_attribute_of(call, name, QCALIB_KERNEL_INT);
    return a ? a->ints[0] : otherwise;
}

/* Returns the elements of a tensor whose dimensions are all known. */
static inline size_t qcalib_kernel_elements(const struct qcalib_kernel_tensor *t)
{
    size_t n = 1;
    for (int32_t i = 0; i < t->rank; i++) n *= (size_t)t->dims[i];
    return n;
}

#ifdef __cplusplus
extern "C"
#else
extern
#endif
#if defined(__GNUC__)
    __attribute__((visibility("default")))
#endif
    const struct qcalib_kernel qcalib_kernel_entry;

#endif
