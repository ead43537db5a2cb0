// SPDX-License-Identifier: Apache-2.0
// Reads the counters of all links in a network namespace, on a short-lived thread that enters the namespace.
// Other threads never change their namespace. Source: setns(2), proc_pid_net(5).
#include "counters.h"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <thread>

#include "../error.h"

namespace {

// Maximum size of the text. A line has about 130 bytes, so 2,000 links fit, twice as many as the caller accepts.
constexpr size_t kTextBytesMax = 256 * 1024;

struct Reading {
  std::string text;
  const char *call = nullptr;
  int error = 0;
};

void fail(Reading &reading, const char *call) { reading = {{}, call, errno}; }

// Runs on the thread that has entered the namespace.
void readCounters(Reading &reading) {
  const int fd = open("/proc/thread-self/net/dev", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return fail(reading, "open");
  char buffer[16 * 1024];
  while (reading.text.size() < kTextBytesMax) {
    const ssize_t size = read(fd, buffer, sizeof buffer);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) fail(reading, "read");
    if (size <= 0) break;
    reading.text.append(buffer, static_cast<size_t>(size));
  }
  close(fd);
}

class CountersReading : public Napi::AsyncWorker {
 public:
  // Takes ownership of the descriptor.
  CountersReading(Napi::Env env, int netns)
      : Napi::AsyncWorker(env), deferred(Napi::Promise::Deferred::New(env)), netns_(netns) {}
  ~CountersReading() override { close(netns_); }

  void Execute() override {
    std::thread([this] {
      if (setns(netns_, CLONE_NEWNET) < 0) {
        fail(reading_, "setns");
      } else {
        readCounters(reading_);
      }
    }).join();
  }

  void OnOK() override {
    if (reading_.call == nullptr) {
      deferred.Resolve(Napi::String::New(Env(), reading_.text));
    } else {
      deferred.Reject(systemError(Env(), reading_.call, reading_.error).Value());
    }
  }

  const Napi::Promise::Deferred deferred;

 private:
  const int netns_;
  Reading reading_;
};

// readLinkCounters(netnsFd) returns a promise of the text. The caller may close the descriptor immediately.
Napi::Value startReading(const Napi::CallbackInfo &info) {
  const int netns = fcntl(intArgument(info, 0), F_DUPFD_CLOEXEC, 0);
  if (netns < 0) throw systemError(info.Env(), "fcntl", errno);
  auto *reading = new CountersReading(info.Env(), netns);
  const Napi::Promise promise = reading->deferred.Promise();
  reading->Queue();  // the work deletes itself when it ends
  return promise;
}

}  // namespace

void registerCounters(Napi::Env env, Napi::Object exports) {
  exports.Set("readLinkCounters", Napi::Function::New(env, startReading, "readLinkCounters"));
}
