// SPDX-License-Identifier: Apache-2.0
// Netlink requests, settings, taps and frames in network namespaces. A short-lived thread enters the
// namespace, so other threads never change theirs. Source: netlink(7), setns(2), glob(3).
#include "netlink.h"

#include <fcntl.h>
#include <glob.h>
#include <linux/if_packet.h>
#include <linux/if_tun.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "../error.h"

namespace {

// Buffer size. The kernel sends a dump in parts of at most 32 KiB. Source: linux/net/netlink/af_netlink.c, netlink_dump.
constexpr size_t kReadBytes = 64 * 1024;
// Maximum size of an answer. A pod has a few links of some KiB each. A larger answer fails with EMSGSIZE.
constexpr size_t kAnswerBytesMax = 8 * 1024 * 1024;
// Timeout in seconds. The kernel usually answers immediately, and within 100 ms after it has deleted links.
constexpr int kAnswerSeconds = 10;
constexpr size_t kSettingsBytesMax = 1024 * 1024;

struct Failure {
  const char *call = nullptr;
  int number = 0;
  explicit operator bool() const { return call != nullptr; }
};

Failure failed(const char *call) { return {call, errno}; }

// Work for a thread in a network namespace. Owns its copy of the namespace descriptor.
class InNamespace : public Napi::AsyncWorker {
 public:
  InNamespace(Napi::Env env, int netns)
      : Napi::AsyncWorker(env), deferred(Napi::Promise::Deferred::New(env)), netns_(netns) {}
  ~InNamespace() override { close(netns_); }

  void Execute() override {
    std::thread([this] { failure_ = setns(netns_, CLONE_NEWNET) < 0 ? failed("setns") : perform(); }).join();
  }

  void OnOK() override {
    const Napi::HandleScope scope(Env());
    if (failure_) {
      deferred.Reject(systemError(Env(), failure_.call, failure_.number).Value());
    } else {
      deferred.Resolve(result());
    }
  }

  const Napi::Promise::Deferred deferred;

 protected:
  // Runs on the thread that has entered the namespace.
  virtual Failure perform() = 0;
  // Runs on the JavaScript thread after `perform`.
  virtual Napi::Value result() = 0;

 private:
  const int netns_;
  Failure failure_;
};

// Starts the work, which deletes itself when it ends. `make` receives a copy of the descriptor in the first argument.
Napi::Value start(const Napi::CallbackInfo &info, const std::function<InNamespace *(int)> &make) {
  const int netns = fcntl(intArgument(info, 0), F_DUPFD_CLOEXEC, 0);
  if (netns < 0) throw systemError(info.Env(), "fcntl", errno);
  InNamespace *work = make(netns);
  const Napi::Promise promise = work->deferred.Promise();
  work->Queue();
  return promise;
}

class Socket {
 public:
  explicit Socket(int protocol) : fd_(socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol)) {}
  ~Socket() {
    if (fd_ >= 0) close(fd_);
  }
  Socket(const Socket &) = delete;
  Socket &operator=(const Socket &) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

struct Answer {
  std::string data;
  // errno if the kernel rejected the message; otherwise 0.
  int error = 0;
};

class Conversation : public InNamespace {
 public:
  Conversation(Napi::Env env, int netns, int protocol, std::vector<std::string> messages)
      : InNamespace(env, netns), protocol_(protocol), messages_(std::move(messages)) {}

 protected:
  Failure perform() override {
    const Socket kernel(protocol_);
    if (kernel.fd() < 0) return failed("socket");
    const struct timeval timeout = {kAnswerSeconds, 0};
    setsockopt(kernel.fd(), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    struct sockaddr_nl address = {};
    address.nl_family = AF_NETLINK;
    if (connect(kernel.fd(), reinterpret_cast<struct sockaddr *>(&address), sizeof address) < 0) return failed("connect");
    for (const std::string &message : messages_) {
      if (send(kernel.fd(), message.data(), message.size(), 0) < 0) return failed("send");
      answers_.emplace_back();
      const Failure failure = readAnswer(kernel.fd(), answers_.back());
      if (failure) return failure;
      if (answers_.back().error != 0) break;
    }
    return {};
  }

  Napi::Value result() override {
    Napi::Array list = Napi::Array::New(Env());
    for (const Answer &answer : answers_) {
      Napi::Object entry = Napi::Object::New(Env());
      entry.Set("data", Napi::Buffer<char>::Copy(Env(), answer.data.data(), answer.data.size()));
      entry.Set("errno", Napi::Number::New(Env(), answer.error));
      list.Set(list.Length(), entry);
    }
    return list;
  }

 private:
  // Reads until NLMSG_ERROR, in which 0 means success, or the end of a dump. All requests must ask for one of these.
  static Failure readAnswer(int fd, Answer &answer) {
    alignas(struct nlmsghdr) char buffer[kReadBytes];
    for (;;) {
      const ssize_t size = recv(fd, buffer, sizeof buffer, MSG_TRUNC);
      if (size < 0 && errno == EINTR) continue;
      if (size < 0) return failed("recv");
      if (static_cast<size_t>(size) > sizeof buffer || answer.data.size() > kAnswerBytesMax) return {"recv", EMSGSIZE};
      auto left = static_cast<unsigned int>(size);
      for (auto *header = reinterpret_cast<struct nlmsghdr *>(buffer); NLMSG_OK(header, left);
           header = NLMSG_NEXT(header, left)) {
        if (header->nlmsg_type == NLMSG_ERROR || header->nlmsg_type == NLMSG_DONE) {
          answer.error = errorOf(header);
          return {};
        }
        answer.data.append(reinterpret_cast<char *>(header), NLMSG_ALIGN(header->nlmsg_len));
      }
    }
  }

  // Reads the error number, with which both struct nlmsgerr and the status of a dump begin.
  static int errorOf(const struct nlmsghdr *header) {
    int number = 0;
    if (header->nlmsg_len >= NLMSG_LENGTH(sizeof number)) memcpy(&number, NLMSG_DATA(header), sizeof number);
    return -number;
  }

  const int protocol_;
  const std::vector<std::string> messages_;
  std::vector<Answer> answers_;
};

// Copies byte arrays, so that another thread can read them.
std::vector<std::string> bytesIn(const Napi::Array &list) {
  std::vector<std::string> copies;
  for (uint32_t index = 0; index < list.Length(); index++) {
    const auto bytes = list.Get(index).As<Napi::Uint8Array>();
    copies.emplace_back(reinterpret_cast<const char *>(bytes.Data()), bytes.ByteLength());
  }
  return copies;
}

// talkNetlink(netnsFd, protocol, messages) returns a promise of the answers. Stops after the first rejected message.
Napi::Value talkNetlink(const Napi::CallbackInfo &info) {
  const int protocol = intArgument(info, 1);
  std::vector<std::string> messages = bytesIn(info[2].As<Napi::Array>());
  return start(info, [&](int netns) { return new Conversation(info.Env(), netns, protocol, std::move(messages)); });
}

class SettingsReading : public InNamespace {
 public:
  SettingsReading(Napi::Env env, int netns, std::vector<std::string> patterns)
      : InNamespace(env, netns), patterns_(std::move(patterns)) {}

 protected:
  Failure perform() override {
    for (const std::string &pattern : patterns_) {
      glob_t found = {};
      const std::string path = kRoot + pattern;
      if (glob(path.c_str(), 0, nullptr, &found) == 0) {
        for (size_t index = 0; index < found.gl_pathc; index++) readOne(found.gl_pathv[index]);
      }
      globfree(&found);
    }
    return {};
  }

  Napi::Value result() override { return Napi::String::New(Env(), text_); }

 private:
  // Ignores a setting that was removed meanwhile.
  void readOne(const char *path) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    char buffer[4096];
    const ssize_t size = read(fd, buffer, sizeof buffer);
    close(fd);
    if (size <= 0 || text_.size() > kSettingsBytesMax) return;
    text_.append(path + strlen(kRoot)).append(":").append(buffer, static_cast<size_t>(size));
    if (text_.back() != '\n') text_.push_back('\n');
  }

  static constexpr const char *kRoot = "/proc/sys/net/";
  const std::vector<std::string> patterns_;
  std::string text_;
};

// readSettings(netnsFd, patterns) returns a promise of lines PATH:VALUE. Ignores patterns without a match.
Napi::Value readSettings(const Napi::CallbackInfo &info) {
  const auto list = info[1].As<Napi::Array>();
  std::vector<std::string> patterns;
  for (uint32_t index = 0; index < list.Length(); index++) {
    patterns.push_back(list.Get(index).As<Napi::String>().Utf8Value());
  }
  return start(info, [&](int netns) { return new SettingsReading(info.Env(), netns, std::move(patterns)); });
}

class TapMaking : public InNamespace {
 public:
  TapMaking(Napi::Env env, int netns, std::string name, int owner, bool several)
      : InNamespace(env, netns), name_(std::move(name)), owner_(owner), several_(several) {}

 protected:
  Failure perform() override {
    const int fd = open("/dev/net/tun", O_RDWR | O_CLOEXEC);
    if (fd < 0) return failed("open");
    const Failure failure = make(fd);
    close(fd);
    return failure;
  }

  Napi::Value result() override { return Env().Undefined(); }

 private:
  Failure make(int fd) const {
    struct ifreq request = {};
    strncpy(request.ifr_name, name_.c_str(), IFNAMSIZ - 1);
    request.ifr_flags = static_cast<short>(IFF_TAP | IFF_NO_PI | IFF_TUN_EXCL | (several_ ? IFF_MULTI_QUEUE : 0));
    if (ioctl(fd, TUNSETIFF, &request) < 0) return failed("TUNSETIFF");
    if (ioctl(fd, TUNSETOWNER, static_cast<unsigned long>(owner_)) < 0) return failed("TUNSETOWNER");
    if (ioctl(fd, TUNSETGROUP, static_cast<unsigned long>(owner_)) < 0) return failed("TUNSETGROUP");
    return ioctl(fd, TUNSETPERSIST, 1UL) < 0 ? failed("TUNSETPERSIST") : Failure{};
  }

  const std::string name_;
  const int owner_;
  const bool several_;
};

// makeTap(netnsFd, name, owner, several) returns a promise. Equivalent to: `ip tuntap add dev NAME mode tap user ID group ID`
Napi::Value makeTap(const Napi::CallbackInfo &info) {
  const std::string name = info[1].As<Napi::String>().Utf8Value();
  const int owner = intArgument(info, 2);
  const bool several = info[3].ToBoolean();
  return start(info, [&](int netns) { return new TapMaking(info.Env(), netns, name, owner, several); });
}

class Sending : public InNamespace {
 public:
  Sending(Napi::Env env, int netns, std::string link, std::vector<std::string> frames)
      : InNamespace(env, netns), link_(std::move(link)), frames_(std::move(frames)) {}

 protected:
  Failure perform() override {
    // Protocol 0, so that the socket receives no frames.
    const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (fd < 0) return failed("socket");
    const Failure failure = sendAll(fd);
    close(fd);
    return failure;
  }

  Napi::Value result() override { return Env().Undefined(); }

 private:
  Failure sendAll(int fd) const {
    struct sockaddr_ll to = {};
    to.sll_family = AF_PACKET;
    to.sll_ifindex = static_cast<int>(if_nametoindex(link_.c_str()));
    if (to.sll_ifindex == 0) return failed("if_nametoindex");
    const auto *address = reinterpret_cast<const struct sockaddr *>(&to);
    for (const std::string &frame : frames_) {
      if (sendto(fd, frame.data(), frame.size(), 0, address, sizeof to) < 0) return failed("sendto");
    }
    return {};
  }

  const std::string link_;
  const std::vector<std::string> frames_;
};

// sendFrames(netnsFd, link, frames) returns a promise. Source: packet(7).
Napi::Value sendFrames(const Napi::CallbackInfo &info) {
  const std::string link = info[1].As<Napi::String>().Utf8Value();
  std::vector<std::string> frames = bytesIn(info[2].As<Napi::Array>());
  return start(info, [&](int netns) { return new Sending(info.Env(), netns, link, std::move(frames)); });
}

}  // namespace

void registerNetlink(Napi::Env env, Napi::Object exports) {
  exports.Set("talkNetlink", Napi::Function::New(env, talkNetlink, "talkNetlink"));
  exports.Set("readSettings", Napi::Function::New(env, readSettings, "readSettings"));
  exports.Set("sendFrames", Napi::Function::New(env, sendFrames, "sendFrames"));
  exports.Set("makeTap", Napi::Function::New(env, makeTap, "makeTap"));
}
