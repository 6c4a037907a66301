// SPDX-License-Identifier: Apache-2.0
/* The passes on whole models: the shipped one, and those under QCALIB_DATA. */
#include "onnx/read/import.h"
#include "rewrite_passes.h"

/* Texts of all passes are parsed back where constants are few, of the last one where they are not many (mobilenet's
 * are). */
enum { FEW = 120000, MANY = 1000000 };

static void check_model(const char *path, const char *name)
{
    OWN(qc_graph) *g = NULL;
    struct pass_setup setup = PASS_SETUP;
    struct passes p = {0};
    setup.text_elements = FEW;
    cr_assert(qc_onnx_import_with(&g, NULL, path, &QC_IMPORT_INIT, ST), "%s: %s", name, failure.message);
    bool ok = passes_run(&p, g, &setup, ST);
    cr_expect(ok, "%s: %s", name, failure.message);
    if (ok) {
        for (size_t i = 0; i < g->output_count; i++) cr_expect_str_eq(p.produced->outputs[i].name, g->outputs[i].name);
        cr_expect_eq(p.produced->input_count, g->input_count);
        size_t n = passes_elements(p.produced);
        cr_expect(n <= FEW || n > MANY || passes_text_returns(p.produced, "realise", ST), "%s: %s", name,
                  failure.message);
        cr_expect_gt(p.partition->matches.count, 0, "%s: nothing matches", name);
    }
    passes_free(&p);
}

Test(models, the_shipped_model)
{
    check_model(QC_TEST_SOURCE "/datasets/digits_cnn.onnx", "digits_cnn");
}

Test(models, given_models_go_through_all_passes, .timeout = 240)
{
    passes_given_models(check_model);
}
