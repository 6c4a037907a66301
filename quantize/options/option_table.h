// SPDX-License-Identifier: Apache-2.0
/* What a table of options says of each, and how a value that is text is read by it. Two tables are made of it: the
   options of a job (quantize/options/options.def) and those that are only for a terminal
   (cli/options/terminal_options.def). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"

struct qc_text_list {
    size_t count;
    const char **items;
};

/* How a value is read and stored: the type of the field. */
enum qc_option_kind {
    QC_KIND_FLAG,    /* bool: true */
    QC_KIND_SET,     /* const char *: .bare */
    QC_KIND_TEXT,    /* const char *: any text but the empty one */
    QC_KIND_SPEC,    /* the same, and .preset is the value itself */
    QC_KIND_LIST,    /* struct qc_text_list: repeatable, any text but the empty one */
    QC_KIND_CHOICE,  /* const char *: one of .choices */
    QC_KIND_CHOICES, /* struct qc_text_list: some of .choices, with commas between */
    /* struct qc_text_list: one of .choices, first in the list; then those with ":GLOB" behind them. Repeatable */
    QC_KIND_BY_NAME,
    QC_KIND_COUNT, /* uint64_t: at least 1 */
    QC_KIND_WHOLE, /* uint64_t */
    QC_KIND_BYTES, /* uint64_t: at least 1, with K, M or G behind it (powers of 1024) */
    QC_KIND_NUMBER /* double: finite, not negative */
};

/* Headings of the help. The options of the first three decide the result and stand in the report; OUTPUT and ABOUT are
   the terminal's. */
enum qc_option_group {
    QC_GROUP_DATA,
    QC_GROUP_METHOD,
    QC_GROUP_GRAPH,
    QC_GROUP_OUTPUT,
    QC_GROUP_RUN,
    QC_GROUP_ABOUT,
    QC_GROUP_COUNT
};

struct qc_option_info {
    const char *name;     /* as of --name; also the key in a configuration file */
    const char *argument; /* NULL: takes none; "[=...]": may be left out */
    const char *bare;     /* value when the argument is left out */
    enum qc_option_kind kind;
    enum qc_option_group group;
    const char *choices; /* "a|b|c" */
    /* default; the value itself of a SPEC, CHOICE, CHOICES or BY_NAME, words for a person of others */
    const char *preset;
    unsigned commands; /* that take it: bits 1 << enum qc_command */
    bool where_given;  /* the report has it only where it was given */
    bool not_in_file;  /* has no place in a configuration file */
    bool loads_code;   /* names files that are loaded as code: refused in a configuration file */
    size_t field;      /* offset in the struct of the options */
    const char *help;  /* one line */
};

/* Reads a value (NULL: the argument was left out) into the field of `fields`; texts are copied into the arena. Errors:
   QC_USAGE names the option. */
bool qc_option_store(void *fields, const struct qc_option_info *i, const char *value, struct qc_arena *a,
                     struct qc_status *st);

/* Whether .preset is a value to be stored, and not words for a person. */
bool qc_option_has_default(const struct qc_option_info *i);

bool qc_text_list_add(struct qc_text_list *list, const char *text, struct qc_arena *a, struct qc_status *st);

/* "300", "2G": bytes, at least 1. "12.5%": a percentage, more than 0; *out is 0 where it is none. */
bool qc_option_bytes(uint64_t *out, const char *text);
bool qc_option_percent(double *out, const char *text);

/* "--NAME: 'VALUE' is not WHAT": QC_USAGE, and false. */
bool qc_option_wrong(const struct qc_option_info *i, const char *value, const char *what, struct qc_status *st);
/* "unknown option --NAME; did you mean --OTHER?", of so many names that there are: QC_USAGE, and false. */
bool qc_option_unknown(const char *name, const char *const *names, size_t count, struct qc_status *st);

/* Options that a configuration may set. */
struct qc_option_set {
    unsigned count;
    const struct qc_option_info *(*info)(unsigned option);
    bool (*takes)(const void *user, unsigned option); /* false: the key is left alone */
    bool (*set)(void *user, unsigned option, const char *value, struct qc_status *st);
    void *user;
};

/* Applies a configuration: a JSON object, keys as long names; lists are arrays; flags are true or false. file: what
   messages begin with. Errors: QC_USAGE: unknown key, wrong value, an option that loads code. */
bool qc_option_set_configure(const struct qc_option_set *set, const struct qc_json *config, const char *file,
                             struct qc_status *st);
