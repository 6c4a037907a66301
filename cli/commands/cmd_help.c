// SPDX-License-Identifier: Apache-2.0
/* qcalib help [COMMAND], --help, --version, the manual and shell completion. */
#include <stdio.h>
#include <string.h>

#include "arith/contract.h"
#include "base/words.h"
#include "cli/commands/cmd.h"
#include "cli/options/command_line.h"
#include "cli/terminal/screen.h"
#include "observers/observer.h"

enum { QC_SPELLING = 96 };

enum { WIDTH = 80, COLUMN = 32 };

static const char *option_spelling(char buf[QC_SPELLING], unsigned o)
{
    const struct qc_option_info *i = qc_cli_option_info(o);
    char letter[8] = "";
    if (qc_cli_option_letter(o)) qc_text(letter, sizeof letter, "-%c, ", qc_cli_option_letter(o));
    return qc_text(buf, QC_SPELLING, "%s--%s%s%s", letter, i->name, i->argument && !i->bare ? " " : "",
                   i->argument ? i->argument : "");
}

/* Returns the text after "default:" for a command, or NULL. */
static const char *option_preset(unsigned o, unsigned c)
{
    if (o == QC_OPTION_OUTPUT && c != QC_COMMAND_quantize) return NULL;
    return qc_cli_option_info(o)->preset;
}

/* Prints words from column `at` on, with line breaks before WIDTH. */
static void wrap(const char *text, int at, int indent)
{
    for (const char *p = text; *p;) {
        size_t n = strcspn(p, " ");
        if (at > indent && at + 1 + (int)n > WIDTH) {
            printf("\n%*s", indent, "");
            at = indent;
        } else if (p != text) {
            putchar(' ');
            at++;
        }
        printf("%.*s", (int)n, p);
        at += (int)n;
        p += n;
        while (*p == ' ') p++;
    }
    putchar('\n');
}

static void heading(const char *text)
{
    printf("%s%s%s\n", qc_style(stdout, QC_STYLE_BOLD), text, qc_style(stdout, QC_STYLE_PLAIN));
}

static void row(const char *left, const char *text)
{
    int n = printf("  %s", left);
    if (n + 2 > COLUMN) {
        printf("\n%*s", COLUMN, "");
    } else {
        printf("%*s", COLUMN - n, "");
    }
    wrap(text, COLUMN, COLUMN);
}

static void option_row(unsigned o, unsigned c)
{
    char left[QC_SPELLING], text[512];
    const char *preset = option_preset(o, c);
    bool this = preset && strcmp(preset, "this") == 0;
    qc_text(text, sizeof text, "%s%s%s%s", qc_cli_option_info(o)->help,
            this     ? " (default)"
            : preset ? " (default: "
                     : "",
            this || !preset ? "" : preset, preset && !this ? ")" : "");
    row(option_spelling(left, o), text);
}

/* Prints one screen: at most 24 lines of 80 columns. */
static void help_overview(void)
{
    static const unsigned common[] = {QC_OPTION_DATA, QC_OPTION_METHOD, QC_OPTION_EVAL, QC_OPTION_OUTPUT};
    printf("Quantizes neural networks: fp32 ONNX model + samples -> int8 ONNX + report.\n");
    heading("Usage");
    printf("  qcalib --data calib.h5 [--method kl] model.onnx\n  qcalib COMMAND [OPTION...] FILE...\n");
    heading("Commands");
    for (unsigned c = 0; c < QC_CLI_COMMAND_COUNT; c++) {
        const struct qc_command_info *i = qc_command_info(c);
        printf("  %-16s", i->name);
        wrap(i->summary, 18, 18);
    }
    heading("Common options");
    for (size_t k = 0; k < sizeof common / sizeof *common; k++) option_row(common[k], QC_COMMAND_quantize);
    printf("'qcalib help COMMAND' shows its options; 'man qcalib' is the full manual.\n");
}

/* Prints usage and all options of a command in 80 columns. */
static void help_command(unsigned c)
{
    const struct qc_command_info *i = qc_command_info(c);
    heading("Usage");
    printf("  qcalib %s%s%s [OPTION...] %s\n", c == QC_COMMAND_quantize ? "[" : "", i->name,
           c == QC_COMMAND_quantize ? "]" : "", i->operands);
    printf("  %c%s.\n", i->summary[0] >= 'a' && i->summary[0] <= 'z' ? i->summary[0] - 'a' + 'A' : i->summary[0],
           i->summary + 1);
    for (unsigned g = 0; g < QC_GROUP_COUNT; g++) {
        bool begun = false;
        for (unsigned k = 0; k < QC_CLI_OPTION_COUNT; k++) {
            const unsigned o = qc_cli_option_at(k);
            if (qc_cli_option_info(o)->group != (enum qc_option_group)g || !(qc_cli_option_commands(o) & 1u << c))
                continue;
            if (!begun) {
                putchar('\n');
                heading(qc_option_group_name((enum qc_option_group)g));
            }
            begun = true;
            option_row(o, c);
        }
    }
}

/* Shell completion, generated from the tables. */

/* Returns the k-th listed option. */
static const struct qc_option_info *option_of(unsigned k)
{
    return qc_cli_option_info(qc_cli_option_at(k));
}

static char letter_of(unsigned k)
{
    return qc_cli_option_letter(qc_cli_option_at(k));
}

static unsigned commands_of(unsigned k)
{
    return qc_cli_option_commands(qc_cli_option_at(k));
}

static const char *command_of(unsigned c)
{
    return qc_command_info(c)->name;
}

static void choices(const char *s, const char *separator)
{
    for (; *s; s++) {
        if (*s == '|')
            fputs(separator, stdout);
        else
            putchar(*s);
    }
}

static const char *observer_at(unsigned k)
{
    return k < qc_observer_count() ? qc_observer_at(k)->name : NULL;
}

static const char *contract_at(unsigned k)
{
    return k < QC_CONTRACT_COUNT ? qc_contract_info((enum qc_contract)k)->name : NULL;
}

/* Returns "" for ops without a name in files. */
static const char *op_at(unsigned k)
{
    return k + QC_OP_INVALID + 1 < QC_OP_COUNT ? qc_op_info((enum qc_op)(k + QC_OP_INVALID + 1))->onnx : NULL;
}

/* Options whose values are in a table of the program; at(k) is NULL after the last. */
static const struct value_table {
    const char *option;
    const char *(*at)(unsigned k);
} value_tables[] = {
    {"method", observer_at},
    {"weight-method", observer_at},
    {"rounding", contract_at},
    {"skip", op_at},
};

static const struct value_table *table_of(const struct qc_option_info *i)
{
    for (size_t k = 0; k < sizeof value_tables / sizeof *value_tables; k++)
        if (strcmp(i->name, value_tables[k].option) == 0) return &value_tables[k];
    return NULL;
}

/* Prints the values of an option that are known, between two texts. Returns false and prints nothing if none are. */
static bool values_of(const struct qc_option_info *i, const char *before, const char *after)
{
    const struct value_table *t = i->choices ? NULL : table_of(i);
    if (!i->choices && !t) return false;
    const char *word, *separator = "";
    fputs(before, stdout);
    if (i->choices) choices(i->choices, " ");
    for (unsigned k = 0; t && (word = t->at(k)); k++) {
        if (!*word) continue;
        printf("%s%s", separator, word);
        separator = " ";
    }
    fputs(after, stdout);
    return true;
}

/* Prints text inside single quotes of a shell, with a backslash before each character of `escaped`. */
static void quoted(const char *s, const char *escaped)
{
    for (; *s; s++) {
        if (*s == '\'')
            fputs("'\\''", stdout);
        else if (strchr(escaped, *s))
            printf("\\%c", *s);
        else
            putchar(*s);
    }
}

static bool takes_file(const struct qc_option_info *i)
{
    return (i->kind == QC_KIND_TEXT || i->kind == QC_KIND_LIST) && i->argument &&
           (strncmp(i->argument, "FILE", 4) == 0 || strcmp(i->argument, "DIR") == 0);
}

static bool list_words(const char *command)
{
    return strcmp(command, "list") == 0;
}

static void bash(void)
{
    printf("# bash completion of qcalib\n_qcalib()\n{\n    local cur=${COMP_WORDS[COMP_CWORD]} "
           "prev=${COMP_WORDS[COMP_CWORD-1]} command= words= w\n");
    printf("    if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD-2]}; fi\n");
    printf("    COMPREPLY=()\n    case $prev in\n");
    for (unsigned k = 0; k < QC_CLI_OPTION_COUNT; k++) {
        const struct qc_option_info *i = option_of(k);
        if (!i->argument || i->bare) continue;
        printf("        --%s", i->name);
        if (letter_of(k)) printf("|-%c", letter_of(k));
        fputs(") ", stdout);
        if (!values_of(i, "COMPREPLY=($(compgen -W \"", "\" -- \"$cur\")); ") && takes_file(i))
            fputs("COMPREPLY=($(compgen -f -- \"$cur\")); ", stdout);
        fputs("return ;;\n", stdout);
    }
    printf("    esac\n    for w in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n        case $w in\n            ");
    for (unsigned c = 0; c < QC_CLI_COMMAND_COUNT; c++) printf("%s%s", c ? "|" : "", command_of(c));
    printf(") command=$w; break ;;\n        esac\n    done\n    case $command in\n");
    for (unsigned c = 0; c < QC_CLI_COMMAND_COUNT; c++) {
        printf("        %s%s) words=\"", command_of(c), c == QC_COMMAND_quantize ? "|''" : "");
        for (unsigned k = 0; k < QC_CLI_OPTION_COUNT; k++)
            if (commands_of(k) & 1u << c) printf("--%s ", option_of(k)->name);
        fputs("\" ;;\n", stdout);
    }
    printf("    esac\n    if [[ $cur == -* ]]; then\n        COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n        "
           "return\n    fi\n");
    printf("    case $command in\n        '') COMPREPLY=($(compgen -W \"");
    for (unsigned c = 0; c < QC_CLI_COMMAND_COUNT; c++) printf("%s ", command_of(c));
    printf("\" -- \"$cur\") $(compgen -f -- \"$cur\")) ;;\n        list) COMPREPLY=($(compgen -W \"");
    choices(qc_command_info(QC_COMMAND_list)->operands, " ");
    printf("\" -- \"$cur\")) ;;\n        help) COMPREPLY=($(compgen -W \"");
    for (unsigned c = 0; c < QC_CLI_COMMAND_COUNT; c++) printf("%s ", command_of(c));
    printf("\" -- \"$cur\")) ;;\n        *) COMPREPLY=($(compgen -f -- \"$cur\")) ;;\n    esac\n}\ncomplete -o "
           "filenames -F _qcalib qcalib\n");
}

static void zsh_option(unsigned k)
{
    const struct qc_option_info *i = option_of(k);
    const char letter = letter_of(k);
    bool repeat = i->kind == QC_KIND_LIST || i->kind == QC_KIND_BY_NAME;
    printf("                '%s--%s%s[", repeat ? "*" : "", i->name, i->argument ? i->bare ? "=-" : "=" : "");
    quoted(i->help, "[]:\\");
    putchar(']');
    if (i->argument) {
        fputs(i->bare ? "::" : ":", stdout);
        quoted(i->name, "[]:\\");
        putchar(':');
        if (!values_of(i, "(", ")")) fputs(takes_file(i) ? "_files" : " ", stdout);
    }
    fputs("' \\\n", stdout);
    if (!letter) return;
    printf("                '-%c%s[", letter, i->argument ? "+" : "");
    quoted(i->help, "[]:\\");
    printf("]%s' \\\n", i->argument ? ":file:_files" : "");
}

static void zsh(void)
{
    printf("#compdef qcalib\n_qcalib() {\n    local command=quantize w\n    for w in ${words[2,CURRENT-1]}; do\n       "
           " case $w in\n            ");
    for (unsigned c = 0; c < QC_CLI_COMMAND_COUNT; c++) printf("%s%s", c ? "|" : "", command_of(c));
    printf(") command=$w; break ;;\n        esac\n    done\n    if (( CURRENT == 2 )) && [[ $PREFIX != -* ]]; then\n   "
           "     local -a commands=(\n");
    for (unsigned c = 0; c < QC_CLI_COMMAND_COUNT; c++) {
        printf("            '%s:", command_of(c));
        quoted(qc_command_info(c)->summary, ":\\");
        fputs("'\n", stdout);
    }
    printf("        )\n        _describe command commands\n        _files\n        return\n    fi\n    case $command "
           "in\n");
    for (unsigned c = 0; c < QC_CLI_COMMAND_COUNT; c++) {
        printf("        %s)\n            _arguments \\\n", command_of(c));
        for (unsigned k = 0; k < QC_CLI_OPTION_COUNT; k++)
            if (commands_of(k) & 1u << c) zsh_option(k);
        fputs("                ", stdout);
        if (list_words(command_of(c))) {
            fputs("'*:table:(list ", stdout);
            choices(qc_command_info(QC_COMMAND_list)->operands, " ");
            fputs(")'\n", stdout);
        } else {
            fputs("'*:file:_files'\n", stdout);
        }
        fputs("            ;;\n", stdout);
    }
    printf("    esac\n}\n_qcalib \"$@\"\n");
}

static void fish(void)
{
    printf("# fish completion of qcalib\ncomplete -c qcalib -n __fish_use_subcommand -a '");
    for (unsigned c = 0; c < QC_CLI_COMMAND_COUNT; c++) printf("%s%s", c ? " " : "", command_of(c));
    fputs("'\ncomplete -c qcalib -n '__fish_seen_subcommand_from list' -f -a '", stdout);
    choices(qc_command_info(QC_COMMAND_list)->operands, " ");
    fputs("'\n", stdout);
    for (unsigned k = 0; k < QC_CLI_OPTION_COUNT; k++) {
        const struct qc_option_info *i = option_of(k);
        fputs("complete -c qcalib", stdout);
        if (commands_of(k) != (1u << QC_CLI_COMMAND_COUNT) - 1) {
            fputs(" -n '__fish_seen_subcommand_from", stdout);
            for (unsigned c = 0; c < QC_CLI_COMMAND_COUNT; c++)
                if (commands_of(k) & 1u << c) printf(" %s", command_of(c));
            fputs(commands_of(k) & 1u << QC_COMMAND_quantize ? "; or __fish_use_subcommand'" : "'", stdout);
        }
        printf(" -l %s", i->name);
        if (letter_of(k)) printf(" -s %c", letter_of(k));
        if (i->argument && !i->bare) fputs(takes_file(i) ? " -r -F" : " -x", stdout);
        values_of(i, " -a '", "'");
        fputs(" -d '", stdout);
        for (const char *p = i->help; *p; p++) printf(*p == '\'' || *p == '\\' ? "\\%c" : "%c", *p);
        fputs("'\n", stdout);
    }
}

/* The manual page, generated from the tables with macros of man(7). */

/* Prints text with troff's special characters escaped. */
static void text(const char *s)
{
    if (*s == '.' || *s == '\'') fputs("\\&", stdout);
    for (; *s; s++) {
        if (*s == '\\')
            fputs("\\e", stdout);
        else if (*s == '-')
            fputs("\\-", stdout);
        else if (*s == '\'')
            fputs("\\(aq", stdout);
        else
            putchar(*s);
    }
}

static void line(const char *s)
{
    text(s);
    putchar('\n');
}

static void section(const char *name)
{
    printf(".SH %s\n", name);
}

static void commands_of_option(unsigned commands)
{
    const char *separator = "Commands: ";
    if (commands == (1u << QC_CLI_COMMAND_COUNT) - 1) return;
    for (unsigned c = 0; c < QC_CLI_COMMAND_COUNT; c++) {
        if (!(commands & 1u << c)) continue;
        printf("%s%s", separator, qc_command_info(c)->name);
        separator = ", ";
    }
    fputs(".\n", stdout);
}

static void options(void)
{
    section("OPTIONS");
    line("Options may precede or follow operands. Values follow as --name=VALUE or --name VALUE.");
    for (unsigned g = 0; g < QC_GROUP_COUNT; g++) {
        printf(".SS %s\n", qc_option_group_name((enum qc_option_group)g));
        for (unsigned k = 0; k < QC_CLI_OPTION_COUNT; k++) {
            const unsigned o = qc_cli_option_at(k);
            const struct qc_option_info *i = qc_cli_option_info(o);
            char spelling[QC_SPELLING];
            if (i->group != (enum qc_option_group)g) continue;
            fputs(".TP\n.B ", stdout);
            line(option_spelling(spelling, o));
            text(i->help);
            if (i->preset && strcmp(i->preset, "this") == 0)
                fputs(" (default)", stdout);
            else if (i->preset) {
                fputs(" (default: ", stdout);
                text(i->preset);
                putchar(')');
            }
            fputs(".\n", stdout);
            commands_of_option(qc_cli_option_commands(o));
        }
    }
}

static void paragraph(const char *const *lines, size_t n)
{
    for (size_t k = 0; k < n; k++) line(lines[k]);
}
#define PARAGRAPH(...)                                                                                                 \
    paragraph((const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

static void data_files(void)
{
    section("DATA FILES");
    PARAGRAPH(
        "--data and --eval take an HDF5 file, a .npz file, a .npy file, a folder of .npy files, or a folder of images",
        "(JPEG, PNG, WebP). 'qcalib pack' makes one HDF5 file of images or arrays.");
    section("IMAGES");
    PARAGRAPH("The short side of an image is resized, and its centre is cut out, to the size of the model's input.",
              "--image overrides this: resize=N crop=N layout=nchw|nhwc color=rgb|bgr|grey.",
              "Pixels are 0 to 255; --preprocess says how they become the input: 'scale=1/255 mean=.485,.456,.406",
              "std=.229,.224,.225', or the name of a convention: imagenet, tensorflow, caffe, yolo.",
              "In --eval, folders inside the folder are labels, in sorted order.",
              "An image that cannot be decoded is left out with a warning; with --strict it is an error.");
    section("ARRAYS");
    PARAGRAPH(
        "A .npz file holds one array for each model input, named as the input; a .npy file is for models with one",
        "input. The first axis is the sample. labels and target in a .npz file mean the same as in HDF5.");
    section("HDF5 FILES");
    PARAGRAPH("One data set per model input, first axis = sample, any float or integer type.",
              "Numeric attributes scale, mean and std (one value, or one per channel of axis 1)",
              "become (x*scale - mean)/std.", "A data set of the input's rank is cut into batches along axis 0;",
              "a data set with one more axis holds whole inputs.",
              "A model with a fixed batch of B takes B samples at a time; a remainder is dropped with a warning.",
              "labels (integer, one per sample) gives top-1 and top-5;",
              "target (shaped like the output) gives MSE and PSNR.");
    section("CONFIGURATION");
    PARAGRAPH("The file of --config is a JSON object: option names without dashes as keys;",
              "strings, numbers, true or false as values, arrays for repeatable options.",
              "The command line wins. Keys of other commands are ignored, so one file can serve all commands.");
}

static void exit_codes(void)
{
    static const struct {
        enum qc_code code;
        const char *meaning;
    } codes[] = {
        {QC_OK, "done"},
        {QC_DEMAND, "a demand was not met (--require-integer, --max-drop, --min-sqnr, --max-nll, --size, --tolerance)"},
        {QC_USAGE, "wrong command line"},
        {QC_BAD_INPUT, "bad input: damaged, hostile, inconsistent"},
        {QC_UNSUPPORTED, "unsupported op, type or opset"},
        {QC_MACHINE, "failure of the machine: memory, disk, file permissions"},
        {QC_INTERRUPTED, "interrupted"},
    };
    section("EXIT STATUS");
    line("With any exit code, no partial output file is left and no existing output is damaged.");
    for (size_t k = 0; k < sizeof codes / sizeof *codes; k++) {
        printf(".TP\n.B %d\n", (int)codes[k].code);
        line(codes[k].meaning);
    }
}

static void example(const char *command)
{
    fputs(".PP\n.nf\n", stdout);
    line(command);
    fputs(".fi\n", stdout);
}

/* Prints the manual page: troff with man macros (man(7)). */
static void help_man(void)
{
    printf(".TH QCALIB 1 \"\" \"qcalib %s\" \"User Commands\"\n", QC_VERSION);
    section("NAME");
    line("qcalib - calibrate and quantize neural networks");
    section("SYNOPSIS");
    for (unsigned c = 0; c < QC_CLI_COMMAND_COUNT; c++) {
        const struct qc_command_info *i = qc_command_info(c);
        fputs(c ? ".br\n.B qcalib\n" : ".B qcalib\n", stdout);
        printf(c == QC_COMMAND_quantize ? "[%s]" : "%s", i->name);
        fputs(" [OPTION...] ", stdout);
        line(i->operands);
    }
    section("DESCRIPTION");
    PARAGRAPH("Reads an fp32 ONNX model, runs it over samples (images, arrays or HDF5),",
              "chooses quantization parameters, and writes an int8 ONNX graph and a report.",
              "Results do not depend on the number of threads.");
    section("COMMANDS");
    for (unsigned c = 0; c < QC_CLI_COMMAND_COUNT; c++) {
        const struct qc_command_info *i = qc_command_info(c);
        printf(".TP\n.B %s\n", i->name);
        text(i->summary);
        fputs(".\n", stdout);
    }
    options();
    data_files();
    exit_codes();
    section("ENVIRONMENT");
    line("NO_COLOR, when set and not empty, turns colours off.");
    section("EXAMPLES");
    example("qcalib --data calib.h5 --method kl --eval test.h5 model.onnx");
    example("qcalib eval model.onnx model.int8.onnx --data test.h5");
    example("qcalib run model.onnx --data in.h5 -o out.h5");
}

bool qc_cmd_help(const struct qc_cli_options *o, struct qc_status *st)
{
    unsigned c = o->command;
    if (o->version) {
        printf("qcalib %s\n", QC_VERSION);
        return true;
    }
    if (o->help && o->command_given) {
        help_command(o->command);
        return true;
    }
    if (o->man || o->completion) {
        if (o->man) help_man();
        if (o->completion == QC_SHELL_BASH) bash();
        if (o->completion == QC_SHELL_ZSH) zsh();
        if (o->completion == QC_SHELL_FISH) fish();
        return true;
    }
    if (o->operands.count == 0) {
        help_overview();
        return true;
    }
    if (!qc_command_find(&c, o->operands.items[0])) {
        const char *names[QC_CLI_COMMAND_COUNT];
        for (unsigned k = 0; k < QC_CLI_COMMAND_COUNT; k++) names[k] = qc_command_info(k)->name;
        return qc_fail(st, QC_USAGE, "there is no command '%s'%s; see 'qcalib help'", o->operands.items[0],
                       QC_MEANT("", qc_closest(o->operands.items[0], names, QC_CLI_COMMAND_COUNT)));
    }
    help_command(c);
    return true;
}
