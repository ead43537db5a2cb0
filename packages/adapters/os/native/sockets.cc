// SPDX-License-Identifier: Apache-2.0
// Identifies the listeners of Unix sockets, and passes descriptors between processes.
#include "sockets.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "error.h"

namespace {

// connectPeer(socketFd) connects to the socket whose inode is open (O_PATH), closes the connection, and returns the pid, uid
// and gid of the listener. Never waits: a full backlog causes EAGAIN. Source: unix(7), SO_PEERCRED.
Napi::Value connectPeer(const Napi::CallbackInfo &info) {
  const int inode = intArgument(info, 0);
  struct sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d", inode);
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) throw systemError(info.Env(), "socket", errno);
  struct ucred peer = {};
  socklen_t size = sizeof peer;
  const char *failed = nullptr;
  if (connect(fd, reinterpret_cast<struct sockaddr *>(&address), sizeof address) < 0) {
    failed = "connect";
  } else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) {
    failed = "getsockopt";
  }
  const int number = errno;
  close(fd);
  if (failed != nullptr) throw systemError(info.Env(), failed, number);
  Napi::Object result = Napi::Object::New(info.Env());
  result.Set("pid", Napi::Number::New(info.Env(), peer.pid));
  result.Set("uid", Napi::Number::New(info.Env(), peer.uid));
  result.Set("gid", Napi::Number::New(info.Env(), peer.gid));
  return result;
}

// socketPair() returns two connected sockets for descriptors. Message boundaries are preserved.
Napi::Value socketPair(const Napi::CallbackInfo &info) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0) {
    throw systemError(info.Env(), "socketpair", errno);
  }
  Napi::Array result = Napi::Array::New(info.Env(), 2);
  result.Set(0u, Napi::Number::New(info.Env(), ends[0]));
  result.Set(1u, Napi::Number::New(info.Env(), ends[1]));
  return result;
}

union ControlBuffer {
  char bytes[CMSG_SPACE(sizeof(int))];
  struct cmsghdr align;
};

// sendDescriptor(end, fd, token) never waits. Throws EAGAIN if the receiver does not read. Source: unix(7), SCM_RIGHTS.
Napi::Value sendDescriptor(const Napi::CallbackInfo &info) {
  const int end = intArgument(info, 0);
  const int fd = intArgument(info, 1);
  uint32_t token = static_cast<uint32_t>(intArgument(info, 2));
  struct iovec data = {&token, sizeof token};
  ControlBuffer control = {};
  struct msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &fd, sizeof fd);
  if (sendmsg(end, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
    throw systemError(info.Env(), "sendmsg", errno);
  }
  return info.Env().Undefined();
}

// receiveDescriptor(end) returns the next descriptor and its token. Throws EAGAIN if none is pending.
Napi::Value receiveDescriptor(const Napi::CallbackInfo &info) {
  const int end = intArgument(info, 0);
  uint32_t token = 0;
  struct iovec data = {&token, sizeof token};
  ControlBuffer control = {};
  struct msghdr message = {};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  message.msg_control = control.bytes;
  message.msg_controllen = sizeof control.bytes;
  const ssize_t size = recvmsg(end, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0) throw systemError(info.Env(), "recvmsg", errno);
  const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  if (size != sizeof token || header == nullptr || header->cmsg_type != SCM_RIGHTS) {
    throw systemError(info.Env(), "recvmsg", EBADMSG);
  }
  int fd = -1;
  memcpy(&fd, CMSG_DATA(header), sizeof fd);
  Napi::Object result = Napi::Object::New(info.Env());
  result.Set("fd", Napi::Number::New(info.Env(), fd));
  result.Set("token", Napi::Number::New(info.Env(), token));
  return result;
}

}  // namespace

void registerSockets(Napi::Env env, Napi::Object exports) {
  exports.Set("connectPeer", Napi::Function::New(env, connectPeer, "connectPeer"));
  exports.Set("socketPair", Napi::Function::New(env, socketPair, "socketPair"));
  exports.Set("sendDescriptor", Napi::Function::New(env, sendDescriptor, "sendDescriptor"));
  exports.Set("receiveDescriptor", Napi::Function::New(env, receiveDescriptor, "receiveDescriptor"));
}
