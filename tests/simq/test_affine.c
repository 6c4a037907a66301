// SPDX-License-Identifier: Apache-2.0
/* Ops on affine values against ONNX Runtime's integer kernels (golden_affine.txt, made by make_golden_affine.py): bit
 * for bit. */
#include "base/file.h"
#include "simq/plan/plan.h"
#include "tests/check.h"

enum { PORTS = 4, ATTRS = 8, INTS = 8 };

struct port {
    char kind; /* i, w, b, o */
    int axis;
    size_t scale_count, count;
    float *scale;
    int32_t zero;
    struct qc_shape shape;
    int64_t *q;
};

struct golden {
    char op[32], name[64];
    unsigned attr_count, port_count;
    char attr_name[ATTRS][32];
    int64_t ints[ATTRS][INTS];
    struct qc_attr attrs[ATTRS];
    struct port ports[PORTS];
};

/* "1,2,3" or "-": numbers; *count is set. */
static int64_t *read_ints(char *text, size_t *count, struct qc_arena *a, struct qc_status *st)
{
    size_t n = 0;
    for (char *p = text; *p; p++) n += *p == ',';
    int64_t *v = QC_NEW_ARRAY(a, int64_t, n + 1, st);
    *count = 0;
    if (strcmp(text, "-") == 0) return v;
    for (char *p = text; *p;) {
        v[(*count)++] = strtoll(p, &p, 10);
        if (*p == ',') p++;
    }
    return v;
}

static void read_port(struct golden *c, char *line, struct qc_arena *a, struct qc_status *st)
{
    struct port *p = &c->ports[c->port_count++];
    char *save, *kind = strtok_r(line, " ", &save), *axis = strtok_r(NULL, " ", &save),
                *scales = strtok_r(NULL, " ", &save);
    char *zero = strtok_r(NULL, " ", &save), *dims = strtok_r(NULL, " ", &save), *values = strtok_r(NULL, " ", &save);
    size_t rank;
    p->kind = *kind;
    p->axis = atoi(axis);
    p->zero = atoi(zero);
    p->scale = QC_NEW_ARRAY(a, float, strlen(scales) + 1, st);
    for (char *s = scales; *s;) {
        p->scale[p->scale_count++] = strtof(s, &s);
        if (*s == ',') s++;
    }
    const int64_t *d = read_ints(dims, &rank, a, st);
    p->shape = qc_shape_of((int)rank, d);
    p->q = read_ints(values, &p->count, a, st);
    cr_assert_eq(p->count, qc_shape_elements(&p->shape), "%s", c->name);
}

static void read_case(struct golden *c, char *line)
{
    char *save, *word = strtok_r(line, " ", &save);
    *c = (struct golden){0};
    snprintf(c->op, sizeof c->op, "%s", strtok_r(NULL, " ", &save));
    snprintf(c->name, sizeof c->name, "%s", strtok_r(NULL, " ", &save));
    while ((word = strtok_r(NULL, " ", &save))) {
        char *value = strchr(word, '=');
        size_t n = 0;
        int64_t *ints = c->ints[c->attr_count];
        *value++ = '\0';
        snprintf(c->attr_name[c->attr_count], 32, "%s", word);
        while (*value) {
            ints[n++] = strtoll(value, &value, 10);
            if (*value == ',') value++;
        }
        const char *name = c->attr_name[c->attr_count];
        const bool one = strcmp(name, "group") == 0 || strcmp(name, "count_include_pad") == 0;
        c->attrs[c->attr_count++] = one ? QC_INT(name, ints[0]) : QC_INTS(name, n, ints);
    }
}

static qc_id add_quantizer(struct qc_graph *g, const struct port *p, const char *name, struct qc_status *st)
{
    int32_t zeros[64];
    const struct qc_qparams def = FIELDS(.name = name, .dtype = p->kind == 'w' ? QC_I8 : QC_U8,
                                         .is_weight = p->kind == 'w', .per_channel = p->scale_count > 1);
    qc_id s = qc_graph_add_quantizer(g, &def, st);
    for (size_t i = 0; i < p->scale_count; i++) zeros[i] = p->zero;
    cr_assert(s && qc_graph_bind_quantizer(g, s, p->scale_count, p->scale, zeros, st), "%s", st->message);
    return s;
}

static qc_id add_op(struct qc_graph *g, enum qc_op op, unsigned count, const qc_id *in, unsigned attr_count,
                    const struct qc_attr *attrs, qc_id qparams, int axis, struct qc_status *st)
{
    const struct qc_node_def d = FIELDS(.op = op, .input_count = count, .inputs = in, .attr_count = attr_count,
                                        .attrs = attrs, .qparams = qparams, .axis = axis);
    return qc_graph_add(g, &d, st);
}

/* Real numbers that quantize to exactly these integers. */
static float *real_of(const struct port *p, const float *scale, struct qc_arena *a, struct qc_status *st)
{
    float *x = QC_NEW_ARRAY(a, float, p->count, st);
    size_t inner = 1;
    for (int i = p->axis + 1; i < p->shape.rank; i++) inner *= (size_t)p->shape.dim[i];
    for (size_t i = 0; i < p->count; i++)
        x[i] = (float)(p->q[i] - p->zero) *
               scale[p->scale_count > 1 || p->kind == 'b' ? i / inner % (size_t)p->shape.dim[p->axis] : 0];
    return x;
}

static double element(const struct qc_view *v, size_t i)
{
    return v->dtype == QC_F32 ? (double)((const float *)v->data)[i] : (double)((const uint8_t *)v->data)[i];
}

static void check(struct golden *c, bool simulated, enum qc_isa isa, struct qc_arena *a)
{
    OWN(qc_graph) *g = qc_graph_new(ST);
    OWN(qc_plan) *plan = NULL;
    OWN(qc_runner) *r = NULL;
    qc_id in[PORTS], qparams[PORTS], product = 0, result;
    struct qc_shape shapes[PORTS];
    unsigned inputs = 0, ports = 0;
    float *data[PORTS];
    const struct port *out = &c->ports[c->port_count - 1];
    const struct qc_plan_options options = {.isa = isa};
    g->simulated = simulated;
    for (unsigned i = 0; i + 1 < c->port_count; i++, ports++) {
        const struct port *p = &c->ports[i];
        char name[16];
        const float *scale = p->scale;
        qc_text(name, sizeof name, "%c%u", p->kind, i);
        if (p->kind == 'b') {
            float *products = QC_NEW_ARRAY(a, float, p->count, ST);
            for (size_t k = 0; k < p->count; k++)
                products[k] = c->ports[0].scale[0] * c->ports[1].scale[c->ports[1].scale_count > 1 ? k : 0];
            product = qc_graph_add_product(g, qparams[0], qparams[1], ST);
            scale = products;
            qparams[i] = product;
        } else {
            qparams[i] = add_quantizer(g, p, name, ST);
        }
        const float *x = real_of(p, scale, a, ST);
        qc_id real;
        if (p->kind == 'i') {
            data[inputs] = (float *)(uintptr_t)x;
            shapes[inputs++] = p->shape;
            real = qc_graph_add_input(g, name, QC_F32, &p->shape, ST);
        } else {
            OWN(qc_tensor) *t = qc_tensor_of(QC_F32, &p->shape, x, ST);
            real = qc_graph_add_constant(g, name, t, ST);
        }
        in[i] = add_op(g, QC_OP_Quantize, 1, &real, 0, NULL, qparams[i], p->axis, ST);
        cr_assert(in[i], "%s: %s", c->name, failure.message);
    }
    const enum qc_op op = qc_op_from_name(c->op);
    const qc_id target = add_quantizer(g, out, "y", ST);
    const bool mac = qc_op_info(op)->affine == QC_AFFINE_PRODUCT;
    if (mac && !product) product = qc_graph_add_product(g, qparams[0], qparams[1], ST);
    result = add_op(g, op, ports, in, c->attr_count, c->attrs, mac ? product : target, 0, ST);
    if (mac && result) result = add_op(g, QC_OP_Requantize, 1, &result, 0, NULL, target, 0, ST);
    cr_assert(result && qc_graph_add_output(g, "y", result, ST), "%s: %s", c->name, failure.message);
    cr_assert(qc_plan_new(&plan, g, shapes, &options, ST), "%s: %s", c->name, failure.message);
    MUST(qc_runner_new(&r, plan, ST));
    for (unsigned i = 0; i < inputs; i++) {
        const struct qc_view v = qc_runner_input(r, i);
        memcpy(v.data, data[i], qc_view_count(&v) * sizeof(float));
    }
    MUST(qc_runner_run(r, NULL, NULL, ST));
    const struct qc_view y = qc_runner_output(r, 0);
    cr_assert_eq(qc_view_count(&y), out->count, "%s", c->name);
    cr_assert(y.dtype == (simulated ? QC_F32 : QC_U8));
    size_t wrong = 0, first = 0;
    for (size_t i = 0; i < out->count; i++)
        if (element(&y, i) != (double)out->q[i] && wrong++ == 0) first = i;
    cr_expect_eq(wrong, 0, "%s: %zu of %zu differ, first at %zu: %g, expected %lld", c->name, wrong, out->count, first,
                 element(&y, first), (long long)out->q[first]);
}

Test(affine, equals_onnx_runtime_bit_for_bit)
{
    void *data;
    size_t size, cases = 0;
    struct golden c;
    MUST(qc_file_read(&data, &size, QC_TEST_SOURCE "/tests/simq/golden_affine.txt", test_arena(), ST));
    char *save, *line = strtok_r(data, "\n", &save);
    for (; line; line = strtok_r(NULL, "\n", &save)) {
        if (strncmp(line, "case ", 5) == 0)
            read_case(&c, line);
        else
            read_port(&c, line, test_arena(), ST);
        if (c.port_count && c.ports[c.port_count - 1].kind == 'o') {
            check(&c, true, QC_ISA_BEST, test_arena());
            for (enum qc_isa i = QC_ISA_PLAIN; i < QC_ISA_COUNT; i++) check(&c, false, i, test_arena());
            cases++;
        }
    }
    cr_assert_eq(cases, 41);
}
