// SPDX-License-Identifier: Apache-2.0
/* Pixels and options of images. Reference: Pillow 13.0, Image.resize(size, BILINEAR) and convert("L") of
   [[(37*x + 91*y*y + 13*c*x*y) % 256 for c in range(3)] for y in range(4) for x in range(5)]. */
#include "datasets/images/pixels.h"
#include "datasets/samples/image_options.h"
#include "tests/check.h"

enum { WIDTH = 5, HEIGHT = 4 };

static const struct qc_budget budget = {.memory_limit = 0};

static void set_up(void)
{
}

TestSuite(image_pixels, .init = set_up);

static void make(struct qc_pixels *p, unsigned orientation)
{
    MUST(qc_pixels_new(p, WIDTH, HEIGHT, 3, 1, &budget, ST));
    unsigned char *to = p->data;
    for (unsigned y = 0; y < HEIGHT; y++)
        for (unsigned x = 0; x < WIDTH; x++)
            for (unsigned c = 0; c < 3; c++) *to++ = (unsigned char)((37 * x + 91 * y * y + 13 * c * x * y) % 256);
    p->orientation = orientation;
}

static const unsigned char grey[] = {0,   37,  74,  111, 148, 91, 139, 186, 205, 102,
                                     108, 166, 195, 103, 85,  51, 120, 159, 78,  147};

Test(image_pixels, grey_is_pillows)
{
    struct qc_pixels p;
    make(&p, 1);
    MUST(qc_pixels_channels(&p, 1, &budget, ST));
    cr_expect_eq(memcmp(p.data, grey, sizeof grey), 0);
    MUST(qc_pixels_channels(&p, 3, &budget, ST));
    cr_expect(p.data[3] == 37 && p.data[4] == 37 && p.data[5] == 37);
    qc_pixels_free(&p);
}

Test(image_pixels, resized_is_pillows)
{
    static const struct {
        unsigned width, height;
        unsigned char pixels[28];
    } cases[] = {{3, 2, {74, 133, 132, 108, 154, 111}},
                 {5, 2, {54, 99, 139, 150, 119, 81, 142, 178, 107, 114}},
                 {7, 4, {0,   21,  48,  74,  100, 127, 148, 91, 118, 152, 186, 200, 161, 102,
                         108, 141, 174, 195, 129, 95,  85,  51, 90,  131, 159, 101, 108, 147}}};
    static const unsigned char colours[] = {91, 99, 95, 154, 132, 107, 118, 138, 116, 157, 110, 135};
    struct qc_pixels p;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const unsigned w = cases[i].width, h = cases[i].height;
        make(&p, 1);
        cr_assert(qc_pixels_channels(&p, 1, &budget, ST) && qc_pixels_resize(&p, w, h, &budget, ST));
        cr_expect(p.width == w && p.height == h);
        cr_expect_eq(memcmp(p.data, cases[i].pixels, (size_t)w * h), 0, "%u x %u", w, h);
        qc_pixels_free(&p);
    }
    make(&p, 1);
    MUST(qc_pixels_resize(&p, 2, 2, &budget, ST));
    cr_expect_eq(memcmp(p.data, colours, sizeof colours), 0);
    qc_pixels_free(&p);
}

/* Exif 2.32, 4.6.4: where row 0 and column 0 of the image are on the screen. */
Test(image_pixels, each_orientation_is_turned_upright)
{
    /* The upper left pixel of what comes out: its column and row in what went in. */
    static const struct {
        unsigned x, y, width;
    } first[9] = {{0, 0, 5}, {0, 0, 5}, {4, 0, 5}, {4, 3, 5}, {0, 3, 5}, {0, 0, 4}, {0, 3, 4}, {4, 3, 4}, {4, 0, 4}};
    for (unsigned o = 0; o < 9; o++) {
        struct qc_pixels p, q;
        make(&p, o);
        make(&q, 1);
        MUST(qc_pixels_turn(&p, &budget, ST));
        const unsigned char *wanted = q.data + (first[o].y * WIDTH + first[o].x) * 3;
        cr_expect(p.width == first[o].width && p.height == 9 - first[o].width, "%u", o);
        cr_expect_eq(memcmp(p.data, wanted, 3), 0, "%u", o);
        qc_pixels_free(&p);
        qc_pixels_free(&q);
    }
}

Test(image_pixels, too_many_pixels_take_no_memory)
{
    struct qc_pixels p = {.data = NULL};
    static const size_t sizes[][2] = {{0, 5}, {60000, 60000}, {SIZE_MAX, 2}, {SIZE_MAX, SIZE_MAX}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        REFUSES(qc_pixels_new(&p, sizes[i][0], sizes[i][1], 3, 1, &budget, ST), QC_BAD_INPUT, "");
    }
    const struct qc_budget small = {.memory_limit = 4 << 20};
    REFUSES(qc_pixels_new(&p, 4000, 4000, 3, 1, &small, ST), QC_MACHINE, "");
}

Test(image_pixels, options)
{
    struct qc_image_options o;
    MUST(qc_image_options_parse(&o, " resize=256,crop=224x192  layout=nhwc color=gray", ST));
    cr_expect(o.resize == QC_RESIZE_SHORT && o.resize_height == 256 && o.crop_height == 224 && o.crop_width == 192 &&
              o.layout == QC_LAYOUT_NHWC && o.color == QC_COLOR_GREY);
    MUST(qc_image_options_parse(&o, "resize=20x30", ST));
    cr_expect(o.resize == QC_RESIZE_EXACT && o.resize_height == 20 && o.resize_width == 30 && o.crop_height == 0);
    cr_assert(qc_image_options_parse(&o, "resize=none", ST) && o.resize == QC_RESIZE_NONE);
    cr_assert(qc_image_options_parse(&o, "", ST) && o.resize == QC_RESIZE_COVER);
    static const char *const wrong[] = {"resize",     "resize=",
                                        "resize=0",   "resize=-1",
                                        "resize=1x",  "crop=65537",
                                        "crop=none",  "crop=1x2x3",
                                        "layout=chw", "color=red",
                                        "size=3",     "crop=3 crop=4",
                                        "crop=3x-4",  "resize=99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        REFUSES_ROW(wrong[i], qc_image_options_parse(&o, wrong[i], ST), QC_USAGE, "--image");
    }
}
