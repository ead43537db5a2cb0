// SPDX-License-Identifier: Apache-2.0
// Who is at the other end of a connection. libvirt does not give its socket away, so it is found by its peer:
// SO_PEERCRED of a connected socket is the process that called listen, the same for all connections of one launcher.
#include "peer.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

// Source: unix(7). 0 for whatever is no connected unix socket.
pid_t peerOf(int fd) {
  int family = AF_UNSPEC;
  socklen_t size = sizeof family;
  if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) < 0 || family != AF_UNIX) return 0;
  struct ucred peer = {};
  size = sizeof peer;
  return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0 ? 0 : peer.pid;
}

std::vector<int> listDescriptors() {
  std::vector<int> descriptors;
  DIR *directory = opendir("/proc/self/fd");
  if (directory == nullptr) return descriptors;
  while (const struct dirent *entry = readdir(directory)) {
    if (entry->d_name[0] != '.') descriptors.push_back(atoi(entry->d_name));
  }
  closedir(directory);
  return descriptors;
}

}  // namespace

pid_t listenerOf(int socketFd) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -errno;
  struct sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d", socketFd);
  const bool connected = connect(fd, reinterpret_cast<struct sockaddr *>(&address), sizeof address) == 0;
  const pid_t listener = connected ? peerOf(fd) : -errno;
  close(fd);
  return listener;
}

void disconnectFrom(pid_t listener) {
  if (listener <= 0) return;
  for (const int descriptor : listDescriptors()) {
    // A copy: libvirt's own may be closed by its thread, and its number used again, at any moment.
    const int copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
    if (copy < 0) continue;
    if (peerOf(copy) == listener) shutdown(copy, SHUT_RDWR);
    close(copy);
  }
}
