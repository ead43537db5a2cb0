// SPDX-License-Identifier: Apache-2.0
// A CNI plugin that assigns a NIC the path of a vhost-user socket, which the node's dataplane creates. It reads only
// standard input and its environment, and writes the file with device information. It is one static program.
// Source: CNI SPEC 1.1 sections 2 to 5; NPWG device information 1.1.0 sections 4 and 5.
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/** Directory with one directory per pod, which the launcher and the dataplane share under the same path. */
#define ROOT "/run/patchbay/vhost-user"
/** Maximum size of a configuration, which usually has a few hundred bytes. */
#define CONFIG_MAX (256 * 1024)
/** Maximum bytes of a name that becomes a file name. */
#define NAME_MAX_BYTES 64
/** Resource that a pod requests to get a directory for its sockets. */
#define RESOURCE "vhost-user.patchbay.io/sockets"

/** Error codes; plugins define those from 100 on. Source: CNI SPEC 1.1 section 5, "Error". */
enum { BAD_ENVIRONMENT = 4, IO_FAILURE = 5, BAD_CONFIG = 7, NO_DIRECTORY = 100 };

/** Prints a CNI error and exits. Arguments contain no quotes, because names are checked first. */
__attribute__((noreturn, format(printf, 2, 3))) static void fail(int code, const char *format, ...) {
  va_list arguments;
  printf("{\"code\":%d,\"msg\":\"", code);
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  printf("\"}\n");
  exit(1);
}

static char *read_config(void) {
  static char config[CONFIG_MAX + 1];
  size_t length = fread(config, 1, CONFIG_MAX, stdin);
  if (length == CONFIG_MAX || ferror(stdin)) fail(IO_FAILURE, "the network configuration cannot be read");
  config[length] = '\0';
  return config;
}

static const char *after_blanks(const char *at) { return at + strspn(at, " \t\r\n"); }

/** Returns the position after the JSON string that begins at `at`; NULL if it is unterminated. */
static const char *after_string(const char *at) {
  for (at++; *at != '\0'; at++) {
    if (*at == '"') return at + 1;
    if (*at == '\\' && *++at == '\0') return NULL;
  }
  return NULL;
}

/** Returns the position after the JSON value that begins at `at`; NULL if it is unterminated. */
static const char *after_value(const char *at) {
  if (*at == '"') return after_string(at);
  if (*at != '{' && *at != '[') return at + strcspn(at, ",}] \t\r\n");
  int depth = 0;
  while (at != NULL && *at != '\0') {
    if (*at == '"') {
      at = after_string(at);
      continue;
    }
    depth += *at == '{' || *at == '[' ? 1 : *at == '}' || *at == ']' ? -1 : 0;
    at++;
    if (depth == 0) return at;
  }
  return NULL;
}

/** Returns the value of a member of the object at `at`; NULL if it is missing or `at` is not an object. */
static const char *member(const char *at, const char *key) {
  if (at == NULL || *at != '{') return NULL;
  size_t length = strlen(key);
  for (at = after_blanks(at + 1); *at == '"'; at = after_blanks(at + 1)) {
    const char *end = after_string(at);
    if (end == NULL) return NULL;
    const char *colon = after_blanks(end);
    if (*colon != ':') return NULL;
    const char *value = after_blanks(colon + 1);
    if ((size_t)(end - at) == length + 2 && memcmp(at + 1, key, length) == 0) return value;
    at = after_value(value);
    if (at == NULL) return NULL;
    at = after_blanks(at);
    if (*at != ',') return NULL;
  }
  return NULL;
}

/** Copies a JSON string; returns false if it is missing or empty. Rejects escapes and long strings. */
static bool copy_text(const char *value, const char *name, char *text, size_t room) {
  const char *end = value != NULL && *value == '"' ? after_string(value) : NULL;
  if (end == NULL) return false;
  size_t length = (size_t)(end - value) - 2;
  if (length >= room || memchr(value, '\\', length + 1) != NULL)
    fail(BAD_CONFIG, "%s has more than %zu bytes, or an escape", name, room - 1);
  memcpy(text, value + 1, length);
  text[length] = '\0';
  return length > 0;
}

/** Checks that a name is a single path component other than . and .. */
static bool is_name(const char *name) {
  if (!isalnum((unsigned char)*name) || strlen(name) > NAME_MAX_BYTES) return false;
  for (; *name != '\0'; name++)
    if (!isalnum((unsigned char)*name) && strchr("._-", *name) == NULL) return false;
  return true;
}

static const char *variable(const char *name) {
  const char *value = getenv(name);
  return value == NULL ? "" : value;
}

/** Copies the value of a key in CNI_ARGS (KEY=VALUE;...); returns false if it is missing or too long. */
static bool copy_argument(const char *key, char *value, size_t room) {
  size_t length = strlen(key);
  for (const char *at = variable("CNI_ARGS"); *at != '\0'; at += strcspn(at, ";"), at += *at == ';') {
    if (strncmp(at, key, length) != 0 || at[length] != '=') continue;
    const char *begin = at + length + 1;
    size_t size = strcspn(begin, ";");
    if (size >= room) return false;
    memcpy(value, begin, size);
    value[size] = '\0';
    return true;
  }
  return false;
}

/** Finds the pod's directory. Its name is the id of the device that the kubelet allocated, otherwise the pod's uid. */
static void find_directory(const char *config, char *path, size_t room) {
  char id[NAME_MAX_BYTES + 1] = "";
  if (!copy_text(member(config, "deviceID"), "deviceID", id, sizeof(id)) && !copy_argument("K8S_POD_UID", id, sizeof(id)))
    fail(BAD_ENVIRONMENT, "neither deviceID nor K8S_POD_UID in CNI_ARGS says whose socket it is");
  if (!is_name(id)) fail(BAD_CONFIG, "the deviceID, or the K8S_POD_UID, is no name of a directory");
  snprintf(path, room, "%s/%s", ROOT, id);
  struct stat found;
  if (lstat(path, &found) != 0 || !S_ISDIR(found.st_mode))
    fail(NO_DIRECTORY,
         "the pod has no directory of sockets (%s): it has to ask for %s; a VM is restarted to do so. On a cluster the "
         "network names that resource too (annotation k8s.v1.cni.cncf.io/resourceName)",
         path, RESOURCE);
}

/** Directories in which runtimes name files for device information. Source: NPWG device information 1.1.0 section 4. */
static const char *const INFO_DIRECTORIES[] = {"/var/run/k8s.cni.cncf.io/devinfo/cni/", "/run/k8s.cni.cncf.io/devinfo/cni/"};
#define INFO_HEAD "{\"type\":\"vhost-user\",\"version\":\"1.1.0\",\"vhost-user\":{\"mode\":\"client\",\"path\":\"" ROOT "/"

/** Returns whether the name ends with this attachment's CONTAINERID_IFNAME, as the names of all runtimes do. */
static bool is_own_name(const char *name) {
  char end[2 * NAME_MAX_BYTES + 2];
  const char *container = variable("CNI_CONTAINERID"), *nic = variable("CNI_IFNAME");
  if (!is_name(container) || !is_name(nic) || !isalnum((unsigned char)*name)) return false;
  int length = snprintf(end, sizeof(end), "%s_%s", container, nic);
  size_t size = strlen(name);
  return size >= (size_t)length && strcmp(name + size - length, end) == 0 && strpbrk(name, "/\\\"") == NULL;
}

static const char *find_info_name(const char *path) {
  for (size_t index = 0; index < sizeof(INFO_DIRECTORIES) / sizeof(*INFO_DIRECTORIES); index++) {
    size_t length = strlen(INFO_DIRECTORIES[index]);
    if (strncmp(path, INFO_DIRECTORIES[index], length) == 0 && is_own_name(path + length)) return path + length;
  }
  return NULL;
}

/** Creates a file's missing parent directories. */
static void make_parents(const char *path) {
  char parent[1024];
  snprintf(parent, sizeof(parent), "%s", path);
  for (char *slash = strchr(parent + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
    *slash = '\0';
    if (mkdir(parent, 0755) != 0 && errno != EEXIST) fail(IO_FAILURE, "a directory of CNIDeviceInfoFile cannot be made");
    *slash = '/';
  }
}

static int open_info_directory(const char *path, const char *name) {
  char directory[1024];
  snprintf(directory, sizeof(directory), "%.*s", (int)(name - path), path);
  return open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static bool is_made_here(int directory, const char *name) {
  char head[sizeof(INFO_HEAD)] = "";
  struct stat found;
  int file = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return false;
  bool is_plain = fstat(file, &found) == 0 && S_ISREG(found.st_mode);
  bool is_same = is_plain && read(file, head, sizeof(INFO_HEAD) - 1) == sizeof(INFO_HEAD) - 1;
  close(file);
  return is_same && memcmp(head, INFO_HEAD, sizeof(INFO_HEAD) - 1) == 0;
}

static void write_info(const char *file, const char *socket) {
  const char *name = find_info_name(file);
  if (name == NULL)
    fail(BAD_CONFIG, "CNIDeviceInfoFile is not a file of this attachment in %s", INFO_DIRECTORIES[0]);
  make_parents(file);
  int directory = open_info_directory(file, name);
  if (directory < 0) fail(IO_FAILURE, "the directory of CNIDeviceInfoFile cannot be opened: %s", strerror(errno));
  if (is_made_here(directory, name)) unlinkat(directory, name, 0);
  int descriptor = openat(directory, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (descriptor < 0) fail(IO_FAILURE, "CNIDeviceInfoFile cannot be created: %s", strerror(errno));
  int written = dprintf(descriptor, "%s%s\"}}\n", INFO_HEAD, socket + strlen(ROOT "/"));
  if (written < 0 || close(descriptor) != 0) fail(IO_FAILURE, "CNIDeviceInfoFile cannot be written: %s", strerror(errno));
}

/** Copies the path of the file for device information; returns false if the runtime sets none. */
static bool find_info_file(const char *config, char *path, size_t room) {
  return copy_text(member(member(config, "runtimeConfig"), "CNIDeviceInfoFile"), "CNIDeviceInfoFile", path, room) && *path == '/';
}

static int add(const char *config) {
  char version[16] = "", file[1024] = "", directory[128] = "";
  const char *nic = variable("CNI_IFNAME"), *sandbox = variable("CNI_NETNS");
  if (!is_name(nic)) fail(BAD_ENVIRONMENT, "CNI_IFNAME is no name of a NIC");
  if (*sandbox == '\0' || strpbrk(sandbox, "\"\\") != NULL) fail(BAD_ENVIRONMENT, "CNI_NETNS is no path");
  if (!copy_text(member(config, "cniVersion"), "cniVersion", version, sizeof(version)) || !is_name(version))
    fail(BAD_CONFIG, "cniVersion is missing");
  if (!find_info_file(config, file, sizeof(file)))
    fail(BAD_CONFIG, "runtimeConfig.CNIDeviceInfoFile is missing: the network needs capabilities.CNIDeviceInfoFile = true");
  find_directory(config, directory, sizeof(directory));
  struct sockaddr_un address;
  int length = snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s.sock", directory, nic);
  if (length >= (int)sizeof(address.sun_path))
    fail(BAD_CONFIG, "the path of the socket is longer than %zu bytes", sizeof(address.sun_path) - 1);
  write_info(file, address.sun_path);
  printf("{\"cniVersion\":\"%s\",\"interfaces\":[{\"name\":\"%s\",\"sandbox\":\"%s\"}]}\n", version, nic, sandbox);
  return 0;
}

/** Removes the device information that ADD wrote. The dataplane removes the socket, and the node removes the directory. */
static int delete (const char *config) {
  char file[1024] = "";
  const char *name = find_info_file(config, file, sizeof(file)) ? find_info_name(file) : NULL;
  int directory = name == NULL ? -1 : open_info_directory(file, name);
  if (directory < 0 || !is_made_here(directory, name)) return 0;
  if (unlinkat(directory, name, 0) != 0 && errno != ENOENT)
    fail(IO_FAILURE, "CNIDeviceInfoFile cannot be removed: %s", strerror(errno));
  return 0;
}

static int check(const char *config) {
  char directory[128];
  find_directory(config, directory, sizeof(directory));
  return 0;
}

int main(int count, char **words) {
  if (count == 2 && strcmp(words[1], "--version") == 0) {
    puts(PATCHBAY_VERSION);
    return 0;
  }
  const char *command = variable("CNI_COMMAND");
  if (strcmp(command, "VERSION") == 0) {
    puts("{\"cniVersion\":\"1.1.0\",\"supportedVersions\":[\"0.3.0\",\"0.3.1\",\"0.4.0\",\"1.0.0\",\"1.1.0\"]}");
    return 0;
  }
  const char *config = after_blanks(read_config());
  if (strcmp(command, "ADD") == 0) return add(config);
  if (strcmp(command, "DEL") == 0) return delete (config);
  if (strcmp(command, "CHECK") == 0) return check(config);
  if (strcmp(command, "STATUS") == 0 || strcmp(command, "GC") == 0) return 0;
  fail(BAD_ENVIRONMENT, "CNI_COMMAND must be ADD, DEL, CHECK, GC, STATUS or VERSION: container runtimes call this program");
}
