// SPDX-License-Identifier: Apache-2.0
/* Functions of one 8-bit value as a table of 256 bytes, by the byte as it is stored. */
#pragma once

#include "arith/contract.h"

/* x[b] = f(s * (q - z)) of the byte b. */
void qc_table_ramp(float x[256], bool is_signed, struct qc_affine p);

/* table[b]: the level of the real number x[b], by the contract's rule. */
void qc_table_quantize(uint8_t table[256], const float x[256], enum qc_contract c, struct qc_affine p,
                       struct qc_levels levels);

/* A byte for a byte; in place is fine. */
void qc_table_run(const uint8_t table[256], uint8_t *y, const uint8_t *x, size_t n);
