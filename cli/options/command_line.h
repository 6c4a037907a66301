// SPDX-License-Identifier: Apache-2.0
/* The command line: the commands (cli/options/commands.def), the options of a job beside those of the terminal, and
   what was given. */
#pragma once

#include "quantize/options/options.h"

/* The commands of a job (enum qc_command) are the first; these are the terminal's own. */
enum {
    QC_COMMAND_compare_reports = QC_COMMAND_COUNT,
    QC_COMMAND_inspect,
    QC_COMMAND_list,
    QC_COMMAND_help,
    QC_CLI_COMMAND_COUNT
};

struct qc_command_info {
    const char *name, *operands, *summary;
    unsigned operands_min, operands_max;
};

const struct qc_command_info *qc_command_info(unsigned c);
bool qc_command_find(unsigned *out, const char *name);

/* The options of a job (enum qc_option) are the first; these are the terminal's own. */
enum {
    QC_CLI_OPTION_BEFORE = QC_OPTION_COUNT - 1,
#define QC_CLI_OPTION(id, ...) QC_OPTION_##id,
#include "cli/options/terminal_options.def"
#undef QC_CLI_OPTION
    QC_CLI_OPTION_COUNT
};

const struct qc_option_info *qc_cli_option_info(unsigned option);
char qc_cli_option_letter(unsigned option);       /* of the short form, or 0 */
unsigned qc_cli_option_commands(unsigned option); /* that take it: bits 1 << command */
/* Number k < QC_CLI_OPTION_COUNT in the order in which they are listed: both tables, by groups. */
unsigned qc_cli_option_at(unsigned k);
const char *qc_option_group_name(enum qc_option_group g);

/* Everything that was given. Values that were not given: NULL, an empty list or false, except as noted. */
struct qc_cli_options {
    struct qc_options job; /* first: fields of both tables are found from here */
    unsigned command;
    bool command_given;           /* false: `qcalib MODEL ...` */
    struct qc_text_list operands; /* MODEL and such, as many as the command takes */

    const char *output;         /* NULL: the command's default */
    const char *model, *labels; /* of pack; NULL: none */
    const char *html;           /* page to write; NULL: none */
    const char *report;         /* folder; NULL: the default; "": none */
    struct qc_text_list dump;   /* STAGE or STAGE=FILE */
    const char *config;
    const char *progress; /* "auto", "always" or "never" */
    bool json, quiet, verbose;
    bool man, help, version;
    const char *completion; /* "bash", "zsh" or "fish" */

    const struct qc_team
        *team; /* not an option: the processes that share the work; NULL: none (quantize/interface/team.h) */
};

/* Parses the command line (argv[0] is the program) and the configuration file that it names. Options may stand before
   and behind operands, as --name=VALUE, --name VALUE, -o VALUE, -oVALUE, -qv; "--" ends them; what is given twice
   counts the second time, except for lists and for --data, --eval and --stats, which are refused. Without a command
   name the command is `quantize` when the first operand is an existing file or ends in ".onnx", and `help` when there
   is no operand but --help or --version. Errors: QC_USAGE, one message that names the option and, where there is one,
   what may have been meant; a configuration file that cannot be read (as qc_file_read) or is not JSON (QC_BAD_INPUT).
 */
bool qc_options_parse(struct qc_cli_options *out, int argc, char **argv, struct qc_arena *a, struct qc_status *st);
