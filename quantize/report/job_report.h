// SPDX-License-Identifier: Apache-2.0
/* What a job found: the record (quantize/report/record.h), and the layers, which enter it at the end. */
#pragma once

#include "base/index.h"
#include "base/json.h"
#include "calib/metrics/measure.h"
#include "graph/core/parameters.h"
#include "observers/outline.h"
#include "quantize/make/network.h"

#define QC_NO_INDEX SIZE_MAX

/* One quantized value: an activation or a weight. Strings and pointers are borrowed from the network and the
   measurement. */
struct qc_layer {
    const char *name, *op;
    const char *node; /* the op that computes it, or that reads a weight; NULL: a graph input */
    bool is_weight;
    bool in_body;                   /* in a body of If, Loop or Scan; its errors are of the body run alone */
    struct qc_parameters stored;    /* type, scales and zero points */
    const char *one_scale;          /* why an activation has one scale despite --per-channel=activations, or NULL */
    const struct qc_choice *choice; /* its statistics and its range */
    const struct qc_report_choice *tried; /* NULL: its observer was not chosen by --method auto */
    const struct qc_error *error;         /* NULL: not measured */
    double sqnr_db;                       /* of the error; NaN if not measured */
    double alone_db;       /* SQNR of rounding this value alone, with exact values before it; NaN: not known */
    double clipping_share; /* share of that noise that comes from clipping: 0 to 1 */
    double lost_fraction;  /* share of the nonzero values that round to zero */
    const struct qc_outline *histogram; /* NULL: none */
    size_t channel_count; /* channels of a weight, also if they share a scale; [channel_count] minima and maxima: */
    const float *channel_low, *channel_high;
    unsigned accumulator_bits;      /* proved from weights and levels; 0: no accumulator */
    unsigned accumulator_bits_seen; /* needed by the measured samples; 0: not measured */
    const char *accumulator_of;     /* the op that has the accumulator, as in struct qc_layer_overflow; NULL: none */
    const struct qc_rounded_weights *rounding; /* of a weight whose rounding was examined; NULL: nearest */
};

/* Returns the bits of the stored levels if they are fewer than those of the type; else 0. */
unsigned qc_layer_bits(const struct qc_layer *l);

struct qc_report {
    struct qc_json *record; /* what is known so far; the owner is the job */
    struct qc_json *timing; /* its member */
    size_t layer_count;
    const struct qc_layer *layers;
    struct qc_texts layers_by_name; /* numbers of layers, from 1 on */
};
