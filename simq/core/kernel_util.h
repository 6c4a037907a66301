// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: helpers that several kernels share. */
#pragma once

#include "graph/core/graph.h"
#include "simq/core/kernel.h"

/* Types with arithmetic, as X(NAME, C type). 16-bit floats are only moved and cast. */
#define QC_KERNEL_FLOATS(X) X(F32, float) X(F64, double)
#define QC_KERNEL_SIGNED(X) X(I8, int8_t) X(I16, int16_t) X(I32, int32_t) X(I64, int64_t)
#define QC_KERNEL_UNSIGNED(X) X(U8, uint8_t) X(U16, uint16_t) X(U32, uint32_t) X(U64, uint64_t)

/* Runs fn over the first output and the first input. fn gets `state`, which it does not change, as its first argument.
   Returns true. */
bool qc_kernel_map(const struct qc_run *r, qc_view_run_fn *fn, const void *state);

/* Fails with QC_UNSUPPORTED: "type f16 is not handled". */
bool qc_kernel_no_type(enum qc_dtype t, struct qc_status *st);

/* The first input is float32 or double. */
bool qc_kernel_takes_real(const struct qc_prepare *p, struct qc_status *st);

/* Sets w to the window of a pool (graph/core/infer.h) in three spatial dimensions: missing ones come first, with
   size 1. w->spatial stays the number of those that exist. */
bool qc_kernel_window(struct qc_window *w, const struct qc_prepare *p, struct qc_status *st);

/* Returns whether input i is present. */
static inline bool qc_kernel_has(const struct qc_prepare *p, unsigned i)
{
    return i < p->input_count && i < p->node->input_count && p->node->inputs[i] != QC_ABSENT;
}

/* Returns whether the weights are large in a large model (graph->spills). They are packed in a temporary file if many
   runs follow. Otherwise matrices of floats are read where they are, not packed in memory, which each plan would need.
   The order of the sums is the same. */
static inline bool qc_kernel_is_large(const struct qc_graph *g, const struct qc_view *constant)
{
    enum { LEAST = 1 << 20 };
    return g->spills && constant->data && qc_view_count(constant) >= LEAST;
}

static inline bool qc_kernel_packs_in_file(const struct qc_prepare *p, const struct qc_view *constant)
{
    return p->many_runs && p->packs && qc_kernel_is_large(p->graph, constant);
}

/* Reads an input that must be known at plan time as integers: out[0..*count). Fails if it is not constant
   (QC_UNSUPPORTED) or has more than max elements (QC_BAD_INPUT); both messages call the input `what`. */
bool qc_kernel_ints(int64_t *out, size_t *count, size_t max, const struct qc_prepare *p, unsigned i, const char *what,
                    struct qc_status *st);

/* Returns the offset of element i in logical order. */
int64_t qc_kernel_offset(const struct qc_view *v, size_t i);
/* Returns element i (in logical order) of an integer tensor. */
int64_t qc_kernel_int_at(const struct qc_view *v, size_t i);

/* Loops of an op for one element type: `fn` over the views and, if set, `last` over the result. */
struct qc_kernel_row {
    enum qc_op op;
    enum qc_dtype type;
    qc_view_run_fn *fn, *last;
};
/* Stores the row for the node's op and the type of its first input as the state, in the arena. Fails if there is
   none. */
bool qc_kernel_choose(struct qc_prepare *p, const struct qc_kernel_row *rows, size_t count, struct qc_status *st);

/* Reads attribute "axis" as [0, rank of input 0). */
bool qc_kernel_axis(int *axis, const struct qc_prepare *p, int64_t otherwise, struct qc_status *st);

static inline void *qc_at(const struct qc_view *v, int64_t offset)
{
    return (char *)v->data + offset * (int64_t)qc_dtype_size(v->dtype);
}

/* Returns the element at an offset of a view of integers of any type. */
static inline int64_t qc_kernel_integer(const struct qc_view *v, int64_t offset)
{
    const struct qc_tensor element = {.dtype = v->dtype, .count = 1, .data = qc_at(v, offset)};
    return qc_tensor_int(&element, 0);
}

/* Reads the index (int32 or int64) at an offset. A negative index counts from the end. Fails if it is outside [0,
   n). */
bool qc_kernel_index_at(int64_t *out, const struct qc_view *indices, int64_t offset, int64_t n, int axis,
                        struct qc_status *st);

/* Returns the element at an offset of a float32 or float64 view. */
static inline double qc_kernel_real(const struct qc_view *v, int64_t offset)
{
    return v->dtype == QC_F32 ? (double)((const float *)v->data)[offset] : ((const double *)v->data)[offset];
}
/* The same for integers too. */
static inline double qc_kernel_number(const struct qc_view *v, int64_t offset)
{
    return v->dtype == QC_I64   ? (double)((const int64_t *)v->data)[offset]
           : v->dtype == QC_I32 ? (double)((const int32_t *)v->data)[offset]
                                : qc_kernel_real(v, offset);
}
static inline void qc_kernel_put_real(const struct qc_view *v, int64_t offset, double value)
{
    if (v->dtype == QC_F32)
        ((float *)v->data)[offset] = (float)value;
    else
        ((double *)v->data)[offset] = value;
}

/* Visits all index vectors of a box, the last dimension fastest, and tracks element offsets in up to 4 views. */
struct qc_walk {
    bool more; /* false: all are visited */
    int rank;
    unsigned count;
    int64_t dim[QC_RANK_MAX], index[QC_RANK_MAX];
    int64_t stride[4][QC_RANK_MAX];
    int64_t at[4]; /* offset of the current index in each view */
};
/* Starts at index 0. The dims are those of views[0]; dimensions in the bit set `without` stay at 0. */
struct qc_walk qc_walk_of(unsigned count, const struct qc_view *const views[], unsigned without);
void qc_walk_next(struct qc_walk *w);
/* A loop with its own struct qc_walk w over the views that follow. */
#define QC_WALK(w, without, ...)                                                                                       \
    for (struct qc_walk w = qc_walk_of(sizeof QC_VIEWS(__VA_ARGS__) / sizeof(void *), QC_VIEWS(__VA_ARGS__), without); \
         w.more; qc_walk_next(&w))

/* Calls fn for every line of n elements along an axis of x and of y, which has the same dims. */
typedef void qc_line_fn(const void *user, void *y, const void *x, int64_t n, int64_t y_step, int64_t x_step);
void qc_lines_each(const struct qc_view *y, const struct qc_view *x, int axis, qc_line_fn *fn, const void *user);

/* Simplifies `count` views of the same dims. Sorts the dimensions by the absolute strides of the first view
   (innermost last), drops those of size 1, and merges neighbours if the memory of all views allows it. Dimensions in
   the bit set *marked (for example reduced ones) merge only with each other. *marked is updated; at least one
   dimension stays marked if one was. The rank stays at least 1. */
void qc_views_simplify(unsigned count, struct qc_view views[], unsigned *marked);

/* Part of a view: dimension d restricted to [begin, begin + count). */
struct qc_view qc_view_part(const struct qc_view *v, int d, int64_t begin, int64_t count);

/* to[i0, i1, ...] = from[map[0][i0], map[1][i1], ...]; map[d] NULL is the identity. Any element size, any strides. */
void qc_view_copy_mapped(const struct qc_view *to, const struct qc_view *from, const int64_t *const map[QC_RANK_MAX]);

/* Writes one element to every position. */
void qc_view_fill(const struct qc_view *to, const void *element);

/* Converts a double to the bits of an element of at most 8 bytes. Integers round half to even and saturate; NaN
   gives 0. */
void qc_element_of(void *element, enum qc_dtype t, double value);

/* Inside simq/: means over dimensions of affine values (ReduceMean, GlobalAveragePool), independent of the type of
   the sums. Sums are row-major in the shape of the result. In a view with the shape of the input, the reduced
   dimensions have stride 0. */

struct qc_mean {
    bool reduced[QC_RANK_MAX];
    bool keep;     /* reduced dimensions have size 1 in the result */
    int64_t count; /* numbers per mean, rounded to float32 as in ONNX Runtime */
};

/* Reads which dimensions the node reduces, and requests scratch of `size` bytes per sum. */
bool qc_mean_of(struct qc_mean *out, struct qc_prepare *p, size_t size, struct qc_status *st);

/* Sets the sums, in the scratch memory, to 0. Returns views of them in the shape of the result (`sums`) and of the
   input (`wide`). t: type of the sums, of the size given to qc_mean_of. */
void qc_mean_sums(struct qc_view *sums, struct qc_view *wide, const struct qc_mean *m, const struct qc_run *r,
                  enum qc_dtype t);

/* Inside simq/: scores of the classifiers of ai.onnx.ml, as ONNX Runtime computes them. */

/* Attribute post_transform. */
enum qc_scores { QC_SCORES_NONE, QC_SCORES_LOGISTIC, QC_SCORES_SOFTMAX, QC_SCORES_SOFTMAX_ZERO, QC_SCORES_PROBIT };

bool qc_scores_of(enum qc_scores *out, const struct qc_node *n, struct qc_status *st);

/* What the one score s of two classes means. */
enum qc_scores_form {
    QC_SCORES_PLAIN, /* nothing: there are as many scores as classes, or the other one stays 0 */
    QC_SCORES_SHARE, /* 1 - s and s */
    QC_SCORES_SIGN   /* -s and s */
};

/* Writes `width` scores from count sums. */
void qc_scores_set(float *y, size_t width, const double *v, size_t count, enum qc_scores transform,
                   enum qc_scores_form form);
