// SPDX-License-Identifier: Apache-2.0
/* The options of a job, by name and text. One table (quantize/options/options.def) serves the command line, --config
   and the library. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file.h"
#include "quantize/options/choices.h"
#include "rewrite/language/target.h"

/* The commands of qcalib. */
enum qc_command {
    QC_COMMAND_quantize,
    QC_COMMAND_collect,
    QC_COMMAND_merge,
    QC_COMMAND_run,
    QC_COMMAND_eval,
    QC_COMMAND_compare,
    QC_COMMAND_convert,
    QC_COMMAND_pack,
    QC_COMMAND_check,
    QC_COMMAND_COUNT
};

const char *qc_command_name(enum qc_command c);

/* For the tables: bits of qc_option_info.commands. */
#define QC_ON(name) (1u << QC_COMMAND_##name)
#define QC_ON_DATA (QC_ON(quantize) | QC_ON(collect) | QC_ON(run) | QC_ON(eval) | QC_ON(compare) | QC_ON(check))

/* In the order of the table. */
enum qc_option {
#define QC_OPTION(id, ...) QC_OPTION_##id,
#include "quantize/options/options.def"
#undef QC_OPTION
    QC_OPTION_COUNT
};

const struct qc_option_info *qc_option_info(enum qc_option o);

/* The options of one job. Strings are in the arena. Options that are not given are NULL, an empty list, 0 or false,
   except as noted. */

/* The samples. */
struct qc_data_options {
    const char *file;           /* FILE[:DATASET] */
    struct qc_text_list inputs; /* NAME=DATASET, each with a '=' that is not its first character */
    struct qc_text_list states; /* INPUT=OUTPUT, the same */
    const char *preprocess;     /* NULL: the data sets' attributes */
    const char *image;          /* NULL: images are converted to the model's input */
    uint64_t samples;           /* 0: all */
    uint64_t seed;              /* samples are drawn if given[QC_OPTION_SEED], else spread evenly */
    const char *eval;           /* FILE[:DATASET] */
    const char *metric;         /* a command that measures a model file, or NULL */
    const char *stats;          /* statistics file */
    const char *shard;          /* K/N, not checked; NULL: all samples */
    enum qc_nonfinite nonfinite;
    bool channel_statistics, second_moments; /* of collect */
    bool follow_links;
    bool strict; /* files of a folder that cannot be read are errors */
};

/* How ranges and integers are found. */
struct qc_method_options {
    const char *observer, *weight_method; /* --method, --weight-method: NAME[:key=value,...]; never NULL */
    struct qc_text_list plugins;
    const char *encodings; /* file of given parameters, or NULL */
    enum qc_effort effort;
    enum qc_equalization equalize;
    enum qc_channel_scales scale_channels;
    enum qc_overflow_fix overflow_fix;
    enum qc_weight_rounding_kind weight_rounding;
    enum qc_advise advice;
    bool propagate, bias_correction, look_through, sensitivity;
};

/* Number types and their parameters. */
struct qc_type_options {
    struct qc_text_list activations, weights; /* "uint8", then "uint16:GLOB" ...; at least one */
    struct qc_text_list io;                   /* "float", then "uint8:GLOB" ...; of inputs and outputs */
    enum qc_dtype edges;   /* QC_I32: 8 bits, signed as the activations are; QC_NONE: as all layers */
    enum qc_dtype kv;      /* QC_NONE: that of the model */
    unsigned weight_block; /* 0: per channel */
    struct qc_text_list per_channel, symmetric;    /* as given; the next two lines follow from them */
    bool per_channel_activations, per_tensor;      /* the second: of weights */
    bool symmetric_activations, symmetric_weights; /* default: false, true */
    enum qc_weight_range range;
    const char *accumulator; /* NULL: 32 bits */
    enum qc_accumulator_bound accumulator_bound;
};

/* The graph that is written, and what runs it. */
struct qc_graph_options {
    const char *target;              /* its name, or a file of rules */
    const struct qc_target *runs_on; /* the loaded target; its options hold unless given */
    enum qc_prefer prefer;
    enum qc_processor processor;
    struct qc_text_list formats; /* default: qdq */
    struct qc_text_list rules, only, skip, kernels;
    const char *rounding; /* NULL: onnx */
    enum qc_lowering lowering;
    enum qc_bias_place bias;
    unsigned accuracy_level; /* of MatMulNBits */
    bool require_integer;
};

/* What the result must reach. */
struct qc_demand_options {
    double max_drop;       /* points; NaN: no demand */
    double min_sqnr;       /* dB; NaN: no demand */
    double max_nll;        /* nats; NaN: no demand */
    double tolerance;      /* in the units of the outputs; NaN: no demand */
    const char *size;      /* as given; NULL: the file size is not limited */
    uint64_t size_bytes;   /* --size in bytes; 0: given in percent */
    double size_percent;   /* --size in percent of the model file; 0: given in bytes */
    const char *benchmark; /* a command that measures a model file, or NULL */
};

/* The machine and the run. */
struct qc_run_options {
    uint64_t threads;         /* default: all cores */
    uint64_t threads_refused; /* the number given, if it exceeds the limit; else 0 */
    uint64_t memory_limit;    /* bytes; 0: none */
    const char *checkpoint;   /* statistics file of an unfinished run */
};

struct qc_options {
    struct qc_arena *arena;
    enum qc_command command;
    bool given[QC_OPTION_COUNT];     /* set by qc_options_set, not by a default or a target */
    bool by_target[QC_OPTION_COUNT]; /* set by the target */
    bool own_base[QC_OPTION_COUNT];  /* given without ":GLOB" */
    struct qc_data_options data;
    struct qc_method_options method;
    struct qc_type_options types;
    struct qc_graph_options graph;
    struct qc_demand_options demand;
    struct qc_run_options run;
};

/* Returns true if --max-drop, --min-sqnr or --max-nll is given. */
static inline bool qc_options_demand(const struct qc_options *o)
{
    return o->demand.max_drop >= 0 || o->demand.min_sqnr >= 0 || o->demand.max_nll >= 0;
}

/* Returns true if stages may run again with other types or placements, for a demand, a size or a latency. */
static inline bool qc_options_repeats(const struct qc_options *o)
{
    return qc_options_demand(o) || o->demand.size || o->demand.benchmark;
}

/* --follow-links */
static inline enum qc_follow qc_options_follow(const struct qc_options *o)
{
    return o->data.follow_links ? QC_FOLLOW_LINKS : QC_FOLLOW_NOTHING;
}

/* Sets the defaults of the table. The arena must outlive *out. */
bool qc_options_init(struct qc_options *out, enum qc_command command, struct qc_arena *a, struct qc_status *st);

/* Stores one value (NULL: the argument was left out). Fails with QC_USAGE, which names the option. */
bool qc_options_set(struct qc_options *o, enum qc_option option, const char *value, struct qc_status *st);

/* Returns the text of an option of one choice. */
const char *qc_options_text(const struct qc_options *o, enum qc_option option);

/* Finds the option of this name that o->command takes. Fails with QC_USAGE and suggests a similar name. */
bool qc_options_find(enum qc_option *out, const struct qc_options *o, const char *name, struct qc_status *st);

/* Warns of given options that differ from those of the target. */
struct qc_warnings;
bool qc_warn_target_options(const struct qc_options *o, struct qc_warnings *w, struct qc_status *st);

/* Applies a configuration as qc_option_set_configure does. Keys of other commands are ignored. */
bool qc_options_configure(struct qc_options *o, const struct qc_json *config, const char *file, struct qc_status *st);

/* Returns the effective options that decide the result (groups data, method, graph) as a configuration, for the report.
   NULL if memory is exhausted. Owned by the caller. */
struct qc_json *qc_options_json(const struct qc_options *o);

/* Returns true if a file of this format is written. */
bool qc_options_write(const struct qc_options *o, const char *format);

/* Returns true if a format is written that a runtime computes in integers. */
bool qc_options_write_integers(const struct qc_options *o);
