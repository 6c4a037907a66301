// SPDX-License-Identifier: Apache-2.0
/* SHA-256 (FIPS 180-4) as 64 lower-case hex digits. */
#pragma once

#include <stddef.h>
#include <stdint.h>

void qc_sha256(char hex[65], const void *data, size_t size);

/* The same of bytes that are not in memory together. */
struct qc_sha256_sum {
    uint32_t state[8];
    uint64_t bytes;
    unsigned char rest[64]; /* the last bytes % 64 */
};
void qc_sha256_begin(struct qc_sha256_sum *s);
void qc_sha256_add(struct qc_sha256_sum *s, const void *data, size_t size);
void qc_sha256_end(char hex[65], struct qc_sha256_sum *s);
