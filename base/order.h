// SPDX-License-Identifier: Apache-2.0
/* Comparisons for qsort and bsearch: ascending. */
#pragma once

int qc_order_double(const void *a, const void *b);
int qc_order_float(const void *a, const void *b);
int qc_order_size(const void *a, const void *b); /* size_t */
int qc_order_u32(const void *a, const void *b);
int qc_order_u64(const void *a, const void *b);
int qc_order_text(const void *a, const void *b); /* const char *, by bytes */
