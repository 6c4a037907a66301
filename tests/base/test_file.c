// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/sha256.h"
#include "base/simd.h"
#include "tests/check.h"

static char folder[64];
static struct qc_arena *arena;

static void set_up(void)
{
    strcpy(folder, "/tmp/qcalib-test-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    arena = qc_arena_new();
}

/* Names in the folder, each removed; "" when it is empty. */
static const char *empty_folder(void)
{
    static char names[4096];
    names[0] = '\0';
    DIR *d = opendir(folder);
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.') continue;
        char path[512];
        qc_text(path, sizeof path, "%s/%s", folder, e->d_name);
        strcat(strcat(names, e->d_name), " ");
        if (unlink(path)) rmdir(path);
    }
    closedir(d);
    return names;
}

static void tear_down(void)
{
    empty_folder();
    rmdir(folder);
    qc_arena_free(arena);
}

static const char *in(const char *name)
{
    static char path[4][128];
    static unsigned i;
    return qc_text(path[i++ % 4], sizeof *path, "%s/%s", folder, name);
}

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "wb");
    fputs(text, f);
    fclose(f);
}

static const char *read_text(const char *path)
{
    void *data;
    size_t size;
    MUST(qc_file_read(&data, &size, path, arena, ST));
    MUST_HOLD(((char *)data)[size] == 0, strlen(data) == size);
    return data;
}

TestSuite(file, .init = set_up, .fini = tear_down);

Test(file, reading_what_is_no_file)
{
    mkfifo(in("pipe"), 0600);
    static const struct {
        const char *name;
        enum qc_code code;
    } cases[] = {{"missing", QC_BAD_INPUT}, {".", QC_BAD_INPUT}, {"pipe", QC_BAD_INPUT}, {"pipe/x", QC_BAD_INPUT}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        void *data = NULL;
        size_t size;
        char hex[65];
        struct qc_status st = QC_STATUS_INIT, st2 = QC_STATUS_INIT;
        cr_assert_not(qc_file_read(&data, &size, in(cases[i].name), arena, &st));
        cr_assert_eq(st.code, cases[i].code, "%s", st.message);
        cr_assert_not_null(strstr(st.message, in(cases[i].name)), "%s", st.message);
        cr_assert_null(data);
        cr_assert_not(qc_sha256_file(hex, in(cases[i].name), &st2));
        cr_assert_str_eq(st.message, st2.message);
    }
}

Test(file, output_appears_only_when_complete)
{
    struct qc_output *o;
    write_text(in("a"), "before");
    chmod(in("a"), 0640);
    MUST(qc_output_open(&o, in("a"), ST));
    MUST(qc_output_write(o, "after", 5, ST));
    MUST(qc_output_write(o, NULL, 0, ST));
    cr_assert_str_eq(read_text(in("a")), "before");
    cr_assert_str_neq(qc_output_path(o), in("a"));
    MUST(qc_output_commit(o, ST));
    cr_assert_str_eq(read_text(in("a")), "after");
    qc_output_free(o);
    struct stat info;
    stat(in("a"), &info);
    cr_assert_eq(info.st_mode & 0777, 0640);
    cr_assert_str_eq(empty_folder(), "a ");
}

Test(file, a_pair_replaces_an_earlier_pair)
{
    for (int earlier = 0; earlier < 4; earlier++) {
        struct qc_output *part, *whole;
        if (earlier & 1) write_text(in("part"), "before");
        if (earlier & 2) write_text(in("whole"), "before");
        cr_assert(qc_output_open(&part, in("part"), ST) && qc_output_open(&whole, in("whole"), ST));
        cr_assert(qc_output_write(part, "one", 3, ST) && qc_output_write(whole, "two", 3, ST));
        MUST(qc_output_commit_pair(part, whole, ST));
        qc_output_free(part);
        qc_output_free(whole);
        cr_assert_str_eq(read_text(in("part")), "one");
        cr_assert_str_eq(read_text(in("whole")), "two");
        cr_assert_str_eq(empty_folder(), "part whole ");
    }
}

/* Whichever is last: a model never stands beside the weights of another job. */
Test(file, pairs_of_several_processes_are_not_mixed)
{
    enum { JOBS = 3, ROUNDS = 60, TIMES = 5 };
    static const char *const names[JOBS] = {"a", "b", "c"};
    for (int round = 0; round < ROUNDS; round++) {
        int start[2];
        cr_assert_eq(pipe(start), 0);
        for (size_t job = 0; job < JOBS; job++) {
            if (fork() != 0) continue;
            struct qc_status st = QC_STATUS_INIT;
            bool ok = true;
            char byte;
            close(start[1]);
            const ssize_t ended = read(start[0], &byte, 1); /* when all are there */
            for (int i = 0; ok && i < TIMES; i++) {
                struct qc_output *part, *whole;
                ok = ended == 0 && qc_output_open(&part, in("part"), &st) && qc_output_open(&whole, in("whole"), &st) &&
                     qc_output_write(part, names[job], 1, &st) && qc_output_write(whole, names[job], 1, &st) &&
                     qc_output_commit_pair(part, whole, &st);
                if (!ok) break;
                qc_output_free(part);
                qc_output_free(whole);
            }
            _exit(!ok);
        }
        close(start[0]);
        close(start[1]);
        int status;
        while (wait(&status) > 0) cr_assert_eq(status, 0);
        cr_assert_str_eq(read_text(in("part")), read_text(in("whole")), "round %d", round);
        cr_assert_str_eq(empty_folder(), "part whole ");
    }
}

Test(file, an_earlier_whole_stays_if_its_part_cannot_be_replaced)
{
    struct qc_output *part, *whole;
    write_text(in("part"), "before");
    write_text(in("whole"), "before");
    cr_assert(qc_output_open(&part, in("part"), ST) && qc_output_open(&whole, in("whole"), ST));
    cr_assert_eq(unlink(qc_output_path(part)), 0);
    REFUSES(qc_output_commit_pair(part, whole, ST), QC_MACHINE, "");
    qc_output_free(part);
    qc_output_free(whole);
    cr_assert_str_eq(read_text(in("part")), "before");
    cr_assert_str_eq(read_text(in("whole")), "before");
    cr_assert_str_eq(empty_folder(), "part whole ");
}

Test(file, an_abandoned_output_leaves_no_trace)
{
    struct qc_output *o, *twice;
    write_text(in("a"), "before");
    MUST(qc_output_open(&o, in("a"), ST));
    MUST(qc_output_open(&twice, in("a"), ST));
    cr_assert_str_neq(qc_output_path(o), qc_output_path(twice));
    MUST(qc_output_write(o, "x", 1, ST));
    qc_output_free(o);
    qc_output_free(twice);
    qc_output_free(NULL);
    cr_assert_str_eq(read_text(in("a")), "before");
    cr_assert_str_eq(empty_folder(), "a ");
}

Test(file, a_library_may_write_by_name)
{
    struct qc_output *o;
    MUST(qc_output_open(&o, in("a"), ST));
    write_text(qc_output_path(o), "by name");
    MUST(qc_output_commit(o, ST));
    qc_output_free(o);
    cr_assert_str_eq(read_text(in("a")), "by name");
}

Test(file, what_cannot_be_written)
{
    write_text(in("file"), "");
    cr_assert_eq(symlink("nowhere", in("dangling")), 0);
    static const char *const names[] = {".", "missing/a", "file/a", "file/", "dangling", ""};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *path = *names[i] ? in(names[i]) : "";
        REFUSES_ROW(path, qc_output_check(path, ST), QC_MACHINE, "");
        MUST(strstr(failure.message, path));
    }
    MUST(qc_output_check(in("new"), ST));
    cr_assert(access(in("new"), F_OK) != 0);
}

Test(file, pipes_are_not_written)
{
    struct qc_output *o;
    char inherited[32];
    int ends[2];
    cr_assert_eq(mkfifo(in("pipe"), 0600), 0);
    cr_assert_eq(pipe(ends), 0);
    snprintf(inherited, sizeof inherited, "/dev/fd/%d", ends[1]);
    const char *const paths[] = {in("pipe"), inherited};
    for (size_t i = 0; i < 2; i++) {
        if (access(paths[i], F_OK)) continue; /* a system without /dev/fd */
        REFUSES_ROW(paths[i], qc_output_open(&o, paths[i], ST), QC_MACHINE, "");
        MUST(strstr(failure.message, "it is a pipe"));
    }
    close(ends[0]);
    close(ends[1]);
}

Test(file, a_full_disk_is_said)
{
    if (access("/dev/full", W_OK)) cr_skip_test("this machine has no /dev/full");
    struct qc_output *o;
    MUST(qc_output_open(&o, "/dev/full", ST));
    bool ok = qc_output_write(o, "x", 1, ST) && qc_output_commit(o, ST);
    qc_output_free(o);
    cr_assert_not(ok);
    cr_assert_eq(failure.code, QC_MACHINE);
    MUST(strstr(failure.message, "/dev/full"));
    struct stat info;
    cr_assert(stat("/dev/full", &info) == 0 && S_ISCHR(info.st_mode), "the device was replaced");
}

Test(file, a_link_stays_a_link)
{
    struct qc_output *o;
    write_text(in("target"), "before");
    cr_assert_eq(symlink("target", in("link")), 0);
    MUST(qc_output_open(&o, in("link"), ST));
    cr_assert(qc_output_write(o, "after", 5, ST) && qc_output_commit(o, ST));
    qc_output_free(o);
    cr_assert_str_eq(read_text(in("target")), "after");
    struct stat info;
    cr_assert(lstat(in("link"), &info) == 0 && S_ISLNK(info.st_mode));
}

static void on_signal(int n)
{
    qc_output_remove_all();
    _exit(n);
}

Test(file, a_signal_handler_removes_what_is_unfinished)
{
    pid_t child = fork();
    if (child == 0) {
        struct qc_output *a, *b, *c;
        struct sigaction act = {.sa_handler = on_signal};
        sigaction(SIGTERM, &act, NULL);
        if (!qc_output_open(&a, in("a"), ST) || !qc_output_open(&b, in("b"), ST) || !qc_output_open(&c, in("c"), ST))
            _exit(1);
        if (!qc_output_write(b, "b", 1, ST) || !qc_output_commit(b, ST)) _exit(1);
        raise(SIGTERM);
        _exit(2);
    }
    int status;
    waitpid(child, &status, 0);
    cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == SIGTERM);
    cr_assert_str_eq(empty_folder(), "b ");
}

Test(file, many_outputs_and_names_are_given_back)
{
    for (int round = 0; round < 3; round++) {
        static struct qc_output *o[64];
        for (int i = 0; i < 64; i++) {
            char name[16];
            MUST(qc_output_open(&o[i], in(qc_text(name, sizeof name, "f%d", i)), ST));
        }
        struct qc_output *more;
        struct qc_status st2 = QC_STATUS_INIT;
        cr_assert_not(qc_output_open(&more, in("more"), &st2));
        cr_assert_eq(st2.code, QC_MACHINE);
        for (int i = 0; i < 64; i++) qc_output_free(o[i]);
    }
    cr_assert_str_eq(empty_folder(), "");
}

Test(file, folders)
{
    MUST(qc_make_folder(in("x/y//z/"), ST));
    MUST(qc_make_folder(in("x/y/z"), ST));
    struct stat info;
    cr_assert(stat(in("x/y/z"), &info) == 0 && S_ISDIR(info.st_mode));
    write_text(in("file"), "");
    REFUSES(qc_make_folder(in("file/y"), ST), QC_MACHINE, "");
    cr_assert_not(qc_make_folder("", ST));
    rmdir(in("x/y/z"));
    rmdir(in("x/y"));
}

/* FIPS 180-4 examples; the million is from the same source. */
Test(file, sha256_of_the_standard)
{
    char hex[65];
    qc_sha256(hex, "abc", 3);
    cr_assert_str_eq(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    qc_sha256(hex, "", 0);
    cr_assert_str_eq(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    char *a = malloc(1000001);
    memset(a, 'a', 1000000);
    a[1000000] = '\0';
    write_text(in("million"), a);
    free(a);
    MUST(qc_sha256_file(hex, in("million"), ST));
    cr_assert_str_eq(hex, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

/* The digests of the first 0 to 300 of 0, 1, ... 255, 0, ..., one after the other, have the digest that Python's
   hashlib gives, with and without the processor's instructions, in one piece and in two. */
Test(file, sha256_of_all_lengths)
{
    enum { MOST = 300 };
    unsigned char bytes[MOST];
    for (int i = 0; i < MOST; i++) bytes[i] = (unsigned char)i;
    for (int bits = 512; bits >= 128; bits -= 384) {
        struct qc_sha256_sum all, one;
        char hex[65];
        qc_simd_bits = bits;
        qc_sha256_begin(&all);
        for (size_t n = 0; n <= MOST; n++) {
            qc_sha256(hex, bytes, n);
            qc_sha256_add(&all, hex, 64);
            qc_sha256_begin(&one);
            qc_sha256_add(&one, bytes, n / 3);
            qc_sha256_add(&one, bytes + n / 3, n - n / 3);
            qc_sha256_end(hex, &one);
            qc_sha256_add(&all, hex, 64);
        }
        qc_sha256_end(hex, &all);
        cr_expect_str_eq(hex, "8ca6ed408f400ac98668638b39a6e83e65bb430138e03305681e3d69f162c70e", "%d bits", bits);
    }
}
