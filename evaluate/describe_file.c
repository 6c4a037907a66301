// SPDX-License-Identifier: Apache-2.0
/* Describes a file, whose kind is found by its content. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "datasets/samples/dataset.h"
#include "evaluate/describe.h"

/* ---- Data ---- */

static struct qc_json *dims_json(const struct qc_data_entry *e)
{
    struct qc_json *dims = qc_json_array();
    for (unsigned d = 0; d < e->rank; d++)
        qc_json_add(dims, e->dims[d] < 0 ? qc_json_null() : qc_json_integer(e->dims[d]));
    return dims;
}

static struct qc_json *data_json(const char *path, const struct qc_data_list *list)
{
    struct qc_json *root = qc_json_object(), *sets = qc_json_array();
    for (size_t i = 0; i < list->count; i++) {
        const struct qc_data_entry *e = &list->entries[i];
        struct qc_json *one = qc_json_object(), *attributes = qc_json_object();
        for (size_t k = 0; k < e->attribute_count; k++)
            qc_json_set(attributes, e->attributes[k].name, qc_json_string(e->attributes[k].text));
        qc_json_put(one, "name %s type %s", e->name, e->type);
        qc_json_set(one, "shape", dims_json(e));
        qc_json_set(one, "storage", qc_json_string(e->storage));
        qc_json_set(one, "attributes", attributes);
        qc_json_add(sets, one);
    }
    qc_json_put(root, "file %s kind %s", path, "data");
    qc_json_set(root, "datasets", sets);
    return root;
}

/* ---- Statistics ---- */

static struct qc_json *sample_json(uint64_t id)
{
    if (id == QC_NO_SAMPLE) return qc_json_null();
    return QC_JSON("part %zu sample %zu", QC_SAMPLE_PART(id), QC_SAMPLE_NUMBER(id));
}

static struct qc_json *ranges_json(const struct qc_collection *c, size_t part)
{
    struct qc_json *list = qc_json_array();
    for (size_t i = 0; i < c->range_count; i++) {
        if (c->ranges[i].part != part) continue;
        struct qc_json *pair = qc_json_array();
        qc_json_add(pair, qc_json_integer((int64_t)c->ranges[i].first));
        qc_json_add(pair, qc_json_integer((int64_t)c->ranges[i].count));
        qc_json_add(list, pair);
    }
    return list;
}

static struct qc_json *tensor_json(const struct qc_collected *v)
{
    const struct qc_tally *t = &v->histogram->tally;
    struct qc_json *one = qc_json_object();
    qc_json_put(one, "name %s count %zu zeros %" PRIu64 " nan %zu inf %zu min %g max %g", v->name, t->count, t->zeros,
                t->nan, (t->pos_inf + t->neg_inf), (double)t->min, (double)t->max);
    qc_json_set(one, "min_at", sample_json(t->min_sample));
    qc_json_set(one, "max_at", sample_json(t->max_sample));
    qc_json_set(one, "first_bad", sample_json(t->first_bad_sample));
    return one;
}

static struct qc_json *statistics_json(const char *path, const struct qc_collection *c)
{
    struct qc_json *root = qc_json_object(), *parts = qc_json_array(), *tensors = qc_json_array();
    for (size_t i = 0; i < c->part_count; i++) {
        struct qc_json *one = qc_json_object();
        qc_json_put(one, "sha256 %s samples_in_file %zu samples_chosen %zu", c->parts[i].sha256, c->parts[i].samples,
                    c->parts[i].chosen);
        qc_json_set(one, "seen", ranges_json(c, i));
        qc_json_add(parts, one);
    }
    for (size_t i = 0; i < c->count; i++) qc_json_add(tensors, tensor_json(&c->values[i]));
    qc_json_put(root, "file %s kind %s", path, "statistics");
    qc_json_set(root, "version", qc_json_integer(qc_statistics_version(c)));
    qc_json_put(root, "model_sha256 %s inputs %s samples %zu", c->model_sha256, c->inputs, qc_collection_samples(c));
    qc_json_set(root, "parts", parts);
    qc_json_set(root, "tensors", tensors);
    return root;
}

/* ---- Reports ---- */

/* Returns true if the file's text begins with '{'. If it cannot be read, returns false: the import reports why. */
static bool begins_object(const char *path)
{
    struct stat about;
    FILE *f = stat(path, &about) == 0 && S_ISREG(about.st_mode) ? fopen(path, "rb")
                                                                : NULL; /* opening a pipe waits for a writer */
    int c = 0;
    while (f && (c = fgetc(f)) != EOF && strchr(" \t\r\n", c) && c) continue;
    if (f) fclose(f);
    return f && c == '{';
}

bool qc_report_read(struct qc_json **out, const char *path, struct qc_arena *a, struct qc_status *st)
{
    void *bytes;
    size_t size;
    struct qc_json *r = NULL;
    if (!qc_file_read(&bytes, &size, path, a, st)) return false;
    if (!qc_json_parse(&r, bytes, size, st)) return qc_where(st, "%s", path);
    const struct qc_json *tool = qc_json_get(r, "tool");
    const char *name = tool ? qc_json_text(tool) : NULL;
    if (!name || strcmp(name, "qcalib") != 0) {
        qc_json_free(r);
        return qc_fail(st, QC_BAD_INPUT, "%s: JSON, but no report of qcalib (\"tool\" is not \"qcalib\")", path);
    }
    *out = r;
    return true;
}

static struct qc_json *report_json(const char *path, const struct qc_json *r)
{
    static const char *const head[] = {"tool", "version", "command", "model", "data", "options", "accuracy"};
    static const char *const counted[] = {"layers", "float_ops"};
    struct qc_json *root = qc_json_object();
    qc_json_put(root, "file %s kind %s", path, "report");
    for (size_t k = 0; k < sizeof head / sizeof *head; k++)
        qc_json_set(root, head[k], qc_json_copy(qc_json_get(r, head[k])));
    for (size_t k = 0; k < sizeof counted / sizeof *counted; k++) {
        const struct qc_json *list = qc_json_get(r, counted[k]);
        qc_json_set(root, counted[k], qc_json_integer(list ? (int64_t)qc_json_size(list) : 0));
    }
    return root;
}

/* ---- Any ---- */

bool qc_inspected_kind(enum qc_inspected *kind, const char **path, struct qc_arena *a, struct qc_status *st)
{
    struct stat about;
    bool statistics;
    const char *file = *path;
    if (stat(file, &about) == 0 && S_ISDIR(about.st_mode)) {
        const char *inside = qc_arena_printf(a, st, "%s/report.json", file);
        if (!inside) return false;
        if (stat(inside, &about) != 0 && qc_data_is_known(file)) {
            *kind = QC_INSPECTED_DATA;
            return true;
        }
        file = inside; /* a report's folder */
    }
    if (!qc_statistics_is(&statistics, file, st)) return false;
    *kind = statistics               ? QC_INSPECTED_STATISTICS
            : qc_data_is_known(file) ? QC_INSPECTED_DATA
            : begins_object(file)    ? QC_INSPECTED_REPORT
                                     : QC_INSPECTED_MODEL;
    *path = file;
    return true;
}

static bool describe_model_file(struct qc_json **out, const char *path, const struct qc_options *o, bool values,
                                struct qc_warnings *w, struct qc_status *st)
{
    struct qc_model m = {0};
    struct qc_model_summary s;
    const bool ok = qc_model_open(&m, &(struct qc_model_source){.file = path}, o, w, st) &&
                    qc_model_summarise(&s, m.graph, o->arena, st);
    if (ok) *out = qc_describe_model(&m, &s, values, o->arena, st);
    qc_model_close(&m);
    return ok;
}

static bool describe_statistics_file(struct qc_json **out, const char *path, struct qc_status *st)
{
    struct qc_collection *c = NULL;
    const bool ok = qc_statistics_load(&c, path, st);
    if (ok) *out = statistics_json(path, c);
    qc_collection_free(c);
    return ok;
}

static bool describe_report_file(struct qc_json **out, const char *path, struct qc_arena *a, struct qc_status *st)
{
    struct qc_json *r = NULL;
    const bool ok = qc_report_read(&r, path, a, st);
    if (ok) *out = report_json(path, r);
    qc_json_free(r);
    return ok;
}

static bool describe_data_file(struct qc_json **out, const char *path, const struct qc_options *o, struct qc_status *st)
{
    struct qc_data_list list;
    const bool ok = qc_data_list(&list, path, qc_options_follow(o), o->arena, st);
    if (ok) *out = data_json(path, &list);
    return ok;
}

bool qc_describe_file(struct qc_json **out, const char *path, const struct qc_options *o, bool values,
                      struct qc_warnings *w, struct qc_status *st)
{
    enum qc_inspected kind;
    *out = NULL;
    if (!qc_inspected_kind(&kind, &path, o->arena, st)) return false;
    bool ok = false;
    switch (kind) {
    case QC_INSPECTED_MODEL: ok = describe_model_file(out, path, o, values, w, st); break;
    case QC_INSPECTED_DATA: ok = describe_data_file(out, path, o, st); break;
    case QC_INSPECTED_STATISTICS: ok = describe_statistics_file(out, path, st); break;
    case QC_INSPECTED_REPORT: ok = describe_report_file(out, path, o->arena, st); break;
    }
    return ok && (*out || qc_fail_memory(st, 1));
}
