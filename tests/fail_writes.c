// SPDX-License-Identifier: Apache-2.0
/* Runs a command and makes one of its changes to the file system fail, or ends the command there.

   fail_writes HOW=K[,term=J] REPORT COMMAND...

   HOW is one of
     at     change K fails (ENOSPC; EIO for sync, rename and close) and no other; K = 0 fails none
     from   change K and all later ones fail, except removals
     kill   the command receives SIGKILL in place of change K

   With term, the command receives SIGTERM before change J.

   Changes are counted from 1, over all threads and processes of the command. They are the system calls that open a
   regular file for writing, write, resize, sync, close, rename or remove it, or create or remove a folder. REPORT
   receives a line for each: its kind and its path, two paths for rename. Removals never fail.

   The kernel asks this program about each call (seccomp user notification), so calls inside the C library count too.
   The exit code is that of the command, 128 + N after signal N, or 77 if the kernel has no such notifications. */
#define _GNU_SOURCE /* process_vm_readv */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NO_NOTIFICATIONS = 77, TROUBLE = 70, PATH = 1024 };
enum kind { OPEN, WRITE, RESIZE, SYNC, CLOSE, RENAME, REMOVE, FOLDER, KINDS };
static const char *const names[KINDS] = {"open", "write", "resize", "sync", "close", "rename", "remove", "folder"};

/* first: the argument that is the descriptor or the path; for OPEN the flags follow it */
static const struct call {
    int number;
    enum kind kind;
    unsigned first;
} calls[] = {
    {SYS_openat, OPEN, 1},      {SYS_write, WRITE, 0},      {SYS_pwrite64, WRITE, 0},  {SYS_writev, WRITE, 0},
    {SYS_ftruncate, RESIZE, 0}, {SYS_fallocate, RESIZE, 0}, {SYS_fsync, SYNC, 0},      {SYS_fdatasync, SYNC, 0},
    {SYS_close, CLOSE, 0},      {SYS_renameat2, RENAME, 1}, {SYS_unlinkat, REMOVE, 1}, {SYS_mkdirat, FOLDER, 1},
#ifdef SYS_renameat
    {SYS_renameat, RENAME, 1},
#endif
#ifdef SYS_open
    {SYS_open, OPEN, 0},        {SYS_rename, RENAME, 0},    {SYS_unlink, REMOVE, 0},   {SYS_rmdir, REMOVE, 0},
    {SYS_mkdir, FOLDER, 0},
#endif
};
enum { CALLS = sizeof calls / sizeof *calls };

static int install_filter(void)
{
    struct sock_filter f[2 * CALLS + 2];
    unsigned short n = 0;
    f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < CALLS; i++) {
        f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)calls[i].number, 0, 1);
        f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF);
    }
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {.len = n, .filter = f};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -1;
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

/* The parent needs the descriptor that the filter returns to the child. */
union passed {
    struct cmsghdr head;
    char room[CMSG_SPACE(sizeof(int))];
};

static bool send_fd(int socket, int fd)
{
    union passed p;
    char byte = 0;
    memset(&p, 0, sizeof p);
    p.head = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof fd), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(&p.head), &fd, sizeof fd);
    struct iovec part = {&byte, 1};
    const struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &p, .msg_controllen = sizeof p.room};
    return sendmsg(socket, &m, 0) == 1;
}

static int receive_fd(int socket)
{
    union passed p;
    char byte;
    int fd = -1;
    struct iovec part = {&byte, 1};
    struct msghdr m = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = &p, .msg_controllen = sizeof p.room};
    if (recvmsg(socket, &m, MSG_CMSG_CLOEXEC) == 1 && m.msg_controllen) memcpy(&fd, CMSG_DATA(&p.head), sizeof fd);
    return fd;
}

static bool read_text(char to[PATH], unsigned process, uint64_t address)
{
    /* A read that crosses into an unmapped page gives what lies before it. */
    const struct iovec here = {to, PATH - 1}, there = {(void *)(uintptr_t)address, PATH - 1};
    const ssize_t n = process_vm_readv((pid_t)process, &here, 1, &there, 1, 0);
    to[n < 0 ? 0 : n] = '\0';
    return n > 0;
}

/* Whether the descriptor is a regular file that is open for writing, or, for sync, a folder. */
static bool is_ours(char path[PATH], const struct call *c, unsigned process, int fd)
{
    char link[64], line[128];
    struct stat info;
    unsigned flags = 0;
    snprintf(link, sizeof link, "/proc/%u/fd/%d", process, fd);
    const ssize_t n = readlink(link, path, PATH - 1);
    if (n < 0 || stat(link, &info)) return false;
    path[n] = '\0';
    if (c->kind == SYNC && S_ISDIR(info.st_mode)) return true;
    if (!S_ISREG(info.st_mode)) return false;
    snprintf(link, sizeof link, "/proc/%u/fdinfo/%d", process, fd);
    FILE *f = fopen(link, "re");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "flags: %o", &flags) == 1) break;
    if (f) fclose(f);
    return (flags & O_ACCMODE) != O_RDONLY;
}

static bool is_device(const char *path)
{
    return strncmp(path, "/dev/", 5) == 0 || strncmp(path, "/proc/", 6) == 0;
}

/* Whether the call is a change that counts; writes its line of the report. */
static bool counts(char line[3 * PATH], const struct call *c, const struct seccomp_notif *asked)
{
    char path[PATH] = "", target[PATH] = "";
    const __u64 *arguments = &asked->data.args[c->first];
    if (c->kind == WRITE || c->kind == RESIZE || c->kind == SYNC || c->kind == CLOSE) {
        if (!is_ours(path, c, asked->pid, (int)arguments[0])) return false;
    } else {
        if (c->kind == OPEN && (arguments[1] & O_ACCMODE) == O_RDONLY) return false;
        if (!read_text(path, asked->pid, arguments[0]) || is_device(path)) return false;
        if (c->kind == RENAME && !read_text(target, asked->pid, arguments[c->first + 1])) return false;
    }
    snprintf(line, 3 * PATH, "%s\t%s\t%s\n", names[c->kind], path, target);
    return true;
}

enum how { AT, FROM, KILL };

struct task {
    enum how how;
    unsigned long k, term, count;
    pid_t child;
    FILE *report;
};

static int error_of(enum kind k)
{
    return k == SYNC || k == RENAME || k == CLOSE ? EIO : ENOSPC;
}

/* Returns false if the caller was killed and must not go on with its call. */
static bool decide(struct seccomp_notif_resp *answer, struct task *t, const struct seccomp_notif *asked)
{
    char line[3 * PATH];
    const struct call *c = calls;
    while (c->number != asked->data.nr) c++;
    answer->flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
    if (!counts(line, c, asked)) return true;
    fputs(line, t->report);
    const bool here = ++t->count == t->k;
    if (t->count == t->term) kill(t->child, SIGTERM);
    if (here && t->how == KILL) {
        kill(t->child, SIGKILL);
        kill((pid_t)asked->pid, SIGKILL);
        return false;
    }
    if (c->kind == REMOVE || !t->k) return true;
    if ((here && t->how == AT) || (t->count >= t->k && t->how == FROM)) {
        answer->flags = 0;
        answer->error = -error_of(c->kind);
    }
    return true;
}

/* Answers until no process of the command is left. */
static bool supervise(struct task *t, int listener)
{
    for (;;) {
        struct pollfd p = {.fd = listener, .events = POLLIN};
        struct seccomp_notif asked;
        struct seccomp_notif_resp answer;
        if (poll(&p, 1, -1) < 0) return errno == EINTR;
        if (!(p.revents & POLLIN)) return true;
        memset(&asked, 0, sizeof asked);
        memset(&answer, 0, sizeof answer);
        if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &asked)) {
            if (errno == ENOENT || errno == EINTR) continue; /* the process has ended */
            return false;
        }
        answer.id = asked.id;
        if (decide(&answer, t, &asked) && ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &answer) && errno != ENOENT)
            return false;
    }
}

static int run_child(int socket, char **command)
{
    const int listener = install_filter();
    if (listener < 0) return NO_NOTIFICATIONS;
    if (!send_fd(socket, listener)) return TROUBLE;
    execv(*command, command);
    return TROUBLE;
}

static bool read_task(struct task *t, const char *text)
{
    static const char *const hows[] = {"at=", "from=", "kill="};
    char *end = NULL;
    for (unsigned i = 0; i < 3 && !end; i++) {
        const size_t n = strlen(hows[i]);
        if (strncmp(text, hows[i], n) != 0) continue;
        t->how = (enum how)i;
        t->k = strtoul(text + n, &end, 10);
    }
    if (end && strncmp(end, ",term=", 6) == 0) t->term = strtoul(end + 6, &end, 10);
    return end && !*end;
}

int main(int argc, char **argv)
{
    struct task t = {.count = 0};
    int pair[2], status;
    if (argc < 4 || !read_task(&t, argv[1]) || !(t.report = fopen(argv[2], "we"))) return TROUBLE;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) return TROUBLE;
    t.child = fork();
    if (t.child < 0) return TROUBLE;
    if (t.child == 0) _exit(run_child(pair[1], argv + 3));
    close(pair[1]);
    const int listener = receive_fd(pair[0]);
    const bool ok = listener < 0 || supervise(&t, listener);
    if (!ok) kill(t.child, SIGKILL);
    if (fclose(t.report) || waitpid(t.child, &status, 0) != t.child || !ok) return TROUBLE;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
