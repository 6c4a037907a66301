// SPDX-License-Identifier: Apache-2.0
/* The planner against a simple interpreter: each node alone, row-major, in separate memory. Data are small integers in
   float32, so results do not depend on the order of sums and are compared bit for bit. */
#include "base/pool.h"
#include "simq/plan/plan_parts.h"
#include "tests/check.h"
#include "tests/simq/plan_print.h"

enum { LIVE = 64 };

struct maker {
    struct qc_graph *g;
    struct qc_status st;
    uint64_t state;
    qc_id values[LIVE]; /* real f32 of rank 4, one sample */
    size_t count;
    unsigned quantizers;
};

static int64_t pick(struct maker *m, int64_t n)
{
    m->state = m->state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((m->state >> 33) % (uint64_t)n);
}

static const struct qc_shape *shape_of(const struct maker *m, qc_id v)
{
    return &m->g->values[v].type.shape;
}

static qc_id add(struct maker *m, enum qc_op op, unsigned inputs, const qc_id *in, unsigned attrs,
                 const struct qc_attr *attr, qc_id qparams)
{
    const struct qc_node_def d = {
        .op = op, .input_count = inputs, .inputs = in, .attr_count = attrs, .attrs = attr, .qparams = qparams};
    qc_id v = qc_graph_add(m->g, &d, &m->st);
    cr_assert(v, "%s", m->st.message);
    return v;
}

static qc_id constant(struct maker *m, enum qc_dtype t, const struct qc_shape *s, const void *data)
{
    OWN(qc_tensor) *tensor = qc_tensor_of(t, s, data, &m->st);
    qc_id v = tensor ? qc_graph_add_constant(m->g, NULL, tensor, &m->st) : 0;
    cr_assert(v, "%s", m->st.message);
    return v;
}

static qc_id ints(struct maker *m, size_t n, const int64_t *v)
{
    const struct qc_shape s = QC_SHAPE((int64_t)n);
    return constant(m, QC_I64, &s, v);
}

static qc_id weights(struct maker *m, const struct qc_shape *s, int64_t most)
{
    OWN(qc_tensor) *t = qc_tensor_new(QC_F32, s, &m->st);
    for (size_t i = 0; i < t->count; i++) ((float *)t->data)[i] = (float)(pick(m, 2 * most + 1) - most);
    qc_id v = qc_graph_add_constant(m->g, NULL, t, &m->st);
    return v;
}

static qc_id any(struct maker *m)
{
    return m->values[m->count - 1 - (size_t)pick(m, (int64_t)(m->count < 6 ? m->count : 6))];
}

static void keep(struct maker *m, qc_id v)
{
    if (m->count < LIVE && shape_of(m, v)->rank == 4) m->values[m->count++] = v;
}

static qc_id clip(struct maker *m, qc_id x, float bound)
{
    const float lo = -bound;
    const qc_id in[] = {x, constant(m, QC_F32, &QC_SCALAR, &lo), constant(m, QC_F32, &QC_SCALAR, &bound)};
    return add(m, QC_OP_Clip, 3, in, 0, NULL, 0);
}

static qc_id conv(struct maker *m, qc_id x, qc_id w, qc_id b, int64_t k, int64_t group, qc_id qparams)
{
    const int64_t pads[] = {k / 2, k / 2, k / 2, k / 2};
    const struct qc_attr attr[] = {QC_INTS("pads", 4, pads), QC_INT("group", group)};
    const qc_id in[] = {x, w, b};
    return add(m, QC_OP_Conv, b ? 3 : 2, in, 2, attr, qparams);
}

static qc_id quantizer(struct maker *m, enum qc_dtype t, float scale, int32_t zero)
{
    char name[16];
    const struct qc_qparams def =
        FIELDS(.name = qc_text(name, sizeof name, "s%u", m->quantizers++), .dtype = t, .is_weight = t == QC_I8);
    qc_id s = qc_graph_add_quantizer(m->g, &def, &m->st);
    cr_assert(s && qc_graph_bind_quantizer(m->g, s, 1, &scale, &zero, &m->st));
    if (pick(m, 4) == 0) qc_graph_turn_off_quantizer(m->g, s);
    return s;
}

static qc_id one(struct maker *m, enum qc_op op, qc_id x, qc_id qparams)
{
    return add(m, op, 1, &x, 0, NULL, qparams);
}

/* q -> conv -> [relu] -> requantize -> [clip | transpose] -> dq, qparams bound or off. */
static qc_id quantized(struct maker *m, qc_id x)
{
    const int64_t c = shape_of(m, x)->dim[1], o = 1 + pick(m, 5);
    const struct qc_shape ws = QC_SHAPE(o, c, 3, 3), bs = QC_SHAPE(o);
    const qc_id sx = quantizer(m, QC_U8, 0.5f, 128), sw = quantizer(m, QC_I8, 1.0f, 0),
                product = qc_graph_add_product(m->g, sx, sw, &m->st);
    const qc_id b = pick(m, 2) ? one(m, QC_OP_Quantize, weights(m, &bs, 9), product) : 0;
    qc_id v = conv(m, one(m, QC_OP_Quantize, x, sx), one(m, QC_OP_Quantize, weights(m, &ws, 2), sw), b, 3, 1, product);
    if (pick(m, 2)) v = one(m, QC_OP_Relu, v, 0);
    if (pick(m, 3) == 0) return clip(m, one(m, QC_OP_Dequantize, v, 0), 9);
    v = one(m, QC_OP_Requantize, v, quantizer(m, QC_U8, 2.0f, (int32_t)pick(m, 256)));
    if (pick(m, 2)) v = clip(m, v, 8);
    if (pick(m, 2)) v = one(m, QC_OP_Transpose, v, 0);
    if (pick(m, 2)) v = one(m, QC_OP_Transpose, v, 0);
    v = one(m, QC_OP_Dequantize, v, 0);
    return clip(m, v, 9);
}

static void grow(struct maker *m)
{
    const qc_id x = any(m), y = any(m);
    const struct qc_shape own = *shape_of(m, x), *s = &own; /* the graph's may move */
    const int64_t c = s->dim[1], n = s->dim[0];
    const size_t count = qc_shape_elements(s);
    if (n > 8 || c > 16 || count > 20000 || count == 0) return;
    switch (pick(m, 15)) {
    case 0:
    case 1: {
        const int64_t k = pick(m, 2) ? 3 : 1, o = 1 + pick(m, 6);
        const struct qc_shape ws = QC_SHAPE(o, c, k, k), bs = QC_SHAPE(o);
        qc_id v = conv(m, x, weights(m, &ws, 2), pick(m, 2) ? weights(m, &bs, 5) : 0, k, 1, 0);
        if (pick(m, 3) == 0 && qc_shape_equal(shape_of(m, v), shape_of(m, y)))
            v = add(m, QC_OP_Add, 2, (const qc_id[]){v, y}, 0, NULL, 0);
        if (pick(m, 2)) v = one(m, QC_OP_Relu, v, 0);
        if (pick(m, 4) == 0) keep(m, clip(m, one(m, QC_OP_Abs, v, 0), 9)); /* wanted twice: not to be fused away */
        keep(m, clip(m, v, 9));
        return;
    }
    case 2: { /* residual */
        const struct qc_shape ws = QC_SHAPE(c, c, 3, 3);
        const qc_id v = conv(m, x, weights(m, &ws, 1), 0, 3, 1, 0);
        keep(m,
             one(m, QC_OP_Relu,
                 clip(m, add(m, QC_OP_Add, 2, pick(m, 2) ? (const qc_id[]){v, x} : (const qc_id[]){x, v}, 0, NULL, 0),
                      9),
                 0));
        return;
    }
    case 3: { /* depthwise */
        const struct qc_shape ws = QC_SHAPE(c, 1, 3, 3);
        keep(m, clip(m, conv(m, x, weights(m, &ws, 2), 0, 3, c, 0), 9));
        return;
    }
    case 4:
        if (qc_shape_equal(s, shape_of(m, y)))
            keep(m, clip(m, add(m, QC_OP_Add, 2, (const qc_id[]){x, y}, 0, NULL, 0), 9));
        return;
    case 5: {
        static const int64_t perms[][4] = {{0, 2, 3, 1}, {0, 3, 1, 2}, {0, 1, 3, 2}};
        const struct qc_attr attr = QC_INTS("perm", 4, perms[pick(m, 3)]);
        keep(m, add(m, QC_OP_Transpose, 1, &x, 1, &attr, 0));
        return;
    }
    case 6: {
        const int64_t axis = 1 + pick(m, 3), d = s->dim[axis];
        if (d < 3) return;
        const bool back = pick(m, 4) == 0;
        const int64_t start = back ? -1 : pick(m, 2), end = back ? INT64_MIN : d, step = back ? -1 : 1 + pick(m, 2);
        const qc_id in[] = {x, ints(m, 1, &start), ints(m, 1, &end), ints(m, 1, &axis), ints(m, 1, &step)};
        keep(m, add(m, QC_OP_Slice, 5, in, 0, NULL, 0));
        return;
    }
    case 7:
        if (shape_of(m, y)->dim[2] == s->dim[2] && shape_of(m, y)->dim[3] == s->dim[3]) {
            const struct qc_attr attr = QC_INT("axis", 1);
            keep(m, add(m, QC_OP_Concat, 2, (const qc_id[]){x, y}, 1, &attr, 0));
        }
        return;
    case 8: { /* there and back through a matrix */
        const int64_t flat[] = {n, (int64_t)(count / (size_t)n)};
        const qc_id two = add(m, QC_OP_Reshape, 2, (const qc_id[]){x, ints(m, 2, flat)}, 0, NULL, 0);
        const qc_id v = one(m, QC_OP_Relu, two, 0);
        keep(m, add(m, QC_OP_Reshape, 2, (const qc_id[]){v, ints(m, 4, s->dim)}, 0, NULL, 0));
        return;
    }
    case 9: {
        const int64_t pads[] = {0, pick(m, 2), 1, 0, 0, 0, pick(m, 2), 1};
        keep(m, add(m, QC_OP_Pad, 2, (const qc_id[]){x, ints(m, 8, pads)}, 0, NULL, 0));
        return;
    }
    case 10: {
        static const int64_t k[] = {2, 2};
        const struct qc_attr attr[] = {QC_INTS("kernel_shape", 2, k), QC_INTS("strides", 2, k)};
        if (s->dim[2] > 3 && s->dim[3] > 3) keep(m, add(m, QC_OP_MaxPool, 1, &x, 2, attr, 0));
        return;
    }
    case 11: {
        const struct qc_node_def d = FIELDS(.op = QC_OP_Split, .input_count = 1, .output_count = 2, .inputs = &x,
                                            .attr_count = 1, .attrs = &QC_INT("axis", 1));
        if (c % 2) return;
        const qc_id v = qc_graph_add(m->g, &d, &m->st);
        cr_assert(v, "%s", m->st.message);
        keep(m, v);
        keep(m, v + 1);
        return;
    }
    case 12: { /* a row and a column of constants */
        const struct qc_shape row = QC_SHAPE(1, c, 1, 1);
        const struct qc_shape full = *s;
        keep(m, clip(m, add(m, QC_OP_Add, 2, (const qc_id[]){weights(m, pick(m, 2) ? &row : &full, 4), x}, 0, NULL, 0),
                     9));
        return;
    }
    case 13: { /* products of matrices that lie in any order */
        static const int64_t perms[][4] = {{0, 1, 3, 2}, {0, 2, 3, 1}, {0, 3, 2, 1}};
        const struct qc_attr turn = QC_INTS("perm", 4, perms[0]), order = QC_INTS("perm", 4, perms[pick(m, 3)]);
        const qc_id left = pick(m, 2) ? x : add(m, QC_OP_Transpose, 1, &x, 1, &order, 0);
        const qc_id right = add(m, QC_OP_Transpose, 1, &left, 1, &turn, 0);
        keep(m, clip(m, add(m, QC_OP_MatMul, 2, (const qc_id[]){left, right}, 0, NULL, 0), 9));
        return;
    }
    default: keep(m, quantized(m, x)); return;
    }
}

static struct qc_graph *random_graph(uint64_t seed)
{
    struct maker m = {.st = QC_STATUS_INIT, .state = seed};
    m.g = qc_graph_new(&m.st);
    m.g->simulated = true;
    const struct qc_shape a = QC_SHAPE(1, 3, 8, 6), b = QC_SHAPE(1, 4, 8, 8);
    keep(&m, qc_graph_add_input(m.g, "a", QC_F32, &a, &m.st));
    keep(&m, qc_graph_add_input(m.g, "b", QC_F32, &b, &m.st));
    for (int i = 0; i < 25; i++) grow(&m);
    for (size_t i = 0; i < 3; i++) {
        char name[16];
        cr_assert(qc_graph_add_output(m.g, qc_text(name, sizeof name, "y%zu", i), m.values[m.count - 1 - i % m.count],
                                      &m.st));
    }
    return m.g;
}

/* Each node alone. */
static struct qc_tensor **reference(const struct qc_graph *g, struct qc_tensor *const inputs[])
{
    struct qc_tensor **value = calloc(g->value_count + 1, sizeof *value);
    QC_ARENA_SCOPE *a = qc_arena_new();
    for (size_t i = 0; i < g->input_count; i++) value[g->inputs[i].value] = qc_tensor_ref(inputs[i]);
    for (size_t v = 1; v <= g->value_count; v++)
        if (g->values[v].constant) value[v] = qc_tensor_ref(g->values[v].constant);
    for (size_t k = 1; k <= g->node_count; k++) {
        const struct qc_node *n = &g->nodes[k];
        struct qc_view in[8];
        for (unsigned i = 0; i < n->input_count; i++)
            in[i] = n->inputs[i] ? qc_view_of_tensor(value[n->inputs[i]]) : QC_VIEW_ABSENT;
        MUST(qc_evaluate_views(&value[n->outputs], g, n, in, ST));
    }
    return value;
}

struct watch {
    const struct qc_graph *g;
    struct qc_tensor **want;
    const qc_id *observed;
    unsigned *seen;
};

static bool equal(const struct qc_view *got, const struct qc_tensor *want)
{
    OWN(qc_tensor) *t = qc_tensor_new(got->dtype, &want->shape, &(struct qc_status){0});
    const struct qc_view row = qc_view_of_tensor(t);
    const struct qc_shape shape = qc_shape_of(got->rank, got->dim);
    bool same = got->dtype == want->dtype && qc_shape_equal(&shape, &want->shape);
    if (same) qc_view_copy(&row, got);
    for (size_t i = 0; same && i < t->count; i++) same = ((float *)t->data)[i] == ((const float *)want->data)[i];
    return same;
}

static bool watch(void *user, size_t index, const struct qc_view *v, struct qc_status *st)
{
    struct watch *w = user;
    char label[QC_LABEL];
    w->seen[index]++;
    if (equal(v, w->want[w->observed[index]])) return true;
    return qc_fail(st, QC_DEMAND, "observed %s differs", qc_value_label(label, w->g, w->observed[index]));
}

static void print_plan(const struct qc_plan *p)
{
    QC_FREED char *text = plan_print(p, ST);
    fputs(text ? text : failure.message, stderr);
}

static void check(const struct qc_graph *g, uint64_t seed, unsigned every)
{
    struct qc_tensor *inputs[2];
    struct qc_shape shapes[2];
    struct qc_plan *p;
    struct qc_runner *r;
    uint64_t state = seed;
    for (size_t i = 0; i < 2; i++) {
        shapes[i] = g->values[g->inputs[i].value].type.shape;
        inputs[i] = qc_tensor_new(QC_F32, &shapes[i], ST);
        for (size_t k = 0; k < inputs[i]->count; k++) {
            state = state * UINT64_C(6364136223846793005) + 1;
            ((float *)inputs[i]->data)[k] = (float)((int64_t)((state >> 33) % 17) - 8);
        }
    }
    QC_FREED struct qc_tensor **want = reference(g, inputs);
    QC_FREED qc_id *observed = calloc(g->value_count + 1, sizeof *observed);
    QC_FREED unsigned *seen = calloc(g->value_count + 1, sizeof *seen);
    struct qc_plan_options o = {.observed = observed};
    for (size_t v = 1; every && v <= g->value_count; v++)
        if (v % every == 0 && g->values[v].type.dtype == QC_F32) observed[o.observed_count++] = (qc_id)v;
    cr_assert(qc_plan_new(&p, g, shapes, &o, ST), "seed %llu: %s", (unsigned long long)seed, failure.message);
    MUST(qc_runner_new(&r, p, ST));
    struct watch w = {.g = g, .want = want, .observed = observed, .seen = seen};
    for (unsigned round = 1; round <= 3; round++) {
        const bool whole = round != 2;
        for (size_t i = 0; i < 2; i++) memcpy(qc_runner_input(r, i).data, inputs[i]->data, inputs[i]->bytes);
        if (!(whole ? qc_runner_run : qc_runner_observe)(r, watch, &w, ST)) {
            print_plan(p);
            cr_assert_fail("seed %llu: %s", (unsigned long long)seed, failure.message);
        }
        for (size_t i = 0; i < o.observed_count; i++)
            cr_assert_eq(seen[i], round, "observed value %zu was reported %u times", i, seen[i]);
        for (size_t k = 0; whole && k < g->output_count; k++) {
            const struct qc_view y = qc_runner_output(r, k);
            cr_assert(qc_view_row_major(&y));
            if (equal(&y, want[g->outputs[k].value])) continue;
            print_plan(p);
            cr_assert_fail("seed %llu: output %zu differs", (unsigned long long)seed, k);
        }
    }
    qc_runner_free(r);
    qc_plan_free(p);
    for (size_t v = 0; v <= g->value_count; v++) qc_tensor_unref(want[v]);
    for (size_t i = 0; i < 2; i++) qc_tensor_unref(inputs[i]);
}

Test(plan, random_graphs_equal_node_by_node)
{
    for (uint64_t seed = 1; seed <= 150; seed++) {
        OWN(qc_graph) *g = random_graph(seed);
        check(g, seed, 0);
        check(g, seed, 1 + (unsigned)(seed % 5));
    }
}
