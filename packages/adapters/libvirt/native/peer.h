// SPDX-License-Identifier: Apache-2.0
// Which socket of this process is a connection's, and how a thread that waits for it is set free.
#pragma once
#include <sys/types.h>

#include <memory>

// The process that listens on the socket whose inode is open (O_PATH); 0 when it is in no pid namespace of ours, and
// minus errno when there is no connection. Never waits: a daemon that does not accept is EAGAIN.
pid_t listenerOf(int socketFd);

// To be called once, before libvirt opens anything: sockets that are there are not libvirt's.
void disownSockets();

// The socket of one connection. libvirt does not give it away, so it is the one that nobody else has, and whose peer is
// the process that listens. Any thread.
class OwnSocket {
 public:
  // `listener` is 0 for a connection without a socket.
  explicit OwnSocket(pid_t listener);
  ~OwnSocket();
  OwnSocket(const OwnSocket &) = delete;
  OwnSocket &operator=(const OwnSocket &) = delete;

  // The connection's thread, before libvirt opens it: waits while another to the same daemon is being opened, since their
  // sockets could not be told apart. False when it was disconnected meanwhile.
  bool begin();

  // Once libvirt has opened it. False when there is none: another process listens than before.
  bool find();

  // Shuts it down: who waits for an answer gets an end of file. While it is being opened, the sockets that may be it; false
  // then, for libvirt may not have connected it yet.
  bool disconnect();

 private:
  const pid_t listener_;
  // Guarded by the mutex of all sockets.
  ino_t inode_ = 0;  // 0 until found
  bool isOpening_ = false;
  bool isDisconnected_ = false;
};

// Sets the thread free that has this socket, however far it is with opening it.
void disconnectForGood(const std::shared_ptr<OwnSocket> &socket);
