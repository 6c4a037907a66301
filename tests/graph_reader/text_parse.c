// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "graph/core/body.h"
#include "graph/core/tables.h"
#include "graph/core/verify.h"
#include "tests/graph_reader/graph_reader.h"
#include "tests/graph_reader/text_lex.h"

enum { INPUTS = 256, OUTPUTS = 64, ATTRS = 32 };

/* %label of the text and the id it got. */
struct label {
    uint32_t label;
    qc_id id;
};

/* What a quantizer observes may be defined after it: kept until the end. */
struct observed {
    qc_id quantizer;
    uint32_t label;
    size_t line;
};

struct parser {
    struct qc_lex x;
    struct qc_graph *g;
    struct label *labels; /* ascending */
    size_t label_count, label_capacity;
    struct observed *observed;
    size_t observed_count, observed_capacity;
    unsigned depth; /* of the body that is read */
};

static bool define(struct parser *p, uint32_t label, qc_id id, struct qc_status *st)
{
    if (p->label_count && label <= p->labels[p->label_count - 1].label)
        return qc_lex_fail(&p->x, st, "%%%u comes after %%%u; numbers must ascend", label,
                           p->labels[p->label_count - 1].label);
    if (!qc_grow((void **)&p->labels, &p->label_capacity, p->label_count, sizeof *p->labels, st)) return false;
    p->labels[p->label_count++] = (struct label){.label = label, .id = id};
    return true;
}

static qc_id find_label(const struct parser *p, uint32_t label)
{
    size_t low = 0, high = p->label_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (p->labels[middle].label < label)
            low = middle + 1;
        else
            high = middle;
    }
    return low < p->label_count && p->labels[low].label == label ? p->labels[low].id : 0;
}

static bool use_label(qc_id *out, struct parser *p, struct qc_status *st)
{
    uint32_t label;
    qc_lex_blanks(&p->x);
    struct qc_lex start = p->x;
    if (!qc_lex_label(&label, &p->x, '%', st)) return false;
    *out = find_label(p, label);
    return *out || qc_lex_fail(&start, st, "%%%u is not defined above", label);
}

/* Has a constant equal to one that is there a name of its own? Exported graphs have those. */
static bool is_apart(const struct qc_graph *g, qc_id id, const char *name)
{
    const char *is = g->values[id].name;
    return name && *name && is && strcmp(is, name) != 0 && !qc_graph_find_value(g, name);
}

static bool check_name(const struct parser *p, qc_id id, const char *name, struct qc_status *st)
{
    const char *is = p->g->values[id].name;
    if (!name || !*name || (is && strcmp(is, name) == 0)) return true;
    return qc_lex_fail(&p->x, st, "the name \"%s\" is taken, or the value is there already as \"%s\"", name,
                       is ? is : "");
}

static bool parse_symbols(struct parser *p, struct qc_port *port, int rank, struct qc_status *st)
{
    if (!qc_lex_try_word(&p->x, "symbols")) return true;
    for (int i = 0; i < rank; i++) {
        const char *s = NULL;
        if (i && !qc_lex_expect(&p->x, ',', st)) return false;
        if (!qc_lex_try(&p->x, '-') && !qc_lex_string(&s, &p->x, st)) return false;
        if (s && !(port->symbol[i] = qc_arena_strdup(p->g->arena, s, st))) return false;
    }
    return true;
}

/* input %1 "x" f32[N,3] symbols "batch",- */
static bool parse_input(struct parser *p, struct qc_status *st)
{
    uint32_t label;
    const char *name;
    enum qc_dtype dtype;
    struct qc_shape shape;
    if (!qc_lex_label(&label, &p->x, '%', st) || !qc_lex_string(&name, &p->x, st) ||
        !qc_lex_type(&dtype, &shape, &p->x, st))
        return false;
    qc_id id = qc_graph_add_input(p->g, name, dtype, &shape, st);
    return id && check_name(p, id, name, st) && define(p, label, id, st) &&
           parse_symbols(p, &p->g->inputs[p->g->input_count - 1], shape.rank, st);
}

/* @3 axis 1, or nothing: real */
static bool parse_constant_qparams(qc_id *qparams, int *axis, struct parser *p, struct qc_status *st)
{
    int64_t n = 0;
    uint32_t label;
    *qparams = QC_REAL;
    *axis = 0;
    if (!qc_lex_next_is(&p->x, '@')) return true;
    if (!qc_lex_label(&label, &p->x, '@', st)) return false;
    if (qc_lex_try_word(&p->x, "axis") && !qc_lex_int(&n, &p->x, 0, QC_RANK_MAX - 1, st)) return false;
    *qparams = label;
    *axis = (int)n;
    return true;
}

/* const %2 "w" f32[3] = {1, 2, 3}, or of stored integers: const %2 "w" i8[3,4] @2 axis 1 = {...} */
static bool parse_const(struct parser *p, struct qc_status *st)
{
    uint32_t label;
    const char *name;
    enum qc_dtype dtype;
    struct qc_shape shape;
    struct qc_tensor *t;
    qc_id qparams;
    int axis;
    if (!qc_lex_label(&label, &p->x, '%', st) || !qc_lex_try_string(&name, &p->x, st) ||
        !qc_lex_type(&dtype, &shape, &p->x, st) || !parse_constant_qparams(&qparams, &axis, p, st) ||
        !qc_lex_expect(&p->x, '=', st))
        return false;
    const struct qc_lex start = p->x;
    if (!qc_lex_data(&t, dtype, &shape, &p->x, st)) return false;
    qc_id id = qparams == QC_REAL ? qc_graph_add_constant(p->g, name, t, st)
                                  : qc_graph_add_affine_constant(p->g, name, t, qparams, axis, st);
    if (id && qparams == QC_REAL && is_apart(p->g, id, name)) id = qc_graph_add_constant_apart(p->g, name, t, st);
    if (!id && qparams != QC_REAL) qc_where(st, "line %zu", start.line);
    qc_tensor_unref(t);
    return id && check_name(p, id, name, st) && define(p, label, id, st);
}

/* output "logits" %9 symbols "batch",- */
static bool parse_output(struct parser *p, struct qc_status *st)
{
    const char *name;
    qc_id id;
    return qc_lex_string(&name, &p->x, st) && use_label(&id, p, st) && qc_graph_add_output(p->g, name, id, st) &&
           parse_symbols(p, &p->g->outputs[p->g->output_count - 1], p->g->values[id].type.shape.rank, st);
}

/* bound scale 0.1 0.2 zero 0 0 */
static bool parse_binding(struct parser *p, qc_id quantizer, struct qc_status *st)
{
    float *scale = NULL;
    int32_t *zero = NULL;
    size_t count = 0, capacity = 0, zeros = 0;
    bool ok = false;
    if (!qc_lex_try_word(&p->x, "scale")) return qc_lex_fail(&p->x, st, "expected \"scale\"");
    while (!qc_lex_try_word(&p->x, "zero")) {
        if (!qc_grow((void **)&scale, &capacity, count, sizeof *scale, st) || !qc_lex_float(&scale[count], &p->x, st))
            goto out;
        count++;
    }
    zero = calloc(count + 1, sizeof *zero);
    if (!zero) {
        qc_fail_memory(st, count * sizeof *zero);
        goto out;
    }
    for (; zeros < count; zeros++) {
        int64_t v;
        if (!qc_lex_int(&v, &p->x, INT32_MIN, INT32_MAX, st)) goto out;
        zero[zeros] = (int32_t)v;
    }
    ok = qc_graph_bind_quantizer(p->g, quantizer, count, scale, zero, st);
out:
    free(scale);
    free(zero);
    return ok;
}

static bool parse_state(struct parser *p, qc_id quantizer, struct qc_status *st)
{
    if (qc_lex_try_word(&p->x, "unbound")) return true;
    if (qc_lex_try_word(&p->x, "bound")) return parse_binding(p, quantizer, st);
    if (!qc_lex_try_word(&p->x, "off")) return qc_lex_fail(&p->x, st, "expected \"unbound\", \"bound\" or \"off\"");
    qc_graph_turn_off_quantizer(p->g, quantizer);
    return true;
}

/* quantizer "w" i8 symmetric weight restricted per_channel bits 3 block 32 pairs 128 unbound observed %2 */
static bool parse_quantizer(qc_id *out, struct parser *p, struct qc_status *st)
{
    struct qc_qparams s = {.kind = QC_QPARAMS_QUANTIZER};
    char word[QC_WORD] = "";
    if (!qc_lex_string(&s.name, &p->x, st)) return false;
    qc_lex_blanks(&p->x);
    struct qc_lex start = p->x;
    if (!qc_lex_word(word, &p->x, "an element type", st)) return false;
    s.dtype = qc_dtype_from_name(word);
    const struct qc_dtype_info *t = qc_dtype_info(s.dtype);
    if (t->lo >= t->hi || s.dtype == QC_BOOL)
        return qc_lex_fail(&start, st, "values cannot be quantized to '%s'", word);
    if (qc_lex_try_word(&p->x, "symmetric"))
        s.symmetry = QC_SYMMETRIC;
    else if (!qc_lex_try_word(&p->x, "asymmetric"))
        return qc_lex_fail(&p->x, st, "expected \"symmetric\" or \"asymmetric\"");
    s.is_weight = qc_lex_try_word(&p->x, "weight");
    s.restricted = qc_lex_try_word(&p->x, "restricted");
    s.per_channel = qc_lex_try_word(&p->x, "per_channel");
    s.power_of_two = qc_lex_try_word(&p->x, "power_of_two");
    s.at_load = qc_lex_try_word(&p->x, "at_load");
    int64_t number = 0;
    if (qc_lex_try_word(&p->x, "bits") && !qc_lex_int(&number, &p->x, 2, t->bits, st)) return false;
    s.bits = (unsigned)number;
    if (s.per_channel && qc_lex_try_word(&p->x, "block") && !qc_lex_int(&s.block, &p->x, 1, INT32_MAX, st))
        return false;
    number = 0;
    if (qc_lex_try_word(&p->x, "pairs") && !qc_lex_int(&number, &p->x, 1, INT16_MAX, st)) return false;
    s.pair_limit = (int32_t)number;
    size_t before = p->g->qparams_count;
    if (!(*out = qc_graph_add_quantizer(p->g, &s, st))) return false;
    if (p->g->qparams_count == before) return qc_lex_fail(&start, st, "qparams named \"%s\" are there already", s.name);
    if (!parse_state(p, *out, st)) return false;
    if (!qc_lex_try_word(&p->x, "observed")) return true;
    while (qc_lex_next_is(&p->x, '%')) {
        struct observed o = {.quantizer = *out, .line = p->x.line};
        if (!qc_lex_label(&o.label, &p->x, '%', st) ||
            !qc_grow((void **)&p->observed, &p->observed_capacity, p->observed_count, sizeof *p->observed, st))
            return false;
        p->observed[p->observed_count++] = o;
    }
    return true;
}

static bool use_qparams(qc_id *out, struct parser *p, struct qc_status *st)
{
    qc_lex_blanks(&p->x);
    struct qc_lex start = p->x;
    if (!qc_lex_label(out, &p->x, '@', st)) return false;
    return *out <= p->g->qparams_count || qc_lex_fail(&start, st, "qparams @%u is not defined above", *out);
}

/* qparams @1 quantizer ...; qparams @3 product @1 @2 */
static bool parse_qparams(struct parser *p, struct qc_status *st)
{
    uint32_t label;
    qc_id id, a, b;
    qc_lex_blanks(&p->x);
    struct qc_lex start = p->x;
    if (!qc_lex_label(&label, &p->x, '@', st)) return false;
    if (label != p->g->qparams_count + 1)
        return qc_lex_fail(&start, st, "expected qparams @%zu", p->g->qparams_count + 1);
    if (qc_lex_try_word(&p->x, "quantizer")) return parse_quantizer(&id, p, st);
    if (!qc_lex_try_word(&p->x, "product")) return qc_lex_fail(&p->x, st, "expected \"quantizer\" or \"product\"");
    if (!use_qparams(&a, p, st) || !use_qparams(&b, p, st) || !(id = qc_graph_add_product(p->g, a, b, st)))
        return false;
    return id == label || qc_lex_fail(&start, st, "the product of @%u and @%u is there already", a, b);
}

/* A result as the text has it; parts that are left out are not compared. */
struct result {
    uint32_t label;
    const char *name;
    bool typed;
    struct qc_type type;
};

/* f32[N,16] @3 axis 1, or @3 axis 1 */
static bool parse_type(struct result *r, struct parser *p, struct qc_status *st)
{
    if (!qc_lex_next_is(&p->x, '@')) {
        if (!qc_lex_type(&r->type.dtype, &r->type.shape, &p->x, st)) return false;
        r->typed = true;
    }
    if (!qc_lex_next_is(&p->x, '@')) return true;
    if (!use_qparams(&r->type.qparams, p, st)) return false;
    if (qc_lex_try_word(&p->x, "axis")) {
        int64_t axis;
        if (!qc_lex_int(&axis, &p->x, -QC_RANK_MAX, QC_RANK_MAX, st)) return false;
        r->type.axis = (int)axis;
    }
    return true;
}

static bool check_result(const struct parser *p, const struct result *r, qc_id id, struct qc_status *st)
{
    const struct qc_type *t = &p->g->values[id].type;
    char a[QC_SHAPE_TEXT], b[QC_SHAPE_TEXT];
    if (!check_name(p, id, r->name, st)) return false;
    if (!r->typed) return true;
    if (t->dtype == r->type.dtype && qc_shape_equal(&t->shape, &r->type.shape) && t->qparams == r->type.qparams &&
        t->axis == r->type.axis)
        return true;
    return qc_lex_fail(&p->x, st, "%%%u is %s%s @%u axis %d here, but the op gives %s%s @%u axis %d", r->label,
                       qc_dtype_info(r->type.dtype)->name, qc_shape_text(a, &r->type.shape), r->type.qparams,
                       r->type.axis, qc_dtype_info(t->dtype)->name, qc_shape_text(b, &t->shape), t->qparams, t->axis);
}

/* Quantize, Dequantize and Requantize are called simulated_quantize, ... in a simulated graph, and only there. */
static bool parse_op(enum qc_op *out, struct parser *p, struct qc_status *st)
{
    static const char prefix[] = "simulated_";
    char word[QC_WORD] = "", *name = word;
    qc_lex_blanks(&p->x);
    struct qc_lex start = p->x;
    if (!qc_lex_word(word, &p->x, "an op", st)) return false;
    bool prefixed = strncmp(word, prefix, sizeof prefix - 1) == 0;
    if (prefixed) {
        name = word + sizeof prefix - 1;
        *name = (char)toupper((unsigned char)*name);
    }
    enum qc_op op = qc_op_from_name(name);
    bool ours = op == QC_OP_Quantize || op == QC_OP_Dequantize || op == QC_OP_Requantize;
    if (op == QC_OP_INVALID || prefixed != (ours && p->g->simulated))
        return qc_lex_fail(&start, st, "'%s' is not an op of a graph that is %s", word,
                           p->g->simulated ? "simulated" : "not simulated");
    *out = op;
    return true;
}

static bool parse_inputs(qc_id inputs[INPUTS], unsigned *count, struct parser *p, struct qc_status *st)
{
    *count = 0;
    if (!qc_lex_expect(&p->x, '(', st)) return false;
    if (qc_lex_try(&p->x, ')')) return true;
    do {
        if (*count == INPUTS) return qc_lex_fail(&p->x, st, "more than %d inputs", (int)INPUTS);
        inputs[*count] = QC_ABSENT;
        if (!qc_lex_try(&p->x, '-') && !use_label(&inputs[*count], p, st)) return false;
        ++*count;
    } while (qc_lex_try(&p->x, ','));
    return qc_lex_expect(&p->x, ')', st);
}

static bool parse_graph(struct qc_graph **out, struct qc_lex *x, unsigned depth, struct qc_status *st);

/* body "then_branch" { graph ... }: any number of them. */
static bool parse_bodies(struct qc_attr attrs[ATTRS], unsigned *count, struct parser *p, struct qc_status *st)
{
    while (qc_lex_try_word(&p->x, "body")) {
        struct qc_attr *a = &attrs[*count];
        struct qc_graph *g;
        if (*count == ATTRS) return qc_lex_fail(&p->x, st, "more than %d attributes", (int)ATTRS);
        if (p->depth == QC_BODY_DEPTH_MAX)
            return qc_lex_fail(&p->x, st, "bodies are nested more than %d deep", (int)QC_BODY_DEPTH_MAX);
        *a = (struct qc_attr){.kind = QC_ATTR_GRAPH};
        if (!qc_lex_string(&a->name, &p->x, st) || !qc_lex_expect(&p->x, '{', st) ||
            !parse_graph(&g, &p->x, p->depth + 1, st))
            return false;
        a->graph = g;
        ++*count;
        if (!qc_lex_expect(&p->x, '}', st)) return false;
    }
    return true;
}

static bool parse_attrs(struct qc_attr attrs[ATTRS], struct qc_tensor *tensors[ATTRS], unsigned *count,
                        struct parser *p, struct qc_status *st)
{
    *count = 0;
    if (!qc_lex_try(&p->x, '{')) return true;
    do {
        if (*count == ATTRS) return qc_lex_fail(&p->x, st, "more than %d attributes", (int)ATTRS);
        if (!qc_lex_attr(&attrs[*count], &tensors[*count], &p->x, st)) return false;
        for (unsigned i = 0; i < *count; i++)
            if (strcmp(attrs[i].name, attrs[*count].name) == 0) {
                ++*count; /* its tensor is freed with the others */
                return qc_lex_fail(&p->x, st, "attribute '%s' is there twice", attrs[i].name);
            }
        ++*count;
    } while (qc_lex_try(&p->x, ','));
    return qc_lex_expect(&p->x, '}', st);
}

/* %5 "y" : i32[N,16] @3 axis 1 = Conv "conv1"(%1, %2, -) {group=1} */
static bool parse_node(struct parser *p, struct qc_status *st)
{
    struct result results[OUTPUTS] = {{0}};
    const char *names[OUTPUTS];
    qc_id inputs[INPUTS];
    struct qc_attr attrs[ATTRS];
    struct qc_tensor *tensors[ATTRS] = {NULL};
    struct qc_node_def def = {.inputs = inputs, .attrs = attrs, .output_names = names};
    bool ok = false;
    do {
        if (def.output_count == OUTPUTS) return qc_lex_fail(&p->x, st, "more than %d results", (int)OUTPUTS);
        struct result *r = &results[def.output_count];
        if (!qc_lex_label(&r->label, &p->x, '%', st) || !qc_lex_try_string(&r->name, &p->x, st)) return false;
        if (qc_lex_try(&p->x, ':') && !parse_type(r, p, st)) return false;
        names[def.output_count++] = r->name;
    } while (qc_lex_try(&p->x, ','));
    if (!qc_lex_expect(&p->x, '=', st) || !parse_op(&def.op, p, st) || !qc_lex_try_string(&def.name, &p->x, st) ||
        !parse_inputs(inputs, &def.input_count, p, st) || !parse_attrs(attrs, tensors, &def.attr_count, p, st) ||
        !parse_bodies(attrs, &def.attr_count, p, st))
        goto out;
    enum qc_affine_behaviour affine =
        qc_node_affine(&(struct qc_node){.op = def.op, .attr_count = def.attr_count, .attrs = attrs});
    if (affine == QC_AFFINE_MERGE || affine == QC_AFFINE_PRODUCT || def.op == QC_OP_Quantize ||
        def.op == QC_OP_Requantize) {
        def.qparams = results[0].type.qparams;
        def.axis = results[0].type.axis;
    }
    qc_id first = qc_graph_add(p->g, &def, st);
    ok = first != 0;
    for (unsigned k = 0; ok && k < def.output_count; k++)
        ok = check_result(p, &results[k], first + k, st) && define(p, results[k].label, first + k, st);
out:
    for (unsigned i = 0; i < ATTRS; i++) qc_tensor_unref(tensors[i]);
    for (unsigned i = 0; i < def.attr_count; i++)
        if (attrs[i].kind == QC_ATTR_GRAPH) qc_graph_free((struct qc_graph *)(uintptr_t)attrs[i].graph);
    return ok;
}

/* graph "name" opset 13 simulated */
static bool parse_header(struct parser *p, struct qc_status *st)
{
    const char *name;
    int64_t opset = 0;
    qc_lex_space(&p->x);
    if (!qc_lex_try_word(&p->x, "graph")) return qc_lex_fail(&p->x, st, "expected \"graph\"");
    if (!qc_lex_try_string(&name, &p->x, st)) return false;
    if (qc_lex_try_word(&p->x, "opset") && !qc_lex_int(&opset, &p->x, 0, INT32_MAX, st)) return false;
    p->g->simulated = qc_lex_try_word(&p->x, "simulated");
    p->g->opset = (int)opset;
    if (name && !(p->g->name = qc_arena_strdup(p->g->arena, name, st))) return false;
    return qc_lex_line_end(&p->x, st);
}

static bool parse_statement(struct parser *p, struct qc_status *st)
{
    if (qc_lex_next_is(&p->x, '%')) return parse_node(p, st);
    if (qc_lex_try_word(&p->x, "input")) return parse_input(p, st);
    if (qc_lex_try_word(&p->x, "const")) return parse_const(p, st);
    if (qc_lex_try_word(&p->x, "output")) return parse_output(p, st);
    if (qc_lex_try_word(&p->x, "qparams")) return parse_qparams(p, st);
    return qc_lex_fail(&p->x, st, "expected qparams, input, const, output or %%number");
}

/* Quantizers are defined in order, so the items of one are next to each other. */
static bool resolve_observed(struct parser *p, struct qc_status *st)
{
    for (size_t i = 0, end; i < p->observed_count; i = end) {
        qc_id quantizer = p->observed[i].quantizer;
        for (end = i; end < p->observed_count && p->observed[end].quantizer == quantizer;) end++;
        qc_id *values = QC_NEW_ARRAY(p->x.arena, qc_id, end - i, st);
        if (!values) return false;
        for (size_t k = i; k < end; k++) {
            const struct observed *o = &p->observed[k];
            if (!(values[k - i] = find_label(p, o->label)))
                return qc_fail(st, QC_BAD_INPUT, "line %zu: %%%u is not defined", o->line, o->label);
        }
        if (!qc_graph_set_observed(p->g, quantizer, end - i, values, st)) return false;
    }
    return true;
}

/* A graph up to the end of the text, or of a body up to its '}'. *x moves on. Recursion: see parse_bodies. */
static bool parse_graph(struct qc_graph **out, struct qc_lex *x, unsigned depth, struct qc_status *st)
{
    struct parser p = {.x = *x, .depth = depth, .g = qc_graph_new(st)};
    bool ok = false;
    if (!p.g || !parse_header(&p, st)) goto out;
    for (qc_lex_space(&p.x); !qc_lex_at_end(&p.x) && !(depth && qc_lex_next_is(&p.x, '}')); qc_lex_space(&p.x)) {
        if (!parse_statement(&p, st) || !qc_lex_line_end(&p.x, st)) {
            if (strncmp(st->message, "line ", 5) != 0) qc_where(st, "line %zu", p.x.line);
            goto out;
        }
    }
    ok = resolve_observed(&p, st) && qc_graph_verify(p.g, st);
    if (ok) {
        *out = p.g;
        p.g = NULL;
    }
out:
    *x = p.x;
    free(p.labels);
    free(p.observed);
    qc_graph_free(p.g);
    return ok;
}

bool qc_graph_parse(struct qc_graph **out, const char *text, size_t size, struct qc_status *st)
{
    struct qc_lex x = {.at = text, .end = text + size, .line_start = text, .line = 1, .arena = qc_arena_new()};
    const bool ok = x.arena ? parse_graph(out, &x, 0, st) : qc_fail_memory(st, sizeof x);
    qc_arena_free(x.arena);
    return ok;
}
