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

int qcalib_collect(qcalib_statistics **out, const qcalib_model *model, const struct qcalib_job *job,
                   struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    struct qc_public_job p = {0};
    struct qcalib_statistics *s = NULL;
    struct qc_job *j = NULL;
    struct qc_collect_result seen = {.statistics = NULL};
    bool ok = qc_public_there(out, "out", &call.st) && make_statistics(&s, &call.st) &&
              qc_public_begin(&p, QC_COMMAND_collect, model, job, &call.st);
    if (ok && !p.call.data)
        ok = qc_fail(
            &call.st, QC_USAGE,
            "qcalib_collect needs the member `data` of struct qcalib_job: samples of what the model is used on");
    const struct qc_job_listener listener = {.progress = p.call.progress ? &p.progress : NULL};
    ok = ok && qc_job_new(&j, &p.options, &p.in, &listener, &call.st) && qc_job_collect(&seen, j, &call.st) &&
         qc_job_list_inputs(&s->files, j, &call.st);
    if (s) s->collection = seen.statistics;
    if (ok) qc_job_done(j);
    if (j) qc_public_warn(&p, qc_job_warnings(j));
    qc_job_free(j);
    qc_public_done(&p);
    return qc_public_end(QC_HAND_OVER(ok, out, s, qcalib_statistics_free), &call, error);
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

int qcalib_statistics_save(const qcalib_statistics *statistics, const char *path, struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    struct qc_named_file output = {.what = "the output", .path = path};
    const struct qc_file_list outputs = {.items = &output, .count = 1};
    const bool ok = qc_public_there(statistics, "statistics", &call.st) && qc_public_there(path, "path", &call.st) &&
                    qc_file_list_apart(&outputs, &statistics->files, &call.st) &&
                    qc_statistics_save(path, statistics->collection, &call.st);
    return qc_public_end(ok, &call, error);
}

int qcalib_statistics_load(qcalib_statistics **out, const char *path, struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    struct qcalib_statistics *s = NULL;
    const bool ok = qc_public_there(out, "out", &call.st) && qc_public_there(path, "path", &call.st) &&
                    make_statistics(&s, &call.st) && qc_statistics_load(&s->collection, path, &call.st) &&
                    qc_file_list_add(&s->files, "the statistics", path, &call.st) &&
                    qc_file_list_settle(&s->files, &call.st);
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
