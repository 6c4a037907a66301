// SPDX-License-Identifier: Apache-2.0
#include "graph/infer/boxes.h"

#include <math.h>
#include <string.h>

void qc_boxes_limits(struct qc_boxes *b, const struct qc_tensor *most, const struct qc_tensor *overlap,
                     const struct qc_tensor *least)
{
    b->most = most && most->count ? qc_tensor_int(most, 0) : 0;
    b->overlap = overlap && overlap->count ? qc_tensor_float(overlap, 0) : 0;
    b->least = least && least->count ? qc_tensor_float(least, 0) : -HUGE_VAL;
}

struct box {
    double lo[2], hi[2];
};

static struct box box_of(const struct qc_boxes *b, size_t at)
{
    double v[4];
    struct box x;
    for (size_t i = 0; i < 4; i++) v[i] = qc_tensor_float(b->boxes, 4 * at + i);
    for (int d = 0; d < 2; d++) {
        const double p = b->centred ? v[d] - v[d + 2] / 2 : v[d], q = b->centred ? v[d] + v[d + 2] / 2 : v[d + 2];
        x.lo[d] = fmin(p, q);
        x.hi[d] = fmax(p, q);
    }
    return x;
}

static double area(const struct box *b)
{
    return (b->hi[0] - b->lo[0]) * (b->hi[1] - b->lo[1]);
}

static bool overlap(const struct box *a, const struct box *b, double most)
{
    double shared = 1;
    for (int d = 0; d < 2; d++) {
        const double side = fmin(a->hi[d], b->hi[d]) - fmax(a->lo[d], b->lo[d]);
        shared *= side > 0 ? side : 0;
    }
    const double all = area(a) + area(b) - shared;
    return area(a) > 0 && area(b) > 0 && shared > 0 && shared / all > most;
}

/* Sorts candidates by descending score; equal scores by position. Returns their number. */
static size_t candidates(size_t *order, size_t *other, const struct qc_boxes *b, size_t first, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; i++)
        if (qc_tensor_float(b->scores, first + i) > b->least) order[count++] = i;
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t begin = 0; begin < count; begin += 2 * width) {
            const size_t middle = begin + width < count ? begin + width : count,
                         end = begin + 2 * width < count ? begin + 2 * width : count;
            for (size_t i = begin, k = middle, o = begin; o < end; o++) {
                const bool right = i == middle || (k < end && qc_tensor_float(b->scores, first + order[k]) >
                                                                  qc_tensor_float(b->scores, first + order[i]));
                other[o] = right ? order[k++] : order[i++];
            }
        }
        memcpy(order, other, count * sizeof *order);
    }
    return count;
}

bool qc_boxes_select(int64_t **list, size_t *count, const struct qc_boxes *b, struct qc_arena *a, struct qc_status *st)
{
    const size_t images = (size_t)b->scores->shape.dim[0], classes = (size_t)b->scores->shape.dim[1],
                 n = (size_t)b->scores->shape.dim[2];
    const size_t most = b->most < 0 ? 0 : (uint64_t)b->most < n ? (size_t)b->most : n;
    size_t *order = QC_NEW_ARRAY(a, size_t, n, st), *other = QC_NEW_ARRAY(a, size_t, n, st);
    struct box *kept = QC_NEW_ARRAY(a, struct box, most, st);
    int64_t *out = QC_NEW_ARRAY(a, int64_t, 3 * b->scores->count, st); /* upper bound: three per score */
    size_t selected = 0;
    if (!order || !other || !kept || !out) return false;
    for (size_t i = 0; i < images && n; i++)
        for (size_t c = 0; c < classes; c++) {
            const size_t found = candidates(order, other, b, (i * classes + c) * n, n);
            size_t stays = 0;
            for (size_t k = 0; k < found && stays < most; k++) {
                const struct box x = box_of(b, i * n + order[k]);
                bool covered = false;
                for (size_t j = 0; j < stays && !covered; j++) covered = overlap(&x, &kept[j], b->overlap);
                if (covered) continue;
                kept[stays++] = x;
                int64_t *to = out + 3 * selected++;
                to[0] = (int64_t)i;
                to[1] = (int64_t)c;
                to[2] = (int64_t)order[k];
            }
        }
    *list = out;
    *count = selected;
    return true;
}
