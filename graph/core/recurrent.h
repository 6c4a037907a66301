// SPDX-License-Identifier: Apache-2.0
/* Sizes, directions and dimension order of an RNN, GRU or LSTM (ONNX opsets 7 to 22). */
#pragma once

#include "graph/core/graph.h"

enum {
    QC_RECURRENT_X,
    QC_RECURRENT_W,
    QC_RECURRENT_R,
    QC_RECURRENT_B,
    QC_RECURRENT_LENGTHS,
    QC_RECURRENT_H,
    QC_RECURRENT_C,
    QC_RECURRENT_P,
    QC_RECURRENT_INPUTS
};

/* Our attribute: 1 if an LSTM rounds the inputs of its products to 8 bits, by their extremes in each run: X over all
   steps, the state before each step. This is ONNX Runtime's DynamicQuantizeLSTM; other file formats do not write it. */
#define QC_RECURRENT_DYNAMIC "dynamic"

struct qc_recurrent {
    bool dynamic;   /* QC_RECURRENT_DYNAMIC */
    int gates;      /* 1, 3 (update, reset, new) or 4 (input, output, forget, cell) */
    int directions; /* the only direction runs backwards; with two directions, the second one does */
    bool reverse;   /* the only direction runs backwards; of two the second does */
    bool batchwise; /* layout 1: [batch, steps, ...] */
    /* QC_FREE if unknown: */
    int64_t steps, batch, input, hidden;
};

bool qc_is_recurrent(enum qc_op op);

/* Reads the sizes from the inputs. Fails with QC_BAD_INPUT if attributes are out of range, or if inputs have wrong
   types, ranks or sizes. Uses only the types of the node's inputs: those of its results may be unknown. */
bool qc_recurrent_of(struct qc_recurrent *out, const struct qc_graph *g, const struct qc_node *n, struct qc_status *st);
