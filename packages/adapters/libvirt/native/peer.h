// SPDX-License-Identifier: Apache-2.0
// Finds the socket of a connection, and interrupts a thread that waits for it.
#pragma once
#include <sys/types.h>

#include <memory>

// Returns the process that listens on a socket whose inode is open (O_PATH): 0 if it is in none of our pid namespaces, and
// minus errno if connecting fails. Never waits: EAGAIN if a daemon does not accept.
pid_t listenerOf(int socketFd);

// Excludes all existing sockets. Call it once, before libvirt opens any.
void disownSockets();

// The socket of one connection. libvirt does not expose it, so it is the unclaimed socket whose peer is the listening
// process. May be used on any thread.
class OwnSocket {
 public:
  // `listener` is 0 for a connection without a socket.
  explicit OwnSocket(pid_t listener);
  ~OwnSocket();
  OwnSocket(const OwnSocket &) = delete;
  OwnSocket &operator=(const OwnSocket &) = delete;

  // Call this on the connection's thread before libvirt opens the connection. Waits while another connection to the same
  // daemon is opened, because their sockets would be ambiguous. Returns false if it was disconnected meanwhile.
  bool begin();

  // Call this after libvirt has opened the connection. Returns false without a socket: the listening process was replaced.
  bool find();

  // Shuts the socket down, so that waiting reads end. While the connection is opened, shuts down all sockets that may be its
  // own, and returns false, because libvirt may not have connected it yet.
  bool disconnect();

 private:
  const pid_t listener_;
  // Guarded by the mutex of all sockets.
  ino_t inode_ = 0;  // 0 until the socket is found
  bool isOpening_ = false;
  bool isDisconnected_ = false;
};

// Interrupts the thread of this socket at any stage of opening, and retries if necessary.
void disconnectForGood(const std::shared_ptr<OwnSocket> &socket);
