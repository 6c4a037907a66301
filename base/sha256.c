// SPDX-License-Identifier: Apache-2.0
#include "base/sha256.h"

#include <string.h>

#include "base/simd.h"
#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

enum { BLOCK = 64, ROUNDS = 64 };

/* FIPS 180-4, 4.2.2 and 5.3.3: the first 32 bits of the fractional parts of cube and square roots of primes. */
static const uint32_t constants[ROUNDS] = {0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1,
                                           0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3,
                                           0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786,
                                           0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
                                           0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147,
                                           0x06ca6351, 0x14292967, 0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13,
                                           0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b,
                                           0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
                                           0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a,
                                           0x5b9cca4f, 0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208,
                                           0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
static const uint32_t initial[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                    0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};

static uint32_t turned(uint32_t x, int by)
{
    return x >> by | x << (32 - by);
}

static void add_blocks(uint32_t state[8], const unsigned char *p, size_t count)
{
    for (; count; count--, p += BLOCK) {
        uint32_t w[ROUNDS], s[8];
        memcpy(s, state, sizeof s);
        for (int i = 0; i < 16; i++)
            w[i] = (uint32_t)p[4 * i] << 24 | (uint32_t)p[4 * i + 1] << 16 | (uint32_t)p[4 * i + 2] << 8 | p[4 * i + 3];
        for (int i = 16; i < ROUNDS; i++)
            w[i] = w[i - 16] + (turned(w[i - 15], 7) ^ turned(w[i - 15], 18) ^ w[i - 15] >> 3) + w[i - 7] +
                   (turned(w[i - 2], 17) ^ turned(w[i - 2], 19) ^ w[i - 2] >> 10);
        /* After k rounds, variable v of the standard's a to h is s[(v - k) % 8], so nothing is moved. */
        for (int i = 0; i < ROUNDS; i += 8) {
            QC_UNROLL
            for (int k = 0; k < 8; k++) {
                const uint32_t a = s[-k & 7], b = s[(1 - k) & 7], c = s[(2 - k) & 7], e = s[(4 - k) & 7],
                               f = s[(5 - k) & 7], g = s[(6 - k) & 7],
                               t = s[(7 - k) & 7] + (turned(e, 6) ^ turned(e, 11) ^ turned(e, 25)) +
                                   ((e & f) ^ (~e & g)) + constants[i + k] + w[i + k];
                s[(3 - k) & 7] += t;
                s[(7 - k) & 7] = t + (turned(a, 2) ^ turned(a, 13) ^ turned(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
            }
        }
        for (int i = 0; i < 8; i++) state[i] += s[i];
    }
}

#if defined(__x86_64__)
/* The same with the SHA instructions, four rounds at a time. They keep the state as a, b, e, f and c, d, g, h. */
__attribute__((target("sha,sse4.1"))) static void add_blocks_sha(uint32_t state[8], const unsigned char *p,
                                                                 size_t count)
{
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    const __m128i dcba = _mm_loadu_si128((const __m128i *)(const void *)state),
                  hgfe = _mm_loadu_si128((const __m128i *)(const void *)(state + 4)),
                  badc = _mm_shuffle_epi32(dcba, 0xb1), efgh = _mm_shuffle_epi32(hgfe, 0x1b);
    __m128i abef = _mm_alignr_epi8(badc, efgh, 8), cdgh = _mm_blend_epi16(efgh, badc, 0xf0);
    for (; count; count--, p += BLOCK) {
        const __m128i abef_before = abef, cdgh_before = cdgh;
        __m128i w[4];
        for (int i = 0; i < 4; i++)
            w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)(p + 16 * i)), big_endian);
        QC_UNROLL
        for (int i = 0; i < ROUNDS / 4; i++) {
            const __m128i now = w[i % 4], last = w[(i + 3) % 4];
            const __m128i k = _mm_add_epi32(now, _mm_loadu_si128((const __m128i *)(const void *)(constants + 4 * i)));
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, k);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(k, 0x0e));
            /* The words of four rounds later. */
            w[i % 4] = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(now, w[(i + 1) % 4]),
                                                          _mm_alignr_epi8(last, w[(i + 2) % 4], 4)),
                                            last);
        }
        abef = _mm_add_epi32(abef, abef_before);
        cdgh = _mm_add_epi32(cdgh, cdgh_before);
    }
    const __m128i feba = _mm_shuffle_epi32(abef, 0x1b), dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    _mm_storeu_si128((__m128i *)(void *)state, _mm_blend_epi16(feba, dchg, 0xf0));
    _mm_storeu_si128((__m128i *)(void *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}
#endif

static void add_all(uint32_t state[8], const unsigned char *p, size_t count)
{
#if defined(__x86_64__)
    unsigned a, b = 0, c, d;
    if (qc_simd_bits >= 256 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && b >> 29 & 1) {
        add_blocks_sha(state, p, count);
        return;
    }
#endif
    add_blocks(state, p, count);
}

void qc_sha256_begin(struct qc_sha256_sum *s)
{
    memcpy(s->state, initial, sizeof initial);
    s->bytes = 0;
}

void qc_sha256_add(struct qc_sha256_sum *s, const void *data, size_t size)
{
    const unsigned char *p = data;
    const size_t held = (size_t)(s->bytes % BLOCK), lacking = BLOCK - held;
    s->bytes += size;
    if (held && size >= lacking) {
        memcpy(s->rest + held, p, lacking);
        add_all(s->state, s->rest, 1);
        p += lacking;
        size -= lacking;
    } else if (held) {
        memcpy(s->rest + held, p, size);
        return;
    }
    if (size >= BLOCK) add_all(s->state, p, size / BLOCK);
    if (size % BLOCK) memcpy(s->rest, p + size / BLOCK * BLOCK, size % BLOCK);
}

void qc_sha256_end(char hex[65], struct qc_sha256_sum *s)
{
    static const char digits[] = "0123456789abcdef";
    static const unsigned char end[BLOCK] = {0x80};
    const uint64_t bits = 8 * s->bytes;
    unsigned char length[8];
    for (int i = 0; i < 8; i++) length[i] = (unsigned char)(bits >> (56 - 8 * i));
    qc_sha256_add(s, end, 1 + (size_t)(2 * BLOCK - 9 - s->bytes % BLOCK) % BLOCK);
    qc_sha256_add(s, length, sizeof length);
    for (int i = 0; i < 64; i++) hex[i] = digits[s->state[i / 8] >> (28 - 4 * (i % 8)) & 15];
    hex[64] = '\0';
}

void qc_sha256(char hex[65], const void *data, size_t size)
{
    struct qc_sha256_sum s;
    qc_sha256_begin(&s);
    qc_sha256_add(&s, data, size);
    qc_sha256_end(hex, &s);
}
