// SPDX-License-Identifier: Apache-2.0
#include "datasets/hdf5/reader_process.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "datasets/hdf5/hdf5_lib.h"
#include "datasets/hdf5/sandbox.h"

/* Seconds for one piece of work: of processor time, then by the clock; and bytes of values for one more second. */
enum { SECONDS = 3, CLOCK_SECONDS = 120, BYTES_PER_SECOND = 1 << 20, ARGUMENTS_MAX = 1 << 20 };

struct qc_process {
    pthread_mutex_t lock;
    pid_t pid; /* 0: it is dead */
    int channel;
    struct qc_status why; /* it is dead */
};

struct question {
    qc_work *work;
    size_t size; /* of the arguments that follow */
    unsigned seconds;
};

/* The message follows, then the bytes. */
struct answer {
    enum qc_code code;
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
        capacity = size > SIZE_MAX / 2 ? size : size < 4096 ? 4096 : size > r->capacity * 2 ? size : r->capacity * 2;
        void *p = r->fixed ? NULL : realloc(r->data, capacity);
        if (!p) {
            qc_fail_memory(st, size);
            return NULL;
        }
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

/* until: by `milliseconds`; 0: for ever. */
static bool receive_all(void *data, size_t size, int fd, int64_t until)
{
    for (size_t n = 0; n < size;) {
        const ssize_t k = recv(fd, (char *)data + n, size - n < 1 << 20 ? size - n : 1 << 20, until ? MSG_DONTWAIT : 0);
        if (k > 0) n += (size_t)k;
        if (k > 0 || (k < 0 && errno == EINTR)) continue;
        if (k == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) return false;
        const int64_t left = until - milliseconds();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (left <= 0 || (poll(&p, 1, left < INT_MAX ? (int)left : INT_MAX) < 0 && errno != EINTR)) return false;
    }
    return true;
}

/* ---- There ---- */

static void answer_question(int channel, const struct question *q, const void *arguments, struct qc_reply *reply,
                            void **state)
{
    struct qc_status st = QC_STATUS_INIT;
    reply->size = 0;
    qc_sandbox_seconds(q->seconds);
    if (!q->work(reply, state, arguments, q->size, &st) && st.code == QC_OK)
        qc_fail(&st, QC_BAD_INPUT, "the file is damaged; make or copy it again");
    qc_sandbox_seconds(0);
    const struct answer a = {.code = st.code,
                             .message = st.code == QC_OK ? 0 : strlen(st.message),
                             .size = st.code == QC_OK ? reply->size : 0};
    if (!send_all(channel, &a, sizeof a) || !send_all(channel, st.message, a.message) ||
        !send_all(channel, reply->data, a.size))
        _exit(0);
}

static void serve(int channel)
{
    struct question q;
    struct qc_reply reply = {.data = NULL};
    void *state = NULL, *arguments = malloc(ARGUMENTS_MAX);
    qc_sandbox_enter(channel);
    while (arguments && receive_all(&q, sizeof q, channel, 0) && q.size <= ARGUMENTS_MAX &&
           receive_all(arguments, q.size, channel, 0))
        answer_question(channel, &q, arguments, &reply, &state);
    _exit(arguments ? 0 : QC_MACHINE); /* what is open was only read */
}

/* ---- Here ---- */

static herr_t fork_here(unsigned n, const H5E_error2_t *e, void *user)
{
    (void)e;
    if (n == 0) *(pid_t *)user = fork();
    return 0;
}

/* HDF5 has a lock of its own, which another thread of the process, not of ours, may hold right now: the child would
   wait for it for ever. Inside a callback of HDF5 it is ours. */
static pid_t fork_with_hdf5(void)
{
    pid_t pid = -1;
    hid_t stack = H5Ecreate_stack();
    if (stack < 0) return fork();
    H5Epush2(stack, __FILE__, __func__, __LINE__, H5E_ERR_CLS, H5E_NONE_MAJOR, H5E_NONE_MINOR, "fork");
    H5Ewalk2(stack, H5E_WALK_UPWARD, fork_here, &pid);
    H5Eclose_stack(stack);
    return pid;
}

bool qc_process_start(struct qc_process **out, struct qc_status *st)
{
    int ends[2];
    sigset_t all, before;
    struct qc_process *p = malloc(sizeof *p);
    if (!p) return qc_fail_memory(st, sizeof *p);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends)) {
        free(p);
        return qc_fail(st, QC_MACHINE, "cannot make a channel to a process that reads HDF5: %s", strerror(errno));
    }
    *p = (struct qc_process){.channel = ends[0], .why = QC_STATUS_INIT};
    sigfillset(&all);
    qc_h5_enter();
    pthread_sigmask(SIG_SETMASK, &all, &before); /* handlers of this process are not for the child */
    p->pid = fork_with_hdf5();
    const int error = errno;
    if (p->pid == 0) {
        qc_h5_leave();
        serve(ends[1]);
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    qc_h5_leave();
    close(ends[1]);
    if (p->pid < 0) {
        close(ends[0]);
        free(p);
        return qc_fail(st, QC_MACHINE, "cannot make a process that reads HDF5: %s", strerror(error));
    }
    pthread_mutex_init(&p->lock, NULL);
    *out = p;
    return true;
}

/* Ends it, by force or as it died, and says why it answers no more. */
static void end(struct qc_process *p, bool late, bool no_memory)
{
    int status = 0;
    if (late || no_memory) kill(p->pid, SIGKILL);
    while (waitpid(p->pid, &status, 0) < 0 && errno == EINTR) continue;
    p->pid = 0;
    const int by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (no_memory)
        qc_fail(&p->why, QC_MACHINE,
                "out of memory for what was read; use fewer --threads or a machine with more memory");
    else if (late || by == SIGPROF || by == SIGXCPU)
        qc_fail(
            &p->why, QC_BAD_INPUT,
            "the HDF5 library cannot read it: it does not come to an end; the file is damaged, make or copy it again");
    else if (by == SIGKILL ||
             (WIFEXITED(status) && WEXITSTATUS(status) == QC_MACHINE)) /* as cli/give_up.h ends it, too */
        qc_fail(&p->why, QC_MACHINE, "the process that reads it was ended; is there enough memory?");
    else
        qc_fail(&p->why, QC_BAD_INPUT,
                "the HDF5 library cannot read it: it crashes; the file is damaged, make or copy it again");
}

/* False without a status: it is dead. */
static bool exchange(struct qc_reply *out, struct qc_process *p, const struct question *q, const void *arguments,
                     int64_t until, struct qc_status *st)
{
    struct answer a;
    struct qc_status theirs = QC_STATUS_INIT;
    if (!send_all(p->channel, q, sizeof *q) || !send_all(p->channel, arguments, q->size) ||
        !receive_all(&a, sizeof a, p->channel, until))
        return false;
    if (a.message >= sizeof theirs.message || !receive_all(theirs.message, a.message, p->channel, until)) return false;
    out->size = 0;
    if (a.code != QC_OK) {
        const bool known = a.code == QC_MACHINE || a.code == QC_UNSUPPORTED || a.code == QC_USAGE;
        return qc_fail(st, known ? a.code : QC_BAD_INPUT, "%s", theirs.message);
    }
    void *to = qc_reply_add(out, a.size, st);
    if (!to) end(p, false, true); /* its bytes are still on the way; other threads may ask after this one */
    return to && receive_all(to, a.size, p->channel, until);
}

bool qc_process_ask(struct qc_reply *out, struct qc_process *p, qc_work *work, const void *arguments, size_t size,
                    size_t bytes, struct qc_status *st)
{
    const size_t more = bytes / BYTES_PER_SECOND;
    const unsigned extra = more < 1000000 ? (unsigned)more : 1000000;
    const struct question q = {.work = work, .size = size, .seconds = SECONDS + extra};
    if (size > ARGUMENTS_MAX) return qc_fail(st, QC_BAD_INPUT, "its name is too long");
    pthread_mutex_lock(&p->lock);
    const int64_t until = milliseconds() + ((int64_t)CLOCK_SECONDS + extra) * 1000;
    bool ok = p->pid && exchange(out, p, &q, arguments, until, st);
    if (!ok && st->code == QC_OK) {
        if (p->pid) end(p, milliseconds() >= until, false);
        qc_fail(st, p->why.code, "%s", p->why.message);
    }
    pthread_mutex_unlock(&p->lock);
    return ok;
}

void qc_process_end(struct qc_process *p)
{
    if (!p) return;
    close(p->channel); /* which ends it */
    while (p->pid && waitpid(p->pid, NULL, 0) < 0 && errno == EINTR) continue;
    pthread_mutex_destroy(&p->lock);
    free(p);
}
