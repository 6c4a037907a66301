// SPDX-License-Identifier: Apache-2.0
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS, MADV_DONTFORK */
#include "datasets/hdf5/reader_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/shown.h"
#include "datasets/hdf5/hdf5_lib.h"
#include "datasets/hdf5/sandbox.h"

/* Limits for one request: seconds of processor time, seconds of elapsed time, and bytes of values that add one second
   to both. */
enum { SECONDS = 3, CLOCK_SECONDS = 120, BYTES_PER_SECOND = 1 << 20, ARGUMENTS_MAX = 1 << 20 };

/* Milliseconds of one wait. A wait that takes longer counts as this: the program was stopped meanwhile, and with it the
   process (Ctrl-Z, SIGSTOP). */
enum { TICK = 1000 };

/* Milliseconds that a process whose channel is closed has to end by itself: a crash takes time. */
enum { GRACE = 3000 };

/* Bounds of an answer: names, paths and shapes of a file are at most ANSWER_TIMES its compressed bytes (deflate: 1032),
   plus ANSWER_BYTES. */
enum { ANSWER_BYTES = 64 << 20, ANSWER_TIMES = 1100 };

/* Answers of up to this size use memory shared by both processes; larger ones, or all if there is no shared memory, use
   the channel. */
enum { SHARED_BYTES = (1 << 20) + (1 << 17) };

const struct qc_process_kind qc_process_hdf5 = {.name = "the HDF5 library", .plugins = true};
const struct qc_process_kind qc_process_images = {.name = "the image library"};

struct qc_process {
    const struct qc_process_kind *kind;
    pthread_mutex_t lock;
    pid_t pid; /* 0: it has ended */
    int channel;
    const void *shared;     /* NULL: there is none */
    struct qc_later *begun; /* request whose answer is not received yet; may be NULL */
    struct qc_status why;   /* why it ended */
};

/* Without padding, whose bytes would be sent uninitialised. */
struct question {
    qc_work *work;
    size_t size; /* of the arguments that follow */
    size_t seconds;
};
_Static_assert(sizeof(struct question) == sizeof(qc_work *) + 2 * sizeof(size_t), "a question has no padding");

/* The message follows, then the bytes unless they are in shared memory. */
struct answer {
    enum qc_code code;
    unsigned shared;
    size_t message, size;
};

void *qc_reply_add(struct qc_reply *r, size_t bytes, struct qc_status *st)
{
    size_t size, capacity;
    if (!qc_add_size(&size, r->size, bytes)) {
        qc_fail_memory(st, bytes);
        return NULL;
    }
    if (size > r->capacity || !r->data) {
        const struct qc_reply *own = r->larger ? r->larger : r;
        capacity = size > SIZE_MAX / 2 ? size : size < 4096 ? 4096 : size > r->capacity * 2 ? size : r->capacity * 2;
        if (capacity < own->capacity) capacity = own->capacity;
        void *p = r->fixed ? NULL : realloc(own->data, capacity);
        if (!p) {
            qc_fail_memory(st, size);
            return NULL;
        }
        if (r->larger && r->size) memcpy(p, r->data, r->size);
        if (r->larger) *r->larger = (struct qc_reply){.data = NULL};
        r->larger = NULL;
        r->data = p;
        r->capacity = capacity;
    }
    void *at = (char *)r->data + r->size;
    r->size = size;
    return at;
}

static bool send_all(int fd, const void *data, size_t size)
{
    for (size_t n = 0; n < size;) {
        const ssize_t k = send(fd, (const char *)data + n, size - n < 1 << 20 ? size - n : 1 << 20, MSG_NOSIGNAL);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        n += (size_t)k;
    }
    return true;
}

static int64_t milliseconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* left: milliseconds to wait, of which it takes those that it waited; NULL: no limit. */
static bool receive_all(void *data, size_t size, int fd, int64_t *left)
{
    for (size_t n = 0; n < size;) {
        const ssize_t k = recv(fd, (char *)data + n, size - n < 1 << 20 ? size - n : 1 << 20, left ? MSG_DONTWAIT : 0);
        if (k > 0) n += (size_t)k;
        if (k > 0 || (k < 0 && errno == EINTR)) continue;
        if (k == 0 || (errno != EAGAIN && errno != EWOULDBLOCK) || *left <= 0) return false;
        struct pollfd p = {.fd = fd, .events = POLLIN};
        const int64_t begun = milliseconds();
        if (poll(&p, 1, TICK) < 0 && errno != EINTR) return false;
        const int64_t waited = milliseconds() - begun;
        *left -= waited < TICK ? waited : TICK;
    }
    return true;
}

/* ---- In the reading process ---- */

static enum qc_sandbox_code code_of(const struct qc_process_kind *kind)
{
    char folder[QC_H5_PATH_MAX];
    unsigned count = 0;
    if (!kind->plugins || H5PLsize(&count) < 0) return QC_SANDBOX_NO_CODE;
    for (unsigned i = 0; i < count; i++) {
        const ssize_t n = H5PLget(i, folder, sizeof folder);
        if (n > 0 && (size_t)n < sizeof folder && access(folder, R_OK) == 0) return QC_SANDBOX_LIBRARIES;
    }
    return QC_SANDBOX_NO_CODE;
}

static void serve(int channel, void *shared, const struct qc_process_kind *kind)
{
    struct question q;
    struct qc_reply own = {.data = NULL};
    void *state = NULL, *arguments = malloc(ARGUMENTS_MAX);
    qc_sandbox_enter(channel, code_of(kind));
    while (arguments && receive_all(&q, sizeof q, channel, NULL) && q.size <= ARGUMENTS_MAX &&
           receive_all(arguments, q.size, channel, NULL)) {
        struct qc_status st = QC_STATUS_INIT;
        struct qc_reply reply = {.data = shared, .capacity = SHARED_BYTES, .larger = &own};
        if (!shared) reply = (struct qc_reply){.data = own.data, .capacity = own.capacity};
        qc_sandbox_seconds((unsigned)q.seconds);
        if (!q.work(&reply, &state, arguments, q.size, &st) && st.code == QC_OK)
            qc_fail(&st, QC_BAD_INPUT, "the file is damaged; make or copy it again");
        qc_sandbox_seconds(0);
        const struct answer a = {.code = st.code,
                                 .shared = reply.larger != NULL,
                                 .message = st.code == QC_OK ? 0 : strlen(st.message),
                                 .size = st.code == QC_OK ? reply.size : 0};
        if (!send_all(channel, &a, sizeof a) || !send_all(channel, st.message, a.message) ||
            (!a.shared && !send_all(channel, reply.data, a.size)))
            _exit(0);
        if (!reply.larger) own = reply;
    }
    _exit(arguments ? 0 : QC_MACHINE); /* open files were only read */
}

/* ---- In this process ---- */

static herr_t fork_here(unsigned n, const H5E_error2_t *e, void *user)
{
    if (n == 0) *(pid_t *)user = fork();
    return 0;
}

/* Forks inside a callback of HDF5, where this thread holds HDF5's own lock. Otherwise a thread of another component
   could hold it, and the child would wait without end. */
static pid_t fork_with_hdf5(void)
{
    pid_t pid = -1;
    hid_t stack = H5Ecreate_stack();
    if (stack < 0) return fork();
    H5Epush2(stack, "reader_process.c", __func__, __LINE__, H5E_ERR_CLS, H5E_NONE_MAJOR, H5E_NONE_MINOR, "fork");
    H5Ewalk2(stack, H5E_WALK_UPWARD, fork_here, &pid);
    H5Eclose_stack(stack);
    return pid;
}

/* Makes a channel above the standard descriptors, which the child replaces and other code of this process writes to.
   Without them, as in a daemon, a new channel would take their place. */
static bool open_channel(int ends[2])
{
    int low[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, low)) return false;
    for (int i = 0; i < 2; i++) ends[i] = fcntl(low[i], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    const int error = errno;
    for (int i = 0; i < 2; i++) close(low[i]);
    for (int i = 0; i < 2; i++)
        if (ends[i] >= 0 && ends[!i] < 0) close(ends[i]);
    errno = error;
    return ends[0] >= 0 && ends[1] >= 0;
}

bool qc_process_start(struct qc_process **out, const struct qc_process_kind *kind, struct qc_status *st)
{
    int ends[2];
    sigset_t all, before;
    struct qc_process *p = malloc(sizeof *p);
    if (!p) return qc_fail_memory(st, sizeof *p);
    if (!open_channel(ends)) {
        free(p);
        return qc_fail(st, QC_MACHINE, "cannot make a channel to a process for %s: %s", kind->name, strerror(errno));
    }
    *p = (struct qc_process){.kind = kind, .channel = ends[0], .why = QC_STATUS_INIT};
    sigfillset(&all);
    qc_h5_enter();
    void *shared = mmap(NULL, SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    p->shared = shared == MAP_FAILED ? NULL : shared;
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the child must not run our signal handlers */
    p->pid = fork_with_hdf5();
    const int error = errno;
    if (p->pid == 0) {
        qc_h5_leave();
        serve(ends[1], p->shared ? shared : NULL, kind);
    }
    if (p->shared) madvise(shared, SHARED_BYTES, MADV_DONTFORK); /* not shared with later children */
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    qc_h5_leave();
    close(ends[1]);
    if (p->pid < 0) {
        close(ends[0]);
        if (p->shared) munmap(shared, SHARED_BYTES);
        free(p);
        return qc_fail(st, QC_MACHINE, "cannot make a process for %s: %s", kind->name, strerror(error));
    }
    pthread_mutex_init(&p->lock, NULL);
    *out = p;
    return true;
}

enum why { DIED, LATE, NO_MEMORY, NONSENSE };

/* Waits for the process to end; kills it after `grace`. Returns false if it was killed. */
static bool has_ended(int *status, pid_t pid, int64_t grace)
{
    pid_t gone = 0;
    for (; grace && (gone = waitpid(pid, status, WNOHANG)) <= 0 && (gone == 0 || errno == EINTR); grace--)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    if (gone != 0) return true;
    kill(pid, SIGKILL);
    while (waitpid(pid, status, 0) < 0 && errno == EINTR) continue;
    return false;
}

/* Ends the process if it still runs and records why it answers no more. */
static void end(struct qc_process *p, enum why why)
{
    int status = 0;
    if (!has_ended(&status, p->pid, why == DIED ? GRACE : 0) && why == DIED) why = NONSENSE;
    p->pid = 0;
    const int by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (why == NO_MEMORY)
        qc_fail(&p->why, QC_MACHINE,
                "out of memory for the values read; use fewer --threads or a machine with more memory");
    else if (why == NONSENSE)
        qc_fail(&p->why, QC_BAD_INPUT,
                "%s cannot read it: its content makes no sense; the file is damaged, make or copy it again",
                p->kind->name);
    else if (by == SIGXCPU) /* our limit sends SIGPROF */
        qc_fail(&p->why, QC_MACHINE,
                "the process that reads it reached the limit on processor time; raise it (ulimit -t)");
    else if (why == LATE || by == SIGPROF)
        qc_fail(&p->why, QC_BAD_INPUT,
                "%s cannot read it: reading does not end; the file is damaged, make or copy it again", p->kind->name);
    else if (by == SIGKILL ||
             (WIFEXITED(status) && WEXITSTATUS(status) == QC_MACHINE)) /* cli/program.h uses this exit code, too */
        qc_fail(&p->why, QC_MACHINE, "the process that reads it was killed; is there enough memory?");
    else
        qc_fail(&p->why, QC_BAD_INPUT, "%s cannot read it: it crashes; the file is damaged, make or copy it again",
                p->kind->name);
}

/* Returns the most bytes of a valid answer to a question about `bytes` bytes of values or of a file. */
static size_t answer_max(const struct qc_reply *out, size_t bytes)
{
    size_t most;
    if (out->fixed) return SIZE_MAX; /* has room for the requested bytes */
    if (!qc_mul_size(&most, bytes, ANSWER_TIMES) || !qc_add_size(&most, most, ANSWER_BYTES)) most = SIZE_MAX;
    return most < QC_SANDBOX_BYTES ? most : QC_SANDBOX_BYTES;
}

/* bytes: of values that the question was about. Fails without a status if the process has ended. */
static bool receive_answer(struct qc_reply *out, struct qc_process *p, size_t bytes, int64_t *left,
                           struct qc_status *st)
{
    struct answer a;
    struct qc_status theirs = QC_STATUS_INIT;
    if (!receive_all(&a, sizeof a, p->channel, left)) return false;
    if (a.message >= sizeof theirs.message) {
        end(p, NONSENSE);
        return false;
    }
    if (!receive_all(theirs.message, a.message, p->channel, left)) return false;
    out->size = 0;
    if (a.code != QC_OK) {
        const bool known = a.code == QC_MACHINE || a.code == QC_UNSUPPORTED || a.code == QC_USAGE;
        enum qc_code as = known ? a.code : QC_BAD_INPUT;
        const char *text = theirs.message;
        struct qc_status shown = QC_STATUS_INIT;
        size_t at = 0;
        while (*text) {
            char piece[QC_SHOWN];
            bool escaped;
            text += qc_shown(piece, &escaped, text);
            const size_t n = strlen(piece);
            if (n >= sizeof shown.message - at) break;
            memcpy(shown.message + at, piece, n);
            at += n;
        }
        return qc_fail(st, as, "%s", shown.message);
    }
    if ((a.shared && (!p->shared || a.size > SHARED_BYTES)) || a.size > answer_max(out, bytes)) {
        end(p, NONSENSE);
        return false;
    }
    void *to = qc_reply_add(out, a.size, st);
    if (to && a.shared && a.size)
        memcpy(to, p->shared, a.size);       /* copied once: the other process could change it
                                                meanwhile */
    if (!to && !a.shared) end(p, NO_MEMORY); /* its bytes are still in the channel, where the next answer is expected */
    return to && (a.shared || receive_all(to, a.size, p->channel, left));
}

static unsigned more_seconds(size_t bytes)
{
    const size_t more = bytes / BYTES_PER_SECOND;
    return more < 1000000 ? (unsigned)more : 1000000;
}

static int64_t patience(size_t bytes)
{
    return ((int64_t)CLOCK_SECONDS + more_seconds(bytes)) * 1000;
}

static bool send_question(struct qc_process *p, qc_work *work, const void *arguments, size_t size, size_t bytes)
{
    const struct question q = {.work = work, .size = size, .seconds = SECONDS + more_seconds(bytes)};
    return send_all(p->channel, &q, sizeof q) && send_all(p->channel, arguments, size);
}

/* Receives the answer to the request that was begun. */
static void finish_begun(struct qc_process *p)
{
    struct qc_later *l = p->begun;
    struct qc_status st = QC_STATUS_INIT;
    if (!l) return;
    int64_t left = patience(l->bytes); /* from here on: the request may have been begun long ago */
    p->begun = NULL;
    l->done = receive_answer(&l->reply, p, l->bytes, &left, &st);
    if (!l->done && st.code == QC_OK && p->pid) end(p, left <= 0 ? LATE : DIED);
}

bool qc_process_ask(struct qc_reply *out, struct qc_process *p, qc_work *work, const void *arguments, size_t size,
                    size_t bytes, struct qc_status *st)
{
    if (size > ARGUMENTS_MAX) return qc_fail(st, QC_BAD_INPUT, "its name is too long");
    pthread_mutex_lock(&p->lock);
    finish_begun(p);
    int64_t left = patience(bytes);
    bool ok = p->pid && send_question(p, work, arguments, size, bytes) && receive_answer(out, p, bytes, &left, st);
    if (!ok && st->code == QC_OK) {
        if (p->pid) end(p, left <= 0 ? LATE : DIED);
        qc_fail(st, p->why.code, "%s", p->why.message);
    }
    pthread_mutex_unlock(&p->lock);
    return ok;
}

bool qc_process_has_ended(struct qc_process *p)
{
    pthread_mutex_lock(&p->lock);
    const bool ended = !p->pid;
    pthread_mutex_unlock(&p->lock);
    return ended;
}

bool qc_process_begin(struct qc_later *l, struct qc_process *p, qc_work *work, const void *arguments, size_t size,
                      size_t bytes)
{
    pthread_mutex_lock(&p->lock);
    struct pollfd answered = {.fd = p->channel, .events = POLLIN};
    if (p->begun && poll(&answered, 1, 0) > 0) finish_begun(p);
    const bool idle = p->pid && !p->begun && size <= ARGUMENTS_MAX;
    if (idle) {
        l->done = false;
        l->bytes = bytes;
        p->begun = l;
        if (!send_question(p, work, arguments, size, bytes)) finish_begun(p);
    }
    pthread_mutex_unlock(&p->lock);
    return idle;
}

bool qc_process_wait(struct qc_later *l, struct qc_process *p)
{
    pthread_mutex_lock(&p->lock);
    if (p->begun == l) finish_begun(p);
    const bool done = l->done;
    pthread_mutex_unlock(&p->lock);
    return done;
}

void qc_process_end(struct qc_process *p)
{
    if (!p) return;
    int status;
    close(p->channel);
    if (p->pid) has_ended(&status, p->pid, 0); /* its files were only read */
    if (p->shared) munmap((void *)(uintptr_t)p->shared, SHARED_BYTES);
    pthread_mutex_destroy(&p->lock);
    free(p);
}
