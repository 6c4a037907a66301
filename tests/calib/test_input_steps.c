// SPDX-License-Identifier: Apache-2.0
/* The step of integer inputs does not depend on the order of the samples. */
#include "calib/trials/trials.h"
#include "datasets/arrays/memory_data.h"
#include "tests/check.h"

enum { IMAGES = 40, CHANNELS = 3, PIXELS = 64, EACH = CHANNELS * PIXELS, ORDERS = 24 };

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static double step_in_data(const float *x, size_t units, size_t each, double most)
{
    OWN(qc_memory_data) *m = NULL;
    OWN(qc_dataset) *d = NULL;
    double step = -1, by_three = -1;
    const struct qc_array array =
        FIELDS(.name = "x", .dtype = QC_F32, .rank = 2, .dims = (const int64_t[]){(int64_t)units, (int64_t)each});
    const struct qc_input_spec spec =
        FIELDS(.name = "x", .dtype = QC_F32, .rank = 2, .dims = (const int64_t[]){1, (int64_t)each});
    MUST(qc_memory_data_new(&m, "rows", ST) && qc_memory_data_add(m, &array, x, ST));
    MUST(qc_dataset_open_memory(&d, m, &spec, 1, &QC_DATASET_OPTIONS_INIT, ST));
    MUST(qc_input_step(&step, d, 0, most, 1, ST));
    MUST(qc_input_step(&by_three, d, 0, most, 3, ST));
    cr_expect_eq(step, by_three, "%g by one worker, %g by three", step, by_three);
    return step;
}

/* A pixel as a network takes it. */
typedef float pixel_fn(int value, int channel);

static float of_255(int k, int c)
{
    return (float)k / 255;
}

static float times_255th(int k, int c) /* two ways to divide, which round differently */
{
    return c ? (float)k * (1.F / 255) : (float)((double)k / 255.);
}

static float around_0(int k, int c)
{
    return (float)k / 127.5F - 1;
}

static float around_128(int k, int c)
{
    return (float)(k - 128) / 128;
}

static float standard(int k, int c)
{
    static const float mean[] = {.485F, .456F, .406F}, std[] = {.229F, .224F, .225F};
    return ((float)k / 255 - mean[c]) / std[c];
}

static float sound(int k, int c)
{
    return (float)((k - 100) * 211 + c) / 32768;
}

/* The step in as many orders of images and pixels; all are the same. */
static double in_any_order(pixel_fn *pixel, int values, double most)
{
    static float image[IMAGES][EACH], x[IMAGES][EACH];
    double first = -1;
    uint64_t state = 27;
    for (int i = 0; i < IMAGES; i++) /* each image has a few of the values, the last ones alone the odd ones */
        for (int j = 0; j < EACH; j++) {
            const int some = (int)next(&state) % values;
            image[i][j] = pixel(i < IMAGES - 2 ? some / 3 * 3 : some, j / PIXELS);
        }
    image[7][0] = pixel(values - 1, 0);
    for (int order = 0; order < ORDERS; order++) {
        size_t at[IMAGES];
        for (size_t i = 0; i < IMAGES; i++) at[i] = i;
        for (size_t i = IMAGES - 1; order && i; i--) {
            const size_t k = next(&state) % (i + 1), moved = at[i];
            at[i] = at[k];
            at[k] = moved;
        }
        for (size_t i = 0; i < IMAGES; i++)
            for (size_t j = 0; j < EACH; j++) x[i][j] = image[at[i]][order % 2 ? EACH - 1 - j : j];
        const double step = step_in_data(x[0], IMAGES, EACH, most);
        if (!order) first = step;
        cr_expect(step <= first && step >= first, "order %d: %.17g, not %.17g", order, step, first);
    }
    return first;
}

Test(input_steps, the_same_in_every_order)
{
    cr_expect_float_eq(in_any_order(of_255, 201, 255), 1. / 255, 1e-9);
    cr_expect_float_eq(in_any_order(of_255, 256, 255), 1. / 255, 1e-9);
    cr_expect_float_eq(in_any_order(of_255, 256, 65535), 1. / 255, 1e-9);
    cr_expect_float_eq(in_any_order(of_255, 32, 255), 1. / 255, 1e-9);
    cr_expect_float_eq(in_any_order(times_255th, 256, 255), 1. / 255, 1e-9);
    cr_expect_float_eq(in_any_order(around_128, 256, 255), 1. / 128, 1e-9);
    cr_expect_eq(in_any_order(around_0, 256, 255), 0, "255 steps, but none at 0");
    cr_expect_float_eq(in_any_order(around_0, 256, 65535), 1. / 255, 1e-9);
    cr_expect_eq(in_any_order(standard, 256, 255), 0, "each channel has another step");
    cr_expect_eq(in_any_order(standard, 256, 65535), 0);
    cr_expect_float_eq(in_any_order(sound, 201, 65535), 1. / 32768, 1e-9);
    cr_expect_eq(in_any_order(sound, 201, 255), 0);
}

/* A step is not taken whose multiples the values only nearly are: levels would become one. */
Test(input_steps, levels_stay_apart)
{
    enum { ALL = 1024 };
    static float x[ALL];
    static const int k[] = {0, 254, 255};
    for (size_t i = 0; i < ALL; i++) x[i] = (float)k[i % 3] / 255;
    cr_expect_float_eq(step_in_data(x, 4, ALL / 4, 255), 1. / 255, 1e-9);
    for (size_t i = 0; i < ALL; i++) x[i] = i % 2 ? 1 - (float)i / (128 * ALL) : (float)i / (128 * ALL);
    cr_expect_eq(step_in_data(x, 4, ALL / 4, 255), 0, "near 0 and near 1");
}

/* Data without steps are not read to their end. */
Test(input_steps, without_steps)
{
    enum { ALL = 1 << 16 };
    static float x[ALL];
    uint64_t state = 5;
    for (size_t i = 0; i < ALL; i++) x[i] = (float)next(&state) / 1e9F - 1;
    cr_expect_eq(step_in_data(x, 64, ALL / 64, 255), 0);
    for (size_t i = 0; i < ALL; i++) x[i] = 0;
    cr_expect_eq(step_in_data(x, 64, ALL / 64, 255), 0, "all zero");
    for (size_t i = 0; i < ALL; i++) x[i] = i % 2 ? (float)INFINITY : (float)NAN;
    cr_expect_eq(step_in_data(x, 64, ALL / 64, 255), 0, "nothing finite");
}
