// SPDX-License-Identifier: Apache-2.0
#include "graph/core/verify.h"
#include "graph_cases.h"
#include "tests/check.h"

/* xorshift64*: the same sequence everywhere. */
static uint64_t next(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

static size_t below(uint64_t *state, size_t n)
{
    return (size_t)(next(state) >> 33) % n;
}

static const char *const pieces[] = {"-1",
                                     "9223372036854775807",
                                     "-9223372036854775808",
                                     "4294967296",
                                     "0",
                                     "[?]",
                                     "N",
                                     "%1",
                                     "@1",
                                     "nan",
                                     "inf",
                                     "f32[2]{1,2}",
                                     "\"",
                                     "\n",
                                     "{",
                                     "}",
                                     "(",
                                     ")",
                                     "[",
                                     "]",
                                     ",",
                                     "=",
                                     "-",
                                     ":",
                                     "axis 7",
                                     "simulated",
                                     "per_channel",
                                     "u8",
                                     "i4",
                                     "bool",
                                     "f16",
                                     "#",
                                     "Split",
                                     "Reshape",
                                     "Conv",
                                     "...",
                                     "1e38",
                                     "2147483648",
                                     "qparams @1 product @1 @1\n"};

/* One to four edits: a byte changed, a stretch removed or doubled, a word put in. */
static size_t mutate(char *text, size_t size, size_t capacity, uint64_t *state)
{
    for (size_t edits = 1 + below(state, 4); edits && size > 2; edits--) {
        size_t at = below(state, size), length = 1 + below(state, 12);
        if (length > size - at) length = size - at;
        switch (below(state, 4)) {
        case 0: text[at] = (char)next(state); break;
        case 1:
            memmove(text + at, text + at + length, size - at - length);
            size -= length;
            break;
        case 2:
            if (size + length > capacity) break;
            memmove(text + at + length, text + at, size - at);
            size += length;
            break;
        default: {
            const char *piece = pieces[below(state, sizeof pieces / sizeof *pieces)];
            length = strlen(piece);
            if (size + length > capacity) break;
            memmove(text + at + length, text + at, size - at);
            memcpy(text + at, piece, length);
            size += length;
        }
        }
    }
    return size;
}

/* Parses a mutated text; what is accepted must print and parse to the same text. */
static bool try_mutation(const char *seed, uint64_t *state)
{
    enum { ROOM = 512 };
    size_t size = strlen(seed), capacity = size + ROOM;
    char *text = malloc(capacity);
    struct qc_graph *g = NULL;
    memcpy(text, seed, size);
    size = mutate(text, size, capacity, state);
    char *exact = malloc(size ? size : 1); /* so that a read behind the end is seen */
    memcpy(exact, text, size);
    bool ok = qc_graph_parse(&g, exact, size, ST);
    free(text);
    free(exact);
    if (!ok) {
        cr_expect(failure.code == QC_BAD_INPUT || failure.code == QC_UNSUPPORTED, "code %d: %s", (int)failure.code,
                  failure.message);
        cr_expect_null(g);
        return false;
    }
    char *once = print_graph(g), *twice;
    struct qc_graph *h = test_graph(once);
    twice = print_graph(h);
    cr_expect_str_eq(once, twice);
    free(once);
    free(twice);
    qc_graph_free(g);
    qc_graph_free(h);
    return true;
}

static const char affine[] =
    "graph \"g\" opset 13\n"
    "qparams @1 quantizer \"x\" u8 asymmetric bound scale 0.5 zero 3 observed %1 %5\n"
    "qparams @2 quantizer \"w\" i8 symmetric weight restricted per_channel bound scale 0.5 0.25 zero 0 0 observed %2\n"
    "qparams @3 product @1 @2\n"
    "qparams @4 quantizer \"y\" i8 symmetric unbound\n"
    "input %1 \"x\" f32[N,1,2,2] symbols \"batch\",-,-,-\n"
    "const %2 \"w\" f32[2,1,1,1] = {1, -0.25}\n"
    "%3 : u8[N,1,2,2] @1 = Quantize(%1)\n"
    "%4 : i8[2,1,1,1] @2 = Quantize(%2)\n"
    "%5 \"acc\" : i32[N,2,2,2] @3 axis 1 = Conv \"conv\"(%3, %4, -) {group=1, pads=[0,0,0,0]}\n"
    "%6 : i8[N,2,2,2] @4 = Requantize(%5)\n"
    "%7 : i8[N,2,2,2] @4 = Concat(%6) {axis=1}\n"
    "%8 : f32[N,2,2,2] = Dequantize(%7)\n"
    "output \"y\" %8 symbols \"batch\",-,-,-\n";

Test(fuzz, mutated_texts_are_parsed_or_refused)
{
    uint64_t state = 20240607;
    size_t accepted = 0;
    for (size_t i = 0; i < 1500; i++) {
        QC_FREED char *text = graph_case_text(&graph_cases[i % graph_case_count]);
        accepted += try_mutation(text, &state);
    }
    for (size_t i = 0; i < 1000; i++) accepted += try_mutation(affine, &state);
    cr_expect(accepted > 25 && accepted < 2475, "%zu of 2500 accepted: the mutations are too strong or too weak",
              accepted);
}

/* Random nodes over random values: what the rules accept must verify, print and parse back. */
struct pool {
    struct qc_graph *g;
    uint64_t state;
};

static int64_t small(struct pool *p)
{
    static const int64_t odd[] = {INT64_MAX, INT64_MIN, INT32_MAX, -7, 1 << 20};
    return below(&p->state, 40) == 0 ? odd[below(&p->state, 5)] : (int64_t)below(&p->state, 6) - 1;
}

static qc_id random_constant(struct pool *p)
{
    int64_t values[8] = {0};
    struct qc_shape s = {.rank = below(&p->state, 6) ? 1 : 0, .dim = {(int64_t)below(&p->state, 9)}};
    if (s.rank == 0) s.dim[0] = 0;
    for (int i = 0; i < 8; i++) values[i] = small(p);
    OWN(qc_tensor) *t = qc_tensor_of(QC_I64, &s, values, ST);
    qc_id v = qc_graph_add_constant(p->g, NULL, t, ST);
    return v;
}

static qc_id random_input(struct pool *p)
{
    static const enum qc_dtype types[] = {QC_F32, QC_F32, QC_F32, QC_F32, QC_I64, QC_BOOL, QC_U8, QC_F16};
    struct qc_shape s = {.rank = (int)below(&p->state, 7) - 1};
    for (int i = 0; i < s.rank; i++) s.dim[i] = (int64_t)below(&p->state, 6) - 1;
    return qc_graph_add_input(p->g, "in", types[below(&p->state, 8)], &s, ST);
}

static bool random_node(struct pool *p)
{
    static const char *const names[] = {"axis",         "axes",  "perm",     "pads",         "strides",
                                        "kernel_shape", "group", "keepdims", "to",           "blocksize",
                                        "auto_pad",     "mode",  "alpha",    "output_shape", "dilations",
                                        "ceil_mode",    "start", "size",     "transB",       "num_outputs"};
    enum qc_op op = (enum qc_op)(1 + below(&p->state, QC_OP_COUNT - 1));
    const struct qc_op_info *info = qc_op_info(op);
    qc_id inputs[9];
    int64_t ints[6][6];
    struct qc_attr attrs[6];
    unsigned count = info->inputs_min, most = info->inputs_max < 9 ? info->inputs_max : 9,
             attr_count = (unsigned)below(&p->state, 4);
    if (most > count) count += (unsigned)below(&p->state, most - count + 1);
    for (unsigned i = 0; i < count; i++) {
        size_t last = p->g->value_count, how = below(&p->state, 8);
        inputs[i] = how == 0   ? random_constant(p)
                    : how == 1 ? random_input(p)
                               : (qc_id)(last < 30 ? 1 + below(&p->state, last) : last - below(&p->state, 30));
    }
    for (unsigned i = 0; i < attr_count; i++) {
        const char *name = names[(below(&p->state, 5) * 4 + i) % 20]; /* never the same twice */
        for (int k = 0; k < 6; k++) ints[i][k] = small(p);
        switch (below(&p->state, 6)) {
        case 0: attrs[i] = QC_FLOAT(name, (float)small(p) / 7); break;
        case 1: attrs[i] = QC_STRING(name, "SAME_UPPER"); break;
        case 2:
        case 3: attrs[i] = QC_INTS(name, below(&p->state, 7), ints[i]); break;
        default: attrs[i] = QC_INT(name, ints[i][0]);
        }
    }
    unsigned outputs = info->outputs_max > 1 ? 1 + (unsigned)below(&p->state, 3) : 1;
    return qc_graph_add(p->g,
                        &(struct qc_node_def)FIELDS(.op = op, .input_count = count, .output_count = outputs,
                                                    .inputs = inputs, .attr_count = attr_count, .attrs = attrs),
                        ST) != 0;
}

Test(fuzz, random_graphs_verify_and_go_round)
{
    size_t made = 0;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct qc_status st = QC_STATUS_INIT;
        struct pool p = {.g = qc_graph_new(&st), .state = seed * UINT64_C(0x9e3779b97f4a7c15)};
        for (int i = 0; i < 6; i++) random_input(&p);
        for (int i = 0; i < 300; i++) made += random_node(&p);
        cr_assert(qc_graph_add_output(p.g, "y", (qc_id)p.g->value_count, &st));
        cr_assert(qc_graph_verify(p.g, &st), "%s", st.message);
        char *once = print_graph(p.g), *twice;
        OWN(qc_graph) *h = test_graph(once);
        twice = print_graph(h);
        cr_expect_str_eq(once, twice);
        free(once);
        free(twice);
        qc_graph_free(p.g);
    }
    cr_expect_geq(made, 1000, "only %zu nodes were accepted", made);
}
