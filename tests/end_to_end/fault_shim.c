// Loaded before the C library (LD_PRELOAD), this makes single file operations of an unchanged program fail,
// transfer less, return a flipped bit, take longer or be the last thing the process ever did. _support.py
// compiles it and writes the rules. It is no model of a disk: what a power cut does to unsynced data is not shown.
//
// FAULT_RULES holds rules "call|path|at|action|argument" separated by newlines:
//   call      pread, pwrite, fsync, rename, fallocate, or any
//   path      part of the path of the file ("old\nnew" for a rename); empty matches all
//   at        fires at the at-th matching call, counted from 1; 0 = at every one
//   action    error (argument: errno), short (argument: bytes), flip, delay (argument: microseconds), skip, kill
// FAULT_COUNTS names a file that gets the number of matching calls of every rule at a regular exit.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

enum { kMaxRules = 8, kPathBytes = 4096 };

struct rule {
  char call[16];
  char path[256];
  long at;
  char action[16];
  long argument;
  atomic_long seen;
};

static struct rule rules[kMaxRules];
static int rule_count;

__attribute__((constructor)) static void read_rules(void) {
  const char* text = getenv("FAULT_RULES");
  if (text == NULL) return;
  char* copy = strdup(text);
  char* rest = copy;
  for (char* line; (line = strsep(&rest, "\n")) != NULL && rule_count < kMaxRules;) {
    if (*line == '\0') continue;
    struct rule* rule = &rules[rule_count++];
    snprintf(rule->call, sizeof rule->call, "%s", strsep(&line, "|"));
    snprintf(rule->path, sizeof rule->path, "%s", strsep(&line, "|"));
    rule->at = atol(strsep(&line, "|"));
    snprintf(rule->action, sizeof rule->action, "%s", strsep(&line, "|"));
    rule->argument = atol(line);
  }
  free(copy);
}

__attribute__((destructor)) static void write_counts(void) {
  const char* name = getenv("FAULT_COUNTS");
  FILE* file = name == NULL ? NULL : fopen(name, "w");
  if (file == NULL) return;
  for (int i = 0; i < rule_count; ++i) fprintf(file, "%ld\n", atomic_load(&rules[i].seen));
  fclose(file);
}

// Delays and kills happen here; any other action is left to the caller.
static const struct rule* fired(const char* call, const char* path) {
  const struct rule* found = NULL;
  for (int i = 0; i < rule_count; ++i) {
    struct rule* rule = &rules[i];
    if (strcmp(rule->call, call) != 0 && strcmp(rule->call, "any") != 0) continue;
    if (strstr(path, rule->path) == NULL) continue;
    const long number = atomic_fetch_add(&rule->seen, 1) + 1;
    if (rule->at != 0 && rule->at != number) continue;
    if (strcmp(rule->action, "delay") == 0) {
      const struct timespec time = {rule->argument / 1000000, rule->argument % 1000000 * 1000};
      nanosleep(&time, NULL);
    } else if (strcmp(rule->action, "kill") == 0) {
      kill(getpid(), SIGKILL);
    } else if (found == NULL) {  // the first rule wins
      found = rule;
    }
  }
  return found;
}

static const struct rule* fired_for_file(const char* call, int fd) {
  char link[64];
  char path[kPathBytes];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t length = readlink(link, path, sizeof path - 1);
  path[length < 0 ? 0 : length] = '\0';
  return fired(call, path);
}

static int is(const struct rule* rule, const char* action) {
  return rule != NULL && strcmp(rule->action, action) == 0;
}

static size_t shortened(const struct rule* rule, size_t count) {
  return is(rule, "short") && count > (size_t)rule->argument ? (size_t)rule->argument : count;
}

ssize_t pread(int fd, void* buffer, size_t count, off_t offset) {
  ssize_t (*next)(int, void*, size_t, off_t) = dlsym(RTLD_NEXT, "pread");
  const struct rule* rule = fired_for_file("pread", fd);
  if (is(rule, "error")) {
    errno = (int)rule->argument;
    return -1;
  }
  const ssize_t done = next(fd, buffer, shortened(rule, count), offset);
  if (is(rule, "flip") && done > 0) ((unsigned char*)buffer)[done / 2] ^= 0x10;
  return done;
}

ssize_t pwrite(int fd, const void* buffer, size_t count, off_t offset) {
  ssize_t (*next)(int, const void*, size_t, off_t) = dlsym(RTLD_NEXT, "pwrite");
  const struct rule* rule = fired_for_file("pwrite", fd);
  if (is(rule, "error")) {
    errno = (int)rule->argument;
    return -1;
  }
  return next(fd, buffer, shortened(rule, count), offset);
}

int fsync(int fd) {
  int (*next)(int) = dlsym(RTLD_NEXT, "fsync");
  const struct rule* rule = fired_for_file("fsync", fd);
  if (is(rule, "skip")) return 0;
  if (!is(rule, "error")) return next(fd);
  errno = (int)rule->argument;
  return -1;
}

int rename(const char* from, const char* to) {
  int (*next)(const char*, const char*) = dlsym(RTLD_NEXT, "rename");
  char path[2 * kPathBytes];
  snprintf(path, sizeof path, "%s\n%s", from, to);
  const struct rule* rule = fired("rename", path);
  if (!is(rule, "error")) return next(from, to);
  errno = (int)rule->argument;
  return -1;
}

int fallocate(int fd, int mode, off_t offset, off_t length) {
  int (*next)(int, int, off_t, off_t) = dlsym(RTLD_NEXT, "fallocate");
  const struct rule* rule = fired_for_file("fallocate", fd);
  if (!is(rule, "error")) return next(fd, mode, offset, length);
  errno = (int)rule->argument;
  return -1;
}

ssize_t pread64(int fd, void* buffer, size_t count, off_t offset) { return pread(fd, buffer, count, offset); }
ssize_t pwrite64(int fd, const void* buffer, size_t count, off_t offset) { return pwrite(fd, buffer, count, offset); }
int fallocate64(int fd, int mode, off_t offset, off_t length) { return fallocate(fd, mode, offset, length); }
