// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "calib/statistics/statistics.h"
#include "cli/commands/inspect.h"
#include "cli/terminal/screen.h"

static struct qc_json *sample_json(uint64_t id)
{
    if (id == QC_NO_SAMPLE) return qc_json_null();
    struct qc_json *v = qc_json_object();
    qc_json_set(v, "part", qc_json_integer((int64_t)QC_SAMPLE_PART(id)));
    qc_json_set(v, "sample", qc_json_integer((int64_t)QC_SAMPLE_NUMBER(id)));
    return v;
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
    qc_json_set(one, "name", qc_json_string(v->name));
    qc_json_set(one, "count", qc_json_integer((int64_t)t->count));
    qc_json_set(one, "zeros", qc_json_integer((int64_t)t->zeros));
    qc_json_set(one, "nan", qc_json_integer((int64_t)t->nan));
    qc_json_set(one, "inf", qc_json_integer((int64_t)(t->pos_inf + t->neg_inf)));
    qc_json_set(one, "min", qc_json_number((double)t->min));
    qc_json_set(one, "max", qc_json_number((double)t->max));
    qc_json_set(one, "min_at", sample_json(t->min_sample));
    qc_json_set(one, "max_at", sample_json(t->max_sample));
    qc_json_set(one, "first_bad", sample_json(t->first_bad_sample));
    return one;
}

static bool print_json(const char *path, const struct qc_collection *c, struct qc_status *st)
{
    struct qc_json *root = qc_json_object(), *parts = qc_json_array(), *tensors = qc_json_array();
    for (size_t i = 0; i < c->part_count; i++) {
        struct qc_json *one = qc_json_object();
        qc_json_set(one, "sha256", qc_json_string(c->parts[i].sha256));
        qc_json_set(one, "samples_in_file", qc_json_integer((int64_t)c->parts[i].samples));
        qc_json_set(one, "samples_chosen", qc_json_integer((int64_t)c->parts[i].chosen));
        qc_json_set(one, "seen", ranges_json(c, i));
        qc_json_add(parts, one);
    }
    for (size_t i = 0; i < c->count; i++) qc_json_add(tensors, tensor_json(&c->values[i]));
    qc_json_set(root, "file", qc_json_string(path));
    qc_json_set(root, "kind", qc_json_string("statistics"));
    qc_json_set(root, "version", qc_json_integer(c->channels ? QC_STATISTICS_VERSION_CHANNELS : QC_STATISTICS_VERSION));
    qc_json_set(root, "model_sha256", qc_json_string(c->model_sha256));
    qc_json_set(root, "inputs", qc_json_string(c->inputs));
    qc_json_set(root, "samples", qc_json_integer((int64_t)qc_collection_samples(c)));
    qc_json_set(root, "parts", parts);
    qc_json_set(root, "tensors", tensors);
    return qc_print_json(root, st);
}

static void print_sample(uint64_t id)
{
    if (id != QC_NO_SAMPLE)
        qc_say(" (sample %llu of part %llu)", (unsigned long long)QC_SAMPLE_NUMBER(id),
               (unsigned long long)QC_SAMPLE_PART(id));
}

static void print_text(const char *path, const struct qc_collection *c, bool all)
{
    enum { LISTED = 4 };
    qc_say("file     %s: statistics of qcalib, version %d\n", path,
           c->channels ? (int)QC_STATISTICS_VERSION_CHANNELS : (int)QC_STATISTICS_VERSION);
    qc_say("model    SHA-256 %s\n", c->model_sha256);
    for (size_t i = 0; i < c->part_count && (all || i < LISTED); i++)
        qc_say("part %-3zu SHA-256 %s, %llu of %llu samples chosen\n", i, c->parts[i].sha256,
               (unsigned long long)c->parts[i].chosen, (unsigned long long)c->parts[i].samples);
    if (!all && c->part_count > LISTED) qc_say("and %zu more parts; -v lists them\n", c->part_count - LISTED);
    qc_say("samples  %llu\n", (unsigned long long)qc_collection_samples(c));
    for (size_t i = 0; i < c->count && (all || i < LISTED); i++) {
        const struct qc_tally *t = &c->values[i].histogram->tally;
        qc_say("tensor   %s from %g", c->values[i].name, (double)t->min);
        if (all) print_sample(t->min_sample);
        qc_say(" to %g", (double)t->max);
        if (all) print_sample(t->max_sample);
        qc_say(", %llu values\n", (unsigned long long)t->count);
    }
    if (!all && c->count > LISTED) qc_say("and %zu more tensors; -v lists them\n", c->count - LISTED);
}

bool qc_inspect_statistics(const char *path, const struct qc_cli_options *o, struct qc_status *st)
{
    struct qc_collection *c = NULL;
    bool ok = qc_statistics_load(&c, path, st);
    if (ok && o->json)
        ok = print_json(path, c, st);
    else if (ok)
        print_text(path, c, o->verbose);
    qc_collection_free(c);
    return ok;
}
