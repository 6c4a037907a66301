// SPDX-License-Identifier: Apache-2.0
/* The groups of operators that --benchmark moves in one step, in a network of a few layers. */

#include "quantize/search/searches.h"
#include "tests/check.h"
#include "tests/quantize/made_network.h"

#define MODEL QC_TEST_SOURCE "/datasets/digits_cnn.onnx"
#define DATA QC_TEST_SOURCE "/datasets/digits_calib.h5"

static struct qc_options options;
static const struct qc_job_inputs in = {.model = {.file = MODEL}, .data = {.file = DATA}};

static void run(struct made_network *p, const char *skip)
{
    static const struct {
        enum qc_option option;
        const char *value;
    } set[] = {{QC_OPTION_SAMPLES, "8"},
               {QC_OPTION_THREADS, "1"},
               {QC_OPTION_METHOD, "minmax"},
               {QC_OPTION_WEIGHT_ROUNDING, "nearest"},
               {QC_OPTION_PREFER, "integers"}};
    MUST(qc_options_init(&options, QC_COMMAND_quantize, test_arena(), ST));
    for (size_t i = 0; i < sizeof set / sizeof *set; i++)
        MUST(qc_options_set(&options, set[i].option, set[i].value, ST));
    if (skip) MUST(qc_options_set(&options, QC_OPTION_SKIP, skip, ST));
    MUST(make_network(p, &options, &in, NULL, ST));
}

static const struct qc_placement_group *group_named(const struct qc_placement_groups *g, const char *what)
{
    for (size_t i = 0; i < g->group_count; i++)
        if (strcmp(g->groups[i].what, what) == 0) return &g->groups[i];
    return NULL;
}

Test(placement_groups, are_kinds_then_what_is_connected_then_weight_shapes)
{
    struct made_network p;
    struct qc_placement_groups g;
    run(&p, NULL);
    MUST(qc_placement_groups_find(&g, p.c->network, test_arena(), ST));
    const struct qc_placement_group *dense = group_named(&g, "Conv 3x3"),
                                    *depthwise = group_named(&g, "Conv 3x3, depthwise"),
                                    *shape = group_named(&g, "Conv 24x24x3x3");
    cr_assert(dense && depthwise && shape, "a kind is missing");
    cr_expect_eq(dense->op_count, 3, "%zu", dense->op_count);
    cr_expect_eq(depthwise->op_count, 1);
    cr_expect_lt(shape->op_count, dense->op_count);
    cr_expect(dense < shape && dense->work > depthwise->work && shape->work < dense->work);
    for (size_t i = 0; i < g.op_count; i++) cr_expect(!shape->has[i] || dense->has[i], "a shape is of one kind");
    size_t connected = 0;
    for (size_t k = 0; k < g.group_count; k++) {
        size_t count = 0;
        for (size_t i = 0; i < g.op_count; i++) count += g.groups[k].has[i];
        cr_expect(count && count == g.groups[k].op_count, "%s", g.groups[k].what);
        connected += strncmp(g.groups[k].what, "connected: ", 11) == 0;
        for (size_t other = 0; other < k; other++)
            cr_expect_neq(memcmp(g.groups[k].has, g.groups[other].has, g.op_count * sizeof(bool)), 0, "%s is %s",
                          g.groups[k].what, g.groups[other].what);
    }
    cr_expect_eq(connected, 1, "the network is one piece in integers: %zu", connected);
    free_network(&p);
}

Test(placement_groups, know_what_another_network_leaves_in_float)
{
    struct made_network p, other;
    struct qc_placement_groups g;
    bool *in_float;
    run(&p, NULL);
    MUST(qc_placement_groups_find(&g, p.c->network, test_arena(), ST));
    MUST(qc_placement_of(&in_float, &g, p.c->network, test_arena(), ST));
    for (size_t i = 0; i < g.op_count; i++) cr_expect(!in_float[i], "%s", g.ops[i].name);
    size_t one = 0;
    while (one < g.op_count && !group_named(&g, "Conv 3x3, depthwise")->has[one]) one++;
    cr_assert_lt(one, g.op_count);
    cr_assert_eq(g.ops[one].skip_count, 1);
    run(&other, g.ops[one].skip[0]);
    MUST(qc_placement_of(&in_float, &g, other.c->network, test_arena(), ST));
    for (size_t i = 0; i < g.op_count; i++) cr_expect_eq(in_float[i], i == one, "%s", g.ops[i].name);
    free_network(&other);
    free_network(&p);
}
