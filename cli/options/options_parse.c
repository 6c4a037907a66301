// SPDX-License-Identifier: Apache-2.0
/* Parses the words of the command line into options, operands and the command. */
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/words.h"
#include "cli/options/command_line.h"

/* An option of the command line. Values are applied after those of the configuration file. */
struct word {
    unsigned option;
    const char *value;
};

struct words {
    int argc;
    char **argv;
    struct word *given;
    size_t count;
    struct qc_text_list operands;
};

static bool find_long(unsigned *out, const char *name, size_t length)
{
    for (unsigned k = 0; k < QC_CLI_OPTION_COUNT; k++) {
        const char *n = qc_cli_option_info(k)->name;
        if (strlen(n) != length || memcmp(n, name, length) != 0) continue;
        *out = k;
        return true;
    }
    return false;
}

/* Returns the next word as a value, unless it is an option or ends the options. */
static const char *next_value(const struct words *w, int *at)
{
    unsigned ignored;
    if (*at + 1 >= w->argc) return NULL;
    const char *s = w->argv[*at + 1];
    if (strcmp(s, "--") == 0) return NULL;
    if (strncmp(s, "--", 2) == 0 && find_long(&ignored, s + 2, strcspn(s + 2, "="))) return NULL;
    ++*at;
    return s;
}

static void add_word(struct words *w, unsigned option, const char *value)
{
    w->given[w->count++] = (struct word){.option = option, .value = value};
}

static bool read_long(struct words *w, int *at, struct qc_status *st)
{
    const char *name = w->argv[*at] + 2, *equals = strchr(name, '=');
    size_t length = equals ? (size_t)(equals - name) : strlen(name);
    unsigned option;
    if (!find_long(&option, name, length)) {
        char text[64];
        const char *names[QC_CLI_OPTION_COUNT];
        for (unsigned k = 0; k < QC_CLI_OPTION_COUNT; k++) names[k] = qc_cli_option_info(qc_cli_option_at(k))->name;
        qc_text(text, sizeof text, "%.*s", (int)(length < 60 ? length : 60), name);
        return qc_option_unknown(text, names, QC_CLI_OPTION_COUNT, st);
    }
    const struct qc_option_info *i = qc_cli_option_info(option);
    const char *value = equals ? equals + 1 : i->argument && !i->bare ? next_value(w, at) : NULL;
    if (!value && i->argument && !i->bare) return qc_fail(st, QC_USAGE, "--%s needs a value: %s", i->name, i->argument);
    add_word(w, option, value);
    return true;
}

static bool read_letters(struct words *w, int *at, struct qc_status *st)
{
    const char *word = w->argv[*at];
    for (const char *p = word + 1; *p; p++) {
        unsigned option = 0;
        while (option < QC_CLI_OPTION_COUNT && qc_cli_option_letter(option) != *p) option++;
        if (option == QC_CLI_OPTION_COUNT) {
            size_t length = strlen(word + 1);
            bool name = p == word + 1 && length > 1 && find_long(&option, word + 1, strcspn(word + 1, "="));
            return qc_fail(st, QC_USAGE, "unknown option %s%s", word, QC_MEANT("-", name ? word : NULL));
        }
        const struct qc_option_info *i = qc_cli_option_info(option);
        if (!i->argument) {
            add_word(w, option, NULL);
            continue;
        }
        const char *value = p[1] ? p + 1 + (p[1] == '=') : next_value(w, at);
        if (!value) return qc_fail(st, QC_USAGE, "-%c needs a value: %s", *p, i->argument);
        add_word(w, option, value);
        return true;
    }
    return true;
}

static bool split_words(struct words *w, struct qc_arena *a, struct qc_status *st)
{
    size_t letters = 0;
    for (int k = 1; k < w->argc; k++) letters += strlen(w->argv[k]) + 1;
    w->given = QC_NEW_ARRAY(a, struct word, letters, st);
    w->operands.items = QC_NEW_ARRAY(a, const char *, w->argc, st);
    if (!w->given || !w->operands.items) return false;
    bool ended = false;
    for (int k = 1; k < w->argc; k++) {
        const char *s = w->argv[k];
        if (ended || s[0] != '-' || !s[1]) {
            w->operands.items[w->operands.count++] = s;
        } else if (strcmp(s, "--") == 0) {
            ended = true;
        } else if (!(s[1] == '-' ? read_long(w, &k, st) : read_letters(w, &k, st))) {
            return false;
        }
    }
    return true;
}

/* Refuses a second value of options that name one input file, which would silently replace the first. */
static bool check_repeated(const struct words *w, struct qc_status *st)
{
    static const unsigned single[] = {QC_OPTION_DATA, QC_OPTION_EVAL, QC_OPTION_STATS};
    for (size_t i = 0; i < sizeof single / sizeof *single; i++) {
        const struct word *first = NULL;
        for (size_t k = 0; k < w->count; k++) {
            if (w->given[k].option != single[i]) continue;
            if (first)
                return qc_fail(st, QC_USAGE,
                               "--%s is given twice: %s and %s; to use several files, run 'qcalib collect' on each, "
                               "then 'qcalib merge' and --stats",
                               qc_cli_option_info(single[i])->name, first->value, w->given[k].value);
            first = &w->given[k];
        }
    }
    return true;
}

static bool find_command(struct qc_cli_options *o, struct words *w, struct qc_status *st)
{
    bool about = false;
    for (size_t k = 0; k < w->count; k++)
        about = about || w->given[k].option == QC_OPTION_HELP || w->given[k].option == QC_OPTION_VERSION;
    if (w->operands.count == 0) {
        o->command = about ? QC_COMMAND_help : QC_COMMAND_quantize;
        if (w->argc < 2) return qc_fail(st, QC_USAGE, "no command and no model; see 'qcalib help'");
        return true;
    }
    const char *first = w->operands.items[0];
    if (qc_command_find(&o->command, first)) {
        o->command_given = true;
        w->operands.items++;
        w->operands.count--;
        return true;
    }
    o->command = QC_COMMAND_quantize;
    struct stat info;
    const size_t n = strlen(first);
    if (stat(first, &info) == 0 || (n > 5 && strcasecmp(first + n - 5, ".onnx") == 0)) return true;
    if (strcmp(first, "version") == 0 && w->operands.count == 1) {
        o->version = true;
        return true;
    }
    const char *names[QC_CLI_COMMAND_COUNT];
    for (unsigned c = 0; c < QC_CLI_COMMAND_COUNT; c++) names[c] = qc_command_info(c)->name;
    return qc_fail(st, QC_USAGE, "'%s' is neither a command nor a file%s; see 'qcalib help'", first,
                   QC_MEANT("", qc_closest(first, names, QC_CLI_COMMAND_COUNT)));
}

static bool set(void *user, unsigned option, const char *value, struct qc_status *st)
{
    struct qc_cli_options *o = user;
    if (option < QC_OPTION_COUNT) return qc_options_set(&o->job, (enum qc_option)option, value, st);
    return qc_option_store(o, qc_cli_option_info(option), value, o->job.arena, st);
}

static bool takes(const struct qc_cli_options *o, unsigned option)
{
    return qc_cli_option_commands(option) & 1u << o->command;
}

/* The state of applying a configuration: both tables, in listed order. */
struct configured {
    struct qc_cli_options *o;
    const bool *on_line; /* [QC_CLI_OPTION_COUNT]: given on the command line, which has priority */
};

static const struct qc_option_info *listed(unsigned k)
{
    return qc_cli_option_info(qc_cli_option_at(k));
}

static bool takes_listed(const void *user, unsigned k)
{
    const struct configured *c = user;
    return takes(c->o, qc_cli_option_at(k)) && !c->on_line[qc_cli_option_at(k)];
}

static bool set_listed(void *user, unsigned k, const char *value, struct qc_status *st)
{
    const struct configured *c = user;
    return set(c->o, qc_cli_option_at(k), value, st);
}

static bool configure(struct qc_cli_options *o, const struct words *w, struct qc_status *st)
{
    bool on_line[QC_CLI_OPTION_COUNT] = {false};
    struct configured c = {.o = o, .on_line = on_line};
    const struct qc_option_set all = {
        .count = QC_CLI_OPTION_COUNT, .info = listed, .takes = takes_listed, .set = set_listed, .user = &c};
    const char *file = NULL;
    for (size_t k = 0; k < w->count; k++) {
        on_line[w->given[k].option] = true;
        if (w->given[k].option == QC_OPTION_CONFIG) file = w->given[k].value;
    }
    if (!file) return true;
    if (!*file) return qc_fail(st, QC_USAGE, "--config needs a value that is not empty: FILE");
    void *text;
    size_t size;
    struct qc_json *json = NULL;
    if (!qc_file_read(&text, &size, file, o->job.arena, st)) return false;
    if (!qc_json_parse(&json, text, size, st)) return qc_where(st, "%s", file);
    bool ok = qc_option_set_configure(&all, json, file, st);
    qc_json_free(json);
    return ok;
}

static bool apply_options(struct qc_cli_options *o, const struct words *w, struct qc_status *st)
{
    const char *see = o->command_given ? qc_command_info(o->command)->name : "quantize";
    for (size_t k = 0; k < w->count; k++) {
        const struct qc_option_info *i = qc_cli_option_info(w->given[k].option);
        if (!takes(o, w->given[k].option))
            return qc_fail(st, QC_USAGE, "%s has no option --%s; see 'qcalib help %s'",
                           qc_command_info(o->command)->name, i->name, see);
        if (!set(o, w->given[k].option, w->given[k].value, st)) {
            if (st->code != QC_USAGE) return false;
            size_t used = strlen(st->message);
            qc_text(st->message + used, (unsigned)(sizeof st->message - used), "; see 'qcalib help %s'", see);
            return false;
        }
    }
    return true;
}

bool qc_options_parse(struct qc_cli_options *out, int argc, char **argv, struct qc_arena *a, struct qc_status *st)
{
    struct words w = {.argc = argc, .argv = argv};
    *out = (struct qc_cli_options){.command = QC_COMMAND_help};
    if (!qc_options_init(&out->job, QC_COMMAND_quantize, a, st)) return false;
    for (unsigned k = QC_OPTION_COUNT; k < QC_CLI_OPTION_COUNT; k++)
        if (qc_option_has_default(qc_cli_option_info(k)) && !set(out, k, qc_cli_option_info(k)->preset, st))
            return false;
    if (!split_words(&w, a, st)) {
        size_t used = strlen(st->message);
        if (st->code == QC_USAGE)
            qc_text(st->message + used, (unsigned)(sizeof st->message - used), "; see 'qcalib help'");
        return false;
    }
    if (!check_repeated(&w, st) || !find_command(out, &w, st)) return false;
    if (out->command < QC_COMMAND_COUNT) out->job.command = (enum qc_command)out->command;
    if (!configure(out, &w, st)) return false;
    if (!apply_options(out, &w, st)) return false;
    out->operands = w.operands;
    const struct qc_command_info *c = qc_command_info(out->command);
    if (out->help || out->version) return true;
    if (out->operands.count < c->operands_min)
        return qc_fail(st, QC_USAGE, "%s needs %s; see 'qcalib help %s'", c->name, c->operands, c->name);
    if (out->operands.count > c->operands_max)
        return qc_fail(st, QC_USAGE, "%s takes %s%s; '%s' is too much; see 'qcalib help %s'", c->name,
                       c->operands_max == 1 ? "one " : "", c->operands, out->operands.items[c->operands_max], c->name);
    return true;
}
