// Intercepts the file operations of a process (LD_PRELOAD) on paths that begin with KEYRACK_SHIM_PREFIX.
//
// Recording (KEYRACK_SHIM_LOG): every write, truncation, removal and sync is appended to the log as
//   u32 op, u32 file, u64 offset or sync number, u32 length, then that many bytes
// with op 1 write, 2 truncate (offset = length), 3 sync begins, 4 sync has ended, 5 removed, 6 a file's name.
// A disk may lose a write unless a sync that began after it has ended. KEYRACK_SHIM_LIE=1 records no sync;
// KEYRACK_SHIM_SYNC_US delays each, as a real disk does, so that more cuts happen during one.
//
// Failing (KEYRACK_SHIM_CONTROL): a mapped file of six i64, written by the campaign:
//   [0] op to fail (1 write, 2 sync)  [1] fail the k-th from now  [2] 1 = and all after it  [3] errno
//   [4] how many failed  [5] how many were seen
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define FDS 65536
#define FILES 64

enum { WRITE = 1, TRUNCATE, SYNC_BEGIN, SYNC_END, REMOVE, NAME };

static const char *prefix;
static int lie, log_fd = -1;
static useconds_t slow_us;
static volatile int64_t *control;
static char *names[FILES];
static int name_count;
static int16_t file_of[FDS]; // 0 = not ours, else index + 1
static uint64_t syncs;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static ssize_t (*real_write)(int, const void *, size_t);
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);
static int (*real_open)(const char *, int, ...);
static int (*real_openat)(int, const char *, int, ...);
static int (*real_close)(int);
static int (*real_fsync)(int);
static int (*real_fdatasync)(int);
static int (*real_ftruncate)(int, off_t);
static int (*real_unlink)(const char *);

__attribute__((constructor)) static void start(void) {
  real_write = dlsym(RTLD_NEXT, "write");
  real_pwrite = dlsym(RTLD_NEXT, "pwrite64");
  real_open = dlsym(RTLD_NEXT, "open64");
  real_openat = dlsym(RTLD_NEXT, "openat64");
  real_close = dlsym(RTLD_NEXT, "close");
  real_fsync = dlsym(RTLD_NEXT, "fsync");
  real_fdatasync = dlsym(RTLD_NEXT, "fdatasync");
  real_ftruncate = dlsym(RTLD_NEXT, "ftruncate64");
  real_unlink = dlsym(RTLD_NEXT, "unlink");
  prefix = getenv("KEYRACK_SHIM_PREFIX");
  lie = getenv("KEYRACK_SHIM_LIE") != NULL;
  const char *slow = getenv("KEYRACK_SHIM_SYNC_US");
  if (slow) slow_us = (useconds_t)atoi(slow);
  const char *log = getenv("KEYRACK_SHIM_LOG");
  if (log) log_fd = real_open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  const char *path = getenv("KEYRACK_SHIM_CONTROL");
  int fd = path ? real_open(path, O_RDWR | O_CLOEXEC) : -1;
  if (fd >= 0) {
    void *at = mmap(NULL, 48, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at != MAP_FAILED) control = at;
    real_close(fd);
  }
}

static void record(uint32_t op, int file, uint64_t offset, const void *data, uint32_t length) {
  if (log_fd < 0) return;
  struct { uint32_t op, file; uint64_t offset; uint32_t length; } __attribute__((packed)) head = {op, (uint32_t)file, offset, length};
  struct iovec parts[2] = {{&head, sizeof head}, {(void *)data, length}};
  if (writev(log_fd, parts, length ? 2 : 1) < 0) abort();
}

static int index_of(const char *path) {
  for (int i = 0; i < name_count; i++) if (!strcmp(names[i], path)) return i;
  if (name_count == FILES) abort();
  names[name_count] = strdup(path);
  record(NAME, name_count, 0, path, (uint32_t)strlen(path));
  return name_count++;
}

// The -shm file is shared memory, rebuilt after every crash: no disk keeps it.
static int ours(const char *path) {
  if (!prefix || !path || strncmp(path, prefix, strlen(prefix))) return 0;
  size_t length = strlen(path);
  return length < 4 || strcmp(path + length - 4, "-shm");
}

static int file(int fd) { return fd >= 0 && fd < FDS ? file_of[fd] : 0; }

static int fails(int op) {
  if (!control || control[0] != op) return 0;
  int64_t seen = __atomic_add_fetch(&control[5], 1, __ATOMIC_SEQ_CST);
  if (seen != control[1] && !(control[2] && seen > control[1])) return 0;
  __atomic_add_fetch(&control[4], 1, __ATOMIC_SEQ_CST);
  errno = (int)control[3];
  return 1;
}

static int opened(int fd, const char *path) {
  if (fd >= 0 && fd < FDS) {
    pthread_mutex_lock(&lock);
    file_of[fd] = ours(path) ? (int16_t)(index_of(path) + 1) : 0;
    pthread_mutex_unlock(&lock);
  }
  return fd;
}

#define MODE_OF(flags) \
  mode_t mode = 0; \
  if ((flags) & (O_CREAT | O_TMPFILE)) { va_list list; va_start(list, flags); mode = va_arg(list, mode_t); va_end(list); }

int open(const char *path, int flags, ...) { MODE_OF(flags) return opened(real_open(path, flags, mode), path); }
int open64(const char *path, int flags, ...) { MODE_OF(flags) return opened(real_open(path, flags, mode), path); }
int openat(int dir, const char *path, int flags, ...) { MODE_OF(flags) return opened(real_openat(dir, path, flags, mode), path); }
int openat64(int dir, const char *path, int flags, ...) { MODE_OF(flags) return opened(real_openat(dir, path, flags, mode), path); }

int close(int fd) {
  if (file(fd)) {
    pthread_mutex_lock(&lock);
    file_of[fd] = 0;
    pthread_mutex_unlock(&lock);
  }
  return real_close(fd);
}

static ssize_t written(int fd, const void *data, size_t length, off_t offset) {
  if (fails(WRITE)) return -1;
  pthread_mutex_lock(&lock);
  ssize_t done = real_pwrite(fd, data, length, offset);
  if (done > 0) record(WRITE, file(fd) - 1, (uint64_t)offset, data, (uint32_t)done);
  pthread_mutex_unlock(&lock);
  return done;
}

ssize_t pwrite64(int fd, const void *data, size_t length, off_t offset) {
  return file(fd) ? written(fd, data, length, offset) : real_pwrite(fd, data, length, offset);
}
ssize_t pwrite(int fd, const void *data, size_t length, off_t offset) { return pwrite64(fd, data, length, offset); }

ssize_t write(int fd, const void *data, size_t length) {
  if (!file(fd)) return real_write(fd, data, length);
  off_t at = lseek(fd, 0, SEEK_CUR);
  ssize_t done = written(fd, data, length, at);
  if (done > 0) lseek(fd, at + done, SEEK_SET);
  return done;
}

static int truncated(int fd, off_t length) {
  pthread_mutex_lock(&lock);
  int result = real_ftruncate(fd, length);
  if (result == 0) record(TRUNCATE, file(fd) - 1, (uint64_t)length, NULL, 0);
  pthread_mutex_unlock(&lock);
  return result;
}
int ftruncate64(int fd, off_t length) { return file(fd) ? truncated(fd, length) : real_ftruncate(fd, length); }
int ftruncate(int fd, off_t length) { return ftruncate64(fd, length); }

// Only what was written before a sync began is safe when it ends; other threads continue writing.
static int synced(int fd, int (*real)(int)) {
  if (!file(fd)) return real(fd);
  if (fails(2)) return -1;
  if (lie) return 0;
  int index = file(fd) - 1;
  pthread_mutex_lock(&lock);
  uint64_t number = ++syncs;
  record(SYNC_BEGIN, index, number, NULL, 0);
  pthread_mutex_unlock(&lock);
  if (slow_us) usleep(slow_us);
  int result = real(fd);
  pthread_mutex_lock(&lock);
  if (result == 0) record(SYNC_END, index, number, NULL, 0);
  pthread_mutex_unlock(&lock);
  return result;
}
int fsync(int fd) { return synced(fd, real_fsync); }
int fdatasync(int fd) { return synced(fd, real_fdatasync); }

int unlink(const char *path) {
  if (!ours(path)) return real_unlink(path);
  pthread_mutex_lock(&lock);
  int result = real_unlink(path);
  if (result == 0) record(REMOVE, index_of(path), 0, NULL, 0);
  pthread_mutex_unlock(&lock);
  return result;
}
