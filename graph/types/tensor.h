// SPDX-License-Identifier: Apache-2.0
/* Shapes and constant tensors. */
#pragma once

#include "base/file_map.h"
#include "base/memo.h"
#include "base/status.h"
#include "graph/types/dtype.h"

enum { QC_RANK_MAX = 8 };

/* A dimension that is not fixed, such as the batch. */
#define QC_FREE (-1)

/* rank -1: unknown. dim[i] is >= 0 or QC_FREE for i < rank, otherwise 0. */
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
/* True if the rank and all dimensions are known. */
bool qc_shape_fixed(const struct qc_shape *s);
/* Gives the number of elements. Returns false if the shape is not fixed, or if the product of all nonzero dimensions
   overflows; dimensions of 0 are left out of this check, so strides and parts of the shape fit as well. */
bool qc_shape_count(size_t *count, const struct qc_shape *s);
/* Returns the number of elements of a shape for which qc_shape_count succeeds, such as that of an existing tensor. */
size_t qc_shape_elements(const struct qc_shape *s);
/* Numpy broadcasting. A free dimension and a fixed one > 1 give the fixed one. Returns false if the shapes do not
   broadcast. */
bool qc_shape_broadcast(struct qc_shape *out, const struct qc_shape *a, const struct qc_shape *b);
/* Returns the shape as text, such as "[N,3,32,32]"; free dimensions print as N. */
enum { QC_SHAPE_TEXT = 128 };
const char *qc_shape_text(char buf[QC_SHAPE_TEXT], const struct qc_shape *s);
#define QC_SHAPE_STR(s) qc_shape_text((char[QC_SHAPE_TEXT]){""}, s) /* valid until the end of the block */

/* A dense row-major tensor. It is reference counted and never changed once shared. Its data are aligned to 64 bytes;
   data in a file are aligned to an element and read-only. */
struct qc_tensor {
    enum qc_dtype dtype;
    struct qc_shape shape;
    size_t count, bytes;
    size_t made_from; /* bytes of the constants that it was folded from; 0: it is of the model file */
    void *data;
    struct qc_file_map *map;     /* file that holds the data; NULL: the tensor owns its memory */
    _Atomic unsigned references; /* graphs in several threads may share it */
    _Atomic uint64_t hash;       /* 0: not computed yet */
    _Atomic uint64_t extremes;   /* of float32 and bytes, encoded by the code that computes them; 0: not computed */
    struct qc_memo *forms;       /* below; may be NULL */
};

/* Returns a tensor of zeros. Fails with QC_BAD_INPUT if the shape is not fixed or too large, or if memory runs out. */
struct qc_tensor *qc_tensor_new(enum qc_dtype dtype, const struct qc_shape *shape, struct qc_status *st);
/* Returns a tensor with a copy of `data`. */
struct qc_tensor *qc_tensor_of(enum qc_dtype dtype, const struct qc_shape *shape, const void *data,
                               struct qc_status *st);
/* Returns a tensor whose data are in a file from byte `offset` on. The offset is a multiple of the element size; the
   caller has checked that the file holds all the data. */
struct qc_tensor *qc_tensor_mapped(enum qc_dtype dtype, const struct qc_shape *shape, struct qc_file_map *map,
                                   size_t offset, struct qc_status *st);
/* Moves the data of an unshared tensor to a temporary file, where they occupy no memory. Tensors of less than
   QC_SPILLED_LEAST bytes and tensors whose data are in a file are left unchanged. */
enum { QC_SPILLED_LEAST = 1 << 20 };
bool qc_tensor_spill(struct qc_tensor *t, struct qc_status *st);
/* Releases the memory of data that are in a file; they are read again on the next access. */
void qc_tensor_rest(const struct qc_tensor *t);
struct qc_tensor *qc_tensor_ref(const struct qc_tensor *t);
void qc_tensor_unref(struct qc_tensor *t); /* NULL-safe */
/* Returns a hash of the data, which is computed once and kept: passes compare constants often. */
uint64_t qc_tensor_hash(const struct qc_tensor *t);
/* Gives the minimum and maximum of a float32 tensor, which are computed once and kept. Returns false if the tensor has
   another type, is empty or has a NaN. */
bool qc_tensor_extremes(float *lo, float *hi, const struct qc_tensor *t);
/* True if dtype, shape and bytes are the same. */
bool qc_tensor_equal(const struct qc_tensor *a, const struct qc_tensor *b);
/* Element i as an integer or a float; the integer of a float is truncated toward zero. */
int64_t qc_tensor_int(const struct qc_tensor *t, size_t i);
double qc_tensor_float(const struct qc_tensor *t, size_t i);
/* Gives elements [first, first + n) of a tensor of integers of at most 16 bits, of int32, or of float32 whose numbers
   are 32-bit integers. */
void qc_tensor_ints(int32_t *out, const struct qc_tensor *t, size_t first, size_t n);
/* Sets above[c] and below[c] to the exact sums of the positive and of the negative differences from the zero point in
   channel c. The axis has `channels` channels of `inner` contiguous elements. zero: [zero_count], 1 or channels. Types
   as for qc_tensor_ints. */
void qc_tensor_parts(int64_t *above, int64_t *below, const struct qc_tensor *t, size_t channels, size_t inner,
                     const int32_t *zero, size_t zero_count);
/* Returns a float32 copy of a tensor of any numeric type; a float32 tensor itself is returned with a reference. */
struct qc_tensor *qc_tensor_to_f32(const struct qc_tensor *t, struct qc_status *st);

/* Returns true if a is the transpose of b: matrices of one type with the same bytes in each element. */
bool qc_tensor_is_transposed(const struct qc_tensor *a, const struct qc_tensor *b);

/* Returns the transpose of a matrix; NULL and a status if memory is out. */
struct qc_tensor *qc_tensor_transposed(const struct qc_tensor *t, struct qc_status *st);

/* Forms: derived data of a constant, such as its packed form for a kernel or its sums. They are kept with the tensor,
   so that several plans compute them once. A form is a function of the tensor and of a key; it is freed with the
   tensor. */

/* Makes an unshared tensor keep forms. */
bool qc_tensor_keep_forms(struct qc_tensor *t, struct qc_status *st);

/* Returns NULL if there is no form of this key or the tensor keeps none. Any thread may call it. */
const void *qc_tensor_form(const struct qc_tensor *t, const void *key, size_t key_bytes);

/* Adds a form to a tensor that keeps forms. Takes ownership of `data` (allocated with malloc), also on failure. *out is
   `data`, or the form that another thread added first; then `data` is freed. */
bool qc_tensor_add_form(const void **out, const struct qc_tensor *t, const void *key, size_t key_bytes, void *data,
                        struct qc_status *st);

/* Returns affine levels in the type of a file: levels of small floats are float32 in a graph, others are shared. */
struct qc_tensor *qc_tensor_levels(enum qc_dtype dtype, const struct qc_tensor *t, struct qc_status *st);
