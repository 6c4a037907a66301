// SPDX-License-Identifier: Apache-2.0
/* For LD_PRELOAD: makes allocation number K of a program fail, counted from the start of main, all threads together.

   QC_FAIL_AT=K      number K fails and no other
   QC_FAIL_FROM=K    number K and all behind it fail
   QC_FAIL_KIND=X    what is counted: memory (the default; malloc and its brothers), thread (pthread_create)
   QC_FAIL_BY=X      what happens instead: exit (the library calls exit(1)) or abort
   QC_FAIL_OURS=1    counts only what the program's own code asks for: for builds where libraries see their failures
   QC_FAIL_REPORT=F  writes file F of uint64_t: how many there were, then for each the hash of its call stack, the
   lowest bit of which tells whether the program's own code asked (through malloc of the program itself)

   QC_FAIL_WALK=IN,OUT  tries many numbers in one run of the program. IN and OUT are pipes. Lines that come from IN:
     walk FILE FILE       runs main in a child. At each allocation the child forks: the grandchild's allocation fails,
                          the child waits for its end and goes on. What the grandchild changed is put back: files that
                          are being written, offsets in them, answers of reading processes. Where the program forks a
                          reading process, a grandchild forks it instead for each allocation of that process. Where
                          another thread runs, a process cannot be copied, and `skip K` is told
     at|from K FILE FILE  runs main in a child whose allocation number K fails
     reader K FILE FILE   the same, but only in processes that the program forks
   FILE FILE receive what is printed. Lines that go to OUT:
     fine MODE K          exit code 5, a message, no file changed
     MODE K STATUS        another end of a grandchild (STATUS of wait), with MODE at, from, reader, or whole for a
                          reading process that came to its end; waits for a line, before which files are put back
     end STATUS           of the child
   QC_FAIL_RANGE=A-B    a walk tries only these numbers
   QC_FAIL_DAMAGE=F     a grandchild empties file F, to see that this is found

   A resize to no bytes is a release and is not counted. */
#define _GNU_SOURCE /* RTLD_NEXT, dladdr */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum kind { MEMORY, THREAD };
enum { MOST = 1 << 22 /* allocations in a report */, DEPTH = 10 /* frames in a hash */ };

static bool counting, for_good, ours;
static enum kind counted;
static uint64_t first, least, most = UINT64_MAX; /* least, most: of a walk */
static const char *by;
static const void *program;
static _Atomic(uint64_t) own_count, *count = &own_count;
static uint64_t *places; /* NULL without a report */
static int (*real_main)(int, char **, char **);

/* Calls what the next library in the line has under this name; C has no cast from an object pointer to a function. */
#define NEXT(name)                                                                                                     \
    static __typeof__(&name) next;                                                                                     \
    if (!next) {                                                                                                       \
        void *found = dlsym(RTLD_NEXT, #name);                                                                         \
        memcpy(&next, &found, sizeof next);                                                                            \
    }

static bool in_program(const void *code)
{
    Dl_info where;
    return dladdr(code, &where) && where.dli_fbase == program;
}

/* FNV-1a of the call stack but for its lowest bit, the program's own code called the program's malloc; 0 for what the
   unwinder asks for itself. */
static uint64_t place(void)
{
    static _Thread_local bool busy;
    void *frames[DEPTH];
    uint64_t hash = 14695981039346656037u;
    if (busy) return 0;
    busy = true;
    const int n = backtrace(frames, DEPTH);
    busy = false;
    int at = 0;
    while (at < n && !in_program(frames[at])) at++;
    const bool own = at + 1 < n && in_program(frames[at + 1]);
    for (int i = 0; i < n; i++) hash = (hash ^ (uint64_t)(uintptr_t)frames[i]) * 1099511628211u;
    return (hash & ~(uint64_t)1) | own;
}

/* A place for a debugger's breakpoint. */
__attribute__((noinline)) static bool happens(void)
{
    if (by && !strcmp(by, "exit")) exit(1);
    if (by) abort();
    return true;
}

/* ---- Many numbers in one run ---- */

enum { READERS = 64, LINE = 4096 };
enum role { NONE, WALKER, SNAPSHOT, READER };

static enum role role;
static bool serving, reader_fails;
static int threads, asks = -1, tells = -1;
static char out_file[LINE / 2], err_file[LINE / 2];
static atomic_bool *happened;  /* shared by all processes of a run: an allocation of a reading process has failed */
static uint64_t reader_number; /* of the allocation of a reading process that fails */
static pid_t own[READERS];
static unsigned own_count_of;

static void tell(const char *line)
{
    const ssize_t n = write(tells, line, strlen(line));
    if (n < 0) _exit(99);
}

/* Reads a line without its end; returns false at the end of the pipe. */
static bool hear(char line[LINE])
{
    size_t n = 0;
    while (n < LINE - 1 && read(asks, line + n, 1) == 1 && line[n] != '\n') n++;
    line[n] = '\0';
    return n > 0;
}

static void print_to(const char *out, const char *err)
{
    const int a = open(out, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0666),
              b = open(err, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0666);
    if (a < 0 || b < 0 || dup2(a, 1) < 0 || dup2(b, 2) < 0) _exit(98);
    close(a);
    close(b);
}

static pid_t real_fork(void)
{
    NEXT(fork)
    return next();
}

/* ---- Channels to reading processes (datasets/hdf5/reader_process.c), which the walker and its copies share ---- */

enum { CHANNELS = 8, HEAD = 24, PENDING = 1 << 16 };

/* Messages in one direction: a head, then as many bytes as it says. */
struct stream {
    unsigned char head[HEAD];
    unsigned have; /* of the head */
    uint64_t left; /* of the bytes behind it */
    uint64_t messages;
};

struct traffic {
    struct stream questions, answers;
};

/* What the walker and its copies have sent and received; shared by them. */
static struct traffic *traffic;

static struct channel {
    bool open;
    int fd, other;        /* this end, and that of the process */
    void *shared, *saved; /* memory that the reading process writes, and its content at the last answer */
    size_t size;
    uint64_t saved_at;              /* number of that answer, plus 1 */
    unsigned char pending[PENDING]; /* answer that was received ahead of the program */
    size_t first, end;
} channels[CHANNELS];
static unsigned channel_count;

static ssize_t real_recv(int fd, void *data, size_t size, int flags)
{
    NEXT(recv)
    return next(fd, data, size, flags);
}

static struct channel *channel_of(int fd)
{
    for (unsigned i = 0; i < channel_count; i++)
        if (channels[i].open && channels[i].fd == fd) return &channels[i];
    return NULL;
}

/* Counts the messages in bytes that were sent or received. */
static void count_messages(struct stream *s, const unsigned char *bytes, size_t size, bool answers)
{
    while (size) {
        if (!s->left) {
            s->head[s->have++] = *bytes++;
            size--;
            if (s->have < HEAD) continue;
            uint32_t shared;
            uint64_t length, message;
            memcpy(&shared, s->head + 4, sizeof shared);
            memcpy(&message, s->head + 8, sizeof message);
            memcpy(&length, s->head + 16, sizeof length);
            s->have = 0;
            s->left = answers ? message + (shared ? 0 : length) : message;
        } else {
            const size_t part = s->left < size ? s->left : size;
            s->left -= part;
            bytes += part;
            size -= part;
        }
        if (!s->left) s->messages++;
    }
}

/* Receives the answers to all questions that were asked; keep: the program gets them later. */
static void receive_answers(struct channel *c, struct traffic *t, bool keep)
{
    unsigned char part[4096];
    if (t->questions.left || t->questions.have) _exit(93);
    while (t->answers.messages < t->questions.messages) {
        const ssize_t n = real_recv(c->fd, part, sizeof part, 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return; /* the process has ended */
        count_messages(&t->answers, part, (size_t)n, true);
        if (!keep) continue;
        if (c->first == c->end) c->first = c->end = 0;
        if ((size_t)n > PENDING - c->end) _exit(92);
        memcpy(c->pending + c->end, part, (size_t)n);
        c->end += (size_t)n;
    }
}

/* Before a copy: no answer is under way. */
static void settle(void)
{
    for (unsigned i = 0; i < channel_count; i++) {
        struct channel *c = &channels[i];
        if (!c->open) continue;
        receive_answers(c, &traffic[i], true);
        if (!c->shared || c->saved_at == traffic[i].answers.messages + 1) continue;
        memcpy(c->saved, c->shared, c->size);
        c->saved_at = traffic[i].answers.messages + 1;
    }
}

/* After a copy: what it asked is answered and forgotten. renewed: the last channel had new ends in the copy. */
static void forget(const struct traffic before[CHANNELS], bool renewed)
{
    for (unsigned i = 0; i < channel_count; i++) {
        struct channel *c = &channels[i];
        if (!c->open || !memcmp(&before[i], &traffic[i], sizeof before[i])) continue;
        if (!renewed || i + 1 < channel_count) receive_answers(c, &traffic[i], false);
        if (c->shared) memcpy(c->shared, c->saved, c->size);
        traffic[i] = before[i];
    }
}

static int real_socketpair(int domain, int type, int protocol, int ends[2])
{
    NEXT(socketpair)
    return next(domain, type, protocol, ends);
}

/* In a copy: the last channel leads to a process of its own. */
static void renew_channel(void)
{
    const struct channel *c = &channels[channel_count - 1];
    int ends[2];
    if (!channel_count || real_socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) ||
        dup3(ends[0], c->fd, O_CLOEXEC) < 0 || dup3(ends[1], c->other, O_CLOEXEC) < 0)
        _exit(88);
    close(ends[0]);
    close(ends[1]);
}

int socketpair(int domain, int type, int protocol, int ends[2])
{
    const int error = real_socketpair(domain, type, protocol, ends);
    if (!error && role == WALKER) {
        if (channel_count == CHANNELS) _exit(91);
        channels[channel_count++] = (struct channel){.open = true, .fd = ends[0], .other = ends[1]};
    }
    return error;
}

void *mmap(void *at, size_t size, int protection, int flags, int fd, off_t offset)
{
    NEXT(mmap)
    void *p = next(at, size, protection, flags, fd, offset);
    struct channel *c = channel_count ? &channels[channel_count - 1] : NULL;
    if (role == WALKER && c && c->open && !c->shared && p != MAP_FAILED && flags == (MAP_SHARED | MAP_ANONYMOUS)) {
        c->saved = next(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (c->saved == MAP_FAILED) _exit(90);
        c->shared = p;
        c->size = size;
    }
    return p;
}

/* The program moves the ends of a channel above the standard descriptors. */
int fcntl(int fd, int command, ...)
{
    NEXT(fcntl)
    va_list arguments;
    va_start(arguments, command);
    const int result = next(fd, command, va_arg(arguments, void *));
    va_end(arguments);
    for (unsigned i = 0; role == WALKER && command == F_DUPFD_CLOEXEC && result >= 0 && i < channel_count; i++) {
        struct channel *c = &channels[i];
        if (c->open && (c->fd == fd || c->other == fd)) *(c->fd == fd ? &c->fd : &c->other) = result;
    }
    return result;
}

int close(int fd)
{
    NEXT(close)
    struct channel *c = channel_of(fd);
    if (c) c->open = false;
    return next(fd);
}

ssize_t send(int fd, const void *data, size_t size, int flags)
{
    NEXT(send)
    const ssize_t n = next(fd, data, size, flags);
    const struct channel *c = role == READER ? NULL : channel_of(fd);
    if (c && n > 0) count_messages(&traffic[c - channels].questions, data, (size_t)n, false);
    return n;
}

ssize_t recv(int fd, void *data, size_t size, int flags)
{
    struct channel *c = role == READER ? NULL : channel_of(fd);
    if (c && c->first < c->end) {
        const size_t n = size < c->end - c->first ? size : c->end - c->first;
        memcpy(data, c->pending + c->first, n);
        c->first += n;
        return (ssize_t)n;
    }
    const ssize_t n = real_recv(fd, data, size, flags);
    if (c && n > 0) count_messages(&traffic[c - channels].answers, data, (size_t)n, true);
    return n;
}

int poll(struct pollfd *p, nfds_t n, int timeout)
{
    NEXT(poll)
    const struct channel *c = n == 1 && role != READER ? channel_of(p->fd) : NULL;
    if (!c || c->first == c->end) return next(p, n, timeout);
    p->revents = POLLIN;
    return 1;
}

/* ---- Files of folders . and rep ---- */

enum { FILES = 64, SAVED = 8, OFFSETS = 64, DESCRIPTORS = 256, NAME = 256, ARENA = 16 << 20 };

struct entry {
    char path[NAME + 4];
    ino_t inode;
    uint64_t mark; /* changes with each change of the file */
};

struct entries {
    struct entry of[FILES];
    unsigned count;
};

static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) hash = (hash ^ ((const unsigned char *)bytes)[i]) * 1099511628211u;
    return hash;
}

static void list_folder(struct entries *e, const char *folder)
{
    static char listed[1 << 16];
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    long n;
    while (fd >= 0 && (n = syscall(SYS_getdents64, fd, listed, sizeof listed)) > 0)
        for (long at = 0; at < n;) {
            uint16_t size;
            struct stat s;
            const char *name = listed + at + 19;
            memcpy(&size, listed + at + 16, sizeof size);
            at += size;
            if (fstatat(fd, name, &s, AT_SYMLINK_NOFOLLOW) || S_ISDIR(s.st_mode)) continue;
            if (e->count == FILES) _exit(87);
            struct entry *to = &e->of[e->count++];
            snprintf(to->path, sizeof to->path, "%.3s/%.255s", folder, name);
            to->inode = s.st_ino;
            const uint64_t parts[] = {s.st_ino,
                                      (uint64_t)s.st_size,
                                      (uint64_t)s.st_mtim.tv_sec,
                                      (uint64_t)s.st_mtim.tv_nsec,
                                      (uint64_t)s.st_ctim.tv_sec,
                                      (uint64_t)s.st_ctim.tv_nsec};
            to->mark = hash_bytes(hash_bytes(14695981039346656037u, to->path, strlen(to->path)), parts, sizeof parts);
        }
    if (fd >= 0) close(fd);
}

static void list_files(struct entries *e)
{
    e->count = 0;
    list_folder(e, ".");
    list_folder(e, "rep");
}

static const struct entry *find_entry(const struct entries *e, const struct entry *like)
{
    for (unsigned i = 0; i < e->count; i++)
        if (e->of[i].mark == like->mark && !strcmp(e->of[i].path, like->path)) return &e->of[i];
    return NULL;
}

/* Files as they are before the job and after a copy; listed again after whoever puts them back. */
static struct entries clean;

static bool is_clean(void)
{
    static struct entries now;
    list_files(&now);
    for (unsigned i = 0; i < now.count; i++)
        if (!find_entry(&clean, &now.of[i])) return false;
    return now.count == clean.count;
}

/* What the job has written so far. */
static struct {
    struct {
        struct entry entry;
        char kept[32]; /* another name of the file, out of the copy's reach */
        size_t at, size;
    } of[SAVED];
    unsigned count;
    struct {
        int fd;
        off_t offset;
    } offsets[OFFSETS];
    unsigned offset_count;
} saved;
static unsigned char contents[ARENA];

/* Reads or writes all of a file. */
static bool transfer(unsigned char *bytes, size_t size, const char *path, bool writes)
{
    const int fd = open(path, (writes ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
    bool ok = fd >= 0;
    for (size_t n = 0; ok && n < size;) {
        const ssize_t k = writes ? write(fd, bytes + n, size - n) : read(fd, bytes + n, size - n);
        ok = k > 0;
        n += ok ? (size_t)k : 0;
    }
    ok = ok && (!writes || !ftruncate(fd, (off_t)size));
    if (fd >= 0) close(fd);
    return ok;
}

static void save_files(void)
{
    static struct entries now;
    struct stat s;
    size_t at = 0;
    list_files(&now);
    saved.count = saved.offset_count = 0;
    for (unsigned i = 0; i < now.count; i++) {
        if (find_entry(&clean, &now.of[i])) continue;
        if (saved.count == SAVED || stat(now.of[i].path, &s) || (size_t)s.st_size > ARENA - at) _exit(86);
        saved.of[saved.count].entry = now.of[i];
        saved.of[saved.count].at = at;
        saved.of[saved.count].size = (size_t)s.st_size;
        char *kept = saved.of[saved.count].kept;
        snprintf(kept, sizeof saved.of[0].kept, "../kept-%u", saved.count);
        unlink(kept);
        if (link(now.of[i].path, kept) || !transfer(contents + at, (size_t)s.st_size, kept, false)) _exit(85);
        at += (size_t)s.st_size;
        saved.count++;
    }
    for (int fd = 3; saved.count && fd < DESCRIPTORS; fd++)
        for (unsigned i = 0; i < saved.count; i++) {
            if (fstat(fd, &s) || s.st_ino != saved.of[i].entry.inode || !S_ISREG(s.st_mode)) continue;
            if (saved.offset_count == OFFSETS) _exit(84);
            saved.offsets[saved.offset_count].fd = fd;
            saved.offsets[saved.offset_count++].offset = lseek(fd, 0, SEEK_CUR);
        }
}

/* Each file gets back its content, under its name, and each descriptor its offset. */
static void put_back_files(void)
{
    for (unsigned i = 0; i < saved.count; i++) {
        unlink(saved.of[i].entry.path);
        if (!transfer(contents + saved.of[i].at, saved.of[i].size, saved.of[i].kept, true) ||
            rename(saved.of[i].kept, saved.of[i].entry.path))
            _exit(83);
    }
    for (unsigned i = 0; i < saved.offset_count; i++) lseek(saved.offsets[i].fd, saved.offsets[i].offset, SEEK_SET);
}

/* Whether the last line of what was complained is a message of the program. */
static bool has_message(void)
{
    static char text[1 << 14];
    const int fd = open(err_file, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    if (n <= 0 || n == sizeof text - 1 || text[n - 1] != '\n') return false;
    text[n - 1] = '\0';
    const char *last = strrchr(text, '\n');
    return !strncmp(last ? last + 1 : text, "qcalib: ", 8);
}

/* Returns true in the copy, whose allocation fails, or for mode `reader` that of the process it forks. */
static bool try_here(const char *mode, uint64_t number)
{
    char line[LINE];
    int status;
    struct traffic before[CHANNELS];
    const bool reads = *mode == 'r';
    settle();
    memcpy(before, traffic, sizeof before);
    save_files();
    *happened = false;
    const pid_t copy = real_fork();
    if (copy == 0) {
        const char *damaged = getenv("QC_FAIL_DAMAGE");
        role = SNAPSHOT;
        own_count_of = 0;
        first = number;
        for_good = *mode == 'f';
        reader_fails = reads;
        if (reads) renew_channel();
        if (damaged) close(open(damaged, O_WRONLY | O_TRUNC));
        print_to(out_file, err_file);
        return true;
    }
    if (copy < 0) _exit(97);
    while (waitpid(copy, &status, 0) < 0 && errno == EINTR) continue;
    forget(before, reads);
    if (reads && !*happened) mode = "whole";
    if (WIFEXITED(status) && WEXITSTATUS(status) == 5 && has_message() && is_clean()) {
        snprintf(line, sizeof line, "fine %s %" PRIu64 "\n", mode, number);
        tell(line);
    } else {
        snprintf(line, sizeof line, "%s %" PRIu64 " %d\n", mode, number, status);
        tell(line);
        if (!hear(line)) _exit(96);
        list_files(&clean);
    }
    put_back_files();
    return false;
}

static bool fails_here(uint64_t number)
{
    char line[64];
    if (number < least || number > most) return false;
    if (!threads) return try_here("at", number) || try_here("from", number);
    snprintf(line, sizeof line, "skip %" PRIu64 "\n", number);
    tell(line);
    return false;
}

/* Before the program forks a reading process. Returns true in a copy, where an allocation of the process will fail. */
static bool fails_in_reader(void)
{
    const uint64_t here = atomic_load(count);
    if (here < least || here > most) return false;
    do {
        if (try_here("reader", atomic_load(count) + ++reader_number)) return true;
    } while (*happened);
    reader_number = 0;
    return false;
}

static bool mine(pid_t pid)
{
    for (unsigned i = 0; i < own_count_of; i++)
        if (own[i] == pid) return true;
    return false;
}

/* A reading process of the walker serves its copies too. They may not end it. */
int kill(pid_t pid, int signal_number)
{
    NEXT(kill)
    return role == SNAPSHOT && pid != getpid() && !mine(pid) ? 0 : next(pid, signal_number);
}

pid_t waitpid(pid_t pid, int *status, int flags)
{
    NEXT(waitpid)
    if (role != SNAPSHOT || mine(pid)) return next(pid, status, flags);
    if (status) *status = SIGKILL;
    return pid;
}

int madvise(void *p, size_t size, int advice)
{
    NEXT(madvise)
    return role == WALKER && advice == MADV_DONTFORK ? 0 : next(p, size, advice);
}

pid_t fork(void)
{
    if (serving && role == WALKER) {
        counting = false;
        fails_in_reader();
        counting = true;
    }
    const pid_t pid = real_fork();
    if (pid > 0 && own_count_of < READERS) own[own_count_of++] = pid;
    if (pid == 0 && serving) role = READER;
    return pid;
}

int pthread_join(pthread_t t, void **result)
{
    NEXT(pthread_join)
    const int error = next(t, result);
    if (!error) threads--;
    return error;
}

/* Runs main, and answers for the process. */
static int run_child(const char *mode, uint64_t number, int argc, char **argv, char **environment)
{
    role = *mode == 'w' ? WALKER : NONE;
    reader_fails = *mode == 'r';
    for_good = *mode == 'f';
    first = number;
    list_files(&clean);
    counting = true;
    return real_main(argc, argv, environment);
}

static int serve(int argc, char **argv, char **environment)
{
    char line[LINE], mode[16], a[LINE / 2], b[LINE / 2];
    struct shared {
        struct traffic traffic[CHANNELS];
        atomic_bool happened;
    } *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return 95;
    traffic = shared->traffic;
    happened = &shared->happened;
    serving = true;
    while (hear(line)) {
        uint64_t number = 0;
        int status;
        if (sscanf(line, "walk %2047s %2047s", out_file, err_file) == 2) {
            snprintf(a, sizeof a, "%.2000s.walk", out_file);
            snprintf(b, sizeof b, "%.2000s.walk", err_file);
            strcpy(mode, "walk");
        } else if (sscanf(line, "%15s %" SCNu64 " %2047s %2047s", mode, &number, a, b) != 4) {
            return 94;
        }
        memset(traffic, 0, CHANNELS * sizeof *traffic);
        const pid_t child = real_fork();
        if (child == 0) {
            print_to(a, b);
            return run_child(mode, number, argc, argv, environment); /* libc ends it, as any main */
        }
        while (waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
        snprintf(line, sizeof line, "end %d\n", status);
        tell(line);
    }
    return 0;
}

static bool refused(enum kind kind, const void *caller)
{
    if (!counting || kind != counted) return false;
    if (ours && !in_program(caller)) return false;
    const uint64_t number = atomic_fetch_add(count, 1) + 1;
    if (places && number < MOST) places[number] = place();
    if (role == WALKER) {
        counting = false;
        const bool fails = fails_here(number);
        counting = true;
        if (!fails) return false;
    }
    if (reader_fails && role != READER) return false;
    if (!first || (for_good ? number < first : number != first)) return false;
    if (reader_fails) *happened = true;
    return happens();
}

#define REFUSED(kind) refused(kind, __builtin_return_address(0))

static void *no_memory(void)
{
    errno = ENOMEM;
    return NULL;
}

void *malloc(size_t size)
{
    NEXT(malloc)
    return REFUSED(MEMORY) ? no_memory() : next(size);
}

void *calloc(size_t n, size_t size)
{
    NEXT(calloc)
    return REFUSED(MEMORY) ? no_memory() : next(n, size);
}

void *realloc(void *p, size_t size)
{
    NEXT(realloc)
    return size && REFUSED(MEMORY) ? no_memory() : next(p, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    NEXT(aligned_alloc)
    return REFUSED(MEMORY) ? no_memory() : next(alignment, size);
}

void *memalign(size_t alignment, size_t size)
{
    NEXT(memalign)
    return REFUSED(MEMORY) ? no_memory() : next(alignment, size);
}

int posix_memalign(void **p, size_t alignment, size_t size)
{
    NEXT(posix_memalign)
    return REFUSED(MEMORY) ? ENOMEM : next(p, alignment, size);
}

int pthread_create(pthread_t *t, const pthread_attr_t *attributes, void *(*start)(void *), void *user)
{
    NEXT(pthread_create)
    if (REFUSED(THREAD)) return EAGAIN;
    const int error = next(t, attributes, start, user);
    if (!error) threads++;
    return error;
}

static uint64_t number_of(const char *name)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 10) : 0;
}

static int counted_main(int argc, char **argv, char **environment)
{
    const char *kind = getenv("QC_FAIL_KIND"), *report = getenv("QC_FAIL_REPORT"), *walk = getenv("QC_FAIL_WALK");
    Dl_info where;
    void *address;
    memcpy(&address, &real_main, sizeof address);
    program = dladdr(address, &where) ? where.dli_fbase : NULL;
    ours = getenv("QC_FAIL_OURS") != NULL;
    counted = kind && !strcmp(kind, "thread") ? THREAD : MEMORY;
    by = getenv("QC_FAIL_BY");
    const char *range = getenv("QC_FAIL_RANGE");
    if (range) sscanf(range, "%" SCNu64 "-%" SCNu64, &least, &most);
    for_good = getenv("QC_FAIL_FROM") != NULL;
    first = number_of(for_good ? "QC_FAIL_FROM" : "QC_FAIL_AT");
    const int file = report ? open(report, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666) : -1;
    if (file >= 0 && !ftruncate(file, MOST * sizeof *places)) {
        void *shared = mmap(NULL, MOST * sizeof *places, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (shared != MAP_FAILED) count = shared, places = shared;
    }
    if (file >= 0) close(file);
    if (walk && sscanf(walk, "%d,%d", &asks, &tells) == 2) return serve(argc, argv, environment);
    counting = true;
    return real_main(argc, argv, environment);
}

int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*rtld_fini)(void), void *stack_end);

int __libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*rtld_fini)(void), void *stack_end)
{
    NEXT(__libc_start_main)
    real_main = main;
    return next(counted_main, argc, argv, init, fini, rtld_fini, stack_end);
}
