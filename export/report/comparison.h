// SPDX-License-Identifier: Apache-2.0
/* The page of a comparison of two graphs. The caller fills the structures; strings and arrays are borrowed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"

enum { QC_COMPARED_STEPS = 4 };

/* A value that both graphs have. Numbers cover all elements of all samples; sqnr_db is infinite if they are equal, NaN
   if there are no samples, or if the channels have other factors in the second graph. */
struct qc_compared_layer {
    const char *name, *op; /* name: NULL if neither graph has one */
    bool by_name;          /* matched by name; else by op, shape and order */
    double mse, sqnr_db, cosine, max_abs;
    uint64_t elements, differing;
    double max_steps;                  /* NaN: not stored in steps */
    uint64_t steps[QC_COMPARED_STEPS]; /* elements 0, 1, 2, and 3 or more steps apart; not set if not stored in steps */
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
    bool contracts;                  /* a contract for each graph was requested */
    const char *data_file, *data_sha256;
    size_t samples;
    double tolerance; /* of outputs; NaN: none */
    const struct qc_json *options;
    size_t output_count, layer_count; /* layers in the order of the network */
    const struct qc_compared_output *outputs;
    const struct qc_compared_layer *layers;
};

/* Returns a self-contained page; the same inputs and options give the same bytes. The caller frees it. Returns NULL and
   sets a status if memory is out. */
char *qc_comparison_html(size_t *size, const struct qc_compared *c, struct qc_status *st);
