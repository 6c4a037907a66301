// SPDX-License-Identifier: Apache-2.0
#include "cli/commands/help.h"

#include <stdio.h>
#include <string.h>

#include "cli/terminal/screen.h"

enum { WIDTH = 80, COLUMN = 32 };

const char *qc_option_spelling(char buf[QC_SPELLING], unsigned o)
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
    char left[QC_SPELLING], text[256];
    const char *preset = option_preset(o, c);
    bool this = preset && strcmp(preset, "this") == 0;
    qc_text(text, sizeof text, "%s%s%s%s", qc_cli_option_info(o)->help,
            this     ? " (default)"
            : preset ? " (default: "
                     : "",
            this || !preset ? "" : preset, preset && !this ? ")" : "");
    row(qc_option_spelling(left, o), text);
}

void qc_help_overview(void)
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
    putchar('\n');
    heading("Common options");
    for (size_t k = 0; k < sizeof common / sizeof *common; k++) option_row(common[k], QC_COMMAND_quantize);
    printf("'qcalib help COMMAND' shows its options; 'man qcalib' is the full manual.\n");
}

void qc_help_command(unsigned c)
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
