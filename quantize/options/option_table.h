// SPDX-License-Identifier: Apache-2.0
/* Tables of options, and reading values from text. There are two tables: the options of a job
   (quantize/options/options.def) and those of a terminal (cli/options/terminal_options.def). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/json.h"

struct qc_text_list {
    size_t count;
    const char **items;
    size_t capacity; /* of items; 0: they are not from qc_text_list_add */
};

/* One of the values that an option may have: its text, and what its field holds then. */
struct qc_option_choice {
    const char *text; /* NULL: the end of a list */
    unsigned value;
};

/* For the tables: initialisers of struct qc_option_info made from a list of choices (quantize/options/choices.h). */
#define QC_CHOICE_VALUE(text, value) value,
#define QC_CHOICE_ROW(text, value) {text, value},
#define QC_CHOICE_BAR(text, value) "|" text
#define QC_CHOICE_WORD(text, value) " " text
#define QC_CHOICES(list)                                                                                               \
    .choices = &list(QC_CHOICE_BAR)[1], .values = (const struct qc_option_choice[])                                    \
    {                                                                                                                  \
        list(QC_CHOICE_ROW) QC_CHOICE_ROW(NULL, 0)                                                                     \
    }
#define QC_CHOICE(list) .kind = QC_KIND_CHOICE, .argument = &list(QC_CHOICE_BAR)[1], QC_CHOICES(list)
#define QC_ON_OFF(c) c("on", true) c("off", false)
#define QC_SWITCH .kind = QC_KIND_SWITCH, .argument = &QC_ON_OFF(QC_CHOICE_BAR)[1], QC_CHOICES(QC_ON_OFF)

/* How a value is read, and the type of its field. */
enum qc_option_kind {
    QC_KIND_FLAG,    /* bool: true */
    QC_KIND_SET,     /* const char *: .bare */
    QC_KIND_TEXT,    /* const char *: any text but the empty one */
    QC_KIND_SPEC,    /* the same, but .preset is a value */
    QC_KIND_LIST,    /* struct qc_text_list: repeatable, any text but the empty one */
    QC_KIND_CHOICE,  /* unsigned or an enumeration: the value of one of .choices */
    QC_KIND_SWITCH,  /* bool: "on" or "off" */
    QC_KIND_CHOICES, /* struct qc_text_list: some of .choices, separated by commas */
    /* struct qc_text_list, repeatable: entry 0 is one of .choices, the others are "CHOICE:GLOB" */
    QC_KIND_BY_NAME,
    QC_KIND_COUNT, /* uint64_t: at least 1 */
    QC_KIND_WHOLE, /* uint64_t */
    QC_KIND_BYTES, /* uint64_t: at least 1; suffixes K, M, G and T are powers of 1024 */
    QC_KIND_NUMBER /* double: finite, not negative */
};

/* Headings of the help. The options of the first three groups decide the result and are in the report; OUTPUT and ABOUT
   hold options of the terminal. */
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
    const char *name;     /* without the dashes; also the key in a configuration file */
    const char *argument; /* NULL: takes none; "[=...]": optional */
    const char *bare;     /* value if the argument is left out */
    enum qc_option_kind kind;
    enum qc_option_group group;
    const char *choices;                   /* "a|b|c" */
    const struct qc_option_choice *values; /* the same with their values */
    /* default: a value for SPEC, CHOICE, SWITCH, CHOICES and BY_NAME, else a text for the help */
    const char *preset;
    unsigned commands; /* that take the option: bits 1 << enum qc_command */
    bool where_given;  /* in the report only if given */
    bool not_in_file;  /* not allowed in a configuration file */
    bool loads_code;   /* names files that are loaded as code: rejected in a configuration file */
    size_t field;      /* offset in the struct of the options */
    const char *help;  /* one line */
};

/* Reads a value (NULL: the argument was left out) into its field of `fields`; texts are copied into the arena. Fails
   with QC_USAGE, which names the option. */
bool qc_option_store(void *fields, const struct qc_option_info *i, const char *value, struct qc_arena *a,
                     struct qc_status *st);

/* Returns the choice whose text is the first `length` bytes of `text`, or NULL. */
const struct qc_option_choice *qc_option_choice_of(const struct qc_option_info *i, const char *text, size_t length);

/* Returns the text of the choice that a field of kind CHOICE or SWITCH of `fields` holds. */
const char *qc_option_choice_text(const void *fields, const struct qc_option_info *i);

/* Returns true if .preset is a value, not a text for the help. */
bool qc_option_has_default(const struct qc_option_info *i);

/* Appends a text, which is borrowed. Copies of the list share its items and do not change. */
bool qc_text_list_add(struct qc_text_list *list, const char *text, struct qc_arena *a, struct qc_status *st);

/* Read "300", "2G" as bytes, at least 1, and "12.5%" as a percentage, more than 0. Return false if the text is neither;
   qc_option_percent sets *out to 0 then. */
bool qc_option_bytes(uint64_t *out, const char *text);
bool qc_option_percent(double *out, const char *text);

/* Fails with QC_USAGE: "--NAME: 'VALUE' is not WHAT". */
bool qc_option_wrong(const struct qc_option_info *i, const char *value, const char *what, struct qc_status *st);
/* Fails with QC_USAGE: "unknown option --NAME; did you mean --OTHER?". names: the existing options. */
bool qc_option_unknown(const char *name, const char *const *names, size_t count, struct qc_status *st);

/* Options that a configuration may set. */
struct qc_option_set {
    unsigned count;
    const struct qc_option_info *(*info)(unsigned option);
    bool (*takes)(const void *user, unsigned option); /* false: the key is ignored */
    bool (*set)(void *user, unsigned option, const char *value, struct qc_status *st);
    void *user;
};

/* Applies a configuration: a JSON object whose keys are option names; lists are arrays, flags are true or false. file:
   prefix of messages. Fails with QC_USAGE on an unknown key, a wrong value or an option that loads code. */
bool qc_option_set_configure(const struct qc_option_set *set, const struct qc_json *config, const char *file,
                             struct qc_status *st);
