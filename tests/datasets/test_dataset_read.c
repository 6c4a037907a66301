// SPDX-License-Identifier: Apache-2.0
#include "datasets/samples/dataset.h"
#include "h5_make.h"
#include "tests/check.h"

static void set_up(void)
{
    folder_make();
}

TestSuite(dataset, .init = set_up, .fini = folder_remove);

static struct qc_dataset *open_one(const char *path, const struct qc_input_spec *spec, const struct qc_preprocess *p)
{
    struct qc_dataset *ds = NULL;
    struct qc_dataset_options options = QC_DATASET_OPTIONS_INIT;
    options.preprocess = p;
    MUST(qc_dataset_open(&ds, path, spec, 1, &options, ST));
    return ds;
}

static void read_unit(void *out, const struct qc_dataset *ds, size_t input, size_t unit)
{
    OWN(qc_dataset_scratch) *s = NULL;
    MUST(qc_dataset_scratch_new(&s, ST));
    MUST(qc_dataset_read(out, ds, input, unit, s, ST));
}

/* [4,2,3] of each type, the same numbers 0..23 (of signed types minus 8), in every layout. */
static const struct {
    const char *type;
    size_t size;
} types[] = {{"u8", 1},    {"i8", 1},    {"u16", 2},   {"i16", 2},   {"u32", 4},  {"i32", 4},
             {"u64", 8},   {"i64", 8},   {"f32", 4},   {"f64", 8},   {"f16", 2},  {"u16be", 2},
             {"i32be", 4}, {"f32be", 4}, {"f64be", 8}, {"f16be", 2}, {"i64be", 8}};

static void fill(void *data, const char *type)
{
    /* binary16 of -8..15, from numpy: np.arange(-8, 16).astype(np.float16).view(np.uint16) */
    static const uint16_t halves[24] = {0xc800, 0xc700, 0xc600, 0xc500, 0xc400, 0xc200, 0xc000, 0xbc00,
                                        0x0000, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700,
                                        0x4800, 0x4880, 0x4900, 0x4980, 0x4a00, 0x4a80, 0x4b00, 0x4b80};
    for (int i = 0; i < 24; i++) {
        int v = i - (type[0] == 'u' ? 0 : 8);
        if (strncmp(type, "f16", 3) == 0)
            ((uint16_t *)data)[i] = halves[i];
        else if (strncmp(type, "f32", 3) == 0)
            ((float *)data)[i] = (float)v;
        else if (strncmp(type, "f64", 3) == 0)
            ((double *)data)[i] = v;
        else if (strstr(type, "16"))
            ((int16_t *)data)[i] = (int16_t)v;
        else if (strstr(type, "32"))
            ((int32_t *)data)[i] = v;
        else if (strstr(type, "64"))
            ((int64_t *)data)[i] = v;
        else
            ((int8_t *)data)[i] = (int8_t)v;
    }
}

static const struct made layouts[] = {
    {.chunk = {0}},
    {.chunk = {1, 2, 3}},
    {.chunk = {1, 2, 3}, .gzip = true},
    {.chunk = {1, 2, 3}, .shuffle = true},
    {.chunk = {1, 2, 3}, .shuffle = true, .gzip = true},
    {.chunk = {1, 2, 3}, .gzip = true, .fletcher = true},
    {.chunk = {3, 2, 2}, .gzip = true},
    {.chunk = {4, 1, 1}, .shuffle = true, .gzip = true},
    {.chunk = {1, 1, 3}},
};
enum { LAYOUTS = sizeof layouts / sizeof *layouts, TYPES = sizeof types / sizeof *types };

Test(dataset, every_type_and_layout)
{
    const char *path = folder_path("x.h5");
    int64_t dims[] = {-1, 2, 3};
    struct qc_input_spec spec = {.name = "x", .dtype = QC_F32, .rank = 3, .dims = dims};
    for (size_t t = 0; t < TYPES; t++)
        for (size_t l = 0; l < LAYOUTS; l++) {
            int64_t data[24];
            fill(data, types[t].type);
            struct made m = layouts[l];
            m.name = "x";
            m.type = types[t].type;
            m.rank = 3;
            memcpy(m.dims, ((int64_t[]){4, 2, 3}), 3 * sizeof *m.dims);
            m.data = data;
            int64_t f = make_file(path);
            make_set(f, &m);
            make_done(f);
            OWN(qc_dataset) *ds = open_one(path, &spec, NULL);
            MUST_HOLD(qc_dataset_units(ds) == 4, qc_dataset_bytes(ds, 0) == 24);
            for (size_t u = 4; u-- > 0;) { /* backwards: units are independent */
                float y[6];
                read_unit(y, ds, 0, u);
                for (size_t i = 0; i < 6; i++) {
                    float wanted = (float)(u * 6 + i) - (types[t].type[0] == 'u' ? 0.0f : 8.0f);
                    cr_expect_eq(y[i], wanted, "%s layout %zu unit %zu element %zu: %g", types[t].type, l, u, i,
                                 (double)y[i]);
                }
            }
        }
}

/* y = (x * scale - mean) / std in float32 for x = 0, 85, 170, 255 and three channels; numpy 2:
   x = np.array([0,85,170,255],'u1').astype('f4'); ((x*np.float32(1/255)) - m) / s, printed as bits */
static const uint32_t normalised[3][4] = {
    {0xc0078bbd, 0xbf298c7c, 0x3f4b15fd, 0x400fee1d},
    {0xc0024924, 0xbf0c30c2, 0x3f70c30d, 0x401b6db7},
    {0xbfe6f809, 0xbea55b64, 0x3f944a57, 0x4028f5c3},
};

static void make_pixels(const char *path, const char *type, bool gzip)
{
    uint8_t bytes[12];
    float floats[12];
    for (int i = 0; i < 12; i++) floats[i] = bytes[i] = (uint8_t)(i % 4 * 85);
    struct made m = {
        .name = "pixels", .type = type, .rank = 4, .dims = {1, 3, 2, 2}, .chunk = {1, 3, 2, 2}, .gzip = gzip};
    m.data = type[0] == 'u' ? (void *)bytes : (void *)floats;
    int64_t f = make_file(path);
    make_set(f, &m);
    make_numbers(f, "pixels", "scale", (double[]){1.0 / 255}, 1);
    make_numbers(f, "pixels", "mean", (double[]){0.485, 0.456, 0.406}, 3);
    make_numbers(f, "pixels", "std", (double[]){0.229, 0.224, 0.225}, 3);
    make_done(f);
}

Test(dataset, preprocessing_equals_numpy_to_the_bit)
{
    const char *path = folder_path("p.h5");
    int64_t dims[] = {-1, 3, 2, 2};
    struct qc_input_spec spec = {.name = "input", .dtype = QC_F32, .rank = 4, .dims = dims};
    for (int k = 0; k < 4; k++) {
        make_pixels(path, k & 1 ? "u8" : "f32", k & 2);
        OWN(qc_dataset) *ds = open_one(path, &spec, NULL);
        uint32_t y[12];
        read_unit(y, ds, 0, 0);
        for (int i = 0; i < 12; i++) cr_expect_eq(y[i], normalised[i / 4][i % 4], "%d: %08x", i, y[i]);
    }
}

Test(dataset, preprocess_option_replaces_the_attributes)
{
    const char *path = folder_path("p.h5");
    int64_t dims[] = {1, 3, 2, 2};
    struct qc_input_spec spec = {.name = "input", .dtype = QC_F32, .rank = 4, .dims = dims};
    struct qc_preprocess none, own;
    float y[12];
    make_pixels(path, "u8", true);
    cr_assert(qc_preprocess_parse(&none, "none", test_arena(), ST) &&
              qc_preprocess_parse(&own, "mean=85,0,170 std=85", test_arena(), ST));
    struct qc_dataset *ds = open_one(path, &spec, &none);
    read_unit(y, ds, 0, 0);
    cr_expect(y[0] == 0.0f && y[1] == 85.0f && y[11] == 255.0f);
    qc_dataset_free(ds);
    ds = open_one(path, &spec, &own);
    read_unit(y, ds, 0, 0);
    cr_expect(y[0] == -1.0f && y[3] == 2.0f && y[4] == 0.0f && y[7] == 3.0f && y[8] == -2.0f && y[11] == 1.0f);
    qc_dataset_free(ds);
}

Test(dataset, integer_and_other_inputs)
{
    const char *path = folder_path("i.h5");
    int64_t wide[6] = {0, 1, -1, 127, -128, INT64_MAX}, dims[] = {-1, 1};
    double floats[6] = {0, 1, -1, 127, -128, 9007199254740992.0};
    uint8_t flags[6] = {0, 1, 1, 0, 1, 0};
    int64_t f = make_file(path);
    make_set(f, &(struct made){.name = "wide", .type = "i64", .rank = 2, .dims = {6, 1}, .data = wide});
    make_set(f, &(struct made){.name = "floats", .type = "f64", .rank = 2, .dims = {6, 1}, .data = floats});
    make_set(f, &(struct made){.name = "flags", .type = "u8", .rank = 2, .dims = {6, 1}, .data = flags});
    make_set(f, &(struct made){.name = "switches", .type = "bool", .rank = 2, .dims = {6, 1}, .data = flags});
    make_done(f);
    struct qc_input_spec inputs[] = {{.name = "wide", .dtype = QC_I64, .rank = 2, .dims = dims},
                                     {.name = "floats", .dtype = QC_I64, .rank = 2, .dims = dims},
                                     {.name = "flags", .dtype = QC_BOOL, .rank = 2, .dims = dims},
                                     {.name = "switches", .dtype = QC_F32, .rank = 2, .dims = dims},
                                     {.name = "a", .dtype = QC_I8, .rank = 2, .dims = dims},
                                     {.name = "b", .dtype = QC_F16, .rank = 2, .dims = dims},
                                     {.name = "c", .dtype = QC_F64, .rank = 2, .dims = dims},
                                     {.name = "d", .dtype = QC_I4, .rank = 2, .dims = dims},
                                     {.name = "e", .dtype = QC_U64, .rank = 2, .dims = dims},
                                     {.name = "f", .dtype = QC_BF16, .rank = 2, .dims = dims}};
    struct qc_input_map maps[] = {{"a", "wide"},   {"b", "/floats"}, {"c", "wide"},
                                  {"d", "floats"}, {"e", "wide"},    {"f", "floats"}};
    struct qc_dataset_options options = QC_DATASET_OPTIONS_INIT;
    options.maps = maps;
    options.map_count = 6;
    OWN(qc_dataset) *ds = NULL;
    MUST(qc_dataset_open(&ds, path, inputs, 10, &options, ST));
    int64_t i64;
    uint64_t u64;
    uint8_t u8;
    int8_t i8;
    uint16_t half;
    float f32;
    double f64;
    read_unit(&i64, ds, 0, 5);
    cr_expect_eq(i64, INT64_MAX, "int64 stays exact");
    read_unit(&i64, ds, 1, 5);
    cr_expect_eq(i64, INT64_C(9007199254740992));
    read_unit(&i64, ds, 1, 4);
    cr_expect_eq(i64, -128);
    read_unit(&u8, ds, 2, 1);
    cr_expect_eq(u8, 1);
    read_unit(&f32, ds, 3, 2);
    cr_expect_eq(f32, 1.0f);
    read_unit(&i8, ds, 4, 4);
    cr_expect_eq(i8, -128);
    read_unit(&half, ds, 5, 4);
    cr_expect_eq(half, 0xd800); /* np.float16(-128).view('u2') */
    read_unit(&f64, ds, 6, 3);
    cr_expect_eq(f64, 127.0);
    read_unit(&i8, ds, 7, 2);
    cr_expect_eq(i8, -1);
    read_unit(&u64, ds, 8, 5);
    cr_expect_eq(u64, INT64_MAX);
    read_unit(&half, ds, 9, 4);
    cr_expect_eq(half, 0xc300); /* -128 = -1 * 2^7 */

    static const struct {
        size_t input, unit;
        const char *named;
    } wrong[] = {{4, 5, "9.2233720368547758e+18"}, {7, 3, "127"}, {8, 2, "-1"}};
    OWN(qc_dataset_scratch) *s = NULL;
    MUST(qc_dataset_scratch_new(&s, ST));
    for (size_t k = 0; k < 3; k++) {
        cr_expect_not(qc_dataset_read(&i64, ds, wrong[k].input, wrong[k].unit, s, ST));
        cr_expect(failure.code == QC_BAD_INPUT && strstr(failure.message, wrong[k].named) &&
                      strstr(failure.message, inputs[wrong[k].input].name),
                  "%s", failure.message);
    }
}

Test(dataset, values_that_an_integer_input_cannot_take)
{
    static const double bad[] = {0.5, 9223372036854775808.0, -9223372036854777856.0, (double)NAN, (double)INFINITY};
    const char *path = folder_path("i.h5");
    int64_t dims[] = {-1};
    struct qc_input_spec spec = {.name = "x", .dtype = QC_I64, .rank = 1, .dims = dims};
    for (size_t k = 0; k < 5; k++) {
        double data[2] = {3, bad[k]};
        int64_t f = make_file(path), y;
        make_set(f, &(struct made){.name = "x", .type = "f64", .rank = 1, .dims = {2}, .data = data});
        make_done(f);
        OWN(qc_dataset) *ds = open_one(path, &spec, NULL);
        OWN(qc_dataset_scratch) *s = NULL;
        read_unit(&y, ds, 0, 0);
        cr_expect_eq(y, 3);
        MUST(qc_dataset_scratch_new(&s, ST));
        cr_expect_not(qc_dataset_read(&y, ds, 0, 1, s, ST), "%g", bad[k]);
        cr_expect(failure.code == QC_BAD_INPUT && strstr(failure.message, "sample 1"), "%s", failure.message);
    }
}

Test(dataset, nan_and_infinity_pass_to_float)
{
    const char *path = folder_path("n.h5");
    float data[3] = {NAN, INFINITY, -INFINITY}, y;
    int64_t dims[] = {-1}, f = make_file(path);
    struct qc_input_spec spec = {.name = "x", .dtype = QC_F32, .rank = 1, .dims = dims};
    make_set(f, &(struct made){
                    .name = "x", .type = "f32", .rank = 1, .dims = {3}, .chunk = {1}, .gzip = true, .data = data});
    make_done(f);
    OWN(qc_dataset) *ds = open_one(path, &spec, NULL);
    read_unit(&y, ds, 0, 0);
    cr_expect(isnan(y));
    read_unit(&y, ds, 0, 1);
    cr_expect(isinf(y) && y > 0);
    read_unit(&y, ds, 0, 2);
    cr_expect(isinf(y) && y < 0);
}

static void make_counting(const char *path, const struct made *shape)
{
    int32_t data[64];
    for (int i = 0; i < 64; i++) data[i] = i;
    struct made m = *shape;
    m.data = data;
    int64_t f = make_file(path);
    make_set(f, &m);
    make_done(f);
}

Test(dataset, fixed_batch_takes_samples_and_drops_the_remainder)
{
    static const struct made shapes[] = {
        {.name = "x", .type = "i32", .rank = 2, .dims = {11, 2}},
        {.name = "x", .type = "i32", .rank = 2, .dims = {11, 2}, .chunk = {1, 2}, .gzip = true},
        {.name = "x", .type = "i32", .rank = 2, .dims = {11, 2}, .chunk = {5, 2}},
    };
    const char *path = folder_path("b.h5");
    int64_t dims[] = {4, 2};
    const int64_t *got;
    struct qc_input_spec spec = {.name = "x", .dtype = QC_F32, .rank = 2, .dims = dims};
    for (size_t k = 0; k < 3; k++) {
        make_counting(path, &shapes[k]);
        OWN(qc_dataset) *ds = open_one(path, &spec, NULL);
        HOLD(qc_dataset_units(ds) == 2, qc_dataset_samples(ds) == 8, qc_dataset_dropped(ds) == 3,
             qc_dataset_total(ds) == 11, qc_dataset_batch(ds) == 4 && qc_dataset_unit_samples(ds) == 4,
             qc_dataset_first_sample(ds, 1) == 4);
        cr_expect(qc_dataset_dims(&got, ds, 0) == 2 && got[0] == 4 && got[1] == 2);
        float y[8];
        read_unit(y, ds, 0, 1);
        for (int i = 0; i < 8; i++) cr_expect_eq(y[i], (float)(8 + i));
    }
}

Test(dataset, one_axis_more_holds_whole_inputs)
{
    const char *path = folder_path("w.h5");
    int64_t dims[] = {-1, 2}, fixed[] = {3, 2};
    const int64_t *got;
    float y[6];
    make_counting(
        path,
        &(struct made){.name = "x", .type = "i32", .rank = 3, .dims = {4, 3, 2}, .chunk = {1, 3, 2}, .gzip = true});
    for (int k = 0; k < 2; k++) {
        struct qc_input_spec spec = {.name = "x", .dtype = QC_F32, .rank = 2, .dims = k ? fixed : dims};
        OWN(qc_dataset) *ds = open_one(path, &spec, NULL);
        HOLD(qc_dataset_units(ds) == 4, qc_dataset_batch(ds) == 0 && qc_dataset_unit_samples(ds) == 1,
             qc_dataset_dropped(ds) == 0);
        cr_expect(qc_dataset_dims(&got, ds, 0) == 2 && got[0] == 3 && got[1] == 2);
        read_unit(y, ds, 0, 2);
        for (int i = 0; i < 6; i++) cr_expect_eq(y[i], (float)(12 + i));
    }
    struct qc_input_spec scalar = {.name = "s", .dtype = QC_F32, .rank = 0, .dims = NULL};
    make_counting(path, &(struct made){.name = "s", .type = "i32", .rank = 1, .dims = {5}});
    OWN(qc_dataset) *ds = open_one(path, &scalar, NULL);
    cr_expect_eq(qc_dataset_units(ds), 5);
    read_unit(y, ds, 0, 3);
    cr_expect_eq(y[0], 3.0f);
}

Test(dataset, a_free_dimension_takes_what_the_file_has)
{
    const char *path = folder_path("f.h5");
    int64_t dims[] = {-1, -1, 2};
    const int64_t *got;
    struct qc_input_spec spec = {.name = "other", .dtype = QC_F32, .rank = 3, .dims = dims};
    make_counting(path, &(struct made){.name = "x", .type = "i32", .rank = 3, .dims = {4, 3, 2}});
    OWN(qc_dataset) *ds = open_one(path, &spec, NULL);
    cr_expect(qc_dataset_dims(&got, ds, 0) == 3 && got[0] == 1 && got[1] == 3 && got[2] == 2);
    HOLD(qc_dataset_elements(ds, 0) == 6, strcmp(qc_dataset_file(ds), path) == 0);
}

/* HDF5 stores nothing for chunks, or a whole data set, that no write reached, and gives the fill value for them. */
Test(dataset, samples_that_were_never_written)
{
    static const struct made kinds[] = {
        {.name = "x", .type = "f32", .rank = 2, .dims = {5, 2}, .chunk = {1, 2}, .gzip = true},
        {.name = "x", .type = "f32", .rank = 2, .dims = {5, 2}, .chunk = {2, 1}},
        {.name = "x", .type = "f32", .rank = 2, .dims = {5, 2}}};
    int64_t dims[] = {-1, 2};
    struct qc_input_spec spec = {.name = "x", .dtype = QC_F32, .rank = 2, .dims = dims};
    float row[2] = {5, 6}, y[2];
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        const char *path = folder_path("h.h5");
        int64_t f = make_file(path);
        make_set(f, &kinds[k]);
        make_done(f);
        OWN(qc_dataset) *ds = open_one(path, &spec, NULL);
        read_unit(y, ds, 0, 4);
        cr_expect(y[0] == 0.0f && y[1] == 0.0f);
        cr_expect_str_eq(qc_dataset_unwritten(ds), "x", "kind %zu", k);
    }
    const char *path = folder_path("part.h5");
    const struct qc_dataset_options options = QC_DATASET_OPTIONS_INIT;
    OWN(qc_dataset) *ds = NULL;
    int64_t f = make_file(path);
    make_set(f, &kinds[0]);
    for (int64_t i = 0; i < 4; i++)
        make_chunk(f, "x", i, 1, row, sizeof row); /* mask: the filter was left out for this chunk */
    make_done(f);
    FAILS(qc_dataset_open(&ds, path, &spec, 1, &options, ST),
          "1 of its 5 chunks were never written, the first with sample 4;");
    f = make_file(path);
    make_set(f, &(struct made){
                    .name = "x", .type = "f32", .rank = 2, .dims = {5, 2}, .chunk = {1, 2}, .data = (float[10]){5, 6}});
    make_done(f);
    ds = open_one(path, &spec, NULL);
    cr_expect_null(qc_dataset_unwritten(ds));
    read_unit(y, ds, 0, 0);
    cr_expect(y[0] == 5.0f && y[1] == 6.0f);
}

Test(dataset, select_takes_every_nth_or_draws)
{
    const char *path = folder_path("s.h5");
    int64_t dims[] = {-1}, pairs[] = {2};
    struct qc_input_spec spec = {.name = "x", .dtype = QC_F32, .rank = 1, .dims = dims};
    make_counting(path, &(struct made){.name = "x", .type = "i32", .rank = 1, .dims = {10}, .chunk = {1}});
    struct qc_dataset *ds = open_one(path, &spec, NULL);
    float y[2];
    MUST(qc_dataset_select(ds, &(struct qc_selection){.samples = 4}, ST));
    cr_assert_eq(qc_dataset_units(ds), 4);
    static const float even[] = {0, 2, 5, 7}; /* floor(j * 10 / 4) */
    for (size_t u = 0; u < 4; u++) {
        read_unit(y, ds, 0, u);
        HOLD(y[0] == even[u], qc_dataset_first_sample(ds, u) == (size_t)even[u]);
    }
    cr_expect_eq(qc_dataset_others(ds), 6);
    MUST(qc_dataset_select(ds, &(struct qc_selection){.samples = 3, .others = true}, ST));
    static const float rest[] = {1, 4, 8}; /* of 1, 3, 4, 6, 8, 9: every second one */
    for (size_t u = 0; u < 3; u++) {
        read_unit(y, ds, 0, u);
        cr_expect_eq(y[0], rest[u]);
    }
    MUST(qc_dataset_select(ds, &(struct qc_selection){.samples = 7, .others = true}, ST));
    static const float all[] = {0, 2, 3, 5, 6, 7, 9}; /* more are not left */
    for (size_t u = 0; u < 7; u++) {
        read_unit(y, ds, 0, u);
        cr_expect_eq(y[0], all[u]);
    }
    MUST(qc_dataset_select(ds, &(struct qc_selection){.samples = 3, .drawn = true, .seed = 9}, ST));
    cr_assert_eq(qc_dataset_units(ds), 3);
    for (size_t u = 0; u < 3; u++) {
        read_unit(y, ds, 0, u);
        cr_expect_eq(y[0], (float)qc_dataset_first_sample(ds, u));
    }
    MUST(qc_dataset_select(ds, &(struct qc_selection){.samples = 99}, ST));
    cr_assert_eq(qc_dataset_units(ds), 10);
    cr_expect_eq(qc_dataset_others(ds), 0);
    qc_dataset_free(ds);
    spec.dims = pairs;
    ds = open_one(path, &spec, NULL);
    MUST(qc_dataset_select(ds, &(struct qc_selection){.samples = 5}, ST));
    HOLD(qc_dataset_units(ds) == 2, qc_dataset_samples(ds) == 4);
    qc_dataset_free(ds);
}

Test(dataset, file_and_data_set_in_one_word)
{
    const char *path = folder_path("two.h5"), *odd = folder_path("a:b.h5");
    char text[200];
    float y;
    int64_t dims[] = {-1}, f = make_file(path);
    int32_t one[] = {1}, two[] = {2}, three[] = {3};
    make_set(f, &(struct made){.name = "one", .type = "i32", .rank = 1, .dims = {1}, .data = one});
    make_set(f, &(struct made){.name = "group/two:0", .type = "i32", .rank = 1, .dims = {1}, .data = two});
    make_set(f, &(struct made){.name = "three", .type = "i32", .rank = 1, .dims = {1}, .data = three});
    make_text(f, "three", "name", "a//b");
    make_done(f);
    f = make_file(odd);
    make_set(f, &(struct made){.name = "one", .type = "i32", .rank = 1, .dims = {1}, .data = one});
    make_done(f);
    struct {
        const char *input, *rest;
        float value;
    } cases[] = {{"x", ":one", 1},        {"x", ":group/two:0", 2}, {"x", ":/group/two:0", 2},
                 {"one", "", 1},          {"/one", "", 1},          {"group/two:0", "", 2},
                 {"/group/two:0", "", 2}, {"a//b", "", 3},          {"x", ":a//b", 3}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct qc_input_spec spec = {.name = cases[i].input, .dtype = QC_F32, .rank = 1, .dims = dims};
        OWN(qc_dataset) *ds = open_one(qc_text(text, sizeof text, "%s%s", path, cases[i].rest), &spec, NULL);
        read_unit(&y, ds, 0, 0);
        cr_expect_eq(y, cases[i].value, "case %zu", i);
        cr_expect_str_eq(qc_dataset_file(ds), path);
    }
    struct qc_input_spec spec = {.name = "x", .dtype = QC_F32, .rank = 1, .dims = dims};
    qc_dataset_free(open_one(odd, &spec, NULL));
    qc_dataset_free(open_one(qc_text(text, sizeof text, "%s:one", odd), &spec, NULL));
}

Test(dataset, labels_for_each_position)
{
    const char *path = folder_path("t.h5");
    int64_t dims[] = {2, 1}, labels[12] = {3, 1, -1, 4, 1, 5, 9, 2, 6, 5, 3, 5}, f = make_file(path), got[6];
    float x[4] = {0};
    const int64_t *shape;
    struct qc_input_spec spec = {.name = "x", .dtype = QC_F32, .rank = 2, .dims = dims};
    struct qc_dataset_options options = QC_DATASET_OPTIONS_INIT;
    OWN(qc_dataset) *ds = NULL;
    make_set(f, &(struct made){.name = "x", .type = "f32", .rank = 2, .dims = {4, 1}, .data = x});
    make_set(f, &(struct made){.name = "labels", .type = "i64", .rank = 2, .dims = {4, 3}, .data = labels});
    make_done(f);
    options.truth = true;
    MUST(qc_dataset_open(&ds, path, &spec, 1, &options, ST));
    cr_expect_eq(qc_dataset_label_count(ds), 6);
    cr_expect_eq(qc_dataset_label_dims(&shape, ds, 0), 1);
    cr_expect_eq(shape[0], 3);
    MUST(qc_dataset_read_labels(got, ds, 1, ST));
    cr_expect_arr_eq(got, labels + 6, sizeof got);
}

Test(dataset, labels_and_target)
{
    const char *path = folder_path("t.h5");
    int64_t dims[] = {2, 1}, labels[5] = {3, 1, 4, 1, 5}, f = make_file(path), got[2];
    uint8_t pixels[5] = {0, 1, 2, 3, 255};
    float x[5] = {0}, y[2];
    struct qc_input_spec spec = {.name = "x", .dtype = QC_F32, .rank = 2, .dims = dims};
    struct qc_dataset_options options = QC_DATASET_OPTIONS_INIT;
    OWN(qc_dataset_scratch) *s = NULL;
    make_set(f, &(struct made){.name = "x", .type = "f32", .rank = 2, .dims = {5, 1}, .data = x});
    make_set(f, &(struct made){.name = "labels", .type = "i64be", .rank = 1, .dims = {5}, .data = labels});
    make_set(f, &(struct made){.name = "target", .type = "u8", .rank = 2, .dims = {5, 1}, .data = pixels});
    make_done(f);
    struct qc_dataset *ds = open_one(path, &spec, NULL);
    cr_expect_eq(qc_dataset_label_count(ds), 0, "not asked for");
    cr_expect_eq(qc_dataset_target_elements(ds), 0);
    qc_dataset_free(ds);

    options.truth = true;
    MUST(qc_dataset_open(&ds, path, &spec, 1, &options, ST));
    cr_assert_eq(qc_dataset_label_count(ds), 2);
    MUST(qc_dataset_read_labels(got, ds, 1, ST));
    cr_expect(got[0] == 4 && got[1] == 1);
    cr_assert_eq(qc_dataset_target_elements(ds), 2);
    cr_expect_eq(qc_dataset_target_peak(ds), 255.0);
    cr_assert(qc_dataset_scratch_new(&s, ST) && qc_dataset_read_target(y, ds, 1, s, ST));
    cr_expect(y[0] == 2.0f && y[1] == 3.0f);
    qc_dataset_free(ds);

    f = make_file(path);
    make_set(f, &(struct made){.name = "x", .type = "f32", .rank = 2, .dims = {5, 1}, .data = x});
    make_set(f, &(struct made){.name = "target", .type = "u8", .rank = 2, .dims = {5, 1}, .data = pixels});
    make_numbers(f, "target", "scale", (double[]){0.5}, 1);
    make_done(f);
    MUST(qc_dataset_open(&ds, path, &spec, 1, &options, ST));
    cr_expect_eq(qc_dataset_target_peak(ds), 1.0);
    MUST(qc_dataset_read_target(y, ds, 1, s, ST));
    cr_expect(y[0] == 1.0f && y[1] == 1.5f);
    qc_dataset_free(ds);

    f = make_file(path);
    make_set(f, &(struct made){.name = "x", .type = "f32", .rank = 2, .dims = {5, 1}, .data = x});
    make_set(f, &(struct made){.name = "target", .type = "u8", .rank = 2, .dims = {5, 1}, .data = pixels});
    make_numbers(f, "target", "peak", (double[]){7}, 1);
    make_done(f);
    MUST(qc_dataset_open(&ds, path, &spec, 1, &options, ST));
    cr_expect_eq(qc_dataset_target_peak(ds), 7.0);
    qc_dataset_free(ds);
}

Test(dataset, lists_a_file)
{
    const char *path = folder_path("l.h5");
    struct qc_data_list l;
    int64_t f = make_file(path);
    uint8_t x[6] = {0};
    make_set(f, &(struct made)FIELDS(.name = "g/x", .type = "u8", .rank = 2, .dims = {2, 3}, .chunk = {1, 3},
                                     .shuffle = true, .gzip = true, .data = x));
    make_numbers(f, "g/x", "mean", (double[]){0.5, 1, 2}, 3);
    make_text(f, "g/x", "note", "hello");
    make_odd(f, "words", "string");
    make_done(f);
    cr_assert(qc_data_is_hdf5(path));
    MUST(qc_data_list(&l, path, QC_FOLLOW_NOTHING, test_arena(), ST));
    cr_assert_eq(l.count, 2);
    const struct qc_data_entry *e = &l.entries[0];
    HOLD(strcmp(e->name, "g/x") == 0, strcmp(e->type, "uint8") == 0,
         e->dtype == QC_U8 && e->rank == 2 && e->dims[0] == 2 && e->dims[1] == 3,
         strcmp(e->storage, "chunks 1x3, shuffle, gzip 6") == 0);
    cr_assert_eq(e->attribute_count, 2);
    HOLD(strcmp(e->attributes[0].name, "mean") == 0, strcmp(e->attributes[0].text, "0.5, 1, 2") == 0,
         strcmp(e->attributes[1].text, "hello") == 0, strcmp(l.entries[1].type, "string") == 0,
         l.entries[1].dtype == QC_NONE);
}
