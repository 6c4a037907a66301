// SPDX-License-Identifier: Apache-2.0
/* Runs a model through plan and runner, for tests/bench/compare_plan.py. Free dimensions are 1.

     bench_plan MODEL [--print] [--steps] [--in FILE ...] [--out PREFIX]

   MODEL is an ONNX file, or the text that qcalib --dump wrote when its name ends in .ir.
   FILE k holds the bytes of input k, row-major; outputs go to PREFIX.k. Then each line "N" on standard input runs the
   model N times on one thread and answers with the seconds that took; --steps: then a line for each step, with the
   seconds it took, kernel, how it is done, op, name of its value, dims of inputs and result, separated by tabs, and an
   empty line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "onnx/read/import.h"
#include "simq/plan/plan.h"
#include "simq/plan/plan_parts.h"
#include "tests/graph_reader/graph_reader.h"
#include "tests/simq/plan_print.h"

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static size_t bytes_of(const struct qc_view *v)
{
    return qc_view_count(v) * qc_dtype_size(v->dtype);
}

/* The buffer of an input is used for other values during a run: it is filled before each. */
struct inputs {
    size_t count;
    void *bytes[64];
};

static void fill(const struct inputs *in, struct qc_runner *r)
{
    for (size_t k = 0; k < in->count; k++) {
        const struct qc_view v = qc_runner_input(r, k);
        memcpy(v.data, in->bytes[k], bytes_of(&v));
    }
}

static bool load(struct inputs *in, struct qc_runner *r, const char *path, struct qc_status *st)
{
    const struct qc_view v = qc_runner_input(r, in->count);
    void *bytes = malloc(bytes_of(&v) + 1);
    FILE *f = fopen(path, "rb");
    const size_t got = f && bytes ? fread(bytes, 1, bytes_of(&v), f) : 0;
    if (f) fclose(f);
    in->bytes[in->count++] = bytes;
    return got == bytes_of(&v) || qc_fail(st, QC_BAD_INPUT, "%s: %zu bytes wanted, got %zu", path, bytes_of(&v), got);
}

static bool store(struct qc_runner *r, size_t k, const char *prefix, struct qc_status *st)
{
    char path[4096];
    const struct qc_view v = qc_runner_output(r, k);
    FILE *f = fopen(qc_text(path, sizeof path, "%s.%zu", prefix, k), "wb");
    const size_t put = f ? fwrite(v.data, 1, bytes_of(&v), f) : 0;
    if (f) fclose(f);
    return put == bytes_of(&v) || qc_fail(st, QC_MACHINE, "%s: cannot be written", path);
}

static void print_dims(const struct qc_view *v)
{
    printf("\t");
    for (int d = 0; d < v->rank; d++) printf("%s%lld", d ? "x" : "", (long long)v->dim[d]);
}

static void print_steps(const struct qc_plan *p, const double *took)
{
    for (size_t i = 0; i < p->step_count; i++) {
        const struct qc_step *s = &p->steps[i];
        const char *value = s->node ? qc_value(p->graph, s->node->outputs)->name : NULL;
        printf("%.9f\t%s\t%s\t%s\t%s", took[i], s->kernel->name, s->detail ? s->detail : "",
               s->node ? qc_op_info(s->node->op)->name : "", value ? value : "");
        for (unsigned k = 0; k < s->input_count && k < 2; k++) print_dims(&s->in[k].view);
        print_dims(&s->out[0].view);
        printf("\n");
    }
    printf("\n");
}

static bool serve(const struct qc_plan *p, struct qc_runner *r, const struct inputs *in, bool steps,
                  struct qc_status *st)
{
    char line[64];
    double *took = calloc(p->step_count + 1, sizeof *took);
    if (!took) return qc_fail_memory(st, p->step_count * sizeof *took);
    if (steps) qc_runner_time_steps(r, took);
    while (fgets(line, sizeof line, stdin)) {
        const long n = strtol(line, NULL, 10);
        const double begin = seconds();
        for (long i = 0; i < n; i++) {
            fill(in, r);
            if (!qc_runner_run(r, NULL, NULL, st)) {
                free(took);
                return false;
            }
        }
        printf("%.9f\n", seconds() - begin);
        if (steps) print_steps(p, took);
        memset(took, 0, p->step_count * sizeof *took);
        fflush(stdout);
    }
    free(took);
    return true;
}

static bool read_model(struct qc_graph **g, const char *path, struct qc_status *st)
{
    const size_t n = strlen(path);
    struct qc_arena *a;
    void *text;
    size_t size;
    if (n < 3 || strcmp(path + n - 3, ".ir") != 0) return qc_onnx_import_with(g, NULL, path, &QC_IMPORT_INIT, st);
    if (!(a = qc_arena_new())) return qc_fail_memory(st, 0);
    const bool ok = qc_file_read(&text, &size, path, a, st) && qc_graph_parse(g, text, size, st);
    qc_arena_free(a);
    return ok;
}

int main(int argc, char **argv)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_graph *g = NULL;
    struct qc_plan *p = NULL;
    struct qc_runner *r = NULL;
    struct qc_shape *shapes = NULL;
    struct inputs inputs = {0};
    const char *in[64], *prefix = NULL;
    size_t in_count = 0;
    bool print = false, steps = false, ok = false;
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "--print") == 0)
            print = true;
        else if (strcmp(argv[i], "--steps") == 0)
            steps = true;
        else if (strcmp(argv[i], "--in") == 0 && i + 1 < argc && in_count < 64)
            in[in_count++] = argv[++i];
        else if (strcmp(argv[i], "--out") == 0 && i + 1 < argc)
            prefix = argv[++i];
        else
            argc = 1;
    }
    if (argc < 2) {
        fprintf(stderr, "usage: bench_plan MODEL [--print] [--steps] [--in FILE ...] [--out PREFIX]\n");
        return QC_USAGE;
    }
    if (!read_model(&g, argv[1], &st) || !(shapes = calloc(g->input_count + 1, sizeof *shapes))) goto out;
    for (size_t i = 0; i < g->input_count; i++) {
        shapes[i] = g->values[g->inputs[i].value].type.shape;
        for (int d = 0; d < shapes[i].rank; d++)
            if (shapes[i].dim[d] == QC_FREE) shapes[i].dim[d] = 1;
    }
    if (!qc_plan_new(&p, g, shapes, NULL, &st) || !qc_runner_new(&r, p, &st)) goto out;
    if (print) {
        char *text = plan_print(p, &st);
        if (text) fputs(text, stderr);
        free(text);
    }
    for (size_t i = 0; i < in_count && i < g->input_count; i++)
        if (!load(&inputs, r, in[i], &st)) goto out;
    fill(&inputs, r);
    if (!qc_runner_run(r, NULL, NULL, &st)) goto out;
    for (size_t k = 0; prefix && k < g->output_count; k++)
        if (!store(r, k, prefix, &st)) goto out;
    ok = serve(p, r, &inputs, steps, &st);
out:
    if (!ok) fprintf(stderr, "bench_plan: %s\n", st.message);
    for (size_t i = 0; i < inputs.count; i++) free(inputs.bytes[i]);
    qc_runner_free(r);
    qc_plan_free(p);
    qc_graph_free(g);
    free(shapes);
    return ok ? 0 : (int)st.code;
}
