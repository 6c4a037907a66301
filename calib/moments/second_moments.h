// SPDX-License-Identifier: Apache-2.0
/* Second moments of what the layers of a graph multiply their weights with: for every Conv, ConvTranspose, Gemm and
   MatMul with a quantized constant weight the Gram matrix sum(x x') and the sum of its input columns x (a
   convolution's: im2col columns, zeros of padding included), a matrix for each group; and for W and R of every RNN, GRU
   and LSTM those of its input and of its states over all steps. Statistics of the real network,
   taken in the pass that fills the histograms.

   EXACT IN MERGING. A sample's input is rounded to integers of at most 11 bits and a sign: x ~ q 2^(2e-11), where the
   step e is the least integer with max|x| < 2^(2e), the maximum over the layer's whole input in that sample. Products
   and sums of such integers are added up as integers, shifted to the unit of the lowest of the four steps of a class, c
   = floor((e+1)/4) - so that activations of usual size, from 1/16 to 16, are of one class -: one set of int64 sums for
   each class, with room for 2^29 rows. Kept are the two highest classes seen. A sample of a lower class is less than
   2^-8 of the largest in magnitude, its products less than 2^-16; it counts as zeros. Integers add up the same in any
   order, and a class is kept or not by the top of the whole multiset alone; so the sums are a pure function of the
   multiset of samples: same bytes for any threads, order, shards or merge tree.

   POSITIONS. Of N output positions of a sample P are taken, the fixed rule qc_second_moments_positions below, spread
   evenly with a jitter drawn from the sample's key (a hash of its input bytes, calib/statistics/stream.h), so that
   different samples show different positions and a file in another order the same.

   PARTS. Samples with key % 8 == 0 go to a second set of sums, held back to judge what was fitted to the first.

   ROWS. Of wide layers the rows of a class are kept until they are as many as columns; then the sums of their products
   take their place. Whatever is read is computed from the same integers, so it is the same.

   BLOCKS. Matrices of more than `block` columns are split into equal blocks along the diagonal; products between blocks
   are not taken. */
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

struct qc_second_moments_chunk; /* calib/moments/moments_rows.h */

/* Sums of one class, in units of 2^(8c-13) and its square. */
struct qc_second_moments_sums {
    int64_t *sums;     /* [groups * columns]; NULL: class not seen */
    int64_t *products; /* [product_count] of the layer; NULL: they are narrow, or rows in their place, or none */
    int32_t *narrow;   /* the same in 32 bits, in units of `base` steps more (calib/moments/moments_products.h) */
    int base;
    int64_t most;                         /* no entry of `narrow` is larger in magnitude */
    struct qc_file_map *file;             /* that products lie in, or NULL */
    bool away;                            /* they are only read there (qc_second_moments_put_away) */
    struct qc_second_moments_chunk *rows; /* their number: */
    size_t row_count;
    struct qc_file_map *row_file; /* that they lie in while there is room, or NULL */
    size_t row_bytes, row_room;   /* of it: taken, and all */
};

struct qc_second_moments_moments {
    bool seen;   /* some sample was not all zeros */
    int32_t top; /* highest class, when seen */
    uint64_t rows, samples;
    uint64_t skipped;                                     /* samples with NaN or infinity: not in the others */
    struct qc_second_moments_sums of[QC_MOMENTS_CLASSES]; /* class c at (c mod 2), for top - 2 < c <= top */
};

/* Columns of a group are ordered [taps][channels of the group]; taps in row-major order of the kernel, 1 for Gemm and
 * MatMul. */
struct qc_second_moments_layer {
    qc_id value;          /* its real input; 0: read from a file */
    const char *name;     /* of that value */
    const char *geometry; /* "rows", "states" (of a recurrent op), or the window in words. Name, geometry, groups and
                             outputs tell layers apart: others have the same moments */
    size_t groups, outputs, channels, taps; /* outputs and channels of all groups */
    size_t columns;                         /* of a group: taps * channels / groups */
    size_t block, blocks;                   /* blocks of a group, columns of a block (the last may have fewer) */
    bool lanes;           /* matrices side by side: products [pair of columns][groups]; else [groups][blocks] of
                             triangles */
    size_t product_count; /* 0: means alone */
    size_t keep; /* so many rows of a class are kept as they are, in less memory than their products would take; 0:
                    never */
    size_t
        rows_max;   /* of all classes together, where it is known before they come (qc_second_moments_expect); else 0 */
    bool recurrent; /* of a weight of an RNN, GRU or LSTM */
    bool few_levels;    /* a weight that is multiplied with it has few (qc_qparams_are_few) */
    int direction_axis; /* of states: the dimension of directions, which are the groups; else 0 */
    bool window_given;  /* Conv, ConvTranspose: window */
    bool transposed;
    struct qc_window window;
    const double *divisor; /* [channels]: what its input is divided by since it was seen; borrowed. NULL: nothing */
    bool paired;           /* qc_second_moments_new_pairs: channels are twice those of the weight */
    bool borrowed;         /* the sums of its parts are another's (qc_second_moments_for) */
    bool spills;           /* products and rows lie in temporary files (qc_second_moments_spill) */
    struct qc_second_moments_moments parts[QC_MOMENTS_PARTS];
};

/* Where a value is known to be a layer's input but its moments cannot be taken. */
struct qc_second_moments_refusal {
    qc_id node;
    const char *reason;
};

struct qc_second_moments; /* all layers of a graph */

/* QUANTIZED: of a simulated graph, bound or not, the layers whose weights are quantized. ALL: of a float graph,
 * whatever has constant weights. */
enum qc_second_moments_layers { QC_MOMENTS_QUANTIZED, QC_MOMENTS_ALL };

/* The Quantize of the constant weight that a node of a simulated graph reads as its second input, whether it reads the
   integers or, where only weights are quantized, the real numbers behind them. NULL: it reads none. */
const struct qc_node *qc_second_moments_weight(const struct qc_graph *g, const struct qc_node *n);

/* The two weights of an RNN, GRU or LSTM, W and R, and what they are multiplied with. */
enum qc_second_moments_recurrent { QC_MOMENTS_INPUT, QC_MOMENTS_STATE, QC_MOMENTS_RECURRENT };
/* The Quantize of a constant weight behind a recurrent node; NULL: it is none. */
const struct qc_node *qc_second_moments_recurrent_weight(const struct qc_graph *g, const struct qc_node *n,
                                                         enum qc_second_moments_recurrent which);

/* Finds the layers of a graph. block: at most so many columns of a matrix (0: QC_MOMENTS_BLOCK). */
bool qc_second_moments_new(struct qc_second_moments **out, const struct qc_graph *g,
                           enum qc_second_moments_layers which, size_t block, struct qc_status *st);
/* The same of a simulated graph, but of the inputs' means alone, for each node by itself: no products, a fraction of
   the time and memory. With the keys of a run before they are of the same positions. */
bool qc_second_moments_new_means(struct qc_second_moments **out, const struct qc_graph *g, struct qc_status *st);
/* The same, but with products of the nodes that `pairs` [node_count + 1] names, which have one group: what they are
   shown has twice the channels, what the node reads and behind it how far the float network is from that. Positions are
   those of the others. */
bool qc_second_moments_new_pairs(struct qc_second_moments **out, const struct qc_graph *g, const bool *pairs,
                                 struct qc_status *st);
/* Gives back what a node's layer has summed up, and of a pair the buffers; after qc_second_moments_end. */
void qc_second_moments_forget(struct qc_second_moments *m, qc_id node);
void qc_second_moments_free(struct qc_second_moments *m); /* NULL-safe */

/* The most columns of a block: with it the same layers are laid out the same. 0 without layers. */
size_t qc_second_moments_block(const struct qc_second_moments *m);
/* The moments for another simulated graph of the same real one - one that quantizes less, say -: layers are found by
   name and geometry, their sums are those of m, which is to outlive *out, and to stay as it is. *out is NULL (and no
   error) when a layer of g is not in m: then they have to be taken again. */
bool qc_second_moments_for(struct qc_second_moments **out, const struct qc_second_moments *m, const struct qc_graph *g,
                           struct qc_status *st);

size_t qc_second_moments_count(const struct qc_second_moments *m);
struct qc_second_moments_layer *qc_second_moments_at(const struct qc_second_moments *m, size_t i);
/* The layer of a node - of several, where they have the same moments -, or NULL; *reason says why, when it is a
 * multiply-accumulate op that is quantized. */
struct qc_second_moments_layer *qc_second_moments_of(const struct qc_second_moments *m, const char **reason,
                                                     qc_id node);

/* The same of a weight of a recurrent node; NULL: there is none. */
struct qc_second_moments_layer *qc_second_moments_of_recurrent(const struct qc_second_moments *m, qc_id node,
                                                               enum qc_second_moments_recurrent which);

/* What `runs` runs will show of a value, `elements` (0: not known) each: layers that see few positions keep their rows,
   in less memory. For the layout in force, before anything is observed. */
void qc_second_moments_expect(struct qc_second_moments *m, qc_id value, size_t elements, size_t runs);

/* From now on products and rows of wide layers come to lie in temporary files without a name: in memory is one matrix
   for each worker at most. Whatever is read is the same. Before anything is observed. */
void qc_second_moments_spill(struct qc_second_moments *m);

/* Puts products into a temporary file, from which layers read them one after the other, if they take more than `most`
   bytes and there is room for one. What is added to a layer later takes its products back. After
   qc_second_moments_end. */
bool qc_second_moments_put_away(struct qc_second_moments *m, size_t most, struct qc_status *st);

/* Bytes of the sums, when every layer has met both classes, and of one worker's buffers. Where some are spilled, all of
   them, and what is in memory. */
size_t qc_second_moments_bytes(const struct qc_second_moments *m);
size_t qc_second_moments_held_bytes(const struct qc_second_moments *m);
size_t qc_second_moments_worker_bytes(const struct qc_second_moments *m);
/* What is in memory of a layer that is spilled while somebody is at it: of one class; else 0. */
size_t qc_second_moments_spilled_bytes(const struct qc_second_moments_layer *l);

/* The values to be observed, each once; borrowed. */
size_t qc_second_moments_values(const qc_id **values, const struct qc_second_moments *m);

/* Rows of a sample with n output positions: a fourth of them, at least 128 and at most 256, of large samples a 64th, at
   most 512; of all that at most n, 16 columns, and outputs n / columns (of a group), which makes the products half the
   work of the layer itself, but 16 in any case. It depends on the sample's size alone, so that merging is exact.
   docs/decisions/0011-second-moments-in-the-first-pass.md has the table behind it. */
size_t qc_second_moments_positions(const struct qc_second_moments_layer *l, size_t n);

/* Accumulation: makes the buffers of the workers; takes a sample of one observed value (any layout); empties the
   buffers. peak: the largest magnitude in v, +infinity when one is not finite; or QC_MOMENTS_NO_PEAK when the caller
   does not know. qc_second_moments_observe may be called by different workers at the same time. */
bool qc_second_moments_begin(struct qc_second_moments *m, unsigned workers, struct qc_status *st);
bool qc_second_moments_observe(struct qc_second_moments *m, unsigned worker, uint64_t key, qc_id value, float peak,
                               const struct qc_view *v, struct qc_status *st);
/* The same of one layer, whatever the value is called. */
bool qc_second_moments_observe_layer(struct qc_second_moments *m, unsigned worker, uint64_t key, qc_id node,
                                     const struct qc_view *v, struct qc_status *st);
/* Of a layer of qc_second_moments_new_pairs: what it reads, dense, and the float form in the same order. peak: the
 * largest magnitude in v and in real - v (moments_kernel.h). */
bool qc_second_moments_observe_pair(struct qc_second_moments *m, unsigned worker, uint64_t key, qc_id node, float peak,
                                    const struct qc_view *v, const float *real, struct qc_status *st);
bool qc_second_moments_end(struct qc_second_moments *m, struct qc_status *st);
/* Gives the buffers back: there are no more samples to come. */
void qc_second_moments_close(struct qc_second_moments *m);

/* For files and merging: adds counts. */
void qc_second_moments_add_counts(struct qc_second_moments_moments *to, uint64_t rows, uint64_t samples,
                                  uint64_t skipped);
/* Adds all of one layer's moments to those of an equal layer (same groups, columns, block). Errors: another one; more
 * rows than QC_MOMENTS_ROWS_MAX. */
bool qc_second_moments_add(struct qc_second_moments_layer *to, const struct qc_second_moments_layer *from,
                           struct qc_status *st);

/* Layers without a graph, as a file describes them: name, geometry, groups, outputs, channels, taps and block are
   taken, strings copied. Errors (QC_BAD_INPUT): sizes that make no sense, two equal layers. */
bool qc_second_moments_restore(struct qc_second_moments **out, size_t count,
                               const struct qc_second_moments_layer *layers, struct qc_status *st);
/* Adds the moments of the same layers. Errors (QC_BAD_INPUT): other layers, other blocks. */
bool qc_second_moments_merge(struct qc_second_moments *to, const struct qc_second_moments *from, struct qc_status *st);
/* The layers of a simulated graph with their moments out of `seen`, which has all of them, and is freed (in case of
   success). source: its file, for messages. Errors (QC_BAD_INPUT) name a layer that it does not have. */
bool qc_second_moments_bind(struct qc_second_moments **out, struct qc_second_moments *seen, const struct qc_graph *g,
                            const char *source, struct qc_status *st);

/* Are there rows in place of products anywhere? */
bool qc_second_moments_keeps_rows(const struct qc_second_moments *m);

/* Mean second moments h [w][w] and mean [w] of block b of a group over the rows of the parts whose bit (1 << part) is
 * set; w = qc_second_moments_width. Zeros without rows. */
size_t qc_second_moments_width(const struct qc_second_moments_layer *l, size_t block);
/* Of columns first .. first + count of a group the mean alone; what qc_second_moments_new_means made has only this. */
void qc_second_moments_read_mean(double *mean, const struct qc_second_moments_layer *l, unsigned parts, size_t group,
                                 size_t first, size_t count);
void qc_second_moments_read(double *h, double *mean, const struct qc_second_moments_layer *l, unsigned parts,
                            size_t group, size_t block);
/* The same, but of h the diagonal and what is below it alone: the rest stays as it is. */
void qc_second_moments_read_lower(double *h, double *mean, const struct qc_second_moments_layer *l, unsigned parts,
                                  size_t group, size_t block);
/* One column of h, and its diagonal, to [w]. Not of layers with lanes. */
void qc_second_moments_read_column(double *to, const struct qc_second_moments_layer *l, unsigned parts, size_t group,
                                   size_t block, size_t column);
void qc_second_moments_read_diagonal(double *to, const struct qc_second_moments_layer *l, unsigned parts, size_t group,
                                     size_t block);
/* Where nothing but rows is kept: U' [count][w] with h = U U', each of one row that was seen, those that are alike
   together. *kept is false where some sums are of products. to: room for qc_second_moments_rows and one more. centre:
   [w], and h is the mean of (x - centre)(x - centre)', or NULL. */
bool qc_second_moments_read_rows(bool *kept, float *to, size_t *count, const struct qc_second_moments_layer *l,
                                 unsigned parts, size_t group, size_t block, const double *centre,
                                 struct qc_status *st);
/* Rows that the parts have. */
uint64_t qc_second_moments_rows(const struct qc_second_moments_layer *l, unsigned parts);
