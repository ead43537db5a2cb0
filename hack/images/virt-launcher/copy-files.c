// SPDX-License-Identifier: Apache-2.0
// copy-files DESTINATION-DIR SOURCE...             copies regular files of the image in which it runs
// copy-files --parents DESTINATION-DIR SOURCE...   copies them with their directories, which are created below the destination
// copy-files --disk DESTINATION-DIR [SOURCE]       copies a disk with its directory: SOURCE, or the only file in /disk
// copy-files --self DESTINATION-DIR                copies itself, for a container with another image
//
// The image may be hostile. Paths and links of sources are resolved within the image's own file system, so that files that
// are mounted into the container (the pod's volumes, tokens, /proc) cannot be copied. The path of a disk must not contain
// links, because prepare-disks accepts none in an image that is mounted instead. Blocks of zeros become holes in the copy.
// Each copy is atomic and may be repeated. Exit codes: 0 all files are copied, 1 failure, 2 usage.
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
// Directory of the disk in a containerDisk image. Source: KubeVirt.
static const char DISK[] = "/disk";
// An attempt takes microseconds, so all attempts fail only if other processes rename files continuously for milliseconds.
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

// Checks that the source's name is a valid file name in the destination.
static void check_name(const char *source) {
  const char *name = base_name(source);
  if (*name == '\0' || strcmp(name, ".") == 0 || strcmp(name, "..") == 0) fail(source, "names no file");
  if (strcmp(name, PARTIAL) == 0) fail(source, "this name is used while files are copied");
}

// Checks that the path contains no . or .., so that its directories are created below the destination.
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

// Opens the directory of a path below the destination, and creates missing directories. Only this program writes there.
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

// Opens a file of the image. Rejects other mounts and magic links. Resolves symbolic links below the root, or rejects them.
static int open_source(const char *path, int flags, unsigned long long links) {
  int root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) fail("/", strerror(errno));
  struct open_how how = {
      // O_NONBLOCK, because opening a FIFO would wait for a writer.
      .flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | flags,
      .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_XDEV | RESOLVE_NO_MAGICLINKS | links,
  };
  int source = -1;
  // The kernel returns EAGAIN if any file was renamed on the host while it resolved a path with "..".
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

// Copies a range of data. Blocks of zeros become holes. Returns -1 on failure.
static int copy_piece(int source, int target, off_t at, off_t end) {
  static char block[1 << 16];
  static const char zeros[sizeof block];
  while (at < end) {
    size_t wanted = end - at < (off_t)sizeof block ? (size_t)(end - at) : sizeof block;
    ssize_t got = pread(source, block, wanted, at);
    if (got == 0) errno = EIO; // the file was truncated meanwhile
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return -1;
    if (memcmp(block, zeros, (size_t)got) != 0 && pwrite(target, block, (size_t)got, at) != got) return -1;
    at += got;
  }
  return 0;
}

// Copies data, and preserves holes. copy_piece also detects blocks of zeros, because image layers cannot contain holes.
static int copy_data(int source, int target, off_t size) {
  for (off_t at = 0; at < size;) {
    off_t data = lseek(source, at, SEEK_DATA);
    if (data < 0 && errno == ENXIO) break; // the rest is a hole
    at = data < 0 ? -1 : lseek(source, data, SEEK_HOLE);
    if (at < 0 || copy_piece(source, target, data, at) != 0) return -1;
  }
  return ftruncate(target, size);
}

// Copies to a temporary name, then renames the copy, so that no incomplete file is visible. Replaces the rest of a killed copy.
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

// Returns the path of the only file in a directory. Ignores hidden files.
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
  // Checks all names before it writes any file.
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
