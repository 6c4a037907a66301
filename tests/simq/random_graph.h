// SPDX-License-Identifier: Apache-2.0
/* Random small graphs of quantized ops, the same for the same seed, simulated or produced. */
#pragma once

#include "graph/core/graph.h"

/* splitmix64 (Steele, Lea, Flood 2014). */
struct random_source {
    uint64_t state;
};
uint64_t random_bits(struct random_source *r);
int64_t random_int(struct random_source *r, int64_t lo, int64_t hi); /* both included */
float random_real(struct random_source *r);                          /* in [-1, 1) */

/* One input "x" of f32; every value that is left over is an output, some as they are stored, some dequantized. */
struct qc_graph *random_graph(uint64_t seed, bool simulated, struct qc_status *st);

/* The same with quantizers of activations that have a scale and a zero point for each channel. */
struct qc_graph *random_channel_graph(uint64_t seed, bool simulated, struct qc_status *st);
