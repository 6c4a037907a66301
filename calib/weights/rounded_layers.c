// SPDX-License-Identifier: Apache-2.0
#include "calib/weights/rounded_layers.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/checked.h"
#include "base/file.h"
#include "base/scope.h"
#include "base/sha256.h"

/* ---- In memory ---- */

enum { HEX = 64 };

/* Computes the key: a hash of all that a layer's rounding depends on besides the job. */
static bool key_of(char key[HEX + 1], const struct qc_round_weights_layer *l, struct qc_status *st)
{
    const struct qc_qparams *q = l->qparams, *in = l->input;
    char scales[HEX + 1], zeros[HEX + 1], *text = NULL;
    size_t size;
    qc_sha256(scales, q->scale, q->count * sizeof *q->scale);
    qc_sha256(zeros, q->zero_point, q->count * sizeof *q->zero_point);
    FILE *f = open_memstream(&text, &size);
    if (!f) return qc_fail_memory(st, 1);
    fprintf(f, "%s\n%s\n%s\n%d %d %u %lld %zu %d %d\n%s\n%s\n", q->name, l->moments->name, l->moments->geometry,
            (int)l->g->nodes[l->node].op, (int)q->dtype, q->bits, (long long)q->block, l->moments->block,
            l->correctable, (int)q->pair_limit, scales, zeros);
    for (size_t i = 0; in && i < in->count; i++)
        fprintf(f, "%d %a %d\n", (int)in->dtype, (double)in->scale[i], (int)in->zero_point[i]);
    const bool ok = fclose(f) == 0 || qc_fail_memory(st, 1);
    if (ok) qc_sha256(key, text, size);
    free(text);
    return ok;
}

struct solved {
    struct qc_tensor *weight; /* a reference, so that no other tensor can get its address */
    struct qc_tensor *rounded;
    struct qc_round_weights_output *made;
    struct qc_rounded_weights result;
};

static void free_solved(void *value)
{
    struct solved *s = value;
    qc_tensor_unref(s->weight);
    qc_tensor_unref(s->rounded);
    free(s->made);
    free(s);
}

bool qc_rounded_layers_new(struct qc_memo **out, struct qc_memo_budget *budget, struct qc_status *st)
{
    const struct qc_memo_options o = {.most = SIZE_MAX, .budget = budget, .free = free_solved};
    return qc_memo_new(out, &o, st);
}

/* Returns true if a layer can be kept. With several input scales, which are rare, it is solved again. */
static bool is_simple(const struct qc_round_weights_layer *l)
{
    return !l->quantized && !l->qparams->block && !l->qparams->bits && (!l->input || l->input->count <= 1);
}

/* Key of a layer in memory: its weight, and all else that its rounding depends on. */
struct key {
    const struct qc_tensor *weight;
    char rest[HEX + 1];
    char has_input;
    char zero[6];
};
_Static_assert(sizeof(struct key) == sizeof(void *) + HEX + 8, "no byte of a key is undefined");

static struct qc_round_weights_output *copy_outputs(const struct qc_round_weights_output *from, size_t count,
                                                    struct qc_status *st)
{
    struct qc_round_weights_output *made = malloc((count + 1) * sizeof *made);
    if (made)
        memcpy(made, from, count * sizeof *made);
    else
        qc_fail_memory(st, count * sizeof *made);
    return made;
}

bool qc_rounded_layers_recall(bool *known, struct qc_round_weights_layer *l, struct qc_memo *memo, struct qc_status *st)
{
    struct key key = {.weight = l->weight, .has_input = l->input != NULL};
    *known = false;
    if (!is_simple(l)) return true;
    if (!key_of(key.rest, l, st)) return false;
    const struct solved *s = qc_memo_find(memo, &key, sizeof key);
    if (!s) return true;
    const struct qc_rounded_weights own = *l->result;
    l->rounded = qc_tensor_ref(s->rounded);
    if (!(l->made = copy_outputs(s->made, l->moments->outputs, st))) return false;
    *l->result = s->result;
    l->result->quantizer = own.quantizer;
    l->result->name = own.name;
    l->result->reason = own.reason;
    *known = true;
    return true;
}

bool qc_rounded_layers_keep(struct qc_memo *memo, const struct qc_round_weights_layer *l, struct qc_status *st)
{
    const size_t bytes = l->rounded->bytes + l->moments->outputs * sizeof *l->made;
    struct key key = {.weight = l->weight, .has_input = l->input != NULL};
    if (!is_simple(l) || !qc_memo_has_room(memo, bytes)) return true;
    if (!key_of(key.rest, l, st)) return false;
    struct solved *s = calloc(1, sizeof *s);
    if (!s) return qc_fail_memory(st, sizeof *s);
    *s = (struct solved){.weight = qc_tensor_ref(l->weight),
                         .rounded = qc_tensor_ref(l->rounded),
                         .made = copy_outputs(l->made, l->moments->outputs, st),
                         .result = *l->result};
    const bool copied = s->made != NULL;
    if (copied)
        qc_memo_keep(memo, &key, sizeof key, s, bytes);
    else
        free_solved(s);
    return copied;
}

/* ---- In a file ---- */

enum { NUMBERS = 11, OF_OUTPUT = 6 };
static const char magic[8] = "qcround3"; /* the last is the version */

/* Head of a record. NUMBERS numbers, OF_OUTPUT numbers per output, the stored weight and the checksum follow. */
struct head {
    char key[HEX];
    uint64_t outputs, bytes; /* bytes: of the weight */
};

struct place {
    struct head head;
    off_t at; /* offset of the data after the head */
};

struct qc_rounded_file {
    pthread_mutex_t lock;
    FILE *file;
    const char *path;
    char job[HEX];
    off_t end;
    size_t count, room;
    struct place *places; /* complete records, in file order */
};

/* Data read or written chunk by chunk, and its checksum (FNV-1a). */
struct flow {
    struct qc_rounded_file *f;
    uint64_t sum;
    bool ok;
};

static void add_sum(struct flow *w, const void *data, size_t size)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < size; i++) w->sum = (w->sum ^ p[i]) * UINT64_C(0x100000001b3);
}

static void write_bytes(struct flow *w, const void *data, size_t size)
{
    add_sum(w, data, size);
    w->ok = w->ok && fwrite(data, 1, size, w->f->file) == size;
}

static void read_bytes(struct flow *w, void *data, size_t size)
{
    w->ok = w->ok && fread(data, 1, size, w->f->file) == size;
    if (w->ok) add_sum(w, data, size);
}

static struct flow flow_of(struct qc_rounded_file *f)
{
    return (struct flow){.f = f, .sum = UINT64_C(0xcbf29ce484222325), .ok = true};
}

static bool failed(const struct qc_rounded_file *f, struct qc_status *st)
{
    return qc_fail(st, QC_MACHINE, "--checkpoint: cannot write %s: %s", f->path, strerror(errno));
}

/* Computes the bytes of a record after its head. Returns false on overflow. */
static bool body_bytes(size_t *out, const struct head *h)
{
    size_t outputs, numbers;
    return h->outputs <= SIZE_MAX && h->bytes <= SIZE_MAX &&
           qc_mul_size(&outputs, (size_t)h->outputs, OF_OUTPUT * sizeof(double)) &&
           qc_add_size(&numbers, outputs, NUMBERS * sizeof(double) + sizeof(uint64_t)) &&
           qc_add_size(out, numbers, (size_t)h->bytes) && *out <= (size_t)INT64_MAX / 2;
}

static bool begin_rounded_file(struct qc_rounded_file *f, struct qc_status *st)
{
    char found[sizeof magic + HEX];
    const size_t n = fread(found, 1, sizeof found, f->file);
    if (n && (n < sizeof magic || memcmp(found, magic, sizeof magic - 1) != 0))
        return qc_fail(
            st, QC_BAD_INPUT,
            "--checkpoint: %s exists and holds no rounded layers; remove it or choose another name for the checkpoint",
            f->path);
    f->end = (off_t)sizeof found;
    if (n == sizeof found && found[sizeof magic - 1] == magic[sizeof magic - 1] &&
        memcmp(found + sizeof magic, f->job, HEX) == 0) {
        /* Find the complete records; the rest of the file is unfinished */
        struct head h;
        size_t bytes;
        if (fseeko(f->file, 0, SEEK_END) != 0) return failed(f, st);
        const off_t size = ftello(f->file);
        for (off_t at = f->end;;) {
            if (size - at < (off_t)sizeof h || fseeko(f->file, at, SEEK_SET) != 0 ||
                fread(&h, sizeof h, 1, f->file) != 1 || !body_bytes(&bytes, &h))
                return true;
            at += (off_t)sizeof h;
            if ((off_t)bytes > size - at) return true;
            struct place *grown = qc_grown(f->places, f->count, &f->room, sizeof *grown, st);
            if (!grown) return false;
            f->places = grown;
            f->places[f->count++] = (struct place){.head = h, .at = at};
            f->end = at += (off_t)bytes;
        }
    }
    rewind(f->file);
    const bool ok = ftruncate(fileno(f->file), 0) == 0 && fwrite(magic, sizeof magic, 1, f->file) == 1 &&
                    fwrite(f->job, HEX, 1, f->file) == 1 && fflush(f->file) == 0;
    return ok || failed(f, st);
}

bool qc_rounded_file_open(struct qc_rounded_file **out, const char *path, const char *job, struct qc_status *st)
{
    struct qc_rounded_file *f = NULL;
    if (!qc_output_check(path, st)) return qc_where(st, "--checkpoint");
    if (!(f = calloc(1, sizeof *f))) return qc_fail_memory(st, sizeof *f);
    pthread_mutex_init(&f->lock, NULL);
    f->path = path;
    memcpy(f->job, job, HEX);
    f->file = fopen(path, "r+be");
    if (!f->file && errno == ENOENT) f->file = fopen(path, "w+be");
    bool ok = f->file || failed(f, st);
    /* Two processes that write one file would take each other's layers. A process that this one forks does not keep the
       lock. Some file systems have no locks. */
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (ok && fcntl(fileno(f->file), F_SETLK, &all) != 0 && (errno == EAGAIN || errno == EACCES))
        ok = qc_fail(st, QC_MACHINE, "--checkpoint: another job is writing %s; choose another name for the checkpoint",
                     path);
    ok = ok && begin_rounded_file(f, st);
    return QC_HAND_OVER(ok, out, f, qc_rounded_file_close);
}

void qc_rounded_file_close(struct qc_rounded_file *f)
{
    if (!f) return;
    if (f->file) fclose(f->file);
    pthread_mutex_destroy(&f->lock);
    free(f->places);
    free(f);
}

static bool is_kept(const struct qc_round_weights_layer *l)
{
    return !l->recurrent && !l->quantized;
}

/* Reads a record. Returns false if it is damaged. */
static bool read_record(struct qc_round_weights_layer *l, struct qc_rounded_weights *result,
                        struct qc_round_weights_output *made, struct qc_tensor *to, struct qc_rounded_file *f,
                        const struct place *p)
{
    struct flow w = flow_of(f);
    double numbers[NUMBERS];
    uint64_t sum;
    if (fseeko(f->file, p->at, SEEK_SET) != 0) return false;
    add_sum(&w, &p->head, sizeof p->head);
    read_bytes(&w, numbers, sizeof numbers);
    if (!w.ok) return false;
    for (size_t i = 0; i < NUMBERS; i++)
        if (!isfinite(numbers[i]) || numbers[i] < 0) return false;
    const double most = (double)l->moments->outputs;
    if (numbers[2] > most || numbers[3] > most || numbers[4] > most || numbers[5] > (double)l->moments->columns)
        return false;
    result->compensated = numbers[0] != 0;
    result->held = numbers[1] != 0;
    result->outputs = (size_t)numbers[2];
    result->nearest = (size_t)numbers[3];
    result->bounded = (size_t)numbers[4];
    result->blocks = (size_t)numbers[5];
    result->error_nearest = numbers[6];
    result->error = numbers[7];
    result->bias_corrected = numbers[8] != 0;
    result->bias_rms = numbers[9];
    result->bias_max = numbers[10];
    for (size_t o = 0; o < l->moments->outputs; o++) {
        double x[OF_OUTPUT];
        read_bytes(&w, x, sizeof x);
        if (!w.ok) return false;
        for (size_t i = 0; i < OF_OUTPUT; i++)
            if (!isfinite(x[i])) return false;
        made[o] = (struct qc_round_weights_output){.moved = x[0] != 0,
                                                   .shift = x[1],
                                                   .nearest_shift = x[2],
                                                   .error = x[3],
                                                   .nearest_error = x[4],
                                                   .scale = (float)x[5]};
    }
    read_bytes(&w, to->data, to->bytes);
    return w.ok && fread(&sum, sizeof sum, 1, f->file) == 1 && sum == w.sum;
}

static bool recall(bool *known, struct qc_round_weights_layer *l, struct qc_rounded_file *f, const struct place *p,
                   struct qc_status *st)
{
    struct qc_rounded_weights result = *l->result;
    struct qc_tensor *to = qc_tensor_new(qc_qparams_storage(l->qparams), &l->weight->shape, st);
    struct qc_round_weights_output *made = calloc(l->moments->outputs, sizeof *made);
    bool ok = to && (made || qc_fail_memory(st, l->moments->outputs * sizeof *made));
    *known = ok && read_record(l, &result, made, to, f, p);
    if (*known) {
        *l->result = result;
        l->rounded = qc_tensor_ref(to);
        l->made = made;
        made = NULL;
    }
    free(made);
    qc_tensor_unref(to);
    return ok;
}

bool qc_rounded_file_recall(bool *known, struct qc_round_weights_layer *l, struct qc_rounded_file *f,
                            struct qc_status *st)
{
    const size_t bytes = l->weight->count * qc_dtype_size(qc_qparams_storage(l->qparams));
    char key[HEX + 1];
    bool ok = true;
    *known = false;
    if (!is_kept(l)) return true;
    if (!key_of(key, l, st)) return false;
    pthread_mutex_lock(&f->lock);
    for (size_t i = f->count; ok && !*known && i-- > 0;) { /* the last of several wins */
        const struct head *h = &f->places[i].head;
        if (memcmp(h->key, key, HEX) == 0 && h->outputs == l->moments->outputs && h->bytes == bytes)
            ok = recall(known, l, f, &f->places[i], st);
    }
    pthread_mutex_unlock(&f->lock);
    return ok;
}

bool qc_rounded_file_keep(struct qc_rounded_file *f, const struct qc_round_weights_layer *l, struct qc_status *st)
{
    struct head h = {.outputs = l->moments->outputs, .bytes = l->rounded->bytes};
    struct flow w = flow_of(f);
    double numbers[NUMBERS];
    char key[HEX + 1];
    if (!is_kept(l)) return true;
    if (!key_of(key, l, st)) return false;
    memcpy(h.key, key, HEX);
    const struct qc_rounded_weights *r = l->result;
    const double all[NUMBERS] = {
        r->compensated,    r->held,          (double)r->outputs, (double)r->nearest,        (double)r->bounded,
        (double)r->blocks, r->error_nearest, r->error,           (double)r->bias_corrected, r->bias_rms,
        r->bias_max};
    memcpy(numbers, all, sizeof all);
    pthread_mutex_lock(&f->lock);
    w.ok = fseeko(f->file, f->end, SEEK_SET) == 0;
    write_bytes(&w, &h, sizeof h);
    write_bytes(&w, numbers, sizeof numbers);
    /* Write the numbers of each output */
    for (size_t o = 0; w.ok && o < l->moments->outputs; o++) {
        const struct qc_round_weights_output *m = &l->made[o];
        const double x[OF_OUTPUT] = {m->moved, m->shift,         m->nearest_shift,
                                     m->error, m->nearest_error, (double)m->scale};
        write_bytes(&w, x, sizeof x);
    }
    write_bytes(&w, l->rounded->data, l->rounded->bytes);
    const uint64_t sum = w.sum;
    write_bytes(&w, &sum, sizeof sum);
    const bool ok = w.ok && fflush(f->file) == 0;
    if (ok) f->end = ftello(f->file);
    pthread_mutex_unlock(&f->lock);
    return ok || failed(f, st);
}
