// SPDX-License-Identifier: Apache-2.0
#include "datasets/samples/image_options.h"

#include <stdlib.h>
#include <string.h>

enum word { RESIZE, CROP, LAYOUT, COLOR, WORDS };
static const char *const names[WORDS] = {"resize", "crop", "layout", "color"};

/* Parses 224 (both) or 240x320 (height, width); returns false for anything else. */
static bool read_size(unsigned *height, unsigned *width, const char *text)
{
    char *end;
    if (*text < '0' || *text > '9') return false;
    unsigned long h = strtoul(text, &end, 10), w = h;
    if (*end == 'x') {
        if (end[1] < '0' || end[1] > '9') return false;
        w = strtoul(end + 1, &end, 10);
    }
    if (*end || h < 1 || w < 1 || h > QC_IMAGE_SIDE_MAX || w > QC_IMAGE_SIDE_MAX) return false;
    *height = (unsigned)h;
    *width = (unsigned)w;
    return true;
}

/* Returns the index of the text in the list, or -1. */
static int find_word(const char *const *list, int count, const char *text)
{
    for (int i = 0; i < count; i++)
        if (strcmp(list[i], text) == 0) return i;
    return -1;
}

static bool read_word(struct qc_image_options *o, enum word word, const char *value, struct qc_status *st)
{
    static const char *const layouts[] = {"nchw", "nhwc"}, *const colors[] = {"rgb", "bgr", "grey", "gray"};
    int which;
    switch (word) {
    case RESIZE:
        if (strcmp(value, "none") == 0) {
            o->resize = QC_RESIZE_NONE;
        } else {
            if (!read_size(&o->resize_height, &o->resize_width, value)) break;
            o->resize = strchr(value, 'x') ? QC_RESIZE_EXACT : QC_RESIZE_SHORT;
        }
        return true;
    case CROP:
        if (!read_size(&o->crop_height, &o->crop_width, value)) break;
        return true;
    case LAYOUT:
        if ((which = find_word(layouts, 2, value)) < 0) break;
        o->layout = which ? QC_LAYOUT_NHWC : QC_LAYOUT_NCHW;
        return true;
    case COLOR:
        if ((which = find_word(colors, 4, value)) < 0) break;
        o->color = which == 0 ? QC_COLOR_RGB : which == 1 ? QC_COLOR_BGR : QC_COLOR_GREY;
        return true;
    case WORDS: break;
    }
    static const char *const expected[WORDS] = {"a number of pixels, HEIGHTxWIDTH or none",
                                                "a number of pixels or HEIGHTxWIDTH", "nchw or nhwc",
                                                "rgb, bgr or grey"};
    return qc_fail(st, QC_USAGE, "--image: %s=%s: expected %s", names[word], value, expected[word]);
}

bool qc_image_options_parse(struct qc_image_options *out, const char *text, struct qc_status *st)
{
    struct qc_image_options o = {.resize = QC_RESIZE_COVER};
    bool seen[WORDS] = {false};
    char word[64];
    for (text += strspn(text, " ,"); *text; text += strspn(text, " ,")) {
        const size_t n = strcspn(text, " ,");
        qc_text(word, sizeof word, "%.*s", n < sizeof word ? (int)n : (int)sizeof word - 1, text);
        text += n;
        char *equals = strchr(word, '=');
        if (equals) *equals = '\0';
        const int which = find_word(names, WORDS, word);
        if (!equals || which < 0)
            return qc_fail(st, QC_USAGE,
                           "--image: '%s' is not one of resize=256, crop=224, layout=nchw|nhwc, color=rgb|bgr|grey",
                           word);
        if (seen[which]) return qc_fail(st, QC_USAGE, "--image: %s is given twice", word);
        seen[which] = true;
        if (!read_word(&o, (enum word)which, equals + 1, st)) return false;
    }
    *out = o;
    return true;
}
