// SPDX-License-Identifier: Apache-2.0
/* Objects of the public library: accepted and refused input, without leaks on errors. */

#define QCALIB_EXPERIMENTAL
#include "digits.h"

#define EXAMPLE QC_TEST_SOURCE "/datasets/digits_cnn.onnx"

static struct qcalib_error error;

Test(public_data, version_of_library_and_header_are_one)
{
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", QCALIB_VERSION_MAJOR, QCALIB_VERSION_MINOR, QCALIB_VERSION_PATCH);
    cr_expect_str_eq(qcalib_version(), text);
}

static void *read_whole(size_t *size, const char *path)
{
    FILE *f = fopen(path, "rb");
    cr_assert(f);
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    void *bytes = malloc(*size);
    cr_assert_eq(fread(bytes, 1, *size, f), *size);
    fclose(f);
    return bytes;
}

static void expect_example(const qcalib_model *m)
{
    struct qcalib_tensor t = {.size = sizeof t};
    cr_assert_eq(qcalib_model_input_count(m), 1);
    cr_assert_eq(qcalib_model_input(&t, m, 0, &error), QCALIB_OK);
    HOLD(strcmp(t.name, "input") == 0, t.type == QCALIB_FLOAT32, t.rank == 4, t.shape[0] == -1);
    cr_assert_eq(qcalib_model_output_count(m), 1);
    cr_assert_eq(qcalib_model_output(&t, m, 0, &error), QCALIB_OK);
    HOLD(strcmp(t.name, "logits") == 0, t.shape[t.rank - 1] == 10, t.size == sizeof t);
}

Test(public_data, a_model_is_the_same_from_a_file_and_from_memory)
{
    OWN(qcalib_model) *file = NULL, *memory = NULL;
    size_t size;
    void *bytes = read_whole(&size, EXAMPLE);
    cr_assert_eq(qcalib_model_open(&file, EXAMPLE, &error), QCALIB_OK, "%s", error.message);
    cr_assert_eq(qcalib_model_from_memory(&memory, bytes, size, NULL, &error), QCALIB_OK, "%s", error.message);
    free(bytes); /* not needed any more */
    expect_example(file);
    expect_example(memory);
}

Test(public_data, a_damaged_model_is_told_by_name)
{
    qcalib_model *m = NULL;
    size_t size;
    QC_FREED void *bytes = read_whole(&size, EXAMPLE);
    cr_expect_eq(qcalib_model_from_memory(&m, bytes, size / 2, "half", &error), QCALIB_BAD_INPUT);
    cr_expect_eq(error.code, QCALIB_BAD_INPUT);
    cr_expect_eq(strncmp(error.message, "half: ", 6), 0, "%s", error.message);
    cr_expect_eq(qcalib_model_open(&m, "/no/such.onnx", NULL), QCALIB_BAD_INPUT, "an error object is not needed");
    cr_expect_eq(qcalib_model_open(&m, QC_TEST_SOURCE "/datasets/digits_calib.h5", &error), QCALIB_BAD_INPUT);
    cr_expect_null(m, "outputs are set on success only");
}

static const int64_t shape[2] = {3, 4};
static const float values[3][4];

Test(public_data, arguments_that_cannot_be_are_refused)
{
    OWN(qcalib_data) *d = NULL, *of_file = NULL;
    const struct qcalib_array good = {
        .size = sizeof good, .name = "x", .type = QCALIB_FLOAT32, .rank = 2, .shape = shape, .values = values};
    struct qcalib_array a = good;
    cr_assert_eq(qcalib_data_new(&d, NULL, &error), QCALIB_OK);
    cr_assert_eq(qcalib_data_open(&of_file, "x.h5", &error), QCALIB_OK);
    cr_expect_eq(qcalib_data_add(d, NULL, &error), QCALIB_USAGE);
    a.size = 0;
    cr_expect_eq(qcalib_data_add(d, &a, &error), QCALIB_USAGE);
    cr_expect_str_eq(error.message,
                     "the size of a struct qcalib_array is not set: begin it with .size = sizeof(struct qcalib_array)");
    a = good;
    a.type = 99;
    cr_expect_eq(qcalib_data_add(d, &a, &error), QCALIB_USAGE);
    a = good;
    a.rank = -1;
    cr_expect_eq(qcalib_data_add(d, &a, &error), QCALIB_USAGE);
    a = good;
    a.shape = NULL;
    cr_expect_eq(qcalib_data_add(d, &a, &error), QCALIB_USAGE);
    cr_expect_eq(qcalib_data_add(of_file, &good, &error), QCALIB_USAGE);
    cr_expect_eq(qcalib_data_add(d, &good, &error), QCALIB_OK);
    cr_expect_eq(error.code, QCALIB_OK);
    cr_expect_str_eq(error.message, "");
    cr_expect_eq(qcalib_data_add(d, &good, &error), QCALIB_USAGE);
    cr_expect_str_eq(error.message, "memory: there are two arrays 'x'");
    cr_expect_eq(qcalib_data_draw(d, NULL, NULL, 0, &error), QCALIB_USAGE);
    qcalib_data_free(NULL);
    qcalib_model_free(NULL);
}

/* A struct of a later version of the header: as long as its new members are 0 it serves. */
Test(public_data, structs_may_be_longer_or_shorter)
{
    struct {
        struct qcalib_array a;
        int later;
    } longer = {
        .a = {.size = sizeof longer, .name = "x", .type = QCALIB_FLOAT32, .rank = 2, .shape = shape, .values = values}};
    OWN(qcalib_data) *d = NULL;
    cr_assert_eq(qcalib_data_new(&d, NULL, &error), QCALIB_OK);
    cr_expect_eq(qcalib_data_add(d, &longer.a, &error), QCALIB_OK, "%s", error.message);
    longer.later = 1;
    longer.a.name = "y";
    cr_expect_eq(qcalib_data_add(d, &longer.a, &error), QCALIB_USAGE);
    struct qcalib_array shorter =
        FIELDS(.size = offsetof(struct qcalib_array, preprocess), .name = "z", .type = QCALIB_FLOAT32, .rank = 2,
               .shape = shape, .values = values, .preprocess = "nonsense");
    cr_expect_eq(qcalib_data_add(d, &shorter, &error), QCALIB_OK, "%s", error.message);
}

static int give_up(void *user, void *const *rows)
{
    int *left = user;
    memset(rows[0], 0, sizeof values[0]);
    return --*left ? 1 : -7;
}

Test(public_data, a_function_may_give_up)
{
    OWN(qcalib_data) *d = NULL;
    int left = 3;
    const struct qcalib_array a = {.size = sizeof a, .name = "x", .type = QCALIB_FLOAT32, .rank = 2, .shape = shape};
    cr_assert_eq(qcalib_data_new(&d, "camera", &error), QCALIB_OK);
    cr_assert_eq(qcalib_data_add(d, &a, &error), QCALIB_OK);
    cr_expect_eq(qcalib_data_draw(d, give_up, &left, 0, &error), QCALIB_BAD_INPUT);
    cr_expect_str_eq(error.message, "camera: sample 2: the sample function gave up with code -7");
}

Test(public_data, the_table_of_options_says_what_each_is_and_which_jobs_take_it)
{
    const unsigned all =
        QCALIB_JOB_QUANTIZE | QCALIB_JOB_COLLECT | QCALIB_JOB_RUN | QCALIB_JOB_EVALUATE | QCALIB_JOB_COMPARE;
    static const struct {
        const char *name;
        enum qcalib_value value;
        unsigned jobs;
    } known[] = {
        {"method", QCALIB_VALUE_TEXT, QCALIB_JOB_QUANTIZE},
        {"activation-type", QCALIB_VALUE_BY_NAME, QCALIB_JOB_QUANTIZE},
        {"per-tensor", QCALIB_VALUE_NONE, QCALIB_JOB_QUANTIZE},
        {"shard", QCALIB_VALUE_TEXT, QCALIB_JOB_COLLECT},
        {"tolerance", QCALIB_VALUE_NUMBER, QCALIB_JOB_COMPARE},
        {"lowering", QCALIB_VALUE_CHOICE, QCALIB_JOB_RUN | QCALIB_JOB_EVALUATE},
        {"threads", QCALIB_VALUE_COUNT, all},
        {"memory-limit", QCALIB_VALUE_BYTES, all},
        {"data", QCALIB_VALUE_TEXT, 0}, /* an object here */
        {"eval", QCALIB_VALUE_TEXT, 0},
    };
    size_t found = 0;
    for (size_t i = 0; i < qcalib_option_count(); i++) {
        struct qcalib_option o = {.size = sizeof o};
        cr_assert_eq(qcalib_option_at(&o, i, &error), QCALIB_OK);
        for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
            if (strcmp(o.name, known[k].name) != 0) continue;
            cr_expect_eq(o.value, known[k].value, "%s", o.name);
            cr_expect_eq(o.jobs, known[k].jobs, "%s", o.name);
            found++;
        }
    }
    cr_expect_eq(found, sizeof known / sizeof *known);
}

static void expect_in(const char *text, const char *part)
{
    cr_expect(strstr(text, part), "%s is not in %s", part, text);
}

Test(public_data, what_is_in_a_model_or_a_file_is_told_as_json)
{
    char *file = NULL, *opened = NULL, *data = NULL, *none = NULL;
    size_t file_size = 0, opened_size = 0, data_size = 0;
    OWN(qcalib_model) *model = NULL;
    cr_assert_eq(qcalib_inspect_file(&file, &file_size, EXAMPLE, &error), QCALIB_OK, "%s", error.message);
    cr_assert_eq(qcalib_model_open(&model, EXAMPLE, &error), QCALIB_OK);
    cr_assert_eq(qcalib_inspect_model(&opened, &opened_size, model, &error), QCALIB_OK, "%s", error.message);
    HOLD(strcmp(file, opened) == 0, file_size == strlen(file), opened_size == file_size);
    expect_in(file, "\"kind\": \"model\"");
    expect_in(file, "\"Conv\": 5");
    cr_assert_eq(qcalib_inspect_file(&data, &data_size, QC_TEST_SOURCE "/datasets/digits_calib.h5", &error), QCALIB_OK);
    expect_in(data, "\"kind\": \"data\"");
    expect_in(data, "\"shape\": [300, 1, 8, 8]");
    cr_expect_eq(qcalib_inspect_file(&none, &data_size, "/nowhere.onnx", &error), QCALIB_BAD_INPUT);
    cr_expect(strstr(error.message, "/nowhere.onnx"), "%s", error.message);
    cr_expect_eq(qcalib_inspect_model(&none, &data_size, NULL, &error), QCALIB_USAGE);
    cr_expect_eq(qcalib_inspect_file(&none, NULL, EXAMPLE, &error), QCALIB_USAGE);
    cr_expect_null(none);
    qcalib_bytes_free(file);
    qcalib_bytes_free(opened);
    qcalib_bytes_free(data);
}
