// SPDX-License-Identifier: Apache-2.0
/* The command line: one table of options (cli/options.def), one of commands (cli/commands.def), and what was given. */
#ifndef QC_CLI_OPTIONS_H
#define QC_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/closest.h"
#include "base/json.h"

enum qc_command {
#define QC_COMMAND(name, min, max, operands, summary) QC_COMMAND_##name,
#include "cli/commands.def"
#undef QC_COMMAND
    QC_COMMAND_COUNT
};

struct qc_command_info {
    const char *name, *operands, *summary;
    unsigned operands_min, operands_max;
};

const struct qc_command_info *qc_command_info(enum qc_command c);
bool qc_command_find(enum qc_command *out, const char *name);

/* In the order of the table. */
enum qc_option {
#define QC_OPTION(id, ...) QC_OPTION_##id,
#include "cli/options.def"
#undef QC_OPTION
    QC_OPTION_COUNT
};

/* How a value is read and stored: the type of the field in struct qc_cli_options. */
enum qc_option_kind {
    QC_KIND_FLAG,    /* bool: true */
    QC_KIND_SET,     /* const char *: .bare */
    QC_KIND_TEXT,    /* const char *: any text but the empty one */
    QC_KIND_SPEC,    /* the same, and .preset is the value itself */
    QC_KIND_LIST,    /* struct qc_cli_list: repeatable, any text but the empty one */
    QC_KIND_CHOICE,  /* const char *: one of .choices */
    QC_KIND_CHOICES, /* struct qc_cli_list: some of .choices, with commas between */
    QC_KIND_BY_NAME, /* struct qc_cli_list: one of .choices, first in the list; then those with ":GLOB" behind them. Repeatable */
    QC_KIND_COUNT,   /* uint64_t: at least 1 */
    QC_KIND_WHOLE,   /* uint64_t */
    QC_KIND_BYTES,   /* uint64_t: at least 1, with K, M or G behind it (powers of 1024) */
    QC_KIND_NUMBER   /* double: finite, not negative */
};

/* Headings of the help. The options of the first three decide the result and stand in the report. */
enum qc_option_group {
    QC_GROUP_DATA,
    QC_GROUP_METHOD,
    QC_GROUP_GRAPH,
    QC_GROUP_OUTPUT,
    QC_GROUP_RUN,
    QC_GROUP_ABOUT,
    QC_GROUP_COUNT
};

struct qc_option_info {
    const char *name;     /* without "--"; also the key in a configuration file */
    char letter;          /* of the short form, or 0 */
    const char *argument; /* NULL: takes none; "[=...]": may be left out */
    const char *bare;     /* value when the argument is left out */
    enum qc_option_kind kind;
    enum qc_option_group group;
    const char *choices; /* "a|b|c" */
    const char *preset;  /* default; the value itself of a SPEC, CHOICE, CHOICES or BY_NAME, words for a person of others */
    unsigned commands;   /* bit 1 << enum qc_command */
    size_t field;        /* offset in struct qc_cli_options */
    const char *help;    /* one line */
};

const struct qc_option_info *qc_option_info(enum qc_option o);
const char *qc_option_group_name(enum qc_option_group g);

struct qc_cli_list {
    size_t count;
    const char **items;
};

/* Everything that was given; strings live in the arena. Values that were not given: NULL, an empty list, 0 or false, except as noted. */
struct qc_cli_options {
    struct qc_arena *arena;
    enum qc_command command;
    bool command_given;          /* false: `qcalib MODEL ...` */
    struct qc_cli_list operands; /* MODEL and such, as many as the command takes */
    bool given[QC_OPTION_COUNT]; /* on the command line or in the configuration file */

    const char *data;          /* FILE[:DATASET] */
    struct qc_cli_list inputs; /* NAME=DATASET, each with a '=' that is not its first character */
    const char *preprocess;    /* NULL: the data sets' attributes */
    uint64_t samples;          /* 0: all */
    uint64_t seed;             /* samples are drawn when given[QC_OPTION_SEED], else spread evenly */
    const char *eval;          /* FILE[:DATASET] */
    const char *stats;         /* statistics file */
    const char *shard;         /* K/N, not checked; NULL: all samples */

    const char *method, *weight_method;            /* NAME[:key=value,...]; never NULL */
    struct qc_cli_list activation_types, weight_types; /* "uint8", then "uint16:GLOB" ...; at least one */
    struct qc_cli_list per_channel;
    bool per_channel_activations;
    bool per_tensor;                               /* of weights */
    bool symmetric_activations, symmetric_weights; /* default: false, true */
    struct qc_cli_list symmetric;                  /* as given, for the two above */
    bool propagate;
    const char *channel_statistics;                /* of collect: "on" or "off" */
    const char *second_moments;                    /* of collect: "on" or "off" */
    const char *equalize;                          /* "auto", "on" or "off" */
    const char *range;                             /* of weights: "full" or "restricted" */
    const char *rounding, *accumulator;            /* NULL: onnx, 32 bits */
    const char *lowering;                          /* "int8" or "int16" */
    const char *accumulator_bound;                 /* "auto", "proven" or "seen" */
    const char *weight_rounding;                   /* "nearest" or "compensated" */
    const char *bias_correction;                   /* "on" or "off" */
    const char *bias;                              /* "accumulator" or "narrowed" */
    const char *look_through;                      /* "on" or "off" */
    const char *nonfinite;                         /* "count" or "error" */

    const char *target;         /* of the rules: "ort" or "fused" */
    struct qc_cli_list formats; /* default: qdq */
    struct qc_cli_list rules, only, skip, plugins;
    bool require_integer, sensitivity;
    double max_drop; /* points; NaN: no demand */
    double tolerance;           /* of outputs, in their own units; NaN: no demand */

    const char *output;      /* NULL: the command's default */
    const char *html;        /* page to write; NULL: none */
    const char *report;      /* folder; NULL: the default; "": none */
    struct qc_cli_list dump; /* STAGE or STAGE=FILE */

    uint64_t threads;      /* default: all cores */
    uint64_t memory_limit; /* bytes; 0: none */
    const char *checkpoint; /* statistics file of an unfinished run */
    const char *config;
    const char *progress; /* "auto", "always" or "never" */
    bool json, quiet, verbose, follow_links;

    const struct qc_team *team; /* not an option: the processes that share the work; NULL: none (cli/team.h) */
    bool man, help, version;
    const char *completion; /* "bash", "zsh" or "fish" */
};

/* Parses the command line (argv[0] is the program) and the configuration file that it names. Options may stand before and behind
   operands, as --name=VALUE, --name VALUE, -o VALUE, -oVALUE, -qv; "--" ends them; what is given twice counts the second time,
   except for lists. Without a command name the command is `quantize` when the first operand is an existing file or ends in
   ".onnx", and `help` when there is no operand but --help or --version.
   Errors: QC_USAGE, one message that names the option and, where there is one, what may have been meant; a configuration file
   that cannot be read (as qc_file_read) or is not JSON (QC_BAD_INPUT). */
bool qc_options_parse(struct qc_cli_options *out, int argc, char **argv, struct qc_arena *a, struct qc_status *st);

/* Initial values, with the defaults of the table. */
bool qc_options_init(struct qc_cli_options *out, struct qc_arena *a, struct qc_status *st);

/* Stores one value (NULL: the argument was left out) as the command line would. QC_USAGE names the option. */
bool qc_options_set(struct qc_cli_options *o, enum qc_option option, const char *value, struct qc_status *st);

/* Applies a configuration: a JSON object, keys as long names; lists are arrays; flags are true or false. Keys of other commands
   are left alone; those in `skip` (by enum qc_option; may be NULL) too. QC_USAGE: unknown key, wrong value. */
bool qc_options_configure(struct qc_cli_options *o, const struct qc_json *config, const char *file, const bool *skip,
                          struct qc_status *st);

/* The effective options that decide the result (groups data, method, graph), as a configuration; for the report. NULL when
   memory is out. Owned by the caller. */
struct qc_json *qc_options_json(const struct qc_cli_options *o);

#endif
