// SPDX-License-Identifier: Apache-2.0
/* Runs a command in which every call that makes or uses a network connection kills the process (SIGSYS). Pairs of
   connected local sockets are allowed: with them a program talks to its own children.
     no_network COMMAND ARGUMENT...     exit code 77: the kernel has no filters */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    static const unsigned calls[] = {SYS_socket, SYS_connect, SYS_bind,     SYS_listen,
                                     SYS_accept, SYS_accept4, SYS_sendmmsg, 425 /* io_uring_setup */};
    enum { COUNT = sizeof calls / sizeof *calls };
    struct sock_filter f[2 * COUNT + 2];
    unsigned short n = 0;
    f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, nr));
    for (unsigned i = 0; i < COUNT; i++) {
        f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i], 0, 1);
        f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    }
    f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    const struct sock_fprog program = {.len = n, .filter = f};
    if (argc < 2) return 2;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0)) {
        perror("no_network");
        return 77;
    }
    execvp(argv[1], argv + 1);
    perror(argv[1]);
    return 2;
}
