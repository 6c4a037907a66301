// SPDX-License-Identifier: Apache-2.0
#include "graph/infer/blocks.h"

#include "base/checked.h"
#include "graph/infer/infer_help.h"

enum { LARGEST = 1 << 30 };

static bool read(int64_t out[QC_RANK_MAX], const struct qc_node *n, const char *name, int count, int64_t otherwise,
                 int64_t least, struct qc_status *st)
{
    const int64_t *given = NULL;
    const size_t have = qc_attr_ints(n, name, &given);
    bool fits = !have || have == (size_t)count;
    for (int i = 0; i < count && fits; i++) {
        out[i] = have ? given[i] : otherwise;
        fits = out[i] >= least && out[i] <= LARGEST;
    }
    return fits || qc_fail(st, QC_BAD_INPUT, "attribute %s does not fit", name);
}

bool qc_blocks_of(struct qc_blocks *out, const struct qc_graph *g, const struct qc_node *n, struct qc_status *st)
{
    const struct qc_infer c = {.graph = g, .node = n};
    struct qc_blocks b = {.points = 1, .blocks = 1};
    struct qc_list image, block;
    int64_t pads[2 * QC_RANK_MAX] = {0};
    if (!qc_infer_list(&image, &c, 1, "the image's shape", st) ||
        !qc_infer_list(&block, &c, 2, "the block's shape", st))
        return false;
    if (!image.known || !block.known) return qc_fail(st, QC_UNSUPPORTED, "shapes of image and block must be constants");
    if (image.count != block.count || image.count < 1 || image.count > QC_RANK_MAX - 2)
        return qc_fail(st, QC_BAD_INPUT, "shapes of image and block do not fit");
    b.spatial = (int)image.count;
    if (!read(b.stride, n, "strides", b.spatial, 1, 1, st) || !read(b.dilation, n, "dilations", b.spatial, 1, 1, st) ||
        !read(pads, n, "pads", 2 * b.spatial, 0, 0, st))
        return false;
    for (int d = 0; d < b.spatial; d++) {
        const int64_t size = image.value[d], points = block.value[d];
        b.image[d] = size;
        b.block[d] = points;
        b.pad_begin[d] = pads[d];
        if (size < 1 || size > LARGEST || points < 1 || points > LARGEST)
            return qc_fail(st, QC_BAD_INPUT, "an image of size %lld, blocks of %lld", (long long)size,
                           (long long)points);
        const int64_t span = size + pads[d] + pads[b.spatial + d] - b.dilation[d] * (points - 1) - 1;
        if (span < 0) return qc_fail(st, QC_BAD_INPUT, "a block does not fit into the image");
        b.steps[d] = span / b.stride[d] + 1;
        if (!qc_mul_i64(&b.points, b.points, points) || !qc_mul_i64(&b.blocks, b.blocks, b.steps[d]))
            return qc_fail(st, QC_BAD_INPUT, "the image is too large");
    }
    *out = b;
    return true;
}
