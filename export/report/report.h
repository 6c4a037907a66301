// SPDX-License-Identifier: Apache-2.0
/* The report of a quantization: what was done, what it cost, layer by layer. Filled by the caller, written as
   report.json, layers.csv and report.html. Numbers that are not finite are written as null. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"

#define QC_NO_INDEX SIZE_MAX

/* How many values lay where: bars of equal widths over [lo, hi]; exact zeros are in none of them. */
struct qc_report_histogram {
    double lo, hi;
    uint64_t zeros;
    size_t bar_count;
    const uint64_t *bars;
};

/* A range that the solver tried. */
struct qc_layer_tried {
    double min, max, objective; /* objective: infinite when the range was not admitted */
    double refused;             /* what it would be then, or NaN; for the plot only */
};

/* How the range of a value was found; numbers that are NaN, infinite or 0 counts are written as null. */
struct qc_layer_solver {
    double objective, objective_minmax; /* NaN: the method has none */
    const char *behind;                 /* the function that errors were taken behind; NULL: none */
    uint32_t candidates;
    double known_min, known_max; /* what the graph guarantees; infinite: nothing */
    size_t curve_count;          /* 0: no curve */
    const struct qc_layer_tried *curve;
    const struct qc_layer_tried *runner_up; /* NULL: none */
};

/* How a layer's weights were rounded, and its bias corrected. Errors: mean squares of the layer's own output, from
 * rounding its weights. */
struct qc_report_rounding {
    const char *method; /* "nearest" or "compensated" */
    const char *reason; /* why it is nearest, or NULL */
    bool judged, held;  /* errors are known; on samples held back, or on all for want of samples */
    size_t outputs, nearest_outputs, blocks;
    double error_nearest, error;
    bool bias_corrected;
    double bias_rms, bias_max; /* of what was added to the bias */
};

/* What --method auto tried. */
struct qc_report_trial {
    const char *method;
    double sqnr_db;  /* of the outputs, noise to signal averaged over them; infinity without noise */
    double gain_db;  /* over the first trial, on the same samples */
    double error_db; /* standard error of that; infinite: not known */
    double worth_db; /* the gain less what may be luck: the most is chosen */
    size_t samples;  /* that it ran on */
    bool chosen;
};

/* How a tensor came to its observer by --method auto. */
struct qc_report_choice {
    const struct qc_report_trial *trial; /* that it was chosen by; NULL: by steps */
    bool steps;                          /* an input whose values are multiples of its scale */
};

/* One quantized value: an activation or a weight. Strings and arrays are borrowed. */
struct qc_layer {
    const char *name, *op, *type, *kind; /* kind: "activation" or "weight" */
    const char *node;                    /* the op that makes it; of a weight, that reads it; NULL: a graph input */
    bool in_body;                        /* of an If, Loop or Scan; errors are then of the body run alone */
    int axis;                            /* of per-channel scales, or of blocks; -1 for one scale */
    int64_t block;                       /* elements of a block; 0: no blocks */
    size_t count;                        /* of scales */
    const float *scale;
    const int32_t *zero_point;
    const char *one_scale; /* of an activation: why it has one scale though one per channel was asked for; NULL */
    const char *method;
    const struct qc_report_choice *choice; /* NULL: not by --method auto */
    double observed_min, observed_max;
    uint64_t observed_count, observed_nan, observed_inf;
    double chosen_min, chosen_max, clipped_fraction;
    struct qc_layer_solver solver;
    double sqnr_db, cosine, max_abs, saturated_fraction; /* NaN where not measured */
    double alone_db; /* SQNR of this value rounded to its parameters, everything before it exact; NaN: not known */
    double clipping_share; /* of that noise, what lies beyond the range: 0 to 1 */
    double isolated_db; /* SQNR of the outputs with only the op quantized that makes this (of a weight: that reads it);
                           NaN: not measured */
    double isolated_metric, isolated_lost;       /* accuracy then, and what it costs: points or dB; NaN: not measured */
    double lost_fraction;                        /* of the values that are not zero, those that round to it */
    const struct qc_report_histogram *histogram; /* NULL: none */
    size_t channel_count; /* of a weight: what its channels hold (also where they share a scale) */
    const float *channel_low, *channel_high;
    unsigned accumulator_bits;      /* proved from weights and levels; 0: has none */
    unsigned accumulator_bits_seen; /* in the measured samples; 0: not measured */
    const char *accumulator_of;   /* the op whose accumulator that is, named as in qc_report_overflow; NULL: has none */
    double accumulator_overflows; /* of the results that were counted; NaN: has none, 32 bits, or nothing was counted */
    const struct qc_report_rounding *rounding; /* of a weight whose layer was looked at; NULL: nearest */
    size_t scales_raised;                      /* of weights, so that accumulators fit */
    double scale_raise_max;                    /* the largest factor; 0 when accumulators have 32 bits */
};

/* Channels that could be scaled between operators (quantize/scaling/scale_search.h). */
struct qc_report_scaled {
    const char *value; /* that carries the channels */
    const char *kind;  /* "awq"; NULL: nothing that was tried gained enough */
    size_t channels, layers;
    const char *const *nodes; /* [layers]: those that read them */
    double activation_power, weight_power;
    double error; /* of the layers' outputs, to that without scaling */
};

/* A layer whose accumulator of so few bits can overflow. */
struct qc_report_overflow {
    const char *name;
    unsigned bits; /* that would hold all that was seen */
    uint64_t overflows, results;
};

/* Accumulators of fewer than 32 bits. */
struct qc_report_accumulator {
    unsigned bits;
    const char *overflow; /* "wrap" or "saturate" */
    const char *bound;    /* what the scales were raised for: "auto", "proven", "seen" */
    const char *file;     /* the data that overflows were counted on */
    size_t samples, layer_count;
    const struct qc_report_overflow *layers;
    size_t scales_raised, channels_bounded; /* of weights: scales raised, and output channels not compensated, or
                                               corrected in part, so that sums fit */
};

/* Of all layers together. */
void qc_report_overflowed(uint64_t *overflows, uint64_t *results, const struct qc_report_accumulator *a);

struct qc_float_op {
    const char *name, *op, *reason;
};

/* A multiply-accumulate op and what follows it on integers. */
struct qc_report_group {
    const char *name, *op;
    const char *type; /* of what leaves the group: "u8"; "i32" for an accumulator, "f32" for a float op */
    size_t op_count;
    const char *const *ops; /* behind it: "Requantize", "Relu", "Table" */
    bool one_piece;         /* else: */
    const char *reason;     /* why it breaks, and at which node; NULL: at a graph output */
    const char *break_name, *break_op;
};

/* What a layer alone does to the outputs (--sensitivity). */
struct qc_report_effect {
    const char *node, *op;
    double sqnr_db, weights_sqnr_db; /* of the outputs; with its weights alone: NaN when it has none */
    double metric, lost;             /* accuracy with it, and what it costs: points or dB; NaN without labelled data */
};

/* A layer in the one ranking: by its effect on the outputs. */
struct qc_report_rank {
    const char *node, *op; /* node: as options find it; "": by no name */
    double sqnr_db;        /* of the outputs with this layer alone quantized; infinity without noise */
    bool measured;         /* else an estimate from the errors of all tensors */
};

/* One attempt to meet --max-drop, --min-sqnr or --max-nll. */
struct qc_report_fallback_step {
    size_t layers;                  /* the worst of the ranking; 0: the beginning */
    const char *type;               /* "8 bits", "16 bits", "float"; "": as the options say */
    double value, drop, int8_share; /* accuracy; points or dB; of the multiply-adds. NaN when it could not be done: */
    double sqnr_db, nll;            /* of the worst output; nats. NaN where it was not measured */
    const char *reason;             /* why, else NULL */
    bool met, chosen;
};

struct qc_report_fallback {
    double limit, min_sqnr, max_nll; /* NaN: not asked for */
    bool met;
    bool mended; /* nobody asked for it: outputs had lost too much */
    size_t step_count;
    const struct qc_report_fallback_step *steps;
    size_t option_count;
    const char *const *options; /* that give the same by hand: "--skip=NODE" */
    const char *command;        /* with them, for a shell; NULL when the demand is not met */
};

/* What --min-sqnr and --max-nll ask for, and what is there. */
struct qc_report_demand {
    double min_sqnr, sqnr_db;  /* NaN: not asked for */
    const char *output, *file; /* the worst output; where the samples are from, NULL without min_sqnr */
    size_t samples;
    double max_nll, nll;
    bool met;
};

/* What --size chose: expected errors are noise to signal of the outputs from rounded weights, or of the weights. */
struct qc_report_size_layer {
    const char *node;
    unsigned bits;
    size_t bytes; /* of its weights, about */
    double error;
};

struct qc_report_size_row {
    size_t bytes; /* of the file */
    double error;
    bool chosen;
};

struct qc_report_size_uniform {
    unsigned bits; /* of all layers */
    size_t bytes;
    double error;
};

struct qc_report_size {
    size_t limit, bytes; /* of the file */
    double error;
    bool of_outputs; /* else no samples were there, and errors are of weights */
    size_t layer_count, row_count, uniform_count;
    const struct qc_report_size_layer *layers;
    const struct qc_report_size_row *rows; /* the least error for so many bytes, ascending */
    const struct qc_report_size_uniform *uniform;
    size_t option_count;
    const char *const *options; /* that give the same by hand: "--weight-type=int4:NODE" */
    const char *command;        /* with them, for a shell */
    double seconds;
};

/* A change that --benchmark tried. */
struct qc_report_latency_step {
    const char *group; /* "Conv 1x1" */
    size_t op_count;   /* that it moves */
    bool to_float;
    double before_ms, after_ms; /* NaN where it could not be made: */
    double sqnr_db;             /* of the outputs after it; NaN also without samples */
    const char *reason;         /* why it could not be made, else NULL */
    bool kept;
};

/* What --benchmark measured, and the placement that it chose. */
struct qc_report_latency {
    const char *command;                               /* as given */
    double float_ms, default_ms, integers_ms, best_ms; /* NaN: not measured; best_ms is of what is written */
    double default_db, integers_db, best_db;           /* SQNR of the outputs; NaN: not measured, infinity: no error */
    bool reverted;  /* made with all options, the placement was not faster than the default, which is written */
    bool all_float; /* nothing is quantized: float is the fastest */
    size_t step_count, left; /* left: groups that were not tried, being too many */
    const struct qc_report_latency_step *steps;
    const char *prefer; /* the options that place operators so: --prefer ... */
    size_t skip_count;
    const char *const *skip; /* ... and --skip, for each */
    double seconds;
};

/* A place where error enters, and why. */
struct qc_report_suggestion {
    const char *node, *op;      /* where */
    double before_db, after_db; /* SQNR of what it reads (infinity: exact) and of what it makes */
    const char *why;            /* a sentence */
    size_t layer;               /* index of the layer to look at, or QC_NO_INDEX */
};

/* A command that was tried in this run, and what it does to the outputs. */
struct qc_report_advice {
    const char *action, *node; /* a sentence; where, NULL: everywhere */
    const char *command;       /* for a shell */
    size_t word_count;
    const char *const *words; /* the same, unquoted */
    size_t layer;             /* index of the layer to look at, or QC_NO_INDEX */
    /* SQNR of the outputs, noise to signal averaged over them; infinity without noise. On the samples that the report
       measures, and on others that were held back. */
    double before_db, after_db, held_before_db, held_after_db;
    const double *outputs_before_db, *outputs_after_db; /* [output_count] of the report */
};

/* An idea that --advice auto had no room for. */
struct qc_report_left {
    const char *action, *node; /* as above */
};

/* Why there is no advice. */
enum qc_advice_state {
    QC_ADVICE_NOT_ASKED,  /* --advice off */
    QC_ADVICE_NO_DATA,    /* there is nothing to run */
    QC_ADVICE_NOT_NEEDED, /* hardly anything is lost */
    QC_ADVICE_MET,        /* --max-drop has done it */
    QC_ADVICE_SIZED,      /* --size has chosen the types */
    QC_ADVICE_SHARED,     /* several processes share the data */
    QC_ADVICE_LARGE,      /* what weights were rounded by is too large to be kept without --advice on */
    QC_ADVICE_TRIED,      /* what is there; none: nothing helps */
};

enum qc_report_node_kind { QC_NODE_INPUT, QC_NODE_INTEGER, QC_NODE_FLOAT, QC_NODE_SHAPE, QC_NODE_OUTPUT };

/* A node of the graph as it was partitioned: an op with what is computed in one piece with it. */
struct qc_report_node {
    enum qc_report_node_kind kind; /* SHAPE: integers that are no quantized values */
    const char *name, *label;      /* label: "Conv + Relu" */
    const char *shape;             /* of what leaves it: "[N,16,8,8]"; NULL: not known */
    const char *reason;            /* of a float op, why; else NULL */
    size_t input_count;
    const size_t *inputs; /* nodes before this one */
    size_t layer;         /* that it makes, or QC_NO_INDEX */
};

struct qc_report_output {
    const char *name;
    double sqnr_db, cosine, max_abs;
};

struct qc_report {
    const char *version, *command;
    const char *model_file, *model_sha256;
    size_t model_bytes;
    const char *data_file, *data_sha256;             /* without samples: the statistics file */
    const char *statistics_file, *statistics_sha256; /* that the parameters come from; NULL: from the samples */
    size_t statistics_samples;
    size_t data_samples, data_total, data_dropped;
    size_t data_made; /* inputs that are made from the tokens */
    struct qc_json *options; /* taken */
    const char *metric;      /* NULL: no labelled data */
    const char *eval_file;
    double fp32, int8;
    double fp32_low, fp32_high, int8_low, int8_high; /* 95 % interval; NaN when there is none */
    double fp32_top5, int8_top5;                     /* NaN when there is none */
    size_t eval_samples;
    size_t eval_positions;     /* labels that counted, where samples have several; else 0 */
    double fp32_nll, int8_nll; /* with eval_positions: mean negative log-likelihood in nats */
    const char *weight_type;   /* that was asked for: "int4"; NULL: not known */
    size_t quantized_ops, float_op_count;
    struct {
        size_t products, saturating, channels;
        const char *first;
    } pairs; /* what x86 without VNNI makes of the file (graph/core/pair_proof.h): products of int8 weights, those that
                may saturate and the first of them, or NULL; channels of weights that were kept from it */
    const struct qc_float_op *float_ops;
    double int8_share;    /* of the multiply-adds, both factors of at most 8 bits; NaN when there are none */
    double integer_share; /* the same with integers of any number of bits */
    size_t rank_count;    /* 0: nothing was measured */
    const struct qc_report_rank *ranks;        /* the worst first */
    size_t effect_count, effect_samples;       /* 0: not measured */
    const struct qc_report_effect *effects;    /* the worst first */
    const struct qc_report_demand *demand;     /* NULL: neither was asked for */
    const struct qc_report_fallback *fallback; /* NULL: not needed */
    bool crossed;           /* weights of few bits were rounded again, on what the quantized network reads */
    double crossed_gain_db; /* for the outputs, on samples */
    bool crossed_kept;
    size_t output_bias_outputs;              /* whose layers took up the mean error there; 0: none */
    size_t output_bias_units;                /* that showed it */
    double output_bias_gain_db;              /* expected, of the output that gains most */
    const struct qc_report_size *size;       /* NULL: not asked for */
    const struct qc_report_latency *latency; /* NULL: not asked for */
    size_t trial_count;                      /* 0: another method, or no data to run */
    const struct qc_report_trial *trials;    /* mse first */
    size_t group_count;
    const struct qc_report_group *groups;
    const struct qc_report_accumulator *accumulator; /* NULL: 32 bits */
    bool quantized_in_part; /* the model has quantized values: errors and accuracy are relative to it without ... */
    size_t unrounded,
        linear_left;         /* ... the rounding of so many, and with so many QuantizeLinear and DequantizeLinear */
    size_t kept, quantizers; /* quantizers whose parameters are those that the model had; all. 0, 0: of a float model */
    size_t scaled_count;     /* 0: not looked for, or there are none */
    const struct qc_report_scaled *scaled;
    bool bias_narrowed; /* biases are added to stored results, not on the accumulator */
    size_t warning_count;
    const char *const *warnings;
    size_t layer_count;
    const struct qc_layer *layers;
    const size_t *layers_by_name; /* [layer_count]: their numbers */
    size_t measured_samples, output_count;
    const struct qc_report_output *outputs;
    size_t suggestion_count; /* worst first */
    const struct qc_report_suggestion *suggestions;
    enum qc_advice_state advice_state;
    size_t advice_count, advice_tried;            /* what gains most first; commands that were tried */
    size_t advice_left;                           /* that would have been too much work for --advice auto */
    const struct qc_report_left *advice_left_out; /* [advice_left], the best first */
    const struct qc_report_advice *advice;
    const struct qc_report_advice *cheaper; /* NULL, or what costs no more than a file of half the size would */
    size_t node_count;
    const struct qc_report_node *nodes; /* in topological order */
    size_t file_count;                  /* written */
    const char *const *files;
    const size_t *file_bytes;
    double total_seconds, import_seconds, collect_seconds, solve_seconds, rounding_seconds, measure_seconds,
        advice_seconds, sensitivity_seconds, fallback_seconds, eval_seconds, export_seconds;
    unsigned workers;
    size_t worker_bytes, constant_bytes, statistics_bytes;
};

/* What the quantized network is called: the type of weights that was asked for, without its sign: "int4", "fp8". If it
   is not known, that of most weights, else of most activations; "quantized" without any. Borrowed from r. */
const char *qc_report_type(const struct qc_report *r);

/* The whole report; keys under "timing" are the only ones that differ between runs with the same inputs and options.
 * Owned by the caller. */
struct qc_json *qc_report_json(const struct qc_report *r);

/* The report as one page of HTML without anything from elsewhere; no seconds in it, so the same bytes for the same
   inputs and options. Owned by the caller (free); NULL and a status when memory is out. */
char *qc_report_html(size_t *size, const struct qc_report *r, struct qc_status *st);

/* The placement as a configuration (--config) of the next job. Owned by the caller. */
struct qc_json *qc_latency_placement(const struct qc_report_latency *l);

/* Writes FOLDER/report.json (json: from qc_report_json), FOLDER/layers.csv and FOLDER/report.html: all of them appear
   or none, and each whole. Makes the folder, and removes it again after an error. */
bool qc_report_write(const struct qc_report *r, const struct qc_json *json, const char *folder, struct qc_status *st);
