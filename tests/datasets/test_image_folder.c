// SPDX-License-Identifier: Apache-2.0
/* Images of a folder that another process writes while they are read. */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/file.h"
#include "datasets/samples/dataset.h"
#include "tests/check.h"

/* One pixel. */
static const unsigned char png[] = {0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a, 0x00, 0x00, 0x00, 0x0d, 0x49, 0x48,
                                    0x44, 0x52, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00, 0x01, 0x08, 0x06, 0x00, 0x00,
                                    0x00, 0x1f, 0x15, 0xc4, 0x89, 0x00, 0x00, 0x00, 0x0a, 0x49, 0x44, 0x41, 0x54, 0x78,
                                    0x9c, 0x63, 0x00, 0x01, 0x00, 0x00, 0x05, 0x00, 0x01, 0x0d, 0x0a, 0x2d, 0xb4, 0x00,
                                    0x00, 0x00, 0x00, 0x49, 0x45, 0x4e, 0x44, 0xae, 0x42, 0x60, 0x82};

static void write_file(const char *path, size_t size)
{
    FILE *f = fopen(path, "wb");
    cr_assert(f && fwrite(png, 1, size, f) == size && fclose(f) == 0);
}

struct seen {
    char broken[2][200];
    char said[2000];
};

/* When all have been looked at they are whole. */
static bool mend(void *user, size_t done, size_t count)
{
    const struct seen *s = user;
    for (size_t i = 0; done == count && i < 2; i++) write_file(s->broken[i], sizeof png);
    return true;
}

static void hear(void *user, const char *text)
{
    struct seen *s = user;
    qc_text(s->said, sizeof s->said, "%s", text);
}

Test(image_folder, a_file_that_is_written_meanwhile_is_named)
{
    static const int64_t dims[] = {-1, 3, 1, 1};
    const struct qc_input_spec input = {.name = "x", .dtype = QC_F32, .rank = 4, .dims = dims};
    char folder[] = "image_folder_XXXXXX", good[200];
    struct seen s = {.said = ""};
    struct qc_dataset_options options = {.warn = hear, .warn_user = &s, .progress = mend, .progress_user = &s};
    struct qc_dataset *ds = NULL;
    cr_assert_not_null(mkdtemp(folder));
    write_file(qc_text(good, sizeof good, "%s/a.png", folder), sizeof png);
    for (int i = 0; i < 2; i++)
        write_file(qc_text(s.broken[i], sizeof s.broken[i], "%s/b%d.png", folder, i), sizeof png - 30);
    MUST(qc_dataset_open(&ds, folder, &input, 1, &options, ST) &&
         qc_dataset_select(ds, &(struct qc_selection){.samples = 0}, ST));
    cr_expect_eq(qc_dataset_total(ds), 1);
    cr_expect_not_null(strstr(s.said, "b0.png: it is being written"), "%s", s.said);
    cr_expect_not_null(strstr(s.said, "b1.png: it is being written"), "%s", s.said);
    qc_dataset_free(ds);
    for (int i = 0; i < 2; i++) remove(s.broken[i]);
    remove(good);
    remove(folder);
}

/* Pixels that were not kept are decoded anew for each pass. */
Test(image_folder, a_file_that_is_written_between_passes)
{
    enum { SIDE = 128, LIMIT = 700 << 10 }; /* a sixteenth is less than one image */
    static const int64_t dims[] = {-1, 3, SIDE, SIDE};
    static unsigned char pixels[3 * SIDE * SIDE];
    const struct qc_input_spec input = {.name = "x", .dtype = QC_U8, .rank = 4, .dims = dims};
    struct qc_dataset_options options = QC_DATASET_OPTIONS_INIT;
    char folder[] = "image_folder_XXXXXX", file[200];
    struct qc_dataset *ds = NULL;
    struct qc_dataset_scratch *scratch = NULL;
    options.memory_limit = LIMIT;
    cr_assert_not_null(mkdtemp(folder));
    write_file(qc_text(file, sizeof file, "%s/a.png", folder), sizeof png);
    MUST(qc_dataset_open(&ds, folder, &input, 1, &options, ST) &&
         qc_dataset_select(ds, &(struct qc_selection){.samples = 0}, ST) && qc_dataset_scratch_new(&scratch, ST));
    SHOULD(qc_dataset_read(pixels, ds, 0, 0, scratch, ST));
    cr_assert_eq(utimensat(AT_FDCWD, file, (struct timespec[]){{.tv_nsec = UTIME_OMIT}, {.tv_sec = 4000000000}}, 0), 0);
    FAILS(qc_dataset_read(pixels, ds, 0, 0, scratch, ST), "a.png: it has changed while it was read");
    qc_dataset_scratch_free(scratch);
    qc_dataset_free(ds);
    remove(file);
    remove(folder);
}
