// SPDX-License-Identifier: Apache-2.0
#include "quantize/setup/job_files.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "datasets/samples/dataset.h"
#include "datasets/samples/folder_list.h"

bool qc_file_list_add(struct qc_file_list *l, const char *what, const char *path, struct qc_status *st)
{
    if (!path) return true;
    if (l->count == l->room) {
        const size_t room = l->room ? 2 * l->room : 16;
        struct qc_named_file *more = QC_NEW_ARRAY(l->arena, struct qc_named_file, room, st);
        if (!more) return false;
        if (l->count) memcpy(more, l->items, l->count * sizeof *more);
        l->items = more;
        l->room = room;
    }
    const char *own = qc_arena_strdup(l->arena, path, st);
    if (own) l->items[l->count++] = (struct qc_named_file){.what = what, .path = own};
    return own != NULL;
}

static bool add_list(struct qc_file_list *l, const char *what, const struct qc_text_list *paths, struct qc_status *st)
{
    for (size_t i = 0; i < paths->count; i++)
        if (!qc_file_list_add(l, what, paths->items[i], st)) return false;
    return true;
}

/* Adds PATH and the ending; nothing if the path is NULL. */
static bool add_beside(struct qc_file_list *l, const char *what, const char *path, const char *ending,
                       struct qc_status *st)
{
    const char *beside = path ? qc_arena_printf(l->arena, st, "%s%s", path, ending) : NULL;
    return !path || (beside && qc_file_list_add(l, what, beside, st));
}

bool qc_file_list_add_model(struct qc_file_list *l, const char *path, struct qc_status *st)
{
    return qc_file_list_add(l, "the output", path, st) && add_beside(l, "the output's weights", path, ".data", st);
}

bool qc_file_list_add_report(struct qc_file_list *l, const char *folder, struct qc_status *st)
{
    return qc_file_list_add(l, "--report", folder, st) && add_beside(l, "--report", folder, "/report.json", st) &&
           add_beside(l, "--report", folder, "/layers.csv", st) &&
           add_beside(l, "--report", folder, "/report.html", st);
}

bool qc_file_list_add_checkpoint(struct qc_file_list *l, const struct qc_options *o, struct qc_status *st)
{
    return qc_file_list_add(l, "--checkpoint", o->run.checkpoint, st) &&
           add_beside(l, "--checkpoint", o->run.checkpoint, ".layers", st) &&
           (!o->demand.benchmark || add_beside(l, "--checkpoint", o->run.checkpoint, ".benchmark", st));
}

/* FILE or FILE:DATASET */
static bool add_data(struct qc_file_list *l, const char *what, const char *text, struct qc_status *st)
{
    const char *file = NULL, *set;
    if (text && !qc_dataset_split(&file, &set, text, l->arena, st)) return false;
    return qc_file_list_add(l, what, file, st);
}

static bool add_model_read(struct qc_file_list *l, const struct qc_model_source *m, struct qc_status *st)
{
    const struct qc_model_at_hand *read = m->at_hand;
    if (!read) return qc_file_list_add(l, "the model", m->file, st);
    if (!qc_file_list_add(l, "the model", read->file, st)) return false;
    for (size_t i = 0; i < read->info->file_count; i++)
        if (!qc_file_list_add(l, "the model's external data", read->info->files[i], st)) return false;
    return true;
}

bool qc_file_list_add_inputs(struct qc_file_list *l, const struct qc_job_inputs *in, const struct qc_options *o,
                             struct qc_status *st)
{
    for (size_t i = 0; i < in->file_count; i++)
        if (!qc_file_list_add(l, in->files[i].what, in->files[i].path, st)) return false;
    return add_data(l, "--data", in->data.file, st) && add_data(l, "--eval", in->eval.file, st) &&
           qc_file_list_add(l, "--stats", in->statistics.file, st) && add_model_read(l, &in->model, st) &&
           qc_file_list_add(l, "--encodings", o->method.encodings, st) && add_list(l, "--rules", &o->graph.rules, st) &&
           add_list(l, "--plugin", &o->method.plugins, st) && add_list(l, "--kernel", &o->graph.kernels, st);
}

bool qc_file_list_settle(struct qc_file_list *l, struct qc_status *st)
{
    char folder[PATH_MAX];
    if (!getcwd(folder, sizeof folder)) return qc_fail(st, QC_MACHINE, "the current folder: %s", strerror(errno));
    for (size_t i = 0; i < l->count; i++)
        if (*l->items[i].path != '/' &&
            !(l->items[i].path = qc_arena_printf(l->arena, st, "%s/%s", folder, l->items[i].path)))
            return false;
    return true;
}

bool qc_file_list_apart(const struct qc_file_list *outputs, const struct qc_file_list *inputs, struct qc_status *st)
{
    for (size_t i = 0; i < outputs->count; i++)
        for (size_t k = 0; k < inputs->count; k++) {
            /* An existing file with the name of a sample in this folder or below? */
            const char *folder = inputs->items[k].path, *path = outputs->items[i].path;
            struct stat info;
            if (qc_file_kind(path) == QC_FILE_OTHER || stat(folder, &info) || !S_ISDIR(info.st_mode)) continue;
            char *outer = realpath(folder, NULL), *inner = realpath(path, NULL);
            const size_t length = outer ? strlen(outer) : 0;
            const bool inside = inner && length && strncmp(inner, outer, length) == 0 && inner[length] == '/';
            free(outer);
            free(inner);
            if (inside)
                return qc_fail(st, QC_USAGE,
                               "%s '%s' would overwrite a sample in the folder %s '%s'; name another file",
                               outputs->items[i].what, path, inputs->items[k].what, folder);
        }
    return qc_files_apart(outputs->items, outputs->count, inputs->items, inputs->count, st);
}
