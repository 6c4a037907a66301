// SPDX-License-Identifier: Apache-2.0
/* Gives a fuzz target the files of a folder, where there is no libFuzzer: fuzz_replay FOLDER. A line for each, which scripts/test counts. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int is_visible(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

static void replay(const char *folder, const char *name)
{
    char path[4096];
    uint8_t *data = NULL;
    long size = -1;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "rb");
    if (f && fseek(f, 0, SEEK_END) == 0) size = ftell(f);
    if (size >= 0) data = malloc(size ? (size_t)size : 1);
    if (!data || fseek(f, 0, SEEK_SET) || fread(data, 1, (size_t)size, f) != (size_t)size) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(1);
    }
    fclose(f);
    LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
    printf("[PASS] %s\n", name);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    struct dirent **entries;
    const int count = argc == 2 ? scandir(argv[1], &entries, is_visible, by_name) : -1;
    if (count < 1) {
        fprintf(stderr, "fuzz_replay FOLDER: a folder with at least one file\n");
        return 1;
    }
    for (int i = 0; i < count; i++) {
        replay(argv[1], entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return 0;
}
