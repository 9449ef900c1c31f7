/* Tells the steps of a C or C++ program to wattgate. Include it in one source file; -std=c99 needs
 * -D_POSIX_C_SOURCE=200809L. Call wattgate_steps after each step with the number of steps so far,
 * the samples of one step (0: unknown) and the workload's name (NULL: none), and wattgate_last at
 * the end. Before each step, wattgate_spend may tell where its time went. None waits or fails.
 * The variable WATTGATE_SOCKET names the socket; without it the daemon gets the steps, and if it
 * is empty, nobody does. */
#ifndef WATTGATE_H
#define WATTGATE_H

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/* A socket that is connected to WATTGATE_SOCKET, or else to the daemon's; or -1. */
static inline int wattgate_connect(void)
{
    const char *path = getenv("WATTGATE_SOCKET");
    struct sockaddr_un to;
    if (!path)
        path = "/run/wattgate/steps";
    memset(&to, 0, sizeof to);
    to.sun_family = AF_UNIX;
    if (!*path || strlen(path) >= sizeof to.sun_path)
        return -1;
    memcpy(to.sun_path, path, strlen(path));
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    /* Linux chooses an address, which tells this counter from others of a container. */
    if (fd >= 0)
        (void)!bind(fd, (struct sockaddr *)&to, sizeof to.sun_family);
    if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof to) == 0)
        return fd;
    close(fd);
    return -1;
}

/* Time in us of all steps: waiting for data, computing; and whether it was told. */
static inline uint64_t *wattgate_spent(void)
{
    static uint64_t spent[3];
    return spent;
}

/* Adds the time in us for which the next step waited for its data, and that of computing. */
static inline void wattgate_spend(uint64_t fetch_us, uint64_t compute_us)
{
    uint64_t *spent = wattgate_spent();
    spent[0] += fetch_us;
    spent[1] += compute_us;
    spent[2] = 1;
}

/* At most one datagram each 20 ms but for the last, and one attempt to connect a second. */
static inline void wattgate_send(uint64_t count, uint32_t items, const char *name, int last)
{
    static int64_t due = 0, connect_at = 0; /* ms */
    static int fd = -1;
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    const int64_t now = (int64_t)time.tv_sec * 1000 + time.tv_nsec / 1000000;
    if (now < due && !(last && fd >= 0))
        return;
    if (fd < 0) {
        due = connect_at = now + 1000;
        if ((fd = wattgate_connect()) < 0)
            return;
    }
    char line[256], samples[24] = "", parts[80] = "";
    const uint64_t *spent = wattgate_spent();
    if (items)
        snprintf(samples, sizeof samples, " items=%" PRIu32, items);
    if (spent[2]) /* Whole numbers: a locale may write a comma. */
        snprintf(parts, sizeof parts,
                 " fetch_ms=%" PRIu64 ".%03d compute_ms=%" PRIu64 ".%03d", spent[0] / 1000,
                 (int)(spent[0] % 1000), spent[1] / 1000, (int)(spent[1] % 1000));
    const int length = snprintf(line, sizeof line, "steps=%" PRIu64 "%s%s%.64s%s\n", count,
                                samples, name ? " name=" : "", name ? name : "", parts);
    due = now + 20;
    if (send(fd, line, (size_t)length, MSG_NOSIGNAL) >= 0 || errno == EAGAIN)
        return; /* Of a receiver that is busy, a later datagram contains the count. */
    close(fd);
    fd = -1;
    due = connect_at > due ? connect_at : due;
}

static inline void wattgate_steps(uint64_t count, uint32_t items, const char *name)
{
    wattgate_send(count, items, name, 0);
}

static inline void wattgate_last(uint64_t count, uint32_t items, const char *name)
{
    wattgate_send(count, items, name, 1);
}

#endif
