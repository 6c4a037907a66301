// SPDX-License-Identifier: Apache-2.0
/* qcalib-mpi: the same commands, started as K processes by mpirun or srun. Each rank collects the samples rank, rank +
   K, ...; rank 0 merges in the order of the ranks and does the remaining work. If a rank fails or dies, all end with an
   error. With --checkpoint FILE, rank r saves its statistics in FILE.r-of-K; all are kept until rank 0 is done. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "cli/program.h"
#include "cli/terminal/screen.h"
#include "quantize/interface/inputs.h"
#include "quantize/make/make.h"

enum { TAG = 1, CHUNK = 1 << 28 /* bytes in one message: counts of MPI are int */ };

static bool send_bytes(const void *bytes, size_t size, struct qc_status *st)
{
    unsigned long long n = size;
    bool ok = MPI_Send(&n, 1, MPI_UNSIGNED_LONG_LONG, 0, TAG, MPI_COMM_WORLD) == MPI_SUCCESS;
    for (size_t at = 0; ok && at < size; at += CHUNK)
        ok = MPI_Send((const char *)bytes + at, (int)(size - at < CHUNK ? size - at : CHUNK), MPI_BYTE, 0, TAG,
                      MPI_COMM_WORLD) == MPI_SUCCESS;
    return ok || qc_fail(st, QC_MACHINE, "MPI cannot send the statistics to rank 0");
}

static bool receive_bytes(void **bytes, size_t *size, unsigned from, struct qc_status *st)
{
    unsigned long long n = 0;
    bool ok = MPI_Recv(&n, 1, MPI_UNSIGNED_LONG_LONG, (int)from, TAG, MPI_COMM_WORLD, MPI_STATUS_IGNORE) == MPI_SUCCESS;
    char *data = ok ? malloc(n ? n : 1) : NULL;
    if (ok && !data) return qc_fail_memory(st, n);
    for (size_t at = 0; ok && at < n; at += CHUNK)
        ok = MPI_Recv(data + at, (int)(n - at < CHUNK ? n - at : CHUNK), MPI_BYTE, (int)from, TAG, MPI_COMM_WORLD,
                      MPI_STATUS_IGNORE) == MPI_SUCCESS;
    if (ok) {
        *bytes = data;
        *size = n;
        return true;
    }
    free(data);
    return qc_fail(st, QC_MACHINE, "MPI cannot receive the statistics of rank %u", from);
}

static bool join_ranks(struct qc_cli_options *o, const struct qc_team *team, unsigned near, struct qc_status *st)
{
    /* If the ranks run different commands, one that only prints help would leave the others waiting for it. */
    const int own = o->help ? -1 : o->version ? -2 : (int)o->command;
    int ends[2] = {own, -own}, all[2] = {own, -own};
    if (MPI_Allreduce(ends, all, 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD) != MPI_SUCCESS || all[0] != -all[1])
        return qc_fail(st, QC_USAGE, "the ranks run different commands; start all with the same arguments");
    if (o->help || o->version || o->command == QC_COMMAND_help) return true;
    if (o->command != QC_COMMAND_collect && o->command != QC_COMMAND_quantize)
        return qc_fail(st, QC_USAGE, "'%s' cannot be shared between processes; use qcalib",
                       qc_command_info(o->command)->name);
    if (o->job.data.shard || o->job.data.stats)
        return qc_fail(st, QC_USAGE,
                       "qcalib-mpi splits the samples itself: leave out --shard and --stats (docs/cluster.md)");
    if (o->job.run.checkpoint &&
        !(o->job.run.checkpoint =
              qc_arena_printf(o->job.arena, st, "%s.%u-of-%u", o->job.run.checkpoint, team->rank, team->size)))
        return false;
    if (!o->job.given[QC_OPTION_THREADS] && o->job.run.threads / near > 0) o->job.run.threads /= near;
    o->team = team;
    if (team->rank == 0) return true;
    o->quiet = true;
    o->json = o->verbose = false;
    o->progress = QC_BAR_NEVER;
    return true;
}

int main(int argc, char **argv)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_cli_options o;
    int rank = 0, size = 1;
    char program[64];
    qc_screen_begin();
    if (MPI_Init(&argc, &argv) != MPI_SUCCESS) {
        fputs("qcalib-mpi: MPI does not start\n", stderr);
        return QC_MACHINE;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    /* the ranks on the same machine share its cores */
    MPI_Comm machine;
    int near = 1;
    if (MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &machine) == MPI_SUCCESS) {
        MPI_Comm_size(machine, &near);
        MPI_Comm_free(&machine);
    }
    struct qc_team team = {.rank = (unsigned)rank,
                           .size = (unsigned)size,
                           .send = send_bytes,
                           .receive = receive_bytes};
    struct qc_arena *a = qc_arena_new();
    qc_interrupt_install();
    bool ok = a ? qc_limits_begin(&st) && qc_options_parse(&o, argc, argv, a, &st) &&
                      join_ranks(&o, &team, (unsigned)near, &st) && (rank == 0 || o.team) && qc_program_run(&o, &st)
                : qc_fail_memory(&st, 1);
    ok = qc_screen_finish(&st) && ok;
    if (!ok && st.code == QC_OK && rank == 0) qc_fail(&st, QC_MACHINE, "failed without a reason: please report this");
    if (st.code != QC_OK) {
        qc_program_print_error(qc_text(program, sizeof program, "qcalib-mpi: rank %d", rank), &st);
        /* Wait until every rank is here, or 5 s: a rank that has died does not come. After a signal, mpirun ends all
           ranks as soon as one has ended, so the first one lets the others save their checkpoints. */
        enum { TRIES = 500, NANOSECONDS = 10000000 };
        MPI_Request every;
        int here = 0;
        if (st.code == QC_INTERRUPTED && MPI_Ibarrier(MPI_COMM_WORLD, &every) == MPI_SUCCESS)
            for (int i = 0; i < TRIES && MPI_Test(&every, &here, MPI_STATUS_IGNORE) == MPI_SUCCESS && !here; i++)
                nanosleep(&(struct timespec){.tv_nsec = NANOSECONDS}, NULL);
        MPI_Abort(MPI_COMM_WORLD, (int)st.code);
    }
    MPI_Barrier(MPI_COMM_WORLD); /* rank 0 has written the result */
    if (rank && o.team) qc_collecting_end(&o.job);
    qc_arena_free(a);
    MPI_Finalize();
    return (int)st.code;
}
