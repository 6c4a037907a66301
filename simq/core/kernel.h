// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: what a kernel is. One kernel (or a family with the same frame) per file; the name in the "kernel"
   column of graph/types/ops.def is the descriptor: QC_OP(..., pool) is qc_kernel_pool. Adding an op is a row and, if
   need be, a file.

   What a kernel may count on:
   - Shapes are fixed, outputs are not empty (a step without output elements is left out), inputs may be.
   - Affine values with bound parameters are f32 numbers q - zero point ("centred") in simulated graphs, stored integers
   q in produced ones. Only kernels of simq/core/integer.h, those that quantize and those that move elements see the
   latter.
   - A kernel of an op with affine behaviour NONE or MERGE gets real values only: the planner dequantizes before it and
   quantizes after it, or takes a kernel of simq/core/integer.h that computes on affine values. KEEP and BOUND
   ops get centred values and move or compare them as they are; the scales matter only where a number enters from
   outside (the value of Pad, the bounds of Clip).
   - Strides may be anything (zero: broadcast; negative: reversed slices), except where the order below says more.
   Transpose, Slice, Split, Expand, Squeeze, Unsqueeze, Reshape and Flatten are mostly only another view of their
   input's memory; their kernels run where constants are folded. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "graph/core/infer.h"
#include "simq/core/view.h"

/* Accumulators that a sum may overflow. A sum starts from the bias, then adds the products (qa - za)(qw - zw) one by
   one. A convolution goes through the kernel positions in row-major order, with the channels of the group inside. A
   matrix product goes through the columns in ascending order.
   A value that does not fit (the bias, or the sum after an addition) wraps modulo 2^bits or saturates.
   QC_OVERFLOW_LAST: the sum is exact (as in a 64-bit accumulator) and only its result saturates. With 32 bits the
   largest result is 2^31 - 128, the largest int32 value that float32 holds. This is the default with 32 bits, so
   that sums of 16-bit activations never wrap silently. */

/* WATCH: sums use 32 bits; overflows of the narrower range are only counted. LAST: see above. */
enum qc_overflow { QC_OVERFLOW_WRAP, QC_OVERFLOW_SATURATE, QC_OVERFLOW_WATCH, QC_OVERFLOW_LAST };

struct qc_accumulator {
    unsigned bits; /* 2 to 32; 0 means 32 with QC_OVERFLOW_LAST */
    enum qc_overflow overflow;
};

/* Statistics of the sums of one layer. They cover the bias and the value after each addition, as unbounded integers. */
struct qc_sums {
    size_t channels;             /* of the result */
    uint64_t results, overflows; /* all results; results with a sum that left the range */
    int64_t *lowest, *highest;   /* [channels] extremes over all results; both start at 0 */
};

/* Inside simq/: instruction sets of the kernels. All of them give the same bits. */

/* Each set includes the previous ones of its processor. Exception: AVX512 and AVX512_VNNI do not require AVX_VNNI
   (256 bits wide).
   NAME, name in the printed plan and in QCALIB_MAX_CPU_ISA */
#define QC_ISAS(X)                                                                                                     \
    X(PLAIN, "plain")                                                                                                  \
    X(NEON, "neon")                                                                                                    \
    X(NEON_DOT, "neon_dot")                                                                                            \
    X(NEON_I8MM, "neon_i8mm")                                                                                          \
    X(AVX2, "avx2")                                                                                                    \
    X(AVX_VNNI, "avx_vnni")                                                                                            \
    X(AVX512, "avx512")                                                                                                \
    X(AVX512_VNNI, "avx512_vnni")                                                                                      \
    X(AMX, "amx_int8")

enum qc_isa {
    QC_ISA_BEST, /* as an upper bound: no limit */
#define QC_X(name, text) QC_ISA_##name,
    QC_ISAS(QC_X)
#undef QC_X
        QC_ISA_COUNT
};

/* Returns the best set that the processor has and that `limit` and the environment variable QCALIB_MAX_CPU_ISA
   allow. */
enum qc_isa qc_isa_detect(enum qc_isa limit);
const char *qc_isa_name(enum qc_isa isa);

/* Packed constants, each stored once per plan however many steps use it. */

struct qc_packed;

bool qc_packed_new(struct qc_packed **out, struct qc_status *st);
void qc_packed_free(struct qc_packed *p); /* NULL-safe */

/* Takes ownership of `data` (allocated, `bytes` long), packed from the constant at `from`. *out: the same bytes,
   either `data` or an equal earlier block of that constant; valid as long as p. *added: bytes by which p grew. Frees
   `data` on failure. */
bool qc_packed_take(void **out, size_t *added, struct qc_packed *p, const void *from, void *data, size_t bytes,
                    struct qc_status *st);

/* Makes room for `bytes` in an unnamed temporary file, valid as long as p. *out is NULL if the disk has none. */
bool qc_packed_room(void **out, struct qc_packed *p, size_t bytes, struct qc_status *st);

/* Memory order of a kernel's operands. For constant folding, all kernels get row-major views. */
enum qc_kernel_order {
    QC_ORDER_ANY,  /* inputs with any strides; outputs are dense: channels-last if a non-constant input of the same rank
                      (3 to 5) is, else row-major */
    QC_ORDER_LAST, /* data input (the first) and outputs are dense channels-last if their rank is 3 to 5, but any
                      strides must work; other inputs are dense row-major */
    QC_ORDER_MATRIX, /* as QC_ORDER_ROW, but the first two inputs may be matrices with batch dimensions, rows and
                        columns in any order; one of the last two dimensions is contiguous */
    QC_ORDER_ROW     /* outputs and non-constant inputs are dense row-major; constants always are */
};

/* Resolved parameters of an affine value. Real values and qparams that are unbound or off give identity: scale 1,
   zero point 0. */
struct qc_scales {
    qc_id qparams; /* 0 for real */
    bool identity;
    bool
        rounds; /* values are integers within the levels; false for identity and for products with an identity factor */
    bool product;  /* an accumulator's qparams */
    size_t count;  /* 1, or the size of the axis; for blocks see graph/core/parameters.h */
    int64_t block; /* elements per block along the axis; 0: no blocks */
    int axis;      /* of the value */
    const float *scale;
    const int32_t *zero_point;
    struct qc_levels levels;
};

/* Work of a multiply-accumulate kernel on its accumulator before it writes. Input 2 of a fused step is the bias, of
   the node itself or of an Add after it. */
struct qc_fusion {
    const struct qc_scales *from; /* scales of the accumulator; the result is in out_scales[0] */
    bool residual;                /* output 0 holds numbers to add to the result first (all real) */
    float lo, hi; /* clamp of the result, -inf and inf for none; in centred units if the result is affine */
};

struct qc_body_watch;

/* Arguments of `prepare`, at plan time. Shapes, strides and constants are fixed. */
struct qc_prepare {
    const struct qc_graph *graph; /* with fixed shapes */
    const struct qc_node *node;
    unsigned input_count, output_count; /* absent trailing inputs may or may not be counted */
    const struct qc_view
        *in; /* [input_count]; data is set for constants only; rank -1, dtype none and data NULL if absent */
    const struct qc_view *out; /* [output_count]; data NULL */
    const struct qc_scales *in_scales, *out_scales;
    bool affine;                    /* some input or output is affine with bound parameters */
    const struct qc_fusion *fusion; /* NULL: none; set only for kernels with `fuses` */
    enum qc_isa isa;                /* from qc_isa_detect */
    struct qc_accumulator accumulator;
    bool many_runs;                    /* struct qc_plan_options */
    bool int16;                        /* operands of integer products are held as int16 */
    enum qc_contract contract;         /* of rounding */
    struct qc_arena *arena;            /* for state; valid as long as the plan */
    struct qc_packed *packs;           /* for packed constants, valid as long as the plan; NULL: a step keeps its own */
    const struct qc_uses *uses;        /* of `graph`; NULL unless pairs of products saturate */
    const struct qc_body_watch *watch; /* observes runs of bodies; NULL: no observer */
    /* Set by prepare: */
    void *state;              /* passed to run */
    size_t scratch;           /* bytes per worker during run; the pointer is 64-byte aligned */
    uint64_t packed;          /* bit i: constant input i is packed in the state, and run does not get its data */
    size_t constant_bytes;    /* bytes of state outside the arena */
    size_t overflow_channels; /* channels of the result if the accumulator can overflow, else 0 */
    const char *detail;       /* implementation, for the printed plan; valid as long as the state; may be NULL */
};

/* Arguments of `run`. The data pointers of a runner never change, so `open` may bind them once. */
struct qc_run {
    const void *state;
    void *local; /* made by `open` */
    unsigned input_count, output_count;
    const struct qc_view *in; /* with data; rank -1 if absent */
    const struct qc_view *out;
    void *scratch;
};

struct qc_kernel {
    const char *name;
    enum qc_kernel_order order;
    bool alias;     /* output 0 is the row-major memory of input 0 with another shape (Reshape) */
    bool fuses;     /* supports qc_prepare.fusion */
    bool takes_any; /* no numbers make `run` fail: a step whose results nobody needs may be left out */
    const struct qc_kernel *in_double; /* replacement if the first input is float64, or NULL */
    bool halves;       /* accepts 16-bit floats: it moves or converts elements. Other kernels get float32 copies */
    uint64_t in_place; /* bit i: output 0 may use the memory of input i if both are dense with the same dims, strides
                          and element size */
    bool (*prepare)(struct qc_prepare *p, struct qc_status *st); /* may be NULL */
    bool (*run)(const struct qc_run *r, struct qc_status *st);
    /* Returns results whose shapes depend on data, as new tensors (outputs[k], NULL before). Inputs are dense
       row-major. NULL: the planner infers the shapes again from the inputs. */
    bool (*make)(struct qc_tensor **outputs, const struct qc_run *r, struct qc_status *st);
    void (*release)(void *state); /* frees state outside the arena, also after a failed prepare; may be NULL */
    /* May be NULL. Makes *local for a runner, whose data pointers are final; close frees it. */
    bool (*open)(void **local, const struct qc_run *r, struct qc_status *st);
    void (*close)(void *local);
    /* Returns the statistics of accumulators of fewer than 32 bits so far. NULL for kernels without them. */
    const struct qc_sums *(*sums)(const void *local);
};

/* Allocates the state of a kernel in `prepare`, zeroed. NULL if out of memory. */
#define QC_NEW_STATE(p, T, st) ((T *)((p)->state = qc_arena_get((p)->arena, 1, sizeof(T), (st))))

/* Defines the kernel qc_kernel_NAME_; the arguments are its members. */
#define QC_KERNEL(name_, ...) const struct qc_kernel qc_kernel_##name_ = {.name = #name_, __VA_ARGS__}

const struct qc_kernel *qc_kernel_of(enum qc_op op);

/* Prepares a kernel. Replaces it by qc_kernel_halves if it gets 16-bit floats and does not support them. Fails as
   `prepare` does; p->state may then be set, and the kernel's release frees it. */
bool qc_kernel_prepare(const struct qc_kernel **kernel, struct qc_prepare *p, struct qc_status *st);
extern const struct qc_kernel qc_kernel_halves;
extern const struct qc_kernel qc_kernel_unary_double, qc_kernel_softmax_double, qc_kernel_gemm_double;

#define QC_OP(op, onnx, in_min, in_max, out_max, affine, rule, kernel) extern const struct qc_kernel qc_kernel_##kernel;
#include "graph/types/ops.def"
