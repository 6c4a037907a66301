// SPDX-License-Identifier: Apache-2.0
/* Inside simq/kernels/real/: the state of a qc_product. */
#pragma once

#include "simq/kernels/real/product.h"
#include "simq/kernels/real/product_panel.h"

/* Parts of the scratch. */
enum qc_product_part {
    QC_PRODUCT_COPY,  /* copy of the data, if it cannot be read in place */
    QC_PRODUCT_SUMS,  /* sums of earlier slices */
    QC_PRODUCT_SLICE, /* weights packed at run time */
    QC_PRODUCT_BIAS,  /* bias given at run time */
    QC_PRODUCT_RUNS,  /* offsets of runs, in data and in weights */
    QC_PRODUCT_PARTS
};

struct qc_product_matrix_state {
    int rank;                                                                   /* of the batch */
    ptrdiff_t dim[QC_RANK_MAX], a[QC_RANK_MAX], b[QC_RANK_MAX], y[QC_RANK_MAX]; /* of the batch: dims and strides */
    ptrdiff_t packed[QC_RANK_MAX]; /* strides of the batch in the packed b, in matrices */
    ptrdiff_t rows, depth, a_row, a_column, b_row, b_column, y_row, y_column;
    struct qc_panel_shape shape;
    ptrdiff_t together; /* rows per pass */
};

/* There are always three spatial dimensions; strides are in numbers. */
struct qc_product_conv_state {
    bool transposed, depthwise;
    ptrdiff_t batch, groups, inputs, outputs; /* inputs, outputs: channels per group */
    ptrdiff_t in[3], out[3], kernel[3], stride[3], dilation[3], begin[3];
    ptrdiff_t src[5], dst[5]; /* batch, channel, spatial */
    ptrdiff_t w_group, w_output, w_input, w_tap[3];
};

struct qc_product {
    struct qc_product_tiles tiles;
    struct qc_product_tail tail;
    float *packed, *bias;   /* NULL: given at run time */
    bool biased, shared;    /* shared: packed belongs to a qc_packed */
    size_t groups, columns; /* of the bias */
    size_t constant_bytes;
    size_t at[QC_PRODUCT_PARTS + 1]; /* byte offsets in the scratch */
    bool convolution;
    union {
        struct qc_product_matrix_state matrix;
        struct qc_product_conv_state conv;
    };
    char name[48];
};

/* Makes a product with its bias, without weights. Fails if operands are not float32 or are empty, or if out of
   memory. */
struct qc_product_operands {
    const struct qc_view *src, *weights, *bias, *dst;
    enum qc_isa isa;
};
struct qc_product *qc_product_start(const struct qc_product_operands *o, size_t groups, size_t columns,
                                    const struct qc_product_tail *tail, struct qc_status *st);
/* Allocates memory for `numbers` packed numbers. */
bool qc_product_pack(struct qc_product *d, size_t numbers, struct qc_status *st);
/* Hands numbers packed from the constant at `given` to `packs`, if there is one. */
bool qc_product_keep(struct qc_product *d, size_t numbers, const void *given, struct qc_packed *packs,
                     struct qc_status *st);
/* Lays out the scratch: bytes per part. */
bool qc_product_lay_out(struct qc_product *d, const size_t bytes[QC_PRODUCT_PARTS], struct qc_status *st);
static inline void *qc_product_part_of(const struct qc_product *d, const struct qc_product_memory *m,
                                       enum qc_product_part part)
{
    return m->scratch ? (char *)m->scratch + d->at[part] : NULL;
}
/* Returns the bias of a run, padded to whole blocks per group. */
const float *qc_product_bias(const struct qc_product *d, const struct qc_product_memory *m);
size_t qc_product_padded(size_t columns);

void qc_product_run_conv(const struct qc_product *d, const struct qc_product_memory *m);
void qc_product_run_matrix(const struct qc_product *d, const struct qc_product_memory *m);
