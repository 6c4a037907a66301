// SPDX-License-Identifier: Apache-2.0
/* Kernels that work through strides give the same results whatever the order of their inputs in memory: ONNX's node
   tests of one node, each kernel run alone. Reference: the expected outputs that ONNX ships with them. */
#include <dirent.h>

#include "kernel_run.h"
#include "node_case.h"
#include "onnx/read/import.h"
#include "tensor_near.h"
#include "tests/check.h"

#ifndef QC_ONNX_TESTDATA
#define QC_ONNX_TESTDATA "/usr/share/libonnx-testdata/data/node"
#endif

static int is_test(const struct dirent *e)
{
    return strncmp(e->d_name, "test_", 5) == 0;
}

static const struct qc_tensor *data_of(const struct node_case *c, const struct qc_graph *g, qc_id value)
{
    for (size_t k = 0; k < g->input_count; k++)
        for (size_t i = 0; g->inputs[k].value == value && i < c->input_count; i++)
            if (strcmp(c->input_names[i], g->inputs[k].name) == 0) return c->inputs[i];
    return NULL;
}

/* One node that works in any order of memory, with fixed shapes and the outputs of the graph. */
static bool fits(const struct qc_graph *g)
{
    if (g->node_count != 1) return false;
    const enum qc_kernel_order order = qc_kernel_of(g->nodes[1].op)->order;
    if (order != QC_ORDER_ANY && order != QC_ORDER_LAST) return false;
    const struct qc_node *n = &g->nodes[1];
    if (g->output_count != n->output_count) return false;
    for (unsigned k = 0; k < n->output_count; k++)
        if (g->outputs[k].value != n->outputs + k || !qc_shape_fixed(&qc_value(g, n->outputs + k)->type.shape))
            return false;
    return true;
}

static unsigned run_case(const struct node_case *c, const char *name, const struct qc_graph *g)
{
    const struct qc_node *n = &g->nodes[1];
    unsigned failed = 0;
    for (enum memory m = MEMORY_ROW; m < MEMORY_COUNT; m++) {
        struct qc_tensor *outputs[NODE_CASE_PORTS] = {0};
        const struct qc_tensor *inputs[NODE_CASE_PORTS] = {0};
        const struct kernel_run_options options = {.memory = m};
        for (unsigned i = 0; i < n->input_count; i++) inputs[i] = data_of(c, g, n->inputs[i]);
        bool ok = kernel_run(outputs, g, 1, inputs, &options, ST);
        for (unsigned k = 0; k < n->output_count; k++) {
            if (ok) {
                const struct qc_tensor want = node_case_as(c->outputs[k], outputs[k]->dtype);
                ok = tensor_near(outputs[k], &want, node_case_tolerance(name), ST);
            }
            qc_tensor_unref(outputs[k]);
        }
        if (!ok) cr_log_error("%s, memory order %d: %s", name, (int)m, failure.message);
        failed += !ok;
    }
    return failed;
}

Test(kernel_memory, any_order_gives_what_onnx_expects)
{
    const char *given = getenv("QC_ONNX_TESTDATA"), *folder = given ? given : QC_ONNX_TESTDATA;
    struct dirent **entries;
    const int n = scandir(folder, &entries, is_test, alphasort);
    if (n <= 0) cr_skip_test("%s is not there (scripts/setup --test installs libonnx-testdata)", folder);
    unsigned ran = 0, failed = 0;
    for (int i = 0; i < n; i++) {
        char path[4096];
        struct node_case *c = NULL;
        struct qc_graph *g = NULL;
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        if (!node_case_out_of_scope(entries[i]->d_name) && node_case_read(&c, path, NODE_CASE_BOUND, ST) &&
            c->readable && c->op_count == 1 &&
            qc_onnx_import_memory_with(&g, NULL, c->model, c->model_size, NULL, &QC_IMPORT_INIT, ST) && fits(g)) {
            ran++;
            failed += run_case(c, entries[i]->d_name, g);
        }
        qc_graph_free(g);
        node_case_free(c);
        free(entries[i]);
    }
    free(entries);
    fprintf(stderr, "%s: %u tests in %d orders of memory, %u failures\n", folder, ran, (int)MEMORY_COUNT, failed);
    cr_assert(failed == 0);
    cr_assert(ran >= 300, "only %u tests ran", ran);
}
