// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE /* SEEK_DATA */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/checked.h"
#include "base/scope.h"
#include "base/sha256.h"

/* A file descriptor that is closed at the end of its scope; -1: none. */
#define CLOSED __attribute__((cleanup(leave_fd), unused)) int
static void leave_fd(const int *fd)
{
    if (*fd >= 0) close(*fd);
}

enum { LIVE = 64, BUFFER = 1 << 16 };

/* The one mutable global of the library: a signal handler must find the temporary files. The thread that exchanges a
   path for NULL owns the path. */
static _Atomic(char *) live[LIVE];

struct qc_output {
    FILE *f;
    char *path;            /* the target, links resolved */
    char *tmp;             /* the file that is written; == path for a device, NULL once committed */
    _Atomic(char *) *slot; /* where tmp is entered; NULL for a device and once committed */
};

enum qc_code qc_code_of_errno(int error)
{
    return error == ENOENT || error == ENOTDIR || error == EISDIR || error == ELOOP || error == ENAMETOOLONG
               ? QC_BAD_INPUT
               : QC_MACHINE;
}

bool qc_file_open(int *fd, uint64_t *size, const char *path, struct qc_status *st)
{
    struct stat info;
    /* O_NONBLOCK: opening a pipe without a writer must not hang. */
    int f = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (f < 0) return qc_fail(st, qc_code_of_errno(errno), "cannot read %s: %s", path, strerror(errno));
    if (fstat(f, &info)) {
        qc_fail(st, QC_MACHINE, "cannot read %s: %s", path, strerror(errno));
    } else if (S_ISDIR(info.st_mode)) {
        qc_fail(st, QC_BAD_INPUT, "cannot read %s: it is a folder; give a file", path);
    } else if (!S_ISREG(info.st_mode)) {
        qc_fail(st, QC_BAD_INPUT, "cannot read %s: it is a pipe or device; give a regular file", path);
    } else {
        *fd = f;
        *size = (uint64_t)info.st_size;
        return true;
    }
    close(f);
    return false;
}

/* Reads until the buffer is full or the file ends; -1 on an error. */
static ssize_t read_full(int fd, char *p, size_t size)
{
    size_t n = 0;
    while (n < size) {
        ssize_t k = read(fd, p + n, size - n < 1 << 30 ? size - n : 1 << 30);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return -1;
        if (k == 0) break;
        n += (size_t)k;
    }
    return (ssize_t)n;
}

bool qc_file_read(void **data, size_t *size, const char *path, struct qc_arena *a, struct qc_status *st)
{
    CLOSED fd = -1;
    uint64_t bytes;
    size_t want;
    if (!qc_file_open(&fd, &bytes, path, st)) return false;
    if (bytes > SIZE_MAX || !qc_add_size(&want, (size_t)bytes, 1))
        return qc_fail(st, QC_MACHINE, "%s is larger than the memory of a process", path);
    char *p = qc_arena_get(a, want, 1, st);
    if (!p) return qc_where(st, "%s", path);
    const ssize_t n = read_full(fd, p, want - 1);
    if (n < 0) return qc_fail(st, QC_MACHINE, "cannot read %s: %s", path, strerror(errno));
    *data = p;
    *size = (size_t)n;
    return true;
}

bool qc_file_map(struct qc_file_map **out, size_t *size, const char *path, struct qc_status *st)
{
    CLOSED fd = -1;
    uint64_t bytes;
    if (!qc_file_open(&fd, &bytes, path, st)) return false;
    *size = bytes > SIZE_MAX ? SIZE_MAX : (size_t)bytes;
    return qc_file_map_new(out, fd, *size, st) || qc_where(st, "%s", path);
}

static char *join_file(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    char *s = malloc(n + m + 1);
    if (!s) return NULL;
    memcpy(s, a, n);
    memcpy(s + n, b, m + 1);
    return s;
}

/* Returns the file that the rename replaces. Links are followed, so that a link stays a link. Fails for a pipe, such as
   /dev/stdout before another program: a file is whole or absent, and libraries write at any place of it. */
static char *resolve(const char *path, struct qc_status *st)
{
    struct stat info;
    char *real = NULL;
    if (stat(path, &info) == 0 && (S_ISFIFO(info.st_mode) || S_ISSOCK(info.st_mode))) {
        qc_fail(st, QC_MACHINE, "cannot write %s: it is a pipe; give the name of a file", path);
        return NULL;
    }
    if (lstat(path, &info) == 0 && S_ISLNK(info.st_mode)) {
        real = realpath(path, NULL);
        if (!real) qc_fail(st, QC_MACHINE, "cannot write %s: its link leads nowhere (%s)", path, strerror(errno));
        return real;
    }
    real = strdup(path);
    if (!real) qc_fail_memory(st, strlen(path) + 1);
    return real;
}

static bool cannot_write(const char *path, int error, struct qc_status *st)
{
    const char *hint = error == ENOENT                      ? "; create its folder first, or name another"
                       : error == EACCES || error == EPERM  ? "; name a folder that you may write to"
                       : error == EROFS || error == ENOTDIR ? "; name another folder"
                       : error == ENOSPC || error == EDQUOT ? "; free some space or name another folder"
                       : error == EFBIG                     ? "; raise the limit on the size of files (ulimit -f)"
                                                            : "";
    return qc_fail(st, QC_MACHINE, "cannot write %s: %s%s", path, strerror(error), hint);
}

static _Atomic(char *) *enter(char *tmp)
{
    for (size_t i = 0; i < LIVE; i++) {
        char *none = NULL;
        if (atomic_compare_exchange_strong(&live[i], &none, tmp)) return &live[i];
    }
    return NULL;
}

/* Removes a name from its slot. It is freed unless qc_output_remove_all took it and may still read it. */
static void leave(_Atomic(char *) *slot, char *tmp)
{
    if (atomic_exchange(slot, NULL)) free(tmp);
}

/* Opens a new file beside o->path. Its name is registered before the file exists, so that a signal cannot leave it
   behind. */
static int create(struct qc_output *o, const struct stat *earlier, struct qc_status *st)
{
    char suffix[64];
    int error = EEXIST;
    for (unsigned i = 0; i < 100 && error == EEXIST; i++) {
        if (i == 0) {
            qc_text(suffix, sizeof suffix, ".tmp-%ld", (long)getpid());
        } else {
            qc_text(suffix, sizeof suffix, ".tmp-%ld-%u", (long)getpid(), i);
        }
        char *tmp = join_file(o->path, suffix);
        if (!tmp) {
            qc_fail_memory(st, strlen(o->path) + sizeof suffix);
            return -1;
        }
        _Atomic(char *) *slot = enter(tmp);
        if (!slot) {
            free(tmp);
            qc_fail(st, QC_MACHINE, "cannot write %s: %d files are being written already", o->path, LIVE);
            return -1;
        }
        int fd = open(tmp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0) {
            o->tmp = tmp;
            o->slot = slot;
            if (earlier && fchmod(fd, earlier->st_mode & 0777)) errno = 0; /* a file system without modes */
            return fd;
        }
        error = errno;
        leave(slot, tmp);
    }
    cannot_write(o->path, error, st);
    return -1;
}

bool qc_output_open(struct qc_output **out, const char *path, struct qc_status *st)
{
    struct qc_output *o = calloc(1, sizeof *o);
    if (!o) return qc_fail_memory(st, sizeof *o);
    int fd = -1;
    struct stat info;
    o->path = resolve(path, st);
    if (!o->path) goto fail;
    bool exists = stat(o->path, &info) == 0;
    if (*path == '\0' || path[strlen(path) - 1] == '/' || (exists && S_ISDIR(info.st_mode))) {
        qc_fail(st, QC_MACHINE, "cannot write '%s': it is a folder; give the name of a file", path);
        goto fail;
    }
    if (exists && !S_ISREG(info.st_mode)) {
        o->tmp = o->path;
        fd = open(o->path, O_WRONLY | O_CLOEXEC);
        if (fd < 0) cannot_write(path, errno, st);
    } else {
        fd = create(o, exists ? &info : NULL, st);
    }
    if (fd < 0) goto fail;
    o->f = fdopen(fd, "wb");
    if (!o->f) {
        qc_fail_memory(st, BUFSIZ);
        goto fail;
    }
    *out = o;
    return true;
fail:
    if (fd >= 0) close(fd);
    qc_output_free(o);
    return false;
}

const char *qc_output_path(const struct qc_output *o)
{
    return o->tmp;
}

bool qc_output_write(struct qc_output *o, const void *data, size_t size, struct qc_status *st)
{
    if (size == 0 || fwrite(data, 1, size, o->f) == size) return true;
    return cannot_write(o->path, errno, st);
}

/* Opens the folder of a path. Returns a negative number if that fails. */
static int open_folder(const char *path)
{
    QC_FREED char *folder = strdup(path);
    if (!folder) return -1;
    char *slash = strrchr(folder, '/');
    if (slash) slash[slash == folder] = '\0';
    return open(slash ? folder : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* Syncs the folder of a path: only then is the new entry durable. Errors are ignored: not every file system can do
   that. */
static void sync_folder(const char *path)
{
    CLOSED fd = open_folder(path);
    if (fd >= 0) (void)fsync(fd);
}

bool qc_output_settle(struct qc_output *o, struct qc_status *st)
{
    FILE *f = o->f;
    if (!f) return true;
    o->f = NULL;
    int error = 0;
    if (fflush(f) || (o->slot && fsync(fileno(f)) && errno != EINVAL)) error = errno;
    if (fclose(f) && !error) error = errno;
    return error ? cannot_write(o->path, error, st) : true;
}

bool qc_output_commit(struct qc_output *o, struct qc_status *st)
{
    if (!qc_output_settle(o, st)) return false;
    if (!o->slot) return true;
    if (rename(o->tmp, o->path)) return cannot_write(o->path, errno, st);
    leave(o->slot, o->tmp);
    o->slot = NULL;
    o->tmp = NULL;
    sync_folder(o->path);
    return true;
}

bool qc_output_commit_pair(struct qc_output *part, struct qc_output *whole, struct qc_status *st)
{
    if (!qc_output_settle(part, st) || !qc_output_settle(whole, st)) return false;
    /* Waits until no other job commits a pair in the folder, or for 10 s, for not every file system has locks. */
    CLOSED folder = open_folder(whole->path);
    const struct timespec while_locked = {.tv_nsec = 10000000};
    for (unsigned i = 0; folder >= 0 && i < 1000 && flock(folder, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK; i++)
        nanosleep(&while_locked, NULL);
    if (!whole->slot || !part->slot || access(part->path, F_OK) != 0)
        return qc_output_commit(part, st) && qc_output_commit(whole, st);
    QC_FREED char *aside = join_file(whole->tmp, "-earlier");
    if (!aside) return qc_fail_memory(st, strlen(whole->tmp));
    const bool held = rename(whole->path, aside) == 0;
    if (!held && errno != ENOENT) return cannot_write(whole->path, errno, st);
    const bool first = qc_output_commit(part, st), ok = first && qc_output_commit(whole, st);
    if (held && first) unlink(aside); /* its part is gone */
    if (held && !first && rename(aside, whole->path)) qc_where(st, "the earlier file is now %s", aside);
    return ok;
}

void qc_output_free(struct qc_output *o)
{
    if (!o) return;
    if (o->f) fclose(o->f);
    if (o->slot) {
        unlink(o->tmp);
        leave(o->slot, o->tmp);
    }
    free(o->path);
    free(o);
}

void qc_output_remove_all(void)
{
    int saved = errno;
    for (size_t i = 0; i < LIVE; i++) {
        const char *path = atomic_exchange(&live[i], NULL);
        if (path) unlink(path);
    }
    errno = saved;
}

bool qc_path_is_below(const char *path, const char *folder)
{
    QC_FREED char *file = realpath(path, NULL);
    const bool missing = !file && errno != ENOMEM;
    QC_FREED char *top = realpath(folder, NULL);
    const size_t n = top ? strlen(top) : 0;
    return file ? top && strncmp(file, top, n) == 0 && (n == 1 || file[n] == '/' || !file[n]) : missing;
}

bool qc_output_check(const char *path, struct qc_status *st)
{
    struct qc_output *o;
    if (!qc_output_open(&o, path, st)) return false;
    qc_output_free(o);
    return true;
}

bool qc_file_write(const char *path, const void *data, size_t size, struct qc_status *st)
{
    struct qc_output *o = NULL;
    const bool ok = qc_output_open(&o, path, st) && qc_output_write(o, data, size, st) && qc_output_commit(o, st);
    qc_output_free(o);
    return ok;
}

bool qc_make_folder(const char *path, struct qc_status *st)
{
    QC_FREED char *p = strdup(path);
    if (!p) return qc_fail_memory(st, strlen(path) + 1);
    bool ok = *p != '\0' || qc_fail(st, QC_MACHINE, "cannot make a folder without a name");
    for (size_t i = 1; ok; i++) {
        if (p[i] != '/' && p[i] != '\0') continue;
        char c = p[i];
        p[i] = '\0';
        struct stat info;
        if (mkdir(p, 0777)) {
            int error = errno;
            bool there = stat(p, &info) == 0;
            if (there && !S_ISDIR(info.st_mode)) {
                ok = qc_fail(st, QC_MACHINE, "cannot make folder %s: %s is a file; name another folder", path, p);
            } else if (!there) {
                ok = qc_fail(st, QC_MACHINE, "cannot make folder %s: %s", path, strerror(error));
            }
        } else {
            sync_folder(p);
        }
        p[i] = c;
        if (c == '\0') break;
    }
    return ok;
}

bool qc_sha256_file(char hex[65], const char *path, struct qc_status *st)
{
    CLOSED fd = -1;
    uint64_t size;
    if (!qc_file_open(&fd, &size, path, st)) return false;
    QC_FREED char *buf = malloc(BUFFER);
    if (!buf) return qc_fail_memory(st, BUFFER);
    struct qc_sha256_sum sum;
    ssize_t n;
    qc_sha256_begin(&sum);
    while ((n = read_full(fd, buf, BUFFER)) > 0) qc_sha256_add(&sum, buf, (size_t)n);
    qc_sha256_end(hex, &sum);
    return n == 0 || qc_fail(st, QC_MACHINE, "cannot read %s: %s", path, strerror(errno));
}

/* FREE_BYTES: smaller files read quickly even if all is holes. TIMES: the highest ratio of size to stored bytes;
   deflate reaches about 1030 on a constant. */
enum { BLOCK = 512, PIECES = 4096, FREE_BYTES = 1 << 30, TIMES = 1100 };

/* Sums the data extents. blocks: the bytes that the file occupies on disk, which may be fewer if the file system
   compresses. */
static uint64_t count_pieces(int fd, uint64_t size, uint64_t blocks)
{
    uint64_t sum = 0;
    off_t at = 0;
    for (unsigned i = 0; i < PIECES; i++) {
        const off_t data = lseek(fd, at, SEEK_DATA);
        if (data < 0) return errno == ENXIO ? sum : size;
        if ((at = lseek(fd, data, SEEK_HOLE)) < 0) return size;
        sum += (uint64_t)(at - data);
        if ((uint64_t)at >= size) return sum;
    }
    return sum > blocks ? sum : blocks;
}

uint64_t qc_stored_bytes(int fd)
{
    struct stat info;
    if (fstat(fd, &info) || info.st_size < 0) return UINT64_MAX;
    const uint64_t size = (uint64_t)info.st_size, blocks = (uint64_t)info.st_blocks * BLOCK;
    if (blocks >= size) return size;
    const uint64_t stored = count_pieces(fd, size, blocks);
    lseek(fd, 0, SEEK_SET);
    return stored < size ? stored : size;
}

bool qc_check_holes(int fd, struct qc_status *st)
{
    struct stat info;
    if (fstat(fd, &info) || info.st_size <= FREE_BYTES) return true;
    const uint64_t size = (uint64_t)info.st_size, stored = qc_stored_bytes(fd);
    return (size - FREE_BYTES) / TIMES <= stored ||
           qc_fail(st, QC_BAD_INPUT,
                   "its size is %" PRIu64 " bytes, but the disk stores %" PRIu64 " of them; copy it again", size,
                   stored);
}

struct qc_file_state qc_file_state(const char *path)
{
    struct stat info;
    if (stat(path, &info) || !S_ISREG(info.st_mode)) return (struct qc_file_state){.known = false};
    return (struct qc_file_state){.known = true,
                                  .device = (uint64_t)info.st_dev,
                                  .inode = (uint64_t)info.st_ino,
                                  .size = (uint64_t)info.st_size,
                                  .seconds = (int64_t)info.st_mtim.tv_sec,
                                  .nanoseconds = (int64_t)info.st_mtim.tv_nsec};
}

bool qc_file_has_changed(const struct qc_file_state *before, const char *path)
{
    const struct qc_file_state now = qc_file_state(path);
    return before->known && now.known &&
           (now.device != before->device || now.inode != before->inode || now.size != before->size ||
            now.seconds != before->seconds || now.nanoseconds != before->nanoseconds);
}

/* Identity of a file: its own inode, or the inode of the folder in which `name` will be created. */
struct place {
    bool known;
    dev_t device;
    ino_t inode;
    const char *name; /* NULL: the file exists */
};

static struct place place_of_file(const char *path)
{
    struct stat info;
    char folder[4096] = ".";
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    if (stat(path, &info) == 0)
        return (struct place){.known = S_ISREG(info.st_mode) || S_ISDIR(info.st_mode),
                              .device = info.st_dev,
                              .inode = info.st_ino};
    const size_t length = slash ? (size_t)(name - path) : 0;
    if (length >= sizeof folder) return (struct place){.known = false};
    if (length) {
        memcpy(folder, path, length);
        folder[length] = '\0';
    }
    if (stat(folder, &info)) return (struct place){.known = false}; /* the open for writing reports it */
    return (struct place){.known = true, .device = info.st_dev, .inode = info.st_ino, .name = name};
}

static bool same(const struct place *a, const struct place *b)
{
    if (!a->known || !b->known || a->device != b->device || a->inode != b->inode) return false;
    return a->name && b->name ? strcmp(a->name, b->name) == 0 : !a->name && !b->name;
}

bool qc_same_file(const char *a, const char *b)
{
    const struct place first = place_of_file(a), second = place_of_file(b);
    return same(&first, &second);
}

bool qc_files_apart(const struct qc_named_file *outputs, size_t output_count, const struct qc_named_file *inputs,
                    size_t input_count, struct qc_status *st)
{
    for (size_t i = 0; i < output_count; i++) {
        const struct qc_named_file *o = &outputs[i];
        const struct place place = place_of_file(o->path);
        for (size_t k = 0; !place.name && k < input_count; k++) { /* a missing file cannot be an input */
            const struct place input = place_of_file(inputs[k].path);
            if (same(&place, &input))
                return qc_fail(st, QC_USAGE, "%s '%s' would overwrite %s '%s'; name another file", o->what, o->path,
                               inputs[k].what, inputs[k].path);
        }
        for (size_t k = 0; k < i; k++) {
            const struct place other = place_of_file(outputs[k].path);
            if (same(&place, &other))
                return qc_fail(st, QC_USAGE, "%s '%s' and %s '%s' are the same file; name another for one of them",
                               outputs[k].what, outputs[k].path, o->what, o->path);
        }
    }
    return true;
}
