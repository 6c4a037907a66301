// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "calib/statistics/statistics.h"
#include "library/public.h"

static bool make_statistics(struct qcalib_statistics **out, struct qc_status *st)
{
    *out = calloc(1, sizeof **out);
    return *out || qc_fail_memory(st, sizeof **out);
}

void qcalib_statistics_free(qcalib_statistics *statistics)
{
    if (!statistics) return;
    qc_collection_free(statistics->collection);
    free(statistics);
}

static bool collect(struct qcalib_statistics *s, struct qc_public_job *p, const struct qcalib_model *model,
                    const struct qcalib_job *call, struct qc_status *st)
{
    struct qc_job *job = NULL;
    struct qc_collect_result seen;
    if (!qc_public_begin(p, QC_COMMAND_collect, model, call, st)) return false;
    if (!call->data)
        return qc_fail(
            st, QC_USAGE,
            "qcalib_collect needs the member `data` of struct qcalib_job: samples of what the model is used on");
    const struct qc_job_listener listener = {.progress = call->progress ? &p->progress : NULL};
    const bool ok = qc_job_new(&job, &p->options, &p->in, &listener, st) && qc_job_collect(&seen, job, st);
    if (ok) s->collection = seen.statistics;
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
    ok = ok && qc_collection_merge(into->collection, more->collection, &call.st);
    return qc_public_end(ok, &call, error);
}

int qcalib_statistics_save(const qcalib_statistics *statistics, const char *path, struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    const bool ok = qc_public_there(statistics, "statistics", &call.st) && qc_public_there(path, "path", &call.st) &&
                    qc_statistics_save(path, statistics->collection, &call.st);
    return qc_public_end(ok, &call, error);
}

int qcalib_statistics_load(qcalib_statistics **out, const char *path, struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    struct qcalib_statistics *s = NULL;
    const bool ok = qc_public_there(out, "out", &call.st) && qc_public_there(path, "path", &call.st) &&
                    make_statistics(&s, &call.st) && qc_statistics_load(&s->collection, path, &call.st);
    if (ok)
        *out = s;
    else
        qcalib_statistics_free(s);
    return qc_public_end(ok, &call, error);
}

uint64_t qcalib_statistics_samples(const qcalib_statistics *statistics)
{
    return statistics ? qc_collection_samples(statistics->collection) : 0;
}

size_t qcalib_statistics_tensors(const qcalib_statistics *statistics)
{
    return statistics ? statistics->collection->count : 0;
}
