// SPDX-License-Identifier: Apache-2.0
/* The page of a comparison of two graphs. Filled by the caller; strings and arrays are borrowed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"

enum { QC_COMPARED_STEPS = 4 };

/* A value that both graphs have. Numbers are of all elements on all samples; sqnr_db is infinite where they are equal,
 * NaN where there are none. */
struct qc_compared_layer {
    const char *name, *op; /* name: NULL where neither graph has one */
    bool by_name;          /* matched so; else by op, shape and order */
    double mse, sqnr_db, cosine, max_abs;
    uint64_t elements, differing;
    double max_steps;                  /* NaN: not stored in steps */
    uint64_t steps[QC_COMPARED_STEPS]; /* elements 0, 1, 2, and 3 or more steps apart; meaningless without steps */
};

struct qc_compared_output {
    const char *name;
    double sqnr_db, cosine, max_abs; /* NaN: not numbers */
    uint64_t elements, differing;
};

struct qc_compared {
    const char *version, *command;
    const char *file[2], *sha256[2]; /* the reference and the model */
    const char *rounding[2];         /* contract of each graph's integers */
    bool contracts;                  /* one for each was asked for */
    const char *data_file, *data_sha256;
    size_t samples;
    double tolerance; /* of outputs; NaN: no demand */
    const struct qc_json *options;
    size_t output_count, layer_count; /* layers in the order of the network */
    const struct qc_compared_output *outputs;
    const struct qc_compared_layer *layers;
};

/* One page without anything from elsewhere; the same bytes for the same inputs and options. Owned by the caller (free);
   NULL and a status when memory is out. */
char *qc_comparison_html(size_t *size, const struct qc_compared *c, struct qc_status *st);
