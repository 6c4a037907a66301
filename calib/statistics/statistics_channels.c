// SPDX-License-Identifier: Apache-2.0
/* Converts statistics of channels to columns of a statistics file and back. */
#include <math.h>
#include <string.h>

#include "calib/statistics/statistics_parts.h"

enum { COUNTERS = 2 * QC_CHANNEL_WINDOW_BINS };

void qc_columns_count_channels(struct qc_columns *t, const struct qc_collection *c)
{
    t->channels = c->channels;
    for (size_t i = 0; i < c->count; i++) {
        const struct qc_channel_histogram *h = c->values[i].channels;
        t->channel_count += h ? h->channels : 0;
        for (size_t k = 0; h && k < h->channels * COUNTERS; k++) t->channel_bin_count += h->counts[k] != 0;
    }
    t->channel_edge_count = t->channel_count + 1;
}

void qc_columns_of_channels(struct qc_columns *t, const struct qc_collection *c)
{
    size_t at = 0, bin = 0;
    for (size_t i = 0; i < c->count; i++) {
        const struct qc_channel_histogram *h = c->values[i].channels;
        t->channel_axis[i] = h ? h->axis : -1;
        t->first_channel[i] = at;
        for (size_t k = 0; h && k < h->channels; k++, at++) {
            const struct qc_channel_tally *s = &h->tallies[k];
            t->channel_tally[2 * at] = s->count;
            t->channel_tally[2 * at + 1] = s->zeros;
            t->channel_extremes[2 * at] = s->min;
            t->channel_extremes[2 * at + 1] = s->max;
            t->channel_exponent[at] = s->exponent;
            t->channel_first_bin[at] = bin;
            for (size_t b = 0; b < COUNTERS; b++) {
                if (!h->counts[k * COUNTERS + b]) continue;
                t->channel_bin[bin] = (uint16_t)b;
                t->channel_bin_values[bin++] = h->counts[k * COUNTERS + b];
            }
        }
    }
    t->first_channel[c->count] = at;
    t->channel_first_bin[at] = bin;
}

/* Reads a channel. Returns false unless its tally and its bins agree. */
static bool take_channel(struct qc_channel_histogram *h, size_t k, const struct qc_columns *t, size_t at)
{
    struct qc_channel_tally s = {.count = t->channel_tally[2 * at],
                                 .zeros = t->channel_tally[2 * at + 1],
                                 .min = t->channel_extremes[2 * at],
                                 .max = t->channel_extremes[2 * at + 1],
                                 .exponent = t->channel_exponent[at]};
    const float magnitude = fmaxf(fabsf(s.min), fabsf(s.max));
    uint32_t bits;
    memcpy(&bits, &magnitude, sizeof bits);
    if (s.zeros > s.count || !isfinite(s.min) || !isfinite(s.max) || s.min > s.max ||
        s.exponent != (s.count == s.zeros ? -1 : (int32_t)(bits >> 23)) || (s.count == s.zeros && magnitude != 0))
        return false;
    uint64_t left = s.count - s.zeros;
    for (uint64_t b = t->channel_first_bin[at]; b < t->channel_first_bin[at + 1]; b++) {
        const bool ascending = b == t->channel_first_bin[at] || t->channel_bin[b] > t->channel_bin[b - 1],
                   possible = t->channel_bin[b] < QC_CHANNEL_WINDOW_BINS ? s.max > 0 : s.min < 0;
        if (!ascending || !possible || t->channel_bin[b] >= COUNTERS || !t->channel_bin_values[b] ||
            t->channel_bin_values[b] > left)
            return false;
        left -= t->channel_bin_values[b];
        h->counts[k * COUNTERS + t->channel_bin[b]] = t->channel_bin_values[b];
    }
    h->tallies[k] = s;
    return !left;
}

static bool check(const struct qc_columns *t, struct qc_status *st)
{
    bool ok = t->edge_count == t->count + 1 && t->channel_edge_count == t->channel_count + 1 &&
              t->first_channel[0] == 0 && t->first_channel[t->count] == t->channel_count &&
              t->channel_first_bin[0] == 0 && t->channel_first_bin[t->channel_count] == t->channel_bin_count;
    for (size_t i = 0; ok && i < t->count; i++) {
        ok =
            t->first_channel[i] <= t->first_channel[i + 1] &&
            t->first_channel[i + 1] - t->first_channel[i] <= QC_CHANNELS_MAX &&
            (t->first_channel[i] < t->first_channel[i + 1] ? t->channel_axis[i] >= 0 && t->channel_axis[i] < QC_RANK_MAX
                                                           : t->channel_axis[i] == -1);
    }
    for (size_t i = 0; ok && i < t->channel_count; i++) ok = t->channel_first_bin[i] <= t->channel_first_bin[i + 1];
    return ok || qc_fail(st, QC_BAD_INPUT, "the statistics of channels are invalid");
}

bool qc_columns_take_channels(struct qc_collection *c, const struct qc_columns *t, struct qc_status *st)
{
    c->channels = t->channels;
    if (!t->channels) return true;
    if (!check(t, st)) return false;
    for (size_t i = 0; i < t->count; i++) {
        const size_t first = (size_t)t->first_channel[i], count = (size_t)t->first_channel[i + 1] - first;
        if (!qc_collection_add_channels(c, i, t->channel_axis[i], (int64_t)count, st)) return false;
        for (size_t k = 0; k < count; k++)
            if (!take_channel(c->values[i].channels, k, t, first + k))
                return qc_fail(st, QC_BAD_INPUT, "the statistics of channel %zu of tensor '%s' are inconsistent", k,
                               t->names[i]);
    }
    return true;
}
