/* SPDX-License-Identifier: MIT */
#include "cli/pipe/outlet.h"

#include <fcntl.h>
#include <unistd.h>

void outlet_narrow(struct outlet *outlet, int fd, size_t bytes)
{
    int found = fcntl(fd, F_GETPIPE_SZ); // fails of what is no pipe
    size_t width = (size_t)sysconf(_SC_PAGESIZE);
    while (width * 2 <= bytes) {
        width *= 2;
    }
    *outlet = (struct outlet){.fd = fd, .width = 0};
    if (found > 0 && (width >= (size_t)found || fcntl(fd, F_SETPIPE_SZ, (int)width) >= 0)) {
        outlet->width = found;
    }
}

void outlet_restore(const struct outlet *outlet)
{
    if (outlet_is_narrow(outlet)) {
        (void)fcntl(outlet->fd, F_SETPIPE_SZ, outlet->width);
    }
}
