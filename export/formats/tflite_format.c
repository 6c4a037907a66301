// SPDX-License-Identifier: Apache-2.0
/* TensorFlow Lite: the produced graph as a FlatBuffers file of TensorFlow Lite's schema (tflite/write). */
#include "base/file.h"
#include "base/scope.h"
#include "export/formats/exporter.h"
#include "graph/core/recurrent.h"
#include "rewrite/passes/simulate.h"
#include "rewrite/passes/unrolled_recurrent.h"
#include "simq/plan/plan.h"
#include "tflite/write/tflite_export.h"

/* *out: the graph for one sample, in which shapes that are computed from the batch are constants; NULL if no batch is
   free, or if another dimension of an input is. */
static bool one_sample(struct qc_graph **out, const struct qc_graph *g, struct qc_status *st)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_shape *shapes = QC_NEW_ARRAY(a, struct qc_shape, g->input_count, st);
    bool free_batch = false, fixed = true, ok = true;
    *out = NULL;
    if (!shapes) return false;
    for (size_t i = 0; i < g->input_count; i++) {
        shapes[i] = g->values[g->inputs[i].value].type.shape;
        if (shapes[i].rank > 0 && shapes[i].dim[0] == QC_FREE) {
            shapes[i].dim[0] = 1;
            free_batch = true;
        }
        fixed = fixed && qc_shape_fixed(&shapes[i]);
    }
    /* A folded shape makes others known. */
    for (size_t before = SIZE_MAX; ok && free_batch && fixed && (!*out || (*out)->node_count < before);) {
        struct qc_graph *from = *out;
        if (from) before = from->node_count;
        ok = qc_fix_shapes(out, from ? from : g, shapes, qc_evaluate, st);
        qc_graph_free(from);
    }
    if (!ok) *out = NULL;
    return ok;
}

static bool write_tflite(size_t *bytes, const char *path, const struct qc_export_source *source, struct qc_status *st)
{
    QC_FREED void *file = NULL;
    size_t size = 0;
    /* Export the graph, with a free batch if TensorFlow Lite can hold it. */
    const struct qc_graph *whole = source->produced;
    struct qc_status free_batch = QC_STATUS_INIT;
    struct qc_graph *g = NULL, *one = NULL;
    for (qc_id i = 1; i <= whole->node_count && !g; i++) {
        if (!qc_is_recurrent(whole->nodes[i].op)) continue;
        /* For recurrent operators TensorFlow Lite has only operators that keep their state from run to run. */
        QC_GRAPH_SCOPE *steps = NULL;
        if (!qc_unroll_recurrent(&steps, whole, st) || !qc_fold_constants(&g, steps, qc_evaluate, st)) return false;
    }
    bool ok = qc_tfl_export(&file, &size, g ? g : whole, &free_batch);
    if (!ok) {
        const bool tried = free_batch.code != QC_UNSUPPORTED || one_sample(&one, g ? g : whole, st);
        ok = one && qc_tfl_export(&file, &size, one, st);
        if (tried && !one) *st = free_batch;
    }
    qc_graph_free(one);
    qc_graph_free(g);
    if (!ok || !qc_file_write(path, file, size, st)) return false;
    if (bytes) *bytes = size;
    return true;
}

extern const struct qc_exporter qc_exporter_tflite;
const struct qc_exporter qc_exporter_tflite = {
    .summary = "TensorFlow Lite: int8 activations and weights, channels last",
    .suffix = ".int8.tflite",
    .write = write_tflite,
};
