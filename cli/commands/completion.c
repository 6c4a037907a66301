// SPDX-License-Identifier: Apache-2.0
/* Shell completion, generated from the tables. */
#include <stdio.h>
#include <string.h>

#include "arith/contract.h"
#include "cli/commands/help.h"
#include "export/formats/exporter.h"
#include "observers/observer.h"

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

static const char *format_at(unsigned k)
{
    return k < qc_exporter_count() ? qc_exporter_at(k)->name : NULL;
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
    {"method", observer_at}, {"weight-method", observer_at}, {"rounding", contract_at}, {"format", format_at},
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

void qc_help_completion(const char *shell)
{
    if (strcmp(shell, "bash") == 0)
        bash();
    else if (strcmp(shell, "zsh") == 0)
        zsh();
    else
        fish();
}
