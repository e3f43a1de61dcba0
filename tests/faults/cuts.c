/* Counts what a process makes durable below one folder, and ends it, or fails it, at a given count.
 *
 * The kernel hands over every system call that may change a file (seccomp), whoever makes it: Python,
 * Lance, any thread, with or without the C library. The handler makes the call itself, one at a time,
 * and counts it if it succeeded and changed something below the folder. So when the process ends,
 * exactly the counted changes have happened. Each of them is a line of the log.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

enum { CREATE = 1, WRITE = 2, LINK = 4, RENAME = 8, UNLINK = 16, FOLDER = 32 };
enum { COUNT, KILL, FAIL_ONCE, FAIL_ON };
enum { PATH_BYTES = 4096 };

/* The one place that the filter lets through. */
long cuts_syscall(long number, long a, long b, long c, long d, long e, long f);
extern char cuts_return[];

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#define REGISTER(context, at) \
  (context)->uc_mcontext.gregs[(const int[]){REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9}[at]]
#define RESULT(context) (context)->uc_mcontext.gregs[REG_RAX]
__asm__(".text\n.globl cuts_syscall\n.globl cuts_return\ncuts_syscall:\n"
        "mov %rdi, %rax\nmov %rsi, %rdi\nmov %rdx, %rsi\nmov %rcx, %rdx\n"
        "mov %r8, %r10\nmov %r9, %r8\nmov 8(%rsp), %r9\nsyscall\ncuts_return:\nret\n");
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#define REGISTER(context, at) (context)->uc_mcontext.regs[at]
#define RESULT(context) (context)->uc_mcontext.regs[0]
__asm__(".text\n.globl cuts_syscall\n.globl cuts_return\ncuts_syscall:\n"
        "mov x8, x0\nmov x0, x1\nmov x1, x2\nmov x2, x3\n"
        "mov x3, x4\nmov x4, x5\nmov x5, x6\nsvc #0\ncuts_return:\nret\n");
#else
#error "no system call stub for this processor"
#endif

/* A system call: where the folder and the path it changes stand among the arguments (-1: none). A
 * path that is given another name stands before them. */
struct call { long number; int kind; const char *name; int folder, path; };
static const struct call CALLS[] = {
    {SYS_openat, CREATE, "create", 0, 1},
    {SYS_renameat, RENAME, "rename", 2, 3},
    {SYS_renameat2, RENAME, "rename", 2, 3},
    {SYS_linkat, LINK, "link", 2, 3},
    {SYS_symlinkat, LINK, "symlink", 1, 2},
    {SYS_unlinkat, UNLINK, "unlink", 0, 1},
    {SYS_mkdirat, FOLDER, "mkdir", 0, 1},
    {SYS_truncate, WRITE, "truncate", -1, 0},
    {SYS_write, WRITE, "write", 0, -1},
    {SYS_pwrite64, WRITE, "write", 0, -1},
    {SYS_writev, WRITE, "write", 0, -1},
    {SYS_pwritev, WRITE, "write", 0, -1},
    {SYS_pwritev2, WRITE, "write", 0, -1},
    {SYS_ftruncate, WRITE, "truncate", 0, -1},
    {SYS_fallocate, WRITE, "allocate", 0, -1},
    {SYS_sendfile, WRITE, "write", 0, -1},
    {SYS_copy_file_range, WRITE, "write", 2, -1},
#ifdef SYS_open
    {SYS_open, CREATE, "create", -1, 0},
    {SYS_creat, CREATE, "create", -1, 0},
    {SYS_rename, RENAME, "rename", -1, 1},
    {SYS_link, LINK, "link", -1, 1},
    {SYS_symlink, LINK, "symlink", -1, 1},
    {SYS_unlink, UNLINK, "unlink", -1, 0},
    {SYS_rmdir, UNLINK, "unlink", -1, 0},
    {SYS_mkdir, FOLDER, "mkdir", -1, 0},
#endif
};
enum { CALLS_TOLD = sizeof CALLS / sizeof *CALLS };
/* What would change files past us: refused, so that its user falls back on what is told. */
static const long REFUSED[] = {SYS_io_uring_setup, SYS_openat2};
enum { CALLS_REFUSED = sizeof REFUSED / sizeof *REFUSED };

static char root[PATH_BYTES];
static size_t root_length;
static long cut, counted;
static int how, failure, kinds, log_file;
static volatile char busy;

static void lock(void) {
  while (__atomic_test_and_set(&busy, __ATOMIC_ACQUIRE)) cuts_syscall(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
}

static void unlock(void) { __atomic_clear(&busy, __ATOMIC_RELEASE); }

static void die(void) {
  for (;;) cuts_syscall(SYS_kill, cuts_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0), SIGKILL, 0, 0, 0, 0);
}

static int path_of(long descriptor, char *found) {
  char name[64];
  snprintf(name, sizeof name, "/proc/self/fd/%ld", descriptor);
  ssize_t length = readlink(name, found, PATH_BYTES - 1);
  found[length < 0 ? 0 : length] = 0;
  return length > 0;
}

/* The absolute spelling of a path, and whether it lies below the folder. */
static int is_below(long folder, const char *path, char *whole) {
  if (!path) return 0;
  if (path[0] == '/') {
    snprintf(whole, PATH_BYTES, "%s", path);
  } else {
    char base[PATH_BYTES] = "";
    if (folder == AT_FDCWD ? !getcwd(base, sizeof base) : !path_of(folder, base)) return 0;
    if (snprintf(whole, PATH_BYTES, *path ? "%s/%s" : "%s", base, path) >= PATH_BYTES) return 0;
  }
  return !strncmp(whole, root, root_length) && (whole[root_length] == '/' || !whole[root_length]);
}

/* Whether a call that succeeds will have changed something. */
static int would_change(const struct call *call, const long *arguments, const char *whole) {
  struct stat found;
  int there = !fstatat(AT_FDCWD, whole, &found, AT_SYMLINK_NOFOLLOW);
  long flags = call->number == SYS_openat ? arguments[2] : O_CREAT | O_TRUNC | O_WRONLY;
#ifdef SYS_open
  if (call->number == SYS_open) flags = arguments[1];
#endif
  switch (call->kind) {
    case CREATE: return flags & O_CREAT && !there ? 1 : there && flags & O_TRUNC;
    case FOLDER: return !there;
    case UNLINK: return there;
    default: return 1;
  }
}

static const char *below_root(const char *whole) {
  return strlen(whole) > root_length ? whole + root_length + 1 : ".";
}

static void record(const struct call *call, const long *a, const char *whole, long result) {
  char line[2 * PATH_BYTES + 64], source[PATH_BYTES] = "";
  if (call->kind == RENAME || (call->kind == LINK && call->number != SYS_symlinkat)) {
    long folder = call->folder < 0 ? AT_FDCWD : (int)a[0];
    if (!is_below(folder, (const char *)a[call->folder < 0 ? 0 : 1], source)) source[0] = 0;
  }
  long size = call->kind == WRITE ? result : 0;
  int length = snprintf(line, sizeof line, "%s\t%ld\t%s\t%s\n", call->name, size,
                        below_root(whole), *source ? below_root(source) : "");
  if (cuts_syscall(SYS_write, log_file, (long)line, length, 0, 0, 0) != length) die();
}

static long make(const struct call *call, const long *a) {
  char whole[PATH_BYTES];
  long result;
  long folder = call->folder < 0 ? AT_FDCWD : (int)a[call->folder];
  if (!is_below(folder, call->path < 0 ? "" : (const char *)a[call->path], whole))
    return cuts_syscall(call->number, a[0], a[1], a[2], a[3], a[4], a[5]);
  lock();
  int changes = would_change(call, a, whole), counts = changes && kinds & call->kind;
  if (counts && how == KILL && !cut) die();
  int fails = counts && ((how == FAIL_ONCE && counted == cut) || (how == FAIL_ON && counted >= cut));
  /* Space is taken by what is made; deleting works on a full disk. */
  if (fails && failure == ENOSPC && call->kind == UNLINK) fails = 0;
  result = fails ? -failure : cuts_syscall(call->number, a[0], a[1], a[2], a[3], a[4], a[5]);
  if (changes && result >= 0) record(call, a, whole, result);
  if (counts && (result >= 0 || fails)) {
    counted++;
    if (how == KILL && counted == cut) die();
  }
  unlock();
  return result;
}

static void handle(int signal_number, siginfo_t *info, void *given) {
  ucontext_t *context = given;
  long a[6];
  int saved = errno;
  (void)signal_number;
  for (int at = 0; at < 6; at++) a[at] = (long)REGISTER(context, at);
  for (int at = 0; at < CALLS_TOLD; at++)
    if (CALLS[at].number == info->si_syscall) {
      RESULT(context) = make(&CALLS[at], a);
      break;
    }
  errno = saved;
}

static int install(void) {
  struct sock_filter program[8 + 2 * (CALLS_TOLD + CALLS_REFUSED)];
  unsigned at = 0;
  unsigned long back = (unsigned long)cuts_return;
#define ADD(...) program[at++] = (struct sock_filter)__VA_ARGS__
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define SAME(value, then, otherwise) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, then, otherwise)
#define ANSWER(value) BPF_STMT(BPF_RET | BPF_K, value)
  ADD(LOAD(nr));
  for (int call = 0; call < CALLS_REFUSED; call++) {
    ADD(SAME((unsigned)REFUSED[call], 0, 1));
    ADD(ANSWER(SECCOMP_RET_ERRNO | ENOSYS));
  }
  for (int call = 0; call < CALLS_TOLD; call++)
    ADD(SAME((unsigned)CALLS[call].number, (unsigned char)(CALLS_TOLD - call), 0));
  ADD(ANSWER(SECCOMP_RET_ALLOW));
  /* A call that is told, unless it is the handler's own. */
  ADD(LOAD(instruction_pointer));
  ADD(SAME((unsigned)back, 0, 3));
  ADD(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, instruction_pointer) + 4));
  ADD(SAME((unsigned)(back >> 32), 0, 1));
  ADD(ANSWER(SECCOMP_RET_ALLOW));
  ADD(ANSWER(SECCOMP_RET_TRAP));
  struct sock_fprog filter = {(unsigned short)at, program};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return errno;
  return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) ? errno : 0;
}

/* Count from now on what this process, and every thread it starts from now on, does below a folder.
 * Returns 0, or the error of a kernel that does not allow this. */
int cuts_arm(const char *folder, int what, long at, int error, int which, int log) {
  struct sigaction action = {.sa_sigaction = handle, .sa_flags = SA_SIGINFO | SA_NODEFER};
  snprintf(root, sizeof root, "%s", folder);
  root_length = strlen(root);
  how = what; cut = at; failure = error; kinds = which; log_file = log; counted = 0;
  if (sigaction(SIGSYS, &action, NULL)) return errno;
  return install();
}
