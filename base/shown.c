// SPDX-License-Identifier: Apache-2.0
#include "base/shown.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

size_t qc_utf8(uint32_t *code, const char *text)
{
    const unsigned char *s = (const unsigned char *)text;
    *code = s[0];
    if (s[0] < 0x80) return 1;
    if (s[0] < 0xC2 || s[0] > 0xF4) return 0;
    const size_t n = s[0] < 0xE0 ? 2 : s[0] < 0xF0 ? 3 : 4;
    const unsigned low = s[0] == 0xE0 ? 0xA0 : s[0] == 0xF0 ? 0x90 : 0x80;
    const unsigned high = s[0] == 0xED ? 0x9F : s[0] == 0xF4 ? 0x8F : 0xBF;
    if (s[1] < low || s[1] > high) return 0;
    *code = s[0] & (0xFFu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if (s[i] < 0x80 || s[i] > 0xBF) return 0;
        *code = *code << 6 | (s[i] & 0x3Fu);
    }
    return n;
}

bool qc_unprintable(uint32_t code)
{
    static const struct {
        uint32_t first, last;
    } ranges[] = {
        {0x0, 0x1F},        {0x7F, 0x9F},       {0xAD, 0xAD},       {0x600, 0x605},      {0x61C, 0x61C},
        {0x6DD, 0x6DD},     {0x70F, 0x70F},     {0x890, 0x891},     {0x8E2, 0x8E2},      {0x180E, 0x180E},
        {0x200B, 0x200F},   {0x2028, 0x202E},   {0x2060, 0x206F},   {0xE000, 0xF8FF},    {0xFDD0, 0xFDEF},
        {0xFEFF, 0xFEFF},   {0xFFF0, 0xFFFB},   {0x110BD, 0x110BD}, {0x110CD, 0x110CD},  {0x13430, 0x1343F},
        {0x1BCA0, 0x1BCA3}, {0x1D173, 0x1D17A}, {0xE0000, 0xE0FFF}, {0xF0000, 0x10FFFF},
    };
    if ((code & 0xFFFE) == 0xFFFE) return true;
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (code >= ranges[i].first && code <= ranges[i].last) return true;
    return false;
}

size_t qc_shown(char out[QC_SHOWN], bool *escaped, const char *s)
{
    uint32_t code;
    const size_t n = qc_utf8(&code, s);
    *escaped = n == 0 || qc_unprintable(code);
    if (!*escaped) {
        memcpy(out, s, n);
        out[n] = '\0';
    } else if (n < 2) {
        snprintf(out, QC_SHOWN, "\\x%02x", (unsigned)(unsigned char)*s);
    } else {
        snprintf(out, QC_SHOWN, code > 0xFFFF ? "\\U%08x" : "\\u%04x", (unsigned)code);
    }
    return n ? n : 1;
}

/* ---- Printing ---- */

struct conversion {
    char flags[8], kind;
    char length;          /* 0, 'l', 'L' for ll, 'z' or 'j' */
    int width, precision; /* -1: none */
};

static int read_number(const char **p, va_list *ap)
{
    if (**p == '*') {
        ++*p;
        return va_arg(*ap, int);
    }
    char *end;
    const long n = strtol(*p, &end, 10);
    *p = end;
    return n < INT_MAX ? (int)n : INT_MAX;
}

/* p: after the '%'. Returns the position after the conversion. */
static const char *read_conversion(struct conversion *c, const char *p, va_list *ap)
{
    *c = (struct conversion){.precision = -1};
    const size_t flags = strspn(p, "-+ #0");
    memcpy(c->flags, p, flags < sizeof c->flags ? flags : sizeof c->flags - 1);
    p += flags;
    if (*p == '*' || (*p >= '1' && *p <= '9')) c->width = read_number(&p, ap);
    if (*p == '.') {
        p++;
        c->precision = read_number(&p, ap);
    }
    if (*p && strchr("lzj", *p)) c->length = *p++;
    if (c->length == 'l' && *p == 'l') {
        c->length = 'L';
        p++;
    }
    c->kind = *p;
    return *p ? p + 1 : p;
}

static int print_number(FILE *f, const struct conversion *c, va_list *ap)
{
    char fmt[24];
    const char *length = c->length == 'L'   ? "ll"
                         : c->length == 'l' ? "l"
                         : c->length == 'z' ? "z"
                         : c->length == 'j' ? "j"
                                            : "";
    snprintf(fmt, sizeof fmt, "%%%s*.*%s%c", c->flags, length, c->kind);
    if (strchr("feg", c->kind)) return fprintf(f, fmt, c->width, c->precision, va_arg(*ap, double));
    if (c->length == 'l') return fprintf(f, fmt, c->width, c->precision, va_arg(*ap, long));
    if (c->length == 'L') return fprintf(f, fmt, c->width, c->precision, va_arg(*ap, long long));
    if (c->length == 'z') return fprintf(f, fmt, c->width, c->precision, va_arg(*ap, size_t));
    if (c->length == 'j') return fprintf(f, fmt, c->width, c->precision, va_arg(*ap, intmax_t));
    return fprintf(f, fmt, c->width, c->precision, va_arg(*ap, int));
}

/* Returns the columns of the first `most` bytes of a text; prints it if f is not NULL. */
static int show(FILE *f, const char *s, size_t most)
{
    char piece[QC_SHOWN];
    bool escaped;
    int columns = 0;
    for (size_t at = 0; at < most && s[at];) {
        at += qc_shown(piece, &escaped, s + at);
        columns += escaped ? (int)strlen(piece) : 1;
        if (f) fputs(piece, f);
    }
    return columns;
}

int qc_vprint(FILE *f, const char *fmt, va_list ap)
{
    int columns = 0;
    va_list list;
    va_copy(list, ap); /* the address of a va_list parameter cannot be passed on */
    for (const char *p = fmt; *p;) {
        const size_t plain = strcspn(p, "%");
        fwrite(p, 1, plain, f);
        columns += (int)plain;
        p += plain;
        if (!*p) break;
        struct conversion c;
        p = read_conversion(&c, p + 1, &list);
        if (c.kind == 's') {
            const char *s = va_arg(list, const char *);
            const size_t most = c.precision < 0 ? SIZE_MAX : (size_t)c.precision;
            const bool left = c.width < 0 || strchr(c.flags, '-');
            int width = c.width < 0 ? -c.width : c.width;
            if (!s) s = "(null)";
            const int taken = show(NULL, s, most), gap = width > taken ? width - taken : 0;
            if (!left) fprintf(f, "%*s", gap, "");
            show(f, s, most);
            if (left) fprintf(f, "%*s", gap, "");
            columns += taken + gap;
        } else if (c.kind == '%')
            columns += fputc('%', f) != EOF;
        else if (c.kind == 'c')
            columns += fputc(va_arg(list, int), f) != EOF;
        else
            columns += print_number(f, &c, &list);
    }
    va_end(list);
    return columns;
}

int qc_print(FILE *f, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const int columns = qc_vprint(f, fmt, ap);
    va_end(ap);
    return columns;
}
