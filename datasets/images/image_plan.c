// SPDX-License-Identifier: Apache-2.0
#include "datasets/images/image_plan.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/file.h"

/* ---- The model's input ---- */

/* Positions of its axes; -1: it has no such axis. */
struct axes {
    int channels, height, width;
};

static bool is_channels(int64_t d)
{
    return d == 1 || d == 3;
}

static bool find_axes(struct axes *x, struct qc_image_options *o, const struct qc_input_spec *in, struct qc_status *st)
{
    const int64_t *d = in->dims;
    int first = 1; /* after the batch */
    if (in->rank == 3) {
        if (d[0] != 3 && d[2] != 3) { /* [N,H,W] */
            *x = (struct axes){-1, 1, 2};
            if (o->layout == QC_LAYOUT_OF_MODEL) o->layout = QC_LAYOUT_NCHW;
            return true;
        }
        first = 0;
    } else if (in->rank != 4) {
        return qc_fail(st, QC_BAD_INPUT,
                       "input '%s' has %u axes; images are for inputs [N,C,H,W] or [N,H,W,C]: give other data",
                       in->name, in->rank);
    }
    if (o->layout == QC_LAYOUT_OF_MODEL) {
        const bool last = !is_channels(d[first]) && (is_channels(d[first + 2]) || d[first] > 4);
        o->layout = last ? QC_LAYOUT_NHWC : QC_LAYOUT_NCHW;
    }
    *x = o->layout == QC_LAYOUT_NCHW ? (struct axes){first, first + 1, first + 2}
                                     : (struct axes){first + 2, first, first + 1};
    return true;
}

static bool take_side(unsigned *side, int64_t d, const struct qc_input_spec *in, const char *name, struct qc_status *st)
{
    if (d < 0) return true;
    if (d < 1 || d > QC_IMAGE_SIDE_MAX)
        return qc_fail(st, QC_BAD_INPUT, "input '%s' takes images of %s %" PRId64, in->name, name, d);
    if (*side && *side != (unsigned)d)
        return qc_fail(st, QC_USAGE, "--image: crop has the %s %u, input '%s' takes %" PRId64, name, *side, in->name,
                       d);
    *side = (unsigned)d;
    return true;
}

static bool settle_axes(struct qc_image_plan *p, struct axes *x, const struct qc_input_spec *in, struct qc_status *st)
{
    struct qc_image_options *o = &p->how;
    int64_t channels = x->channels < 0 ? 1 : in->dims[x->channels];
    if (channels < 0) channels = o->color == QC_COLOR_GREY ? 1 : 3;
    if (!is_channels(channels))
        return qc_fail(st, QC_BAD_INPUT,
                       "input '%s' takes %" PRId64
                       " channels (%s); images have 1 or 3: give arrays, or --image layout=%s",
                       in->name, channels, o->layout == QC_LAYOUT_NCHW ? "nchw" : "nhwc",
                       o->layout == QC_LAYOUT_NCHW ? "nhwc" : "nchw");
    if (o->color == QC_COLOR_OF_MODEL) o->color = channels == 1 ? QC_COLOR_GREY : QC_COLOR_RGB;
    if ((o->color == QC_COLOR_GREY) != (channels == 1))
        return qc_fail(st, QC_USAGE, "--image: input '%s' takes %" PRId64 " channels, color=%s gives %d", in->name,
                       channels, channels == 1 ? "rgb" : "grey", channels == 1 ? 3 : 1);
    p->channels = (unsigned)channels;
    return take_side(&o->crop_height, in->dims[x->height], in, "height", st) &&
           take_side(&o->crop_width, in->dims[x->width], in, "width", st);
}

bool qc_image_plan_make(struct qc_image_plan *out, const struct qc_image_options *given,
                        const struct qc_input_spec *input, struct qc_status *st)
{
    struct qc_image_plan p = {.channels = 3};
    struct axes x = {0, 1, 2};
    if (given) p.how = *given;
    if (input) {
        if (!find_axes(&x, &p.how, input, st) || !settle_axes(&p, &x, input, st)) return false;
    } else {
        if (p.how.layout == QC_LAYOUT_OF_MODEL) p.how.layout = QC_LAYOUT_NCHW;
        if (p.how.color == QC_COLOR_OF_MODEL) p.how.color = QC_COLOR_RGB;
        if (p.how.color == QC_COLOR_GREY) p.channels = 1;
    }
    if (p.how.resize == QC_RESIZE_EXACT) {
        if (!p.how.crop_height) p.how.crop_height = p.how.resize_height;
        if (!p.how.crop_width) p.how.crop_width = p.how.resize_width;
    }
    if (!p.how.crop_height || !p.how.crop_width)
        return qc_fail(st, QC_USAGE, "the size of the images is unknown: give --image crop=224 or crop=HEIGHTxWIDTH");
    const unsigned low = p.how.crop_height < p.how.crop_width ? p.how.crop_height : p.how.crop_width;
    if ((p.how.resize == QC_RESIZE_EXACT &&
         (p.how.resize_height < p.how.crop_height || p.how.resize_width < p.how.crop_width)) ||
        (p.how.resize == QC_RESIZE_SHORT && p.how.resize_height < low))
        return qc_fail(st, QC_USAGE, "--image: resize=%u makes images smaller than the crop of %ux%u",
                       p.how.resize_height, p.how.crop_height, p.how.crop_width);
    const int64_t h = p.how.crop_height, w = p.how.crop_width, c = p.channels;
    const bool flat = x.channels < 0, last = p.how.layout == QC_LAYOUT_NHWC;
    p.rank = flat ? 2 : 3;
    p.dims[0] = flat || last ? h : c;
    p.dims[1] = flat || last ? w : h;
    p.dims[2] = last ? c : w;
    p.bytes = (size_t)(h * w * c); /* sides and channels are bounded */
    static const char *const colors[] = {"", "rgb", "bgr", "grey"};
    char resize[40] = "";
    switch (p.how.resize) {
    case QC_RESIZE_COVER: break;
    case QC_RESIZE_SHORT: snprintf(resize, sizeof resize, "resize=%u ", p.how.resize_height); break;
    case QC_RESIZE_EXACT:
        snprintf(resize, sizeof resize, "resize=%ux%u ", p.how.resize_height, p.how.resize_width);
        break;
    case QC_RESIZE_NONE: snprintf(resize, sizeof resize, "resize=none "); break;
    }
    qc_text(p.text, sizeof p.text, "%scrop=%ux%u layout=%s color=%s", resize, p.how.crop_height, p.how.crop_width,
            p.how.layout == QC_LAYOUT_NHWC ? "nhwc" : "nchw", colors[p.how.color]);
    *out = p;
    return true;
}

/* ---- Transforming an image ---- */

static unsigned scaled(unsigned side, unsigned to, unsigned from, unsigned least)
{
    const uint64_t v = (uint64_t)side * to / from;
    return v < least ? least : v > QC_PIXELS_MAX ? QC_PIXELS_MAX : (unsigned)v;
}

static void size_after(unsigned *width, unsigned *height, const struct qc_pixels *p, const struct qc_image_options *o)
{
    *width = p->width;
    *height = p->height;
    switch (o->resize) {
    case QC_RESIZE_COVER:
        if ((uint64_t)p->width * o->crop_height >= (uint64_t)p->height * o->crop_width) {
            *height = o->crop_height;
            *width = scaled(p->width, o->crop_height, p->height, o->crop_width);
        } else {
            *width = o->crop_width;
            *height = scaled(p->height, o->crop_width, p->width, o->crop_height);
        }
        break;
    case QC_RESIZE_SHORT: /* as torchvision's Resize */
        if (p->width <= p->height) {
            *width = o->resize_height;
            *height = scaled(p->height, o->resize_height, p->width, 1);
        } else {
            *height = o->resize_height;
            *width = scaled(p->width, o->resize_height, p->height, 1);
        }
        break;
    case QC_RESIZE_EXACT:
        *height = o->resize_height;
        *width = o->resize_width;
        break;
    case QC_RESIZE_NONE: break;
    }
}

/* Half of the remainder, rounded half to even, as in torchvision's CenterCrop. */
static unsigned middle(unsigned side, unsigned crop)
{
    return (unsigned)nearbyint((side - crop) / 2.0);
}

bool qc_image_plan_apply(unsigned char *out, const struct qc_image_plan *plan, const char *path,
                         const struct qc_budget *budget, struct qc_status *st)
{
    const struct qc_image_options *o = &plan->how;
    struct qc_pixels p = {.data = NULL};
    struct qc_arena *a = qc_arena_new();
    void *bytes;
    size_t size;
    unsigned width, height;
    if (!a) return qc_fail_memory(st, 1);
    bool ok = qc_budget_file(budget, path, 1, st) && qc_file_read(&bytes, &size, path, a, st) &&
              qc_decode_image(&p, bytes, size, budget, st) && qc_pixels_turn(&p, budget, st) &&
              qc_pixels_channels(&p, plan->channels, budget, st);
    qc_arena_free(a);
    if (ok) {
        size_after(&width, &height, &p, o);
        if (width < o->crop_width || height < o->crop_height)
            ok = qc_fail(st, QC_BAD_INPUT, "it has %u x %u pixels after resizing, the crop has %u x %u", width, height,
                         o->crop_width, o->crop_height);
        ok = ok && qc_pixels_resize(&p, width, height, budget, st);
    }
    if (ok) {
        const unsigned h = plan->how.crop_height, w = plan->how.crop_width, n = plan->channels;
        const unsigned top = middle(p.height, h), left = middle(p.width, w);
        const bool last = plan->how.layout == QC_LAYOUT_NHWC, turned = plan->how.color == QC_COLOR_BGR;
        for (unsigned y = 0; y < h; y++) {
            const unsigned char *in = p.data + ((size_t)(top + y) * p.width + left) * n;
            for (unsigned x = 0; x < w; x++, in += n)
                for (unsigned c = 0; c < n; c++) {
                    const size_t at = last ? ((size_t)y * w + x) * n + c : ((size_t)c * h + y) * w + x;
                    out[at] = in[turned ? n - 1 - c : c];
                }
        }
    }
    qc_pixels_free(&p);
    return ok;
}
