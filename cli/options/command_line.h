// SPDX-License-Identifier: Apache-2.0
/* The command line: the commands (cli/options/commands.def), the terminal's options in addition to those of a job, and
   the given values. */
#pragma once

#include "quantize/options/options.h"

/* The commands of a job (enum qc_command) come first, then the terminal's own. */
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

/* The options of a job (enum qc_option) come first, then the terminal's own. */
enum {
    QC_CLI_OPTION_BEFORE = QC_OPTION_COUNT - 1,
#define QC_CLI_OPTION(id, ...) QC_OPTION_##id,
#include "cli/options/terminal_options.def"
#undef QC_CLI_OPTION
    QC_CLI_OPTION_COUNT
};

const struct qc_option_info *qc_cli_option_info(unsigned option);
char qc_cli_option_letter(unsigned option);       /* the short form, or 0 */
unsigned qc_cli_option_commands(unsigned option); /* the commands that accept it: bits 1 << command */
/* Returns the k-th option in listed order (k < QC_CLI_OPTION_COUNT): both tables, by groups. */
unsigned qc_cli_option_at(unsigned k);
const char *qc_option_group_name(enum qc_option_group g);

#define QC_BARS(c) c("auto", QC_BAR_AUTO) c("always", QC_BAR_ALWAYS) c("never", QC_BAR_NEVER)
#define QC_SHELLS(c) c("bash", QC_SHELL_BASH) c("zsh", QC_SHELL_ZSH) c("fish", QC_SHELL_FISH)
enum qc_bar { QC_BARS(QC_CHOICE_VALUE) };
enum qc_shell { QC_SHELL_NONE, QC_SHELLS(QC_CHOICE_VALUE) };

/* All given values. Values that were not given are NULL, an empty list or false, unless noted. */
struct qc_cli_options {
    struct qc_options job; /* first: offsets of fields in both tables start here */
    unsigned command;
    bool command_given;           /* false: `qcalib MODEL ...` */
    struct qc_text_list operands; /* such as MODEL, as many as the command takes */

    const char *output;         /* NULL: the command's default */
    const char *model, *labels; /* of pack; NULL: none */
    const char *html;           /* page to write; NULL: none */
    const char *report;         /* folder; NULL: the default; "": none */
    struct qc_text_list dump;   /* STAGE or STAGE=FILE */
    const char *config;
    enum qc_bar progress;
    bool compress; /* of run */
    bool json, quiet, verbose;
    bool man, help, version;
    enum qc_shell completion;

    const struct qc_team
        *team; /* not an option: the processes that share the work; NULL: none (quantize/interface/inputs.h) */
};

/* Parses the command line (argv[0] is the program) and the configuration file that it names. Options may precede or
   follow operands, as --name=VALUE, --name VALUE, -o VALUE, -oVALUE, -qv; "--" ends them. The last value of a repeated
   option counts, except for lists; --data, --eval and --stats must not be repeated. Without a command name the command
   is `quantize` if the first operand is an existing file or ends in ".onnx", and `help` if there is no operand except
   --help or --version. Fails with QC_USAGE (the message names the option and, if possible, a suggestion); as
   qc_file_read, or with QC_BAD_INPUT if the configuration file is not JSON. */
bool qc_options_parse(struct qc_cli_options *out, int argc, char **argv, struct qc_arena *a, struct qc_status *st);
