// SPDX-License-Identifier: Apache-2.0
#include "datasets/images/image_plan.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "datasets/hdf5/reader_process.h"

struct qc_image_processes {
    struct qc_image_plan plan;
    const char *root;
    const char *const *files;
    struct qc_budget budget;
    pthread_mutex_t lock;
    struct qc_process **idle;
    size_t count, capacity; /* of idle */
};

bool qc_image_processes_new(struct qc_image_processes **out, const struct qc_image_plan *plan, const char *root,
                            const char *const *files, const struct qc_budget *budget, struct qc_status *st)
{
    struct qc_image_processes *p = malloc(sizeof *p);
    if (!p) return qc_fail_memory(st, sizeof *p);
    *p = (struct qc_image_processes){.plan = *plan, .root = root, .files = files, .budget = *budget};
    pthread_mutex_init(&p->lock, NULL);
    *out = p;
    return true;
}

void qc_image_processes_free(struct qc_image_processes *p)
{
    if (!p) return;
    for (size_t i = 0; i < p->count; i++) qc_process_end(p->idle[i]);
    free(p->idle);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

struct question {
    const struct qc_image_processes *images; /* in the process as of the fork */
    size_t file;
};

static bool work(struct qc_reply *out, void **state, const void *arguments, size_t size, struct qc_status *st)
{
    char path[8192];
    struct question q;
    (void)state, (void)size;
    memcpy(&q, arguments, sizeof q);
    const struct qc_image_processes *x = q.images;
    unsigned char *pixels = qc_reply_add(out, x->plan.bytes, st);
    qc_text(path, sizeof path, "%s%s%s", x->root, *x->root ? "/" : "", x->files[q.file]);
    return pixels && qc_image_plan_apply(pixels, &x->plan, path, &x->budget, st);
}

bool qc_image_processes_read(unsigned char *out, struct qc_image_processes *p, size_t file, struct qc_status *st)
{
    const struct question q = {.images = p, .file = file};
    struct qc_reply reply = {.data = out, .capacity = p->plan.bytes, .fixed = true};
    struct qc_process *process;
    pthread_mutex_lock(&p->lock);
    process = p->count ? p->idle[--p->count] : NULL;
    pthread_mutex_unlock(&p->lock);
    if (!process && !qc_process_start(&process, &qc_process_images, st)) return false;
    /* The size of the image is not known yet: the time is that of the largest one. */
    bool ok = qc_process_ask(&reply, process, work, &q, sizeof q, (size_t)3 * QC_PIXELS_MAX, st);
    if (ok && reply.size != p->plan.bytes) ok = qc_fail(st, QC_BAD_INPUT, "its pixels are incomplete");
    if (!qc_process_has_ended(process)) {
        /* Keeps the process for the next image, or ends it if there is no memory to keep it. */
        struct qc_status ignored = QC_STATUS_INIT;
        pthread_mutex_lock(&p->lock);
        struct qc_process **idle = qc_grown(p->idle, p->count, &p->capacity, sizeof(struct qc_process *), &ignored);
        if (idle) {
            p->idle = idle;
            p->idle[p->count++] = process;
            process = NULL;
        }
        pthread_mutex_unlock(&p->lock);
    }
    qc_process_end(process);
    return ok;
}
