/* Kills the program it is loaded into at a chosen write to its database: before the write happens, so that with every
 * number in turn it dies between any two of them. It counts from the moment when the file named by
 * INNKEEPER_TEST_DIE_AT exists, which holds the number. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_long left = -1;

static void counted(const char *path) {
    const char *name = strstr(path, "sessions.db");
    if (name == NULL || strstr(name, "-shm") != NULL) {
        return;
    }
    if (atomic_load(&left) < 0) {
        const char *order = getenv("INNKEEPER_TEST_DIE_AT");
        FILE *file = order == NULL ? NULL : fopen(order, "r");
        long number = 0;
        if (file == NULL) {
            return;
        }
        if (fscanf(file, "%ld", &number) == 1) {
            long none = -1;
            atomic_compare_exchange_strong(&left, &none, number);
        }
        fclose(file);
        if (atomic_load(&left) < 0) {
            return;
        }
    }
    if (atomic_fetch_sub(&left, 1) == 1) {
        kill(getpid(), SIGKILL);
        pause();
    }
}

static void counted_fd(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length > 0) {
        path[length] = '\0';
        counted(path);
    }
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t pwrite(int fd, const void *bytes, size_t count, off_t at) {
    counted_fd(fd);
    return NEXT(pwrite)(fd, bytes, count, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t count, off64_t at) {
    counted_fd(fd);
    return NEXT(pwrite64)(fd, bytes, count, at);
}

int fsync(int fd) {
    counted_fd(fd);
    return NEXT(fsync)(fd);
}

int fdatasync(int fd) {
    counted_fd(fd);
    return NEXT(fdatasync)(fd);
}

int ftruncate(int fd, off_t length) {
    counted_fd(fd);
    return NEXT(ftruncate)(fd, length);
}

int ftruncate64(int fd, off64_t length) {
    counted_fd(fd);
    return NEXT(ftruncate64)(fd, length);
}

int unlink(const char *path) {
    counted(path);
    return NEXT(unlink)(path);
}
