// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: one step of an RNN, GRU or LSTM for one sample, after its matrix products (ONNX RNN-22, GRU-22,
   LSTM-22). As in ONNX Runtime, the clip threshold applies to the inputs of the gates, not to the cell state inside
   h. */
#pragma once

#include "graph/core/recurrent.h"
#include "simq/kernels/real/unary.h"

enum { QC_CELL_FUNCTIONS = 3 };

struct qc_cell {
    int64_t hidden;
    float clip;                                  /* INFINITY: none */
    struct qc_unary function[QC_CELL_FUNCTIONS]; /* f, g, h */
    bool input_forget, linear_before_reset;
};

/* Reads the functions of direction d (0 or 1). Fails if functions are unknown or their number differs from the op's
   (QC_BAD_INPUT). */
bool qc_cell_of(struct qc_cell *c, const struct qc_node *n, const struct qc_recurrent *r, int d, struct qc_status *st);

/* First operation of every cell: z = x + z + bias, for n numbers. x: input times W; z: state times R. */
void qc_cell_add(float *z, const float *x, const float *bias, int64_t n);

/* z [4*hidden], overwritten: gates i, o, f, c. peephole: [3*hidden] of i, o, f, or NULL. c and h: [hidden], updated. */
void qc_cell_lstm(const struct qc_cell *l, float *h, float *c, float *z, const float *peephole);

/* z [hidden], overwritten. */
void qc_cell_rnn(const struct qc_cell *l, float *h, float *z);

/* z [2*hidden]: gates z (update) and r (reset), replaced by their values. */
void qc_cell_gru_gates(const struct qc_cell *l, float *z);
/* out = reset * h: the factor of R in the third gate, unless linear_before_reset. */
void qc_cell_gru_reset(const struct qc_cell *l, float *out, const float *reset, const float *h);
/* The third gate with linear_before_reset: z = x + bias + reset * (z + recurrent_bias). */
void qc_cell_gru_linear(const struct qc_cell *l, float *z, const float *x, const float *bias, const float *reset,
                        const float *recurrent_bias);
/* z: [hidden], the third gate before its function, overwritten; update: [hidden]. */
void qc_cell_gru_finish(const struct qc_cell *l, float *h, float *z, const float *update);
