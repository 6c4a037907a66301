// SPDX-License-Identifier: Apache-2.0
/* qcalib help [COMMAND], --help, --version, the manual and shell completion. */
#include <stdio.h>
#include <string.h>

#include "arith/contract.h"
#include "base/words.h"
#include "cli/commands/cmd.h"
#include "cli/help_files.h"
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

static void option_row(unsigned o, unsigned c)
{
    char left[QC_SPELLING], text[512];
    const char *preset = o == QC_OPTION_OUTPUT && c != QC_COMMAND_quantize ? NULL : qc_cli_option_info(o)->preset;
    bool this = preset && strcmp(preset, "this") == 0;
    qc_text(text, sizeof text, "%s%s%s%s", qc_cli_option_info(o)->help,
            this     ? " (default)"
            : preset ? " (default: "
                     : "",
            this || !preset ? "" : preset, preset && !this ? ")" : "");
    const int n = printf("  %s", option_spelling(left, o));
    if (n + 2 > COLUMN)
        printf("\n%*s", COLUMN, "");
    else
        printf("%*s", COLUMN - n, "");
    wrap(text, COLUMN, COLUMN);
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

/* Shell completion. */

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

/* Prints the values of an option that are known, between two texts. Returns false and prints nothing if none are. */
static bool values_of(const struct qc_option_info *i, const char *before, const char *after)
{
    const struct value_table *t = NULL;
    for (size_t k = 0; !i->choices && !t && k < sizeof value_tables / sizeof *value_tables; k++)
        if (strcmp(i->name, value_tables[k].option) == 0) t = &value_tables[k];
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

static void bash_values(void)
{
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
}

static void bash_words(void)
{
    for (unsigned c = 0; c < QC_CLI_COMMAND_COUNT; c++) {
        printf("        %s%s) words=\"", command_of(c), c == QC_COMMAND_quantize ? "|''" : "");
        for (unsigned k = 0; k < QC_CLI_OPTION_COUNT; k++)
            if (commands_of(k) & 1u << c) printf("--%s ", option_of(k)->name);
        fputs("\" ;;\n", stdout);
    }
}

static void zsh_commands(void)
{
    for (unsigned c = 0; c < QC_CLI_COMMAND_COUNT; c++) {
        printf("            '%s:", command_of(c));
        quoted(qc_command_info(c)->summary, ":\\");
        fputs("'\n", stdout);
    }
}

static void zsh_options(void)
{
    for (unsigned c = 0; c < QC_CLI_COMMAND_COUNT; c++) {
        printf("        %s)\n            _arguments \\\n", command_of(c));
        for (unsigned k = 0; k < QC_CLI_OPTION_COUNT; k++) {
            const struct qc_option_info *i = option_of(k);
            const bool repeat = i->kind == QC_KIND_LIST || i->kind == QC_KIND_BY_NAME;
            if (!(commands_of(k) & 1u << c)) continue;
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
            if (!letter_of(k)) continue;
            printf("                '-%c%s[", letter_of(k), i->argument ? "+" : "");
            quoted(i->help, "[]:\\");
            printf("]%s' \\\n", i->argument ? ":file:_files" : "");
        }
        if (c == QC_COMMAND_list) {
            fputs("                '*:table:(list ", stdout);
            choices(qc_command_info(QC_COMMAND_list)->operands, " ");
            fputs(")'\n            ;;\n", stdout);
        } else {
            fputs("                '*:file:_files'\n            ;;\n", stdout);
        }
    }
}

static void fish_options(void)
{
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

/* The manual page, with macros of man(7). */

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

static void manual_options(void)
{
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
            const unsigned commands = qc_cli_option_commands(o);
            const char *separator = "Commands: ";
            if (commands == (1u << QC_CLI_COMMAND_COUNT) - 1) continue;
            for (unsigned c = 0; c < QC_CLI_COMMAND_COUNT; c++) {
                if (!(commands & 1u << c)) continue;
                printf("%s%s", separator, qc_command_info(c)->name);
                separator = ", ";
            }
            fputs(".\n", stdout);
        }
    }
}

static void manual_synopsis(void)
{
    for (unsigned c = 0; c < QC_CLI_COMMAND_COUNT; c++) {
        fputs(c ? ".br\n.B qcalib\n" : ".B qcalib\n", stdout);
        printf(c == QC_COMMAND_quantize ? "[%s]" : "%s", command_of(c));
        fputs(" [OPTION...] ", stdout);
        line(qc_command_info(c)->operands);
    }
}

static void manual_commands(void)
{
    for (unsigned c = 0; c < QC_CLI_COMMAND_COUNT; c++) {
        printf(".TP\n.B %s\n", command_of(c));
        text(qc_command_info(c)->summary);
        fputs(".\n", stdout);
    }
}

/* Prints a file of cli/help. A line "%{...}" stands for lines that the tables give; "%{commands |}" in a line for the
   names of all commands, with these separators. */
static void print_file(const char *name)
{
    static const struct {
        const char *mark;
        void (*print)(void);
    } parts[] = {
        {"bash values", bash_values},         {"bash words", bash_words},           {"zsh commands", zsh_commands},
        {"zsh options", zsh_options},         {"fish options", fish_options},       {"manual options", manual_options},
        {"manual synopsis", manual_synopsis}, {"manual commands", manual_commands},
    };
    const struct qc_embedded *file = qc_help_files;
    while (strcmp(file->name, name) != 0) file++;
    const char *at = file->text;
    for (const char *mark; (mark = strstr(at, "%{"));) {
        const size_t length = strcspn(mark + 2, "}");
        printf("%.*s", (int)(mark - at), at);
        at = mark + length + 3;
        for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
            if (strlen(parts[i].mark) != length || strncmp(parts[i].mark, mark + 2, length) != 0) continue;
            parts[i].print();
            at++; /* the end of the line */
        }
        for (unsigned c = 0; strncmp(mark, "%{commands", 10) == 0 && c < QC_CLI_COMMAND_COUNT; c++)
            printf("%.*s%s", c > 0, mark + 10, command_of(c));
        if (strncmp(mark, "%{tables", 8) == 0) choices(qc_command_info(QC_COMMAND_list)->operands, " ");
        if (strncmp(mark, "%{version", 9) == 0) fputs(QC_VERSION, stdout);
    }
    fputs(at, stdout);
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
        static const char *const shells[] = {[QC_SHELL_BASH] = "completion.bash",
                                             [QC_SHELL_ZSH] = "completion.zsh",
                                             [QC_SHELL_FISH] = "completion.fish"};
        if (o->man) print_file("manual.man");
        if (o->completion) print_file(shells[o->completion]);
        return true;
    }
    if (o->operands.count == 0) {
        /* one screen: at most 24 lines of 80 columns */
        static const unsigned common[] = {QC_OPTION_DATA, QC_OPTION_METHOD, QC_OPTION_EVAL, QC_OPTION_OUTPUT};
        printf("Quantizes neural networks: fp32 ONNX model + samples -> int8 ONNX + report.\n");
        heading("Usage");
        printf("  qcalib --data calib.h5 [--method kl] model.onnx\n  qcalib COMMAND [OPTION...] FILE...\n");
        heading("Commands");
        for (unsigned k = 0; k < QC_CLI_COMMAND_COUNT; k++) {
            printf("  %-16s", command_of(k));
            wrap(qc_command_info(k)->summary, 18, 18);
        }
        heading("Common options");
        for (size_t k = 0; k < sizeof common / sizeof *common; k++) option_row(common[k], QC_COMMAND_quantize);
        printf("'qcalib help COMMAND' shows its options; 'man qcalib' is the full manual.\n");
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
