// SPDX-License-Identifier: Apache-2.0
/* What a job found, as long as parts of it are still needed by other parts: the layers, and the results of the
   searches. The rest is in the record already (quantize/report/record.h). */
#pragma once

#include "base/json.h"
#include "calib/metrics/measure.h"
#include "calib/metrics/sensitivity.h"
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

/* A change that costs nothing at run time, tried by the job. */
struct qc_report_idea {
    const char *name;
    size_t option_count;
    const char *const *options; /* "--equalize=free" */
    double gain_db, error_db;   /* gain of the outputs and its standard error, on samples */
    size_t samples;
    bool kept;
    const char *reason; /* why it was not tried, or NULL */
};

/* The cost of a network at run time (quantize/search/cost.h). */
struct qc_report_cost {
    double latency; /* estimated, relative to the float model; NaN: shapes are unknown */
    /* the same for each kind of processor; `latency` is that of the option, or of the first */
    double on[QC_PROCESSORS];
    size_t bytes; /* of the largest file */
};

/* One attempt to meet --max-drop, --min-sqnr or --max-nll. */
struct qc_report_fallback_step {
    size_t layers;                  /* number of worst layers that get `type`; 0: the first attempt */
    const char *type;               /* "8 bits", "16 bits", "float"; "": the types of the options */
    double value, drop, int8_share; /* accuracy; its loss in points or dB; share of the multiply-adds. NaN: it failed */
    double sqnr_db, nll;            /* of the worst output; in nats. NaN: not measured */
    struct qc_report_cost cost;     /* 0 bytes: it failed */
    const char *reason;             /* why the attempt failed, or NULL */
    bool met, chosen;
};

struct qc_report_fallback {
    double limit, min_sqnr, max_nll; /* NaN: not set */
    bool met;
    bool mended; /* no option asked for it: it was done because outputs had lost too much */
    size_t step_count;
    const struct qc_report_fallback_step *steps;
    size_t option_count;
    const char *const *options; /* options that give the same result: "--skip=NODE" */
    const char *command;        /* shell command with these options; NULL if the demand is not met */
};

/* The choice of --size. Expected errors are noise-to-signal ratios from rounded weights, of the outputs or of the
   weights themselves. */
struct qc_report_size_layer {
    const char *node;
    unsigned bits;
    size_t bytes; /* approximate size of its weights */
    double error;
};

struct qc_report_size_row {
    size_t bytes; /* of the file */
    double error;
    bool chosen;
};

struct qc_report_size_uniform {
    unsigned bits; /* bits of the weights of all layers */
    size_t bytes;
    double error;
};

/* A number of weights with one scale that --size compared. */
struct qc_report_size_blocks {
    int64_t block; /* 0: a scale per channel */
    bool fits;
    double error; /* expected, at least; of the smallest file if none fits */
};

struct qc_report_size {
    size_t limit, bytes; /* of the file */
    double error;
    int64_t block;       /* chosen; 0: not in blocks, or --weight-block was given */
    size_t blocks_count; /* 0: not a choice */
    const struct qc_report_size_blocks *blocks;
    bool of_outputs; /* false: there were no samples, and errors are those of the weights */
    size_t layer_count, row_count, uniform_count;
    const struct qc_report_size_layer *layers;
    const struct qc_report_size_row *rows; /* the least error for each size, ascending by size */
    const struct qc_report_size_uniform *uniform;
    size_t option_count;
    const char *const *options; /* options that give the same result: "--weight-type=int4:NODE" */
    const char *command;        /* shell command with these options */
    double seconds;
};

/* A change that --benchmark tried. */
struct qc_report_latency_step {
    const char *group; /* "Conv 1x1" */
    size_t op_count;   /* number of ops that it moves */
    bool to_float;
    double before_ms, after_ms; /* NaN: the change failed */
    double sqnr_db;             /* SQNR of the outputs with the change; NaN: it failed, or there are no samples */
    const char *reason;         /* why the change failed, or NULL */
    bool kept;
};

/* The measurements of --benchmark and the placement that it chose. */
struct qc_report_latency {
    const char *command;                               /* as given */
    double float_ms, default_ms, integers_ms, best_ms; /* NaN: not measured; best_ms is of the written model */
    double default_db, integers_db, best_db;           /* SQNR of the outputs; NaN: not measured, infinity: no error */
    bool reverted;  /* with all options the placement was not faster than the default, so the default is written */
    bool all_float; /* nothing is quantized: float is the fastest */
    size_t step_count, left; /* left: number of groups that were not tried because there are too many */
    const struct qc_report_latency_step *steps;
    const char *prefer; /* value of --prefer that gives this placement */
    size_t skip_count;
    const char *const *skip; /* values of --skip that give this placement */
    double seconds;
};

/* A command that was tried in this run, and its effect on the outputs. */
struct qc_report_advice {
    const char *action, *node; /* a sentence; the node it applies to, NULL: all */
    const char *command;       /* for a shell */
    size_t word_count;
    const char *const *words; /* words of the command, unquoted */
    /* SQNR of the outputs from their mean noise-to-signal ratio; infinity without noise. The first two are of the
       report's samples, the other two of held-out samples. */
    double before_db, after_db, held_before_db, held_after_db;
    double accuracy;            /* of the changed network, in the unit of struct qc_metric; NaN: not measured */
    struct qc_report_cost cost; /* of the changed network */
    const double *outputs_before_db, *outputs_after_db; /* [output_count] of the report */
};

/* Why there is no advice. */
enum qc_advice_state {
    QC_ADVICE_NOT_ASKED,  /* --advice off */
    QC_ADVICE_NO_DATA,    /* there are no samples to run */
    QC_ADVICE_NOT_NEEDED, /* the outputs have lost little */
    QC_ADVICE_MET,        /* --max-drop has changed layers already */
    QC_ADVICE_SIZED,      /* --size has chosen the types */
    QC_ADVICE_SHARED,     /* several processes share the data */
    QC_ADVICE_LARGE,      /* the second moments for rounding weights are too large to keep without --advice on */
    QC_ADVICE_CONSTANT,   /* the outputs are nearly the same for all samples */
    QC_ADVICE_TRIED,      /* changes were tried; without advice none of them helps */
};

struct qc_report {
    struct qc_json *record;                   /* what is known so far; the owner is the job */
    struct qc_json *timing;                   /* its member */
    struct qc_json *left_out;                 /* its member: changes that are too much work for --advice auto */
    const struct qc_metric *accuracy[2];      /* of the float and the quantized network; NULL: no labelled data */
    const struct qc_sensitivity *sensitivity; /* --sensitivity; NULL: not measured */
    const struct qc_overflows *overflows;     /* of narrow accumulators; NULL: not counted */
    size_t data_samples;                      /* of --data */
    bool constant_outputs;                    /* the outputs are nearly the same for all samples */
    struct qc_report_cost cost;
    size_t layer_count;
    const struct qc_layer *layers;
    const size_t *layers_by_name;              /* [layer_count]: indices of layers, sorted by name */
    const struct qc_report_fallback *fallback; /* NULL: not needed */
    const struct qc_report_size *size;         /* NULL: --size was not given */
    const struct qc_report_latency *latency;   /* NULL: --benchmark was not given */
    enum qc_advice_state advice_state;
    size_t advice_count, advice_tried; /* pieces of advice, largest gain first; commands that were tried */
    const struct qc_report_advice *advice;
    const struct qc_report_advice *cheaper; /* advice with smaller weights at little loss, or NULL */
};
