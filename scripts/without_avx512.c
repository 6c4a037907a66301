// SPDX-License-Identifier: Apache-2.0
/* Hides AVX-512, VNNI and AMX from a process on Linux, so that ONNX Runtime takes its kernels for AVX2. Each CPUID
   instruction faults, and the handler answers it without these bits. Needs cpuid_fault in /proc/cpuinfo.

       cc -O1 -shared -fPIC -o without_avx512.so scripts/without_avx512.c
       LD_PRELOAD=$PWD/without_avx512.so python scripts/operator_times --block 8 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { ARCH_SET_CPUID = 0x1012 };

static const uint32_t of_leaf_7[] = {
    1u << 16 | 1u << 17 | 1u << 21 | 1u << 26 | 1u << 27 | 1u << 28 | 1u << 30 | 1u << 31, /* EBX: AVX-512 */
    1u << 1 | 1u << 6 | 1u << 11 | 1u << 12 | 1u << 14,                                    /* ECX: VBMI, VNNI, ... */
    1u << 2 | 1u << 3 | 1u << 8 | 1u << 22 | 1u << 23 | 1u << 24 | 1u << 25,               /* EDX: FP16, AMX */
};
static const uint32_t eax_of_leaf_7_1 =
    1u << 4 | 1u << 5 | 1u << 21 | 1u << 23; /* AVX-VNNI, BF16, AMX-FP16, AVX-IFMA */

static void answer(int signal_number, siginfo_t *info, void *context)
{
    greg_t *r = ((ucontext_t *)context)->uc_mcontext.gregs;
    const uint8_t *instruction = (const uint8_t *)r[REG_RIP];
    const uint32_t leaf = (uint32_t)r[REG_RAX], part = (uint32_t)r[REG_RCX];
    uint32_t a, b, c, d;
    (void)info;
    if (instruction[0] != 0x0f || instruction[1] != 0xa2) { /* no CPUID: a fault of the program */
        signal(signal_number, SIG_DFL);
        return;
    }
    syscall(SYS_arch_prctl, ARCH_SET_CPUID, 1);
    __asm__ volatile("cpuid" : "=a"(a), "=b"(b), "=c"(c), "=d"(d) : "a"(leaf), "c"(part));
    syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0);
    if (leaf == 7 && part == 0) b &= ~of_leaf_7[0], c &= ~of_leaf_7[1], d &= ~of_leaf_7[2];
    if (leaf == 7 && part == 1) a &= ~eax_of_leaf_7_1;
    r[REG_RAX] = a;
    r[REG_RBX] = b;
    r[REG_RCX] = c;
    r[REG_RDX] = d;
    r[REG_RIP] += 2;
}

__attribute__((constructor)) static void begin(void)
{
    const struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGSEGV, &action, NULL);
    syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0);
}
