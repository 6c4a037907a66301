// SPDX-License-Identifier: Apache-2.0
#include "base/pool.h"
#include "base/words.h"
#include "cli/options/command_line.h"
#include "tests/check.h"

static struct qc_cli_options o;

/* Parses "qcalib" and the words of a line; a word has no spaces but for '_', which stands for one. */
static bool parse(const char *line)
{
    char *argv[64] = {"qcalib"};
    int argc = 1;
    char *text = qc_arena_strdup(test_arena(), line, ST);
    for (char *p = strtok(text, " "); p; p = strtok(NULL, " ")) {
        for (char *c = p; *c; c++)
            if (*c == '_') *c = ' ';
        argv[argc++] = p;
    }
    return qc_options_parse(&o, argc, argv, test_arena(), ST);
}

static void accepts(const char *line)
{
    cr_assert(parse(line), "%s: %s", line, failure.message);
    cr_assert_eq(failure.code, QC_OK);
}

/* Fails with the code and a message that has the two parts in it. */
static void refuses(const char *line, enum qc_code code, const char *part, const char *other)
{
    cr_assert(!parse(line), "%s was accepted", line);
    cr_assert_eq(failure.code, code, "%s: code %d, %s", line, (int)failure.code, failure.message);
    cr_assert(strstr(failure.message, part), "%s: '%s' is not in: %s", line, part, failure.message);
    cr_assert(!other || strstr(failure.message, other), "%s: '%s' is not in: %s", line, other, failure.message);
}

/* One row per option: a value it takes, how that prints when read back through the field, and values it refuses. */
struct row {
    const char *value;   /* NULL: takes none */
    const char *stored;  /* of text, lists joined by '+'; numbers as %g */
    const char *refused; /* NULL: none is */
};

static const struct row rows[QC_CLI_OPTION_COUNT] = {
    [QC_OPTION_DATA] = {"calib.h5:x", "calib.h5:x", ""},
    [QC_OPTION_HTML] = {"steps.html", "steps.html", ""},
    [QC_OPTION_STATS] = {"a.stats.h5", "a.stats.h5", ""},
    [QC_OPTION_SHARD] = {"1/4", "1/4", ""},
    [QC_OPTION_INPUT] = {"a/b=group/x", "a/b=group/x", "=x"},
    [QC_OPTION_STATE] = {"h=h/next", "h=h/next", "=x"},
    [QC_OPTION_IMAGE] = {"crop=224", "crop=224", ""},
    [QC_OPTION_PREPROCESS] = {"scale=1/255 mean=.5", "scale=1/255 mean=.5", ""},
    [QC_OPTION_SAMPLES] = {"512", "512", "0"},
    [QC_OPTION_SEED] = {"0", "0", "-1"},
    [QC_OPTION_EVAL] = {"test.h5", "test.h5", ""},
    [QC_OPTION_SECOND_MOMENTS] = {"off", "off", "none"},
    [QC_OPTION_CHANNEL_STATISTICS] = {"on", "on", "some"},
    [QC_OPTION_METRIC] = {"lower:m {}", "lower:m {}", ""},
    [QC_OPTION_NONFINITE] = {"error", "error", "maybe"},
    [QC_OPTION_METHOD] = {"kl:bins=4096", "kl:bins=4096", ""},
    [QC_OPTION_WEIGHT_METHOD] = {"mse", "mse", ""},
    [QC_OPTION_WEIGHT_ROUNDING] = {"nearest", "nearest", "up"},
    [QC_OPTION_BIAS] = {"narrowed", "narrowed", "later"},
    [QC_OPTION_BIAS_CORRECTION] = {"off", "off", "yes"},
    [QC_OPTION_LOOK_THROUGH] = {"off", "off", "yes"},
    [QC_OPTION_ENCODINGS] = {"e.json", "e.json", ""},
    [QC_OPTION_ACTIVATION_TYPE] = {"int8", "int8", "uint7"},
    [QC_OPTION_WEIGHT_TYPE] = {"int8", "int8", "float"},
    [QC_OPTION_WEIGHT_BLOCK] = {"32", "32", "33"},
    [QC_OPTION_IO_TYPE] = {"int8", "int8", "uint7"},
    [QC_OPTION_EDGES_TYPE] = {"int8", "int8", "uint16"},
    [QC_OPTION_KV_TYPE] = {"int8", "int8", "uint8"},
    [QC_OPTION_ACCURACY_LEVEL] = {"4", "4", "5"},
    [QC_OPTION_PER_TENSOR] = {NULL, "1", "yes"},
    [QC_OPTION_PER_CHANNEL] = {"activations,weights", "activations+weights", "activations,none"},
    [QC_OPTION_SYMMETRIC] = {"activations,weights", "activations+weights", "activations,none"},
    [QC_OPTION_RANGE] = {"full", "full", "Full"},
    [QC_OPTION_OVERFLOW_FIX] = {"reduce-range", "reduce-range", "reduce_range"},
    [QC_OPTION_FORMAT] = {"qdq", "qdq", "qdq,onnx"},
    [QC_OPTION_ONLY] = {"conv2d", "conv2d", ""},
    [QC_OPTION_SKIP] = {"/fc/*", "/fc/*", ""},
    [QC_OPTION_PLUGIN] = {"./mine.so", "./mine.so", ""},
    [QC_OPTION_KERNEL] = {"./mine.so", "./mine.so", ""},
    [QC_OPTION_RULES] = {"my.rules", "my.rules", ""},
    [QC_OPTION_EQUALIZE] = {"on", "on", "yes"},
    [QC_OPTION_SCALE_CHANNELS] = {"awq", "awq", "on"},
    [QC_OPTION_TARGET] = {"fused", "fused", "tpu"},
    [QC_OPTION_PREFER] = {"size", "size", "latency"},
    [QC_OPTION_PROCESSOR] = {"avx2", "avx2", "arm"},
    [QC_OPTION_BENCHMARK] = {"{}", "{}", ""},
    [QC_OPTION_REQUIRE_INTEGER] = {NULL, "1", "1"},
    [QC_OPTION_MAX_DROP] = {"0.5", "0.5", "-1"},
    [QC_OPTION_MIN_SQNR] = {"30", "30", "-1"},
    [QC_OPTION_MAX_NLL] = {"0.5", "0.5", "-1"},
    [QC_OPTION_SIZE] = {"12.5%", "12.5%", "2.5M"},
    [QC_OPTION_SENSITIVITY] = {NULL, "1", "1"},
    [QC_OPTION_ADVICE] = {"off", "off", "maybe"},
    [QC_OPTION_ROUNDING] = {"tflite", "tflite", ""},
    [QC_OPTION_ACCUMULATOR] = {"14:saturate", "14:saturate", ""},
    [QC_OPTION_ACCUMULATOR_BOUND] = {"proven", "proven", "both"},
    [QC_OPTION_LOWERING] = {"int16", "int16", "int32"},
    [QC_OPTION_TOLERANCE] = {"0.25", "0.25", "-1"},
    [QC_OPTION_OUTPUT] = {"out.onnx", "out.onnx", ""},
    [QC_OPTION_MODEL] = {"m.onnx", "m.onnx", ""},
    [QC_OPTION_LABELS] = {"l.csv", "l.csv", ""},
    [QC_OPTION_REPORT] = {"dir", "dir", ""},
    [QC_OPTION_NO_REPORT] = {NULL, "", "x"},
    [QC_OPTION_DUMP] = {"fold=f.txt", "fold=f.txt", ""},
    [QC_OPTION_PROPAGATE] = {NULL, "1", "1"},
    [QC_OPTION_EFFORT] = {"high", "high", "most"},
    [QC_OPTION_FOLLOW_LINKS] = {NULL, "1", "1"},
    [QC_OPTION_STRICT] = {NULL, "1", "1"},
    [QC_OPTION_COMPRESS] = {NULL, "1", "1"},
    [QC_OPTION_JSON] = {NULL, "1", "1"},
    [QC_OPTION_QUIET] = {NULL, "1", "1"},
    [QC_OPTION_VERBOSE] = {NULL, "1", "1"},
    [QC_OPTION_PROGRESS] = {"always", "always", "sometimes"},
    [QC_OPTION_THREADS] = {"3", "3", "2x"},
    [QC_OPTION_MEMORY_LIMIT] = {"2G", "2147483648", "2Q"},
    [QC_OPTION_CHECKPOINT] = {"c.h5", "c.h5", ""},
    [QC_OPTION_CONFIG] = {"c.json", "c.json", ""},
    [QC_OPTION_MAN] = {NULL, "1", "1"},
    [QC_OPTION_COMPLETION] = {"zsh", "zsh", "tcsh"},
    [QC_OPTION_HELP] = {NULL, "1", "1"},
    [QC_OPTION_VERSION] = {NULL, "1", "1"},
};

static bool set(unsigned option, const char *value)
{
    if (option < QC_OPTION_COUNT) return qc_options_set(&o.job, (enum qc_option)option, value, ST);
    return qc_option_store(&o, qc_cli_option_info(option), value, test_arena(), ST);
}

static void read_back(char text[256], unsigned option)
{
    const struct qc_option_info *i = qc_cli_option_info(option);
    const char *field = (const char *)&o + i->field;
    size_t used = 0;
    text[0] = '\0';
    switch (i->kind) {
    case QC_KIND_FLAG: snprintf(text, 256, "%d", *(const bool *)field); break;
    case QC_KIND_SET:
    case QC_KIND_TEXT:
    case QC_KIND_SPEC: snprintf(text, 256, "%s", *(const char *const *)field); break;
    case QC_KIND_CHOICE:
    case QC_KIND_SWITCH: snprintf(text, 256, "%s", qc_option_choice_text(&o, i)); break;
    case QC_KIND_LIST:
    case QC_KIND_BY_NAME:
    case QC_KIND_CHOICES:
        for (size_t k = 0; k < ((const struct qc_text_list *)field)->count; k++)
            used += (size_t)snprintf(text + used, 256 - used, "%s%s", k ? "+" : "",
                                     ((const struct qc_text_list *)field)->items[k]);
        break;
    case QC_KIND_COUNT:
    case QC_KIND_WHOLE:
    case QC_KIND_BYTES: snprintf(text, 256, "%llu", (unsigned long long)*(const uint64_t *)field); break;
    case QC_KIND_NUMBER: snprintf(text, 256, "%g", *(const double *)field); break;
    }
}

Test(options, every_row_stores_its_value)
{
    for (unsigned k = 0; k < QC_CLI_OPTION_COUNT; k++) {
        char text[256];
        const struct row *r = &rows[k];
        const struct qc_option_info *i = qc_cli_option_info(k);
        cr_assert(r->stored, "--%s has no row here", i->name);
        MUST(qc_options_init(&o.job, QC_COMMAND_quantize, test_arena(), ST));
        cr_assert(set(k, r->value), "--%s: %s", i->name, failure.message);
        cr_assert(k >= QC_OPTION_COUNT || o.job.given[k]);
        read_back(text, k);
        cr_assert_str_eq(text, r->stored, "--%s", i->name);
    }
}

Test(options, every_row_refuses)
{
    for (unsigned k = 0; k < QC_CLI_OPTION_COUNT; k++) {
        const struct qc_option_info *i = qc_cli_option_info(k);
        char name[64];
        snprintf(name, sizeof name, "--%s", i->name);
        MUST(qc_options_init(&o.job, QC_COMMAND_quantize, test_arena(), ST));
        cr_assert(!set(k, rows[k].refused), "%s took '%s'", name, rows[k].refused);
        cr_assert(failure.code == QC_USAGE && strstr(failure.message, name), "%s: %s", name, failure.message);
    }
}

Test(options, every_row_is_complete)
{
    for (unsigned k = 0; k < QC_CLI_OPTION_COUNT; k++) {
        const struct qc_option_info *i = qc_cli_option_info(k);
        cr_assert(i->name && i->help && i->commands, "row %u", k);
        cr_assert((i->kind == QC_KIND_CHOICE || i->kind == QC_KIND_SWITCH || i->kind == QC_KIND_CHOICES ||
                   i->kind == QC_KIND_BY_NAME) == (i->choices != NULL),
                  "--%s", i->name);
        bool without = i->kind == QC_KIND_FLAG || i->kind == QC_KIND_SET;
        cr_assert(without == (i->argument == NULL), "--%s", i->name);
        for (unsigned other = 0; other < k; other++) {
            cr_assert_str_neq(i->name, qc_cli_option_info(other)->name);
            cr_assert(!qc_cli_option_letter(k) || qc_cli_option_letter(k) != qc_cli_option_letter(other), "--%s",
                      i->name);
        }
    }
}

Test(options, every_row_is_read_from_a_command_line)
{
    for (unsigned k = 0; k < QC_CLI_OPTION_COUNT; k++) {
        const struct qc_option_info *i = qc_cli_option_info(k);
        if (k == QC_OPTION_CONFIG) continue; /* reads a file: test_options_config.c */
        unsigned c = 0;
        while (!(qc_cli_option_commands(k) & 1u << c)) c++;
        char *value = qc_arena_printf(test_arena(), ST, "%s", rows[k].value ? rows[k].value : ""), line[256], text[256];
        for (char *p = value; *p; p++)
            if (*p == ' ') *p = '_';
        const bool two = qc_command_info(c)->operands_min == 2;
        const char *const forms[] = {"%s m.onnx --%s%s%s%s", "%s --%s%s%s m.onnx%s"};
        for (size_t f = 0; f < 4; f++) {
            const char *separator = !rows[k].value ? "" : f < 2 || i->bare ? "=" : " ";
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            snprintf(line, sizeof line, forms[f % 2], qc_command_info(c)->name, i->name, separator, value,
                     two ? " n.onnx" : "");
#pragma GCC diagnostic pop
            accepts(line);
            read_back(text, k);
            cr_assert_str_eq(text, rows[k].stored, "%s", line);
            cr_assert((k >= QC_OPTION_COUNT || o.job.given[k]) && o.command == c && o.operands.count == (two ? 2u : 1u),
                      "%s", line);
        }
    }
}

Test(options, defaults)
{
    accepts("m.onnx");
    MUST_HOLD(o.command == QC_COMMAND_quantize, !o.command_given, o.job.run.threads == qc_pool_cores());
    MUST_HOLD(strcmp(o.job.method.observer, "auto") == 0, strcmp(o.job.method.weight_method, "minmax") == 0,
              strcmp(o.job.types.activations.items[0], "uint8") == 0, o.job.types.range == QC_RANGE_RESTRICTED,
              o.progress == QC_BAR_AUTO,
              !o.job.types.symmetric_activations && o.job.types.symmetric_weights && !o.job.types.per_tensor,
              o.job.graph.formats.count == 1);
    cr_assert(isnan(o.job.demand.max_drop) && !o.job.data.file && !o.job.data.preprocess && !o.output && !o.report &&
              o.job.data.samples == 0);
    for (unsigned k = 0; k < QC_OPTION_COUNT; k++) cr_assert(!o.job.given[k], "--%s", qc_cli_option_info(k)->name);
}

Test(options, symmetry)
{
    accepts("m.onnx --symmetric");
    cr_assert(o.job.types.symmetric_activations && o.job.types.symmetric_weights);
    accepts("--symmetric m.onnx");
    cr_assert_eq(o.operands.count, 1);
    accepts("m.onnx --symmetric=none");
    cr_assert(!o.job.types.symmetric_activations && !o.job.types.symmetric_weights);
    accepts("m.onnx --symmetric=activations");
    cr_assert(o.job.types.symmetric_activations && !o.job.types.symmetric_weights);
}

Test(options, order_and_repetition)
{
    accepts("-o y.onnx --data=b.h5 -o x.onnx m.onnx --skip a --skip=b,c --per-tensor --per-channel -qv");
    MUST_HOLD(strcmp(o.output, "x.onnx") == 0, o.job.graph.skip.count == 2,
              strcmp(o.job.graph.skip.items[1], "b,c") == 0, !o.job.types.per_tensor && o.quiet && o.verbose);
    accepts("m.onnx -ox.onnx -q");
    cr_assert_str_eq(o.output, "x.onnx");
    accepts("m.onnx --report d --no-report");
    cr_assert_str_eq(o.report, "");
    accepts("m.onnx --no-report --report d");
    cr_assert_str_eq(o.report, "d");
}

Test(options, commands_and_operands)
{
    accepts("eval a.onnx b.onnx --data x.h5");
    cr_assert(o.command == QC_COMMAND_eval && o.command_given && o.operands.count == 2);
    accepts("--data x.h5 run m.onnx -o y.h5");
    cr_assert_eq(o.command, QC_COMMAND_run);
    accepts("inspect -- -strange");
    cr_assert_str_eq(o.operands.items[0], "-strange");
    accepts("/dev/null"); /* exists */
    cr_assert_eq(o.command, QC_COMMAND_quantize);
    accepts("--version");
    cr_assert(o.version);
    accepts("help");
    refuses("", QC_USAGE, "no command", "qcalib help");
    refuses("qantize m.onnx", QC_USAGE, "qantize", "did you mean 'quantize'?");
    refuses("nothing-like-it", QC_USAGE, "neither a command nor a file", NULL);
    refuses("--data x.h5", QC_USAGE, "MODEL", "qcalib help quantize");
    refuses("quantize a.onnx b.onnx", QC_USAGE, "b.onnx", NULL);
    refuses("list", QC_USAGE, "observers", NULL);
}

Test(options, wrong_ones_are_named)
{
    refuses("m.onnx --metod kl", QC_USAGE, "unknown option --metod", "did you mean '--method'?");
    refuses("m.onnx --zzzzzzzz", QC_USAGE, "unknown option --zzzzzzzz", "qcalib help");
    refuses("m.onnx -x", QC_USAGE, "-x", NULL);
    refuses("m.onnx -threads=2", QC_USAGE, "-threads", "did you mean '--threads=2'?");
    refuses("m.onnx --method", QC_USAGE, "--method needs a value", "NAME");
    refuses("m.onnx --method --data x.h5", QC_USAGE, "--method needs a value", NULL);
    refuses("m.onnx -o", QC_USAGE, "-o needs a value", "FILE");
    refuses("run m.onnx --method kl", QC_USAGE, "run has no option --method", "qcalib help run");
    refuses("m.onnx --activation-type int9", QC_USAGE, "did you mean 'int8' or 'int16'?", "bfp16, dynamic or none");
    refuses("m.onnx --threads 99999999999999999999", QC_USAGE, "--threads", NULL);
    refuses("m.onnx --samples 1e3", QC_USAGE, "'1e3'", "positive integer");
    refuses("m.onnx --config /nonexistent/file", QC_BAD_INPUT, "/nonexistent/file", NULL);
}

/* Words of other programs, and what a name says by its digits. */
Test(options, words_of_others)
{
    refuses("m.onnx --bits 4", QC_USAGE, "unknown option --bits", "--weight-type int4");
    refuses("m.onnx --weight-type int9", QC_USAGE, "did you mean 'int8' or 'int10'?", NULL);
    refuses("m.onnx --weight-type int1", QC_USAGE, "did you mean 'int2'?", NULL);
    refuses("m.onnx --weight-type uint32", QC_USAGE, "did you mean 'uint8'?", NULL);
    accepts("version");
    cr_assert(o.version);
    accepts("-V");
    cr_assert(o.version);
}

Test(options, one_data_file)
{
    refuses("m.onnx --data a.h5 --data b.h5", QC_USAGE, "--data is given twice: a.h5 and b.h5", "qcalib merge");
    refuses("m.onnx --eval a.h5 --eval a.h5", QC_USAGE, "--eval is given twice", NULL);
    accepts("m.onnx --data a.h5 --method kl --method mse");
    cr_assert_str_eq(o.job.method.observer, "mse");
}

Test(options, too_many_threads)
{
    accepts("m.onnx --threads 1000000");
    cr_assert_eq(o.job.run.threads_refused, 1000000);
    cr_assert_eq(o.job.run.threads, qc_pool_cores() > 16 ? 4 * qc_pool_cores() : 64);
    accepts("m.onnx --threads 64");
    MUST_HOLD(o.job.run.threads_refused == 0, o.job.run.threads == 64);
}

Test(options, sizes)
{
    static const struct {
        const char *text;
        uint64_t bytes; /* 0: refused */
    } cases[] = {
        {"1", 1},
        {"512k", 512 << 10},
        {"3M", 3 << 20},
        {"2G", (uint64_t)2 << 30},
        {"2GiB", (uint64_t)2 << 30},
        {"2GB", (uint64_t)2 << 30},
        {"1T", (uint64_t)1 << 40},
        {"0", 0},
        {"-1", 0},
        {"G", 0},
        {"2GX", 0},
        {"1.5G", 0},
        {"99999999999G", 0},
        {"20000000T", 0},
        {" 1", 0},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        MUST(qc_options_init(&o.job, QC_COMMAND_quantize, test_arena(), ST));
        bool ok = set(QC_OPTION_MEMORY_LIMIT, cases[k].text);
        cr_assert_eq(ok, cases[k].bytes != 0, "%s", cases[k].text);
        cr_assert_eq(o.job.run.memory_limit, cases[k].bytes, "%s", cases[k].text);
    }
}

Test(options, closest)
{
    static const char *const names[] = {"minmax", "percentile", "mse", "kl"};
    MUST_HOLD(strcmp(qc_closest("minimax", names, 4), "minmax") == 0, strcmp(qc_closest("mes", names, 4), "mse") == 0,
              strcmp(qc_closest("precentil", names, 4), "percentile") == 0);
    cr_assert_null(qc_closest("histogram", names, 4));
    cr_assert_null(qc_closest("xy", names, 4));
    char far[200];
    memset(far, 'a', sizeof far - 1);
    far[sizeof far - 1] = '\0';
    cr_assert_null(qc_closest(far, names, 4));
}

/* Words of the table and of nowhere, cut and joined at random: whatever comes, the parser ends with a status. */
Test(options, random_lines)
{
    static const char *const odd[] = {"--",           "-",         "",         "=",      "--=",
                                      "--=x",         "-o",        "-oo",      "-q=",    "-vvvv",
                                      "--symmetric=", "--input==", "\x01\xff", "m.onnx", "run"};
    uint64_t seed = 12345;
    for (int round = 0; round < 20000; round++) {
        char *argv[12] = {"qcalib"};
        char text[12][128];
        int argc = 1;
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        int words = (int)(seed >> 60) % 11;
        for (int k = 0; k < words; k++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            unsigned r = (unsigned)(seed >> 33);
            const struct qc_option_info *i = qc_cli_option_info(r % QC_CLI_OPTION_COUNT);
            switch ((r >> 8) % 5) {
            case 0: snprintf(text[argc], 128, "--%s=%s", i->name, rows[(r >> 12) % QC_CLI_OPTION_COUNT].stored); break;
            case 1: snprintf(text[argc], 128, "--%.*s", (int)((r >> 12) % 20), i->name); break;
            case 2: snprintf(text[argc], 128, "%s", odd[(r >> 12) % (sizeof odd / sizeof *odd)]); break;
            case 3: snprintf(text[argc], 128, "%s", rows[(r >> 12) % QC_CLI_OPTION_COUNT].stored); break;
            default: snprintf(text[argc], 128, "--%s", i->name); break;
            }
            argv[argc] = text[argc];
            argc++;
        }
        bool ok = qc_options_parse(&o, argc, argv, test_arena(), ST);
        MUST_HOLD(ok == (failure.code == QC_OK), ok || *failure.message);
    }
}
