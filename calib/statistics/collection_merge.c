// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "calib/statistics/collection.h"

static void move_sample(uint64_t *id, size_t from)
{
    if (*id != QC_NO_SAMPLE && QC_SAMPLE_PART(*id) >= from) *id += QC_SAMPLE_ID(1, 0);
}

bool qc_collection_add_part(size_t *index, struct qc_collection *c, const struct qc_part *part, struct qc_status *st)
{
    size_t at = 0;
    while (at < c->part_count && strcmp(c->parts[at].sha256, part->sha256) < 0) at++;
    *index = at;
    if (at < c->part_count && strcmp(c->parts[at].sha256, part->sha256) == 0)
        return (c->parts[at].samples == part->samples && c->parts[at].chosen == part->chosen) ||
               qc_fail(st, QC_BAD_INPUT,
                       "data with SHA-256 %s: %llu of %llu samples were chosen in one run and %llu of %llu in the "
                       "other (--samples)",
                       part->sha256, (unsigned long long)c->parts[at].chosen, (unsigned long long)c->parts[at].samples,
                       (unsigned long long)part->chosen, (unsigned long long)part->samples);
    struct qc_part *parts = qc_grown(c->parts, c->part_count, &c->part_capacity, sizeof *parts, st);
    if (!parts) return false;
    c->parts = parts;
    memmove(parts + at + 1, parts + at, (c->part_count - at) * sizeof *parts);
    parts[at] = *part;
    c->part_count++;
    for (size_t i = 0; i < c->range_count; i++) c->ranges[i].part += c->ranges[i].part >= at;
    for (size_t i = 0; c->extremes && i < c->extremes->count; i++) move_sample(&c->extremes->samples[i], at);
    for (size_t i = 0; i < c->count; i++) {
        struct qc_tally *t = &c->values[i].histogram->tally;
        move_sample(&t->min_sample, at);
        move_sample(&t->max_sample, at);
        move_sample(&t->first_bad_sample, at);
    }
    return true;
}

/* Returns the number of ranges that begin at or before a sample. */
static size_t place(const struct qc_collection *c, uint64_t part, uint64_t number)
{
    size_t lo = 0, hi = c->range_count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const struct qc_sample_range *r = &c->ranges[mid];
        if (r->part < part || (r->part == part && r->first <= number))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

bool qc_collection_has_sample(const struct qc_collection *c, uint64_t part, uint64_t number)
{
    size_t at = place(c, part, number);
    return at > 0 && c->ranges[at - 1].part == part && number - c->ranges[at - 1].first < c->ranges[at - 1].count;
}

static bool fail_twice(const struct qc_collection *c, uint64_t part, uint64_t number, struct qc_status *st)
{
    return qc_fail(
        st, QC_BAD_INPUT,
        "sample %llu of the data with SHA-256 %s has been seen already: the same shard twice, or shards that overlap",
        (unsigned long long)number, c->parts[part].sha256);
}

bool qc_collection_add_range(struct qc_collection *c, struct qc_sample_range r, struct qc_status *st)
{
    size_t at = place(c, r.part, r.first);
    struct qc_sample_range *before = at > 0 && c->ranges[at - 1].part == r.part ? &c->ranges[at - 1] : NULL;
    struct qc_sample_range *after = at < c->range_count && c->ranges[at].part == r.part ? &c->ranges[at] : NULL;
    if (before && r.first - before->first < before->count) return fail_twice(c, r.part, r.first, st);
    if (after && after->first - r.first < r.count) return fail_twice(c, r.part, after->first, st);
    bool joins_before = before && before->first + before->count == r.first,
         joins_after = after && r.first + r.count == after->first;
    if (joins_before && joins_after) {
        before->count += r.count + after->count;
        memmove(after, after + 1, (--c->range_count - at) * sizeof *after);
    } else if (joins_before) {
        before->count += r.count;
    } else if (joins_after) {
        after->first = r.first;
        after->count += r.count;
    } else {
        struct qc_sample_range *ranges = qc_grown(c->ranges, c->range_count, &c->range_capacity, sizeof *ranges, st);
        if (!ranges) return false;
        c->ranges = ranges;
        memmove(ranges + at + 1, ranges + at, (c->range_count++ - at) * sizeof *ranges);
        ranges[at] = r;
    }
    return true;
}

uint64_t qc_collection_samples(const struct qc_collection *c)
{
    uint64_t n = 0;
    for (size_t i = 0; i < c->range_count; i++) n += c->ranges[i].count;
    return n;
}

bool qc_collection_check_whole(const struct qc_collection *c, struct qc_status *st)
{
    for (size_t p = 0; p < c->part_count; p++) {
        uint64_t seen = 0;
        for (size_t i = 0; i < c->range_count; i++) seen += c->ranges[i].part == p ? c->ranges[i].count : 0;
        if (seen != c->parts[p].chosen)
            return qc_fail(st, QC_BAD_INPUT,
                           "has %llu of the %llu samples that were chosen from the data with SHA-256 %s: a shard is "
                           "missing, or its run was interrupted",
                           (unsigned long long)seen, (unsigned long long)c->parts[p].chosen, c->parts[p].sha256);
    }
    return true;
}

static bool check_kin(const struct qc_collection *a, const struct qc_collection *b, struct qc_status *st)
{
    if (strcmp(a->model_sha256, b->model_sha256) != 0)
        return qc_fail(st, QC_BAD_INPUT, "is of another model: SHA-256 %s, expected %s", b->model_sha256,
                       a->model_sha256);
    if (strcmp(a->inputs, b->inputs) != 0)
        return qc_fail(st, QC_BAD_INPUT,
                       "was made from other inputs or with another preprocessing (--input, --preprocess, attributes of "
                       "the data): '%s', expected '%s'",
                       b->inputs, a->inputs);
    if (a->need != b->need)
        return qc_fail(st, QC_BAD_INPUT,
                       "one has histograms and the other has none (a checkpoint of a method that needs extremes only)");
    if (!a->second_moments != !b->second_moments)
        return qc_fail(st, QC_BAD_INPUT, "one has second moments and the other has none (--second-moments off)");
    if (a->channels != b->channels)
        return qc_fail(st, QC_BAD_INPUT,
                       "one has statistics of channels and the other has none (--channel-statistics)");
    if (!a->extremes != !b->extremes)
        return qc_fail(st, QC_BAD_INPUT,
                       "one has the extremes of every sample and the other has none (a checkpoint of another method)");
    for (size_t i = 0; i < a->count || i < b->count; i++) {
        const char *x = i < a->count ? a->values[i].name : NULL, *y = i < b->count ? b->values[i].name : NULL;
        const struct qc_channel_histogram *p = x && y ? a->values[i].channels : NULL,
                                          *q = x && y ? b->values[i].channels : NULL;
        if (!p != !q || (p && (p->axis != q->axis || p->channels != q->channels)))
            return qc_fail(st, QC_BAD_INPUT, "has other channels of tensor '%s': made with other --rules", x);
        if (x && y && strcmp(x, y) == 0) continue;
        return qc_fail(st, QC_BAD_INPUT,
                       "holds statistics of other tensors (%zu, expected %zu; the first that differs is '%s', expected "
                       "'%s'): made with other --rules, or a checkpoint of another run",
                       b->count, a->count, y ? y : "none", x ? x : "none");
    }
    return true;
}

static uint64_t mapped(uint64_t id, const size_t *map)
{
    return id == QC_NO_SAMPLE ? id : QC_SAMPLE_ID(map[QC_SAMPLE_PART(id)], QC_SAMPLE_NUMBER(id));
}

static bool merge_extremes(struct qc_collection *to, const struct qc_collection *from, const size_t *map,
                           struct qc_status *st)
{
    struct qc_extremes_table t = *from->extremes;
    if (!(t.samples = malloc((t.count + 1) * sizeof *t.samples)))
        return qc_fail_memory(st, t.count * sizeof *t.samples);
    for (size_t i = 0; i < t.count; i++) t.samples[i] = mapped(from->extremes->samples[i], map);
    const bool ok = qc_extremes_table_add(to->extremes, &t, st);
    free(t.samples);
    return ok;
}

bool qc_collection_merge(struct qc_collection *to, const struct qc_collection *from, struct qc_status *st)
{
    size_t *map = calloc(from->part_count + 1, sizeof *map);
    bool ok = map ? check_kin(to, from, st) : qc_fail_memory(st, from->part_count * sizeof *map);
    /* Both lists ascend: a part added later is after all parts mapped already. */
    for (size_t i = 0; ok && i < from->part_count; i++) ok = qc_collection_add_part(&map[i], to, &from->parts[i], st);
    for (size_t i = 0; ok && i < from->range_count; i++) {
        struct qc_sample_range r = from->ranges[i];
        r.part = map[r.part];
        ok = qc_collection_add_range(to, r, st);
    }
    for (size_t i = 0; ok && i < to->count; i++) {
        struct qc_histogram other = *from->values[i].histogram;
        other.tally.min_sample = mapped(other.tally.min_sample, map);
        other.tally.max_sample = mapped(other.tally.max_sample, map);
        other.tally.first_bad_sample = mapped(other.tally.first_bad_sample, map);
        ok = qc_histogram_add(to->values[i].histogram, &other, st);
        if (to->values[i].channels) qc_channel_histogram_add(to->values[i].channels, from->values[i].channels);
    }
    ok = ok && (!to->extremes || merge_extremes(to, from, map, st)) &&
         (!to->second_moments || qc_second_moments_merge(to->second_moments, from->second_moments, st));
    free(map);
    return ok;
}
