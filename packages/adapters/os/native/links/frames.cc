// SPDX-License-Identifier: Apache-2.0
// Sends test frames, and captures them and their replies with packet sockets on several links in several
// network namespaces. Watches frames of single links. A short-lived thread enters the namespaces, so other threads
// never change theirs.
// Source: packet(7), setns(2), linux/filter.h.
#include "frames.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "../error.h"
#include "../readiness.h"

namespace {

// Number of bytes to capture of each frame. It covers all headers that callers parse.
constexpr size_t kFrameBytesMax = 400;
// Maximum number of captured frames per link, and of frames per read of a watch, because a guest may send any number of
// frames that match the filter.
constexpr size_t kFramesMax = 64;
// Receive buffer of a watch, in bytes. The kernel drops frames that do not fit. It doubles the value: socket(7).
constexpr int kWatchBufferBytes = 32 * 1024;

// Header of frames that are sent with PACKET_VNET_HDR. struct virtio_net_hdr of linux/virtio_net.h has a field
// whose name is not valid in C++.
struct VnetHead {
  uint8_t flags;
  uint8_t gsoType;
  uint16_t headLength;
  uint16_t gsoSize;
  uint16_t checksumFrom;
  uint16_t checksumOffset;
};
static_assert(sizeof(VnetHead) == 10);
constexpr uint8_t kNeedsChecksum = 1;

using Clock = std::chrono::steady_clock;

struct Test {
  uint32_t offset;
  uint32_t size;
  uint32_t value;
};

struct Port {
  int netns;
  std::string link;
  // errno if the link cannot be captured and nothing can be sent on it; otherwise 0.
  int error = 0;
  int ear = -1;
  int mouth = -1;
  int index = 0;
};

struct Send {
  uint32_t port;
  std::string frame;
  // Offsets for a checksum that the link must compute: start of its input, and its position. Unused without `isPartial`.
  bool isPartial = false;
  uint32_t checksumFrom = 0;
  uint32_t checksumAt = 0;
  // errno if sending failed; otherwise 0.
  int error = 0;
};

struct Seen {
  uint32_t port;
  bool isOutgoing;
  std::string frame;
};

uint16_t loadOf(uint32_t size) { return size == 1 ? BPF_B : size == 2 ? BPF_H : BPF_W; }

// Builds a filter that accepts frames that pass all tests of a group. A load beyond the end of a frame rejects
// the frame, so groups for short frames must come first.
std::vector<struct sock_filter> programOf(const std::vector<std::vector<Test>> &groups) {
  std::vector<struct sock_filter> code;
  for (const std::vector<Test> &group : groups) {
    // Number of instructions to skip after a failed test: the remaining tests and the accepting instruction.
    size_t left = 2 * group.size() + 1;
    for (const Test &test : group) {
      code.push_back(BPF_STMT(static_cast<uint16_t>(BPF_LD | BPF_ABS | loadOf(test.size)), test.offset));
      left -= 2;
      code.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, test.value, 0, static_cast<uint8_t>(left)));
    }
    code.push_back(BPF_STMT(BPF_RET | BPF_K, static_cast<uint32_t>(kFrameBytesMax)));
  }
  code.push_back(BPF_STMT(BPF_RET | BPF_K, 0));
  return code;
}

// Builds a filter with separate groups for frames that arrive on the link and for frames that are sent through it.
std::vector<struct sock_filter> programOf(const std::vector<std::vector<Test>> &incoming,
                                          const std::vector<std::vector<Test>> &outgoing) {
  const std::vector<struct sock_filter> first = programOf(incoming);
  const std::vector<struct sock_filter> second = programOf(outgoing);
  std::vector<struct sock_filter> code = {
      BPF_STMT(BPF_LD | BPF_B | BPF_ABS, static_cast<uint32_t>(SKF_AD_OFF + SKF_AD_PKTTYPE)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, PACKET_OUTGOING, 0, 1),
      BPF_STMT(BPF_JMP | BPF_JA, static_cast<uint32_t>(first.size())),
  };
  code.insert(code.end(), first.begin(), first.end());
  code.insert(code.end(), second.begin(), second.end());
  return code;
}

bool attachFilter(int fd, std::vector<struct sock_filter> code) {
  const struct sock_fprog program = {static_cast<unsigned short>(code.size()), code.data()};
  return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

bool bindTo(int fd, int index) {
  struct sockaddr_ll at = {};
  at.sll_family = AF_PACKET;
  at.sll_protocol = htons(ETH_P_ALL);
  at.sll_ifindex = index;
  return bind(fd, reinterpret_cast<const struct sockaddr *>(&at), sizeof at) == 0;
}

class Exchange : public Napi::AsyncWorker {
 public:
  // Takes ownership of the descriptors of the ports.
  Exchange(Napi::Env env, std::vector<Port> ports, std::vector<Send> sends, std::vector<std::vector<Test>> groups, int ms)
      : Napi::AsyncWorker(env),
        deferred(Napi::Promise::Deferred::New(env)),
        ports_(std::move(ports)),
        sends_(std::move(sends)),
        code_(programOf(groups)),
        counts_(ports_.size(), 0),
        ms_(ms) {}
  ~Exchange() override {
    for (const Port &port : ports_) {
      if (port.ear >= 0) close(port.ear);
      if (port.mouth >= 0) close(port.mouth);
      close(port.netns);
    }
  }

  void Execute() override {
    std::thread([this] { perform(); }).join();
  }

  void OnOK() override {
    const Napi::HandleScope scope(Env());
    Napi::Object result = Napi::Object::New(Env());
    result.Set("unheard", errorsOf(ports_));
    result.Set("unsent", errorsOf(sends_));
    Napi::Array frames = Napi::Array::New(Env());
    for (const Seen &seen : seen_) {
      Napi::Object entry = Napi::Object::New(Env());
      entry.Set("port", Napi::Number::New(Env(), seen.port));
      entry.Set("isOutgoing", Napi::Boolean::New(Env(), seen.isOutgoing));
      entry.Set("frame", Napi::Buffer<char>::Copy(Env(), seen.frame.data(), seen.frame.size()));
      frames.Set(frames.Length(), entry);
    }
    result.Set("frames", frames);
    deferred.Resolve(result);
  }

  const Napi::Promise::Deferred deferred;

 private:
  template <typename T>
  Napi::Array errorsOf(const std::vector<T> &items) {
    Napi::Array list = Napi::Array::New(Env());
    for (const T &item : items) list.Set(list.Length(), Napi::Number::New(Env(), item.error));
    return list;
  }

  // Runs on the thread that enters the namespaces.
  void perform() {
    for (Port &port : ports_) port.error = open(port) ? 0 : errno;
    for (Send &send : sends_) {
      const Port &port = ports_[send.port];
      if (port.error != 0) {
        send.error = port.error;
        continue;
      }
      const bool isSent = send.isPartial ? sendPartial(port, send) : sendFrom(port, port.mouth, {}, send.frame);
      if (!isSent) send.error = errno;
    }
    hear();
  }

  static bool sendFrom(const Port &port, int mouth, const std::string &head, const std::string &frame) {
    struct sockaddr_ll to = {};
    to.sll_family = AF_PACKET;
    to.sll_ifindex = port.index;
    struct iovec parts[] = {{const_cast<char *>(head.data()), head.size()}, {const_cast<char *>(frame.data()), frame.size()}};
    struct msghdr message = {};
    message.msg_name = &to;
    message.msg_namelen = sizeof to;
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    return sendmsg(mouth, &message, 0) >= 0;
  }

  // Uses a separate socket, because all frames of a socket with PACKET_VNET_HDR need the header. Source: packet(7).
  static bool sendPartial(const Port &port, const Send &send) {
    if (setns(port.netns, CLONE_NEWNET) < 0) return false;
    const int mouth = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (mouth < 0) return false;
    VnetHead head = {};
    head.flags = kNeedsChecksum;
    head.checksumFrom = static_cast<uint16_t>(send.checksumFrom);
    head.checksumOffset = static_cast<uint16_t>(send.checksumAt - send.checksumFrom);
    const int on = 1;
    const bool isSent = setsockopt(mouth, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) == 0 &&
                        sendFrom(port, mouth, {reinterpret_cast<const char *>(&head), sizeof head}, send.frame);
    const int error = errno;
    close(mouth);
    errno = error;
    return isSent;
  }

  // Opens two sockets, because a packet socket does not capture the frames that it sends.
  bool open(Port &port) {
    if (setns(port.netns, CLONE_NEWNET) < 0) return false;
    port.index = static_cast<int>(if_nametoindex(port.link.c_str()));
    if (port.index == 0) return false;
    port.mouth = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);
    if (port.mouth < 0) return false;
    port.ear = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (port.ear < 0) return false;
    return attachFilter(port.ear, code_) && bindTo(port.ear, port.index);
  }

  void hear() {
    const Clock::time_point end = Clock::now() + std::chrono::milliseconds(ms_);
    std::vector<struct pollfd> polled;
    for (const Port &port : ports_) polled.push_back({port.error == 0 ? port.ear : -1, POLLIN, 0});
    for (;;) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
      if (left <= 0) return;
      if (poll(polled.data(), polled.size(), static_cast<int>(left)) < 0 && errno != EINTR) return;
      for (uint32_t index = 0; index < polled.size(); index++) {
        // Stops polling a socket that failed or reached its limit, because poll would return immediately each time.
        if (polled[index].revents != 0 && !readFrom(index)) polled[index].fd = -1;
      }
    }
  }

  // Returns false if no more frames can be captured on this link.
  bool readFrom(uint32_t index) {
    char buffer[kFrameBytesMax];
    struct sockaddr_ll from = {};
    socklen_t length = sizeof from;
    const ssize_t size =
        recvfrom(ports_[index].ear, buffer, sizeof buffer, 0, reinterpret_cast<struct sockaddr *>(&from), &length);
    if (size < 0) return errno == EAGAIN || errno == EINTR || errno == ENETDOWN;
    seen_.push_back({index, from.sll_pkttype == PACKET_OUTGOING, std::string(buffer, static_cast<size_t>(size))});
    counts_[index]++;
    return counts_[index] < kFramesMax;
  }

  std::vector<Port> ports_;
  std::vector<Send> sends_;
  std::vector<struct sock_filter> code_;
  std::vector<size_t> counts_;
  const int ms_;
  std::vector<Seen> seen_;
};

uint32_t numberIn(const Napi::Object &object, const char *name) {
  return object.Get(name).As<Napi::Number>().Uint32Value();
}

std::vector<std::vector<Test>> groupsIn(const Napi::Array &list) {
  std::vector<std::vector<Test>> groups;
  for (uint32_t index = 0; index < list.Length(); index++) {
    const auto tests = list.Get(index).As<Napi::Array>();
    groups.emplace_back();
    for (uint32_t at = 0; at < tests.Length(); at++) {
      const auto test = tests.Get(at).As<Napi::Object>();
      groups.back().push_back({numberIn(test, "offset"), numberIn(test, "size"), numberIn(test, "value")});
    }
  }
  return groups;
}

std::vector<Send> sendsIn(const Napi::Array &list, size_t ports) {
  std::vector<Send> sends;
  for (uint32_t index = 0; index < list.Length(); index++) {
    const auto send = list.Get(index).As<Napi::Object>();
    const auto frame = send.Get("frame").As<Napi::Uint8Array>();
    const uint32_t port = numberIn(send, "port");
    if (port >= ports) continue;
    sends.push_back({port, std::string(reinterpret_cast<const char *>(frame.Data()), frame.ByteLength())});
    if (!send.Get("checksum").IsObject()) continue;
    const auto checksum = send.Get("checksum").As<Napi::Object>();
    Send &partial = sends.back();
    partial.isPartial = true;
    partial.checksumFrom = numberIn(checksum, "from");
    partial.checksumAt = numberIn(checksum, "at");
  }
  return sends;
}

// exchangeFrames(ports, sends, groups, ms) returns a promise. Captures on all ports before it sends the first frame.
Napi::Value exchangeFrames(const Napi::CallbackInfo &info) {
  const auto list = info[0].As<Napi::Array>();
  std::vector<Port> ports;
  for (uint32_t index = 0; index < list.Length(); index++) {
    const auto entry = list.Get(index).As<Napi::Object>();
    const int netns = fcntl(static_cast<int>(numberIn(entry, "netnsFd")), F_DUPFD_CLOEXEC, 0);
    if (netns < 0) {
      const int error = errno;
      for (const Port &port : ports) close(port.netns);
      throw systemError(info.Env(), "fcntl", error);
    }
    ports.push_back({netns, entry.Get("link").As<Napi::String>().Utf8Value()});
  }
  std::vector<Send> sends = sendsIn(info[1].As<Napi::Array>(), ports.size());
  std::vector<std::vector<Test>> groups = groupsIn(info[2].As<Napi::Array>());
  const int ms = intArgument(info, 3);
  auto *exchange = new Exchange(info.Env(), std::move(ports), std::move(sends), std::move(groups), ms);
  const Napi::Promise promise = exchange->deferred.Promise();
  exchange->Queue();  // the work deletes itself when it ends
  return promise;
}

// Runs on the thread that has entered the namespace. Returns -1 and sets errno on failure.
int openWatch(const std::string &link, std::vector<struct sock_filter> code) {
  const int index = static_cast<int>(if_nametoindex(link.c_str()));
  if (index == 0) return -1;
  const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  if (setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &kWatchBufferBytes, sizeof kWatchBufferBytes) == 0 &&
      attachFilter(fd, std::move(code)) && bindTo(fd, index)) {
    return fd;
  }
  const int error = errno;
  close(fd);
  errno = error;
  return -1;
}

std::vector<struct sock_filter> programIn(const Napi::CallbackInfo &info, size_t at) {
  return programOf(groupsIn(info[at].As<Napi::Array>()), groupsIn(info[at + 1].As<Napi::Array>()));
}

// watchFrames(netnsFd, link, incoming, outgoing, callback) returns the number of a watch. Calls `callback` when frames can
// be read: once, and once more after each armFrames.
Napi::Value watchFrames(const Napi::CallbackInfo &info) {
  const int netns = intArgument(info, 0);
  const std::string link = info[1].As<Napi::String>().Utf8Value();
  const std::vector<struct sock_filter> code = programIn(info, 2);
  const auto readable = info[4].As<Napi::Function>();
  int fd = -1;
  int error = 0;
  std::thread([&] {
    if (setns(netns, CLONE_NEWNET) == 0) fd = openWatch(link, code);
    if (fd < 0) error = errno;
  }).join();
  if (fd < 0) throw systemError(info.Env(), "watch", error);
  Readiness &readiness = Readiness::of(info.Env());
  return Napi::Number::New(info.Env(), readiness.add(info.Env(), fd, readable, Readiness::Mode::kAgain));
}

// filterFrames(watch, incoming, outgoing) replaces the filter.
Napi::Value filterFrames(const Napi::CallbackInfo &info) {
  const int fd = Readiness::of(info.Env()).descriptorOf(static_cast<uint32_t>(intArgument(info, 0)));
  if (fd >= 0 && !attachFilter(fd, programIn(info, 1))) throw systemError(info.Env(), "setsockopt", errno);
  return info.Env().Undefined();
}

// readFrames(watch) returns pending frames, at most kFramesMax. Errors of the link, which was deleted or is down, count as
// no frames.
Napi::Value readFrames(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  const int fd = Readiness::of(env).descriptorOf(static_cast<uint32_t>(intArgument(info, 0)));
  Napi::Array frames = Napi::Array::New(env);
  char buffer[kFrameBytesMax];
  while (fd >= 0 && frames.Length() < kFramesMax) {
    struct sockaddr_ll from = {};
    socklen_t length = sizeof from;
    const ssize_t size =
        recvfrom(fd, buffer, sizeof buffer, 0, reinterpret_cast<struct sockaddr *>(&from), &length);
    if (size < 0) break;
    Napi::Object entry = Napi::Object::New(env);
    entry.Set("isOutgoing", Napi::Boolean::New(env, from.sll_pkttype == PACKET_OUTGOING));
    entry.Set("frame", Napi::Buffer<char>::Copy(env, buffer, static_cast<size_t>(size)));
    frames.Set(frames.Length(), entry);
  }
  return frames;
}

// armFrames(watch) allows the next call of the callback.
Napi::Value armFrames(const Napi::CallbackInfo &info) {
  Readiness::of(info.Env()).arm(static_cast<uint32_t>(intArgument(info, 0)));
  return info.Env().Undefined();
}

// cancelFrames(watch) ends the calls and closes the socket.
Napi::Value cancelFrames(const Napi::CallbackInfo &info) {
  Readiness::of(info.Env()).cancel(static_cast<uint32_t>(intArgument(info, 0)));
  return info.Env().Undefined();
}

}  // namespace

void registerFrames(Napi::Env env, Napi::Object exports) {
  exports.Set("exchangeFrames", Napi::Function::New(env, exchangeFrames, "exchangeFrames"));
  exports.Set("watchFrames", Napi::Function::New(env, watchFrames, "watchFrames"));
  exports.Set("filterFrames", Napi::Function::New(env, filterFrames, "filterFrames"));
  exports.Set("readFrames", Napi::Function::New(env, readFrames, "readFrames"));
  exports.Set("armFrames", Napi::Function::New(env, armFrames, "armFrames"));
  exports.Set("cancelFrames", Napi::Function::New(env, cancelFrames, "cancelFrames"));
}
