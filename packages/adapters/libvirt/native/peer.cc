// SPDX-License-Identifier: Apache-2.0
// Finds the socket of a connection by its peer. SO_PEERCRED returns the process that called listen.
#include "peer.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <set>
#include <system_error>
#include <thread>
#include <vector>

namespace {

// Delay before a missing socket is searched again: libvirt connects it within a millisecond.
constexpr std::chrono::milliseconds kSearchInterval{20};

// Returns the process at the other end; 0 unless this is a connected unix socket. Source: unix(7).
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

// A connected unix socket of this process.
struct Socket {
  int fd;  // a copy, closed after the callback
  ino_t inode;
  pid_t peer;
};

// Checks whether a socket was shut down. It then belongs to an ended connection, whose socket libvirt closes later.
bool isShutDown(int fd) {
  struct pollfd entry = {fd, 0, 0};
  return poll(&entry, 1, 0) > 0 && (entry.revents & POLLHUP) != 0;
}

void forEachSocket(const std::function<void(const Socket &)> &take) {
  for (const int descriptor : listDescriptors()) {
    // Copies the descriptor, because libvirt may close it and reuse its number at any moment.
    const int copy = fcntl(descriptor, F_DUPFD_CLOEXEC, 3);
    if (copy < 0) continue;
    struct stat status = {};
    const pid_t peer = peerOf(copy);
    if (peer > 0 && fstat(copy, &status) == 0) take({copy, status.st_ino, peer});
    close(copy);
  }
}

// Sockets of the whole process.
struct Sockets {
  std::mutex mutex;
  std::condition_variable changed;
  std::set<ino_t> taken;    // sockets of open connections, and sockets that do not belong to libvirt
  std::set<pid_t> opening;  // listeners of the connections that are being opened, at most one per listener

  bool isTaken(ino_t inode) const { return taken.count(inode) > 0; }

  void stopOpening(pid_t listener) {
    opening.erase(listener);
    changed.notify_all();
  }
};

// Returns an object that is never destroyed, because threads may outlive main.
Sockets &sockets() {
  static Sockets *const all = new Sockets();
  return *all;
}

}  // namespace

pid_t listenerOf(int socketFd) {
  // Holds the lock, so that this socket is not mistaken for libvirt's while it is open.
  const std::lock_guard<std::mutex> lock(sockets().mutex);
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

void disownSockets() {
  const std::lock_guard<std::mutex> lock(sockets().mutex);
  forEachSocket([](const Socket &socket) { sockets().taken.insert(socket.inode); });
}

OwnSocket::OwnSocket(pid_t listener) : listener_(listener) {}

OwnSocket::~OwnSocket() {
  const std::lock_guard<std::mutex> lock(sockets().mutex);
  if (inode_ != 0) sockets().taken.erase(inode_);
  if (isOpening_) sockets().stopOpening(listener_);
}

bool OwnSocket::begin() {
  if (listener_ <= 0) return true;
  std::unique_lock<std::mutex> lock(sockets().mutex);
  sockets().changed.wait(lock, [this] { return isDisconnected_ || sockets().opening.count(listener_) == 0; });
  if (isDisconnected_) return false;
  sockets().opening.insert(listener_);
  isOpening_ = true;
  return true;
}

bool OwnSocket::find() {
  if (listener_ <= 0) return true;
  const std::lock_guard<std::mutex> lock(sockets().mutex);
  forEachSocket([this](const Socket &socket) {
    const bool isFree = socket.peer == listener_ && !sockets().isTaken(socket.inode) && !isShutDown(socket.fd);
    if (isFree) inode_ = socket.inode;
  });
  if (inode_ == 0) return false;
  sockets().taken.insert(inode_);
  sockets().stopOpening(listener_);
  isOpening_ = false;
  return true;
}

bool OwnSocket::disconnect() {
  if (listener_ <= 0) return true;
  const std::lock_guard<std::mutex> lock(sockets().mutex);
  isDisconnected_ = true;
  sockets().changed.notify_all();
  if (inode_ == 0 && !isOpening_) return true;
  forEachSocket([this](const Socket &socket) {
    // The listening process of a launcher may have changed meanwhile. No other connection waits for such a socket.
    const bool isExpected = socket.peer != listener_ && sockets().opening.count(socket.peer) > 0;
    const bool isOurs = inode_ == 0 ? !sockets().isTaken(socket.inode) && !isExpected : socket.inode == inode_;
    if (isOurs) shutdown(socket.fd, SHUT_RDWR);
  });
  return inode_ != 0;
}

void disconnectForGood(const std::shared_ptr<OwnSocket> &socket) {
  if (socket->disconnect()) return;
  const auto retry = [weak = std::weak_ptr<OwnSocket>(socket)] {
    for (bool isDone = false; !isDone;) {
      std::this_thread::sleep_for(kSearchInterval);
      const std::shared_ptr<OwnSocket> locked = weak.lock();  // null if the thread has ended
      isDone = locked == nullptr || locked->disconnect();
    }
  };
  try {
    std::thread(retry).detach();
  } catch (const std::system_error &) {
    // Without a thread, the connection hangs until the parent replaces this process.
  }
}
