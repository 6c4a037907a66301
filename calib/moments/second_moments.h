// SPDX-License-Identifier: Apache-2.0
/* Second moments of the inputs of a graph's layers. For every Conv, ConvTranspose, Gemm and MatMul with a quantized
   constant weight they are the Gram matrix sum(x x') and the sum of its input columns x, a matrix for each group. For a
   convolution x is an im2col column, zeros of padding included. For W and R of every RNN, GRU and LSTM they are those
   of its input and of its states over all steps. They are collected on the float network, in the pass that fills the
   histograms.

   EXACT MERGING. A sample's input is rounded to integers of at most 11 bits and a sign: x ~ q 2^(2e-11). The step e is
   the least integer with max|x| < 2^(2e), the maximum over the layer's whole input in that sample. Four steps form a
   class, c = floor((e+1)/4), so that activations from 1/16 to 16 share one class. Products and sums are added as
   integers, shifted to the unit of the class's lowest step: one set of int64 sums for each class, with room for 2^29
   rows. The two highest classes seen are kept. A sample of a lower class has less than 2^-8 of the largest magnitude,
   and its products less than 2^-16; it counts as zeros. Integer sums do not depend on order, and the top of the whole
   multiset alone decides which classes are kept. So the sums are a pure function of the multiset of samples: the same
   bytes for any threads, order, shards or merge tree.

   POSITIONS. Of N output positions of a sample P are used (qc_second_moments_positions), evenly spaced with a jitter
   from the sample's key (a hash of its input bytes, calib/statistics/stream.h). So different samples use different
   positions, and the order of the samples does not matter.

   PARTS. Samples with key % 8 == 0 go to a second set of sums, held out to judge fits to the first.

   ROWS. For wide layers the rows of a class are kept until they are as many as columns; then the sums of their products
   replace them. Both give the same results, from the same integers.

   CENTRED INPUTS. A product that reads x minus a constant per channel has the moments of x, padding included; reading
   them subtracts the constant.

   BLOCKS. Matrices of more than `block` columns are split into equal blocks along the diagonal, without the products
   between blocks. */
#pragma once

#include "graph/core/infer.h"
#include "simq/core/view.h"

enum {
    QC_MOMENTS_STEPS = 4,
    QC_MOMENTS_LOWEST = -1,
    QC_MOMENTS_CLASSES = 2,
    QC_MOMENTS_ROWS_MAX = 1 << 29,
    QC_MOMENTS_BLOCK = 8192,
    QC_MOMENTS_BLOCK_MIN = 128,
    QC_MOMENTS_POSITIONS = 128,
    QC_MOMENTS_POSITIONS_MOST = 512,
    QC_MOMENTS_HELD_ONE_IN = 8
};

#define QC_MOMENTS_NO_PEAK (-1.0f)

enum qc_second_moments_part { QC_MOMENTS_FIT, QC_MOMENTS_HELD, QC_MOMENTS_PARTS };

struct qc_second_moments_chunk; /* calib/moments/moments_parts.h */

/* Sums of one class, in units of 2^(8c-13) and its square. */
struct qc_second_moments_sums {
    int64_t *sums;     /* [groups * columns]; NULL: class not seen */
    int64_t *products; /* [product_count] of the layer; NULL: `narrow`, rows or nothing in their place */
    int32_t *narrow;   /* the same in 32 bits, in units `base` steps higher (calib/moments/moments_parts.h) */
    int base;
    int64_t most;                         /* no entry of `narrow` is larger in magnitude */
    struct qc_file_map *file;             /* file that holds the products, or NULL */
    bool away;                            /* the file is read-only (qc_second_moments_put_away) */
    struct qc_second_moments_chunk *rows; /* kept rows; row_count: their number */
    size_t row_count;
    struct qc_file_map *row_file; /* file that holds rows while it has room, or NULL */
    size_t row_bytes, row_room;   /* its used and total bytes */
};

struct qc_second_moments_moments {
    bool seen;   /* some sample was not all zeros */
    int32_t top; /* highest class, if seen */
    uint64_t rows, samples;
    uint64_t skipped; /* samples with NaN or infinity; not counted in rows and samples */
    struct qc_second_moments_sums of[QC_MOMENTS_CLASSES]; /* class c at (c mod 2), for top - 2 < c <= top */
};

/* Columns of a group are ordered [taps][channels of the group]. Taps are in row-major order of the kernel, one for Gemm
   and MatMul. */
struct qc_second_moments_layer {
    qc_id value;          /* its float input; 0: read from a file */
    const char *name;     /* of that value */
    const char *geometry; /* "rows", "states" (of a recurrent operator), or the window as text. Layers with equal name,
                             geometry, groups and outputs share their moments */
    size_t groups, outputs, channels, taps; /* outputs and channels: of all groups */
    size_t columns;                         /* of a group: taps * channels / groups */
    size_t block, blocks;                   /* columns of a block (the last may have fewer), blocks of a group */
    bool lanes; /* many small matrices: products are [pair of columns][groups]; else [groups][blocks] of triangles */
    size_t product_count; /* 0: only means */
    size_t keep;          /* most rows of a class that are kept, in less memory than their products; 0: none */
    size_t rows_max;      /* of all classes together, if known in advance (qc_second_moments_expect); else 0 */
    bool recurrent;       /* input of a weight of an RNN, GRU or LSTM */
    bool few_levels;      /* a weight multiplied with it has few levels (qc_qparams_are_few) */
    int direction_axis;   /* of states: the dimension of directions, which are the groups; else 0 */
    bool window_given;    /* Conv or ConvTranspose: `window` is set */
    bool transposed;
    struct qc_window window;
    const double *divisor; /* [channels]: divides its input since collection; borrowed; NULL: none */
    const double *centre;  /* [channels]: then subtracted from it (rewrite/passes/centre.h); NULL: none */
    bool paired;           /* from qc_second_moments_new_pairs: twice the channels of the weight */
    bool borrowed;         /* the sums belong to another layer (qc_second_moments_for) */
    bool spills;           /* products and rows are in temporary files (qc_second_moments_spill) */
    struct qc_second_moments_moments parts[QC_MOMENTS_PARTS];
};

struct qc_second_moments; /* all layers of a graph */

/* QUANTIZED: layers with quantized weights of a simulated graph, bound or not. ALL: layers with constant weights of a
   float graph. */
enum qc_second_moments_layers { QC_MOMENTS_QUANTIZED, QC_MOMENTS_ALL };

/* Returns the quantized constant weight that a node of a simulated graph reads as its second input, directly or, with
   weight-only quantization, through a Dequantize. 0: there is none. */
qc_id qc_second_moments_weight(const struct qc_graph *g, const struct qc_node *n);

/* The two weights of an RNN, GRU or LSTM: W, multiplied with the input, and R, multiplied with the state. */
enum qc_second_moments_recurrent { QC_MOMENTS_INPUT, QC_MOMENTS_STATE, QC_MOMENTS_RECURRENT };
/* Returns a quantized constant weight of a recurrent node; 0: there is none. */
qc_id qc_second_moments_recurrent_weight(const struct qc_graph *g, const struct qc_node *n,
                                         enum qc_second_moments_recurrent which);

/* Finds the layers of a graph. block: largest number of columns of a matrix (0: QC_MOMENTS_BLOCK). */
bool qc_second_moments_new(struct qc_second_moments **out, const struct qc_graph *g,
                           enum qc_second_moments_layers which, size_t block, struct qc_status *st);
/* The same for a simulated graph, but only means, separately for each node, in a fraction of the time and memory. Keys
   of an earlier run select the same positions. */
bool qc_second_moments_new_means(struct qc_second_moments **out, const struct qc_graph *g, struct qc_status *st);
/* The same, but with products for the nodes in `pairs` [node_count + 1], which have one group. Their input has twice
   the channels: the value the node reads, then the float value minus it. Positions are those of the other moments. */
bool qc_second_moments_new_pairs(struct qc_second_moments **out, const struct qc_graph *g, const bool *pairs,
                                 struct qc_status *st);
/* Frees the sums of a node's layer and, for pairs, its buffers; after qc_second_moments_end. */
void qc_second_moments_forget(struct qc_second_moments *m, qc_id node);
void qc_second_moments_free(struct qc_second_moments *m); /* NULL-safe */

/* Returns the most columns of a block, with which equal layers get the same layout. 0 without layers. */
size_t qc_second_moments_block(const struct qc_second_moments *m);
/* Makes the moments for another simulated graph of the same float graph, such as one with fewer quantizers. Layers are
   found by name and geometry. Their sums belong to m, which must outlive *out and not change. *out is NULL, without an
   error, if m lacks a layer of g: they must be collected again. */
bool qc_second_moments_for(struct qc_second_moments **out, const struct qc_second_moments *m, const struct qc_graph *g,
                           struct qc_status *st);

size_t qc_second_moments_count(const struct qc_second_moments *m);
struct qc_second_moments_layer *qc_second_moments_at(const struct qc_second_moments *m, size_t i);
/* Returns the layer of a node, which several nodes may share, or NULL. *reason tells why a quantized
   multiply-accumulate operator has none. */
struct qc_second_moments_layer *qc_second_moments_of(const struct qc_second_moments *m, const char **reason,
                                                     qc_id node);

/* The same for a weight of a recurrent node; NULL: there is none. */
struct qc_second_moments_layer *qc_second_moments_of_recurrent(const struct qc_second_moments *m, qc_id node,
                                                               enum qc_second_moments_recurrent which);

/* Announces `runs` runs with `elements` elements of a value each (0: unknown): layers with few positions will keep
   their rows, in less memory. For the current layout, before anything is observed. */
void qc_second_moments_expect(struct qc_second_moments *m, qc_id value, size_t elements, size_t runs);

/* Puts products and rows of wide layers into unnamed temporary files: each worker holds at most one matrix in memory.
   Results do not change. Before anything is observed. */
void qc_second_moments_spill(struct qc_second_moments *m);

/* Moves products into a temporary file if they take more than `most` bytes and a file has room. Adding to a layer later
   brings its products back. After qc_second_moments_end. */
bool qc_second_moments_put_away(struct qc_second_moments *m, size_t most, struct qc_status *st);

/* Upper bounds of bytes: of the sums if every layer meets both classes, including spilled ones; of those in memory; of
   one worker's buffers. */
size_t qc_second_moments_bytes(const struct qc_second_moments *m);
size_t qc_second_moments_held_bytes(const struct qc_second_moments *m);
size_t qc_second_moments_worker_bytes(const struct qc_second_moments *m);
/* Returns the bytes of a class in memory while a spilled layer is in use; 0 if it is not spilled. */
size_t qc_second_moments_spilled_bytes(const struct qc_second_moments_layer *l);

/* Returns the number of values to observe and, in *values, each once; borrowed. */
size_t qc_second_moments_values(const qc_id **values, const struct qc_second_moments *m);

/* Returns the rows used of a sample with n output positions: a fourth, at least 128 and at most 256; of large samples a
   64th, at most 512. Upper limits are n, 16 columns, and n outputs / columns (of a group), which limits the products to
   half the work of the layer itself but not below 16 rows. The number depends only on the sample's size, so that
   merging is exact. docs/decisions/0011-second-moments-in-the-first-pass.md has the measurements. */
size_t qc_second_moments_positions(const struct qc_second_moments_layer *l, size_t n);

/* Collection: begin makes the buffers of the workers, observe adds a sample of one observed value (any layout), end
   empties the buffers. peak: the largest magnitude in v, +infinity if an element is not finite, or QC_MOMENTS_NO_PEAK
   if unknown. Several workers may call qc_second_moments_observe at the same time. */
bool qc_second_moments_begin(struct qc_second_moments *m, unsigned workers, struct qc_status *st);
bool qc_second_moments_observe(struct qc_second_moments *m, unsigned worker, uint64_t key, qc_id value, float peak,
                               const struct qc_view *v, struct qc_status *st);
/* The same for one node's layer, for any value. */
bool qc_second_moments_observe_layer(struct qc_second_moments *m, unsigned worker, uint64_t key, qc_id node,
                                     const struct qc_view *v, struct qc_status *st);
/* Adds a sample to a layer of qc_second_moments_new_pairs: the value it reads, dense, and the float value in the same
   order. peak: the largest magnitude in v and in real - v (moments_kernel.h). */
bool qc_second_moments_observe_pair(struct qc_second_moments *m, unsigned worker, uint64_t key, qc_id node, float peak,
                                    const struct qc_view *v, const float *real, struct qc_status *st);
bool qc_second_moments_end(struct qc_second_moments *m, struct qc_status *st);
/* The same for the layers of these nodes only; the others observed nothing. */
bool qc_second_moments_end_layers(struct qc_second_moments *m, size_t count, const qc_id *nodes, struct qc_status *st);
/* Frees the buffers; no samples may follow. */
void qc_second_moments_close(struct qc_second_moments *m);

/* For files and merging: adds counts. */
void qc_second_moments_add_counts(struct qc_second_moments_moments *to, uint64_t rows, uint64_t samples,
                                  uint64_t skipped);
/* Adds all moments of a layer with the same groups, columns and block. Fails with QC_BAD_INPUT if they differ, or with
   more than QC_MOMENTS_ROWS_MAX rows. */
bool qc_second_moments_add(struct qc_second_moments_layer *to, const struct qc_second_moments_layer *from,
                           struct qc_status *st);

/* Makes layers without a graph, as a file describes them, from name, geometry, groups, outputs, channels, taps and
   block; strings are copied. Fails with QC_BAD_INPUT on invalid sizes or equal layers. */
bool qc_second_moments_restore(struct qc_second_moments **out, size_t count,
                               const struct qc_second_moments_layer *layers, struct qc_status *st);
/* Adds the moments of the same layers. Fails with QC_BAD_INPUT if layers or blocks differ. */
bool qc_second_moments_merge(struct qc_second_moments *to, const struct qc_second_moments *from, struct qc_status *st);
/* Makes the layers of a simulated graph with moments moved from `seen`, which is freed on success. source: its file,
   for messages. Fails with QC_BAD_INPUT, naming the layer that `seen` lacks. */
bool qc_second_moments_bind(struct qc_second_moments **out, struct qc_second_moments *seen, const struct qc_graph *g,
                            const char *source, struct qc_status *st);

/* Returns true if any layer keeps rows in place of products. */
bool qc_second_moments_keeps_rows(const struct qc_second_moments *m);

/* Reads the mean second moments h [w][w] and the mean [w] of a block of a group, over the rows of the parts whose bit
   (1 << part) is set; w = qc_second_moments_width. Zeros without rows. */
size_t qc_second_moments_width(const struct qc_second_moments_layer *l, size_t block);
/* The mean only, of columns first .. first + count of a group; works without products. */
void qc_second_moments_read_mean(double *mean, const struct qc_second_moments_layer *l, unsigned parts, size_t group,
                                 size_t first, size_t count);
void qc_second_moments_read(double *h, double *mean, const struct qc_second_moments_layer *l, unsigned parts,
                            size_t group, size_t block);
/* The same, but writes only the diagonal of h and the elements below it. */
void qc_second_moments_read_lower(double *h, double *mean, const struct qc_second_moments_layer *l, unsigned parts,
                                  size_t group, size_t block);
/* Reads one column of h, or its diagonal, into [w]. Not for layers with lanes. */
void qc_second_moments_read_column(double *to, const struct qc_second_moments_layer *l, unsigned parts, size_t group,
                                   size_t block, size_t column);
void qc_second_moments_read_diagonal(double *to, const struct qc_second_moments_layer *l, unsigned parts, size_t group,
                                     size_t block);
/* Returns true if the parts have rows only, no products. */
bool qc_second_moments_are_rows(const struct qc_second_moments_layer *l, unsigned parts);
/* Reads U' [count][w] with h = U U' from rows only, one row for each distinct row observed. to: room for one row more
   than qc_second_moments_rows. centre: NULL, or [w]: h is then the mean of (x - centre)(x - centre)'. */
bool qc_second_moments_read_rows(float *to, size_t *count, const struct qc_second_moments_layer *l, unsigned parts,
                                 size_t group, size_t block, const double *centre, struct qc_status *st);
/* Returns the number of rows of the parts. */
uint64_t qc_second_moments_rows(const struct qc_second_moments_layer *l, unsigned parts);
