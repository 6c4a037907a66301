// SPDX-License-Identifier: Apache-2.0
#include "datasets/stream/dataset_impl.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum slot_state { EMPTY, READING, READY };

/* One unit of one binding. */
struct slot {
    enum slot_state state;
    size_t unit;
    struct qc_packet packet;
};

/* Unit u has slot u % slots of its binding. The thread reads units [next, next + ahead). A slot that nobody took is
   overwritten by the unit `slots` later, which enters the window only when the readers are far past the old one. */
struct qc_read_ahead {
    const struct qc_dataset *ds;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t moved, filled;
    size_t ahead, slots; /* slots: 2 * ahead */
    struct slot *ring;   /* [binding][slots] */
    size_t next;         /* first unit of the window: one after the newest that was asked for */
    bool stop;
};

static struct slot *slot_of(const struct qc_read_ahead *r, size_t binding, size_t unit)
{
    return &r->ring[binding * r->slots + unit % r->slots];
}

/* Finds the next unit to read; returns false if there is none. */
static bool find_work(size_t *binding, size_t *unit, const struct qc_read_ahead *r)
{
    for (size_t u = r->next; u < r->ds->units && u < r->next + r->ahead; u++)
        for (size_t b = 0; b < r->ds->binding_count; b++) {
            const struct slot *s = slot_of(r, b, u);
            if (s->state != EMPTY && s->unit == u) continue;
            *binding = b;
            *unit = u;
            return true;
        }
    return false;
}

static void *run(void *user)
{
    struct qc_read_ahead *r = user;
    size_t binding, unit;
    pthread_mutex_lock(&r->lock);
    while (!r->stop) {
        if (!find_work(&binding, &unit, r)) {
            pthread_cond_wait(&r->moved, &r->lock);
            continue;
        }
        struct slot *s = slot_of(r, binding, unit);
        s->state = READING;
        s->unit = unit;
        struct qc_packet packet = s->packet; /* not accessed by others while the slot is READING */
        pthread_mutex_unlock(&r->lock);
        struct qc_status st = QC_STATUS_INIT;
        bool ok = qc_dataset_fetch(&packet, r->ds, binding, unit, &st);
        pthread_mutex_lock(&r->lock);
        s->packet = packet;
        s->state = READY;
        if (!ok) r->stop = true; /* the worker reads this unit itself and gets the error */
        if (!ok) s->state = EMPTY;
        pthread_cond_broadcast(&r->filled);
    }
    pthread_mutex_unlock(&r->lock);
    return NULL;
}

bool qc_read_ahead_start(struct qc_read_ahead **out, const struct qc_dataset *ds, struct qc_status *st)
{
    size_t slots = 2 * (size_t)ds->ahead;
    struct qc_read_ahead *r = calloc(1, sizeof *r);
    struct slot *ring = calloc(slots * ds->binding_count, sizeof *ring);
    if (!r || !ring) {
        free(r);
        free(ring);
        return qc_fail_memory(st, slots * ds->binding_count * sizeof *ring);
    }
    r->ds = ds;
    r->ahead = ds->ahead;
    r->slots = slots;
    r->ring = ring;
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->moved, NULL);
    pthread_cond_init(&r->filled, NULL);
    int error = pthread_create(&r->thread, NULL, run, r);
    if (error) {
        r->stop = true;
        free(ring);
        free(r);
        return qc_fail(st, QC_MACHINE, "cannot start the thread that reads ahead: %s", strerror(error));
    }
    *out = r;
    return true;
}

void qc_read_ahead_stop(struct qc_read_ahead *r)
{
    if (!r) return;
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_broadcast(&r->moved);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
    for (size_t i = 0; i < r->slots * r->ds->binding_count; i++)
        qc_packet_clear(&r->ring[i].packet); /* removed slots are empty */
    pthread_cond_destroy(&r->filled);
    pthread_cond_destroy(&r->moved);
    pthread_mutex_destroy(&r->lock);
    free(r->ring);
    free(r);
}

unsigned qc_read_ahead_units(struct qc_read_ahead *r)
{
    pthread_mutex_lock(&r->lock);
    const unsigned units = (unsigned)r->ahead;
    pthread_mutex_unlock(&r->lock);
    return units;
}

static bool reading(const struct qc_read_ahead *r)
{
    for (size_t i = 0; i < r->slots * r->ds->binding_count; i++)
        if (r->ring[i].state == READING) return true;
    return false;
}

void qc_read_ahead_limit(struct qc_read_ahead *r, unsigned units)
{
    pthread_mutex_lock(&r->lock);
    if (units < r->ahead) {
        r->ahead = units;
        while (reading(r)) pthread_cond_wait(&r->filled, &r->lock);
        for (size_t i = 0; i < r->slots * r->ds->binding_count; i++) {
            qc_packet_clear(&r->ring[i].packet);
            r->ring[i].state = EMPTY;
        }
        r->slots = 2 * r->ahead;
        pthread_cond_signal(&r->moved);
    }
    pthread_mutex_unlock(&r->lock);
}

bool qc_read_ahead_take(struct qc_packet *p, struct qc_read_ahead *r, size_t binding, size_t unit)
{
    bool taken = false;
    pthread_mutex_lock(&r->lock);
    /* Moves forward within a pass; jumps back when the next pass begins. */
    if (unit >= r->next || unit + r->slots < r->next) {
        r->next = unit + 1;
        pthread_cond_signal(&r->moved);
    }
    struct slot *s = r->slots ? slot_of(r, binding, unit) : NULL;
    while (s && s->state == READING && s->unit == unit) pthread_cond_wait(&r->filled, &r->lock);
    if (s && s->state == READY && s->unit == unit) {
        struct qc_packet mine = *p;
        *p = s->packet;
        s->packet = mine;
        s->state = EMPTY;
        taken = true;
    }
    pthread_mutex_unlock(&r->lock);
    return taken;
}
