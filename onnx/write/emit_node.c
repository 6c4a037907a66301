// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>
#include <string.h>

#include "base/array.h"
#include "graph/core/body.h"
#include "graph/core/custom.h"
#include "graph/core/recurrent.h"
#include "graph/types/number_format.h"
#include "onnx/write/emitting.h"

/* RoundInBlocks as a call of a function in the file: "qcalib::mxfp4" for the format mxfp4. The body of the function has
   ONNX's operators alone and computes the same float32 numbers as the kernel (graph/types/number_format.h). Attributes
   of the call give the shapes: X as [outer, axis, inner], padded to whole blocks, then [outer, blocks, block, inner].
 */

/* Lines of a body: "result = Operator(operand, operand)". ToFloat, ToE4M3 and ToE5M2 are Casts. */
static const char *const begin[] = {"flat = Reshape(X, flat_shape)",
                                    "padded = Pad(flat, padding)",
                                    "blocks = Reshape(padded, block_shape)",
                                    "magnitude = Abs(blocks)",
                                    "most = ReduceMax(magnitude, two)",
                                    "largest = Clip(most, least, greatest)",
                                    NULL};
static const char *const of_block[] = {"reach = Mul(largest, factor)", NULL};
static const char *const of_row[] = {"row = ReduceMax(largest, one)", "row_unit = Div(row, highest)",
                                     "reach = Mul(row_unit, factor)", NULL};
/* The largest power of two up to `reach`, in units of `top`. A logarithm may be inexact: its result is corrected. */
static const char *const power[] = {"log = Log(reach)",
                                    "log_2 = Mul(log, per_octave)",
                                    "octave = Floor(log_2)",
                                    "guess = Pow(double, octave)",
                                    "above = Greater(guess, reach)",
                                    "halved = Mul(guess, half)",
                                    "lower = Where(above, halved, guess)",
                                    "doubled = Mul(lower, double)",
                                    "below = LessOrEqual(doubled, reach)",
                                    "power = Where(below, doubled, lower)",
                                    "unit = Div(power, top)",
                                    NULL};
static const char *const is_unit[] = {"scale = Identity(unit)", NULL};
static const char *const codes[] = {"level_unit = Div(largest, highest)",
                                    "code = Div(level_unit, unit)",
                                    "code_8 = ToE4M3(code)",
                                    "code_32 = ToFloat(code_8)",
                                    "positive = Max(code_32, smallest)",
                                    "scale = Mul(positive, unit)",
                                    NULL};
static const char *const divide[] = {"real = Div(blocks, scale)", "level = Clip(real, lowest, highest)", NULL};
static const char *const e4m3[] = {"stored = ToE4M3(level)", "rounded = ToFloat(stored)", NULL};
/* Levels with the mantissa of E5M2, whose least normal number is smaller than theirs, or the same. */
static const char *const e5m2[] = {"distance = Abs(level)",
                                   "is_normal = GreaterOrEqual(distance, first)",
                                   "stored = ToE5M2(level)",
                                   "normal = ToFloat(stored)",
                                   "steps = Div(level, small_step)",
                                   "whole = Round(steps)",
                                   "small = Mul(whole, small_step)",
                                   "rounded = Where(is_normal, normal, small)",
                                   NULL};
static const char *const integers[] = {"rounded = Round(level)", NULL};
/* Floating-point levels of three octaves. */
static const char *const octaves[] = {"distance = Abs(level)",
                                      "in_second = GreaterOrEqual(distance, second)",
                                      "in_third = GreaterOrEqual(distance, third)",
                                      "step_2 = Where(in_second, larger_step, small_step)",
                                      "step = Where(in_third, largest_step, step_2)",
                                      "steps = Div(level, step)",
                                      "whole = Round(steps)",
                                      "rounded = Mul(whole, step)",
                                      NULL};
static const char *const end[] = {"value = Mul(rounded, scale)",
                                  "joined = Reshape(value, padded_shape)",
                                  "cut = Slice(joined, zero, length, one)",
                                  "shape = Shape(X)",
                                  "Y = Reshape(cut, shape)",
                                  NULL};

static const char *const attributes[] = {"axis", "flat_shape", "padding", "block_shape", "padded_shape", "length"};
enum { ATTRIBUTES = sizeof attributes / sizeof *attributes, LINE = 96 };

static Onnx__AttributeProto *attribute(struct qc_emitter *e, struct qc_emit_list *to, const char *name,
                                       enum qc_attr_kind kind)
{
    QC_EMIT_NEW(p, e, Onnx__AttributeProto, onnx__attribute_proto__init);
    p->name = qc_emit_text(name);
    p->has_type = 1;
    p->type = qc_proto_attr_types[kind];
    qc_emit_append(e, to, p);
    return p;
}

static void put_ints(struct qc_emitter *e, struct qc_emit_list *to, const char *name, size_t count, const int64_t *v)
{
    Onnx__AttributeProto *p = attribute(e, to, name, QC_ATTR_INTS);
    p->ints = qc_arena_dup(e->arena, v, count, sizeof *v, e->st);
    p->n_ints = count;
}

static void put_int(struct qc_emitter *e, struct qc_emit_list *to, const char *name, int64_t v)
{
    Onnx__AttributeProto *p = attribute(e, to, name, QC_ATTR_INT);
    p->has_i = 1;
    p->i = v;
}

/* Adds a node from a copy of a line, which it keeps. attrs: its attributes so far. */
static void put_line(struct qc_emitter *e, struct qc_emit_list *nodes, const char *line, struct qc_emit_list *attrs)
{
    static const struct {
        const char *name;
        int64_t type;
    } casts[] = {{"ToFloat", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT}, {"ToE4M3", 17}, {"ToE5M2", 19}};
    QC_EMIT_NEW(p, e, Onnx__NodeProto, onnx__node_proto__init);
    char *s = qc_arena_strdup(e->arena, line, e->st), **words = QC_NEW_ARRAY(e->arena, char *, LINE, e->st);
    size_t count = 0;
    if (!s || !words) return;
    while (*(s += strcspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"))) {
        words[count++] = s;
        while (isalnum((unsigned char)*s) || *s == '_') s++;
        if (*s) *s++ = 0;
    }
    p->output = words;
    p->n_output = 1;
    p->op_type = words[1];
    p->input = words + 2;
    p->n_input = count - 2;
    for (size_t i = 0; i < sizeof casts / sizeof *casts; i++) {
        if (strcmp(p->op_type, casts[i].name) != 0) continue;
        p->op_type = qc_emit_text("Cast");
        put_int(e, attrs, "to", casts[i].type);
    }
    p->n_attribute = attrs->count;
    p->attribute = (Onnx__AttributeProto **)attrs->items;
    qc_emit_append(e, nodes, p);
}

/* Returns the lines that round to the levels of a format. */
static const char *const *rounding_of(const struct qc_number_format *f)
{
    const struct qc_levels *l = &f->levels, of_type = qc_levels_of(f->dtype, false);
    if (!l->mantissa) return integers;
    if (l->mantissa == qc_levels_of(QC_F8E5M2, false).mantissa) return e5m2;
    return f->dtype == QC_F8E4M3 && l->mantissa == of_type.mantissa ? e4m3 : octaves;
}

/* The constants of a body. */
static void put_constants(struct qc_emitter *e, struct qc_emit_list *nodes, const struct qc_number_format *f)
{
    const struct qc_levels *l = &f->levels, codes_of = QC_SCALE_LEVELS;
    const struct qc_power_scale p = qc_power_scale_of(f->scale == QC_SCALE_FLOAT8 ? codes_of : *l);
    const float first = ldexpf(1, l->least), step = ldexpf(1, l->least - l->mantissa);
    const struct {
        const char *line;
        float v;
    } numbers[] = {{"least = Constant()", QC_BLOCK_LEAST},
                   {"greatest = Constant()", QC_BLOCK_MOST},
                   {"factor = Constant()", p.factor},
                   {"top = Constant()", p.top},
                   {"per_octave = Constant()", 1.44269504F},
                   {"double = Constant()", 2},
                   {"half = Constant()", 0.5F},
                   {"lowest = Constant()", (float)l->lo},
                   {"highest = Constant()", (float)l->hi},
                   {"smallest = Constant()", ldexpf(1, codes_of.least - codes_of.mantissa)},
                   {"first = Constant()", first},
                   {"second = Constant()", 2 * first},
                   {"third = Constant()", 4 * first},
                   {"small_step = Constant()", step},
                   {"larger_step = Constant()", 2 * step},
                   {"largest_step = Constant()", 4 * step}};
    static const char *const indices[] = {"zero = Constant()", "one = Constant()", "two = Constant()"};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct qc_emit_list attrs = {.count = 0};
        Onnx__AttributeProto *a = attribute(e, &attrs, "value_float", QC_ATTR_FLOAT);
        a->has_f = 1;
        a->f = numbers[i].v;
        put_line(e, nodes, numbers[i].line, &attrs);
    }
    for (int64_t i = 0; i < 3; i++) {
        struct qc_emit_list attrs = {.count = 0};
        put_ints(e, &attrs, "value_ints", 1, &i);
        put_line(e, nodes, indices[i], &attrs);
    }
    for (size_t i = 1; i < ATTRIBUTES; i++) {
        struct qc_emit_list attrs = {.count = 0};
        Onnx__AttributeProto *a = attribute(e, &attrs, "value_ints", QC_ATTR_INTS);
        char line[LINE];
        a->ref_attr_name = qc_emit_text(attributes[i]);
        put_line(e, nodes, qc_text(line, sizeof line, "%s = Constant()", attributes[i]), &attrs);
    }
}

/* Adds the function of a format to the model unless it is there. */
static void put_function(struct qc_emitter *e, const struct qc_number_format *f)
{
    static char x[] = "X", y[] = "Y", *in[] = {x}, *out[] = {y};
    struct qc_emit_list nodes = {.count = 0};
    while (e->outer) e = (struct qc_emitter *)(uintptr_t)e->outer;
    for (size_t i = 0; i < e->functions.count; i++)
        if (strcmp(((Onnx__FunctionProto *)e->functions.items[i])->name, f->name) == 0) return;
    QC_EMIT_NEW(p, e, Onnx__FunctionProto, onnx__function_proto__init);
    Onnx__OperatorSetIdProto **opset = QC_NEW(e->arena, Onnx__OperatorSetIdProto *, e->st);
    const bool coded = f->scale == QC_SCALE_FLOAT8;
    const char *const *parts[] = {begin,  coded ? of_row : of_block,
                                  power,  coded ? codes : is_unit,
                                  divide, rounding_of(f),
                                  end};
    put_constants(e, &nodes, f);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        for (const char *const *line = parts[i]; *line; line++) {
            struct qc_emit_list attrs = {.count = 0};
            put_line(e, &nodes, *line, &attrs);
        }
    qc_emit_domain(e, QC_EMIT_OWN_DOMAIN, 1);
    if (!opset || e->st->code != QC_OK) return;
    *opset = e->domains.items[0];
    p->name = qc_emit_text(f->name);
    p->domain = qc_emit_text(QC_EMIT_OWN_DOMAIN);
    p->doc_string = qc_emit_text(f->summary);
    p->n_input = p->n_output = 1;
    p->input = in;
    p->output = out;
    p->n_attribute = ATTRIBUTES;
    p->attribute = (char **)(uintptr_t)attributes;
    p->n_node = nodes.count;
    p->node = (Onnx__NodeProto **)nodes.items;
    p->n_opset_import = 1;
    p->opset_import = opset;
    qc_emit_append(e, &e->functions, p);
}

static void emit_blocks(Onnx__NodeProto *p, struct qc_emitter *e, const struct qc_node *n)
{
    const struct qc_number_format *f = qc_number_format_named(qc_attr_string(n, "format", ""));
    const int64_t axis = qc_attr_int(n, "axis", -1), last = axis == -1, k = qc_attr_find(n, "length")->ints[0];
    if (!last && axis != 1)
        qc_fail(e->st, QC_UNSUPPORTED, "values in blocks along axis %d cannot be written", (int)axis);
    const int64_t count = (k + f->block - 1) / f->block, outer = last ? -1 : 0, inner = last ? 1 : -1;
    const int64_t flat[] = {outer, k, inner}, padding[] = {0, 0, 0, 0, count * f->block - k, 0},
                  blocks[] = {outer, count, f->block, inner}, padded[] = {outer, count * f->block, inner};
    struct qc_emit_list attrs = {.count = 0};
    put_function(e, f);
    put_int(e, &attrs, attributes[0], axis);
    put_ints(e, &attrs, attributes[1], 3, flat);
    put_ints(e, &attrs, attributes[2], 6, padding);
    put_ints(e, &attrs, attributes[3], 4, blocks);
    put_ints(e, &attrs, attributes[4], 3, padded);
    put_ints(e, &attrs, attributes[5], 1, &k);
    p->op_type = qc_emit_text(f->name);
    p->domain = qc_emit_text(QC_EMIT_OWN_DOMAIN);
    p->n_attribute = attrs.count;
    p->attribute = (Onnx__AttributeProto **)attrs.items;
}

void *qc_emit_new(struct qc_emitter *e, size_t size)
{
    void *p = qc_arena_get(e->arena, 1, size, e->st);
    return p ? p : e->spare;
}

void qc_emit_append(struct qc_emitter *e, struct qc_emit_list *to, void *item)
{
    void **items = qc_arena_grown(e->arena, to->items, to->count, &to->capacity, sizeof *items, e->st);
    if (!items) return;
    to->items = items;
    to->items[to->count++] = item;
}

/* Domains belong to the whole model, not to a body. */
void qc_emit_domain(struct qc_emitter *e, const char *domain, int64_t version)
{
    while (e->outer) e = e->outer;
    for (size_t i = 0; i < e->domains.count; i++)
        if (strcmp(((Onnx__OperatorSetIdProto *)e->domains.items[i])->domain, domain) == 0) return;
    QC_EMIT_NEW(p, e, Onnx__OperatorSetIdProto, onnx__operator_set_id_proto__init);
    p->domain = qc_emit_text(domain);
    p->has_version = 1;
    p->version = version;
    qc_emit_append(e, &e->domains, p);
}

Onnx__TensorProto *qc_emit_tensor(struct qc_emitter *e, const char *name, const struct qc_tensor *t)
{
    QC_EMIT_NEW(p, e, Onnx__TensorProto, onnx__tensor_proto__init);
    p->name = qc_emit_text(name);
    p->has_data_type = 1;
    p->data_type = qc_dtype_info(t->dtype)->onnx;
    p->n_dims = (size_t)t->shape.rank;
    p->dims = qc_arena_dup(e->arena, t->shape.dim, p->n_dims, sizeof *p->dims, e->st);
    p->has_raw_data = 1;
    p->raw_data.len = t->bytes;
    p->raw_data.data = t->data;
    const unsigned bits = qc_dtype_info(t->dtype)->bits;
    if (bits < 8) {
        const unsigned each = 8 / bits;
        p->raw_data.len = t->count / each + (t->count % each != 0);
        /* Two or four elements are packed into a byte, the first in the lowest bits. */
        uint8_t *packed = QC_NEW_ARRAY(e->arena, uint8_t, p->raw_data.len + 1, e->st);
        for (size_t i = 0; packed && i < t->count; i++)
            packed[i / each] |= (uint8_t)((((const uint8_t *)t->data)[i] & ((1U << bits) - 1)) << (i % each * bits));
        p->raw_data.data = packed;
    }
    return p;
}

static Onnx__GraphProto *emit_body(struct qc_emitter *outer, const struct qc_node *n, const struct qc_graph *body);

static void emit_attr(struct qc_emitter *e, struct qc_emit_list *to, const struct qc_node *n, const struct qc_attr *a)
{
    Onnx__AttributeProto *p = attribute(e, to, a->name, a->kind);
    switch (a->kind) {
    case QC_ATTR_INT:
        p->has_i = 1;
        p->i = a->i;
        break;
    case QC_ATTR_FLOAT:
        p->has_f = 1;
        p->f = a->f;
        break;
    case QC_ATTR_STRING:
        p->has_s = 1;
        p->s.len = strlen(a->s);
        p->s.data = (uint8_t *)qc_emit_text(a->s);
        break;
    case QC_ATTR_INTS:
        p->n_ints = a->count;
        p->ints = (int64_t *)(uintptr_t)a->ints;
        break;
    case QC_ATTR_FLOATS:
        p->n_floats = a->count;
        p->floats = (float *)(uintptr_t)a->floats;
        break;
    case QC_ATTR_STRINGS:
        p->strings = QC_NEW_ARRAY(e->arena, ProtobufCBinaryData, a->count, e->st);
        for (p->n_strings = 0; p->strings && p->n_strings < a->count; p->n_strings++) {
            ProtobufCBinaryData *s = &p->strings[p->n_strings];
            s->len = strlen(a->strings[p->n_strings]);
            s->data = (uint8_t *)qc_emit_text(a->strings[p->n_strings]);
        }
        break;
    case QC_ATTR_TENSOR: p->t = qc_emit_tensor(e, NULL, a->tensor); break;
    case QC_ATTR_GRAPH: p->g = emit_body(e, n, a->graph); break;
    }
}

/* --- Conversion from the canonical form to the opset --- */

static void emit_attrs(struct qc_emitter *e, struct qc_emit_list *to, const struct qc_node *n, const char *skip)
{
    if (n->op == QC_OP_Conv || n->op == QC_OP_ConvTranspose || n->op == QC_OP_QLinearConv ||
        n->op == QC_OP_ConvInteger) {
        /* The import drops it, but other readers of ONNX files expect it. */
        const struct qc_shape *s = &e->g->values[n->inputs[n->op == QC_OP_QLinearConv ? 3 : 1]].type.shape;
        const struct qc_attr kernel = QC_INTS("kernel_shape", s->rank > 2 ? (size_t)s->rank - 2 : 0, s->dim + 2);
        if (s->rank > 2 && qc_shape_fixed(s) && !qc_attr_find(n, "kernel_shape")) emit_attr(e, to, n, &kernel);
    }
    if (n->op == QC_OP_Split && e->opset >= 18 && (n->input_count < 2 || !n->inputs[1])) {
        const struct qc_attr parts = QC_INT("num_outputs", n->output_count);
        emit_attr(e, to, n, &parts);
    }
    for (unsigned i = 0; i < n->attr_count; i++)
        if ((!skip || strcmp(n->attrs[i].name, skip) != 0) && !qc_custom_is_own(&n->attrs[i]) &&
            !(n->op == QC_OP_LSTM && strcmp(n->attrs[i].name, QC_RECURRENT_DYNAMIC) == 0))
            emit_attr(e, to, n, &n->attrs[i]);
}

void qc_emit_node(struct qc_emitter *e, const struct qc_node *n)
{
    const bool reduces = strncmp(qc_op_info(n->op)->onnx, "Reduce", 6) == 0,
               axes_are_input = reduces && (e->opset >= 18 || n->op == QC_OP_ReduceSum);
    const struct qc_attr *axes = axes_are_input ? qc_attr_find(n, "axes") : NULL;
    struct qc_emit_list attrs = {.count = 0};
    QC_EMIT_NEW(p, e, Onnx__NodeProto, onnx__node_proto__init);
    p->name = qc_emit_text(qc_emit_node_name(e, n->name));
    if (e->node_docs) p->doc_string = qc_emit_text(e->node_docs[n - e->g->nodes]);
    char name[QC_ONNX_NAME];
    const char *domain, *op = qc_op_onnx_name(&domain, name, n->op);
    p->op_type = qc_arena_strdup(e->arena, op, e->st);
    if (*domain) p->domain = qc_arena_strdup(e->arena, domain, e->st);
    if (n->op == QC_OP_Custom) {
        p->op_type = qc_emit_text(qc_attr_string(n, QC_CUSTOM_OP, ""));
        p->domain = qc_emit_text(qc_attr_string(n, QC_CUSTOM_DOMAIN, ""));
        if (*p->domain) qc_emit_domain(e, p->domain, qc_attr_int(n, QC_CUSTOM_VERSION, 1));
    } else if (*domain && p->domain) {
        /* The domain follows those of carried operators, which have versions. */
        struct qc_emitter *top = e;
        while (top->outer) top = top->outer;
        bool listed = false;
        for (size_t i = 0; i < top->op_domains.count; i++)
            listed = listed || strcmp(top->op_domains.items[i], p->domain) == 0;
        if (!listed) qc_emit_append(top, &top->op_domains, p->domain);
    }
    p->n_input = n->input_count - qc_captures_of(n);
    p->input = QC_NEW_ARRAY(e->arena, char *, p->n_input + 1, e->st);
    p->n_output = n->output_count;
    p->output = QC_NEW_ARRAY(e->arena, char *, p->n_output, e->st);
    if (!p->input || !p->output) return;
    for (size_t i = 0; i < p->n_input; i++) p->input[i] = qc_emit_text(n->inputs[i] ? e->names[n->inputs[i]] : "");
    for (unsigned i = 0; i < n->output_count; i++) p->output[i] = qc_emit_text(e->names[n->outputs + i]);
    if (axes) {
        const struct qc_tensor t = {.dtype = QC_I64,
                                    .shape = QC_SHAPE((int64_t)axes->count),
                                    .count = axes->count,
                                    .bytes = axes->count * sizeof *axes->ints,
                                    .data = (void *)(uintptr_t)axes->ints};
        Onnx__TensorProto *input = qc_emit_tensor(e, qc_emit_fresh_name(e, e->names[n->outputs], "axes"), &t);
        qc_emit_initializer(e, input);
        p->input[p->n_input++] = input->name;
    }
    if (n->op == QC_OP_RoundInBlocks) {
        emit_blocks(p, e, n);
    } else {
        emit_attrs(e, &attrs, n, axes ? "axes" : qc_op_has_bodies(n->op) ? "captures" : NULL);
        p->n_attribute = attrs.count;
        p->attribute = (Onnx__AttributeProto **)attrs.items;
    }
    qc_emit_append(e, &e->nodes, p);
}

Onnx__NodeProto *qc_emit_unary(struct qc_emitter *e, const char *op, const char *from, const char *to)
{
    QC_EMIT_NEW(p, e, Onnx__NodeProto, onnx__node_proto__init);
    char **ends = QC_NEW_ARRAY(e->arena, char *, 2, e->st);
    if (!ends) return p;
    ends[0] = qc_emit_text(from);
    ends[1] = qc_emit_text(to);
    p->op_type = qc_emit_text(op);
    p->n_input = p->n_output = 1;
    p->input = &ends[0];
    p->output = &ends[1];
    qc_emit_append(e, &e->nodes, p);
    return p;
}

void qc_emit_copy(struct qc_emitter *e, const char *from, const char *to, int rank)
{
    Onnx__NodeProto *p = qc_emit_unary(e, "Transpose", from, to);
    struct qc_emit_list attrs = {.count = 0};
    int64_t order[QC_RANK_MAX];
    for (int i = 0; i < rank; i++) order[i] = i;
    put_ints(e, &attrs, "perm", (size_t)rank, order);
    p->n_attribute = attrs.count;
    p->attribute = (Onnx__AttributeProto **)attrs.items;
}

/* QC_BODY_DEPTH_MAX bounds the recursion. */
static Onnx__GraphProto *emit_body(struct qc_emitter *outer, const struct qc_node *n, const struct qc_graph *body)
{
    QC_EMIT_NEW(p, outer, Onnx__GraphProto, onnx__graph_proto__init);
    struct qc_emitter e = {.arena = outer->arena,
                           .st = outer->st,
                           .spare = outer->spare,
                           .g = body,
                           .outer = outer,
                           .opset = outer->opset,
                           .tensors = outer->tensors,
                           .captured = QC_NEW_ARRAY(outer->arena, const char *, body->input_count, outer->st)};
    const size_t captures = qc_captures_of(n);
    if (!e.captured) return p;
    for (size_t k = 0; k < captures; k++)
        e.captured[body->input_count - captures + k] = outer->names[n->inputs[n->input_count - captures + k]];
    qc_emit_mark_used(&e);
    qc_emit_assign_names(&e);
    qc_emit_graph(p, &e, NULL);
    return p;
}
