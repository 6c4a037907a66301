// SPDX-License-Identifier: Apache-2.0
/* HDF5 files for tests, made and read with HDF5 itself. A failure fails the test. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* type: u8 i8 u16 i16 u32 i32 u64 i64 f32 f64 f16 bool, in the machine's order, with "be" behind it big-endian in the
   file. data: in the machine's order (f16: bits); NULL: nothing is written. */
struct made {
    const char *name, *type;
    unsigned rank;
    int64_t dims[5], chunk[5]; /* chunk[0] 0: contiguous */
    bool shuffle, gzip, fletcher;
    int strange; /* number of a filter that no HDF5 has */
    const void *data;
};

int64_t make_file(const char *path);
void make_done(int64_t file);
void make_set(int64_t file, const struct made *m);
void make_numbers(int64_t file, const char *set, const char *name, const double *values, size_t count);
void make_text(int64_t file, const char *set, const char *name, const char *text);
void make_odd(int64_t file, const char *name, const char *kind); /* kind: string, compound, scalar, group, opaque */
void make_chunk(int64_t file, const char *set, int64_t row, uint32_t mask, const void *data,
                size_t size); /* as it is */

/* Reads a whole data set as float64 (at most max values); its shape to dims. Returns the rank; text of its type to
 * type. */
unsigned read_back(double *out, size_t max, int64_t dims[8], char type[16], const char *path, const char *set);

/* A folder for one test, and paths in it. */
void folder_make(void);
void folder_remove(void);
const char *folder_path(const char *name);
size_t folder_count(void); /* files in it */
