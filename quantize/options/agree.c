// SPDX-License-Identifier: Apache-2.0
#include "quantize/options/changes.h"

#include <math.h>
#include <string.h>

#include "base/command.h"
#include "graph/types/number_format.h"
#include "quantize/options/partition_options.h"

/* Returns true if activations are quantized, whose ranges need samples. */
static bool needs_samples(const struct qc_options *o)
{
    bool needs = false;
    for (size_t i = 0; i < o->types.activations.count; i++)
        needs |= qc_type_choice_of(o->types.activations.items[i], QC_OPTION_ACTIVATION_TYPE).dtype != QC_NONE;
    return needs;
}

/* Returns true if the list has a float type, or begins with a block format such as mxfp4. *named: a block format is
   given by name. */
static bool has_floats(bool *named, const struct qc_text_list *types, enum qc_option option)
{
    bool floats = false;
    *named = false;
    for (size_t i = 0; i < types->count; i++) {
        const struct qc_type_choice t = qc_type_choice_of(types->items[i], option);
        floats = floats || (t.format ? i == 0 : qc_is_small_float(t.dtype));
        *named = *named || (t.format && i > 0);
    }
    return floats;
}

bool qc_options_scale(const struct qc_options *o)
{
    return o->method.scale_channels != QC_CHANNELS_AUTO && o->method.scale_channels != QC_CHANNELS_OFF;
}

bool qc_options_agree(const struct qc_options *o, const struct qc_job_inputs *in, struct qc_status *st)
{
    const bool narrowed = o->graph.bias == QC_BIAS_NARROWED;
    const bool data = qc_has_data(&in->data), stats = qc_has_statistics(in);
    bool named, unused;
    const bool real_inputs = has_floats(&unused, &o->types.activations, QC_OPTION_ACTIVATION_TYPE),
               floats = has_floats(&named, &o->types.weights, QC_OPTION_WEIGHT_TYPE) || real_inputs,
               demand = qc_options_demand(o), format = qc_number_format_named(o->types.weights.items[0]) != NULL;
    bool others = false; /* a format is written that has no 4-bit or 8-bit floats */
    for (size_t i = 0; i < o->graph.formats.count; i++)
        others =
            others || (strcmp(o->graph.formats.items[i], "qdq") != 0 && strcmp(o->graph.formats.items[i], "text") != 0);
    const struct {
        bool wrong;
        const char *text;
    } rows[] = {
        {!data && !stats && needs_samples(o),
         "quantize needs --data FILE with samples of what the model is used on: HDF5, .npz, .npy, or a folder of "
         "images; or --stats FILE from 'qcalib collect'. Only --activation-type dynamic and none need no samples"},
        {!data && !stats && o->types.kv != QC_NONE,
         "--kv-type needs samples for the scales of caches: give --data FILE, or --stats FILE from 'qcalib collect'"},
        {!data && !stats && o->method.propagate, "--propagate needs --data FILE"},
        {!data && o->method.advice == QC_ADVISE_ON, "--advice on runs samples: give --data FILE"},
        {!data && !stats && o->run.checkpoint, "--checkpoint is for what is collected from --data"},
        {stats && o->run.checkpoint, "--checkpoint keeps statistics of --data FILE; --stats FILE is complete already"},
        {!isnan(o->demand.max_drop) && !qc_has_data(&in->eval) && !o->data.metric,
         "--max-drop needs --eval FILE with labelled data, or --metric"},
        {o->data.metric && strstr(o->data.metric, "{outputs}") && !qc_has_data(&in->eval),
         "--metric with {outputs} needs --eval FILE with the samples to run"},
        {!isnan(o->demand.max_nll) && !qc_has_data(&in->eval), "--max-nll needs --eval FILE with labels"},
        {!isnan(o->demand.min_sqnr) && !data && !qc_has_data(&in->eval),
         "--min-sqnr runs samples: give --data FILE or --eval FILE"},
        {o->method.propagate && stats,
         "--propagate runs samples through the quantized part of the network, but --stats FILE "
         "was collected in the float network; give --data instead of --stats"},
        {o->method.propagate && (o->run.checkpoint || in->team),
         "--propagate needs every sample in one run from the first "
         "quantizer to the last; leave out --checkpoint and MPI"},
        {o->method.propagate && o->types.accumulator,
         "--accumulator raises scales of weights after --propagate has chosen the "
         "quantizers with other weights; leave out one"},
        {!data && o->types.accumulator && o->types.accumulator_bound != QC_BOUND_PROVEN,
         "--accumulator needs the sums of the data, which --stats FILE does not hold; give --data too, or "
         "--accumulator-bound proven"},
        {o->types.per_tensor && o->types.weight_block,
         "--weight-block gives weights many scales, --per-tensor one; leave out one"},
        {o->demand.size && demand,
         "--size chooses types by the size of the file, --max-drop, --min-sqnr and --max-nll by the "
         "loss; leave out one"},
        {o->demand.size && o->method.propagate,
         "--size measures layers one by one in the float network; leave out --propagate"},
        {o->demand.size &&
             (strcmp(o->types.weights.items[0], "none") == 0 || strcmp(o->types.weights.items[0], "int16") == 0),
         "--size chooses the bits of weights; with it, --weight-type int16 and none are only "
         "for named nodes (--weight-type int16:NODE)"},
        {o->demand.size && !qc_options_write_integers(o),
         "--size needs a format with integers: give --format qdq or qoperator"},
        {o->demand.size && in->team, "--size quantizes several times, which MPI does not support; leave out one"},
        {qc_options_scale(o) && (o->method.propagate || o->types.per_tensor || (!data && !stats)),
         "--scale-channels awq, smooth and free need second moments of the float network: give --data or --stats, and "
         "leave "
         "out --propagate and --per-tensor (--equalize on works with --per-tensor)"},
        {o->demand.benchmark && strcmp(o->demand.benchmark, QC_BENCHMARK_OWN) != 0 &&
             !strstr(o->demand.benchmark, QC_COMMAND_FILE),
         "--benchmark needs 'onnxruntime' or a command with {} in place of the model file: --benchmark 'sh measure.sh "
         "{}'"},
        {o->demand.benchmark &&
             (o->demand.size || o->method.propagate || o->graph.require_integer || o->graph.only.count || in->team),
         "--benchmark chooses what stays in float, and quantizes several times; leave out --size, --propagate, "
         "--require-integer, --only and MPI"},
        {o->demand.benchmark && !needs_samples(o),
         "--benchmark needs activations that are quantized with fixed scales; leave "
         "out --activation-type dynamic and none"},
        {o->demand.benchmark && !qc_options_write_integers(o),
         "--benchmark needs a format with integers: give --format qdq or qoperator"},
        {floats && others, "4-bit and 8-bit floats and block formats (mxfp4, nvfp4, ...) are only written as "
                           "QuantizeLinear and DequantizeLinear; give --format qdq"},
        {floats && (o->types.accumulator || narrowed || o->graph.require_integer),
         "4-bit and 8-bit floats are multiplied in float32, without an integer accumulator; leave out --accumulator, "
         "--bias narrowed and --require-integer"},
        {real_inputs && o->method.propagate,
         "--propagate stores intermediate results as integers; leave out float types in --activation-type"},
        {floats && o->demand.size,
         "--size chooses bits of integers; leave out float types in --weight-type and --activation-type"},
        {floats && o->demand.benchmark,
         "--benchmark moves operators between integers and float; leave out float types"},
        {named, "formats in blocks, such as mxfp4, are for all weights: give --weight-type mxfp4, and other types for "
                "named nodes (--weight-type int8:NODE)"},
        {format && o->types.weight_block, "this --weight-type has its own block size; leave out --weight-block"},
        {format && o->types.per_tensor, "this --weight-type has a scale for each block; leave out --per-tensor"},
        {narrowed && o->method.bias_correction && o->given[QC_OPTION_BIAS_CORRECTION],
         "--bias-correction on changes biases in the accumulator, but --bias narrowed has none there; leave out one"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].wrong) return qc_fail(st, QC_USAGE, "%s", rows[i].text);
    return true;
}
