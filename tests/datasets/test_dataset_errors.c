// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>

#include "datasets/samples/dataset.h"
#include "h5_make.h"
#include "tests/check.h"

static int64_t free4[] = {-1, 3, 2, 2};
static struct qc_input_spec image = {.name = "image", .dtype = QC_F32, .rank = 4, .dims = free4};

static void set_up(void)
{
    folder_make();
}

TestSuite(dataset_errors, .init = set_up, .fini = folder_remove);

/* Opening fails with this code, and the message holds each of the words. */
static void refused(const char *path, const struct qc_input_spec *spec, size_t count,
                    const struct qc_dataset_options *o, enum qc_code code, const char *words)
{
    struct qc_dataset *ds = NULL;
    char copy[400];
    cr_expect_not(qc_dataset_open(&ds, path, spec, count, o, ST), "opened: %s", words);
    cr_expect_null(ds);
    cr_expect_eq(failure.code, code, "code %d: %s", (int)failure.code, failure.message);
    for (char *w = strtok(strcpy(copy, words), "|"); w; w = strtok(NULL, "|"))
        cr_expect(strstr(failure.message, w), "'%s' is not in: %s", w, failure.message);
}

static void refused_one(const char *path, enum qc_code code, const char *words)
{
    struct qc_dataset_options o = QC_DATASET_OPTIONS_INIT;
    o.truth = true;
    refused(path, &image, 1, &o, code, words);
}

static void write_bytes(const char *path, const void *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    cr_assert_not_null(f);
    cr_assert_eq(fwrite(data, 1, size, f), size);
    fclose(f);
}

static void *read_bytes(size_t *size, const char *path)
{
    FILE *f = fopen(path, "rb");
    cr_assert_not_null(f);
    fseek(f, 0, SEEK_END);
    *size = (size_t)ftell(f);
    rewind(f);
    void *p = malloc(*size);
    cr_assert_eq(fread(p, 1, *size, f), *size);
    fclose(f);
    return p;
}

Test(dataset_errors, files)
{
    const char *path = folder_path("x.h5");
    char text[300];
    refused_one(path, QC_BAD_INPUT, "x.h5|No such file");
    refused_one(qc_text(text, sizeof text, "%s:set", path), QC_BAD_INPUT, "x.h5|No such file");
    refused_one(folder_path("."), QC_BAD_INPUT, "folder");
    refused_one("/dev/null", QC_BAD_INPUT, "/dev/null|device");
    write_bytes(path, "", 0);
    refused_one(path, QC_BAD_INPUT, "x.h5 is empty");
    cr_expect_not(qc_data_is_hdf5(path));
    write_bytes(path, "hello, this is text and not data", 32);
    refused_one(path, QC_BAD_INPUT, "x.h5 is not a file of samples; give an HDF5 file");
    refused_one(qc_text(text, sizeof text, "%s:", path), QC_USAGE, "missing after the ':'");
    write_bytes(path, "\x89HDF\r\n\x1a\n", 8);
    refused_one(path, QC_BAD_INPUT, "x.h5|truncated or damaged");
    if (geteuid() != 0) {
        chmod(path, 0);
        refused_one(path, QC_MACHINE, "x.h5|ermission");
    }
}

static uint8_t pixels[48];

static void make_one(const struct made *m)
{
    int64_t f = make_file(folder_path("x.h5"));
    make_set(f, m);
    make_done(f);
}

Test(dataset_errors, names)
{
    const char *path = folder_path("x.h5");
    char text[300];
    struct made m = {.name = "one", .type = "u8", .rank = 4, .dims = {4, 3, 2, 2}, .data = pixels};
    int64_t labels[4] = {0};
    int64_t f = make_file(path);
    make_done(f);
    refused_one(path, QC_BAD_INPUT, "x.h5|input 'image'|no data set");
    f = make_file(path);
    make_set(f, &(struct made){.name = "labels", .type = "i64", .rank = 1, .dims = {4}, .data = labels});
    make_done(f);
    refused_one(path, QC_BAD_INPUT, "x.h5|input 'image'|labels int64 [4]");
    f = make_file(path);
    make_set(f, &m);
    m.name = "two";
    make_set(f, &m);
    make_done(f);
    refused_one(path, QC_BAD_INPUT, "one uint8 [4,3,2,2], two uint8 [4,3,2,2]|--input image=DATASET");
    refused_one(qc_text(text, sizeof text, "%s:three", path), QC_BAD_INPUT, "'three'|one uint8|two uint8");
    struct qc_dataset_options o = QC_DATASET_OPTIONS_INIT;
    struct qc_input_map map = {"image", "four"};
    o.maps = &map;
    o.map_count = 1;
    refused(path, &image, 1, &o, QC_BAD_INPUT, "'four'|one uint8");
    map = (struct qc_input_map){"picture", "one"};
    refused(path, &image, 1, &o, QC_USAGE, "'picture'|'image'");
    struct qc_input_spec both[] = {image, image};
    both[0].name = "one";
    both[1].name = "three";
    o.map_count = 0;
    refused(path, both, 2, &o, QC_BAD_INPUT, "input 'three'|one uint8");
    both[1].name = "two";
    refused(qc_text(text, sizeof text, "%s:one", path), both, 2, &o, QC_USAGE, "--input NAME=DATASET");
    refused(path, both, 0, &o, QC_BAD_INPUT, "no input");
}

Test(dataset_errors, shapes)
{
    static const struct {
        struct made m;
        const char *words;
    } cases[] = {
        {{.rank = 4, .dims = {4, 1, 2, 2}}, "x.h5|'x'|input 'image'|expected [?,3,2,2]|got [4,1,2,2]"},
        {{.rank = 3, .dims = {4, 3, 4}}, "got [4,3,4]"},
        {{.rank = 2, .dims = {4, 12}}, "got [4,12]"},
        {{.rank = 5, .dims = {1, 4, 3, 2, 1}}, "got [1,4,3,2,1]"},
        {{.rank = 4, .dims = {0, 3, 2, 2}}, "x.h5|'x'|no samples"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct made m = cases[i].m;
        m.name = "x";
        m.type = "u8";
        m.data = m.dims[0] ? pixels : NULL;
        make_one(&m);
        refused_one(folder_path("x.h5"), QC_BAD_INPUT, cases[i].words);
    }
    struct made m = {.name = "x", .type = "u8", .rank = 4, .dims = {4, 3, 2, 2}, .data = pixels};
    int64_t batch[] = {5, 3, 2, 2};
    struct qc_input_spec spec = image;
    struct qc_dataset_options o = QC_DATASET_OPTIONS_INIT;
    spec.dims = batch;
    make_one(&m);
    refused(folder_path("x.h5"), &spec, 1, &o, QC_BAD_INPUT, "4 samples|batch of 5");
    batch[0] = 0;
    refused(folder_path("x.h5"), &spec, 1, &o, QC_BAD_INPUT, "expected [0,3,2,2]");
    spec = image;
    spec.dtype = QC_NONE;
    refused(folder_path("x.h5"), &spec, 1, &o, QC_UNSUPPORTED, "input 'image'|element type");
}

Test(dataset_errors, sizes_beyond_memory)
{
    int64_t dims[] = {-1, -1, -1};
    struct qc_input_spec spec = {.name = "x", .dtype = QC_F32, .rank = 3, .dims = dims};
    struct qc_dataset_options o = QC_DATASET_OPTIONS_INIT;
    make_one(&(struct made){
        .name = "x", .type = "u8", .rank = 3, .dims = {4, INT64_C(1) << 32, INT64_C(1) << 31}, .chunk = {1, 1, 8}});
    refused(folder_path("x.h5"), &spec, 1, &o, QC_BAD_INPUT, "'x'|larger than any memory");
}

Test(dataset_errors, element_types)
{
    static const char *const kinds[] = {"string", "compound", "opaque"};
    const char *path = folder_path("x.h5");
    for (size_t i = 0; i < 3; i++) {
        int64_t f = make_file(path);
        make_odd(f, "odd", kinds[i]);
        make_done(f);
        char words[60];
        refused_one(path, QC_UNSUPPORTED, qc_text(words, sizeof words, "x.h5|'odd'|%s", kinds[i]));
    }
    int64_t f = make_file(path);
    make_odd(f, "odd", "scalar");
    make_done(f);
    refused_one(path, QC_BAD_INPUT, "'odd'|single value");
    f = make_file(path);
    make_odd(f, "image", "group");
    make_done(f);
    refused_one(path, QC_BAD_INPUT, "input 'image'");
}

Test(dataset_errors, unknown_filter_is_named)
{
    make_one(&(struct made){
        .name = "x", .type = "u8", .rank = 4, .dims = {4, 3, 2, 2}, .chunk = {1, 3, 2, 2}, .strange = 32000});
    refused_one(folder_path("x.h5"), QC_UNSUPPORTED, "x.h5|'x'|32000");
}

Test(dataset_errors, attributes)
{
    static const struct {
        const char *name;
        double values[2];
        size_t count;
        const char *words;
    } cases[] = {
        {"mean", {1, 2}, 2, "x.h5|'x'|'mean' has 2 values|[1,3,2,2]"},
        {"std", {0}, 1, "'std' has the value 0"},
        {"scale", {(double)NAN}, 1, "'scale' has the value"},
        {"scale", {1e300}, 1, "'scale' has the value 1e+300"},
    };
    const char *path = folder_path("x.h5");
    struct made m = {.name = "x", .type = "u8", .rank = 4, .dims = {4, 3, 2, 2}, .data = pixels};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t f = make_file(path);
        make_set(f, &m);
        make_numbers(f, "x", cases[i].name, cases[i].values, cases[i].count);
        make_done(f);
        refused_one(path, QC_BAD_INPUT, cases[i].words);
    }
    int64_t f = make_file(path);
    make_set(f, &m);
    make_text(f, "x", "scale", "1/255");
    make_done(f);
    refused_one(path, QC_BAD_INPUT, "'scale'|list of numbers");

    struct qc_preprocess p;
    struct qc_dataset_options o = QC_DATASET_OPTIONS_INIT;
    MUST(qc_preprocess_parse(&p, "mean=1,2", test_arena(), ST));
    o.preprocess = &p;
    refused(path, &image, 1, &o, QC_USAGE, "--preprocess|2 values of mean");
}

Test(dataset_errors, inputs_of_different_length)
{
    const char *path = folder_path("x.h5");
    struct made m = {.name = "one", .type = "u8", .rank = 4, .dims = {4, 3, 2, 2}, .data = pixels};
    struct qc_input_spec both[] = {image, image};
    struct qc_dataset_options o = QC_DATASET_OPTIONS_INIT;
    int64_t f = make_file(path);
    make_set(f, &m);
    m.name = "two";
    m.dims[0] = 3;
    make_set(f, &m);
    make_done(f);
    both[0].name = "one";
    both[1].name = "two";
    refused(path, both, 2, &o, QC_BAD_INPUT, "'one'|'two'|4 and 3");
}

Test(dataset_errors, truth_that_does_not_match)
{
    const char *path = folder_path("x.h5");
    struct made m = {.name = "x", .type = "u8", .rank = 4, .dims = {4, 3, 2, 2}, .data = pixels};
    static const struct {
        struct made m;
        const char *words;
    } cases[] = {
        {{.name = "labels", .type = "i64", .rank = 1, .dims = {3}}, "'labels'|4 samples|[3]"},
        {{.name = "labels", .type = "i64", .rank = 2, .dims = {3, 2}}, "'labels'|[3,2]"},
        {{.name = "labels", .type = "i64", .rank = 2, .dims = {4, 0}}, "'labels'|[4,0]"},
        {{.name = "labels", .type = "f32", .rank = 1, .dims = {4}}, "'labels'|float32|integer"},
        {{.name = "target", .type = "f32", .rank = 1, .dims = {3}}, "'target'|3 samples|4"},
        {{.name = "target", .type = "f32", .rank = 2, .dims = {4, 0}}, "'target'|no elements"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t f = make_file(path);
        make_set(f, &m);
        make_set(f, &cases[i].m);
        make_done(f);
        refused_one(path, QC_BAD_INPUT, cases[i].words);
        OWN(qc_dataset) *ds = NULL;
        struct qc_dataset_options o = QC_DATASET_OPTIONS_INIT;
        cr_expect(qc_dataset_open(&ds, path, &image, 1, &o, ST), "who does not ask for it does not look at it: %s",
                  failure.message);
    }
}

Test(dataset_errors, damaged_chunks_name_set_and_sample)
{
    const char *path = folder_path("x.h5");
    struct made m = FIELDS(.name = "x", .type = "u8", .rank = 4, .dims = {4, 3, 2, 2}, .chunk = {1, 3, 2, 2},
                           .gzip = true, .data = pixels);
    float y[12];
    char long_chunk[6000] = {0};
    for (int k = 0; k < 3; k++) {
        OWN(qc_dataset) *ds = NULL;
        OWN(qc_dataset_scratch) *s = NULL;
        struct qc_dataset_options o = QC_DATASET_OPTIONS_INIT;
        o.read_ahead = k == 2 ? 2 : 0;
        int64_t f = make_file(path);
        make_set(f, &m);
        make_chunk(f, "x", 2, 0, long_chunk, k == 1 ? sizeof long_chunk : 9);
        make_done(f);
        MUST(qc_dataset_open(&ds, path, &image, 1, &o, ST));
        MUST(qc_dataset_scratch_new(&s, ST));
        for (size_t u = 0; u < 4; u++) {
            cr_expect_eq(qc_dataset_read(y, ds, 0, u, s, ST), u != 2);
        }
        qc_dataset_read(y, ds, 0, 2, s, ST);
        cr_expect(failure.code == QC_BAD_INPUT && strstr(failure.message, "'x', sample 2") &&
                      strstr(failure.message, "x.h5"),
                  "%s", failure.message);
        cr_expect_not(qc_dataset_read(y, ds, 0, 4, s, ST), "there are units 0..3");
        cr_expect(failure.code == QC_BAD_INPUT && strstr(failure.message, "unit 4"), "%s", failure.message);
    }
}

/* Whatever is cut off or flipped: a status, or values; never a crash. */
static bool survive(const char *path)
{
    struct qc_dataset *ds = NULL;
    struct qc_dataset_scratch *s;
    struct qc_dataset_options o = QC_DATASET_OPTIONS_INIT;
    float y[12];
    int64_t labels[1];
    o.truth = true;
    if (!qc_dataset_open(&ds, path, &image, 1, &o, ST)) {
        HOLD(failure.code != QC_OK, failure.message[0] != '\0');
        return false;
    }
    MUST(qc_dataset_scratch_new(&s, ST));
    bool ok = true;
    for (size_t u = 0; u < qc_dataset_units(ds) && u < 8; u++)
        ok = ok && qc_dataset_read(y, ds, 0, u, s, ST) &&
             (qc_dataset_label_count(ds) != 1 || qc_dataset_read_labels(labels, ds, u, ST));
    cr_expect_eq(ok, failure.code == QC_OK);
    qc_dataset_scratch_free(s);
    qc_dataset_free(ds);
    return ok;
}

static void *make_victim(size_t *size)
{
    const char *path = folder_path("x.h5");
    int64_t labels[4] = {1, 2, 3, 4}, f = make_file(path);
    for (int i = 0; i < 48; i++) pixels[i] = (uint8_t)(i * 37);
    make_set(f, &(struct made)FIELDS(.name = "x", .type = "u8", .rank = 4, .dims = {4, 3, 2, 2}, .chunk = {1, 3, 2, 2},
                                     .gzip = true, .data = pixels));
    make_numbers(f, "x", "scale", (double[]){0.5}, 1);
    make_set(f, &(struct made){.name = "labels", .type = "i64", .rank = 1, .dims = {4}, .data = labels});
    make_done(f);
    MUST(survive(path));
    return read_bytes(size, path);
}

Test(dataset_errors, a_file_cut_anywhere)
{
    size_t size, opened = 0;
    QC_FREED char *data = make_victim(&size);
    for (size_t n = 0; n < size; n += n < 64 ? 1 : 61) {
        write_bytes(folder_path("cut.h5"), data, n);
        opened += survive(folder_path("cut.h5"));
    }
    cr_expect_eq(opened, 0, "%zu of the cut files were taken for whole", opened);
}

Test(dataset_errors, a_file_with_bytes_flipped)
{
    size_t size, refusals = 0;
    uint32_t random = 12345;
    QC_FREED char *data = make_victim(&size);
    for (int k = 0; k < 300; k++) {
        random = random * 1664525u + 1013904223u; /* Numerical Recipes */
        size_t at = random % size;
        char old = data[at];
        data[at] = (char)(old ^ (1 << (random >> 29)));
        write_bytes(folder_path("flip.h5"), data, size);
        refusals += !survive(folder_path("flip.h5"));
        data[at] = old;
    }
    cr_expect_gt(refusals, 0);
}

/* ---- A file that changes while it is read ---- */

static void change_byte(const char *path)
{
    size_t size;
    char *bytes = read_bytes(&size, path);
    bytes[size - 1] ^= 1;
    FILE *f = fopen(path, "r+b"); /* the same file */
    cr_assert(f);
    cr_assert_eq(fwrite(bytes, 1, size, f), size);
    fclose(f);
    free(bytes);
    cr_assert_eq(utimensat(AT_FDCWD, path, (struct timespec[]){{.tv_sec = 9}, {.tv_sec = 9}}, 0), 0);
}

static void cut(const char *path)
{
    struct stat info;
    cr_assert(stat(path, &info) == 0 && truncate(path, info.st_size - 8) == 0);
}

static void replace_file(const char *path)
{
    size_t size;
    void *bytes = read_bytes(&size, path);
    const char *other = folder_path("other");
    write_bytes(other, bytes, size);
    free(bytes);
    cr_assert_eq(rename(other, path), 0);
}

static void make_npy(const char *path)
{
    char bytes[128 + 40 * sizeof(float)] = "\x93NUMPY\x01";
    bytes[8] = 118;
    memset(bytes + 10, ' ', 117);
    memcpy(bytes + 10, "{'descr': '<f4', 'fortran_order': False, 'shape': (10, 4), }", 60);
    bytes[127] = '\n';
    write_bytes(path, bytes, sizeof bytes);
}

static void make_sets(const char *path, int64_t chunk, bool gzip)
{
    static const float values[40] = {1, 2, 3};
    int64_t f = make_file(path);
    make_set(f, &(struct made)FIELDS(.name = "x", .type = "f32", .rank = 2, .dims = {10, 4},
                                     .chunk = {chunk, chunk ? 4 : 0}, .gzip = gzip, .data = values));
    make_done(f);
}

Test(dataset_errors, a_file_that_changes_while_it_is_read)
{
    static void (*const changes[])(const char *) = {change_byte, cut, replace_file};
    static int64_t dims[] = {-1, 4};
    static const struct qc_input_spec x = {.name = "x", .dtype = QC_F32, .rank = 2, .dims = dims};
    const struct qc_dataset_options o = QC_DATASET_OPTIONS_INIT;
    for (size_t kind = 0; kind < 4; kind++)
        for (size_t c = 0; c < sizeof changes / sizeof *changes; c++) {
            const char *path = folder_path(kind ? "x.h5" : "x.npy");
            OWN(qc_dataset) *ds = NULL;
            OWN(qc_dataset_scratch) *scratch = NULL;
            float y[4];
            if (kind)
                make_sets(path, (int64_t[]){0, 0, 1, 3}[kind], kind == 2); /* contiguous, a chunk a row, other chunks */
            else
                make_npy(path);
            MUST(qc_dataset_open(&ds, path, &x, 1, &o, ST));
            MUST(qc_dataset_scratch_new(&scratch, ST));
            SHOULD(qc_dataset_read(y, ds, 0, 0, scratch, ST));
            changes[c](path);
            cr_expect_not(qc_dataset_read(y, ds, 0, 9, scratch, ST), "kind %zu, change %zu", kind, c);
            cr_expect(failure.code == QC_BAD_INPUT && strstr(failure.message, "it has changed while it was read"), "%s",
                      failure.message);
        }
}

Test(dataset_errors, a_folder_of_which_a_file_changes)
{
    static int64_t dims[] = {-1, 4};
    static const struct qc_input_spec x = {.name = "x", .dtype = QC_F32, .rank = 2, .dims = dims};
    const struct qc_dataset_options o = QC_DATASET_OPTIONS_INIT;
    const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}},
                          later[2] = {{.tv_sec = 1001}, {.tv_sec = 1001}};
    struct qc_dataset *ds = NULL;
    struct qc_dataset_scratch *scratch = NULL;
    float y[4];
    cr_assert_eq(mkdir(folder_path("parts"), 0700), 0);
    for (int i = 0; i < 2; i++) {
        make_npy(folder_path(i ? "parts/1.npy" : "parts/0.npy"));
        cr_assert_eq(utimensat(AT_FDCWD, folder_path(i ? "parts/1.npy" : "parts/0.npy"), old, 0), 0);
    }
    MUST(qc_dataset_open(&ds, folder_path("parts"), &x, 1, &o, ST));
    MUST(qc_dataset_scratch_new(&scratch, ST));
    SHOULD(qc_dataset_read(y, ds, 0, 19, scratch, ST));
    make_npy(folder_path("parts/1.npy"));
    cr_assert_eq(utimensat(AT_FDCWD, folder_path("parts/1.npy"), later, 0), 0);
    SHOULD(qc_dataset_read(y, ds, 0, 0, scratch, ST));
    FAILS(qc_dataset_read(y, ds, 0, 19, scratch, ST), "parts/1.npy: it has changed while it was read");
    qc_dataset_scratch_free(scratch);
    qc_dataset_free(ds);
    unlink(folder_path("parts/0.npy"));
    unlink(folder_path("parts/1.npy"));
    rmdir(folder_path("parts"));
}
