// SPDX-License-Identifier: Apache-2.0
#include "tests/graph_reader/graph_reader.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph/core/body.h"
#include "graph/core/verify.h"
#include "graph/types/number_format.h"

enum { INPUTS = 256, OUTPUTS = 64, ATTRS = 32, WORD = 64 };

/* %label of the text and the id it got, or a quantizer and the label that it observes. */
struct label {
    uint32_t label;
    qc_id id;
};

/* A place in the text, which ends in a zero. What is made stands in lists, which are freed at the end: a text that is
   refused leaves by longjmp. Each list has room for one item for each % or { of the text. */
struct reader {
    const char *at;
    size_t line;
    unsigned depth; /* of the body that is read */
    struct qc_arena *arena;
    struct qc_status *st;
    jmp_buf refused;
    struct qc_graph *g, **graphs;
    struct qc_tensor **tensors;
    struct label *labels, *observed;
    size_t graph_count, tensor_count, label_count, observed_count, first_label, first_observed; /* of this body */
};

/* Leaves if !made, with the status that is set. */
static void require(struct reader *r, bool made)
{
    if (made) return;
    if (strncmp(r->st->message, "line ", 5) != 0) qc_where(r->st, "line %zu", r->line);
    longjmp(r->refused, 1);
}

static void require_text(struct reader *r, bool right, const char *expected)
{
    if (!right) require(r, qc_fail(r->st, QC_BAD_INPUT, "expected %s before '%.40s'", expected, r->at));
}

static void blanks(struct reader *r)
{
    r->at += strspn(r->at, " \t\r");
    if (*r->at == '#') r->at += strcspn(r->at, "\n");
}

static void space(struct reader *r)
{
    for (blanks(r); *r->at == '\n'; blanks(r)) r->at++, r->line++;
}

static bool next_is(struct reader *r, char c)
{
    blanks(r);
    return *r->at == c;
}

/* Is c next? Then it is taken. */
static bool take(struct reader *r, char c)
{
    const bool is = next_is(r, c);
    r->at += is;
    return is;
}

static void expect(struct reader *r, char c)
{
    require_text(r, take(r, c), (char[]){'\'', c, '\'', 0});
}

/* Letters, digits and _ + - . as far as they go; nan(BITS) is a word too. */
static size_t word_length(struct reader *r)
{
    size_t n = 0;
    blanks(r);
    while (isalnum((unsigned char)r->at[n]) || (r->at[n] && strchr("_+-.", r->at[n]))) n++;
    if (n == 3 && strncmp(r->at, "nan(", 4) == 0) {
        n += strcspn(r->at + 3, ")\n");
        if (!r->at[n++]) return 0;
    }
    return n < WORD ? n : 0;
}

static const char *read_word(struct reader *r, char word[WORD], const char *expected)
{
    const size_t n = word_length(r);
    require_text(r, n > 0, expected);
    memcpy(word, r->at, n);
    word[n] = '\0';
    r->at += n;
    return word;
}

static bool take_word(struct reader *r, const char *word)
{
    const size_t n = word_length(r);
    if (n != strlen(word) || memcmp(r->at, word, n) != 0) return false;
    r->at += n;
    return true;
}

static const char *read_string(struct reader *r)
{
    expect(r, '"');
    size_t n = 0;
    char *s = qc_arena_get(r->arena, strcspn(r->at, "\n") + 1, 1, r->st);
    require(r, s);
    for (; *r->at != '"'; r->at++) {
        require_text(r, *r->at && *r->at != '\n', "a closing quote");
        int c = *r->at;
        if (c == '\\') {
            const char *kind = strchr("\"\\ntx", *++r->at);
            unsigned code = 0;
            if (*r->at == 'x')
                require_text(r, sscanf(r->at + 1, "%2x", &code) == 1 && code, "two hex digits"), r->at += 2;
            require_text(r, *r->at && kind, "an escape");
            c = *kind == 'x' ? (int)code : *kind == 'n' ? '\n' : *kind == 't' ? '\t' : *kind;
        }
        s[n++] = (char)c;
    }
    r->at++;
    return s;
}

static const char *try_string(struct reader *r)
{
    return next_is(r, '"') ? read_string(r) : NULL;
}

static bool int_of(int64_t *out, const char *word, int64_t lowest, int64_t highest)
{
    char *end;
    errno = 0;
    *out = strtoll(word, &end, 10);
    return !*end && errno == 0 && *out >= lowest && *out <= highest;
}

static int64_t read_int(struct reader *r, int64_t lowest, int64_t highest)
{
    int64_t v;
    char word[WORD];
    require_text(r, int_of(&v, read_word(r, word, "a whole number"), lowest, highest), "a whole number in range");
    return v;
}

/* The number behind an optional word. */
static int64_t read_option(struct reader *r, const char *word, int64_t lowest, int64_t highest)
{
    return take_word(r, word) ? read_int(r, lowest, highest) : 0;
}

static uint32_t read_label(struct reader *r, char sigil)
{
    expect(r, sigil);
    return (uint32_t)read_int(r, 1, UINT32_MAX);
}

/* A number of a float type; nan(BITS) has these bits. */
static bool float_of(void *out, enum qc_dtype t, const char *word)
{
    char *end = NULL;
    uint64_t bits = t == QC_F64   ? UINT64_C(0x7ff8000000000000)
                    : t == QC_F32 ? 0x7fc00000
                    : t == QC_F16 ? 0x7e00
                                  : 0x7fc0;
    if (strncmp(word, "nan", 3) == 0) {
        if (word[3]) bits = strtoull(word + 4, &end, 16);
        memcpy(out, &bits, qc_dtype_size(t));
        return word[3] ? strcmp(end, ")") == 0 : !qc_is_small_float(t);
    }
    const double wide = strtod(word, &end);
    const float v = strtof(word, NULL);
    if (*end || strpbrk(word, "xX")) return false;
    if (t == QC_F64) return memcpy(out, &wide, sizeof wide), isfinite(wide) || strstr(word, "inf");
    if (t == QC_F32) return memcpy(out, &v, sizeof v), isfinite(v) || strstr(word, "inf");
    const uint16_t half = t == QC_F16 ? qc_float_to_half(v) : qc_float_to_bfloat(v);
    if (!qc_is_small_float(t)) return memcpy(out, &half, sizeof half), true;
    *(uint8_t *)out = qc_float_to_small(t, (double)v, QC_SMALL_OVERFLOWS, QC_SMALL_NEAREST);
    return true;
}

static float read_float(struct reader *r)
{
    float v;
    char word[WORD];
    size_t n = strlen(read_word(r, word, "a number"));
    if (n > 1 && word[n - 1] == 'f' && isdigit((unsigned char)word[n - 2])) word[n - 1] = '\0';
    require_text(r, float_of(&v, QC_F32, word), "a number");
    return v;
}

/* f32[N,3] */
static void read_type(struct reader *r, enum qc_dtype *dtype, struct qc_shape *shape)
{
    char word[WORD];
    *shape = QC_SCALAR;
    *dtype = qc_dtype_from_name(read_word(r, word, "an element type"));
    require_text(r, *dtype != QC_NONE, "an element type");
    expect(r, '[');
    if (take(r, '?'))
        shape->rank = -1;
    else if (!next_is(r, ']'))
        do {
            require_text(r, shape->rank < QC_RANK_MAX, "fewer dimensions");
            shape->dim[shape->rank++] = take_word(r, "N") ? QC_FREE : read_int(r, 0, INT64_MAX);
        } while (take(r, ','));
    expect(r, ']');
}

static bool element_of(void *to, enum qc_dtype t, const char *word)
{
    const struct qc_dtype_info *info = qc_dtype_info(t);
    if (info->is_float) return float_of(to, t, word);
    int64_t v;
    if (t == QC_U64) {
        uint64_t u = strtoull(word, NULL, 10);
        return memcpy(to, &u, sizeof u), strspn(word, "0123456789") == strlen(word);
    }
    const bool ok = t == QC_I64   ? int_of(&v, word, INT64_MIN, INT64_MAX)
                    : t == QC_U32 ? int_of(&v, word, 0, UINT32_MAX)
                                  : int_of(&v, word, info->lo, info->hi);
    memcpy(to, &v, info->size);
    return ok;
}

/* {1, 2, 3}: all elements of a tensor, which the reader owns. */
static struct qc_tensor *read_data(struct reader *r, enum qc_dtype dtype, const struct qc_shape *shape)
{
    size_t count;
    char word[WORD];
    expect(r, '{');
    /* Every element takes a character at least: what is announced cannot be more than what is there. */
    require_text(r, qc_shape_count(&count, shape) && strnlen(r->at, count) == count, "more data");
    struct qc_tensor *t = qc_tensor_new(dtype, shape, r->st);
    require(r, t);
    r->tensors[r->tensor_count++] = t;
    for (size_t i = 0; i < count; i++) {
        space(r);
        if (i) expect(r, ',');
        space(r);
        read_word(r, word, "an element");
        require_text(r, element_of((char *)t->data + i * qc_dtype_size(dtype), dtype, word), "a value of the type");
    }
    space(r);
    expect(r, '}');
    return t;
}

/* [1, 2]: at most as many items as the line has commas, and one. */
static void read_list(struct reader *r, struct qc_attr *a, enum qc_attr_kind kind)
{
    size_t n = 1;
    for (const char *s = r->at; *s && *s != '\n'; s++) n += *s == ',';
    a->kind = kind;
    int64_t *ints = QC_NEW_ARRAY(r->arena, int64_t, n, r->st);
    float *floats = QC_NEW_ARRAY(r->arena, float, n, r->st);
    const char **strings = QC_NEW_ARRAY(r->arena, const char *, n, r->st);
    require(r, ints && floats && strings);
    expect(r, '[');
    if (!next_is(r, ']')) do {
            const size_t i = a->count++;
            if (kind == QC_ATTR_INTS) ints[i] = read_int(r, INT64_MIN, INT64_MAX);
            if (kind == QC_ATTR_FLOATS) floats[i] = read_float(r);
            if (kind == QC_ATTR_STRINGS) strings[i] = read_string(r);
        } while (take(r, ','));
    expect(r, ']');
    if (kind == QC_ATTR_INTS) a->ints = ints;
    if (kind == QC_ATTR_FLOATS) a->floats = floats;
    if (kind == QC_ATTR_STRINGS) a->strings = strings;
}

/* name=value. 3 is an int; 3f, inf, -inf and nan are floats. */
static struct qc_attr read_attr(struct reader *r)
{
    char word[WORD];
    struct qc_attr a = {.kind = QC_ATTR_INT, .name = try_string(r)};
    if (!a.name) require(r, (a.name = qc_arena_strdup(r->arena, read_word(r, word, "an attribute"), r->st)));
    expect(r, '=');
    if (next_is(r, '"')) {
        a.kind = QC_ATTR_STRING;
        a.s = read_string(r);
    } else if (next_is(r, '[')) {
        read_list(r, &a, QC_ATTR_INTS);
    } else if (take_word(r, "floats")) {
        read_list(r, &a, QC_ATTR_FLOATS);
    } else if (take_word(r, "strings")) {
        read_list(r, &a, QC_ATTR_STRINGS);
    } else {
        const char *start = r->at, *value = read_word(r, word, "a value");
        const bool is_tensor = next_is(r, '[');
        r->at = start;
        if (is_tensor) {
            enum qc_dtype dtype;
            struct qc_shape shape;
            read_type(r, &dtype, &shape);
            a.kind = QC_ATTR_TENSOR;
            a.tensor = read_data(r, dtype, &shape);
        } else if (value[strlen(value) - 1] == 'f' || strncmp(value, "nan", 3) == 0) {
            a.kind = QC_ATTR_FLOAT;
            a.f = read_float(r);
        } else {
            a.i = read_int(r, INT64_MIN, INT64_MAX);
        }
    }
    return a;
}

/* Gives a value the label and checks that it has the name: it has another if it, or the name, is there already. */
static void define(struct reader *r, uint32_t label, qc_id id, const char *name)
{
    require(r, id != 0);
    const char *is = r->g->values[id].name;
    require_text(r, !name || !*name || (is && strcmp(is, name) == 0), "another name of this value");
    require_text(r, r->label_count == r->first_label || r->labels[r->label_count - 1].label < label, "a larger number");
    r->labels[r->label_count++] = (struct label){.label = label, .id = id};
}

static qc_id defined(struct reader *r, uint32_t label)
{
    size_t low = r->first_label, high = r->label_count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (r->labels[middle].label < label)
            low = middle + 1;
        else
            high = middle;
    }
    require_text(r, low < r->label_count && r->labels[low].label == label, "a value that is defined");
    return r->labels[low].id;
}

static void read_symbols(struct reader *r, struct qc_port *port, int rank)
{
    if (!take_word(r, "symbols")) return;
    for (int i = 0; i < rank; i++) {
        if (i) expect(r, ',');
        if (!take(r, '-')) require(r, (port->symbol[i] = qc_arena_strdup(r->g->arena, read_string(r), r->st)));
    }
}

/* input %1 "x" f32[N,3] symbols "batch",- */
static void read_input(struct reader *r)
{
    enum qc_dtype dtype;
    struct qc_shape shape;
    const uint32_t label = read_label(r, '%');
    const char *name = read_string(r);
    read_type(r, &dtype, &shape);
    define(r, label, qc_graph_add_input(r->g, name, dtype, &shape, r->st), name);
    read_symbols(r, &r->g->inputs[r->g->input_count - 1], shape.rank);
}

static qc_id read_qparams_label(struct reader *r)
{
    const qc_id id = read_label(r, '@');
    require_text(r, id <= r->g->qparams_count, "qparams that are defined");
    return id;
}

/* const %2 "w" f32[3] = {1, 2, 3}, or of stored integers: const %2 "w" i8[3,4] @2 axis 1 = {...}. A constant equal to
   one that is there may have a name of its own: exported graphs have those. */
static void read_const(struct reader *r)
{
    enum qc_dtype dtype;
    struct qc_shape shape;
    qc_id qparams = QC_REAL;
    int axis = 0;
    const uint32_t label = read_label(r, '%');
    const char *name = try_string(r);
    read_type(r, &dtype, &shape);
    if (next_is(r, '@')) {
        qparams = read_label(r, '@');
        axis = (int)read_option(r, "axis", 0, QC_RANK_MAX - 1);
    }
    expect(r, '=');
    const size_t line = r->line;
    struct qc_tensor *t = read_data(r, dtype, &shape);
    qc_id id = qparams == QC_REAL ? qc_graph_add_constant(r->g, name, t, r->st)
                                  : qc_graph_add_affine_constant(r->g, name, t, qparams, axis, r->st);
    if (!id) r->line = line;
    require(r, id != 0);
    const char *is = r->g->values[id].name;
    if (qparams == QC_REAL && name && *name && is && strcmp(is, name) != 0 && !qc_graph_find_value(r->g, name))
        id = qc_graph_add_constant_apart(r->g, name, t, r->st);
    define(r, label, id, name);
}

/* output "logits" %9 symbols "batch",- */
static void read_output(struct reader *r)
{
    const char *name = read_string(r);
    const qc_id id = defined(r, read_label(r, '%'));
    require(r, qc_graph_add_output(r->g, name, id, r->st));
    read_symbols(r, &r->g->outputs[r->g->output_count - 1], r->g->values[id].type.shape.rank);
}

/* bound scale 0.1 0.2 zero 0 0 */
static void read_binding(struct reader *r, qc_id quantizer)
{
    size_t count = 0, most = strcspn(r->at, "\n") / 2 + 1;
    float *scale = QC_NEW_ARRAY(r->arena, float, most, r->st);
    int32_t *zero = QC_NEW_ARRAY(r->arena, int32_t, most, r->st);
    require(r, scale && zero);
    require_text(r, take_word(r, "scale"), "scale");
    while (!take_word(r, "zero")) scale[count++] = read_float(r);
    for (size_t i = 0; i < count; i++) zero[i] = (int32_t)read_int(r, INT32_MIN, INT32_MAX);
    require(r, qc_graph_bind_quantizer(r->g, quantizer, count, scale, zero, r->st));
}

/* quantizer "w" i8 symmetric weight restricted per_channel bits 3 block 32 pairs 128 unbound observed %2 */
static void read_quantizer(struct reader *r)
{
    struct qc_qparams s = {.kind = QC_QPARAMS_QUANTIZER, .name = read_string(r)};
    char word[WORD];
    s.dtype = qc_dtype_from_name(read_word(r, word, "an element type"));
    const struct qc_dtype_info *t = qc_dtype_info(s.dtype);
    require_text(r, t->lo < t->hi && s.dtype != QC_BOOL, "a type to quantize to");
    if (take_word(r, "symmetric"))
        s.symmetry = QC_SYMMETRIC;
    else
        require_text(r, take_word(r, "asymmetric"), "symmetric or asymmetric");
    s.is_weight = take_word(r, "weight");
    s.restricted = take_word(r, "restricted");
    s.per_channel = take_word(r, "per_channel");
    s.power_of_two = take_word(r, "power_of_two");
    s.at_load = take_word(r, "at_load");
    s.bits = (unsigned)read_option(r, "bits", 2, t->bits);
    if (s.per_channel) s.block = read_option(r, "block", 1, INT32_MAX);
    s.pair_limit = (int32_t)read_option(r, "pairs", 1, INT16_MAX);
    const size_t before = r->g->qparams_count;
    const qc_id id = qc_graph_add_quantizer(r->g, &s, r->st);
    require(r, id != 0);
    require_text(r, r->g->qparams_count > before, "qparams of another name");
    if (take_word(r, "bound"))
        read_binding(r, id);
    else if (take_word(r, "off"))
        qc_graph_turn_off_quantizer(r->g, id);
    else
        require_text(r, take_word(r, "unbound"), "unbound, bound or off");
    if (!take_word(r, "observed")) return;
    while (next_is(r, '%')) r->observed[r->observed_count++] = (struct label){.id = id, .label = read_label(r, '%')};
}

/* qparams @1 quantizer ...; qparams @3 product @1 @2 */
static void read_qparams(struct reader *r)
{
    const uint32_t label = read_label(r, '@');
    require_text(r, label == r->g->qparams_count + 1, "the next number");
    if (take_word(r, "quantizer")) {
        read_quantizer(r);
        return;
    }
    require_text(r, take_word(r, "product"), "quantizer or product");
    const qc_id a = read_qparams_label(r), b = read_qparams_label(r), id = qc_graph_add_product(r->g, a, b, r->st);
    require(r, id != 0);
    require_text(r, id == label, "a product that is not there");
}

/* A result as the text has it. If it has a shape, the op must give this type. */
struct result {
    uint32_t label;
    const char *name;
    bool typed;
    struct qc_type type;
};

/* %5 "y" : f32[N,16] @3 axis 1 */
static struct result read_result(struct reader *r)
{
    struct result v = {.label = read_label(r, '%'), .name = try_string(r)};
    if (!take(r, ':')) return v;
    v.typed = !next_is(r, '@');
    if (v.typed) read_type(r, &v.type.dtype, &v.type.shape);
    if (!next_is(r, '@')) return v;
    v.type.qparams = read_qparams_label(r);
    v.type.axis = (int)read_option(r, "axis", -QC_RANK_MAX, QC_RANK_MAX);
    return v;
}

static void define_result(struct reader *r, const struct result *v, qc_id id)
{
    const struct qc_type *t = &r->g->values[id].type, *w = &v->type;
    char a[QC_SHAPE_TEXT], b[QC_SHAPE_TEXT];
    if (v->typed && (t->dtype != w->dtype || !qc_shape_equal(&t->shape, &w->shape) || t->qparams != w->qparams ||
                     t->axis != w->axis))
        require(r, qc_fail(r->st, QC_BAD_INPUT, "%%%u is %s%s @%u axis %d here, but the op gives %s%s @%u axis %d",
                           v->label, qc_dtype_info(w->dtype)->name, qc_shape_text(a, &w->shape), w->qparams, w->axis,
                           qc_dtype_info(t->dtype)->name, qc_shape_text(b, &t->shape), t->qparams, t->axis));
    define(r, v->label, id, v->name);
}

/* Quantize, Dequantize and Requantize are called simulated_quantize, ... in a simulated graph, and only there. */
static enum qc_op read_op(struct reader *r)
{
    static const char prefix[] = "simulated_";
    char word[WORD], *name = word;
    read_word(r, word, "an op");
    const bool prefixed = strncmp(word, prefix, sizeof prefix - 1) == 0;
    if (prefixed) {
        name = word + sizeof prefix - 1;
        *name = (char)toupper((unsigned char)*name);
    }
    const enum qc_op op = qc_op_from_name(name);
    const bool ours = op == QC_OP_Quantize || op == QC_OP_Dequantize || op == QC_OP_Requantize;
    require_text(r, op != QC_OP_INVALID && prefixed == (ours && r->g->simulated), "an op of such a graph");
    return op;
}

static struct qc_graph *read_graph(struct reader *r);

/* %5 "y" : i32[N,16] @3 axis 1 = Conv "conv1"(%1, %2, -) {group=1} body "then_branch" { graph ... } */
static void read_node(struct reader *r)
{
    struct result results[OUTPUTS];
    const char *names[OUTPUTS];
    qc_id inputs[INPUTS];
    struct qc_attr attrs[ATTRS];
    struct qc_node_def def = {.inputs = inputs, .attrs = attrs, .output_names = names};
    do {
        require_text(r, def.output_count < OUTPUTS, "fewer results");
        results[def.output_count] = read_result(r);
        names[def.output_count] = results[def.output_count].name;
        def.output_count++;
    } while (take(r, ','));
    expect(r, '=');
    def.op = read_op(r);
    def.name = try_string(r);
    expect(r, '(');
    if (!next_is(r, ')')) do {
            require_text(r, def.input_count < INPUTS, "fewer inputs");
            inputs[def.input_count++] = take(r, '-') ? QC_ABSENT : defined(r, read_label(r, '%'));
        } while (take(r, ','));
    expect(r, ')');
    if (take(r, '{')) {
        do {
            require_text(r, def.attr_count < ATTRS, "fewer attributes");
            attrs[def.attr_count] = read_attr(r);
            for (unsigned i = 0; i < def.attr_count; i++)
                require_text(r, strcmp(attrs[i].name, attrs[def.attr_count].name) != 0, "each attribute once");
            def.attr_count++;
        } while (take(r, ','));
        expect(r, '}');
    }
    while (take_word(r, "body")) {
        require_text(r, def.attr_count < ATTRS && r->depth < QC_BODY_DEPTH_MAX, "fewer bodies");
        struct qc_attr *a = &attrs[def.attr_count++];
        *a = (struct qc_attr){.kind = QC_ATTR_GRAPH, .name = read_string(r)};
        expect(r, '{');
        r->depth++;
        a->graph = read_graph(r);
        r->depth--;
        expect(r, '}');
    }
    const enum qc_affine_behaviour affine =
        qc_node_affine(&(struct qc_node){.op = def.op, .attr_count = def.attr_count, .attrs = attrs});
    if (affine == QC_AFFINE_MERGE || affine == QC_AFFINE_PRODUCT || def.op == QC_OP_Quantize ||
        def.op == QC_OP_Requantize) {
        def.qparams = results[0].type.qparams;
        def.axis = results[0].type.axis;
    }
    const qc_id first = qc_graph_add(r->g, &def, r->st);
    require(r, first != 0);
    for (unsigned k = 0; k < def.output_count; k++) define_result(r, &results[k], first + k);
}

/* Quantizers are defined in order, so the items of one are next to each other. */
static void set_observed(struct reader *r)
{
    for (size_t i = r->first_observed, end; i < r->observed_count; i = end) {
        const qc_id quantizer = r->observed[i].id;
        for (end = i; end < r->observed_count && r->observed[end].id == quantizer;) end++;
        qc_id *values = QC_NEW_ARRAY(r->arena, qc_id, end - i, r->st);
        require(r, values);
        for (size_t k = i; k < end; k++) values[k - i] = defined(r, r->observed[k].label);
        require(r, qc_graph_set_observed(r->g, quantizer, end - i, values, r->st));
    }
}

/* graph "name" opset 13 simulated, and statements up to the end of the text, or of a body up to its '}' */
static struct qc_graph *read_graph(struct reader *r)
{
    struct qc_graph *g = qc_graph_new(r->st), *outer = r->g;
    require(r, g);
    r->graphs[r->graph_count++] = r->g = g;
    const size_t outer_label = r->first_label, outer_observed = r->first_observed;
    r->first_label = r->label_count;
    r->first_observed = r->observed_count;
    space(r);
    require_text(r, take_word(r, "graph"), "graph");
    const char *name = try_string(r);
    if (name) require(r, (g->name = qc_arena_strdup(g->arena, name, r->st)));
    g->opset = (int)read_option(r, "opset", 0, INT32_MAX);
    g->simulated = take_word(r, "simulated");
    for (;;) {
        require_text(r, next_is(r, '\n') || !*r->at, "the end of the line");
        space(r);
        if (!*r->at || (r->depth && *r->at == '}')) break;
        if (*r->at == '%')
            read_node(r);
        else if (take_word(r, "input"))
            read_input(r);
        else if (take_word(r, "const"))
            read_const(r);
        else if (take_word(r, "output"))
            read_output(r);
        else {
            require_text(r, take_word(r, "qparams"), "qparams, input, const, output or %number");
            read_qparams(r);
        }
    }
    set_observed(r);
    require(r, qc_graph_verify(g, r->st));
    r->label_count = r->first_label;
    r->observed_count = r->first_observed;
    r->first_label = outer_label;
    r->first_observed = outer_observed;
    r->g = outer;
    return g;
}

/* Reads the text; returns whether it is right. */
static bool read_text(struct reader *r, const char *text, size_t size)
{
    size_t labels = 1, braces = 2;
    for (size_t i = 0; i < size; i++) labels += text[i] == '%', braces += text[i] == '{';
    r->at = qc_arena_strndup(r->arena, text, size, r->st);
    r->labels = QC_NEW_ARRAY(r->arena, struct label, labels, r->st);
    r->observed = QC_NEW_ARRAY(r->arena, struct label, labels, r->st);
    r->graphs = QC_NEW_ARRAY(r->arena, struct qc_graph *, braces, r->st);
    r->tensors = QC_NEW_ARRAY(r->arena, struct qc_tensor *, braces, r->st);
    if (!r->at || !r->labels || !r->observed || !r->graphs || !r->tensors || setjmp(r->refused)) return false;
    read_graph(r);
    return true;
}

bool qc_graph_parse(struct qc_graph **out, const char *text, size_t size, struct qc_status *st)
{
    struct reader r = {.line = 1, .arena = qc_arena_new(), .st = st};
    const bool ok = r.arena ? read_text(&r, text, size) : qc_fail_memory(st, sizeof r);
    if (ok) *out = r.graphs[0];
    for (size_t i = 0; i < r.tensor_count; i++) qc_tensor_unref(r.tensors[i]);
    for (size_t i = ok; i < r.graph_count; i++) qc_graph_free(r.graphs[i]);
    qc_arena_free(r.arena);
    return ok;
}
