// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "evaluate/describe.h"
#include "library/public.h"

/* Frees the object. */
static bool print(char **json, size_t *size, struct qc_json *all, struct qc_status *st)
{
    char *text = qc_json_print(all, 0);
    qc_json_free(all);
    if (!text) return qc_fail_memory(st, 1);
    *size = strlen(text);
    *json = text;
    return true;
}

static bool there(char **json, const size_t *size, struct qc_status *st)
{
    return qc_public_there(json, "json", st) && qc_public_there(size, "size", st);
}

static bool inspect_file(char **json, size_t *size, const char *path, struct qc_arena *a, struct qc_status *st)
{
    struct qc_options o;
    struct qc_json *all = NULL;
    return qc_options_init(&o, QC_COMMAND_run, a, st) && qc_describe_file(&all, path, &o, false, NULL, st) &&
           print(json, size, all, st);
}

int qcalib_inspect_file(char **json, size_t *size, const char *path, struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    QC_ARENA_SCOPE *a = qc_arena_new();
    const bool ok = there(json, size, &call.st) && qc_public_there(path, "path", &call.st) &&
                    (a || qc_fail_memory(&call.st, 1)) && inspect_file(json, size, path, a, &call.st);
    return qc_public_end(ok, &call, error);
}

static bool inspect_model(char **json, size_t *size, const struct qcalib_model *model, struct qc_arena *a,
                          struct qc_status *st)
{
    struct qc_options o;
    struct qc_model m = {0};
    struct qc_model_summary s;
    struct qc_model_source source;
    struct qc_model_at_hand at_hand;
    qc_public_source(&source, &at_hand, model);
    const bool ok = qc_options_init(&o, QC_COMMAND_run, a, st) && qc_model_open(&m, &source, &o, NULL, st) &&
                    qc_model_summarise(&s, m.graph, a, st) &&
                    print(json, size, qc_describe_model(&m, &s, false, a, st), st);
    qc_model_close(&m);
    return ok;
}

int qcalib_inspect_model(char **json, size_t *size, const qcalib_model *model, struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    QC_ARENA_SCOPE *a = qc_arena_new();
    const bool ok = there(json, size, &call.st) && qc_public_there(model, "model", &call.st) &&
                    (a || qc_fail_memory(&call.st, 1)) && inspect_model(json, size, model, a, &call.st);
    return qc_public_end(ok, &call, error);
}
