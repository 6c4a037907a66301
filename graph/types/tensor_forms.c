// SPDX-License-Identifier: Apache-2.0
#include "graph/types/tensor_forms.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct form {
    struct form *next;
    void *data;
    size_t key_bytes;
    unsigned char key[];
};

struct qc_tensor_forms {
    pthread_mutex_t lock;
    struct form *first;
};

bool qc_tensor_keep_forms(struct qc_tensor *t, struct qc_status *st)
{
    if (t->forms) return true;
    if (!(t->forms = calloc(1, sizeof *t->forms))) return qc_fail_memory(st, sizeof *t->forms);
    pthread_mutex_init(&t->forms->lock, NULL);
    return true;
}

void qc_tensor_forms_free(struct qc_tensor_forms *f)
{
    if (!f) return;
    while (f->first) {
        struct form *gone = f->first;
        f->first = gone->next;
        free(gone->data);
        free(gone);
    }
    pthread_mutex_destroy(&f->lock);
    free(f);
}

/* The caller holds the lock. Returns NULL if there is none. */
static const void *find(const struct qc_tensor_forms *f, const void *key, size_t key_bytes)
{
    const struct form *k = f->first;
    while (k && (k->key_bytes != key_bytes || memcmp(k->key, key, key_bytes) != 0)) k = k->next;
    return k ? k->data : NULL;
}

const void *qc_tensor_form(const struct qc_tensor *t, const void *key, size_t key_bytes)
{
    if (!t->forms) return NULL;
    pthread_mutex_lock(&t->forms->lock);
    const void *data = find(t->forms, key, key_bytes);
    pthread_mutex_unlock(&t->forms->lock);
    return data;
}

bool qc_tensor_add_form(const void **out, const struct qc_tensor *t, const void *key, size_t key_bytes, void *data,
                        struct qc_status *st)
{
    struct form *own = malloc(sizeof *own + key_bytes);
    if (!own) {
        free(data);
        return qc_fail_memory(st, sizeof *own + key_bytes);
    }
    *own = (struct form){.data = data, .key_bytes = key_bytes};
    memcpy(own->key, key, key_bytes);
    pthread_mutex_lock(&t->forms->lock);
    const void *there = find(t->forms, key, key_bytes);
    if (!there) {
        own->next = t->forms->first;
        t->forms->first = own;
    }
    pthread_mutex_unlock(&t->forms->lock);
    *out = there ? there : data;
    if (!there) return true;
    free(data);
    free(own);
    return true;
}
