// SPDX-License-Identifier: Apache-2.0
// copy-files DESTINATION-DIR SOURCE...             copies regular files of the image it runs in
// copy-files --parents DESTINATION-DIR SOURCE...   each below its source's directory; directories are made
// copy-files --disk DESTINATION-DIR [SOURCE]       copies a disk, below its directory: SOURCE, or the one file in /disk
// copy-files --self DESTINATION-DIR                copies itself, for a container whose image is someone else's
//
// The image may be hostile: paths and links of sources are resolved within the image's own file system, so that what
// is mounted into the container (the pod's volumes, tokens, /proc) cannot be copied; a disk is reached without any link,
// as it must be where its image is mounted instead. Zeros take no room in a copy. A file appears whole or not at all,
// and once it is there it may be copied again. Exit codes: 0 all copied, 1 something failed, 2 usage.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char SELF[] = "copy-files";
static const char PARTIAL[] = ".copy-files.partial";
// Where a containerDisk has its disk. Source: KubeVirt.
static const char DISK[] = "/disk";
// A try takes microseconds; others would have to rename files without a pause for milliseconds.
static const int OPEN_ATTEMPTS = 10000;

static _Noreturn void fail(const char *what, const char *reason) {
  fprintf(stderr, "copy-files: %s: %s\n", what, reason);
  exit(1);
}

static _Noreturn void usage(void) {
  fputs("usage: copy-files [--parents] DESTINATION-DIR SOURCE...\n       copy-files --disk DESTINATION-DIR [SOURCE]\n"
        "       copy-files --self DESTINATION-DIR\n", stderr);
  exit(2);
}

static const char *base_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash == NULL ? path : slash + 1;
}

// A name that a file in the destination may have.
static void check_name(const char *source) {
  const char *name = base_name(source);
  if (*name == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) fail(source, "names no file");
  if (strcmp(name, PARTIAL) == 0) fail(source, "this name is used while files are copied");
}

// A path whose directories can be made below the destination.
static void check_parents(const char *source) {
  for (const char *part = source; *part != '\0'; part += strcspn(part, "/")) {
    part += strspn(part, "/");
    size_t length = strcspn(part, "/");
    if ((length == 1 && part[0] == '.') || (length == 2 && part[0] == '.' && part[1] == '.'))
      fail(source, "has . or .. in it");
  }
}

static int open_directory(const char *path) {
  int directory = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (directory < 0) fail(path, strerror(errno));
  return directory;
}

// Opens the directory of a path below the destination, where nobody but this program has written; makes what is missing.
static int open_parent(int destination, const char *path) {
  int directory = destination;
  for (;;) {
    path += strspn(path, "/");
    size_t length = strcspn(path, "/");
    if (path[length] == '\0') return directory;
    char *name = strndup(path, length);
    if (name == NULL) fail(path, strerror(errno));
    if (mkdirat(directory, name, 0755) != 0 && errno != EEXIST) fail(path, strerror(errno));
    int next = openat(directory, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (next < 0) fail(path, strerror(errno));
    if (directory != destination) close(directory);
    free(name);
    directory = next;
    path += length;
  }
}

// Opens a file of the image: links stay below its root or are refused, other mounts and /proc's links are refused.
static int open_source(const char *path, int flags, unsigned long long links) {
  int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) fail("/", strerror(errno));
  struct open_how how = {
      // O_NONBLOCK: a FIFO would wait for a writer.
      .flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags,
      .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS | links,
  };
  int source = -1;
  // EAGAIN: something was renamed on the machine while a link led upwards, so the kernel could not be sure of it.
  for (int attempt = 0; attempt < OPEN_ATTEMPTS && source < 0; attempt++) {
    source = (int)syscall(SYS_openat2, root, path, &how, sizeof how);
    if (source < 0 && errno != EAGAIN && errno != EINTR) break;
  }
  if (source < 0 && errno == EXDEV) fail(path, "is not in the image's own file system");
  if (source < 0 && errno == ELOOP && links != 0) fail(path, "is a symbolic link, or behind one; put the file itself there");
  if (source < 0) fail(path, strerror(errno));
  close(root);
  return source;
}

// Copies one piece, but no zeros: whole blocks of them become a hole. Returns -1 where something failed.
static int copy_piece(int source, int target, off_t at, off_t end) {
  static char block[1 << 16];
  static const char zeros[sizeof block];
  while (at < end) {
    size_t wanted = end - at < (off_t)sizeof block ? (size_t)(end - at) : sizeof block;
    ssize_t got = pread(source, block, wanted, at);
    if (got == 0) errno = EIO; // the file became shorter
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return -1;
    if (memcmp(block, zeros, (size_t)got) != 0 && pwrite(target, block, (size_t)got, at) != got) return -1;
    at += got;
  }
  return 0;
}

// Copies what is data: a hole takes no room in the copy either, and a layer of an image has zeros instead of holes.
static int copy_data(int source, int target, off_t size) {
  for (off_t at = 0; at < size;) {
    off_t data = lseek(source, at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) break; // the rest is a hole
    at = data < 0 ? -1 : lseek(source, data, SEEK_HOLE);
    if (at < 0 || copy_piece(source, target, data, at) != 0) return -1;
  }
  return ftruncate(target, size);
}

// Copies to a name of its own first: nobody sees half a file, and what a killed copy left is replaced.
static void copy(int source, int directory, const char *path, mode_t mode) {
  struct stat status;
  if (fstat(source, &status) != 0) fail(path, strerror(errno));
  if (!S_ISREG(status.st_mode)) fail(path, "is no regular file");
  if (unlinkat(directory, PARTIAL, 0) != 0 && errno != ENOENT) fail(PARTIAL, strerror(errno));
  int target = openat(directory, PARTIAL, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  if (target < 0) fail(path, strerror(errno));
  if (copy_data(source, target, status.st_size) != 0 || fchmod(target, mode) != 0 || close(target) != 0 ||
      renameat(directory, PARTIAL, directory, base_name(path)) != 0) {
    const char *reason = strerror(errno);
    unlinkat(directory, PARTIAL, 0);
    fail(path, reason);
  }
}

static void copy_below(int destination, const char *path, int source) {
  int directory = open_parent(destination, path);
  copy(source, directory, path, 0444);
  if (directory != destination) close(directory);
}

// The path of the one file of a directory; names with a dot before them are nobody's disks.
static char *only_file(const char *path) {
  DIR *directory = fdopendir(open_source(path, O_DIRECTORY, RESOLVE_NO_SYMLINKS));
  if (directory == NULL) fail(path, strerror(errno));
  char *found = NULL;
  for (struct dirent *entry; (entry = readdir(directory)) != NULL;) {
    if (entry->d_name[0] == '.') continue;
    if (found != NULL) fail(path, "has more than one file; name the disk's path in the volume");
    if (asprintf(&found, "%s/%s", path, entry->d_name) < 0) fail(path, strerror(errno));
  }
  closedir(directory);
  if (found == NULL) fail(path, "has no file; put the disk there, or name its path in the volume");
  return found;
}

static void copy_disk(const char *destination, const char *path) {
  if (path == NULL) path = only_file(DISK);
  check_name(path);
  check_parents(path);
  copy_below(open_directory(destination), path, open_source(path, 0, RESOLVE_NO_SYMLINKS));
}

static void copy_self(const char *destination) {
  int source = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
  if (source < 0) fail("/proc/self/exe", strerror(errno));
  copy(source, open_directory(destination), SELF, 0555);
}

int main(int count, char **words) {
  if (count < 3) usage();
  if (strcmp(words[1], "--self") == 0) {
    if (count != 3) usage();
    copy_self(words[2]);
    return 0;
  }
  if (strcmp(words[1], "--disk") == 0) {
    if (count > 4) usage();
    copy_disk(words[2], words[3]);
    return 0;
  }
  int parents = strcmp(words[1], "--parents") == 0;
  int first = parents ? 2 : 1;
  if (words[first][0] == '-' || count < first + 2) usage();
  // All names are looked at before anything is written.
  for (int index = first + 1; index < count; index++) {
    check_name(words[index]);
    if (parents) check_parents(words[index]);
    for (int other = first + 1; other < index; other++) {
      if (!parents && strcmp(base_name(words[index]), base_name(words[other])) == 0)
        fail(words[index], "another source has the same name");
    }
  }
  int destination = open_directory(words[first]);
  for (int index = first + 1; index < count; index++) {
    int source = open_source(words[index], 0, 0);
    if (parents) copy_below(destination, words[index], source);
    else copy(source, destination, words[index], 0444);
    close(source);
  }
  return 0;
}
