// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "base/scope.h"
#include "calib/statistics/statistics.h"
#include "library/public.h"

static bool make_statistics(struct qcalib_statistics **out, struct qc_status *st)
{
    struct qcalib_statistics *s = calloc(1, sizeof *s);
    if (s) s->arena = s->files.arena = qc_arena_new();
    *out = s;
    return (s && s->arena) || qc_fail_memory(st, sizeof *s);
}

void qcalib_statistics_free(qcalib_statistics *statistics)
{
    if (!statistics) return;
    qc_collection_free(statistics->collection);
    qc_arena_free(statistics->arena);
    free(statistics);
}

static bool collect(struct qcalib_statistics *s, struct qc_public_job *p, const struct qcalib_model *model,
                    const struct qcalib_job *call, struct qc_status *st)
{
    struct qc_job *job = NULL;
    struct qc_collect_result seen = {.statistics = NULL};
    if (!qc_public_begin(p, QC_COMMAND_collect, model, call, st)) return false;
    if (!p->call.data)
        return qc_fail(
            st, QC_USAGE,
            "qcalib_collect needs the member `data` of struct qcalib_job: samples of what the model is used on");
    const struct qc_job_listener listener = {.progress = p->call.progress ? &p->progress : NULL};
    const bool ok = qc_job_new(&job, &p->options, &p->in, &listener, st) && qc_job_collect(&seen, job, st) &&
                    qc_job_list_inputs(&s->files, job, st);
    s->collection = seen.statistics;
    if (ok) qc_job_done(job);
    if (job) qc_public_warn(p, qc_job_warnings(job));
    qc_job_free(job);
    return ok;
}

int qcalib_collect(qcalib_statistics **out, const qcalib_model *model, const struct qcalib_job *job,
                   struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    struct qc_public_job p = {0};
    struct qcalib_statistics *s = NULL;
    const bool ok =
        qc_public_there(out, "out", &call.st) && make_statistics(&s, &call.st) && collect(s, &p, model, job, &call.st);
    if (ok)
        *out = s;
    else
        qcalib_statistics_free(s);
    qc_public_done(&p);
    return qc_public_end(ok, &call, error);
}

int qcalib_statistics_merge(qcalib_statistics *into, const qcalib_statistics *more, struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    bool ok = qc_public_there(into, "into", &call.st) && qc_public_there(more, "more", &call.st);
    if (ok && into == more) ok = qc_fail(&call.st, QC_USAGE, "statistics cannot be merged into themselves");
    for (size_t i = 0; ok && i < more->files.count; i++)
        ok = qc_file_list_add(&into->files, more->files.items[i].what, more->files.items[i].path, &call.st);
    ok = ok && qc_collection_merge(into->collection, more->collection, &call.st);
    return qc_public_end(ok, &call, error);
}

static bool save(const struct qcalib_statistics *s, const char *path, struct qc_status *st)
{
    struct qc_named_file output = {.what = "the output", .path = path};
    return qc_file_list_apart(&(struct qc_file_list){.items = &output, .count = 1}, &s->files, st) &&
           qc_statistics_save(path, s->collection, st);
}

int qcalib_statistics_save(const qcalib_statistics *statistics, const char *path, struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    const bool ok = qc_public_there(statistics, "statistics", &call.st) && qc_public_there(path, "path", &call.st) &&
                    save(statistics, path, &call.st);
    return qc_public_end(ok, &call, error);
}

static bool load_statistics(struct qcalib_statistics **out, const char *path, struct qc_status *st)
{
    return make_statistics(out, st) && qc_statistics_load(&(*out)->collection, path, st) &&
           qc_file_list_add(&(*out)->files, "the statistics", path, st) && qc_file_list_settle(&(*out)->files, st);
}

int qcalib_statistics_load(qcalib_statistics **out, const char *path, struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    struct qcalib_statistics *s = NULL;
    const bool ok = qc_public_there(out, "out", &call.st) && qc_public_there(path, "path", &call.st) &&
                    load_statistics(&s, path, &call.st);
    return qc_public_end(QC_HAND_OVER(ok, out, s, qcalib_statistics_free), &call, error);
}

uint64_t qcalib_statistics_samples(const qcalib_statistics *statistics)
{
    return statistics ? qc_collection_samples(statistics->collection) : 0;
}

size_t qcalib_statistics_tensors(const qcalib_statistics *statistics)
{
    return statistics ? statistics->collection->count : 0;
}
