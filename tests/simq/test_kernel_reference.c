// SPDX-License-Identifier: Apache-2.0
/* Kernels alone on the cases of kernel_reference.txt. Reference: numpy and ONNX Runtime (make_kernel_reference.py). */
#include "base/file.h"
#include "kernel_run.h"
#include "tensor_near.h"
#include "tests/check.h"

enum { WANTS = 8 };

/* A case, cut out of the file: "case NAME", lines of the graph, "late MASK", "want TENSOR" lines, an empty line. */
struct entry {
    char name[64];
    char *graph; /* text of a graph */
    uint64_t late;
    unsigned want_count;
    struct qc_graph *wants[WANTS]; /* each: one constant */
};

static void append(char **text, const char *more, size_t n)
{
    const size_t old = *text ? strlen(*text) : 0;
    char *grown = realloc(*text, old + n + 1);
    cr_assert(grown);
    memcpy(grown + old, more, n);
    grown[old + n] = '\0';
    *text = grown;
}

/* Reads one case; returns what follows it, or NULL at the end. */
static const char *next_case(struct entry *e, const char *text)
{
    static const char head[] = "graph \"case\" opset 13\n";
    *e = (struct entry){0};
    append(&e->graph, head, strlen(head));
    while (*text) {
        const char *end = strchr(text, '\n');
        cr_assert(end);
        const size_t n = (size_t)(end - text) + 1;
        if (n == 1) return end + 1;
        if (strncmp(text, "case ", 5) == 0) {
            snprintf(e->name, sizeof e->name, "%.*s", (int)n - 6, text + 5);
        } else if (strncmp(text, "late ", 5) == 0) {
            e->late = strtoull(text + 5, NULL, 10);
        } else if (strncmp(text, "want ", 5) == 0) {
            QC_FREED char *want = NULL;
            append(&want, head, strlen(head));
            append(&want, "const %1 ", 9);
            append(&want, text + 5, n - 5);
            cr_assert(e->want_count < WANTS);
            e->wants[e->want_count++] = test_graph(want);
        } else {
            append(&e->graph, text, n);
        }
        text = end + 1;
    }
    return NULL;
}

static void free_entry(struct entry *e)
{
    for (unsigned k = 0; k < e->want_count; k++) qc_graph_free(e->wants[k]);
    free(e->graph);
}

static bool run_once(const struct entry *e, const struct qc_graph *g, enum memory m, struct qc_status *st)
{
    const struct kernel_run_options options = {.memory = m, .late = e->late};
    struct qc_tensor *outputs[WANTS] = {0};
    bool ok = g->nodes[1].output_count == e->want_count && kernel_run(outputs, g, 1, NULL, &options, st);
    for (unsigned k = 0; k < e->want_count; k++) {
        ok = ok && tensor_near(outputs[k], qc_constant_of(e->wants[k], 1), 0, st);
        qc_tensor_unref(outputs[k]);
    }
    return ok || qc_where(st, "%s, memory order %d", e->name, (int)m);
}

Test(kernel, gives_what_numpy_and_onnx_runtime_give)
{
    struct qc_arena *a = qc_arena_new();
    void *data;
    size_t size;
    unsigned count = 0, failed = 0;
    MUST(qc_file_read(&data, &size, QC_TEST_SOURCE "/tests/simq/kernel_reference.txt", a, ST));
    struct entry e;
    for (const char *text = next_case(&e, data); text; text = next_case(&e, text)) {
        OWN(qc_graph) *g = test_graph(e.graph);
        count++;
        for (enum memory m = MEMORY_ROW; m < MEMORY_COUNT; m++) {
            struct qc_status s = QC_STATUS_INIT;
            if (run_once(&e, g, m, &s)) continue;
            cr_log_error("%s", s.message);
            failed++;
        }
        free_entry(&e);
    }
    free_entry(&e);
    qc_arena_free(a);
    fprintf(stderr, "%u cases, %u failures\n", count, failed);
    cr_assert(failed == 0);
    cr_assert(count >= 500, "only %u cases", count);
}
