// SPDX-License-Identifier: Apache-2.0
// The CNI plugin that a container runtime calls. It forwards the call to net-agent, prints the response, and parses no
// networks. It is one static program, so that it runs on any host.
// Source: CNI SPEC 1.1 sections 2 to 5; Multus pkg/server/api (path and body).
#define _GNU_SOURCE // struct ucred
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

/** Default path of net-agent's socket. The field `socket` of the configuration overrides it. */
#define SOCKET_PATH "/run/net-agent/cni.sock"
/** Maximum size of a configuration and of an answer. Both usually have a few kilobytes. */
#define CONFIG_MAX (1024 * 1024)
#define ANSWER_MAX (4 * 1024 * 1024)
/** Maximum bytes of one CNI_ variable; the longest is CNI_ARGS. */
#define VARIABLE_MAX (64 * 1024)
/** Deadline for the runtime to write the configuration, and for net-agent to receive the call, in milliseconds. */
#define TALK_MS 10000
/** Deadline of net-agent's answer, in milliseconds. Source: kubelet, twice --runtime-request-timeout for a sandbox. */
#define WORK_MS 240000
/** Seconds without a heartbeat after which net-agent counts as down. A restart takes less time. */
#define GONE_S 600

/** Error codes. Source: CNI SPEC 1.1 section 5, "Error". */
enum { BAD_ENVIRONMENT = 4, IO_FAILURE = 5, BAD_CONFIG = 7, TRY_AGAIN = 11, NOT_AVAILABLE = 50, INTERNAL = 999 };

static const char *const COMMANDS[] = {"ADD", "DEL", "CHECK", "GC", "STATUS", "VERSION"};
static const char *const VARIABLES[] = {"CNI_COMMAND", "CNI_CONTAINERID", "CNI_NETNS",
                                        "CNI_IFNAME",  "CNI_ARGS",        "CNI_PATH"};
#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

/** A growing buffer; `data` is never freed. */
struct text {
  char *data;
  size_t length, room;
};

static const char *command;

/** Writes everything to standard output; ignores a runtime that closed the pipe. */
static void print(const char *data, size_t length) {
  while (length > 0) {
    ssize_t written = write(STDOUT_FILENO, data, length);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    data += written;
    length -= (size_t)written;
  }
}

static void append(struct text *text, const char *data, size_t length) {
  if (text->room - text->length <= length) {
    text->room = (text->length + length + 1) * 2;
    text->data = realloc(text->data, text->room);
    if (text->data == NULL) _exit(1); // an error message needs memory too
  }
  memcpy(text->data + text->length, data, length);
  text->length += length;
  text->data[text->length] = '\0';
}

static void append_text(struct text *text, const char *more) { append(text, more, strlen(more)); }

/** Appends a JSON string. The receiver rejects invalid UTF-8. */
static void append_string(struct text *text, const char *value) {
  append_text(text, "\"");
  for (; *value != '\0'; value++) {
    unsigned char byte = (unsigned char)*value;
    if (byte < 0x20 || byte == '"' || byte == '\\') {
      char escaped[7];
      snprintf(escaped, sizeof(escaped), "\\u%04x", byte);
      append_text(text, escaped);
    } else {
      append(text, value, 1);
    }
  }
  append_text(text, "\"");
}

/** Appends bytes as base64. Source: RFC 4648 section 4. */
static void append_base64(struct text *text, const struct text *bytes) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < bytes->length; i += 3) {
    size_t left = bytes->length - i;
    const unsigned char *in = (const unsigned char *)bytes->data + i;
    uint32_t group = (uint32_t)in[0] << 16;
    if (left > 1) group |= (uint32_t)in[1] << 8;
    if (left > 2) group |= in[2];
    char out[4] = {digits[group >> 18], digits[group >> 12 & 63], left > 1 ? digits[group >> 6 & 63] : '=',
                   left > 2 ? digits[group & 63] : '='};
    append(text, out, sizeof(out));
  }
}

/** Prints a CNI error and exits. */
__attribute__((noreturn, format(printf, 2, 3))) static void fail(int code, const char *format, ...) {
  char message[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(message, sizeof(message), format, arguments);
  va_end(arguments);
  struct text answer = {0};
  char head[32];
  snprintf(head, sizeof(head), "{\"code\":%d,\"msg\":", code);
  append_text(&answer, head);
  append_string(&answer, message);
  append_text(&answer, "}\n");
  print(answer.data, answer.length);
  exit(1);
}

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/** Waits until the descriptor is readable or writable; returns false on a timeout or an error. */
static bool wait_for(int descriptor, short events, int64_t until_ms) {
  for (;;) {
    int64_t left = until_ms - now_ms();
    struct pollfd poll_for = {.fd = descriptor, .events = events};
    int ready = poll(&poll_for, 1, left > 0 ? (int)left : 0);
    if (ready > 0) return true;
    if (ready == 0) return false;
    if (errno != EINTR) return false;
  }
}

/** Reads a descriptor to its end. On failure, exits with the CNI error `code` and a message that names `what`. */
static struct text read_all(int descriptor, size_t max, int64_t until_ms, int code, const char *what) {
  struct text text = {0};
  append_text(&text, "");
  for (;;) {
    char part[65536];
    if (!wait_for(descriptor, POLLIN, until_ms)) fail(code, "%s did not come in time", what);
    ssize_t length = read(descriptor, part, sizeof(part));
    if (length < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (length < 0) fail(code, "%s cannot be read: %s", what, strerror(errno));
    if (length == 0) return text;
    append(&text, part, (size_t)length);
    if (text.length > max) fail(code, "%s is longer than %zu bytes", what, max);
  }
}

/** Returns the position after the JSON string that begins at `at`; NULL if it is unterminated. */
static const char *after_string(const char *at) {
  for (at++; *at != '\0'; at++) {
    if (*at == '"') return at + 1;
    if (*at == '\\' && *++at == '\0') return NULL;
  }
  return NULL;
}

static const char *after_blanks(const char *at) { return at + strspn(at, " \t\r\n"); }

/** Writes the configuration's `socket`, or the default, to `path`. net-agent validates other fields. */
static void find_socket(const char *config, char *path, size_t room) {
  static const char key[] = "\"socket\"";
  int depth = 0;
  snprintf(path, room, "%s", SOCKET_PATH);
  for (const char *at = config; *at != '\0';) {
    if (*at != '"') {
      depth += *at == '{' || *at == '[' ? 1 : *at == '}' || *at == ']' ? -1 : 0;
      at++;
      continue;
    }
    const char *end = after_string(at);
    if (end == NULL) return;
    const char *colon = after_blanks(end);
    size_t key_length = sizeof(key) - 1;
    bool is_key = depth == 1 && *colon == ':' && (size_t)(end - at) == key_length && memcmp(at, key, key_length) == 0;
    at = end;
    if (!is_key) continue;
    const char *value = after_blanks(colon + 1);
    const char *value_end = *value == '"' ? after_string(value) : NULL;
    size_t length = value_end == NULL ? 0 : (size_t)(value_end - value) - 2;
    if (length == 0 || length >= room || value[1] != '/' || memchr(value, '\\', length + 1) != NULL)
      fail(BAD_CONFIG, "socket must be the absolute path of net-agent's socket, of less than %zu bytes", room);
    memcpy(path, value + 1, length);
    path[length] = '\0';
    return;
  }
}

/** Returns the seconds since net-agent's last heartbeat, which updates the socket's mtime. Negative if there is no socket. */
static int64_t seconds_silent(const char *path) {
  struct stat stat_of;
  if (lstat(path, &stat_of) != 0) return -1;
  return (int64_t)time(NULL) - (int64_t)stat_of.st_mtime;
}

/**
 * Reports that net-agent does not answer, and exits. The runtime repeats a failed DEL, so that operations
 * stay in order. If net-agent is down for longer, DEL succeeds so that pods can be deleted. When net-agent
 * starts, it releases the networks in its journal whose sandboxes no longer exist.
 */
__attribute__((noreturn)) static void fail_unreachable(const char *path, const char *why) {
  if (strcmp(command, "STATUS") == 0)
    fail(NOT_AVAILABLE, "net-agent does not answer at %s (%s): no pod gets networks; see the pod of net-agent on this node", path,
         why);
  int64_t silent = seconds_silent(path);
  if (strcmp(command, "DEL") == 0 && (silent < 0 || silent > GONE_S)) {
    fprintf(stderr, "patchbay-cni: net-agent does not answer at %s (%s); when it starts it releases what the pod had\n", path, why);
    exit(0);
  }
  fail(TRY_AGAIN, "net-agent does not answer at %s (%s): try again later; see the pod of net-agent on this node", path, why);
}

/** Connects to net-agent, whose socket must belong to root. */
static int connect_to(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
  int64_t until_ms = now_ms() + TALK_MS;
  for (;;) {
    int descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (descriptor < 0) fail(IO_FAILURE, "no socket can be made: %s", strerror(errno));
    if (connect(descriptor, (const struct sockaddr *)&address, sizeof(address)) == 0) {
      struct ucred peer;
      socklen_t length = sizeof(peer);
      if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.uid != 0)
        fail(BAD_CONFIG, "who listens at %s is not root", path);
      return descriptor;
    }
    int failure = errno;
    close(descriptor);
    // Retries EAGAIN, because the socket's queue may be full when all pods start together after a boot of the node.
    if (failure != EAGAIN || now_ms() > until_ms) fail_unreachable(path, strerror(failure));
    poll(NULL, 0, 20);
  }
}

static void send_all(int descriptor, const struct text *text, const char *path) {
  int64_t until_ms = now_ms() + TALK_MS;
  for (size_t sent = 0; sent < text->length;) {
    if (!wait_for(descriptor, POLLOUT, until_ms)) fail_unreachable(path, "it does not take the call");
    ssize_t length = send(descriptor, text->data + sent, text->length - sent, MSG_NOSIGNAL);
    if (length < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (length < 0) fail_unreachable(path, strerror(errno));
    sent += (size_t)length;
  }
}

/** Builds the call in the format of Multus' shim. The response to HTTP 1.0 is not chunked. */
static struct text build_request(const struct text *config) {
  struct text body = {0}, request = {0};
  append_text(&body, "{\"env\":{");
  for (size_t i = 0; i < COUNT(VARIABLES); i++) {
    const char *value = getenv(VARIABLES[i]);
    if (value != NULL && strlen(value) > VARIABLE_MAX)
      fail(BAD_ENVIRONMENT, "%s is longer than %d bytes", VARIABLES[i], VARIABLE_MAX);
    if (i > 0) append_text(&body, ",");
    append_string(&body, VARIABLES[i]);
    append_text(&body, ":");
    append_string(&body, value == NULL ? "" : value);
  }
  append_text(&body, "},\"config\":\"");
  append_base64(&body, config);
  append_text(&body, "\"}");
  char head[160];
  snprintf(head, sizeof(head),
           "POST /cni?answer=plugin HTTP/1.0\r\nHost: net-agent\r\nContent-Type: application/json\r\n"
           "Content-Length: %zu\r\n\r\n",
           body.length);
  append_text(&request, head);
  append(&request, body.data, body.length);
  return request;
}

/** Returns the Content-Length of the response; negative if the header is missing. */
static long long content_length(const char *headers, const char *end) {
  static const char name[] = "\r\ncontent-length:";
  for (const char *at = headers; at + sizeof(name) < end; at++)
    if (strncasecmp(at, name, sizeof(name) - 1) == 0) return strtoll(at + sizeof(name) - 1, NULL, 10);
  return -1;
}

/** Prints the response body, and returns a plugin's exit code. */
static int print_answer(const struct text *answer, const char *path) {
  const char *end = strstr(answer->data, "\r\n\r\n");
  if (end == NULL) fail_unreachable(path, "it ended while it worked");
  const char *body = end + 4;
  size_t length = answer->length - (size_t)(body - answer->data);
  if (content_length(answer->data, end) != (long long)length) fail_unreachable(path, "its answer is cut off");
  int status = 0;
  if (sscanf(answer->data, "HTTP/%*d.%*d %d", &status) != 1) fail(INTERNAL, "what answers at %s is not net-agent", path);
  if (status != 200 && (length == 0 || body[0] != '{')) fail(INTERNAL, "net-agent answered with HTTP status %d", status);
  print(body, length);
  return status == 200 ? 0 : 1;
}

int main(int count, char **words) {
  if (count == 2 && strcmp(words[1], "--version") == 0) {
    puts(PATCHBAY_VERSION);
    return 0;
  }
  signal(SIGPIPE, SIG_IGN);
  command = getenv("CNI_COMMAND");
  bool is_known = false;
  for (size_t i = 0; command != NULL && i < COUNT(COMMANDS); i++)
    is_known = is_known || strcmp(command, COMMANDS[i]) == 0;
  if (!is_known)
    fail(BAD_ENVIRONMENT, "CNI_COMMAND must be ADD, DEL, CHECK, GC, STATUS or VERSION: container runtimes call this program");
  if (strcmp(command, "VERSION") == 0) {
    static const char versions[] =
        "{\"cniVersion\":\"1.1.0\",\"supportedVersions\":[\"0.1.0\",\"0.2.0\",\"0.3.0\",\"0.3.1\",\"0.4.0\",\"1.0.0\",\"1.1.0\"]}\n";
    print(versions, sizeof(versions) - 1);
    return 0;
  }
  struct text config = read_all(STDIN_FILENO, CONFIG_MAX, now_ms() + TALK_MS, IO_FAILURE, "the network configuration");
  char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
  find_socket(config.data, path, sizeof(path));
  struct text request = build_request(&config);
  int descriptor = connect_to(path);
  send_all(descriptor, &request, path);
  bool is_status = strcmp(command, "STATUS") == 0;
  int64_t until_ms = now_ms() + (is_status ? TALK_MS : WORK_MS);
  int code = is_status ? NOT_AVAILABLE : TRY_AGAIN;
  struct text answer = read_all(descriptor, ANSWER_MAX, until_ms, code, "net-agent's answer");
  return print_answer(&answer, path);
}
