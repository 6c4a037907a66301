// SPDX-License-Identifier: Apache-2.0
#include "quantize/options/partition_options.h"

#include <stdlib.h>
#include <string.h>

#include "graph/types/number_format.h"

/* Types whose levels are part of those of a type that files and runtimes support. */
static struct qc_type_choice type_named(const char *name, bool weight)
{
    static const struct {
        const char *name;
        enum qc_dtype type;
        unsigned bits;
    } parts[] = {{"int14", QC_I16, 14}, {"int12", QC_I16, 12}, {"int10", QC_I16, 10}, {"int7", QC_I8, 7},
                 {"uint7", QC_U8, 7},   {"int6", QC_I8, 6},    {"uint6", QC_U8, 6},   {"int5", QC_I8, 5},
                 {"uint5", QC_U8, 5},   {"int3", QC_I4, 3},    {"uint3", QC_U4, 3},   {"int2", QC_I4, 2},
                 {"uint2", QC_U4, 2}};
    if (strcmp(name, "dynamic") == 0) return (struct qc_type_choice){.dtype = QC_NONE, .dynamic = true};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(name, parts[i].name) == 0)
            return (struct qc_type_choice){.dtype = parts[i].type, .bits = parts[i].bits};
    const struct qc_number_format *format = qc_number_format_named(name);
    if (format) return (struct qc_type_choice){.dtype = weight ? format->dtype : QC_NONE, .format = format};
    return (struct qc_type_choice){.dtype = qc_dtype_from_name(name)};
}

/* Reads a list of T, then T:GLOB, ... */
static bool read_types(struct qc_type_choice *of_all, const struct qc_type_choice **out, size_t *count,
                       const struct qc_text_list *list, bool weight, struct qc_arena *a, struct qc_status *st)
{
    struct qc_type_choice *choices = QC_NEW_ARRAY(a, struct qc_type_choice, list->count, st);
    if (!choices) return false;
    *of_all = type_named(list->items[0], weight);
    for (size_t i = 1; i < list->count; i++) {
        const char *colon = strchr(list->items[i], ':'),
                   *name = qc_arena_strndup(a, list->items[i], (size_t)(colon - list->items[i]), st);
        if (!name) return false;
        choices[i - 1] = type_named(name, weight);
        choices[i - 1].glob = colon + 1;
    }
    *out = choices;
    *count = list->count - 1;
    return true;
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

bool qc_partition_options_of(struct qc_partition_options *out, const struct qc_options *o,
                             const struct qc_given_values *given, struct qc_arena *a, struct qc_status *st)
{
    struct qc_type_choice activation, weight;
    *out = QC_PARTITION_INIT;
    out->activation.symmetry = o->symmetric_activations ? QC_SYMMETRIC : QC_ASYMMETRIC;
    out->weight.symmetry = o->symmetric_weights ? QC_SYMMETRIC : QC_ASYMMETRIC;
    /* Weights in blocks use their lowest level unless --range is given: no integer sum has to hold its products. */
    out->weight.restricted = strcmp(o->range, "restricted") == 0;
    out->blocks_restricted = out->weight.restricted && o->given[QC_OPTION_RANGE];
    out->power_of_two = o->runs_on->power_of_two;
    out->pads_channels = o->runs_on->pads_channels;
    out->overflow_fix = strcmp(o->overflow_fix, "auto") == 0           ? QC_OVERFLOW_FIX_PAIRS
                        : strcmp(o->overflow_fix, "reduce-range") == 0 ? QC_OVERFLOW_FIX_REDUCE_RANGE
                                                                       : QC_OVERFLOW_FIX_OFF;
    /* Blocks of few bits have zero points unless --symmetric is given: a zero point gains more than the same bits
       elsewhere. */
    out->few_have_zeros = !o->given[QC_OPTION_SYMMETRIC];
    out->weight.per_channel = !o->per_tensor;
    out->one_scale_joins = o->require_integer;
    out->activation.per_channel = o->per_channel_activations;
    out->prefer = strcmp(o->prefer, "integers") == 0 || o->require_integer                     ? QC_PREFER_INTEGERS
                  : strcmp(o->prefer, "size") == 0 || (o->size && !o->given[QC_OPTION_PREFER]) ? QC_PREFER_SIZE
                                                                                               : QC_PREFER_SPEED;
    out->float_results = o->runs_on->float_results && out->prefer != QC_PREFER_INTEGERS;
    out->only_count = o->only.count;
    out->only = o->only.items;
    out->skip_count = o->skip.count;
    out->skip = o->skip.items;
    out->cache = qc_dtype_from_name(o->kv_type);
    out->weight_block = strtoll(o->weight_block, NULL, 10); /* 0 for "none" */
    if (!read_types(&activation, &out->activation_types, &out->activation_type_count, &o->activation_types, false, a,
                    st) ||
        !read_types(&weight, &out->weight_types, &out->weight_type_count, &o->weight_types, true, a, st))
        return false;
    out->activation.dtype = activation.dtype;
    out->activation.format = activation.format;
    out->dynamic = activation.dynamic;
    for (size_t i = 0; i < o->formats.count; i++)
        out->dynamic_recurrent = out->dynamic_recurrent || strcmp(o->formats.items[i], "qoperator") == 0;
    out->tables_apart = !o->runs_on->onnxruntime;
    out->weight.dtype = weight.dtype;
    out->weight.bits = weight.bits;
    out->weight.format = weight.format;
    if (out->weight.format) out->weight_block = out->weight.format->block;
    if (o->runs_on->no_blocks) out->weight_block = 0;
    if (given) take_given_types(out, given, o);
    out->given = given;
    return true;
}
