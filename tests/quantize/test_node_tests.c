// SPDX-License-Identifier: Apache-2.0
/* ONNX's node tests as the newest onnx has them (make_node_tests.py writes them into the folder QC_NODE_TESTS), on the
   way that `qcalib run` goes, at ONNX's tolerance. node_tests_out.def lists what is out of scope and what does not pass
   yet; a test that is listed and passes fails too. QC_NODE_RESULTS names a file for the results: one line a test, "pass
   or fail, name, operators, message" with tabs between. */
#include <dirent.h>

#include "datasets/arrays/memory_data.h"
#include "evaluate/evaluate.h"
#include "node_case.h"
#include "quantize/options/option_value.h"
#include "tensor_near.h"
#include "tests/check.h"

struct outcome {
    const struct node_case *t;
    const struct qc_graph *g;
    struct tolerance tolerance;
};

static bool compare_outputs(void *user, const struct qc_unit *at, struct qc_runner *const runners[],
                            struct qc_dataset_scratch *scratch, struct qc_status *st)
{
    const struct outcome *o = user;
    if (o->g->output_count != o->t->output_count)
        return qc_fail(st, QC_DEMAND, "%zu outputs, expected %zu", o->g->output_count, o->t->output_count);
    for (size_t k = 0; k < o->g->output_count; k++) {
        const struct qc_view v = qc_runner_output(runners[0], k);
        const struct qc_shape shape = qc_shape_of(v.rank, v.dim);
        const struct qc_tensor got = {.dtype = v.dtype, .shape = shape, .count = qc_view_count(&v), .data = v.data};
        if (o->t->outputs[k] && !tensor_within(&got, o->t->outputs[k], o->tolerance, st))
            return qc_where(st, "output %zu", k);
    }
    return true;
}

/* Samples of one sample: each input as it is, in a type that files have. */
static bool add_input(struct qc_memory_data *m, const char *name, const struct qc_tensor *t, struct qc_tensor **kept,
                      struct qc_status *st)
{
    int64_t dims[QC_RANK_MAX + 1] = {1};
    const bool in_files = qc_dtype_info(t->dtype)->bits >= 8 &&
                          !(qc_dtype_info(t->dtype)->is_float && qc_dtype_info(t->dtype)->bits == 8);
    struct qc_tensor *as = in_files ? qc_tensor_ref(t) : qc_tensor_to_f32(t, st);
    if (!as) return false;
    *kept = as;
    for (int i = 0; i < t->shape.rank; i++) dims[i + 1] = t->shape.dim[i];
    return qc_memory_data_add(
        m, &(struct qc_array){.name = name, .dtype = as->dtype, .rank = (unsigned)t->shape.rank + 1, .dims = dims},
        as->data, st);
}

static struct tolerance tolerance_of(const char *folder)
{
    struct tolerance t = {1e-3, 1e-7};
    char path[8192];
    snprintf(path, sizeof path, "%s/tolerance", folder);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%lf %lf", &t.relative, &t.absolute) != 2) t = (struct tolerance){0, 0};
    if (f) fclose(f);
    return t;
}

static bool run_test(const struct node_case *t, const char *folder, struct qc_status *st)
{
    struct qc_arena *a = qc_arena_new();
    struct qc_options o;
    char path[8192];
    struct qc_memory_data *m = NULL;
    struct qc_tensor *kept[NODE_CASE_PORTS] = {NULL};
    struct qc_model_run r = {.workers = 0};
    struct qc_settings settings;
    bool ok = false;
    cr_assert(a && qc_options_init(&o, QC_COMMAND_run, a, st) && qc_options_set(&o, QC_OPTION_THREADS, "1", st));
    snprintf(path, sizeof path, "%s/model.onnx", folder);
    if (!qc_memory_data_new(&m, "data", st)) goto out;
    for (size_t i = 0; i < t->input_count; i++)
        if (t->inputs[i] && !add_input(m, t->input_names[i], t->inputs[i], &kept[i], st)) goto out;
    if (!qc_model_run_open(&r, &(struct qc_model_source){.file = path}, &(struct qc_data_source){.memory = m},
                           QC_USE_INPUTS, &o, NULL, st) ||
        !qc_settings_of(&settings, &o, NULL, st) || !qc_model_run_plan(&r, &settings, a, st))
        goto out;
    struct outcome outcome = {.t = t, .g = r.model.graph, .tolerance = tolerance_of(folder)};
    ok = qc_model_run_units(&r, compare_outputs, &outcome, 0, NULL, NULL, st);
out:
    qc_model_run_close(&r);
    qc_memory_data_free(m);
    for (size_t i = 0; i < t->input_count; i++) qc_tensor_unref(kept[i]);
    qc_arena_free(a);
    return ok;
}

static bool read_case(struct node_case **out, const char *folder, struct qc_status *st)
{
    return node_case_read(out, folder, NODE_CASE_AS_IS, st) &&
           ((*out)->readable ||
            qc_fail(st, QC_UNSUPPORTED, "data that are no tensors, or of a type that we do not have"));
}

enum state { EXPECTED, OUT_OF_SCOPE, REST };

/* By node_tests_out.def. */
static enum state listed(const char *name)
{
    static const struct {
        const char *name;
        enum state state;
    } list[] = {
#define QC_OUT(name, why) {name, OUT_OF_SCOPE},
#define QC_REST(name, why) {name, REST},
#include "node_tests_out.def"
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        const size_t n = strlen(list[i].name);
        if (list[i].name[n - 1] == '*' ? strncmp(list[i].name, name, n - 1) == 0 : strcmp(list[i].name, name) == 0)
            return list[i].state;
    }
    return EXPECTED;
}

static int is_test(const struct dirent *e)
{
    return strncmp(e->d_name, "test_", 5) == 0;
}

static void note(FILE *to, const char *name, bool ok, const struct node_case *t, const char *message)
{
    if (!to) return;
    fprintf(to, "%s\t%s\t", ok ? "pass" : "fail", name);
    for (size_t i = 0; t && i < t->op_count; i++) fprintf(to, "%s%s", i ? "," : "", t->ops[i]);
    fprintf(to, "\t%s\n", ok ? "" : message);
    fflush(to);
}

Test(node_tests, newest_onnx)
{
    const char *folder = getenv("QC_NODE_TESTS"), *results = getenv("QC_NODE_RESULTS");
    struct dirent **entries;
    unsigned count[3][2] = {{0}};
    if (!folder) cr_skip_test("QC_NODE_TESTS is not set (make_node_tests.py FOLDER makes the folder)");
    const int n = scandir(folder, &entries, is_test, alphasort);
    cr_assert(n > 0, "%s is empty", folder);
    FILE *to = results ? fopen(results, "w") : NULL;
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name;
        char path[4096];
        struct node_case *t = NULL;
        snprintf(path, sizeof path, "%s/%s", folder, name);
        const bool ok = read_case(&t, path, ST) && run_test(t, path, ST);
        const enum state state = listed(name);
        note(to, name, ok, t, failure.message);
        count[state][ok]++;
        if (!ok && state == EXPECTED) cr_log_error("%s: %s", name, failure.message);
        if (ok && state != EXPECTED) cr_log_error("%s passes, but is listed", name);
        node_case_free(t);
        free(entries[i]);
    }
    free(entries);
    if (to) fclose(to);
    const unsigned passed = count[EXPECTED][true], scope = passed + count[EXPECTED][false] + count[REST][false];
    fprintf(stderr, "%s: %u of %u in scope passed (%.1f %%), %u out of scope\n", folder, passed, scope,
            100.0 * passed / (scope ? scope : 1), count[OUT_OF_SCOPE][false]);
    cr_assert(count[EXPECTED][false] == 0 && count[REST][true] == 0 && count[OUT_OF_SCOPE][true] == 0);
}
