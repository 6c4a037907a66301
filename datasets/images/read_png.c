// SPDX-License-Identifier: Apache-2.0
#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "datasets/images/pixels.h"

struct reading {
    const unsigned char *bytes;
    size_t left;
    char message[200];
    struct qc_pixels pixels;
    png_bytep *rows;
};

static void give_bytes(png_structp png, png_bytep out, png_size_t size)
{
    struct reading *r = png_get_io_ptr(png);
    if (size > r->left) png_error(png, "it is truncated");
    memcpy(out, r->bytes, size);
    r->bytes += size;
    r->left -= size;
}

static void give_up(png_structp png, png_const_charp message)
{
    struct reading *r = png_get_error_ptr(png);
    qc_text(r->message, sizeof r->message, "%s", message);
    png_longjmp(png, 1);
}

static void say_nothing(png_structp png, png_const_charp message)
{
}

/* longjmp may leave this function; allocations are in *r. */
static bool read_all(struct reading *r, png_structp png, png_infop info, const struct qc_budget *budget,
                     struct qc_status *st)
{
    png_set_read_fn(png, r, give_bytes);
    png_set_user_limits(png, 0x7fffffff, 0x7fffffff); /* qc_pixels_new limits the pixels */
    png_set_chunk_cache_max(png, 100);
    png_set_chunk_malloc_max(png, 8 << 20);
    png_read_info(png, info);
    const size_t width = png_get_image_width(png, info), height = png_get_image_height(png, info);
    const unsigned channels = png_get_color_type(png, info) & PNG_COLOR_MASK_COLOR ? 3 : 1;
    if (!qc_pixels_new(&r->pixels, width, height, channels, 1, budget, st)) return false;
    /* Requests 8-bit grey or RGB, whatever the file has. */
    const int type = png_get_color_type(png, info);
    if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
    if (type == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png);
    if (png_get_bit_depth(png, info) == 16) png_set_strip_16(png);
    png_set_strip_alpha(png);
    png_set_interlace_handling(png);
    png_read_update_info(png, info);
    if (png_get_rowbytes(png, info) != width * channels) png_error(png, "its pixel format is not supported");
    if (!(r->rows = calloc(height, sizeof *r->rows))) return qc_fail_memory(st, height * sizeof *r->rows);
    for (size_t y = 0; y < height; y++) r->rows[y] = r->pixels.data + y * width * channels;
    png_read_image(png, r->rows);
    png_read_end(png, info);
#ifdef PNG_eXIf_SUPPORTED
    png_bytep exif = NULL;
    png_uint_32 size = 0;
    if (png_get_eXIf_1(png, info, &size, &exif)) r->pixels.orientation = qc_exif_orientation(exif, size);
#endif
    return true;
}

bool qc_decode_png(struct qc_pixels *out, const unsigned char *bytes, size_t size, const struct qc_budget *budget,
                   struct qc_status *st)
{
    struct reading r = {.bytes = bytes, .left = size};
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &r, give_up, say_nothing);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    bool ok = false;
    if (!info)
        qc_fail_memory(st, size);
    else if (setjmp(png_jmpbuf(png)) == 0)
        ok = read_all(&r, png, info, budget, st);
    else
        ok = qc_fail(st, QC_BAD_INPUT, "PNG: %s", r.message);
    png_destroy_read_struct(png ? &png : NULL, info ? &info : NULL, NULL);
    free(r.rows);
    if (ok)
        *out = r.pixels;
    else
        qc_pixels_free(&r.pixels);
    return ok;
}
