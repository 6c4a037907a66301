// SPDX-License-Identifier: Apache-2.0
/* The report of a quantization: what was done and the errors of each layer. The caller fills it; it is written as
   report.json, layers.csv and report.html. Numbers that are not finite are written as null. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/json.h"
#include "graph/core/graph.h"
#include "rewrite/passes/partition.h"

#define QC_NO_INDEX SIZE_MAX

/* A histogram: bars of equal width over [lo, hi]. Exact zeros are not in the bars. */
struct qc_report_histogram {
    double lo, hi;
    uint64_t zeros;
    size_t bar_count;
    const uint64_t *bars;
};

/* A range that the solver tried. */
struct qc_layer_tried {
    double min, max, objective; /* objective: infinite if the range was not admitted */
    double refused;             /* objective of a range that was not admitted, or NaN; only for the plot */
};

/* How the range of a value was found. Numbers that are NaN or infinite and counts of 0 are written as null. */
struct qc_layer_solver {
    double objective, objective_minmax; /* NaN: the method has none */
    const char *behind;                 /* errors were measured after this function; NULL: none */
    uint32_t candidates;
    double known_min, known_max; /* bounds that the graph guarantees; infinite: none */
    size_t curve_count;          /* 0: no curve */
    const struct qc_layer_tried *curve;
    const struct qc_layer_tried *runner_up; /* NULL: none */
};

/* How a layer's weights were rounded and its bias was corrected. Errors are mean squared errors of the layer's own
 * output that come from rounding its weights. */
struct qc_report_rounding {
    const char *method; /* "nearest" or "compensated" */
    const char *reason; /* why the method is nearest, or NULL */
    bool judged, held;  /* judged: errors are known; held: on held-out samples, otherwise on all samples */
    size_t outputs, nearest_outputs, blocks;
    double error_nearest, error;
    bool bias_corrected;
    double bias_rms, bias_max; /* of the correction of the bias */
};

/* A method that --method auto tried. */
struct qc_report_trial {
    const char *method;
    double sqnr_db;  /* SQNR of the outputs from their mean noise-to-signal ratio; infinity without noise */
    double gain_db;  /* over the first trial, on the same samples */
    double error_db; /* standard error of the gain; infinite: not known */
    double worth_db; /* the gain minus its uncertainty; the method with the largest is chosen */
    size_t samples;  /* number of samples of this trial */
    bool chosen;
};

/* How --method auto chose the observer of a tensor. */
struct qc_report_choice {
    const struct qc_report_trial *trial; /* the chosen trial; NULL: chosen by `steps` */
    bool steps;                          /* an input whose values are multiples of its scale */
};

/* One quantized value: an activation or a weight. Strings and arrays are borrowed. */
struct qc_layer {
    const char *name, *op, *type, *kind; /* kind: "activation" or "weight" */
    const char *node;                    /* the op that computes it, or that reads a weight; NULL: a graph input */
    bool in_body;                        /* in a body of If, Loop or Scan; its errors are of the body run alone */
    int axis;                            /* axis of per-channel scales or of blocks; -1: one scale */
    int64_t block;                       /* elements of a block; 0: no blocks */
    size_t count;                        /* number of scales */
    const float *scale;
    const int32_t *zero_point;
    const char *one_scale; /* why an activation has one scale despite --per-channel=activations, or NULL */
    const char *method;
    const struct qc_report_choice *choice; /* NULL: not chosen by --method auto */
    double observed_min, observed_max;
    uint64_t observed_count, observed_nan, observed_inf;
    double chosen_min, chosen_max, clipped_fraction;
    struct qc_layer_solver solver;
    double sqnr_db, cosine, max_abs, saturated_fraction; /* NaN if not measured */
    double alone_db;       /* SQNR of rounding this value alone, with exact values before it; NaN: not known */
    double clipping_share; /* share of that noise that comes from clipping: 0 to 1 */
    double lost_fraction;  /* share of the nonzero values that round to zero */
    const struct qc_report_histogram *histogram; /* NULL: none */
    size_t channel_count; /* channels of a weight, also if they share a scale; [channel_count] minima and maxima: */
    const float *channel_low, *channel_high;
    unsigned accumulator_bits;      /* proved from weights and levels; 0: no accumulator */
    unsigned accumulator_bits_seen; /* needed by the measured samples; 0: not measured */
    const char *accumulator_of;     /* the op that has the accumulator, as in qc_report_overflow; NULL: none */
    const struct qc_report_rounding *rounding; /* of a weight whose rounding was examined; NULL: nearest */
    size_t scales_raised;                      /* scales of weights that were raised so that accumulators fit */
    double scale_raise_max;                    /* the largest factor; 0 if accumulators have 32 bits */
};

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

/* An input of products whose channels are centred (quantize/search/centre_channels.h). */
struct qc_report_centred {
    const char *value;
    size_t channels, layers;
    double error; /* expected error of the layers' outputs relative to the error without */
};

/* Channels that could be scaled between operators (quantize/search/scale_channels.h). */
struct qc_report_scaled {
    const char *value; /* the value that has the channels */
    const char *kind;  /* "awq"; NULL: no scaling gained enough */
    size_t channels, layers;
    const char *const *nodes; /* [layers]: the layers that read the value */
    double activation_power, weight_power;
    double error; /* error of the layers' outputs relative to the error without scaling */
};

/* A layer whose narrow accumulator can overflow. */
struct qc_report_overflow {
    const char *name;
    unsigned bits; /* bits that would hold all counted results */
    uint64_t overflows, results;
};

/* Accumulators of fewer than 32 bits. */
struct qc_report_accumulator {
    unsigned bits;
    const char *overflow; /* "wrap" or "saturate" */
    const char *bound;    /* bound that the scales were raised for: "auto", "proven", "seen" */
    const char *file;     /* data on which overflows were counted */
    size_t samples, layer_count;
    const struct qc_report_overflow *layers;
    size_t scales_raised, channels_bounded; /* so that sums fit: scales of weights that were raised; output channels
                                               without compensation or with a partly corrected bias */
};

struct qc_float_op {
    const char *name, *op, *reason;
};

/* A multiply-accumulate op and the integer ops that follow it. */
struct qc_report_group {
    const char *name, *op;
    const char *type; /* type of the group's result: "u8"; "i32" for an accumulator, "f32" for a float op */
    size_t op_count;
    const char *const *ops; /* ops that follow: "Requantize", "Relu", "Table" */
    bool one_piece;         /* true: the members below are not set */
    const char *reason;     /* why and at which node the group breaks; NULL: at a graph output */
    const char *break_name, *break_op;
};

/* Effect of one layer alone on the outputs (--sensitivity). */
struct qc_report_effect {
    const char *node, *op;
    double sqnr_db, weights_sqnr_db; /* SQNR of the outputs; with only its weights quantized: NaN if it has none */
    double metric, lost;             /* accuracy, and its loss in points or dB; NaN without labelled data */
};

/* A layer in the ranking by effect on the outputs. */
struct qc_report_rank {
    const char *node, *op; /* node: the name that options accept; "": it has none */
    double sqnr_db;        /* of the outputs with only this layer quantized; infinity without noise */
    bool measured;         /* false: estimated from the errors of all tensors */
};

/* One attempt to meet --max-drop, --min-sqnr or --max-nll. */
/* The cost of a network at run time (quantize/search/cost.h). */
struct qc_report_cost {
    double latency; /* estimated, relative to the float model; NaN: shapes are unknown */
    double
        on[QC_PROCESSORS]; /* the same for each kind of processor; `latency` is that of the option, or of the first */
    size_t bytes;          /* of the largest file */
};

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

/* The limits of --min-sqnr and --max-nll, and the measured values. */
struct qc_report_demand {
    double min_sqnr, sqnr_db;  /* NaN: not set */
    const char *output, *file; /* the worst output; the file of the samples, NULL without min_sqnr */
    size_t samples;
    double max_nll, nll;
    bool met;
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

/* An operator that adds much error, and the reason. */
struct qc_report_suggestion {
    const char *node, *op;
    double before_db, after_db; /* SQNR of its inputs (infinity: exact) and of its result */
    const char *why;            /* a sentence */
    size_t layer;               /* index of the layer concerned, or QC_NO_INDEX */
};

/* A command that was tried in this run, and its effect on the outputs. */
struct qc_report_advice {
    const char *action, *node; /* a sentence; the node it applies to, NULL: all */
    const char *command;       /* for a shell */
    size_t word_count;
    const char *const *words; /* words of the command, unquoted */
    size_t layer;             /* index of the layer concerned, or QC_NO_INDEX */
    /* SQNR of the outputs from their mean noise-to-signal ratio; infinity without noise. The first two are of the
       report's samples, the other two of held-out samples. */
    double before_db, after_db, held_before_db, held_after_db;
    struct qc_report_cost cost;                         /* of the changed network */
    const double *outputs_before_db, *outputs_after_db; /* [output_count] of the report */
};

/* A change that --advice auto did not try because it needs too much work. */
struct qc_report_left {
    const char *action, *node; /* as in qc_report_advice */
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
    QC_ADVICE_TRIED,      /* changes were tried; without advice none of them helps */
};

enum qc_report_node_kind { QC_NODE_INPUT, QC_NODE_INTEGER, QC_NODE_FLOAT, QC_NODE_SHAPE, QC_NODE_OUTPUT };

/* A node of the partitioned graph: an op with the ops that are fused with it. */
struct qc_report_node {
    enum qc_report_node_kind kind; /* SHAPE: computes integers that are not quantized values, such as shapes */
    const char *name, *label;      /* label: "Conv + Relu" */
    const char *shape;             /* shape of its result: "[N,16,8,8]"; NULL: not known */
    const char *reason;            /* why the op stays in float, or NULL */
    size_t input_count;
    const size_t *inputs; /* indices of earlier nodes */
    size_t layer;         /* index of the layer of its result, or QC_NO_INDEX */
};

/* A part of an output that a Concat joins. */
struct qc_report_part {
    const char *name; /* of the value that is joined */
    double sqnr_db;
};

struct qc_report_output {
    const char *name;
    double sqnr_db, cosine, max_abs;    /* of its worst part */
    size_t part_count, worst;           /* 1: not divided; index of the worst part */
    const struct qc_report_part *parts; /* [part_count] */
    enum qc_judging judging;
};

/* An input or output that --io-type made integers. */
struct qc_report_port {
    const char *name, *type;
    bool input;
    float scale;
    int32_t zero_point;
};

struct qc_report {
    const char *version, *command;
    const char *model_file, *model_sha256;
    size_t model_bytes;
    const char *data_file, *data_sha256;             /* without samples: the statistics file */
    const char *statistics_file, *statistics_sha256; /* source of the qparams; NULL: the samples */
    size_t statistics_samples;
    size_t data_samples, data_total, data_dropped;
    size_t data_made; /* inputs that are made from the tokens */
    size_t caches;    /* inputs that take a cache in cache_type */
    const char *cache_type;
    struct qc_json *options; /* qc_report_json takes ownership */
    bool lower_is_better;    /* of a metric of the user's own */
    const char *metric;      /* NULL: no labelled data */
    const char *eval_file;
    double fp32, int8;
    double fp32_low, fp32_high, int8_low, int8_high; /* 95 % interval; NaN: none */
    double fp32_top5, int8_top5;                     /* NaN: none */
    size_t eval_samples;
    size_t eval_positions;     /* number of labels counted if samples have several; otherwise 0 */
    double fp32_nll, int8_nll; /* with eval_positions: mean negative log-likelihood in nats */
    const char *weight_type;   /* type of weights in the options: "int4"; NULL: not known */
    size_t quantized_ops, float_op_count;
    struct {
        size_t products, saturating, channels;
        const char *first;
        bool onnxruntime; /* the target's kernels are those of ONNX Runtime */
    } pairs; /* saturation on x86 without VNNI (graph/core/pair_order.h): number of products of int8 weights; those that
                may saturate, and the first of them or NULL; channels of weights that were changed to prevent it */
    const struct qc_float_op *float_ops;
    double int8_share;        /* share of the multiply-adds whose factors have at most 8 bits; NaN: there are none */
    double integer_share;     /* the same for integers of any number of bits */
    double small_float_share; /* the same for factors that are floats of at most 8 bits */
    double block_share;       /* the same for inputs rounded in blocks */
    struct qc_report_cost cost;
    size_t edge_layers;                        /* first and last layers with more bits than the others */
    size_t rank_count;                         /* 0: nothing was measured */
    const struct qc_report_rank *ranks;        /* the worst first */
    size_t effect_count, effect_samples;       /* 0: not measured */
    const struct qc_report_effect *effects;    /* the worst first */
    const struct qc_report_demand *demand;     /* NULL: neither limit was set */
    const struct qc_report_fallback *fallback; /* NULL: not needed */
    size_t idea_count;                         /* changes that cost nothing, and whether they were kept */
    const struct qc_report_idea *ideas;
    double ideas_seconds;
    bool crossed;           /* weights of few bits were refined for the inputs that the quantized network has */
    double crossed_gain_db; /* gain of the outputs, on samples */
    bool crossed_kept;
    size_t output_bias_outputs;              /* outputs whose mean error was removed by a bias; 0: none */
    size_t output_bias_units;                /* samples that showed the mean error */
    double output_bias_gain_db;              /* expected gain of the output that gains most */
    const struct qc_report_size *size;       /* NULL: --size was not given */
    const struct qc_report_latency *latency; /* NULL: --benchmark was not given */
    size_t trial_count;                      /* 0: another method, or no data to run */
    const struct qc_report_trial *trials;    /* mse first */
    size_t group_count;
    const struct qc_report_group *groups;
    const struct qc_report_accumulator *accumulator; /* NULL: 32 bits */
    bool quantized_in_part;                          /* the given model has quantized values */
    size_t unrounded, linear_left; /* their number: errors and accuracy are relative to the model without rounding them;
                                      QuantizeLinear and DequantizeLinear that stay in this reference */
    size_t kept, quantizers;       /* quantizers with the given model's qparams; all quantizers. 0, 0: a float model */
    size_t centred_count;
    const struct qc_report_centred *centred;
    size_t scaled_count; /* 0: no search, or no scalable channels */
    const struct qc_report_scaled *scaled;
    bool bias_narrowed; /* biases are added to stored results, not in the accumulator */
    size_t warning_count;
    const char *const *warnings;
    size_t layer_count;
    const struct qc_layer *layers;
    const size_t *layers_by_name; /* [layer_count]: indices of layers, sorted by name */
    size_t measured_samples, output_count;
    const char *measured_on; /* NULL: not measured; else which samples (quantize/search/score.h) */
    const struct qc_report_output *outputs;
    size_t port_count; /* integer inputs, then outputs */
    const struct qc_report_port *ports;
    size_t suggestion_count; /* worst first */
    const struct qc_report_suggestion *suggestions;
    enum qc_advice_state advice_state;
    size_t advice_count, advice_tried;            /* pieces of advice, largest gain first; commands that were tried */
    size_t advice_left;                           /* changes that are too much work for --advice auto */
    const struct qc_report_left *advice_left_out; /* [advice_left], the best first */
    const struct qc_report_advice *advice;
    const struct qc_report_advice *cheaper; /* advice with smaller weights at little loss, or NULL */
    size_t node_count;
    const struct qc_report_node *nodes; /* in topological order */
    size_t file_count;                  /* number of written files */
    const char *const *files;
    const size_t *file_bytes;
    double total_seconds, import_seconds, collect_seconds, solve_seconds, rounding_seconds, measure_seconds,
        advice_seconds, sensitivity_seconds, fallback_seconds, eval_seconds, export_seconds;
    unsigned workers;
    size_t worker_bytes, constant_bytes, statistics_bytes;
};

/* Returns the name of the quantized network in texts: the type of weights in the options, without its sign: "int4",
   "fp8". If it is not known, the type of most weights, otherwise of most activations, otherwise "quantized". Borrowed
   from r. */
const char *qc_report_type(const struct qc_report *r);

/* Returns the whole report, which the caller owns. With the same inputs and options only keys under "timing" differ
 * between runs. */
struct qc_json *qc_report_json(const struct qc_report *r);

/* Returns {"grade": "good", "usable", "poor" or "unknown", "text": a sentence}. */
struct qc_json *qc_verdict_json(const struct qc_report *r);

/* Returns the placement as a configuration (--config) for the next job. The caller owns it. */
struct qc_json *qc_latency_placement(const struct qc_report_latency *l);

/* Writes FOLDER/report.json (json: from qc_report_json), FOLDER/layers.csv and FOLDER/report.html, which is the viewer
   with this record (export/report/page.h): either all of them or none, each complete. Creates the folder, and removes
   it after an error. */
bool qc_report_write(const struct qc_json *json, const char *folder, struct qc_status *st);

/* Returns the name of a type as options spell it: "uint8" for "u8"; `type` itself if it is unknown. */
const char *qc_type_word(const char *type);
