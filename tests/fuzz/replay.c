/* SPDX-License-Identifier: MIT
 *
 * Gives every file of the folders in the arguments to a fuzz target once: the corpora are ordinary
 * tests where there is no libFuzzer. */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The input is in memory of exactly its size, so that a sanitizer sees one byte too far. */
static int replay_file(const char *path, size_t size)
{
    uint8_t *data = malloc(size > 0 ? size : 1);
    FILE *file = fopen(path, "rb");
    if (data == NULL || file == NULL || fread(data, 1, size, file) != size) {
        fprintf(stderr, "cannot read %s\n", path);
        exit(1);
    }
    (void)fclose(file);
    fprintf(stderr, "%s\n", path); // the last line names the input that broke the target
    int result = LLVMFuzzerTestOneInput(data, size);
    free(data);
    return result;
}

static size_t replay_folder(const char *folder)
{
    size_t count = 0;
    DIR *entries = opendir(folder);
    if (entries == NULL) {
        fprintf(stderr, "cannot open %s\n", folder);
        exit(1);
    }
    for (struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries)) {
        char path[4096];
        struct stat status;
        (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (stat(path, &status) == 0 && S_ISREG(status.st_mode)) {
            (void)replay_file(path, (size_t)status.st_size);
            count++;
        }
    }
    (void)closedir(entries);
    return count;
}

int main(int argc, char **argv)
{
    size_t count = 0;
    for (int i = 1; i < argc; i++) {
        count += replay_folder(argv[i]);
    }
    printf("%zu inputs replayed\n", count);
    return count > 0 ? 0 : 1;
}
