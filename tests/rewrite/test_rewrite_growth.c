// SPDX-License-Identifier: Apache-2.0
/* Nothing is duplicated in deep stacks: a known compiler doubles these graphs with every block. The result does not
   depend on the order of the rules. */
#include "graph/text/text.h"
#include "rewrite_passes.h"
#include "simq/plan/plan.h"
#include "tests/graph_reader/graph_reader.h"

enum { STAGES = 5 };

static const char *const stage_names[STAGES] = {"normalise", "simulate", "expand", "fold", "realise"};

static const struct qc_graph *stage(const struct passes *p, int i)
{
    const struct qc_graph *const graphs[STAGES] = {p->normalised, p->simulated, p->expanded, p->folded, p->produced};
    return graphs[i];
}

static qc_id add(struct qc_graph *g, enum qc_op op, unsigned count, const qc_id *inputs, unsigned outputs,
                 const struct qc_attr *attr)
{
    struct qc_node_def def = FIELDS(.op = op, .input_count = count, .inputs = inputs, .output_count = outputs,
                                    .attr_count = attr ? 1 : 0, .attrs = attr);
    qc_id id = qc_graph_add(g, &def, ST);
    MUST(id);
    return id;
}

/* A weight unlike all others. */
static qc_id weight(struct qc_graph *g, const struct qc_shape *shape, int number)
{
    OWN(qc_tensor) *t = qc_tensor_new(QC_F32, shape, ST);
    cr_assert(t);
    for (size_t i = 0; i < t->count; i++) ((float *)t->data)[i] = (float)number + 0.25f * (float)i;
    qc_id id = qc_graph_add_constant(g, NULL, t, ST);
    return id;
}

/* Two linear layers, each split in two, cross-added, two sigmoids, added: QNN's block whose dense layers were doubled.
 */
static qc_id gates(struct qc_graph *g, qc_id x, int number)
{
    const struct qc_shape shape = QC_SHAPE(2, 4);
    const struct qc_attr axis = QC_INT("axis", 1);
    qc_id a[2] = {x, weight(g, &shape, 2 * number)}, b[2] = {x, weight(g, &shape, 2 * number + 1)}, half[2], s[2];
    qc_id dense[2] = {add(g, QC_OP_Gemm, 2, a, 1, NULL), add(g, QC_OP_Gemm, 2, b, 1, NULL)};
    qc_id first = add(g, QC_OP_Split, 1, &dense[0], 2, &axis), second = add(g, QC_OP_Split, 1, &dense[1], 2, &axis);
    for (unsigned i = 0; i < 2; i++) {
        half[i] = add(g, QC_OP_Add, 2, (const qc_id[]){first + i, second + 1 - i}, 1, NULL);
        s[i] = add(g, QC_OP_Sigmoid, 1, &half[i], 1, NULL);
    }
    return add(g, QC_OP_Add, 2, s, 1, NULL);
}

/* conv, relu, conv, added to the block's input, relu. */
static qc_id residual(struct qc_graph *g, qc_id x, int number)
{
    const struct qc_shape shape = QC_SHAPE(2, 2, 1, 1);
    qc_id a[2] = {x, weight(g, &shape, 2 * number)}, b[2] = {0, weight(g, &shape, 2 * number + 1)}, c, sum;
    c = add(g, QC_OP_Conv, 2, a, 1, NULL);
    b[0] = add(g, QC_OP_Relu, 1, &c, 1, NULL);
    sum = add(g, QC_OP_Add, 2, (const qc_id[]){add(g, QC_OP_Conv, 2, b, 1, NULL), x}, 1, NULL);
    return add(g, QC_OP_Relu, 1, &sum, 1, NULL);
}

/* Pool, two branches, concat with what came in: every value has several users of several kinds. */
static qc_id dense_block(struct qc_graph *g, qc_id x, int number)
{
    const struct qc_shape shape = QC_SHAPE(1, 2, 1, 1);
    const struct qc_attr axis = QC_INT("axis", 1);
    qc_id a[2] = {x, weight(g, &shape, 2 * number)}, b[2] = {x, weight(g, &shape, 2 * number + 1)}, c[2];
    c[0] = add(g, QC_OP_Conv, 2, a, 1, NULL);
    c[1] = add(g, QC_OP_Conv, 2, b, 1, NULL);
    qc_id cat = add(g, QC_OP_Concat, 2, c, 1, &axis), twice[2] = {cat, x};
    return add(g, QC_OP_Max, 2, (const qc_id[]){add(g, QC_OP_Add, 2, twice, 1, NULL), x}, 1, NULL);
}

static const struct {
    const char *name;
    qc_id (*block)(struct qc_graph *g, qc_id x, int number);
    enum qc_op heavy;
    bool image;
    const char *skip;
} stacks[] = {
    {"gates, sigmoid on integers", gates, QC_OP_Gemm, false, NULL},
    {"gates, sigmoid in float", gates, QC_OP_Gemm, false, "Sigmoid"},
    {"residual", residual, QC_OP_Conv, true, NULL},
    {"residual, sums in float", residual, QC_OP_Conv, true, "Add"},
    {"dense", dense_block, QC_OP_Conv, true, NULL},
};

static struct qc_graph *stack(size_t which, int depth)
{
    const struct qc_shape rows = QC_SHAPE(QC_FREE, 2), image = QC_SHAPE(QC_FREE, 2, 4, 4);
    struct qc_graph *g = qc_graph_new(ST);
    qc_id x = qc_graph_add_input(g, "x", QC_F32, stacks[which].image ? &image : &rows, ST);
    for (int i = 0; i < depth; i++) x = stacks[which].block(g, x, i);
    MUST(x && qc_graph_add_output(g, "y", x, ST));
    return g;
}

Test(growth, stacks_have_two_heavy_ops_per_block_and_grow_linearly)
{
    for (size_t s = 0; s < sizeof stacks / sizeof *stacks; s++) {
        size_t two[STAGES] = {0}, four[STAGES] = {0};
        for (int depth = 1; depth <= 64; depth *= 2) {
            struct pass_setup setup = PASS_SETUP;
            PASSES p;
            OWN(qc_graph) *g = stack(s, depth);
            setup.scheme.skip_count = stacks[s].skip != NULL;
            setup.scheme.skip = &stacks[s].skip;
            cr_assert(passes_run(&p, g, &setup, ST), "%s, depth %d: %s", stacks[s].name, depth, failure.message);
            for (int i = 0; i < STAGES; i++) {
                size_t nodes = stage(&p, i)->node_count, heavy = passes_count(stage(&p, i), stacks[s].heavy);
                cr_expect_eq(heavy, 2 * (size_t)depth, "%s, depth %d, %s: %zu heavy ops", stacks[s].name, depth,
                             stage_names[i], heavy);
                if (depth == 2) two[i] = nodes;
                if (depth == 4) four[i] = nodes;
                size_t linear = two[i] + (size_t)(depth - 2) * (four[i] - two[i]) / 2;
                cr_expect(depth < 4 || nodes == linear, "%s, depth %d, %s: %zu nodes, not %zu", stacks[s].name, depth,
                          stage_names[i], nodes, linear);
            }
        }
    }
}

Test(growth, sigmoids_in_float_share_what_they_read)
{
    const char *skip[] = {"Sigmoid"};
    struct pass_setup setup = PASS_SETUP;
    OWN(qc_graph) *g = stack(0, 1);
    PASSES p;
    setup.scheme.skip_count = 1;
    setup.scheme.skip = skip;
    MUST(passes_run(&p, g, &setup, ST));
    cr_expect_eq(passes_count(p.folded, QC_OP_Sigmoid), 2);
    for (qc_id v = 1; v <= p.folded->value_count; v++) { /* a value is dequantized at most once */
        size_t dequantized = 0;
        for (qc_id n = 1; n <= p.folded->node_count; n++)
            dequantized += p.folded->nodes[n].op == QC_OP_Dequantize && p.folded->nodes[n].inputs[0] == v;
        cr_expect_leq(dequantized, 1);
    }
}

/* ---- Order of the rules ---- */

static void shuffle(struct qc_rules *r, uint64_t *state)
{
    for (size_t i = r->count; i > 1; i--) {
        size_t k = (size_t)(test_random(state) % i);
        struct qc_rule kept = r->rules[i - 1];
        r->rules[i - 1] = r->rules[k];
        r->rules[k] = kept;
    }
}

/* Texts of the normalised and the folded graph, after one another. */
static char *both(const struct qc_graph *g, uint64_t seed)
{
    OWN(qc_rules) *rules = passes_rules(NULL, ST), *fold_rules = qc_rules_new(ST);
    struct qc_partition_options options = QC_PARTITION_INIT;
    OWN(qc_graph) *normalised = NULL, *simulated = NULL, *expanded = NULL, *folded = NULL;
    OWN(qc_partition) *p = NULL;
    char *text = NULL;
    MUST(rules && qc_rules_add_builtin(fold_rules, "requantize.rules", ST));
    if (seed) {
        shuffle(rules, &seed);
        shuffle(fold_rules, &seed);
    }
    MUST(qc_normalise(&normalised, g, rules, qc_evaluate, ST) &&
         qc_partition_new(&p, normalised, rules, &options, ST) && qc_simulate(&simulated, p, ST));
    for (qc_id s = 1; s <= simulated->qparams_count; s++)
        if (simulated->qparams_of[s].kind == QC_QPARAMS_QUANTIZER && !simulated->qparams_of[s].is_weight) {
            const float scale = 0.5f;
            const int32_t zero_point = 0;
            MUST(qc_graph_bind_quantizer(simulated, s, 1, &scale, &zero_point, ST));
        }
    MUST(qc_propagate_qdq(&expanded, simulated, rules, false, ST) &&
         qc_rewrite(&folded, NULL, expanded, fold_rules, ST));
    QC_FREED char *a = qc_graph_print(normalised, &QC_TEXT_ALL, ST), *b = qc_graph_print(folded, &QC_TEXT_ALL, ST);
    cr_assert(a && b && (text = malloc(strlen(a) + strlen(b) + 1)));
    strcat(strcpy(text, a), b);
    return text;
}

static void check_orders(const struct qc_graph *g, const char *name)
{
    QC_FREED char *expected = both(g, 0);
    for (uint64_t seed = 1; seed <= 12 / test_one_of(2, 6); seed++) {
        QC_FREED char *got = both(g, seed);
        cr_expect_str_eq(got, expected, "%s: the order of rules (seed %llu) makes a difference", name,
                         (unsigned long long)seed);
    }
}

static void check_case(const char *name, int number)
{
    OWN(qc_graph) *g = passes_case_graph(name);
    check_orders(g, name);
}

Test(order, rules_in_any_order_give_the_same_graph)
{
    passes_each_case(check_case);
    for (size_t s = 0; s < sizeof stacks / sizeof *stacks; s++) {
        OWN(qc_graph) *g = stack(s, 3);
        check_orders(g, stacks[s].name);
    }
}
