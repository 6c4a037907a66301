// SPDX-License-Identifier: Apache-2.0
#include "cli/outputs.h"

#include <string.h>

#include "base/arena.h"
#include "datasets/samples/dataset.h"

const char *qc_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash && slash[1] ? slash + 1 : path;
}

char *qc_stem(struct qc_arena *a, const char *path, struct qc_status *st)
{
    const char *base = qc_base_name(path), *dot = strrchr(base, '.');
    return qc_arena_strndup(a, base, dot && dot > base ? (size_t)(dot - base) : strlen(base), st);
}

char *qc_placement_file(struct qc_arena *a, const char *model, struct qc_status *st)
{
    const char *base = qc_base_name(model), *dot = strrchr(base, '.');
    const size_t length = dot && dot > base ? (size_t)(dot - model) : strlen(model);
    return qc_arena_printf(a, st, "%.*s.placement.json", (int)length, model);
}

struct files {
    struct qc_named_file *items;
    size_t count;
};

static void add_file(struct files *f, const char *what, const char *path)
{
    if (path) f->items[f->count++] = (struct qc_named_file){.what = what, .path = path};
}

static void add_list(struct files *f, const char *what, const struct qc_text_list *l)
{
    for (size_t i = 0; i < l->count; i++) add_file(f, what, l->items[i]);
}

/* FILE or FILE:DATASET */
static bool add_data(struct files *f, const char *what, const char *text, struct qc_arena *a, struct qc_status *st)
{
    const char *file = NULL, *set;
    if (text && !qc_dataset_split(&file, &set, text, a, st)) return false;
    add_file(f, what, file);
    return true;
}

static bool inputs_of(struct files *out, const struct qc_cli_options *o, struct qc_status *st)
{
    enum { SINGLE = 7 };
    out->items =
        QC_NEW_ARRAY(o->job.arena, struct qc_named_file,
                     SINGLE + o->operands.count + o->job.rules.count + o->job.plugins.count + o->job.kernels.count, st);
    if (!out->items || !add_data(out, "--data", o->job.data, o->job.arena, st) ||
        !add_data(out, "--eval", o->job.eval, o->job.arena, st))
        return false;
    add_file(out, "--stats", o->job.stats);
    add_file(out, "--config", o->config);
    add_file(out, "--model", o->model);
    add_file(out, "--labels", o->labels);
    add_list(out, "the input", &o->operands);
    add_list(out, "--rules", &o->job.rules);
    add_list(out, "--plugin", &o->job.plugins);
    add_list(out, "--kernel", &o->job.kernels);
    return true;
}

/* Adds the files of a report, and the folder itself, which must not be an input file. */
static bool add_report(struct files *f, const char *folder, struct qc_arena *a, struct qc_status *st)
{
    static const char *const names[] = {"report.json", "layers.csv", "report.html"};
    add_file(f, "--report", folder);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = qc_arena_printf(a, st, "%s/%s", folder, names[i]);
        if (!path) return false;
        add_file(f, "--report", path);
    }
    return true;
}

bool qc_outputs_apart(struct qc_outputs *out, const char *const *paths, size_t count, const char *report,
                      const struct qc_cli_options *o, struct qc_status *st)
{
    enum { SINGLE = 8 };
    const bool models = o->command == QC_COMMAND_quantize || o->command == QC_COMMAND_convert;
    struct files inputs = {.count = 0}, f = {.items = QC_NEW_ARRAY(o->job.arena, struct qc_named_file,
                                                                   2 * count + SINGLE + o->dump.count, st)};
    if (!f.items || !inputs_of(&inputs, o, st)) return false;
    for (size_t i = 0; i < count; i++) add_file(&f, "the output", paths[i]);
    add_file(&f, "--html", o->html);
    add_file(&f, "--checkpoint", o->job.checkpoint);
    const char *layers =
        o->job.checkpoint && models ? qc_arena_printf(o->job.arena, st, "%s.layers", o->job.checkpoint) : NULL;
    if (o->job.checkpoint && models && !layers) return false;
    add_file(&f, "--checkpoint", layers);
    if (o->job.benchmark) {
        const char *checkpoint = o->job.checkpoint ? o->job.checkpoint : "";
        const char *latencies = qc_arena_printf(o->job.arena, st, "%s.benchmark", checkpoint),
                   *placement = qc_placement_file(o->job.arena, paths[0], st);
        if (!latencies || !placement) return false;
        add_file(&f, "--checkpoint", *checkpoint ? latencies : NULL);
        add_file(&f, "the placement", placement);
    }
    for (size_t i = 0; i < o->dump.count; i++) {
        const char *file = strchr(o->dump.items[i], '=');
        add_file(&f, "--dump", file ? file + 1 : NULL);
    }
    if (report && !add_report(&f, report, o->job.arena, st)) return false;
    for (size_t i = 0; models && i < count; i++) { /* the file for large weights (onnx/write/emit.h) */
        const char *beside = qc_arena_printf(o->job.arena, st, "%s.data", paths[i]);
        if (!beside) return false;
        add_file(&f, "the output's weights", beside);
    }
    *out = (struct qc_outputs){.count = f.count, .files = f.items};
    return qc_files_apart(f.items, f.count, inputs.items, inputs.count, st);
}
