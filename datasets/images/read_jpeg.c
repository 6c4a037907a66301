// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
/* these need stdio.h before them */
#include <jerror.h>
#include <jpeglib.h>

#include "base/scope.h"
#include "datasets/images/pixels.h"

enum { SCANS_MAX = 200 }; /* progressive images with more scans only cost time */

struct reading {
    struct jpeg_error_mgr errors;
    struct jpeg_progress_mgr progress;
    jmp_buf back;
    char message[JMSG_LENGTH_MAX];
};

static void jpeg_gives_up(j_common_ptr j)
{
    struct reading *r = (struct reading *)j->err;
    r->errors.format_message(j, r->message);
    longjmp(r->back, 1);
}

/* Turns warnings of libjpeg after which the pixels are unknown into errors. Extra bytes between markers are
   harmless. */
static void hear(j_common_ptr j, int level)
{
    const int code = j->err->msg_code;
    if (level < 0 && (code == JWRN_JPEG_EOF || code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE ||
                      code == JWRN_NOT_SEQUENTIAL || code == JWRN_BOGUS_PROGRESSION))
        jpeg_gives_up(j);
}

static void jpeg_says_nothing(j_common_ptr j)
{
}

static void watch(j_common_ptr j)
{
    struct reading *r = (struct reading *)j->err;
    if (!j->is_decompressor || ((j_decompress_ptr)j)->input_scan_number <= SCANS_MAX) return;
    snprintf(r->message, sizeof r->message, "it has more than %d scans", (int)SCANS_MAX);
    longjmp(r->back, 1);
}

static unsigned orientation(const struct jpeg_decompress_struct *j)
{
    for (jpeg_saved_marker_ptr m = j->marker_list; m; m = m->next)
        if (m->marker == JPEG_APP0 + 1 && m->data_length >= 6 && memcmp(m->data, "Exif\0", 6) == 0)
            return qc_exif_orientation(m->data, m->data_length);
    return 1;
}

/* a * b / 255, rounded as in Pillow. */
static unsigned char product(unsigned a, unsigned b)
{
    const unsigned t = a * b + 128;
    return (unsigned char)(((t >> 8) + t) >> 8);
}

/* Everything that must survive longjmp is in *p and *j. */
static bool read_scanlines(struct qc_pixels *p, struct jpeg_decompress_struct *j, const struct qc_budget *budget,
                           struct qc_status *st)
{
    jpeg_read_header(j, TRUE);
    const bool inks = j->num_components == 4;
    j->out_color_space = inks ? JCS_CMYK : j->num_components == 1 ? JCS_GRAYSCALE : JCS_RGB;
    const unsigned turned = orientation(j);
    /* A progressive image needs all its coefficients, in 16 bits, at once. */
    if (!qc_pixels_new(p, j->image_width, j->image_height, j->num_components == 1 ? 1 : 3, j->progressive_mode ? 4 : 1,
                       budget, st))
        return false;
    p->orientation = turned;
    jpeg_start_decompress(j);
    JSAMPARRAY four = inks ? j->mem->alloc_sarray((j_common_ptr)j, JPOOL_IMAGE, j->output_width * 4, 1) : NULL;
    while (j->output_scanline < j->output_height) {
        unsigned char *to = p->data + (size_t)j->output_scanline * p->width * p->channels;
        JSAMPROW row = inks ? four[0] : to;
        jpeg_read_scanlines(j, &row, 1);
        if (inks) {
            /* Inks as Adobe stores them, inverted: 255 is no ink. */
            unsigned char *out = to;
            const unsigned char *in = row;
            for (size_t i = 0; i < p->width; i++, in += 4, out += 3) {
                const unsigned char c = in[0], m = in[1], y = in[2], light = in[3];
                out[0] = (unsigned char)(light - product((unsigned char)(255 - c), light));
                out[1] = (unsigned char)(light - product((unsigned char)(255 - m), light));
                out[2] = (unsigned char)(light - product((unsigned char)(255 - y), light));
            }
        }
    }
    jpeg_finish_decompress(j);
    return true;
}

bool qc_decode_jpeg(struct qc_pixels *out, const unsigned char *bytes, size_t size, const struct qc_budget *budget,
                    struct qc_status *st)
{
    struct jpeg_decompress_struct j;
    struct reading r = {.message = ""};
    struct qc_pixels p = {.data = NULL};
    bool ok = false;
    j.err = jpeg_std_error(&r.errors);
    r.errors.error_exit = jpeg_gives_up;
    r.errors.emit_message = hear;
    r.errors.output_message = jpeg_says_nothing;
    r.progress.progress_monitor = watch;
    if (setjmp(r.back) == 0) {
        jpeg_create_decompress(&j);
        j.progress = &r.progress;
        jpeg_save_markers(&j, JPEG_APP0 + 1, 0xffff);
        jpeg_mem_src(&j, bytes, (unsigned long)size);
        ok = read_scanlines(&p, &j, budget, st);
    } else if (r.errors.msg_code == JERR_OUT_OF_MEMORY) {
        ok = qc_fail_memory(st, size);
    } else {
        ok = qc_fail(st, QC_BAD_INPUT, "JPEG: %s", r.message);
    }
    jpeg_destroy_decompress(&j);
    return QC_HAND_OVER_VALUE(ok, out, p, qc_pixels_free);
}
