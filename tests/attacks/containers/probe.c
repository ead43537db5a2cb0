// SPDX-License-Identifier: Apache-2.0
// What a hostile program of a tenant's image tries. Usage: program FILE [PORT HOST...]
// Without a port: which system calls work that the kernel does not keep to a container; with one: which of the hosts
// answer there. One line for each, in the file; what is made ends with the program or its network namespace.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <linux/keyctl.h>
#include <linux/sched.h>
#include <linux/sockios.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static FILE *out;

static void say(const char *what, long result) {
  if (result >= 0) fprintf(out, "%s\n", what);
  fflush(out);
}

// In a process of its own, since it changes whoever calls it.
static void unshare_in_child(const char *what, int flags) {
  if (fork() == 0) {
    say(what, unshare(flags));
    _exit(0);
  }
  wait(NULL);
}

static void try_namespaces(void) {
  unshare_in_child("user namespace by unshare", CLONE_NEWUSER);
  long pid = syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0);
  if (pid == 0) _exit(0);
  say("user namespace by clone", pid);
  struct clone_args arguments;
  memset(&arguments, 0, sizeof arguments);
  arguments.flags = CLONE_NEWUSER;
  arguments.exit_signal = SIGCHLD;
  pid = syscall(SYS_clone3, &arguments, sizeof arguments);
  if (pid == 0) _exit(0);
  say("user namespace by clone3", pid);
}

static void try_keyrings(void) {
  say("key", syscall(SYS_add_key, "user", "patchbay-attack", "x", 1, KEY_SPEC_PROCESS_KEYRING));
  say("keyring of the user", syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_USER_KEYRING, 0));
  say("keyring of the session", syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0));
}

static long make_tap(void) {
  int tap = open("/dev/net/tun", O_RDWR);
  struct ifreq request;
  memset(&request, 0, sizeof request);
  strcpy(request.ifr_name, "t0");
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  return tap < 0 ? tap : ioctl(tap, TUNSETIFF, &request);
}

static void try_root(void) {
  int any = socket(AF_INET, SOCK_DGRAM, 0);
  say("link", ioctl(any, SIOCBRADDBR, "b0"));
  say("tap", make_tap());
  say("raw socket", socket(AF_PACKET, SOCK_RAW, 0));
  say("mount", mount("none", "/tmp", "tmpfs", 0, NULL));
  say("device", mknod("/tmp/device", S_IFCHR | 0600, makedev(1, 3)));
  say("namespace", setns(open("/proc/self/ns/net", O_RDONLY), CLONE_NEWNET));
  int sysctl = open("/proc/sys/net/ipv4/ip_forward", O_WRONLY);
  say("sysctl", sysctl < 0 ? sysctl : write(sysctl, "1", 1));
}

static void try_host(const char *host, int port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
  inet_pton(AF_INET, host, &address.sin_addr);
  int tried = socket(AF_INET, SOCK_STREAM, 0);
  struct timeval wait = {.tv_sec = 2};
  setsockopt(tried, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
  say(host, connect(tried, (struct sockaddr *)&address, sizeof address));
}

int main(int count, char **words) {
  out = count > 1 ? fopen(words[1], "w") : NULL;
  if (out == NULL) return 2;
  if (count == 2) {
    try_namespaces();
    try_keyrings();
    try_root();
  }
  for (int index = 3; index < count; index++) try_host(words[index], atoi(words[2]));
  fputs("done\n", out);
  return fclose(out);
}
