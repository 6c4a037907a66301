// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE /* pipe2 */
#include "base/command.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { TAIL = 4096, ASK_MS = 100 };

/* ---- Words ---- */

static const char blank[] = " \t\n";

bool qc_command_split(const char ***words, size_t *count, const char *text, struct qc_arena *a, struct qc_status *st)
{
    const size_t length = strlen(text);
    char *to = QC_NEW_ARRAY(a, char, length + 1, st);
    *words = QC_NEW_ARRAY(a, const char *, length / 2 + 2, st);
    *count = 0;
    if (!to || !*words) return false;
    for (;;) {
        text += strspn(text, blank);
        if (!*text) break;
        (*words)[(*count)++] = to;
        while (*text && !strchr(blank, *text)) {
            if (*text != '\'' && *text != '"') {
                *to++ = *text++;
                continue;
            }
            const char *end = strchr(text + 1, *text);
            if (!end) return qc_fail(st, QC_USAGE, "the quote %s is not closed", text);
            memcpy(to, text + 1, (size_t)(end - text) - 1);
            to += end - text - 1;
            text = end + 1;
        }
        *to++ = '\0';
    }
    (*words)[*count] = NULL;
    return *count || qc_fail(st, QC_USAGE, "there is no command");
}

/* ---- The process ---- */

/* The last bytes read from a pipe. */
struct tail {
    int fd;
    size_t size;
    char text[2 * TAIL + 1];
};

static void take_text(struct tail *t)
{
    if (t->size > TAIL) {
        memmove(t->text, t->text + t->size - TAIL, TAIL);
        t->size = TAIL;
    }
    const ssize_t n = read(t->fd, t->text + t->size, TAIL);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (n <= 0) {
        close(t->fd);
        t->fd = -1;
        return;
    }
    t->size += (size_t)n;
}

/* Returns the last line that is not blank. */
static const char *last_line(struct tail *t)
{
    char *text = t->text;
    t->text[t->size] = '\0';
    for (size_t i = 0; i < t->size; i++)
        if (t->text[i] == '\0') t->text[i] = ' ';
    while (t->size && isspace((unsigned char)text[t->size - 1])) text[--t->size] = '\0';
    const char *line = strrchr(text, '\n');
    return line ? line + 1 : text;
}

static bool start_program(pid_t *pid, char *const *words, const int out[2], const int err[2], struct qc_status *st)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    sigset_t none;
    sigemptyset(&none);
    int error = posix_spawn_file_actions_init(&files);
    if (error) return qc_fail_memory(st, sizeof files);
    error = posix_spawnattr_init(&how);
    if (!error) {
        error = posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        if (!error) error = posix_spawn_file_actions_adddup2(&files, out[1], STDOUT_FILENO);
        if (!error) error = posix_spawn_file_actions_adddup2(&files, err[1], STDERR_FILENO);
        if (!error) error = posix_spawnattr_setpgroup(&how, 0);
        if (!error) error = posix_spawnattr_setsigmask(&how, &none);
        if (!error) error = posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
        if (!error) error = posix_spawnp(pid, words[0], &files, &how, words, environ);
        posix_spawnattr_destroy(&how);
    }
    posix_spawn_file_actions_destroy(&files);
    return !error || qc_fail(st, QC_USAGE, "cannot start '%s': %s", words[0], strerror(error));
}

/* Reads both pipes until they are closed. */
static bool listen_to_program(struct tail *out, struct tail *err, bool (*go_on)(void *user, struct qc_status *st),
                              void *user, struct qc_status *st)
{
    while (out->fd >= 0 || err->fd >= 0) {
        struct pollfd fds[2] = {{.fd = out->fd, .events = POLLIN}, {.fd = err->fd, .events = POLLIN}};
        const int ready = poll(fds, 2, ASK_MS);
        if (ready < 0 && errno != EINTR) return qc_fail(st, QC_MACHINE, "cannot wait for it: %s", strerror(errno));
        if (go_on && !go_on(user, st)) return false;
        if (ready > 0 && fds[0].revents) take_text(out);
        if (ready > 0 && fds[1].revents) take_text(err);
    }
    return true;
}

static bool ended_well(int how, struct tail *err, struct qc_status *st)
{
    if (WIFEXITED(how) && WEXITSTATUS(how) == 0) return true;
    const char *said = last_line(err), *colon = *said ? ": " : "";
    if (WIFSIGNALED(how))
        return qc_fail(st, QC_MACHINE, "it was ended by signal %d (%s)%s%.400s", WTERMSIG(how),
                       strsignal(WTERMSIG(how)), colon, said);
    return qc_fail(st, QC_MACHINE, "it ended with exit code %d%s%.400s", WEXITSTATUS(how), colon, said);
}

bool qc_command_run(const char **out, const char *const *words, const char *file,
                    bool (*go_on)(void *user, struct qc_status *st), void *user, struct qc_arena *a,
                    struct qc_status *st)
{
    size_t count = 0;
    while (words[count]) count++;
    char **argv = QC_NEW_ARRAY(a, char *, count + 1, st);
    struct tail *tails = QC_NEW_ARRAY(a, struct tail, 2, st);
    int from_out[2], from_err[2], how = 0;
    pid_t pid = 0;
    if (!argv || !tails) return false;
    for (size_t i = 0; i < count; i++) {
        /* The word with `file` in place of every placeholder. */
        const char *word = words[i];
        char *filled = qc_arena_strdup(a, "", st);
        for (const char *at; filled && (at = strstr(word, QC_COMMAND_FILE)); word = at + strlen(QC_COMMAND_FILE))
            filled = qc_arena_printf(a, st, "%s%.*s%s", filled, (int)(at - word), word, file);
        if (!(argv[i] = filled ? qc_arena_printf(a, st, "%s%s", filled, word) : NULL)) return false;
    }
    const bool piped = pipe2(from_out, O_CLOEXEC) == 0;
    if (!piped || pipe2(from_err, O_CLOEXEC) != 0) {
        qc_fail(st, QC_MACHINE, "cannot make a pipe: %s", strerror(errno));
        for (int i = 0; piped && i < 2; i++) close(from_out[i]);
        return false;
    }
    tails[0].fd = from_out[0];
    tails[1].fd = from_err[0];
    const bool started = start_program(&pid, argv, from_out, from_err, st);
    close(from_out[1]);
    close(from_err[1]);
    bool ok = started && listen_to_program(&tails[0], &tails[1], go_on, user, st);
    if (started) {
        if (!ok) kill(-pid, SIGKILL);
        while (waitpid(pid, &how, 0) < 0 && errno == EINTR) continue;
    }
    for (int i = 0; i < 2; i++)
        if (tails[i].fd >= 0) close(tails[i].fd);
    ok = ok && ended_well(how, &tails[1], st);
    tails[0].text[tails[0].size] = '\0';
    *out = ok ? tails[0].text + (tails[0].size > TAIL ? tails[0].size - TAIL : 0) : NULL;
    return ok;
}

/* ---- Output of the command ---- */

double qc_last_number(const char *text)
{
    double last = (double)NAN;
    for (const char *at = text; *at;) {
        if (!isdigit((unsigned char)*at)) {
            at++;
            continue;
        }
        const bool of_word = at > text && (isalpha((unsigned char)at[-1]) || at[-1] == '_');
        char *end;
        const double x = strtod(at, &end);
        if (!of_word) last = x;
        at = end;
    }
    return last;
}
