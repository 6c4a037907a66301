// SPDX-License-Identifier: Apache-2.0
#include "digits.h"

#include "datasets/samples/dataset.h"

float digits_pixels[DIGITS_SAMPLES][DIGITS_PIXELS];

void digits_read(void)
{
    OWN(qc_dataset) *ds = NULL;
    OWN(qc_dataset_scratch) *s = NULL;
    const struct qc_input_spec input =
        FIELDS(.name = "input", .dtype = QC_F32, .rank = 4, .dims = (const int64_t[]){-1, 1, 8, 8});
    MUST(qc_dataset_open(&ds, DIGITS_CALIB, &input, 1, &QC_DATASET_OPTIONS_INIT, ST));
    cr_assert_eq(qc_dataset_units(ds), DIGITS_SAMPLES);
    MUST(qc_dataset_scratch_new(&s, ST));
    for (size_t u = 0; u < DIGITS_SAMPLES; u++) MUST(qc_dataset_read(digits_pixels[u], ds, 0, u, s, ST));
}

qcalib_model *digits_model(void)
{
    struct qcalib_error error;
    qcalib_model *m = NULL;
    cr_assert_eq(qcalib_model_open(&m, DIGITS_MODEL, &error), QCALIB_OK, "%s", error.message);
    return m;
}

qcalib_data *digits_data(int64_t count)
{
    struct qcalib_error error;
    const int64_t shape[4] = {count, 1, 8, 8};
    const struct qcalib_array a = {
        .size = sizeof a, .name = "input", .type = QCALIB_FLOAT32, .rank = 4, .shape = shape, .values = digits_pixels};
    qcalib_data *d = NULL;
    cr_assert_eq(qcalib_data_new(&d, "digits", &error), QCALIB_OK);
    cr_assert_eq(qcalib_data_add(d, &a, &error), QCALIB_OK, "%s", error.message);
    return d;
}

static int next_sized(void *user, const void **values, const int64_t **shapes)
{
    static const int64_t shape[3] = {1, 8, 8};
    size_t *at = user;
    if (*at == DIGITS_SAMPLES) return 0;
    values[0] = digits_pixels[(*at)++];
    shapes[0] = shape;
    return 1;
}

static int next_sample(void *user, void *const *rows)
{
    const void *values;
    const int64_t *shape;
    if (!next_sized(user, &values, &shape)) return 0;
    memcpy(rows[0], values, sizeof digits_pixels[0]);
    return 1;
}

qcalib_data *digits_drawn(size_t keep_bytes, bool sized)
{
    struct qcalib_error error;
    const int64_t shape[4] = {0, 1, sized ? -1 : 8, sized ? -1 : 8};
    const struct qcalib_array a = {
        .size = sizeof a, .name = "input", .type = QCALIB_FLOAT32, .rank = 4, .shape = shape};
    qcalib_data *d = NULL;
    size_t at = 0;
    cr_assert_eq(qcalib_data_new(&d, NULL, &error), QCALIB_OK);
    cr_assert_eq(qcalib_data_add(d, &a, &error), QCALIB_OK);
    cr_assert_eq(sized ? qcalib_data_draw_sized(d, next_sized, &at, keep_bytes, &error)
                       : qcalib_data_draw(d, next_sample, &at, keep_bytes, &error),
                 QCALIB_OK, "%s", error.message);
    return d;
}

qcalib_options *digits_options(const char *const *words)
{
    struct qcalib_error error;
    qcalib_options *o = NULL;
    cr_assert_eq(qcalib_options_new(&o, &error), QCALIB_OK);
    for (; words && *words; words += 2)
        cr_assert_eq(qcalib_options_set(o, words[0], words[1], &error), QCALIB_OK, "%s", error.message);
    return o;
}
