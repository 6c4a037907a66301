// SPDX-License-Identifier: Apache-2.0
/* Images are decoded in processes in the sandbox. If one dies, the image that it decoded is lost and no other. */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "datasets/images/image_plan.h"
#include "tests/check.h"

static const char *const files[] = {"a.jpg", "rgb.png", "lossy.webp", "no_such.png"};

enum { IMAGES = 3, SIDE = 8, BYTES = 3 * SIDE * SIDE };

static const struct qc_image_options options = {.crop_height = SIDE, .crop_width = SIDE};
static const struct qc_budget budget = {.memory_limit = 0};

static struct qc_image_processes *start(struct qc_image_plan *plan)
{
    struct qc_image_processes *p = NULL;
    MUST(qc_image_plan_make(plan, &options, NULL, ST));
    MUST(qc_image_processes_new(&p, plan, QC_TEST_SOURCE "/tests/datasets/corpus_images", files, &budget, ST));
    return p;
}

/* Returns the field of a process's status as a number, or -1. */
static long field_of(const char *pid, const char *name)
{
    char path[300], line[200];
    long value = -1;
    snprintf(path, sizeof path, "/proc/%s/status", pid);
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, name, strlen(name)) == 0 && line[strlen(name)] == ':')
            value = strtol(line + strlen(name) + 1, NULL, 10);
    if (f) fclose(f);
    return value;
}

/* Returns the only child of this process. */
static pid_t find_child(void)
{
    long child = -1;
    DIR *d = opendir("/proc");
    cr_assert_not_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        if (!isdigit((unsigned char)*e->d_name) || field_of(e->d_name, "PPid") != getpid()) continue;
        cr_assert_eq(child, -1, "there are several");
        child = strtol(e->d_name, NULL, 10);
    }
    closedir(d);
    cr_assert_gt(child, 0, "there is none");
    return (pid_t)child;
}

Test(image_process, pixels_are_those_of_the_decoders)
{
    struct qc_image_plan plan;
    struct qc_image_processes *p = start(&plan);
    for (size_t i = 0; i < IMAGES; i++) {
        unsigned char got[BYTES], wanted[BYTES];
        char path[500];
        snprintf(path, sizeof path, "%s/tests/datasets/corpus_images/%s", QC_TEST_SOURCE, files[i]);
        MUST(qc_image_plan_apply(wanted, &plan, path, &budget, ST));
        MUST(qc_image_processes_read(got, p, i, ST));
        cr_expect_eq(memcmp(got, wanted, BYTES), 0, "%s", files[i]);
    }
    qc_image_processes_free(p);
    cr_expect(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD, "a process is left");
}

Test(image_process, a_dead_process_costs_one_image)
{
    static const struct {
        int signal;
        enum qc_code code;
        const char *says;
    } cases[] = {{SIGSEGV, QC_BAD_INPUT, "crashes"}, {SIGKILL, QC_MACHINE, "was killed"}};
    struct qc_image_plan plan;
    struct qc_image_processes *p = start(&plan);
    unsigned char pixels[BYTES];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        MUST(qc_image_processes_read(pixels, p, 0, ST));
        cr_assert_eq(kill(find_child(), cases[i].signal), 0);
        REFUSES(qc_image_processes_read(pixels, p, 1, ST), cases[i].code, cases[i].says);
    }
    SHOULD(qc_image_processes_read(pixels, p, 1, ST));
    REFUSES(qc_image_processes_read(pixels, p, 3, ST), QC_BAD_INPUT, "");
    cr_expect(qc_image_processes_read(pixels, p, 2, ST), "it lives on after an error: %s", failure.message);
    qc_image_processes_free(p);
}

#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(QC_TEST_EMULATED)
Test(image_process, decoders_run_in_the_sandbox)
{
    enum { FILTERED = 2 };
    struct qc_image_plan plan;
    struct qc_image_processes *p = start(&plan);
    char child[20];
    for (size_t i = 0; i < IMAGES; i++) {
        unsigned char pixels[BYTES];
        MUST(qc_image_processes_read(pixels, p, i, ST));
        snprintf(child, sizeof child, "%ld", (long)find_child());
        cr_expect_eq(field_of(child, "Seccomp"), FILTERED);
        cr_expect_eq(field_of(child, "NoNewPrivs"), 1);
    }
    qc_image_processes_free(p);
}
#endif
