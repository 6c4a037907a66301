// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <sys/stat.h>

#include "base/file_map.h"
#include "tests/check.h"

enum { PAGE = 4096, BEHIND = 64 };

/* An open file without a name, of bytes 0 to 250, again and again. */
static int make_file(size_t size)
{
    char path[] = "/tmp/qcalib_map_XXXXXX";
    const int fd = mkstemp(path);
    unsigned char *bytes = malloc(size + 1);
    cr_assert(fd >= 0 && bytes);
    unlink(path);
    for (size_t i = 0; i < size; i++) bytes[i] = (unsigned char)(i % 251);
    cr_assert_eq(write(fd, bytes, size), (ssize_t)size);
    free(bytes);
    return fd;
}

static bool is_whole(const struct qc_file_map *m, size_t size)
{
    const unsigned char *p = qc_file_map_data(m);
    for (size_t i = 0; i < size; i++)
        if (p[i] != i % 251) return false;
    for (size_t i = size; i < size + BEHIND; i++)
        if (p[i] != 0) return false;
    return true;
}

Test(file_map, a_file_is_there_and_a_little_behind_it)
{
    static const size_t sizes[] = {1, PAGE - 1, PAGE, PAGE + 1, 20 * PAGE};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct qc_file_map *m;
        const int fd = make_file(sizes[i]);
        MUST(qc_file_map_new(&m, fd, sizes[i], ST));
        close(fd);
        cr_assert_not_null(m);
        cr_expect(is_whole(m, sizes[i]), "%zu bytes", sizes[i]);
        qc_file_map_forget(qc_file_map_data(m), sizes[i]);
        cr_expect(is_whole(m, sizes[i]), "%zu bytes, again", sizes[i]);
        cr_expect_eq(qc_file_map_ref(m), m);
        qc_file_map_unref(m);
        cr_expect(is_whole(m, sizes[i]), "%zu bytes, with one reference left", sizes[i]);
        qc_file_map_unref(m);
    }
}

Test(file_map, what_cannot_be_mapped_is_left_to_be_read)
{
    struct qc_file_map *m;
    const int fd = make_file(0);
    int ends[2];
    cr_assert_eq(pipe(ends), 0);
    const int files[] = {fd, ends[0], ends[0]};
    const size_t sizes[] = {0, PAGE, SIZE_MAX};
    for (int i = 0; i < 3; i++) {
        SHOULD(qc_file_map_new(&m, files[i], sizes[i], ST));
        cr_expect_null(m, "case %d", i);
    }
    close(fd);
    close(ends[0]);
    close(ends[1]);
    qc_file_map_unref(NULL);
}

Test(temporary_file, is_new_and_empty_in_the_folder_of_the_user)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    char folder[] = "/tmp/qcalib_tmp_XXXXXX";
    const char *one, *two;
    struct stat is;
    cr_assert(mkdtemp(folder));
    setenv("TMPDIR", folder, 1);
    MUST(qc_temporary_file(&one, a, ST) && qc_temporary_file(&two, a, ST));
    cr_expect_str_neq(one, two);
    cr_expect(strncmp(one, folder, strlen(folder)) == 0, "%s", one);
    cr_expect(stat(one, &is) == 0 && is.st_size == 0 && (is.st_mode & 0777) == 0600);
    unlink(one);
    unlink(two);
    rmdir(folder);
    REFUSES(qc_temporary_file(&one, a, ST), QC_MACHINE, "");
    SHOULD(strstr(failure.message, folder) && strstr(failure.message, "TMPDIR"));
    unsetenv("TMPDIR"); /* with the thread sanitizer, tests share a process */
}
