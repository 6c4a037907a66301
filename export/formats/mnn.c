// SPDX-License-Identifier: Apache-2.0
/* MNN's compression parameters: JSON of the message `Pipeline` in MNN_compression.proto, which MNNConvert reads with
   --compressionParamsFile. MNN finds a convolution by the name of its output, behind a Relu or Clip that it fuses.
   Dense layers have no entry, because MNN 3.6 stops at them (SIGFPE). docs/other-forms.md. */
#include "base/json.h"
#include "export/formats/exporter.h"
#include "graph/core/parameters.h"
#include "graph/core/uses.h"

/* One tensor, as a list: MNN has a list of inputs, of weights and of outputs. */
static struct qc_json *tensor(const char *name, const struct qc_parameters *p, int lowest)
{
    struct qc_json *o = qc_json_object(), *scales = qc_json_array(), *list = qc_json_array();
    for (size_t i = 0; i < p->count; i++) qc_json_add(scales, qc_json_float(p->scale[i]));
    qc_json_set(o, "name", qc_json_string(name));
    qc_json_set(o, "bits", qc_json_integer(8));
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

/* Returns the result of a convolution behind the clamp that MNN fuses into it. */
static qc_id fused_result(const struct qc_uses *uses, const struct qc_node *n)
{
    const struct qc_node *nodes = uses->graph->nodes;
    qc_id id = qc_only_reader(uses, n->outputs);
    if (id && nodes[id].op == QC_OP_Dequantize) id = qc_only_reader(uses, nodes[id].outputs);
    const bool clamp = id && (nodes[id].op == QC_OP_Relu || nodes[id].op == QC_OP_Clip);
    return clamp ? nodes[id].outputs : n->outputs;
}

static bool is_stored(const struct qc_parameters *p)
{
    return p->affine && p->kind == QC_QPARAMS_QUANTIZER;
}

/* Adds the convolution, unless an end of it is float. */
static bool add_layer(struct qc_json *layers, const struct qc_query *query, const struct qc_uses *uses, qc_id id,
                      struct qc_status *st)
{
    const struct qc_graph *g = query->graph;
    const struct qc_node *n = &g->nodes[id];
    const qc_id result = fused_result(uses, n);
    const char *name = g->values[result].name;
    const struct qc_parameters x = qc_query_end(query, id, QC_INPUT, 0), w = qc_query_end(query, id, QC_INPUT, 1),
                               y = qc_query_taken(query, result);
    if (!name || !is_stored(&x) || !is_stored(&w) || !is_stored(&y)) return true;
    if (!is_symmetric(&x, name, st) || !is_symmetric(&y, name, st)) return false;
    if (!is_int8(&w)) return qc_fail(st, QC_UNSUPPORTED, "the weights of '%s' are not int8", name);
    struct qc_json *layer = qc_json_object();
    qc_json_set(layer, "input", tensor(x.quantizer, &x, -128));
    qc_json_set(layer, "weight", tensor(w.quantizer, &w, -127));
    qc_json_set(layer, "output", tensor(name, &y, -128));
    qc_json_add(layers, layer);
    return true;
}

static bool add_layers(struct qc_json *layers, const struct qc_graph *g, struct qc_status *st)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_query query;
    struct qc_uses uses;
    bool ok = (a || qc_fail_memory(st, 1)) && qc_query_of(&query, g, a, st) && qc_uses_of(&uses, g, a, st);
    for (qc_id id = 1; ok && id <= g->node_count; id++)
        ok = g->nodes[id].op != QC_OP_Conv || add_layer(layers, &query, &uses, id, st);
    return ok && (qc_json_size(layers) || qc_fail(st, QC_UNSUPPORTED, "no convolution has integers at both ends"));
}

/* Returns the message around the layers, which it then owns. They must be complete: what runs out of memory in a value
   that stands in another does not mark the other. */
static struct qc_json *pipeline(struct qc_json *layers)
{
    struct qc_json *parameters = qc_json_object(), *step = qc_json_object(), *steps = qc_json_array(),
                   *root = qc_json_object();
    qc_json_set(parameters, "round_mode", qc_json_string("ROUND_HALF_TO_EVEN"));
    qc_json_set(parameters, "layer", layers);
    qc_json_set(step, "type", qc_json_string("QUANTIZE"));
    qc_json_set(step, "quant_params", parameters);
    qc_json_add(steps, step);
    qc_json_set(root, "version", qc_json_string("0.0.0"));
    qc_json_set(root, "algo", steps);
    return root;
}

static bool write(size_t *bytes, const char *path, const struct qc_export_source *source, struct qc_status *st)
{
    if (!qc_export_has_float(source, st)) return false;
    struct qc_json *layers = qc_json_array();
    const bool ok = add_layers(layers, source->expanded, st);
    struct qc_json *root = pipeline(layers);
    const bool written = ok && qc_export_json(bytes, path, root, st);
    qc_json_free(root);
    return written;
}

extern const struct qc_exporter qc_exporter_mnn;
const struct qc_exporter qc_exporter_mnn = {
    .name = "mnn",
    .summary = "JSON of the parameters of convolutions that MNNConvert reads; needs symmetric int8",
    .suffix = ".mnn.json",
    .write = write,
};
