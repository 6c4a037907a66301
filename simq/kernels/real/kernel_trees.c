// SPDX-License-Identifier: Apache-2.0
/* TreeEnsemble-5, TreeEnsembleRegressor-3 and TreeEnsembleClassifier-3 of ai.onnx.ml, with the scores of ONNX Runtime,
   which ONNX leaves open. Outputs: scores [N,targets]; labels [N] and scores [N,classes]. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "simq/core/kernel_util.h"

enum mode { LEAF, LEQ, LT, GTE, GT, EQ, NEQ, MEMBER };

struct node {
    int64_t tree, id, feature, yes, no; /* yes, no: ids, then places in the sorted nodes */
    double split;
    enum mode mode;
    bool missing_is_yes;
    size_t first, count; /* its weights; of MEMBER: its numbers */
};

struct weight {
    size_t node; /* place of its leaf */
    int64_t target;
    double value;
};

struct state {
    size_t node_count, root_count, weight_count;
    struct node *nodes; /* by tree and id */
    size_t *roots;
    struct weight *weights; /* by leaf */
    double *members;        /* of the nodes of mode MEMBER */
    int64_t targets;
    const float *base;
    size_t base_count;
    const int64_t *labels; /* NULL: a regressor */
    enum { SUM, AVERAGE, MIN, MAX } aggregate;
    enum qc_scores scores;
    bool one_class, positive; /* all weights are of one of two classes; no weight is negative */
};

static int by_place(const void *a, const void *b)
{
    const struct node *x = a, *y = b;
    if (x->tree != y->tree) return x->tree < y->tree ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

static int by_leaf(const void *a, const void *b)
{
    const struct weight *x = a, *y = b;
    return (x->node > y->node) - (x->node < y->node);
}

static bool damaged_trees(struct qc_status *st)
{
    return qc_fail(st, QC_BAD_INPUT, "the trees are damaged");
}

/* *out: the place of a node. */
static bool tree_place(int64_t *out, const struct state *s, int64_t tree, int64_t id, struct qc_status *st)
{
    const struct node key = {.tree = tree, .id = id};
    const struct node *found = bsearch(&key, s->nodes, s->node_count, sizeof key, by_place);
    if (!found) return damaged_trees(st);
    *out = found - s->nodes;
    return true;
}

static bool mode_of(enum mode *out, const char *text, struct qc_status *st)
{
    static const char *const names[] = {"LEAF",      "BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE",
                                        "BRANCH_GT", "BRANCH_EQ",  "BRANCH_NEQ"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(names[i], text) == 0) {
            *out = (enum mode)i;
            return true;
        }
    return qc_fail(st, QC_UNSUPPORTED, "mode %.40s is not handled", text);
}

/* Reads the nodes, sorts them and links them. */
static bool read_trees(struct state *s, const struct qc_prepare *p, struct qc_status *st)
{
    const int64_t *tree, *id, *feature, *yes, *no, *missing;
    const struct qc_node *n = p->node;
    const struct qc_attr *modes = qc_attr_find(n, "nodes_modes"), *splits = qc_attr_find(n, "nodes_values");
    const size_t count = qc_attr_ints(n, "nodes_treeids", &tree),
                 missing_count = qc_attr_ints(n, "nodes_missing_value_tracks_true", &missing);
    if (!count || !modes || modes->count != count || !splits || splits->count != count ||
        qc_attr_ints(n, "nodes_nodeids", &id) != count || qc_attr_ints(n, "nodes_featureids", &feature) != count ||
        qc_attr_ints(n, "nodes_truenodeids", &yes) != count || qc_attr_ints(n, "nodes_falsenodeids", &no) != count ||
        (missing_count && missing_count != count))
        return damaged_trees(st);
    s->nodes = QC_NEW_ARRAY(p->arena, struct node, count, st);
    s->roots = QC_NEW_ARRAY(p->arena, size_t, count, st);
    if (!s->nodes || !s->roots) return false;
    for (; s->node_count < count; s->node_count++) {
        const size_t i = s->node_count;
        s->nodes[i] = (struct node){.tree = tree[i],
                                    .id = id[i],
                                    .feature = feature[i],
                                    .yes = yes[i],
                                    .no = no[i],
                                    .split = (double)splits->floats[i],
                                    .missing_is_yes = missing_count && missing[i]};
        if (!mode_of(&s->nodes[i].mode, modes->strings[i], st)) return false;
    }
    qsort(s->nodes, count, sizeof *s->nodes, by_place);
    for (size_t i = 0; i < count; i++) {
        struct node *x = &s->nodes[i];
        if (i && by_place(x - 1, x) == 0) return damaged_trees(st);
        if (x->mode == LEAF) continue;
        if (!tree_place(&x->yes, s, x->tree, x->yes, st) || !tree_place(&x->no, s, x->tree, x->no, st)) return false;
    }
    /* The root of a tree is its first node in the file. */
    for (size_t i = 0; i < count; i++) {
        int64_t root;
        if (i && tree[i] == tree[i - 1]) continue;
        if (!tree_place(&root, s, tree[i], id[i], st)) return false;
        s->roots[s->root_count++] = (size_t)root;
    }
    return true;
}

static bool read_weights(struct state *s, const struct qc_prepare *p, const char *prefix, struct qc_status *st)
{
    const int64_t *tree, *id, *target;
    char tree_name[32], id_name[32], target_name[32], weight_name[32];
    const struct qc_attr *values = qc_attr_find(p->node, qc_text(weight_name, 32, "%s_weights", prefix));
    const size_t count = values ? values->count : 0;
    if (!count || qc_attr_ints(p->node, qc_text(tree_name, 32, "%s_treeids", prefix), &tree) != count ||
        qc_attr_ints(p->node, qc_text(id_name, 32, "%s_nodeids", prefix), &id) != count ||
        qc_attr_ints(p->node, qc_text(target_name, 32, "%s_ids", prefix), &target) != count)
        return damaged_trees(st);
    if (!(s->weights = QC_NEW_ARRAY(p->arena, struct weight, count, st))) return false;
    s->positive = s->one_class = true;
    for (; s->weight_count < count; s->weight_count++) {
        const size_t i = s->weight_count;
        int64_t leaf;
        if (target[i] < 0 || target[i] >= s->targets) return damaged_trees(st);
        if (!tree_place(&leaf, s, tree[i], id[i], st)) return false;
        s->weights[i] = (struct weight){(size_t)leaf, target[i], (double)values->floats[i]};
        s->positive = s->positive && values->floats[i] >= 0;
        s->one_class = s->one_class && target[i] == target[0];
    }
    s->one_class = s->one_class && s->targets == 2;
    qsort(s->weights, count, sizeof *s->weights, by_leaf);
    for (size_t i = count; i-- > 0;) {
        struct node *leaf = &s->nodes[s->weights[i].node];
        leaf->first = i;
        leaf->count++;
    }
    return true;
}

/* Returns the numbers of a tensor; NULL, perhaps with a status, if there are not `count`. */
static double *read_numbers(const struct qc_prepare *p, const char *name, size_t count, struct qc_status *st)
{
    const struct qc_attr *a = qc_attr_find(p->node, name);
    const struct qc_tensor *from = a ? a->tensor : NULL;
    if (!from || (from->dtype != QC_F32 && from->dtype != QC_F64) || from->count != count) return NULL;
    double *to = QC_NEW_ARRAY(p->arena, double, count + 1, st);
    for (size_t i = 0; to && i < count; i++)
        to[i] = from->dtype == QC_F32 ? (double)((const float *)from->data)[i] : ((const double *)from->data)[i];
    return to;
}

/* Reads the sets of the nodes of mode MEMBER, each ended by NaN. */
static bool read_members(struct state *s, const struct qc_prepare *p, size_t node_count, struct qc_status *st)
{
    const struct qc_attr *a = qc_attr_find(p->node, "membership_values");
    const size_t count = a ? a->tensor->count : 0;
    size_t at = 0;
    if (a && !(s->members = read_numbers(p, "membership_values", count, st))) return damaged_trees(st);
    for (size_t i = 0; i < node_count; i++) {
        struct node *n = &s->nodes[i];
        if (n->mode != MEMBER) continue;
        n->first = at;
        while (at < count && !isnan(s->members[at])) at++;
        if (at == count) return damaged_trees(st);
        n->count = at++ - n->first;
    }
    return true;
}

/* *to: the place of a branch, a node or, behind the nodes, a leaf. */
static bool branch(int64_t *to, int64_t index, bool leaf, size_t node_count, size_t leaf_count, struct qc_status *st)
{
    if (index < 0 || (uint64_t)index >= (leaf ? leaf_count : node_count)) return damaged_trees(st);
    *to = index + (leaf ? (int64_t)node_count : 0);
    return true;
}

/* Reads the trees of TreeEnsemble-5: nodes, then leaves. */
static bool read_ensemble(struct state *s, const struct qc_prepare *p, struct qc_status *st)
{
    const int64_t *feature, *yes, *no, *yes_leaf, *no_leaf, *missing, *root, *target;
    const struct qc_node *n = p->node;
    const struct qc_attr *modes = qc_attr_find(n, "nodes_modes");
    const size_t nodes = qc_attr_ints(n, "nodes_featureids", &feature),
                 leaves = qc_attr_ints(n, "leaf_targetids", &target),
                 missing_count = qc_attr_ints(n, "nodes_missing_value_tracks_true", &missing);
    const double *split = read_numbers(p, "nodes_splits", nodes, st),
                 *weight = read_numbers(p, "leaf_weights", leaves, st);
    s->root_count = qc_attr_ints(n, "tree_roots", &root);
    if (!nodes || !leaves || !s->root_count || !modes || modes->tensor->dtype != QC_U8 ||
        modes->tensor->count != nodes || !split || !weight || qc_attr_ints(n, "nodes_truenodeids", &yes) != nodes ||
        qc_attr_ints(n, "nodes_falsenodeids", &no) != nodes || qc_attr_ints(n, "nodes_trueleafs", &yes_leaf) != nodes ||
        qc_attr_ints(n, "nodes_falseleafs", &no_leaf) != nodes || (missing_count && missing_count != nodes))
        return damaged_trees(st);
    s->node_count = nodes + leaves;
    s->weight_count = leaves;
    s->nodes = QC_NEW_ARRAY(p->arena, struct node, s->node_count, st);
    s->weights = QC_NEW_ARRAY(p->arena, struct weight, leaves, st);
    s->roots = QC_NEW_ARRAY(p->arena, size_t, s->root_count, st);
    if (!s->nodes || !s->weights || !s->roots) return false;
    for (size_t i = 0; i < nodes; i++) {
        const unsigned mode = ((const uint8_t *)modes->tensor->data)[i];
        struct node *x = &s->nodes[i];
        *x = (struct node){.feature = feature[i],
                           .split = split[i],
                           .mode = (enum mode)(mode + LEQ),
                           .missing_is_yes = missing_count && missing[i]};
        if (mode + LEQ > MEMBER) return qc_fail(st, QC_UNSUPPORTED, "mode %u is not handled", mode);
        if (!branch(&x->yes, yes[i], yes_leaf[i], nodes, leaves, st) ||
            !branch(&x->no, no[i], no_leaf[i], nodes, leaves, st))
            return false;
    }
    for (size_t i = 0; i < leaves; i++) {
        if (target[i] < 0 || target[i] >= s->targets) return damaged_trees(st);
        s->nodes[nodes + i] = (struct node){.mode = LEAF, .first = i, .count = 1};
        s->weights[i] = (struct weight){nodes + i, target[i], weight[i]};
    }
    for (size_t i = 0; i < s->root_count; i++) {
        if (root[i] < 0 || (uint64_t)root[i] >= nodes) return damaged_trees(st);
        s->roots[i] = (size_t)root[i];
        s->nodes[root[i]].tree = (int64_t)i;
    }
    return read_members(s, p, nodes, st);
}

/* The numbers of TreeEnsemble-5 for aggregate_function and post_transform. ONNX Runtime (1.32) takes 1 as LOGISTIC and
   2 as SOFTMAX, ONNX the reverse. */
static bool read_functions(struct state *s, const struct qc_prepare *p, struct qc_status *st)
{
    const int64_t function = qc_attr_int(p->node, "aggregate_function", 1),
                  transform = qc_attr_int(p->node, "post_transform", 0);
    if (function < 0 || function > 3 || transform < 0 || transform > 4)
        return qc_fail(st, QC_UNSUPPORTED, "aggregate_function %lld with post_transform %lld is not handled",
                       (long long)function, (long long)transform);
    if (transform && p->out[0].dtype == QC_F64)
        return qc_fail(st, QC_UNSUPPORTED, "post_transform of an input of float64 is not handled");
    s->aggregate = function == 0 ? AVERAGE : function == 1 ? SUM : function == 2 ? MIN : MAX;
    s->scores = (enum qc_scores)transform;
    return true;
}

static bool prepare_trees(struct qc_prepare *p, struct qc_status *st)
{
    static const char *const functions[] = {"SUM", "AVERAGE", "MIN", "MAX", NULL};
    const bool classifies = p->node->op == QC_OP_TreeEnsembleClassifier;
    const struct qc_attr *base = qc_attr_find(p->node, "base_values");
    struct state *s = QC_NEW_STATE(p, struct state, st);
    if (!s) return false;
    s->targets = p->out[classifies].dim[p->out[classifies].rank - 1];
    p->scratch = (size_t)s->targets * (sizeof(double) + sizeof(bool));
    if (p->node->op == QC_OP_TreeEnsemble) return read_functions(s, p, st) && read_ensemble(s, p, st);
    const char *function = qc_attr_string(p->node, "aggregate_function", "SUM");
    if (!qc_scores_of(&s->scores, p->node, st)) return false;
    if (base) s->base = base->floats, s->base_count = base->count;
    if (classifies) qc_attr_ints(p->node, "classlabels_int64s", &s->labels);
    for (unsigned i = 0; functions[i]; i++)
        if (strcmp(functions[i], function) == 0) s->aggregate = i;
    return read_trees(s, p, st) && read_weights(s, p, classifies ? "class" : "target", st);
}

static bool goes_yes(const struct state *s, const struct node *n, double v)
{
    if (n->missing_is_yes && isnan(v)) return true;
    switch (n->mode) {
    case LEQ: return v <= n->split;
    case LT: return v < n->split;
    case GTE: return v >= n->split;
    case GT: return v > n->split;
    case EQ: return v == n->split;
    case NEQ: return v != n->split;
    case MEMBER:
        for (size_t i = 0; i < n->count; i++)
            if (v == s->members[n->first + i]) return true;
        return false;
    case LEAF: break;
    }
    return false;
}

/* Adds the weights of the leaf that a row reaches. */
static bool add_tree(double *sum, bool *has, const struct state *s, size_t root, const struct qc_view *x, int64_t row,
                     struct qc_status *st)
{
    const int axis = x->rank - 1;
    size_t at = root, steps = 0;
    for (; s->nodes[at].mode != LEAF; steps++) {
        const struct node *n = &s->nodes[at];
        if (steps > s->node_count) return qc_fail(st, QC_BAD_INPUT, "tree %lld has a cycle", (long long)n->tree);
        if (n->feature < 0 || n->feature >= x->dim[axis])
            return qc_fail(st, QC_BAD_INPUT, "a tree asks for feature %lld of %lld", (long long)n->feature,
                           (long long)x->dim[axis]);
        const double v = qc_kernel_number(x, row + n->feature * x->stride[axis]);
        at = (size_t)(goes_yes(s, n, v) ? n->yes : n->no);
    }
    const struct weight *w = s->weights + s->nodes[at].first, *end = w + s->nodes[at].count;
    for (; w < end; w++) {
        double *to = &sum[w->target];
        const bool first = !has[w->target];
        if (s->aggregate == MIN)
            *to = first || w->value < *to ? w->value : *to;
        else if (s->aggregate == MAX)
            *to = first || w->value > *to ? w->value : *to;
        else
            *to += w->value;
        has[w->target] = true;
    }
    return true;
}

/* Returns the label of a row of a classifier, and turns its sums to scores: *form as for qc_scores_set. ONNX Runtime
   counts weights of one class out of two by their sign. Of weights of both classes the label is 0 or 1. */
static int64_t classify(enum qc_scores_form *form, size_t *count, const struct state *s, double *sum, const bool *has)
{
    *form = QC_SCORES_PLAIN;
    *count = (size_t)s->targets;
    if (s->targets > 2) {
        size_t best = 0;
        for (size_t k = 0; k < s->base_count && k < *count; k++) sum[k] += (double)s->base[k];
        for (size_t k = 1; k < *count; k++)
            if ((has[k] || s->base_count) && (sum[k] > sum[best] || !(has[best] || s->base_count))) best = k;
        return s->labels[best];
    }
    bool second = has[1];
    if (s->base_count == 2 && second) {
        sum[1] = (double)s->base[1] + sum[0];
        sum[0] = -sum[1];
    } else if (s->base_count == 2) {
        sum[0] += (double)s->base[0];
        sum[1] += (double)s->base[1];
    } else if (s->base_count == 1) {
        sum[0] += (double)s->base[0];
    }
    if (s->base_count != 2 && !second) *count = 1;
    const double decides = second ? sum[1] : sum[0];
    for (int k = 0; k < 2; k++) sum[k] = has[k] ? sum[k] : 0;
    if (!s->one_class) return decides > 0;
    *form = s->positive ? QC_SCORES_SHARE : QC_SCORES_SIGN;
    return s->labels[s->positive ? decides > 0.5 : decides > 0];
}

static bool run_trees(const struct qc_run *r, struct qc_status *st)
{
    const struct state *s = r->state;
    const struct qc_view *x = &r->in[0], *y = &r->out[s->labels != NULL];
    const int64_t rows = x->rank > 1 ? x->dim[0] : 1;
    double *sum = r->scratch;
    bool *has = (bool *)(sum + s->targets);
    for (int64_t row = 0; row < rows; row++) {
        size_t count = (size_t)s->targets;
        enum qc_scores_form form = QC_SCORES_PLAIN;
        memset(sum, 0, count * sizeof *sum);
        memset(has, 0, count * sizeof *has);
        for (size_t i = 0; i < s->root_count; i++)
            if (!add_tree(sum, has, s, s->roots[i], x, x->rank > 1 ? row * x->stride[0] : 0, st)) return false;
        if (s->aggregate == AVERAGE)
            for (size_t k = 0; k < count; k++) sum[k] /= (double)s->root_count;
        if (s->labels)
            ((int64_t *)r->out[0].data)[row] = classify(&form, &count, s, sum, has);
        else
            for (size_t k = 0; s->base_count == count && k < count; k++) sum[k] += (double)s->base[k];
        if (!s->labels && count == 1 && s->base_count > 1) return damaged_trees(st);
        if (y->dtype == QC_F64) {
            memcpy((double *)y->data + row * s->targets, sum, count * sizeof *sum);
            continue;
        }
        qc_scores_set((float *)y->data + row * s->targets, (size_t)s->targets, sum, count, s->scores, form);
    }
    return true;
}

QC_KERNEL(trees, .order = QC_ORDER_ROW, .prepare = prepare_trees, .run = run_trees);
