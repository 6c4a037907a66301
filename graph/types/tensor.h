// SPDX-License-Identifier: Apache-2.0
/* Shapes and constant tensors. */
#pragma once

#include "base/file_map.h"
#include "base/status.h"
#include "graph/types/dtype.h"

enum { QC_RANK_MAX = 8 };

/* A dimension that is not fixed yet (the batch, mostly). */
#define QC_FREE (-1)

/* rank -1: unknown. dim[i] >= 0 or QC_FREE for i < rank; 0 behind it. */
struct qc_shape {
    int rank;
    int64_t dim[QC_RANK_MAX];
};

#define QC_SHAPE(...)                                                                                                  \
    qc_shape_of((int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[]){__VA_ARGS__})
#define QC_SCALAR ((struct qc_shape){.rank = 0})
#define QC_SHAPE_UNKNOWN ((struct qc_shape){.rank = -1})

struct qc_shape qc_shape_of(int rank, const int64_t *dims);
bool qc_shape_equal(const struct qc_shape *a, const struct qc_shape *b);
/* All dimensions known? */
bool qc_shape_fixed(const struct qc_shape *s);
/* Number of elements; false when not fixed or on overflow: of the product of all dimensions but those that are 0, so
   that strides and parts of the shape fit in any case. */
bool qc_shape_count(size_t *count, const struct qc_shape *s);
/* Number of elements of a shape that is known to be fixed and to fit (an existing tensor's). */
size_t qc_shape_elements(const struct qc_shape *s);
/* Numpy broadcasting; a free dimension with a fixed one > 1 gives the fixed one. False when they do not fit. */
bool qc_shape_broadcast(struct qc_shape *out, const struct qc_shape *a, const struct qc_shape *b);
/* "[N,3,32,32]": free dimensions print as N. */
enum { QC_SHAPE_TEXT = 128 };
const char *qc_shape_text(char buf[QC_SHAPE_TEXT], const struct qc_shape *s);

/* A dense row-major tensor. Reference counted, data aligned to 64 bytes, never changed once shared. Data in a file
   are aligned to an element, and cannot be changed at all. */
struct qc_tensor {
    enum qc_dtype dtype;
    struct qc_shape shape;
    size_t count, bytes;
    void *data;
    struct qc_file_map *map;       /* that data is in; NULL: memory of its own */
    _Atomic unsigned references;   /* graphs in several threads may share it */
    _Atomic uint64_t hash;         /* 0: not made yet */
    _Atomic uint64_t extremes;     /* the same; of float32 and bytes, as who looks for them has it */
    struct qc_tensor_forms *forms; /* NULL, or what is kept beside the numbers (graph/types/tensor_forms.h) */
};
void qc_tensor_forms_free(struct qc_tensor_forms *f); /* NULL-safe */

/* Zeroed; NULL and a status when the shape is not fixed, too large (QC_BAD_INPUT) or memory is out. */
struct qc_tensor *qc_tensor_new(enum qc_dtype dtype, const struct qc_shape *shape, struct qc_status *st);
/* Copies count elements of data. */
struct qc_tensor *qc_tensor_of(enum qc_dtype dtype, const struct qc_shape *shape, const void *data,
                               struct qc_status *st);
/* Whose data lie in a file, from byte `offset` on, a multiple of the size of an element; the file has them all. */
struct qc_tensor *qc_tensor_mapped(enum qc_dtype dtype, const struct qc_shape *shape, struct qc_file_map *map,
                                   size_t offset, struct qc_status *st);
/* Puts the data of a tensor that nobody else has into a temporary file, where they need no memory. Small tensors, and
   those in files already, stay as they are. */
enum { QC_SPILLED_LEAST = 1 << 20 };
bool qc_tensor_spill(struct qc_tensor *t, struct qc_status *st);
/* Is done with, for now: where its data are in a file, memory for them is given back. */
void qc_tensor_rest(const struct qc_tensor *t);
struct qc_tensor *qc_tensor_ref(const struct qc_tensor *t);
void qc_tensor_unref(struct qc_tensor *t); /* NULL-safe */
/* Of the bytes, made once: passes look for equal constants again and again. */
uint64_t qc_tensor_hash(const struct qc_tensor *t);
/* The smallest and the largest number of a float32 tensor, made once too. false: of another type, it is empty, or has a
   NaN. */
bool qc_tensor_extremes(float *lo, float *hi, const struct qc_tensor *t);
/* Same dtype, shape and bytes. */
bool qc_tensor_equal(const struct qc_tensor *a, const struct qc_tensor *b);
/* Element i as a number of either kind; floats are truncated toward zero by the first. */
int64_t qc_tensor_int(const struct qc_tensor *t, size_t i);
double qc_tensor_float(const struct qc_tensor *t, size_t i);
/* Elements [first, first + n), of integers of at most 16 bits, int32, or float32 that holds integers of 32 bits. */
void qc_tensor_ints(int32_t *out, const struct qc_tensor *t, size_t first, size_t n);
/* Where an axis has `channels` channels of `inner` elements each: sums of what is above and of what is below the
   channel's zero point, [channels] each, set. zero: [zero_count], 1 or channels. Types as of qc_tensor_ints. Exact. */
void qc_tensor_parts(int64_t *above, int64_t *below, const struct qc_tensor *t, size_t channels, size_t inner,
                     const int32_t *zero, size_t zero_count);
/* Float32 copy of a tensor of any numeric type. */
struct qc_tensor *qc_tensor_to_f32(const struct qc_tensor *t, struct qc_status *st);
