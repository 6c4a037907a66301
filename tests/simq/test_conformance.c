// SPDX-License-Identifier: Apache-2.0
/* ONNX's own node tests, through import and plan. Reference: the expected outputs that ONNX ships with them. Every test
   all of whose operators are in graph/types/ops.def, or in functions.rules, must pass, but for those in
   conformance_out.def, which must not. */
#include <dirent.h>

#include "node_case.h"
#include "onnx/read/import.h"
#include "rewrite/language/expansion.h"
#include "simq/plan/plan.h"
#include "tensor_near.h"
#include "tests/check.h"

#ifndef QC_ONNX_TESTDATA
#define QC_ONNX_TESTDATA "/usr/share/libonnx-testdata/data/node"
#endif

static bool compare(const struct qc_view *v, const struct qc_tensor *stored, size_t output, double relative,
                    struct qc_status *st)
{
    const struct qc_tensor got =
        FIELDS(.dtype = v->dtype, .shape = qc_shape_of(v->rank, v->dim), .count = qc_view_count(v), .data = v->data);
    const struct qc_tensor want = node_case_as(stored, v->dtype);
    return tensor_near(&got, &want, relative, st) || qc_where(st, "output %zu", output);
}

static const struct qc_tensor *input_named(const struct node_case *c, const char *name)
{
    for (size_t i = 0; i < c->input_count; i++)
        if (strcmp(c->input_names[i], name) == 0) return c->inputs[i];
    return NULL;
}

static bool run_case(const struct node_case *c, const struct qc_expander *x, double relative, struct qc_status *st)
{
    struct qc_graph *g = NULL;
    struct qc_plan *p = NULL;
    struct qc_runner *r = NULL;
    struct qc_shape shapes[NODE_CASE_PORTS];
    bool ok = false;
    const struct qc_import_options o = {.expander = x};
    if (!qc_onnx_import_memory_with(&g, NULL, c->model, c->model_size, NULL, &o, st)) goto out;
    for (size_t k = 0; k < g->input_count; k++) {
        const struct qc_tensor *t = input_named(c, g->inputs[k].name);
        if (!t) {
            qc_fail(st, QC_BAD_INPUT, "no data for input \"%s\"", g->inputs[k].name);
            goto out;
        }
        shapes[k] = t->shape;
    }
    if (!qc_plan_new(&p, g, shapes, NULL, st) || !qc_runner_new(&r, p, st)) goto out;
    for (size_t k = 0; k < g->input_count; k++) {
        const struct qc_tensor *t = input_named(c, g->inputs[k].name);
        const struct qc_view v = qc_runner_input(r, k);
        if (v.dtype != node_case_as(t, v.dtype).dtype) {
            qc_fail(st, QC_DEMAND, "input \"%s\" is %s, expected %s", g->inputs[k].name, qc_dtype_info(v.dtype)->name,
                    qc_dtype_info(t->dtype)->name);
            goto out;
        }
        if (t->bytes) memcpy(v.data, t->data, t->bytes);
    }
    if (!qc_runner_run(r, NULL, NULL, st)) goto out;
    if (!g->output_count || g->output_count > c->output_count) {
        qc_fail(st, QC_DEMAND, "%zu outputs, expected %zu", g->output_count, c->output_count);
        goto out;
    }
    for (size_t k = 0; k < g->output_count; k++) {
        const struct qc_view v = qc_runner_output(r, k);
        if (c->outputs[k] && !compare(&v, c->outputs[k], k, relative, st)) goto out;
    }
    ok = true;
out:
    qc_runner_free(r);
    qc_plan_free(p);
    qc_graph_free(g);
    return ok;
}

/* Are all operators in the table, or among those that import turns into others? */
static bool in_table(const struct node_case *c, const struct qc_expander *x)
{
    static const char *const others[] = {"Identity", "Dropout", "Constant", "Upsample"};
    for (size_t i = 0; i < c->op_count; i++) {
        bool known = qc_op_from_onnx(c->ops[i]) != QC_OP_INVALID;
        known = known || x->knows(x->user, c->ops[i], QC_ONNX_OPSET_MAX);
        for (size_t k = 0; k < sizeof others / sizeof *others; k++) known = known || strcmp(others[k], c->ops[i]) == 0;
        if (!known) return false;
    }
    return c->op_count > 0;
}

static int is_test(const struct dirent *e)
{
    return strncmp(e->d_name, "test_", 5) == 0;
}

/* Runs all tests of a folder; prints what fails and the counts. least: passes expected at least (so that an empty
 * folder fails). */
static void run_folder(const char *folder, unsigned least)
{
    struct dirent **entries;
    struct qc_status rules_st = QC_STATUS_INIT;
    struct qc_rules *rules = qc_rules_new(&rules_st);
    cr_assert(rules && qc_rules_add_builtin(rules, "functions.rules", &rules_st) &&
                  qc_rules_add_builtin(rules, "functions_ml.rules", &rules_st),
              "%s", rules_st.message);
    const struct qc_expander expander = qc_rules_expander(rules);
    const int n = scandir(folder, &entries, is_test, alphasort);
    if (n <= 0)
        cr_skip_test(
            "%s is not there (scripts/setup --test installs libonnx-testdata; QCALIB_DATA names the other data)",
            folder);
    unsigned passed = 0, failed = 0, out = 0, surprising = 0, foreign = 0;
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name, *why = node_case_out_of_scope(name);
        char path[4096];
        struct node_case *c = NULL;
        struct qc_status st = QC_STATUS_INIT;
        snprintf(path, sizeof path, "%s/%s", folder, name);
        if (node_case_read(&c, path, NODE_CASE_BOUND, &st) && !in_table(c, &expander)) {
            foreign++;
        } else {
            const bool ok = c && c->readable && run_case(c, &expander, node_case_tolerance(name), &st);
            if (c && !c->readable)
                qc_fail(&st, QC_UNSUPPORTED, "data that are no tensors, or of a type that we do not have");
            if (why)
                out++;
            else if (ok)
                passed++;
            else
                failed++;
            if (why && ok) surprising++;
            if (!why && !ok) cr_log_error("%s: %s", name, st.message);
            if (why && ok) cr_log_error("%s passes, but is listed as out of scope (%s)", name, why);
            if (why && !ok) cr_log_info("%s: out of scope (%s): %s", name, why, st.message);
        }
        node_case_free(c);
        free(entries[i]);
    }
    free(entries);
    qc_rules_free(rules);
    fprintf(stderr, "%s: %u passed, %u failed, %u out of scope (%u of them pass), %u of other operators\n", folder,
            passed, failed, out, surprising, foreign);
    cr_assert(failed == 0 && surprising == 0);
    cr_assert(passed >= least, "only %u tests passed", passed);
}

Test(conformance, onnx_node_tests)
{
    const char *folder = getenv("QC_ONNX_TESTDATA");
    run_folder(folder ? folder : QC_ONNX_TESTDATA, 625);
}

Test(conformance, onnx_quantization_node_tests)
{
    const char *data = getenv("QCALIB_DATA");
    char folder[4096];
    if (!data) cr_skip_test("QCALIB_DATA is not set");
    snprintf(folder, sizeof folder, "%s/conformance/onnx123_node_quant", data);
    run_folder(folder, 30);
}
