// SPDX-License-Identifier: Apache-2.0
/* Encodings: JSON with the parameters of each tensor, by its name in the float model, as AIMET writes it (version
   0.6.1) and QNN's converter reads it (--quantization_overrides). Integers there are unsigned and offset is the lowest
   level: real = scale * (q + offset), q from 0. Biases are omitted: the reader derives them from the accumulator's
   scale. docs/targets.md. */
#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "export/formats/exporter.h"
#include "graph/core/parameters.h"
#include "graph/core/uses.h"

static bool is_quantized(const struct qc_parameters *p)
{
    return p->affine && p->kind == QC_QPARAMS_QUANTIZER;
}

/* Adds parameters of a quantizer under a name, unless the name exists. */
static void add_encoding(struct qc_json *to, const char *name, const struct qc_graph *g, const struct qc_parameters *p)
{
    if (!is_quantized(p) || p->block || !name || qc_json_get(to, name)) return;
    struct qc_json *list = qc_json_array();
    for (size_t i = 0; i < p->count; i++) {
        const struct qc_qparams *s = &g->qparams_of[p->qparams];
        const struct qc_levels all = qc_levels_of(p->dtype, false);
        const double scale = (double)p->scale[i];
        const int64_t offset = (int64_t)all.lo - p->zero_point[i];
        struct qc_json *o = qc_json_object();
        qc_json_put(o, "bitwidth %u dtype %s is_symmetric %s max %g min %g", qc_dtype_info(p->dtype)->bits, "int",
                    s->symmetry == QC_SYMMETRIC ? "True" : "False", scale * (double)(all.hi - p->zero_point[i]),
                    scale * (double)offset);
        qc_json_set(o, "offset", qc_json_integer(offset));
        qc_json_set(o, "scale", qc_json_number(scale));
        qc_json_add(list, o);
    }
    qc_json_set(to, name, list);
}

/* *out is owned (qc_json_free), also after a failure. Fails if the source is no float model. */
static bool encodings_of(struct qc_json **out, const struct qc_export_source *source, struct qc_status *st)
{
    *out = NULL;
    if (!qc_export_has_float(source, st)) return false;
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_query query;
    if (!qc_query_of(&query, source->expanded, a, st)) return false;
    const struct qc_graph *g = source->expanded;
    struct qc_json *activations = qc_json_object(), *weights = qc_json_object(), *root = qc_json_object();
    for (size_t i = 0; i < g->input_count; i++) {
        const struct qc_parameters p = qc_query_taken(&query, g->inputs[i].value);
        add_encoding(activations, g->inputs[i].name, g, &p);
    }
    QC_EACH_NODE(n, g) {
        for (unsigned i = 0; i < n->input_count; i++) {
            const qc_id constant = qc_quantized_constant(g, n->inputs[i]);
            const struct qc_parameters p = qc_value_parameters(g, n->inputs[i]);
            if (constant) add_encoding(weights, g->values[constant].name, g, &p);
        }
        for (unsigned k = 0; k < n->output_count && !qc_quantized_constant(g, n->outputs); k++) {
            const struct qc_parameters p = qc_query_end(&query, n->id, QC_TAKEN, k);
            add_encoding(activations, g->values[n->outputs + k].name, g, &p);
        }
    }
    qc_json_set(root, "version", qc_json_string("0.6.1"));
    qc_json_set(root, "activation_encodings", activations);
    qc_json_set(root, "param_encodings", weights);
    qc_json_set(root, "excluded_layers", qc_json_array());
    *out = root;
    return qc_json_is_whole(*out) || qc_fail_memory(st, 1);
}

static bool write_encodings(size_t *bytes, const char *path, const struct qc_export_source *source,
                            struct qc_status *st)
{
    struct qc_json *root;
    const bool ok = encodings_of(&root, source, st) && qc_export_json(bytes, path, root, st);
    qc_json_free(root);
    return ok;
}

extern const struct qc_exporter qc_exporter_encodings;
const struct qc_exporter qc_exporter_encodings = {
    .summary = "JSON of the parameters of each tensor, as AIMET writes and QNN's converter reads it",
    .suffix = ".encodings.json",
    .write = write_encodings,
};

/* MNN's compression parameters: JSON of the message `Pipeline` in MNN_compression.proto, which MNNConvert reads with
   --compressionParamsFile. MNN finds a convolution by the name of its output, behind a Relu or Clip that it fuses.
   Dense layers have no entry, because MNN 3.6 stops at them (SIGFPE). docs/other-forms.md. */

/* One tensor, as a list: MNN has a list of inputs, of weights and of outputs. */
static struct qc_json *tensor(const char *name, const struct qc_parameters *p, int lowest)
{
    struct qc_json *o = qc_json_object(), *scales = qc_json_array(), *list = qc_json_array();
    for (size_t i = 0; i < p->count; i++) qc_json_add(scales, qc_json_float(p->scale[i]));
    qc_json_put(o, "name %s bits %d", name, 8);
    qc_json_set(o, "scales", scales);
    qc_json_set(o, "clamp_min", qc_json_integer(lowest));
    qc_json_set(o, "clamp_max", qc_json_integer(127));
    qc_json_add(list, o);
    return list;
}

static bool is_int8(const struct qc_parameters *p)
{
    return p->dtype == QC_I8 && !p->block;
}

/* MNN computes a residual Add of tensors with zero points wrongly: such parameters are refused. */
static bool is_symmetric(const struct qc_parameters *p, const char *name, struct qc_status *st)
{
    return (is_int8(p) && p->count == 1 && p->zero_point[0] == 0) ||
           qc_fail(st, QC_UNSUPPORTED, "tensor '%s' is not symmetric int8: use --target tensorrt", name);
}

/* Adds the convolution, unless an end of it is float. */
static bool add_layer(struct qc_json *layers, const struct qc_query *query, const struct qc_uses *uses, qc_id id,
                      struct qc_status *st)
{
    const struct qc_graph *g = query->graph;
    const struct qc_node *n = &g->nodes[id];
    /* The result of a convolution behind the clamp that MNN fuses into it. */
    const struct qc_node *nodes = uses->graph->nodes;
    qc_id behind = qc_only_reader(uses, n->outputs);
    if (behind && nodes[behind].op == QC_OP_Dequantize) behind = qc_only_reader(uses, nodes[behind].outputs);
    const bool clamp = behind && (nodes[behind].op == QC_OP_Relu || nodes[behind].op == QC_OP_Clip);
    const qc_id result = clamp ? nodes[behind].outputs : n->outputs;
    const char *name = g->values[result].name;
    const struct qc_parameters x = qc_query_end(query, id, QC_INPUT, 0), w = qc_query_end(query, id, QC_INPUT, 1),
                               y = qc_query_taken(query, result);
    if (!name || !is_quantized(&x) || !is_quantized(&w) || !is_quantized(&y)) return true;
    if (!is_symmetric(&x, name, st) || !is_symmetric(&y, name, st)) return false;
    if (!is_int8(&w)) return qc_fail(st, QC_UNSUPPORTED, "the weights of '%s' are not int8", name);
    struct qc_json *layer = qc_json_object();
    qc_json_set(layer, "input", tensor(x.quantizer, &x, -128));
    qc_json_set(layer, "weight", tensor(w.quantizer, &w, -127));
    qc_json_set(layer, "output", tensor(name, &y, -128));
    qc_json_add(layers, layer);
    return true;
}

static bool write_mnn(size_t *bytes, const char *path, const struct qc_export_source *source, struct qc_status *st)
{
    if (!qc_export_has_float(source, st)) return false;
    struct qc_json *layers = qc_json_array();
    const struct qc_graph *g = source->expanded;
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_query query;
    struct qc_uses uses;
    bool found = qc_query_of(&query, g, a, st) && qc_uses_of(&uses, g, a, st);
    for (qc_id id = 1; found && id <= g->node_count; id++)
        found = g->nodes[id].op != QC_OP_Conv || add_layer(layers, &query, &uses, id, st);
    found = found && (qc_json_is_whole(layers) || qc_fail_memory(st, 1));
    const bool ok =
        found && (qc_json_size(layers) || qc_fail(st, QC_UNSUPPORTED, "no convolution has integers at both ends"));
    /* The message around the layers, which it then owns. They must be complete: what runs out of memory in a value that
       stands in another does not mark the other. */
    struct qc_json *parameters = qc_json_object(), *step = qc_json_object(), *steps = qc_json_array(),
                   *root = qc_json_object();
    qc_json_set(parameters, "round_mode", qc_json_string("ROUND_HALF_TO_EVEN"));
    qc_json_set(parameters, "layer", layers);
    qc_json_set(step, "type", qc_json_string("QUANTIZE"));
    qc_json_set(step, "quant_params", parameters);
    qc_json_add(steps, step);
    qc_json_set(root, "version", qc_json_string("0.0.0"));
    qc_json_set(root, "algo", steps);
    const bool written = ok && qc_export_json(bytes, path, root, st);
    qc_json_free(root);
    return written;
}

extern const struct qc_exporter qc_exporter_mnn;
const struct qc_exporter qc_exporter_mnn = {
    .summary = "JSON of the parameters of convolutions that MNNConvert reads; needs symmetric int8",
    .suffix = ".mnn.json",
    .write = write_mnn,
};

/* TensorRT's calibration cache: a line with the calibrator, then `tensor: scale` for each activation, the scale as the
   hexadecimal bits of a float32, amax / 127 (NVIDIA, README of sampleINT8, "Calibration file"). TensorRT derives the
   scales of weights itself. docs/other-forms.md. */

/* TensorRT takes a cache only of its own version: the reader may have to replace these digits. */
#define CALIBRATOR "TRT-8601-EntropyCalibration2\n"

static bool write_lines(size_t *bytes, struct qc_output *f, const struct qc_json *activations, struct qc_status *st)
{
    bool ok = qc_output_write(f, CALIBRATOR, strlen(CALIBRATOR), st);
    *bytes = strlen(CALIBRATOR);
    for (size_t i = 0; ok && i < qc_json_size(activations); i++) {
        const struct qc_json *list = qc_json_at(activations, i), *e = qc_json_at(list, 0);
        const char *name = qc_json_key(activations, i);
        if (qc_json_size(list) != 1 || qc_json_value(qc_json_get(e, "bitwidth")) != 8 ||
            qc_json_value(qc_json_get(e, "offset")) != -128)
            return qc_fail(st, QC_UNSUPPORTED,
                           "tensor '%s' is not symmetric int8 with one scale: use --target tensorrt", name);
        if (strpbrk(name, "\r\n")) return qc_fail(st, QC_UNSUPPORTED, "the name of tensor '%s' has two lines", name);
        const float scale = (float)qc_json_value(qc_json_get(e, "scale"));
        uint32_t bits;
        memcpy(&bits, &scale, sizeof bits);
        char value[12];
        qc_text(value, sizeof value, ": %08" PRIx32 "\n", bits);
        ok = qc_output_write(f, name, strlen(name), st) && qc_output_write(f, value, strlen(value), st);
        *bytes += strlen(name) + strlen(value);
    }
    return ok;
}

static bool write_trt_cache(size_t *bytes, const char *path, const struct qc_export_source *source,
                            struct qc_status *st)
{
    struct qc_json *root;
    struct qc_output *f = NULL;
    size_t written;
    const bool ok = encodings_of(&root, source, st) && qc_output_open(&f, path, st) &&
                    write_lines(&written, f, qc_json_get(root, "activation_encodings"), st) && qc_output_commit(f, st);
    if (ok && bytes) *bytes = written;
    qc_output_free(f);
    qc_json_free(root);
    return ok;
}

extern const struct qc_exporter qc_exporter_trt_cache;
const struct qc_exporter qc_exporter_trt_cache = {
    .summary = "TensorRT's calibration cache: the scale of each activation; needs symmetric int8",
    .suffix = ".trt.cache",
    .write = write_trt_cache,
};
