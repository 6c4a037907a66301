// SPDX-License-Identifier: Apache-2.0
#include "quantize/options/scheme_options.h"

#include <stdlib.h>
#include <string.h>

/* 3-bit and 2-bit types are subsets of the levels of a 4-bit type, which files and runtimes support. */
static struct qc_type_choice type_named(const char *name, bool weight)
{
    static const struct {
        const char *name;
        enum qc_dtype type;
        unsigned bits;
    } few[] = {{"int3", QC_I4, 3}, {"uint3", QC_U4, 3}, {"int2", QC_I4, 2}, {"uint2", QC_U4, 2}};
    if (strcmp(name, "dynamic") == 0) return (struct qc_type_choice){.dtype = QC_NONE, .dynamic = true};
    for (size_t i = 0; i < sizeof few / sizeof *few; i++)
        if (strcmp(name, few[i].name) == 0) return (struct qc_type_choice){.dtype = few[i].type, .bits = few[i].bits};
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

/* --size begins with 4-bit weights. The glob "*" includes embedding tables, which have at least 8 bits by default. */
static bool begin_size(struct qc_partition_options *o, struct qc_arena *a, struct qc_status *st)
{
    struct qc_type_choice *types = QC_NEW_ARRAY(a, struct qc_type_choice, o->weight_type_count + 1, st);
    if (!types) return false;
    o->weight.dtype = qc_dtype_info(o->weight.dtype)->is_signed ? QC_I4 : QC_U4;
    o->weight.bits = 0;
    types[0] = (struct qc_type_choice){.dtype = o->weight.dtype, .glob = "*"};
    for (size_t i = 0; i < o->weight_type_count; i++) types[i + 1] = o->weight_types[i];
    o->weight_types = types;
    o->weight_type_count++;
    return true;
}

bool qc_scheme_options(struct qc_partition_options *out, const struct qc_options *o, struct qc_arena *a,
                       struct qc_status *st)
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
    return !o->size || begin_size(out, a, st);
}
