// SPDX-License-Identifier: Apache-2.0
/* The manual page, generated from the tables with macros of man(7). */
#include <stdio.h>
#include <string.h>

#include "cli/commands/help.h"

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

static void commands_of(unsigned commands)
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
            line(qc_option_spelling(spelling, o));
            text(i->help);
            if (i->preset && strcmp(i->preset, "this") == 0)
                fputs(" (default)", stdout);
            else if (i->preset) {
                fputs(" (default: ", stdout);
                text(i->preset);
                putchar(')');
            }
            fputs(".\n", stdout);
            commands_of(qc_cli_option_commands(o));
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

void qc_help_man(void)
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
