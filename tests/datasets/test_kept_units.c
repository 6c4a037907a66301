// SPDX-License-Identifier: Apache-2.0
/* Units that are kept for repeated reading. */
#include <fcntl.h>
#include <sys/stat.h>

#include "datasets/samples/dataset.h"
#include "h5_make.h"
#include "tests/check.h"

static void write_npy(const char *path, const char values[8])
{
    static const char header[] = "\x93NUMPY\x01\x00\x76\x00{'descr': '|u1', 'fortran_order': False, 'shape': (2, 4), }";
    FILE *f = fopen(path, "r+b");
    if (!f) f = fopen(path, "wb");
    cr_assert(f);
    cr_assert_gt(fprintf(f, "%10s%-117s\n%.8s", "", "", values), 0);
    rewind(f);
    cr_assert_eq(fwrite(header, 1, sizeof header - 1, f), sizeof header - 1);
    cr_assert_eq(fclose(f), 0);
}

/* Rows of an .npy are as soon read as copied: no memory holds them, so a file that changes is read as it is. */
Test(kept_units, rows_that_are_copied_out_of_a_file_are_not_kept)
{
    static const int64_t dims[] = {1, 4};
    const struct qc_input_spec spec = {.name = "x", .dtype = QC_U8, .rank = 2, .dims = dims};
    struct qc_dataset_options options = QC_DATASET_OPTIONS_INIT;
    struct qc_dataset *ds = NULL;
    struct qc_dataset_scratch *scratch = NULL;
    char got[5] = "";
    folder_make();
    const char *path = folder_path("x.npy");
    write_npy(path, "abcdefgh");
    MUST(qc_dataset_open(&ds, path, &spec, 1, &options, ST));
    cr_assert(qc_dataset_keep(ds, NULL, ST) && qc_dataset_scratch_new(&scratch, ST));
    MUST(qc_dataset_read(got, ds, 0, 1, scratch, ST));
    cr_expect_str_eq(got, "efgh");
    struct stat before;
    cr_assert_eq(stat(path, &before), 0);
    write_npy(path, "abcdijkl");
    cr_assert_eq(utimensat(AT_FDCWD, path, (struct timespec[]){before.st_atim, before.st_mtim}, 0), 0); /* unnoticed */
    MUST(qc_dataset_read(got, ds, 0, 1, scratch, ST));
    cr_expect_str_eq(got, "ijkl");
    qc_dataset_scratch_free(scratch);
    qc_dataset_free(ds);
    folder_remove();
}
