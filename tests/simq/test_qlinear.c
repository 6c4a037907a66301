// SPDX-License-Identifier: Apache-2.0
/* Quantized operators as they stand in files, on numbers whose results ONNX Runtime gave (golden_qlinear.txt, made by
   make_golden_qlinear.py): bit for bit. */
#include "base/file.h"
#include "simq/plan/plan.h"
#include "tests/check.h"
#include "tests/graph_reader/graph_reader.h"

/* Number of elements that differ. */
static size_t differing(const struct qc_tensor *got, const struct qc_tensor *want)
{
    const size_t size = qc_dtype_size(want->dtype);
    size_t n = 0;
    cr_assert(got->dtype == want->dtype && qc_shape_equal(&got->shape, &want->shape));
    for (size_t i = 0; i < want->count; i++)
        n += memcmp((const char *)got->data + i * size, (const char *)want->data + i * size, size) != 0;
    return n;
}

static void check(const char *text, size_t size, size_t number)
{
    OWN(qc_graph) *g = NULL;
    OWN(qc_tensor) *got = NULL;
    cr_assert(qc_graph_parse(&g, text, size, ST), "case %zu: %s", number, failure.message);
    const struct qc_tensor *want = qc_constant_of(g, g->outputs[1].value);
    cr_assert(qc_evaluate(&got, g, (qc_id)g->node_count, ST), "case %zu: %s", number, failure.message);
    const size_t wrong = differing(got, want);
    cr_expect_eq(wrong, 0, "case %zu: %s: %zu of %zu elements differ", number,
                 qc_op_info(g->nodes[g->node_count].op)->name, wrong, want->count);
}

Test(qlinear, equals_onnx_runtime)
{
    void *bytes;
    size_t size, number = 0;
    MUST(qc_file_read(&bytes, &size, QC_TEST_SOURCE "/tests/simq/golden_qlinear.txt", test_arena(), ST));
    char *text = qc_arena_strndup(test_arena(), bytes, size, ST);
    for (char *end; text && (end = strstr(text, "---\n")); text = end + 4) check(text, (size_t)(end - text), ++number);
    cr_assert(number >= 80, "only %zu cases", number);
}
