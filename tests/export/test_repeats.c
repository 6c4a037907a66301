// SPDX-License-Identifier: Apache-2.0
/* Repeated blocks: found with any nodes before and after them, starting where they have the fewest inputs, and not if a
   shorter stretch repeats. */
#include <criterion/criterion.h>

#include "export/report/repeats.h"

enum { MOST = 6000 };

static struct qc_report_node nodes[MOST];
static size_t inputs[MOST][2];

static size_t put(size_t count, const char *label, size_t from, size_t other)
{
    inputs[count][0] = from;
    inputs[count][1] = other;
    nodes[count] = (struct qc_report_node){.kind = QC_NODE_INTEGER,
                                           .name = label,
                                           .label = label,
                                           .input_count = other == QC_NO_INDEX ? 1 : 2,
                                           .inputs = inputs[count],
                                           .layer = QC_NO_INDEX};
    return count + 1;
}

/* An input, and copies of: norm, product, product, sum with what came in. */
static size_t residual(size_t copies)
{
    size_t n = 0;
    nodes[n++] = (struct qc_report_node){.kind = QC_NODE_INPUT, .name = "x", .label = "input", .layer = QC_NO_INDEX};
    n = put(n, "Add", 0, QC_NO_INDEX);
    for (size_t k = 0; k < copies; k++) {
        size_t from = n - 1;
        n = put(n, "Norm", from, QC_NO_INDEX);
        n = put(n, "MatMul", n - 1, QC_NO_INDEX);
        n = put(n, "MatMul", n - 1, QC_NO_INDEX);
        n = put(n, "Add", n - 1, from);
    }
    return put(n, "Softmax", n - 1, QC_NO_INDEX);
}

static size_t found(struct qc_repeat *first, size_t count)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_arena *a = qc_arena_new();
    struct qc_repeat *list;
    size_t many;
    cr_assert(qc_repeats_find(&list, &many, nodes, count, a, &st), "%s", st.message);
    for (size_t i = 0; i < many; i++) {
        cr_assert(list[i].copies >= 2 && list[i].length >= 3 &&
                  list[i].first + list[i].copies * list[i].length <= count);
        cr_assert(i == 0 || list[i].first >= list[i - 1].first + list[i - 1].copies * list[i - 1].length);
    }
    if (many) *first = list[0];
    qc_arena_free(a);
    return many;
}

Test(repeats, blocks_begin_where_one_value_comes_in)
{
    struct qc_repeat r = {.copies = 0};
    cr_assert_eq(found(&r, residual(24)), 1);
    cr_expect(r.first == 2 && r.length == 4 && r.copies == 24, "%zu: %zu times %zu", r.first, r.copies, r.length);
}

Test(repeats, one_block_or_a_chain_of_one_op_is_none)
{
    struct qc_repeat r;
    size_t n = 1;
    cr_expect_eq(found(&r, residual(1)), 0);
    for (size_t i = 0; i < 50; i++) n = put(n, "Conv", n - 1, QC_NO_INDEX);
    cr_expect_eq(found(&r, n), 0);
    cr_expect_eq(found(&r, 0), 0);
}

Test(repeats, two_kinds_of_blocks_are_two_repeats)
{
    struct qc_repeat r = {.copies = 0};
    size_t n = residual(6);
    for (size_t k = 0; k < 5; k++) {
        n = put(n, "Conv", n - 1, QC_NO_INDEX);
        n = put(n, "Relu", n - 1, QC_NO_INDEX);
        n = put(n, "MaxPool", n - 1, QC_NO_INDEX);
    }
    cr_expect_eq(found(&r, n), 2);
    cr_expect(r.length == 4 && r.copies == 6);
}

Test(repeats, of_thousands_of_nodes_takes_no_time, .timeout = 10)
{
    struct qc_repeat r = {.copies = 0};
    size_t n = residual(1400);
    cr_assert_eq(found(&r, n), 1);
    cr_expect(r.copies == 1400 && r.length == 4);
    for (size_t i = 0; i < MOST; i++) put(i, i * i % 7 < 3 ? "Conv" : "Add", i ? i - 1 : 0, QC_NO_INDEX);
    (void)found(&r, MOST);
}
