// SPDX-License-Identifier: Apache-2.0
#include "cli/options/command_line.h"

#include <string.h>

static const struct qc_command_info commands[QC_CLI_COMMAND_COUNT] = {
#define QC_COMMAND(id, word, min, max, operand_text, text)                                                             \
    [QC_COMMAND_##id] = {                                                                                              \
        .name = (word), .operands = (operand_text), .summary = (text), .operands_min = (min), .operands_max = (max)},
#include "cli/options/commands.def"
#undef QC_COMMAND
};

#define QC_CLI_FIELD(name) .field = offsetof(struct qc_cli_options, name)
#define QC_ON_ALL ((1u << QC_CLI_COMMAND_COUNT) - 1)
static const struct {
    struct qc_option_info info;
    char letter;
} own[QC_CLI_OPTION_COUNT - QC_OPTION_COUNT] = {
#define QC_CLI_OPTION(id, short_form, ...)                                                                             \
    [QC_OPTION_##id - QC_OPTION_COUNT] = {.info = {__VA_ARGS__}, .letter = (short_form)},
#include "cli/options/terminal_options.def"
#undef QC_CLI_OPTION
};
_Static_assert(offsetof(struct qc_cli_options, job) == 0, "fields of both tables are found from the same address");

static const char *const group_names[QC_GROUP_COUNT] = {
    [QC_GROUP_DATA] = "Data",     [QC_GROUP_METHOD] = "Method", [QC_GROUP_GRAPH] = "Graph",
    [QC_GROUP_OUTPUT] = "Output", [QC_GROUP_RUN] = "Running",   [QC_GROUP_ABOUT] = "About",
};

const struct qc_command_info *qc_command_info(unsigned c)
{
    return &commands[c];
}

bool qc_command_find(unsigned *out, const char *name)
{
    for (unsigned c = 0; c < QC_CLI_COMMAND_COUNT; c++) {
        if (strcmp(commands[c].name, name) != 0) continue;
        *out = c;
        return true;
    }
    return false;
}

const struct qc_option_info *qc_cli_option_info(unsigned option)
{
    return option < QC_OPTION_COUNT ? qc_option_info((enum qc_option)option) : &own[option - QC_OPTION_COUNT].info;
}

char qc_cli_option_letter(unsigned option)
{
    return option < QC_OPTION_COUNT ? '\0' : own[option - QC_OPTION_COUNT].letter;
}

unsigned qc_cli_option_commands(unsigned option)
{
    /* `list observers` also shows those of a plugin; inspect also reads models and data. */
    const unsigned listed = option == QC_OPTION_PLUGIN ? QC_ON(list) : 0;
    const unsigned inspected =
        option == QC_OPTION_FOLLOW_LINKS || option == QC_OPTION_MEMORY_LIMIT ? QC_ON(inspect) : 0;
    return qc_cli_option_info(option)->commands | listed | inspected;
}

unsigned qc_cli_option_at(unsigned k)
{
    unsigned job = 0, terminal = QC_OPTION_COUNT, at = 0;
    for (unsigned i = 0; i <= k; i++) {
        const bool jobs =
            job < QC_OPTION_COUNT &&
            (terminal == QC_CLI_OPTION_COUNT || qc_cli_option_info(job)->group <= qc_cli_option_info(terminal)->group);
        at = jobs ? job++ : terminal++;
    }
    return at;
}

const char *qc_option_group_name(enum qc_option_group g)
{
    return group_names[g];
}
