// SPDX-License-Identifier: Apache-2.0
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/shown.h"
#include "base/words.h"
#include "graph/core/tables.h"
#include "graph/text/text.h"
#include "graph/types/number_format.h"

static void print_string(FILE *f, const char *s)
{
    fputc('"', f);
    while (*s) {
        uint32_t code;
        const size_t n = qc_utf8(&code, s), bytes = n ? n : 1;
        const bool unprintable = !n || qc_unprintable(code);
        if (*s == '"' || *s == '\\')
            fprintf(f, "\\%c", *s);
        else if (*s == '\n')
            fputs("\\n", f);
        else if (*s == '\t')
            fputs("\\t", f);
        else
            for (size_t i = 0; i < bytes; i++)
                fprintf(f, unprintable ? "\\x%02x" : "%c", (unsigned)(unsigned char)s[i]);
        s += bytes;
    }
    fputc('"', f);
}

/* Prints the bits of a NaN that differ from the usual quiet one. */
static void print_nan(FILE *f, uint64_t bits, uint64_t usual)
{
    if (bits == usual)
        fputs("nan", f);
    else
        fprintf(f, "nan(%" PRIx64 ")", bits);
}

static void print_any_float(FILE *f, float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    if (isnan(v))
        print_nan(f, bits, 0x7fc00000u);
    else
        fputs(qc_float_text((char[QC_NUMBER_TEXT]){""}, v), f);
}

static void print_shape(FILE *f, const struct qc_shape *s)
{
    fputc('[', f);
    if (s->rank < 0) fputc('?', f);
    for (int i = 0; i < s->rank; i++) {
        if (i) fputc(',', f);
        if (s->dim[i] == QC_FREE)
            fputc('N', f);
        else
            fprintf(f, "%" PRId64, s->dim[i]);
    }
    fputc(']', f);
}

static void print_data(FILE *f, const struct qc_tensor *t, const struct qc_text_options *options)
{
    if (t->count > options->constants) {
        fprintf(f, "... fnv %016" PRIx64, qc_hash_bytes(QC_HASH_START, t->data, t->bytes));
        return;
    }
    fputc('{', f);
    for (size_t i = 0; i < t->count; i++) {
        if (i) fputs(", ", f);
        uint64_t bits = 0;
        double v = qc_dtype_info(t->dtype)->is_float ? qc_tensor_float(t, i) : 0;
        memcpy(&bits, (const char *)t->data + i * qc_dtype_size(t->dtype), qc_dtype_size(t->dtype));
        if (t->dtype == QC_F64) {
            if (isnan(v))
                print_nan(f, bits, UINT64_C(0x7ff8000000000000));
            else
                fputs(qc_double_text((char[QC_NUMBER_TEXT]){""}, v), f);
        } else if (qc_dtype_info(t->dtype)->is_float) {
            if (isnan(v) && qc_is_small_float(t->dtype))
                print_nan(f, bits, UINT64_MAX);
            else if (isnan(v))
                print_nan(f, bits, t->dtype == QC_F16 ? 0x7e00u : t->dtype == QC_BF16 ? 0x7fc0u : 0x7fc00000u);
            else
                fputs(qc_float_text((char[QC_NUMBER_TEXT]){""}, (float)v), f);
        } else if (t->dtype == QC_U64) {
            fprintf(f, "%" PRIu64, bits);
        } else {
            fprintf(f, "%" PRId64, qc_tensor_int(t, i));
        }
    }
    fputc('}', f);
}

static void print_type(FILE *f, const struct qc_type *t)
{
    fputs(qc_dtype_info(t->dtype)->name, f);
    print_shape(f, &t->shape);
    if (t->qparams == QC_REAL) return;
    fprintf(f, " @%u", t->qparams);
    if (t->axis) fprintf(f, " axis %d", t->axis);
}

static void print_qparams(FILE *f, const struct qc_graph *g, qc_id id)
{
    static const char *const states[] = {
        [QC_QPARAMS_UNBOUND] = "unbound", [QC_QPARAMS_OFF] = "off", [QC_QPARAMS_BOUND] = "bound"};
    const struct qc_qparams *s = &g->qparams_of[id];
    if (s->kind == QC_QPARAMS_PRODUCT) {
        fprintf(f, "qparams @%u product @%u @%u\n", id, s->a, s->b);
        return;
    }
    fprintf(f, "qparams @%u quantizer ", id);
    print_string(f, s->name);
    fprintf(f, " %s %s%s%s%s", qc_dtype_info(s->dtype)->name, s->symmetry == QC_SYMMETRIC ? "symmetric" : "asymmetric",
            s->is_weight ? " weight" : "", s->restricted ? " restricted" : "", s->per_channel ? " per_channel" : "");
    if (s->power_of_two) fputs(" power_of_two", f);
    if (s->at_load) fputs(" at_load", f);
    if (s->bits) fprintf(f, " bits %u", s->bits);
    if (s->block) fprintf(f, " block %" PRId64, s->block);
    if (s->pair_limit) fprintf(f, " pairs %" PRId32, s->pair_limit);
    fprintf(f, " %s", states[s->state]);
    if (s->state == QC_QPARAMS_BOUND) {
        fputs(" scale", f);
        for (size_t i = 0; i < s->count; i++) {
            fputc(' ', f);
            print_any_float(f, s->scale[i]);
        }
        fputs(" zero", f);
        for (size_t i = 0; i < s->count; i++) fprintf(f, " %" PRId32, s->zero_point[i]);
    }
    if (s->observed_count) fputs(" observed", f);
    for (size_t i = 0; i < s->observed_count; i++) fprintf(f, " %%%u", s->observed[i]);
    fputc('\n', f);
}

static void print_name(FILE *f, const char *name)
{
    if (!name) return;
    fputc(' ', f);
    print_string(f, name);
}

static void print_symbols(FILE *f, const struct qc_port *p, int rank)
{
    bool any = false;
    for (int i = 0; i < rank; i++) any = any || p->symbol[i];
    if (!any) return;
    fputs(" symbols ", f);
    for (int i = 0; i < rank; i++) {
        if (i) fputc(',', f);
        if (p->symbol[i])
            print_string(f, p->symbol[i]);
        else
            fputc('-', f);
    }
}

static void print_attr(FILE *f, const struct qc_attr *a, const struct qc_text_options *options)
{
    bool finite = a->kind == QC_ATTR_FLOAT && isfinite(a->f);
    /* Prints the name bare if it is a word of the text form, else quoted. */
    size_t n = 0;
    while (isalnum((unsigned char)a->name[n]) || a->name[n] == '_') n++;
    if (n && !a->name[n])
        fputs(a->name, f);
    else
        print_string(f, a->name);
    fputc('=', f);
    switch (a->kind) {
    case QC_ATTR_INT: fprintf(f, "%" PRId64, a->i); break;
    case QC_ATTR_FLOAT:
        print_any_float(f, a->f);
        if (finite) fputc('f', f);
        break;
    case QC_ATTR_STRING: print_string(f, a->s); break;
    case QC_ATTR_INTS:
        fputc('[', f);
        for (size_t i = 0; i < a->count; i++) fprintf(f, "%s%" PRId64, i ? "," : "", a->ints[i]);
        fputc(']', f);
        break;
    case QC_ATTR_FLOATS:
        fputs("floats[", f);
        for (size_t i = 0; i < a->count; i++) {
            if (i) fputc(',', f);
            print_any_float(f, a->floats[i]);
        }
        fputc(']', f);
        break;
    case QC_ATTR_STRINGS:
        fputs("strings[", f);
        for (size_t i = 0; i < a->count; i++) {
            if (i) fputc(',', f);
            print_string(f, a->strings[i]);
        }
        fputc(']', f);
        break;
    case QC_ATTR_TENSOR:
        fputs(qc_dtype_info(a->tensor->dtype)->name, f);
        print_shape(f, &a->tensor->shape);
        print_data(f, a->tensor, options);
        break;
    case QC_ATTR_GRAPH: break; /* print_bodies */
    }
}

static void print_graph(FILE *f, const struct qc_graph *g, const struct qc_text_options *options);

/* Bodies follow the attributes, each as a whole graph: body "then_branch" { ... } */
static void print_bodies(FILE *f, const struct qc_node *n, const struct qc_text_options *options)
{
    for (unsigned i = 0; i < n->attr_count; i++) {
        if (n->attrs[i].kind != QC_ATTR_GRAPH) continue;
        fputs(" body ", f);
        print_string(f, n->attrs[i].name);
        fputs(" {\n", f);
        print_graph(f, n->attrs[i].graph, options);
        fputc('}', f);
    }
}

static void print_node(FILE *f, const struct qc_graph *g, const struct qc_node *n,
                       const struct qc_text_options *options)
{
    bool any = false;
    for (unsigned k = 0; k < n->output_count; k++) {
        const struct qc_value *v = &g->values[n->outputs + k];
        fprintf(f, "%s%%%u", k ? ", " : "", n->outputs + k);
        print_name(f, v->name);
        fputs(" : ", f);
        print_type(f, &v->type);
    }
    fputs(" = ", f);
    const char *name = qc_op_info(n->op)->name;
    if (g->simulated && qc_op_is_conversion(n->op))
        fprintf(f, "simulated_%c%s", tolower((unsigned char)name[0]), name + 1);
    else
        fputs(name, f);
    print_name(f, n->name);
    fputc('(', f);
    for (unsigned i = 0; i < n->input_count; i++) {
        if (i) fputs(", ", f);
        if (n->inputs[i])
            fprintf(f, "%%%u", n->inputs[i]);
        else
            fputc('-', f);
    }
    fputc(')', f);
    for (unsigned i = 0; i < n->attr_count; i++) {
        if (n->attrs[i].kind == QC_ATTR_GRAPH) continue;
        fputs(any ? ", " : " {", f);
        print_attr(f, &n->attrs[i], options);
        any = true;
    }
    if (any) fputc('}', f);
    print_bodies(f, n, options);
    fputc('\n', f);
}

/* Prints values in the order of their ids; a parser that adds them in this order gets the same ids. */
static void print_values(FILE *f, const struct qc_graph *g, const struct qc_text_options *options)
{
    size_t input = 0;
    for (qc_id id = 1; id <= g->value_count; id++) {
        const struct qc_value *v = &g->values[id];
        switch (v->kind) {
        case QC_VALUE_INPUT:
            fprintf(f, "input %%%u", id);
            print_name(f, v->name);
            fputc(' ', f);
            print_type(f, &v->type);
            while (input < g->input_count && g->inputs[input].value < id) input++;
            if (input < g->input_count && g->inputs[input].value == id)
                print_symbols(f, &g->inputs[input], v->type.shape.rank);
            fputc('\n', f);
            break;
        case QC_VALUE_CONSTANT:
            fprintf(f, "const %%%u", id);
            print_name(f, v->name);
            fputc(' ', f);
            print_type(f, &(struct qc_type){.dtype = v->constant->dtype,
                                            .shape = v->type.shape,
                                            .qparams = v->type.qparams,
                                            .axis = v->type.axis});
            fputs(" = ", f);
            print_data(f, v->constant, options);
            fputc('\n', f);
            break;
        case QC_VALUE_RESULT:
            if (v->output == 0) print_node(f, g, &g->nodes[v->node], options);
            break;
        }
    }
}

/* Recursion is bounded by QC_BODY_DEPTH_MAX. */
static void print_graph(FILE *f, const struct qc_graph *g, const struct qc_text_options *options)
{
    fputs("graph ", f);
    print_string(f, g->name);
    fprintf(f, " opset %d%s\n", g->opset, g->simulated ? " simulated" : "");
    for (qc_id s = 1; s <= g->qparams_count; s++) print_qparams(f, g, s);
    print_values(f, g, options);
    for (size_t i = 0; i < g->output_count; i++) {
        const struct qc_port *p = &g->outputs[i];
        fputs("output ", f);
        print_string(f, p->name);
        fprintf(f, " %%%u", p->value);
        print_symbols(f, p, g->values[p->value].type.shape.rank);
        fputc('\n', f);
    }
}

char *qc_graph_print(const struct qc_graph *g, const struct qc_text_options *options, struct qc_status *st)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    if (!f) {
        qc_fail_memory(st, 4096);
        return NULL;
    }
    print_graph(f, g, options);
    bool failed = ferror(f) != 0;
    if (fclose(f) != 0 || failed) {
        free(text);
        qc_fail_memory(st, size);
        return NULL;
    }
    return text;
}
