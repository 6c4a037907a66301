// SPDX-License-Identifier: Apache-2.0
/* Hands each file of the folders and files named to a fuzz target, in order of names: what libFuzzer does with a
 * corpus, with any compiler. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static size_t replay(const char *path)
{
    struct stat info;
    FILE *f = stat(path, &info) == 0 ? fopen(path, "rb") : NULL;
    uint8_t *bytes = f ? malloc(info.st_size ? (size_t)info.st_size : 1)
                       : NULL; /* of the exact size, so that a read behind it is seen */
    if (!bytes || fread(bytes, 1, (size_t)info.st_size, f) != (size_t)info.st_size) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(1);
    }
    fclose(f);
    printf("%s\n", path);
    fflush(stdout);
    LLVMFuzzerTestOneInput(bytes, (size_t)info.st_size);
    free(bytes);
    return 1;
}

static int visible(const struct dirent *e)
{
    return e->d_name[0] != '.';
}

int main(int argc, char **argv)
{
    size_t count = 0;
    for (int i = 1; i < argc; i++) {
        struct dirent **names;
        const int n = scandir(argv[i], &names, visible, alphasort);
        if (n < 0) {
            count += replay(argv[i]);
            continue;
        }
        for (int k = 0; k < n; k++) {
            char path[4096];
            snprintf(path, sizeof path, "%s/%s", argv[i], names[k]->d_name);
            count += replay(path);
            free(names[k]);
        }
        free(names);
    }
    printf("%zu files\n", count);
    return count == 0;
}
