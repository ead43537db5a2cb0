// SPDX-License-Identifier: Apache-2.0
// Reports changes of links in network namespaces. A short-lived thread enters each namespace and opens a netlink socket
// there, so other threads never change their namespace. Source: netlink(7), rtnetlink(7), setns(2).
#include "links.h"

#include <linux/filter.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <string>
#include <thread>

#include "../error.h"
#include "../readiness.h"

namespace {

// Buffer size. A message about a link has 1 to 2 KiB. The kernel reports a truncated message with MSG_TRUNC.
constexpr size_t kReadBytes = 16 * 1024;
// Maximum number of messages per read. If there are more, the result is marked incomplete.
constexpr int kReadsMax = 256;

struct Failure {
  const char *call = nullptr;
  int number = 0;
};

int failed(Failure &failure, const char *call, int fd) {
  failure = {call, errno};
  if (fd >= 0) close(fd);
  return -1;
}

// Accepts neighbor messages only for forwarding databases of bridges, because ARP and NDP entries change with the traffic.
bool keepOnlyBridgeNeighbours(int fd) {
  constexpr uint32_t kAll = 0xffffffff;
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_H | BPF_ABS, offsetof(struct nlmsghdr, nlmsg_type)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htons(RTM_NEWNEIGH), 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, htons(RTM_DELNEIGH), 1, 0),
      BPF_STMT(BPF_RET | BPF_K, kAll),
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, NLMSG_HDRLEN + offsetof(struct ndmsg, ndm_family)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_BRIDGE, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, kAll),
      BPF_STMT(BPF_RET | BPF_K, 0),
  };
  const struct sock_fprog program = {sizeof code / sizeof code[0], code};
  return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

// Runs on the thread that has entered the namespace.
int openSocket(Failure &failure) {
  const int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
  if (fd < 0) return failed(failure, "socket", fd);
  if (!keepOnlyBridgeNeighbours(fd)) return failed(failure, "setsockopt", fd);
  struct sockaddr_nl address = {};
  address.nl_family = AF_NETLINK;
  address.nl_groups = RTMGRP_LINK | RTMGRP_NEIGH | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR;
  if (bind(fd, reinterpret_cast<struct sockaddr *>(&address), sizeof address) < 0) {
    return failed(failure, "bind", fd);
  }
  return fd;
}

// watchLinks(netnsFd, callback) returns the number of a watch. Calls `callback` when messages can be read: once, and once
// more after each armLinks.
Napi::Value watchLinks(const Napi::CallbackInfo &info) {
  const int netns = intArgument(info, 0);
  const auto readable = info[1].As<Napi::Function>();
  Failure failure;
  int fd = -1;
  std::thread([&] {
    fd = setns(netns, CLONE_NEWNET) < 0 ? failed(failure, "setns", -1) : openSocket(failure);
  }).join();
  if (fd < 0) throw systemError(info.Env(), failure.call, failure.number);
  Readiness &readiness = Readiness::of(info.Env());
  return Napi::Number::New(info.Env(), readiness.add(info.Env(), fd, readable, Readiness::Mode::kAgain));
}

struct ReadChanges {
  // Names by link index. A name is empty if no message contained it.
  std::map<int, std::string> links;
  bool isComplete = true;
};

void noteLink(ReadChanges &changes, const struct nlmsghdr *header) {
  const auto *link = static_cast<const struct ifinfomsg *>(NLMSG_DATA(header));
  std::string &name = changes.links[link->ifi_index];
  size_t left = IFLA_PAYLOAD(header);
  for (const struct rtattr *part = IFLA_RTA(link); RTA_OK(part, left); part = RTA_NEXT(part, left)) {
    if (part->rta_type != IFLA_IFNAME) continue;
    const auto *text = static_cast<const char *>(RTA_DATA(part));
    name.assign(text, strnlen(text, RTA_PAYLOAD(part)));
  }
}

void note(ReadChanges &changes, const struct nlmsghdr *header) {
  const size_t size = header->nlmsg_len - NLMSG_HDRLEN;
  const void *data = NLMSG_DATA(header);
  switch (header->nlmsg_type) {
    case RTM_NEWLINK:
    case RTM_DELLINK:
      if (size >= sizeof(struct ifinfomsg)) noteLink(changes, header);
      return;
    case RTM_NEWADDR:
    case RTM_DELADDR:
      if (size >= sizeof(struct ifaddrmsg)) {
        changes.links[static_cast<int>(static_cast<const struct ifaddrmsg *>(data)->ifa_index)];
      }
      return;
    case RTM_NEWNEIGH:
    case RTM_DELNEIGH:
      if (size >= sizeof(struct ndmsg)) changes.links[static_cast<const struct ndmsg *>(data)->ndm_ifindex];
      return;
    default:
      return;
  }
}

// Reads one datagram of the kernel. Returns false if none is pending.
bool readOne(int fd, ReadChanges &changes) {
  alignas(struct nlmsghdr) char buffer[kReadBytes];
  struct sockaddr_nl sender = {};
  struct iovec data = {buffer, sizeof buffer};
  struct msghdr message = {};
  message.msg_name = &sender;
  message.msg_namelen = sizeof sender;
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  const ssize_t size = recvmsg(fd, &message, MSG_DONTWAIT);
  if (size < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK) return false;
    // After ENOBUFS, messages were lost. After any other error, changes are unknown too.
    if (errno != EINTR) changes.isComplete = false;
    return true;
  }
  if (sender.nl_pid != 0) return true;  // not from the kernel
  if ((message.msg_flags & MSG_TRUNC) != 0) changes.isComplete = false;
  auto left = static_cast<unsigned int>(size);
  for (auto *header = reinterpret_cast<const struct nlmsghdr *>(buffer); NLMSG_OK(header, left);
       header = NLMSG_NEXT(header, left)) {
    note(changes, header);
  }
  return true;
}

// readLinks(watch) returns the changes since the last read, at most kReadsMax messages.
Napi::Value readLinks(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  const int fd = Readiness::of(env).descriptorOf(static_cast<uint32_t>(intArgument(info, 0)));
  ReadChanges changes;
  int reads = 0;
  while (fd >= 0 && reads < kReadsMax && readOne(fd, changes)) reads++;
  if (reads == kReadsMax) changes.isComplete = false;
  Napi::Array links = Napi::Array::New(env);
  for (const auto &[index, name] : changes.links) {
    Napi::Object link = Napi::Object::New(env);
    link.Set("index", Napi::Number::New(env, index));
    if (!name.empty()) link.Set("name", Napi::String::New(env, name));
    links.Set(links.Length(), link);
  }
  Napi::Object result = Napi::Object::New(env);
  result.Set("links", links);
  result.Set("isComplete", Napi::Boolean::New(env, changes.isComplete));
  return result;
}

// armLinks(watch) allows the next call of the callback.
Napi::Value armLinks(const Napi::CallbackInfo &info) {
  Readiness::of(info.Env()).arm(static_cast<uint32_t>(intArgument(info, 0)));
  return info.Env().Undefined();
}

// cancelLinks(watch) ends the calls and closes the socket.
Napi::Value cancelLinks(const Napi::CallbackInfo &info) {
  Readiness::of(info.Env()).cancel(static_cast<uint32_t>(intArgument(info, 0)));
  return info.Env().Undefined();
}

}  // namespace

void registerLinks(Napi::Env env, Napi::Object exports) {
  exports.Set("watchLinks", Napi::Function::New(env, watchLinks, "watchLinks"));
  exports.Set("readLinks", Napi::Function::New(env, readLinks, "readLinks"));
  exports.Set("armLinks", Napi::Function::New(env, armLinks, "armLinks"));
  exports.Set("cancelLinks", Napi::Function::New(env, cancelLinks, "cancelLinks"));
}
