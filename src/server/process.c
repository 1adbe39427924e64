/* SPDX-License-Identifier: MIT */
#include "server/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

void process_trim_memory(void)
{
#ifdef __GLIBC__ // others give back by themselves
    (void)malloc_trim(0);
#endif
}

static uint64_t micros(struct timeval time)
{
    return (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_usec;
}

/* Since Linux 6.2 the size of the folder is the number of entries; before, they are counted. */
static uint64_t count_open_fds(void)
{
    struct stat about;
    if (stat("/proc/self/fd", &about) == 0 && about.st_size > 0) {
        return (uint64_t)about.st_size;
    }
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL) {
        return 0;
    }
    uint64_t count = 0;
    while (readdir(folder) != NULL) {
        count++;
    }
    (void)closedir(folder);
    return count > 3 ? count - 3 : 0; // ".", ".." and the folder itself
}

static void read_memory(struct process_usage *usage)
{
    FILE *file = fopen("/proc/self/statm", "re");
    if (file == NULL) {
        return;
    }
    unsigned long total = 0, resident = 0;
    if (fscanf(file, "%lu %lu", &total, &resident) == 2) {
        uint64_t page_bytes = (uint64_t)sysconf(_SC_PAGESIZE);
        usage->virtual_bytes = total * page_bytes;
        usage->resident_bytes = resident * page_bytes;
    }
    (void)fclose(file);
}

void process_usage_read(struct process_usage *usage)
{
    *usage = (struct process_usage){0};
    struct rusage self;
    if (getrusage(RUSAGE_SELF, &self) == 0) {
        usage->user_cpu_us = micros(self.ru_utime);
        usage->system_cpu_us = micros(self.ru_stime);
        usage->resident_bytes_max = (uint64_t)self.ru_maxrss * 1024;
    }
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        usage->max_fds = files.rlim_cur;
    }
    usage->open_fds = count_open_fds();
    read_memory(usage);
}

bool process_hold_standard_fds(void)
{
    for (;;) {
        int fd = open("/dev/null", O_RDWR); // takes the lowest that is free
        if (fd < 0) {
            return false;
        }
        if (fd > STDERR_FILENO) {
            return close(fd) == 0;
        }
    }
}

size_t process_processor_count(void)
{
    cpu_set_t processors;
    if (sched_getaffinity(0, sizeof processors, &processors) == 0) {
        return (size_t)CPU_COUNT(&processors);
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN); // more than a cpu_set_t has room for
    return online > 1 ? (size_t)online : 1;
}

uint64_t process_raise_fd_limit(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0) {
        return 1024;
    }
    rlim_t before = files.rlim_cur;
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) != 0) {
        return before;
    }
    return files.rlim_cur;
}
