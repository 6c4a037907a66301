// SPDX-License-Identifier: Apache-2.0
/* Temporary files keep what is written, and report a lack of space. */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>

#include "base/file_map.h"
#include "tests/check.h"

Test(scratch_file, holds_what_is_written)
{
    struct qc_scratch_file *f;
    char read[4] = "";
    int64_t a, b;
    MUST(qc_scratch_file_new(&f, NULL, ST));
    MUST(qc_scratch_file_grow(&a, f, 5000, ST) && qc_scratch_file_grow(&b, f, 4, ST));
    cr_assert(a == 0 && b == 5000);
    cr_assert(qc_scratch_file_write(f, b, "wxyz", 4, ST) && qc_scratch_file_write(f, a + 4998, "ab", 2, ST));
    MUST(qc_scratch_file_read(read, f, a + 4999, 3, ST));
    cr_expect(memcmp(read, "bwx", 3) == 0);
    cr_expect_not(qc_scratch_file_read(read, f, b + 2, 4, ST), "behind the end");
    cr_expect(failure.code == QC_MACHINE && strstr(failure.message, "temporary file"), "%s", failure.message);
    qc_scratch_file_free(f);
}

Test(scratch_file, there_may_be_none)
{
    struct qc_scratch_file *f = NULL;
    const char *was = getenv("TMPDIR");
    char *kept = was ? strdup(was) : NULL; /* with the thread sanitizer, tests share a process */
    setenv("TMPDIR", "/no/such/folder", 1);
    REFUSES(qc_scratch_file_new(&f, NULL, ST), QC_MACHINE, "/no/such/folder: ");
    qc_scratch_file_free(f);
    if (kept)
        setenv("TMPDIR", kept, 1);
    else
        unsetenv("TMPDIR");
    free(kept);
}

Test(scratch_file, room_is_asked_for_first)
{
    struct qc_scratch_file *f;
    struct qc_status st = QC_STATUS_INIT, full = QC_STATUS_INIT;
    int64_t at = -1;
    struct rlimit was, small;
    cr_assert(getrlimit(RLIMIT_FSIZE, &was) == 0);
    small = was;
    small.rlim_cur = 1 << 16;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    cr_assert(setrlimit(RLIMIT_FSIZE, &small) == 0);
    cr_assert(qc_scratch_file_new(&f, NULL, &st), "%s", st.message);
    cr_expect(qc_scratch_file_grow(&at, f, 1 << 15, &st) && at == 0);
    cr_expect_not(qc_scratch_file_grow(&at, f, 1 << 17, &full));
    cr_expect(full.code == QC_MACHINE && strstr(full.message, "room"), "%s", full.message);
    cr_expect(qc_scratch_file_grow(&at, f, 1 << 12, &st) && at == 1 << 15, "what there was stays");
    qc_scratch_file_free(f);
    cr_assert(setrlimit(RLIMIT_FSIZE, &was) == 0);
    signal(SIGXFSZ, handler);
}

/* A program that is started, such as that of --benchmark, does not inherit it. */
Test(scratch_file, is_closed_in_other_programs)
{
    struct qc_scratch_file *f;
    int found = 0;
    MUST(qc_scratch_file_new(&f, NULL, ST));
    for (int fd = 3; fd < 256; fd++) {
        char link[64], name[512];
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        const ssize_t n = readlink(link, name, sizeof name - 1);
        name[n > 0 ? n : 0] = '\0';
        if (!strstr(name, "/qcalib-") || strstr(name, "/qcalib-test-")) continue; /* those are of other tests */
        found++;
        cr_expect(fcntl(fd, F_GETFD) & FD_CLOEXEC, "%s", name);
    }
    cr_expect(found || access("/proc/self/fd", F_OK) != 0);
    qc_scratch_file_free(f);
}

Test(scratch_file, tmpdir_decides_if_it_is_not_empty)
{
    unsetenv("TMPDIR");
    cr_expect_str_eq(qc_temporary_folder(NULL), "/tmp");
    cr_expect_str_eq(qc_temporary_folder("beside"), "beside");
    setenv("TMPDIR", "", 1);
    cr_expect_str_eq(qc_temporary_folder(NULL), "/tmp");
    cr_expect_str_eq(qc_temporary_folder("beside"), "beside");
    setenv("TMPDIR", "/elsewhere", 1);
    cr_expect_str_eq(qc_temporary_folder(NULL), "/elsewhere");
    cr_expect_str_eq(qc_temporary_folder("beside"), "/elsewhere");
}
