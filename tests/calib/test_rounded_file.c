// SPDX-License-Identifier: Apache-2.0
/* Rounded layers in a file beside a checkpoint: valid layers are reused; damaged ones and those of another job are
   computed again. */
#include <sys/wait.h>

#include "calib/weights/rounded_layers.h"
#include "calib_case.h"

enum { SAMPLES = 64, IN = 12, MIDDLE = 10, OUT = 5, LAYERS = 2, WEIGHTS = IN * MIDDLE + MIDDLE * OUT };

static const char job[] = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
                  other[] = "f123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

static struct qc_graph *graph;
static struct case_run calibrated;
static char path[CASE_PATH];

static void start_with(enum qc_dtype weight)
{
    QC_FREED char *first = case_numbers(IN * MIDDLE, 0.3f, 5), *second = case_numbers(MIDDLE * OUT, 0.5f, 6);
    struct case_setup setup = CASE_SETUP;
    float x[SAMPLES * IN];
    uint64_t seed = 9;
    for (size_t s = 0; s < SAMPLES; s++) {
        const float common = case_normal(&seed);
        for (size_t i = 0; i < IN; i++) x[s * IN + i] = 1 + common + 0.2f * case_normal(&seed);
    }
    graph = test_graph(qc_arena_printf(test_arena(), ST,
                                       "graph \"g\"\ninput %%1 \"x\" f32[N,12]\nconst %%2 \"a\" f32[12,10] = %s\n"
                                       "const %%3 \"b\" f32[10,5] = %s\n%%4 \"m\" = MatMul(%%1, %%2)\n"
                                       "%%5 \"r\" = Relu(%%4)\n%%6 \"y\" = MatMul(%%5, %%3)\noutput \"y\" %%6\n",
                                       first, second));
    const struct case_data set = {.name = "x", .dtype = QC_F32, .values = x, .rank = 1, .dims = {IN}};
    case_write(path, &set, 1, SAMPLES);
    setup.moments = true;
    if (weight != QC_NONE) setup.scheme.weight.dtype = weight;
    MUST(case_calibrate(&calibrated, graph, path, &setup, ST));
    case_unlink(path);
    strcat(path, ".l");
}

static void start(void)
{
    start_with(QC_NONE);
}

static void stop(void)
{
    unlink(path);
    case_free(&calibrated);
    qc_graph_free(graph);
}

TestSuite(rounded_file, .init = start, .fini = stop);

/* What a job has in the end: integers of both weights, biases, errors. */
struct outcome {
    double levels[WEIGHTS];
    float biases[MIDDLE + OUT];
    double errors[2 * LAYERS];
};

/* Rounds with the file, or without (NULL). */
static void rounds(struct outcome *out, const char *of_job)
{
    struct qc_round_weights_options o = {.settings = &case_rounds};
    OWN(qc_weight_rounding) *w = NULL;
    OWN(qc_graph) *g = NULL;
    if (of_job) MUST(qc_rounded_file_open(&o.file, path, of_job, ST));
    MUST(qc_round_weights(&w, &g, calibrated.simulated, calibrated.second_moments, &o, ST));
    qc_rounded_file_close(o.file);
    const enum qc_dtype type = g->qparams_of[w->layers[0].quantizer].dtype;
    const bool fine = type == QC_I16; /* nothing to compensate or correct */
    size_t weights = 0, biases = 0;
    memset(out, 0, sizeof *out);
    for (qc_id v = 1; v <= g->value_count; v++) {
        const qc_id from = qc_quantized_constant(g, v);
        const struct qc_tensor *t = from ? qc_constant_of(g, from) : NULL;
        const bool weight = g->qparams_of[g->values[v].type.qparams].is_weight;
        cr_assert(!weight || from == v, "a weight is no constant in integers");
        for (size_t i = 0; t && i < t->count; i++)
            if (weight)
                out->levels[weights++] = qc_tensor_float(t, i);
            else
                out->biases[biases++] = ((const float *)t->data)[i];
    }
    /* Products of floats have real biases. */
    cr_assert(weights == WEIGHTS && (fine || type == QC_F8E4M3 || biases == MIDDLE + OUT), "%zu weights, %zu biases",
              weights, biases);
    cr_assert_eq(w->count, LAYERS);
    for (size_t i = 0; i < LAYERS; i++) {
        out->errors[2 * i] = w->layers[i].error;
        out->errors[2 * i + 1] = w->layers[i].bias_rms;
        cr_assert((w->layers[i].compensated || fine) && w->layers[i].outputs);
    }
}

static size_t contents(char **bytes)
{
    FILE *f = fopen(path, "rb");
    cr_assert(f);
    *bytes = malloc(1 << 16);
    const size_t n = fread(*bytes, 1, 1 << 16, f);
    cr_assert(*bytes && n < 1 << 16);
    fclose(f);
    return n;
}

static void write_file(const char *bytes, size_t size)
{
    FILE *f = fopen(path, "wb");
    cr_assert(f && fwrite(bytes, 1, size, f) == size && fclose(f) == 0);
}

static void same(const struct outcome *a, const struct outcome *b)
{
    cr_assert_arr_eq(a->levels, b->levels, sizeof a->levels);
    cr_assert_arr_eq(a->biases, b->biases, sizeof a->biases);
    cr_assert_arr_eq(a->errors, b->errors, sizeof a->errors);
}

Test(rounded_file, what_is_there_is_taken_and_what_is_missing_made)
{
    struct outcome without, first, again;
    char *whole, *now;
    rounds(&without, NULL);
    rounds(&first, job);
    same(&first, &without);
    const size_t size = contents(&whole);
    for (size_t kept = 0; kept <= size; kept += kept + 7 < size || kept == size ? 7 : size - kept) { /* stopped there */
        if (kept && kept < 8) continue;
        write_file(whole, kept);
        rounds(&again, job);
        same(&again, &without);
        cr_assert_eq(contents(&now), size, "stopped after %zu bytes", kept);
        cr_assert_arr_eq(now, whole, size, "stopped after %zu bytes", kept);
        free(now);
    }
    free(whole);
}

Test(rounded_file, damaged_records_are_made_again)
{
    struct outcome without, again;
    char *whole, *now;
    rounds(&without, NULL);
    rounds(&again, job);
    const size_t size = contents(&whole);
    for (size_t at = 72; at < size; at += 5) { /* behind the head of the file */
        whole[at] ^= 0x11;
        write_file(whole, size);
        whole[at] ^= 0x11;
        rounds(&again, job);
        same(&again, &without);
        const size_t grown = contents(&now);
        free(now);
        rounds(&again, job); /* and then they are there */
        same(&again, &without);
        cr_assert_eq(contents(&now), grown, "byte %zu", at);
        free(now);
    }
    free(whole);
}

/* The file is 8 bytes of the kind, 64 of the job, then records. */
Test(rounded_file, weights_of_every_type_are_kept)
{
    const enum qc_dtype types[] = {QC_I4, QC_U8, QC_I16, QC_F8E4M3};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        struct outcome without, again;
        QC_FREED char *first = NULL, *second = NULL;
        stop();
        start_with(types[i]);
        rounds(&without, NULL);
        rounds(&again, job);
        const size_t size = contents(&first);
        cr_assert_gt(size, 72 + WEIGHTS, "type %zu", i);
        rounds(&again, job);
        same(&again, &without);
        cr_assert_eq(contents(&second), size, "type %zu: a layer was solved again", i);
    }
}

Test(rounded_file, a_file_of_another_version_begins_anew)
{
    struct outcome without, again;
    QC_FREED char *first = NULL, *second = NULL;
    rounds(&without, job);
    const size_t size = contents(&first);
    first[7]--;
    write_file(first, size);
    rounds(&again, job);
    same(&again, &without);
    cr_assert_eq(contents(&second), size);
    first[7]++;
    cr_assert_arr_eq(first, second, size);
}

Test(rounded_file, another_job_begins_anew)
{
    struct outcome without, again;
    QC_FREED char *first = NULL, *second = NULL;
    rounds(&without, NULL);
    rounds(&again, other);
    const size_t size = contents(&first);
    rounds(&again, job);
    same(&again, &without);
    cr_assert_eq(contents(&second), size);
    cr_assert(memcmp(first, second, 72) != 0 && memcmp(first + 72, second + 72, size - 72) == 0);
}

Test(rounded_file, another_file_is_left_alone)
{
    static const char text[] = "my thesis";
    struct qc_rounded_file *f;
    char *now;
    write_file(text, sizeof text);
    REFUSES(qc_rounded_file_open(&f, path, job, ST), QC_BAD_INPUT, "another name");
    cr_assert_eq(contents(&now), sizeof text);
    cr_assert_arr_eq(now, text, sizeof text);
    free(now);
    REFUSES(qc_rounded_file_open(&f, "no/such/folder/x", job, ST), QC_MACHINE, "");
}

/* Records of both would be taken for those of the one that opened it last: the key of a layer does not have its
 * samples. */
Test(rounded_file, of_one_job_at_a_time)
{
    struct outcome without, first;
    struct qc_rounded_file *f, *second;
    char *whole, *now;
    rounds(&without, NULL);
    rounds(&first, job);
    const size_t size = contents(&whole);
    MUST(qc_rounded_file_open(&f, path, job, ST));
    for (int i = 0; i < 2; i++) {
        int status;
        const pid_t child = fork();
        if (child == 0) {
            struct qc_status st = QC_STATUS_INIT;
            const bool opened = qc_rounded_file_open(&second, path, i ? job : other, &st);
            _exit(opened || st.code != QC_MACHINE || !strstr(st.message, "another job"));
        }
        cr_assert(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    }
    cr_assert_eq(contents(&now), size);
    cr_assert_arr_eq(now, whole, size);
    qc_rounded_file_close(f);
    rounds(&first, other);
    same(&first, &without);
    free(now);
    free(whole);
}
