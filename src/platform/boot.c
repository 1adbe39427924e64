/* SPDX-License-Identifier: MIT */
#include "platform/boot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The beginning of a small file of the kernel, as text. False, with errno. */
static bool read_text(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    ssize_t length = read(fd, text, size - 1);
    (void)close(fd);
    text[length > 0 ? length : 0] = '\0';
    return length >= 0;
}

/* "4f6dd0f1-1d60-4d0a-9c0c-5a1c1cbf3d3e": 32 digits, the dashes between them say nothing. */
bool boot_read_id(uint64_t id[2])
{
    char text[64];
    int digits = 0;
    if (!read_text(BOOT_ID_PATH, text, sizeof text)) {
        return false;
    }
    id[0] = id[1] = 0;
    for (const char *at = text; *at != '\0' && digits < 32; at++) {
        static const char HEX[] = "0123456789abcdef";
        const char *digit = strchr(HEX, *at);
        if (digit != NULL) {
            id[digits / 16] = id[digits / 16] << 4 | (uint64_t)(digit - HEX);
            digits++;
        }
    }
    errno = EIO;
    return digits == 32;
}

uint64_t boot_namespace_bias_ns(void)
{
    char text[256];
    if (!read_text("/proc/self/timens_offsets", text, sizeof text)) {
        return 0; // a kernel without time namespaces
    }
    const char *line = strstr(text, "boottime");
    long long s = 0;
    long long ns = 0;
    if (line == NULL || sscanf(line, "boottime %lld %lld", &s, &ns) != 2) {
        return 0;
    }
    return 0 - ((uint64_t)s * 1000000000 + (uint64_t)ns);
}
