/* Loaded before libc: what a process does to the files below FAULTS_ROOT is written to FAULTS_LOG, and the Nth such call
 * can be made to fail (faults_arm) or to be the last one (FAULTS_KILL_AT). See tests/faults/_disk.py. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static const char *root;
static size_t root_len;
static int log_fd = -1;
static long calls, kill_at, fail_at, fail_with, failed;


__attribute__((constructor)) static void start(void) {
  root = getenv("FAULTS_ROOT");
  root_len = root ? strlen(root) : 0;
  const char *log = getenv("FAULTS_LOG"), *at = getenv("FAULTS_KILL_AT");
  if (log) log_fd = syscall(SYS_openat, AT_FDCWD, log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  kill_at = at ? atol(at) : 0;
}

/* The Nth call from now on fails with `with`; how many did since the last time. */
long faults_arm(long nth, long with) { long was = failed; calls = 0; failed = 0; fail_at = nth; fail_with = with; return was; }
long faults_calls(void) { return calls; }

static int is_ours(const char *path) { return root && path && !strncmp(path, root, root_len); }

static const char *whole(int dir, const char *path, char *into) {
  if (!root || !path) return NULL;
  if (path[0] == '/') return path;
  char base[PATH_MAX];
  if (dir == AT_FDCWD) { if (!getcwd(base, sizeof base)) return NULL; }
  else {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
    ssize_t got = readlink(link, base, sizeof base - 1);
    if (got < 0) return NULL;
    base[got] = 0;
  }
  snprintf(into, PATH_MAX, "%s/%s", base, path);
  return into;
}

static const char *of_fd(int fd, char *into) {
  if (!root) return NULL;
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t got = readlink(link, into, PATH_MAX - 1);
  if (got < 0) return NULL;
  into[got] = 0;
  return is_ours(into) ? into : NULL;
}

/* Whether this call is to fail. Counts it, and ends the process where it was to be the last. */
static int fails(void) {
  long now = __sync_add_and_fetch(&calls, 1);
  if (kill_at && now == kill_at) syscall(SYS_kill, getpid(), SIGKILL);
  if (fail_at && now == fail_at) { __sync_add_and_fetch(&failed, 1); errno = fail_with; return 1; }
  return 0;
}

static void note(char op, uint64_t ino, uint64_t at, const char *one, const void *data, uint32_t size) {
  if (log_fd < 0) return;
  struct { char op; uint32_t name, size; uint64_t ino, at; } __attribute__((packed)) head = {op, strlen(one), size, ino, at};
  struct iovec parts[3] = {{&head, sizeof head}, {(void *)one, head.name}, {(void *)data, size}};
  pthread_mutex_lock(&gate);
  syscall(SYS_writev, log_fd, parts, 3);
  pthread_mutex_unlock(&gate);
}

static uint64_t ino_of(int fd) { struct stat seen; return fstat(fd, &seen) ? 0 : seen.st_ino; }

static int opened(int dir, const char *path, int flags, mode_t mode) {
  char into[PATH_MAX];
  const char *name = whole(dir, path, into);
  int ours = is_ours(name), fresh = 0;
  if (ours && (flags & (O_CREAT | O_TRUNC))) {
    struct stat seen;
    fresh = stat(name, &seen) != 0;
    if (fails()) return -1;
  }
  int fd = syscall(SYS_openat, dir, path, flags, mode);
  if (ours && fd >= 0 && (fresh || (flags & O_TRUNC)) && !(flags & O_DIRECTORY)) note(fresh ? 'c' : 't', ino_of(fd), 0, name, "", 0);
  return fd;
}

#define MODE mode_t mode = 0; if (flags & (O_CREAT | __O_TMPFILE)) { va_list more; va_start(more, flags); mode = va_arg(more, mode_t); va_end(more); }
int open(const char *path, int flags, ...) { MODE return opened(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE return opened(AT_FDCWD, path, flags | O_LARGEFILE, mode); }
int openat(int dir, const char *path, int flags, ...) { MODE return opened(dir, path, flags, mode); }
int openat64(int dir, const char *path, int flags, ...) { MODE return opened(dir, path, flags | O_LARGEFILE, mode); }

static ssize_t put(int fd, const void *data, size_t size, off_t at, int here) {
  char name[PATH_MAX];
  const char *ours = of_fd(fd, name);
  if (ours && fails()) return -1;
  if (here) { at = lseek(fd, 0, SEEK_CUR); int flags = ours ? fcntl(fd, F_GETFL) : 0; if (flags & O_APPEND) { struct stat seen; fstat(fd, &seen); at = seen.st_size; } }
  ssize_t done = here ? syscall(SYS_write, fd, data, size) : syscall(SYS_pwrite64, fd, data, size, at);
  if (ours && done > 0) note('w', ino_of(fd), at, ours, data, done);
  return done;
}
ssize_t write(int fd, const void *data, size_t size) { return put(fd, data, size, 0, 1); }
ssize_t pwrite(int fd, const void *data, size_t size, off_t at) { return put(fd, data, size, at, 0); }
ssize_t pwrite64(int fd, const void *data, size_t size, off64_t at) { return put(fd, data, size, at, 0); }
ssize_t writev(int fd, const struct iovec *parts, int count) {
  char name[PATH_MAX];
  if (!of_fd(fd, name)) return syscall(SYS_writev, fd, parts, count);
  ssize_t sum = 0;
  for (int n = 0; n < count; n++) {
    ssize_t done = put(fd, parts[n].iov_base, parts[n].iov_len, 0, 1);
    if (done < 0) return sum ? sum : -1;
    sum += done;
    if ((size_t)done < parts[n].iov_len) break;
  }
  return sum;
}

static int cut(int fd, off_t size) {
  char name[PATH_MAX];
  const char *ours = of_fd(fd, name);
  if (ours && fails()) return -1;
  int done = syscall(SYS_ftruncate, fd, size);
  if (ours && !done) note('l', ino_of(fd), size, ours, "", 0);
  return done;
}
int ftruncate(int fd, off_t size) { return cut(fd, size); }
int ftruncate64(int fd, off64_t size) { return cut(fd, size); }

static int flushed(int fd) {
  char name[PATH_MAX];
  const char *ours = of_fd(fd, name);
  if (ours && fails()) return -1;
  if (ours) note('s', ino_of(fd), 0, ours, "", 0);
  return 0; /* the disk of a test need not turn */
}
int fsync(int fd) { return flushed(fd); }
int fdatasync(int fd) { return flushed(fd); }

static int moved(char op, int from_dir, const char *from, int to_dir, const char *to, unsigned flags) {
  char one[PATH_MAX], two[PATH_MAX];
  const char *a = whole(from_dir, from, one), *b = whole(to_dir, to, two);
  int ours = is_ours(a) || is_ours(b);
  if (ours && fails()) return -1;
  long done = op == 'r' ? syscall(SYS_renameat2, from_dir, from, to_dir, to, flags) : syscall(SYS_linkat, from_dir, from, to_dir, to, flags);
  if (ours && !done) note(op, 0, 0, a, b, strlen(b));
  return done;
}
int rename(const char *from, const char *to) { return moved('r', AT_FDCWD, from, AT_FDCWD, to, 0); }
int renameat(int a, const char *from, int b, const char *to) { return moved('r', a, from, b, to, 0); }
int renameat2(int a, const char *from, int b, const char *to, unsigned flags) { return moved('r', a, from, b, to, flags); }
int link(const char *from, const char *to) { return moved('k', AT_FDCWD, from, AT_FDCWD, to, 0); }
int linkat(int a, const char *from, int b, const char *to, int flags) { return moved('k', a, from, b, to, flags); }

static int gone(int dir, const char *path, int flags) {
  char into[PATH_MAX];
  const char *name = whole(dir, path, into);
  int ours = is_ours(name);
  if (ours && fails()) return -1;
  struct stat seen;
  uint64_t ino = ours && !lstat(name, &seen) ? seen.st_ino : 0;
  int done = syscall(SYS_unlinkat, dir, path, flags);
  if (ours && !done) note('u', ino, 0, name, "", 0);
  return done;
}
int unlink(const char *path) { return gone(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return gone(AT_FDCWD, path, AT_REMOVEDIR); }
int unlinkat(int dir, const char *path, int flags) { return gone(dir, path, flags); }

static int made(int dir, const char *path, mode_t mode) {
  char into[PATH_MAX];
  const char *name = whole(dir, path, into);
  int ours = is_ours(name);
  if (ours && fails()) return -1;
  int done = syscall(SYS_mkdirat, dir, path, mode);
  if (ours && !done) note('d', 0, 0, name, "", 0);
  return done;
}
int mkdir(const char *path, mode_t mode) { return made(AT_FDCWD, path, mode); }
int mkdirat(int dir, const char *path, mode_t mode) { return made(dir, path, mode); }
