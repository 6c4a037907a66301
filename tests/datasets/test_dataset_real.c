// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"
#include "base/pool.h"
#include "base/sha256.h"
#include "datasets/samples/dataset.h"
#include "tests/check.h"

/* SHA-256 of all preprocessed values, of the targets' too, and sum((i + 1) * label[i]), by h5py 3 and numpy 2:
   ((x.astype(float32) * scale - mean) / std).tobytes(), each attribute reshaped to axis 1. */
struct expected {
    const char *file, *name;
    enum qc_dtype dtype;
    unsigned rank;
    int64_t dims[4];
    const char *values;
    int64_t labels;
    const char *target;
};

static const struct expected shipped[] = {
    {"digits_calib.h5",
     "input",
     QC_F32,
     4,
     {300, 1, 8, 8},
     "ac009b7333f63da0d363e5e6d95d6e396f7e82bf791493c29776a9b44ec32e21",
     203148,
     NULL},
    {"digits_test.h5",
     "input",
     QC_F32,
     4,
     {597, 1, 8, 8},
     "e92f0ff03e42024459ec01c5e999b47977df6d80b4827bc6e2cfbf3bcc729453",
     835577,
     NULL},
};

static const struct expected given[] = {
    {"cifar10_calib.h5",
     "input",
     QC_F32,
     4,
     {512, 3, 32, 32},
     "df448e311fa09864ae4d607a1726e565ad4793641132c3c49de70de081b7e347",
     572186,
     NULL},
    {"imagenet_calib100_224.h5",
     "input",
     QC_F32,
     4,
     {100, 3, 224, 224},
     "6296e088a3020973a7f953a06f47591df96371da6a7e7fd5fe816f6cfb2665a7",
     2588250,
     NULL},
    {"kws01_calib128.h5",
     "input",
     QC_F32,
     4,
     {128, 1, 49, 10},
     "3a7ad22f4adf29b1227c1b5107a713549fc913e8c83d2c876529e447085364db",
     43943,
     NULL},
    {"kws01_eval872.h5",
     "input",
     QC_F32,
     4,
     {872, 1, 49, 10},
     "f9e379255010b89aba39e574343f4adb8586f012bc91bbe4bbcebcad8eea3edd",
     2076307,
     NULL},
    {"agnews_calib256.h5",
     "input",
     QC_I64,
     2,
     {256, 48},
     "032363932c99cc367060f697c5a6ebca83758056effbf9edd8a66372f52519b7",
     48926,
     NULL},
    {"mnist_calib256.h5",
     "Input3",
     QC_F32,
     4,
     {256, 1, 28, 28},
     "48f0f32cd2245ffa3b00c63326a4535b1846ae7a2c39650d00c41c1b6c77c904",
     148042,
     NULL},
    {"ad01_one_normal.h5",
     "input",
     QC_F32,
     2,
     {196, 640},
     "2e40243cef47f4d3a0a8c2057b54d40ea5852555546120eaa78ec8f90a7de7fd",
     0,
     NULL},
    {"det_unlabelled16_240x320.h5",
     "input",
     QC_F32,
     4,
     {16, 3, 240, 320},
     "c9eb4914d61e59250cd214457fd8dd00caafb47d9bb214eefcd897bac911b0f8",
     0,
     NULL},
    {"sr_x3_y6.h5",
     "input",
     QC_F32,
     4,
     {6, 1, 224, 224},
     "eca94e46dfb8387ef6978f58dc393cf34b3a0cac827f15212723feea63a40df4",
     0,
     "03d922618688bac4e5be85216599083783630c7ef05f0096cfb79a649a00280e"},
};

struct job {
    struct qc_dataset *ds;
    struct qc_dataset_scratch *scratch[2];
    char *values;
    float *target;
    size_t target_elements;
    int64_t *labels;
};

static bool read_one(void *user, size_t item, unsigned worker, struct qc_status *st)
{
    struct job *j = user;
    size_t bytes = qc_dataset_bytes(j->ds, 0);
    return qc_dataset_read(j->values + item * bytes, j->ds, 0, item, j->scratch[worker], st) &&
           (!qc_dataset_label_count(j->ds) || qc_dataset_read_labels(&j->labels[item], j->ds, item, st)) &&
           (!j->target ||
            qc_dataset_read_target(j->target + item * j->target_elements, j->ds, item, j->scratch[worker], st));
}

static void check(const struct expected *e, const char *folder)
{
    char path[600], hex[65];
    int64_t dims[4];
    struct job j = {.target_elements = 1};
    memcpy(dims, e->dims, sizeof dims);
    dims[0] = -1;
    struct qc_input_spec spec = {.name = e->name, .dtype = e->dtype, .rank = e->rank, .dims = dims};
    struct qc_dataset_options o = QC_DATASET_OPTIONS_INIT;
    o.truth = true;
    o.read_ahead = 4;
    MUST(qc_dataset_open(&j.ds, qc_text(path, sizeof path, "%s/%s", folder, e->file), &spec, 1, &o, ST));
    size_t n = qc_dataset_units(j.ds), bytes = qc_dataset_bytes(j.ds, 0);
    cr_assert_eq(n, (size_t)e->dims[0]);
    if (qc_dataset_target_elements(j.ds)) {
        j.target_elements = qc_dataset_target_elements(j.ds);
        j.target = malloc(n * j.target_elements * sizeof *j.target);
    }
    cr_assert_eq(j.target != NULL, e->target != NULL);
    j.values = malloc(n * bytes);
    j.labels = calloc(n, sizeof *j.labels);
    for (int w = 0; w < 2; w++) MUST(qc_dataset_scratch_new(&j.scratch[w], ST));
    MUST(qc_pool_run(n, read_one, &j, &(struct qc_pool_options){.workers = 2}, ST));
    qc_sha256(hex, j.values, n * bytes);
    cr_expect_str_eq(hex, e->values, "%s", e->file);
    int64_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += (int64_t)(i + 1) * j.labels[i];
    cr_expect_eq(sum, e->labels, "%s: labels", e->file);
    if (j.target) {
        qc_sha256(hex, j.target, n * j.target_elements * sizeof *j.target);
        cr_expect_str_eq(hex, e->target, "%s: target", e->file);
        cr_expect_eq(qc_dataset_target_peak(j.ds), 1.0);
    }
    for (int w = 0; w < 2; w++) qc_dataset_scratch_free(j.scratch[w]);
    free(j.values);
    free(j.labels);
    free(j.target);
    qc_dataset_free(j.ds);
}

Test(dataset_real, the_shipped_example)
{
    for (size_t i = 0; i < sizeof shipped / sizeof *shipped; i++) check(&shipped[i], QC_TEST_SOURCE "/datasets");
}

Test(dataset_real, real_data_equal_h5py)
{
    const char *folder = getenv("QCALIB_DATA");
    if (!folder || !folder[0]) cr_skip_test("QCALIB_DATA is not set");
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) check(&given[i], folder);
}
