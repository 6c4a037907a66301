// SPDX-License-Identifier: Apache-2.0
#include "quantize/interface/inputs.h"

#include <string.h>

#include <stdarg.h>
#include <stdio.h>

bool qc_where_in_job(const struct qc_job_inputs *in, struct qc_status *st)
{
    const char *const files[] = {in->model.file, in->data.file, in->eval.file, in->statistics.file};
    if ((st->code != QC_BAD_INPUT && st->code != QC_UNSUPPORTED) || strncmp(st->message, "--", 2) == 0) return false;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char name[512]; /* a data set may follow the name of a file */
        const char *colon = files[i] ? strrchr(files[i], ':') : NULL;
        if (!files[i]) continue;
        qc_text(name, sizeof name, "%.*s", (int)(colon ? (size_t)(colon - files[i]) : strlen(files[i])), files[i]);
        if (strstr(st->message, name)) return false;
    }
    return in->model.file ? qc_where(st, "%s", in->model.file) : false;
}

bool qc_model_sha256(char hex[65], const struct qc_model_source *m, struct qc_status *st)
{
    if (!m->at_hand) return qc_sha256_file(hex, m->file, st);
    qc_text(hex, 65, "%s", m->at_hand->sha256);
    return true;
}

bool qc_data_sha256(char hex[65], const struct qc_data_source *s, const struct qc_dataset *ds, struct qc_status *st)
{
    if (s->memory) return qc_memory_data_sha256(hex, s->memory, st);
    return qc_data_file_sha256(hex, qc_dataset_file(ds), st) && qc_dataset_is_unchanged(ds, st);
}

static bool tell_listener(struct qc_progress *p, const char *phase, size_t done, size_t count)
{
    return !p || !p->tell || p->tell(p->user, phase, done, count);
}

void qc_progress_phase(struct qc_progress *p, const char *fmt, ...)
{
    if (!p) return;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(p->phase, sizeof p->phase, fmt, ap);
    va_end(ap);
    tell_listener(p, p->phase, 0, 0); /* a request to stop is repeated at the first step */
}

bool qc_progress_step(void *user, size_t done, size_t count)
{
    struct qc_progress *p = user;
    return tell_listener(p, p ? p->phase : "", done, count);
}

void qc_progress_end(struct qc_progress *p)
{
    tell_listener(p, NULL, 0, 0);
}

bool qc_progress_check(struct qc_progress *p, struct qc_status *st)
{
    return tell_listener(p, NULL, 0, 0) || qc_fail(st, QC_INTERRUPTED, "interrupted");
}
