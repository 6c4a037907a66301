// SPDX-License-Identifier: Apache-2.0
#include "quantize/options/partition_options.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "graph/core/source_call.h"
#include "graph/types/number_format.h"

struct qc_type_choice qc_type_choice_of(const char *item, enum qc_option option)
{
    const char *colon = strchr(item, ':');
    const struct qc_option_choice *c = qc_option_choice_of(qc_option_info(option), item, strcspn(item, ":"));
    const struct qc_number_format *format = qc_number_format_named(c->text);
    const unsigned bits = (unsigned)strtoul(c->text + strcspn(c->text, "0123456789"), NULL, 10);
    struct qc_type_choice t = {.dtype = (enum qc_dtype)c->value, .format = format, .glob = colon ? colon + 1 : NULL};
    if (format && option == QC_OPTION_WEIGHT_TYPE) t.dtype = format->dtype;
    t.dynamic = strcmp(c->text, "dynamic") == 0;
    if (!format && bits < qc_dtype_info(t.dtype)->bits) t.bits = bits;
    return t;
}

/* Reads a list of T, then T:GLOB, ... */
static bool read_types(struct qc_type_choice *of_all, const struct qc_type_choice **out, size_t *count,
                       const struct qc_text_list *list, enum qc_option option, struct qc_arena *a, struct qc_status *st)
{
    struct qc_type_choice *choices = QC_NEW_ARRAY(a, struct qc_type_choice, list->count, st);
    if (!choices) return false;
    *of_all = qc_type_choice_of(list->items[0], option);
    for (size_t i = 1; i < list->count; i++) choices[i - 1] = qc_type_choice_of(list->items[i], option);
    *out = choices;
    *count = list->count - 1;
    return true;
}

bool qc_options_take_blocks(const struct qc_options *o)
{
    const struct qc_type_choice activation =
                                    qc_type_choice_of(o->types.activations.items[0], QC_OPTION_ACTIVATION_TYPE),
                                weight = qc_type_choice_of(o->types.weights.items[0], QC_OPTION_WEIGHT_TYPE);
    return !o->graph.runs_on->no_blocks || (qc_options_write(o, "tflite") && activation.dtype == QC_NONE &&
                                            !activation.format && weight.dtype == QC_I4);
}

/* If all given quantizers have one type, new quantizers get this type too, unless an option says otherwise. */
static void take_given_types(struct qc_partition_options *out, const struct qc_given_values *given,
                             const struct qc_options *o)
{
    enum qc_dtype activation = QC_NONE, weight = QC_NONE;
    bool one[2] = {true, true};
    for (size_t i = 0; i < given->count; i++) {
        const bool is_weight = given->of[i].weight != NULL;
        enum qc_dtype *t = is_weight ? &weight : &activation, is = given->of[i].parameters.dtype;
        one[is_weight] = one[is_weight] && (*t == QC_NONE || *t == is);
        *t = is;
    }
    if (activation != QC_NONE && one[0] && !o->given[QC_OPTION_ACTIVATION_TYPE]) out->activation.dtype = activation;
    if (weight != QC_NONE && one[1] && !o->given[QC_OPTION_WEIGHT_TYPE]) out->weight.dtype = weight;
}

/* With activations of fewer than 8 bits the first and last layers have 8. */
static void set_edges(struct qc_partition_options *out, const struct qc_options *o)
{
    const struct qc_dtype_info *activation = qc_dtype_info(out->activation.dtype),
                               *weight = qc_dtype_info(out->weight.dtype);
    if (out->activation.dtype == QC_NONE || activation->is_float || activation->bits >= 8 || o->types.edges == QC_NONE)
        return;
    out->edge_activation = o->types.edges != QC_I32 ? o->types.edges : activation->is_signed ? QC_I8 : QC_U8;
    if (out->weight.dtype != QC_NONE && !weight->is_float && weight->bits < 8)
        out->edge_weight = weight->is_signed ? QC_I8 : QC_U8;
}

bool qc_partition_options_of(struct qc_partition_options *out, const struct qc_options *o,
                             const struct qc_given_values *given, struct qc_arena *a, struct qc_status *st)
{
    struct qc_type_choice activation, weight;
    *out = QC_PARTITION_INIT;
    out->activation.symmetry = o->types.symmetric_activations ? QC_SYMMETRIC : QC_ASYMMETRIC;
    out->weight.symmetry = o->types.symmetric_weights ? QC_SYMMETRIC : QC_ASYMMETRIC;
    /* Weights in blocks use their lowest level unless --range is given: no integer sum has to hold its products. */
    out->weight.restricted = o->types.range == QC_RANGE_RESTRICTED;
    out->blocks_restricted = out->weight.restricted && o->given[QC_OPTION_RANGE];
    out->target = o->graph.runs_on;
    out->overflow_fix = o->method.overflow_fix;
    /* Blocks of few bits have zero points unless --symmetric is given: a zero point gains more than the same bits
       elsewhere. */
    out->few_have_zeros = !o->given[QC_OPTION_SYMMETRIC];
    out->weight.per_channel = !o->types.per_tensor;
    out->one_scale_joins = o->graph.require_integer;
    out->activation.per_channel = o->types.per_channel_activations;
    out->processor = o->graph.processor;
    out->unplaced = o->graph.formats.count && !qc_options_write_integers(o);
    out->qoperator = qc_options_write(o, "qoperator");
    out->prefer = o->graph.require_integer ? QC_PREFER_INTEGERS
                  : o->demand.size && !o->given[QC_OPTION_PREFER] && o->graph.prefer == QC_PREFER_SPEED
                      ? QC_PREFER_SIZE
                      : o->graph.prefer;
    out->only_count = o->graph.only.count;
    out->only = o->graph.only.items;
    out->skip_count = o->graph.skip.count;
    out->skip = o->graph.skip.items;
    out->cache = o->types.kv;
    out->weight_block = o->types.weight_block;
    if (!read_types(&activation, &out->activation_types, &out->activation_type_count, &o->types.activations,
                    QC_OPTION_ACTIVATION_TYPE, a, st) ||
        !read_types(&weight, &out->weight_types, &out->weight_type_count, &o->types.weights, QC_OPTION_WEIGHT_TYPE, a,
                    st))
        return false;
    out->activation.dtype = activation.dtype;
    out->activation.format = activation.format;
    out->dynamic = activation.dynamic;
    out->dynamic_int4 = o->graph.formats.count == 1 && strcmp(o->graph.formats.items[0], "tflite") == 0;
    out->weight.dtype = weight.dtype;
    out->weight.bits = weight.bits;
    out->weight.format = weight.format;
    if (out->weight.format) out->weight_block = out->weight.format->block;
    if (!qc_options_take_blocks(o)) out->weight_block = 0;
    if (given && !o->method.encodings) take_given_types(out, given, o);
    out->simulates_hardware = o->graph.bias == QC_BIAS_NARROWED || o->types.accumulator;
    set_edges(out, o);
    out->given = given;
    return true;
}

struct qc_port_choice qc_io_type_of(bool *named, const struct qc_options *o, const char *name)
{
    const char *item = o->types.io.items[0];
    *named = false;
    for (size_t i = 1; i < o->types.io.count; i++) {
        if (fnmatch(strchr(o->types.io.items[i], ':') + 1, name, 0) != 0) continue;
        item = o->types.io.items[i];
        *named = true;
    }
    bool state = false; /* an input or output of --state */
    for (size_t i = 0; i < o->data.states.count; i++) {
        const char *text = o->data.states.items[i], *equals = strchr(text, '=');
        const size_t length = (size_t)(equals - text);
        state = state || (strlen(name) == length && memcmp(text, name, length) == 0) || strcmp(equals + 1, name) == 0;
    }
    /* The two ends of a state would have scales of their own. */
    if (!*named && state) return (struct qc_port_choice){.integer = false};
    const enum qc_dtype t = qc_type_choice_of(item, QC_OPTION_IO_TYPE).dtype;
    if (t == QC_BOOL) return (struct qc_port_choice){.image = true};
    return (struct qc_port_choice){.integer = t != QC_F32, .dtype = t == QC_F32 ? QC_NONE : t};
}

bool qc_partition_stores_ports(struct qc_partition_options *out, const struct qc_options *o, const struct qc_graph *g,
                               struct qc_arena *a, struct qc_status *st)
{
    const char **names = QC_NEW_ARRAY(a, const char *, g->input_count + g->output_count, st);
    bool named;
    if (!names) return false;
    out->stored = names;
    for (size_t i = 0; i < g->input_count + g->output_count; i++) {
        const char *name = i < g->input_count ? g->inputs[i].name : g->outputs[i - g->input_count].name;
        const struct qc_port_choice end = qc_io_type_of(&named, o, name);
        if (end.dtype != QC_NONE) names[out->stored_count++] = name;
        out->unplaced = out->unplaced || end.integer || end.image;
    }
    return true;
}

bool qc_partition_keeps_calls(struct qc_partition_options *out, const struct qc_options *o, const struct qc_graph *g,
                              struct qc_arena *a, struct qc_status *st)
{
    static const char *const ops[] = {"com.microsoft::MatMulNBits", "com.microsoft::GatherBlockQuantized"};
    const char **kept = QC_NEW_ARRAY(a, const char *, g->call_count, st);
    if (!kept) return false;
    out->kept = kept;
    for (size_t i = 0; i < g->call_count && !o->given[QC_OPTION_WEIGHT_TYPE] && !o->graph.require_integer; i++)
        for (size_t k = 0; g->calls[i].op && k < sizeof ops / sizeof *ops; k++) {
            if (strcmp(g->calls[i].op, ops[k]) != 0) continue;
            if (!(kept[out->kept_count++] = qc_arena_printf(a, st, "%s/", g->calls[i].label))) return false;
        }
    return true;
}
