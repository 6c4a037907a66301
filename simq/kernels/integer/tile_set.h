// SPDX-License-Identifier: Apache-2.0
/* Inside simq/kernels/integer/: which innermost loops an instruction set has. */
#ifndef QC_SIMQ_KERNELS_INTEGER_TILE_SET_H
#define QC_SIMQ_KERNELS_INTEGER_TILE_SET_H

#include "simq/core/isa.h"
#include "simq/kernels/integer/depthwise.h"
#include "simq/kernels/integer/tile.h"

struct qc_tile_set {
    qc_tile_fn *narrow, *wide;
    bool pairs;     /* narrow adds two products in 16 bits: qc_int_pack_fits tells where it may */
    bool is_signed; /* narrow multiplies data less 128, which the bias has to know */
    qc_depthwise_fn *narrow_depthwise, *wide_depthwise; /* both always there */
    qc_depthwise_pair_fn *depthwise_pair;               /* NULL: there is none */
    qc_depthwise_line_fn *depthwise_line;               /* the same */
    enum qc_taps taps;                                  /* how narrow_depthwise wants its weights */
    bool amx;                                           /* simq/kernels/integer/tile_amx.h */
};
struct qc_tile_set qc_tile_set_of(enum qc_isa isa);

#endif
