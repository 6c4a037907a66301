// SPDX-License-Identifier: Apache-2.0
/* What an RNN, GRU or LSTM (ONNX opsets 7 to 22) looks like: sizes, direction, order of its dimensions. */
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

/* An attribute of ours, 1 where an LSTM rounds what its products read to 8 bits, by its extremes in each run: X over
   all steps, the state before each step. ONNX Runtime's DynamicQuantizeLSTM does; in other forms of the file it is
   nothing. */
#define QC_RECURRENT_DYNAMIC "dynamic"

struct qc_recurrent {
    bool dynamic;   /* QC_RECURRENT_DYNAMIC */
    int gates;      /* 1, 3 (update, reset, new) or 4 (input, output, forget, cell) */
    int directions; /* 1 or 2 */
    bool reverse;   /* the only direction runs backwards; of two the second does */
    bool batchwise; /* layout 1: [batch, steps, ...] */
    /* QC_FREE while not known: */
    int64_t steps, batch, input, hidden;
};

bool qc_is_recurrent(enum qc_op op);

/* Sizes, from the inputs that know them. Errors (QC_BAD_INPUT): attributes out of range, inputs of other types, ranks
   or sizes than they must have. Only the types of the node's inputs are looked at: those of its results may not be
   known. */
bool qc_recurrent_of(struct qc_recurrent *out, const struct qc_graph *g, const struct qc_node *n, struct qc_status *st);
