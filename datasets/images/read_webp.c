// SPDX-License-Identifier: Apache-2.0
#include <string.h>
#include <webp/decode.h>
#include <webp/demux.h>

#include "base/scope.h"
#include "datasets/images/pixels.h"

/* Decodes the first frame onto a black canvas. */
static bool read_frame(struct qc_pixels *p, const WebPIterator *f, struct qc_status *st)
{
    if (f->width < 1 || f->height < 1 || f->x_offset < 0 || f->y_offset < 0 ||
        (unsigned)f->x_offset + (unsigned)f->width > p->width ||
        (unsigned)f->y_offset + (unsigned)f->height > p->height)
        return qc_fail(st, QC_BAD_INPUT, "WebP: its frame is larger than the image");
    WebPBitstreamFeatures about;
    if (WebPGetFeatures(f->fragment.bytes, f->fragment.size, &about) != VP8_STATUS_OK || about.width != f->width ||
        about.height != f->height)
        return qc_fail(st, QC_BAD_INPUT, "WebP: its frame is damaged");
    const size_t stride = (size_t)p->width * 3, first = (size_t)f->y_offset * stride + (size_t)f->x_offset * 3;
    if (f->width < (int)p->width || f->height < (int)p->height) memset(p->data, 0, stride * p->height);
    return WebPDecodeRGBInto(f->fragment.bytes, f->fragment.size, p->data + first, stride * p->height - first,
                             (int)stride) != NULL ||
           qc_fail(st, QC_BAD_INPUT, "WebP: it is truncated or damaged");
}

bool qc_decode_webp(struct qc_pixels *out, const unsigned char *bytes, size_t size, const struct qc_budget *budget,
                    struct qc_status *st)
{
    const WebPData data = {.bytes = bytes, .size = size};
    struct qc_pixels p = {.data = NULL};
    WebPIterator frame = {.frame_num = 0};
    WebPChunkIterator exif = {.chunk_num = 0};
    WebPDemuxer *d = WebPDemux(&data);
    if (!d) return qc_fail(st, QC_BAD_INPUT, "WebP: it is truncated or damaged");
    /* libwebp holds a second copy of a frame while decoding. */
    bool ok = qc_pixels_new(&p, WebPDemuxGetI(d, WEBP_FF_CANVAS_WIDTH), WebPDemuxGetI(d, WEBP_FF_CANVAS_HEIGHT), 3, 2,
                            budget, st);
    if (ok && !WebPDemuxGetFrame(d, 1, &frame)) ok = qc_fail(st, QC_BAD_INPUT, "WebP: it has no frame");
    ok = ok && read_frame(&p, &frame, st);
    if (ok && WebPDemuxGetI(d, WEBP_FF_FORMAT_FLAGS) & EXIF_FLAG && WebPDemuxGetChunk(d, "EXIF", 1, &exif))
        p.orientation = qc_exif_orientation(exif.chunk.bytes, exif.chunk.size);
    WebPDemuxReleaseChunkIterator(&exif);
    WebPDemuxReleaseIterator(&frame);
    WebPDemuxDelete(d);
    return QC_HAND_OVER_VALUE(ok, out, p, qc_pixels_free);
}
