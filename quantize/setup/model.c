// SPDX-License-Identifier: Apache-2.0
#include "quantize/setup/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "base/scope.h"
#include "calib/statistics/stream.h"
#include "graph/core/custom.h"
#include "onnx/read/import.h"
#include "rewrite/language/expansion.h"
#include "rewrite/passes/integer_ports.h"
#include "tflite/read/tflite_import.h"

/* Fails if a file to be written holds external data of the model. */
static bool check_output_files(const struct qc_model *m, const struct qc_model_source *source, struct qc_status *st)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    if (!a) return qc_fail_memory(st, 1);
    struct qc_named_file *inputs = QC_NEW_ARRAY(a, struct qc_named_file, m->info.file_count, st);
    for (size_t i = 0; inputs && i < m->info.file_count; i++)
        inputs[i] = (struct qc_named_file){.what = "the model's external data", .path = m->info.files[i]};
    return inputs && qc_files_apart(source->outputs, source->output_count, inputs, m->info.file_count, st);
}

static bool import(struct qc_model *m, const struct qc_model_source *source, const struct qc_options *o,
                   struct qc_status *st)
{
    const char *path = source->file;
    if (qc_is_tflite_file(path)) return qc_tflite_import(&m->graph, &m->info, path, (size_t)o->run.memory_limit, st);
    /* The built-in functions and those of --rules. */
    struct qc_rules *rules = qc_rules_new(st);
    bool ok = rules && qc_rules_add_builtin(rules, "functions.rules", st) &&
              qc_rules_add_builtin(rules, "functions_ml.rules", st);
    for (size_t i = 0; ok && i < o->graph.rules.count; i++) ok = qc_rules_add_file(rules, o->graph.rules.items[i], st);
    /* The operators of --kernel. */
    struct qc_custom_ops *custom = ok && o->graph.kernels.count ? qc_custom_ops_new(st) : NULL;
    ok = ok && (custom || !o->graph.kernels.count);
    for (size_t i = 0; ok && i < o->graph.kernels.count; i++)
        ok = qc_custom_ops_load(custom, o->graph.kernels.items[i], st) || qc_where(st, "--kernel");
    if (ok) {
        const struct qc_expander expander = qc_rules_expander(rules);
        ok = qc_onnx_import_with(&m->graph, &m->info, path,
                                 &(struct qc_import_options){.memory_limit = (size_t)o->run.memory_limit,
                                                             .follow = qc_options_follow(o),
                                                             .unknown = QC_UNKNOWN_CARRIED,
                                                             .indices_for_texts = source->only_run,
                                                             .custom = custom,
                                                             .expander = &expander},
                                 st);
    }
    qc_custom_ops_unref(custom);
    qc_rules_free(rules);
    return ok;
}

/* Gives images of --io-type pixels the layout and numbers of the model, so that they read its samples. */
static bool take_samples(struct qc_model *m, struct qc_status *st)
{
    struct qc_graph *made;
    bool any = false;
    QC_ARENA_SCOPE *a = qc_arena_new();
    size_t *chain = a ? QC_NEW_ARRAY(a, size_t, m->graph->input_count + 1, st) : NULL;
    if (!chain) return qc_fail_memory(st, 1);
    for (size_t i = 0; i < m->graph->input_count; i++) {
        /* The number of operators between an image's bytes and the model's numbers in a file of --io-type pixels; 0 for
           another input. */
        static const char prefix[] = "quantization:";
        for (size_t k = 0; k < m->info.property_count; k++) {
            const struct qc_model_property *p = &m->info.properties[k];
            struct qc_status own = QC_STATUS_INIT;
            struct qc_json *entry;
            if (strncmp(p->key, prefix, sizeof prefix - 1) != 0 ||
                strcmp(p->key + sizeof prefix - 1, m->graph->inputs[i].name) != 0 ||
                !qc_json_parse(&entry, p->value, strlen(p->value), &own))
                continue;
            const char *text = qc_json_find_text(entry, "preprocess");
            if (text) chain[i] = qc_json_find(entry, "layout") != NULL;
            if (text && !qc_json_find(entry, "scale"))
                for (chain[i]++; (text = strchr(text, '=')); text++) chain[i]++;
            qc_json_free(entry);
        }
        any = any || chain[i];
    }
    if (!any) return true;
    if (!qc_ports_without_pixels(&made, m->graph, chain, st)) return qc_where(st, "%s", m->path);
    if (made) {
        m->whole = m->graph; /* holds the texts of info */
        m->graph = made;
    }
    return true;
}

bool qc_model_open(struct qc_model *out, const struct qc_model_source *source, const struct qc_options *o,
                   struct qc_warnings *w, struct qc_status *st)
{
    const char *path = source->file;
    const struct qc_model_at_hand *read = source->at_hand;
    struct qc_model m = {.path = path};
    const bool again = read && read->file && (o->graph.kernels.count || (source->only_run && read->graph->carried));
    if (read && !again) {
        if (o->graph.kernels.count)
            return qc_fail(st, QC_UNSUPPORTED, "%s: kernels of your own are for models that are opened from a file",
                           path);
        if (!(m.view = malloc(sizeof *m.view))) return qc_fail_memory(st, sizeof *m.view);
        *m.view = *read->graph;
        m.view->budget.memory_limit = (size_t)o->run.memory_limit;
        m.graph = m.view;
        m.info = *read->info;
    } else {
        if (qc_data_is_hdf5(path))
            return qc_fail(st, QC_BAD_INPUT, "%s: is an HDF5 file, not a model; data are given with --data", path);
        if (!import(&m, source, o, st)) return false;
    }
    if ((source->only_run && !take_samples(&m, st)) || !check_output_files(&m, source, st)) {
        qc_model_close(&m);
        return false;
    }
    for (size_t i = 0; w && i < m.info.warning_count; i++) qc_warn(w, "%s: %s", path, m.info.warnings[i]);
    *out = m;
    return true;
}

bool qc_model_check_whole(const struct qc_model *m, struct qc_status *st)
{
    return qc_onnx_whole(m->graph, st) || qc_where(st, "%s", m->path);
}

bool qc_model_warn_carried(const struct qc_model *m, struct qc_warnings *w, struct qc_status *st)
{
    const struct qc_carried *c = m->graph->carried;
    char list[QC_CARRIED_TEXT];
    if (!c) return true;
    qc_carried_text(list, c);
    if (!m->graph->node_count)
        return qc_fail(st, QC_UNSUPPORTED,
                       "%s: nothing to quantize: everything depends on operators that are not handled: %s; --kernel "
                       "adds operators of your own",
                       m->path, list);
    const size_t behind = c->node_count - c->unknown_count;
    if (behind)
        qc_warn(w, "%s: carried through unchanged, because they are not handled: %s, and %zu node%s that follow%s",
                m->path, list, behind, behind == 1 ? "" : "s", behind == 1 ? "s" : "");
    else
        qc_warn(w, "%s: carried through unchanged, because they are not handled: %s", m->path, list);
    return true;
}

bool qc_model_widen(struct qc_model *m, enum qc_widening what, struct qc_status *st)
{
    struct qc_graph *wide;
    if (!qc_widen_floats(&wide, m->graph, what, st)) return qc_where(st, "%s", m->path);
    if (!wide) return true;
    m->imported = m->graph; /* holds the texts of info */
    m->graph = wide;
    m->widened = true;
    return true;
}

void qc_model_close(struct qc_model *m)
{
    if (!m) return;
    if (m->graph != m->view) qc_graph_free(m->graph);
    if (m->imported != m->view) qc_graph_free(m->imported);
    if (m->whole != m->view) qc_graph_free(m->whole);
    free(m->view);
    *m = (struct qc_model){0};
}

static bool read_maps(struct qc_dataset_options *out, const struct qc_options *o, struct qc_arena *a,
                      struct qc_status *st)
{
    struct qc_input_map *maps = QC_NEW_ARRAY(a, struct qc_input_map, o->data.inputs.count, st);
    if (!maps) return false;
    for (size_t i = 0; i < o->data.inputs.count; i++) {
        const char *text = o->data.inputs.items[i], *equals = strchr(text, '=');
        maps[i].input = qc_arena_strndup(a, text, (size_t)(equals - text), st);
        maps[i].dataset = equals + 1;
        if (!maps[i].input) return false;
    }
    out->maps = maps;
    out->map_count = o->data.inputs.count;
    return true;
}

bool qc_model_select(struct qc_dataset *data, const struct qc_options *o, const struct qc_team *team,
                     struct qc_status *st)
{
    struct qc_selection s = {.samples = (size_t)o->data.samples,
                             .drawn = o->given[QC_OPTION_SEED],
                             .seed = o->data.seed};
    if (o->data.shard) {
        enum { SHARDS_MAX = 1000000 };
        unsigned long k, n;
        int end = 0;
        if (sscanf(o->data.shard, "%lu/%lu%n", &k, &n, &end) != 2 || o->data.shard[end] ||
            strspn(o->data.shard, "0123456789/") != strlen(o->data.shard) || k >= n || n > SHARDS_MAX)
            return qc_fail(st, QC_USAGE, "--shard: '%s' is not K/N with whole numbers 0 <= K < N <= %d, such as 0/4",
                           o->data.shard, (int)SHARDS_MAX);
        s.shard = (size_t)k;
        s.shards = (size_t)n;
    }
    if (team) {
        s.shard = team->rank;
        s.shards = team->size;
    }
    return qc_dataset_select(data, &s, st);
}

bool qc_model_select_again(struct qc_dataset *data, const struct qc_options *o, struct qc_status *st)
{
    struct qc_status own = QC_STATUS_INIT;
    if (o ? qc_model_select(data, o, NULL, &own) : qc_dataset_select(data, &(struct qc_selection){.samples = 0}, &own))
        return true;
    *st = own;
    return false;
}

static void pass_warning(void *user, const char *text)
{
    qc_warn(user, "%s", text);
}

bool qc_model_data_options(struct qc_dataset_options *out, struct qc_data_shaping *shaping, const struct qc_options *o,
                           struct qc_warnings *w, struct qc_arena *a, struct qc_status *st)
{
    *shaping = (struct qc_data_shaping){.image = {.resize = QC_RESIZE_COVER}};
    *out = (struct qc_dataset_options){.follow = qc_options_follow(o),
                                       .strict = o->data.strict,
                                       .workers = (unsigned)o->run.threads,
                                       .warn = w ? pass_warning : NULL,
                                       .warn_user = w,
                                       .read_ahead = (unsigned)(o->run.threads < 16 ? o->run.threads : 16),
                                       .memory_limit = (size_t)o->run.memory_limit,
                                       .image = &shaping->image};
    if (o->data.image && !qc_image_options_parse(&shaping->image, o->data.image, st)) return false;
    if (!o->data.preprocess) return true;
    if (!qc_preprocess_parse(&shaping->preprocess, o->data.preprocess, a, st)) return false;
    out->preprocess = &shaping->preprocess;
    if (shaping->preprocess.bgr && shaping->image.color == QC_COLOR_OF_MODEL) shaping->image.color = QC_COLOR_BGR;
    return true;
}

static bool show(void *user, size_t done, size_t count)
{
    struct qc_progress *p = user;
    if (done <= 1) qc_progress_phase(p, "scanning images");
    const bool on = qc_progress_step(p, done, count);
    if (done == count) qc_progress_end(p);
    return on;
}

/* Records the states of the chosen samples. */
static bool record(struct qc_dataset *data, const struct qc_graph *g, const struct qc_data_request *r,
                   const struct qc_options *o, struct qc_status *st)
{
    const struct qc_settings settings = {.workers = (unsigned)o->run.threads,
                                         .memory_limit = (size_t)o->run.memory_limit,
                                         .progress = qc_progress_step,
                                         .progress_user = r->progress};
    if (r->choose == QC_CHOOSE_SAMPLES && !qc_model_select(data, o, NULL, st)) return false;
    qc_progress_phase(r->progress, "recording states");
    const bool ok = qc_record_states(data, g, &settings, st);
    qc_progress_end(r->progress);
    return (ok && qc_progress_check(r->progress, st)) || qc_where(st, "%s", qc_dataset_file(data));
}

bool qc_model_data(struct qc_dataset **out, const struct qc_graph *g, const struct qc_data_source *source,
                   const struct qc_data_request *r, const struct qc_options *o, struct qc_warnings *w,
                   struct qc_status *st)
{
    struct qc_dataset_options options;
    struct qc_data_shaping shaping;
    struct qc_dataset *data = NULL;
    struct qc_arena *a = qc_arena_new();
    bool ok = false;
    if (!a) return qc_fail_memory(st, 1);
    if (!qc_model_data_options(&options, &shaping, o, w, a, st)) goto out;
    options.truth = r->use == QC_USE_TRUTH;
    options.classes = r->use == QC_USE_CLASSES;
    options.progress = r->progress ? show : NULL;
    options.progress_user = r->progress;
    struct qc_input_spec *specs = qc_stream_specs(g, a, st);
    if (!specs || !qc_state_inputs(specs, g, o, a, st) || !read_maps(&options, o, a, st) ||
        !(source->memory ? qc_dataset_open_memory(&data, source->memory, specs, g->input_count, &options, st)
                         : qc_dataset_open(&data, source->file, specs, g->input_count, &options, st)) ||
        !qc_find_state_sizes(data, g, st))
        goto out;
    /* Processes of a team measure all samples in the end. */
    if (r->states == QC_STATES_RECORDED && qc_dataset_sequences(data) && !record(data, g, r, o, st)) goto out;
    if (r->choose == QC_CHOOSE_SAMPLES) {
        if (!qc_model_select(data, o, r->team, st)) goto out;
        if (!qc_dataset_units(data) && o->data.shard) {
            qc_fail(st, QC_USAGE, "--shard %s holds no samples: only %zu are chosen", o->data.shard,
                    qc_dataset_planned(data));
            goto out;
        }
    } else if (!qc_dataset_select(data, &(struct qc_selection){.samples = 0}, st)) {
        goto out;
    }
    if (w && o->data.image && source->file && !qc_data_is_images(qc_dataset_file(data), options.follow))
        qc_warn(w, "--image: %s is not a folder of images; the option is ignored", qc_dataset_file(data));
    if (w && qc_dataset_unwritten(data))
        qc_warn(w, "%s: data set '%s' was never written; its samples are the fill value", qc_dataset_file(data),
                qc_dataset_unwritten(data));
    size_t dropped = qc_dataset_dropped(data), total = qc_dataset_total(data);
    if (dropped && w) {
        qc_warn(w, "%s: %zu of %zu samples left over: the model takes %lld at a time", qc_dataset_file(data), dropped,
                total, (long long)qc_dataset_batch(data));
    }
    *out = data;
    data = NULL;
    ok = true;
out:
    qc_dataset_free(data);
    qc_arena_free(a);
    return ok;
}
