// SPDX-License-Identifier: Apache-2.0
/* Functions of one 8-bit value as a table of 256 bytes, indexed by the stored byte. */
#pragma once

#include "arith/contract.h"

/* Sets x[b] to f(s * (q - z)), the real number of the byte b. */
void qc_table_ramp(float x[256], bool is_signed, struct qc_affine p);

/* Sets table[b] to the level of the real number x[b], by the contract's rule. */
void qc_table_quantize(uint8_t table[256], const float x[256], enum qc_contract c, struct qc_affine p,
                       struct qc_levels levels);

/* y[i] = table[x[i]]. y may be x. */
void qc_table_run(const uint8_t table[256], uint8_t *y, const uint8_t *x, size_t n);
