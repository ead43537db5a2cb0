// SPDX-License-Identifier: Apache-2.0
// Processes that are not children: when they end.
//
// One thread for each environment waits with epoll for all watched pidfds. It touches JavaScript only through a
// thread-safe function for each watch, which keeps the event loop alive until the end came or the watch was cancelled.
#include "processes.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <map>
#include <mutex>
#include <thread>

#include "error.h"

namespace {

constexpr uint64_t kStop = 0;

class EndWatcher {
 public:
  EndWatcher() : epoll_(epoll_create1(EPOLL_CLOEXEC)), stop_(eventfd(0, EFD_CLOEXEC)) {
    struct epoll_event event = {};
    event.events = EPOLLIN;
    event.data.u64 = kStop;
    if (epoll_ >= 0 && stop_ >= 0) epoll_ctl(epoll_, EPOLL_CTL_ADD, stop_, &event);
  }

  // SAFETY: runs on the JavaScript thread when the environment ends. After the join nobody else has a reference.
  ~EndWatcher() {
    const uint64_t one = 1;
    if (thread_.joinable() && write(stop_, &one, sizeof one) == sizeof one) thread_.join();
    for (auto &[id, watch] : watches_) {
      close(watch.pidfd);
      watch.ended.Abort();
    }
    if (epoll_ >= 0) close(epoll_);
    if (stop_ >= 0) close(stop_);
  }

  EndWatcher(const EndWatcher &) = delete;
  EndWatcher &operator=(const EndWatcher &) = delete;

  uint32_t add(const Napi::CallbackInfo &info) {
    const int pidfd = fcntl(intArgument(info, 0), F_DUPFD_CLOEXEC, 3);
    if (pidfd < 0) throw systemError(info.Env(), "fcntl", errno);
    auto ended = Napi::ThreadSafeFunction::New(info.Env(), info[1].As<Napi::Function>(), "process end", 0, 1);
    const std::lock_guard<std::mutex> lock(mutex_);
    const uint32_t id = ++lastId_;
    struct epoll_event event = {};
    event.events = EPOLLIN | EPOLLONESHOT;
    event.data.u64 = id;
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, pidfd, &event) < 0) {
      const int number = errno;
      close(pidfd);
      ended.Release();
      throw systemError(info.Env(), "epoll_ctl", number);
    }
    watches_.emplace(id, Watch{pidfd, ended});
    if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    return id;
  }

  // Not there (ended already, or cancelled before): nothing to do.
  void cancel(uint32_t id) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = watches_.find(id);
    if (found == watches_.end()) return;
    epoll_ctl(epoll_, EPOLL_CTL_DEL, found->second.pidfd, nullptr);
    close(found->second.pidfd);
    found->second.ended.Release();
    watches_.erase(found);
  }

 private:
  struct Watch {
    int pidfd;  // owned
    Napi::ThreadSafeFunction ended;
  };

  // The waiting thread.
  void run() {
    struct epoll_event events[16];
    for (;;) {
      const int count = epoll_wait(epoll_, events, 16, -1);
      if (count < 0 && errno != EINTR) return;
      for (int index = 0; index < count; index++) {
        if (events[index].data.u64 == kStop) return;
        finish(static_cast<uint32_t>(events[index].data.u64));
      }
    }
  }

  void finish(uint32_t id) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = watches_.find(id);
    if (found == watches_.end()) return;
    close(found->second.pidfd);
    found->second.ended.NonBlockingCall();
    found->second.ended.Release();
    watches_.erase(found);
  }

  const int epoll_;
  const int stop_;
  std::mutex mutex_;
  std::map<uint32_t, Watch> watches_;  // guarded by mutex_
  uint32_t lastId_ = 0;                // guarded by mutex_
  std::thread thread_;
};

// openProcess(pid): a pidfd. Source: pidfd_open(2).
Napi::Value openProcess(const Napi::CallbackInfo &info) {
  const long fd = syscall(SYS_pidfd_open, intArgument(info, 0), 0);
  if (fd < 0) throw systemError(info.Env(), "pidfd_open", errno);
  return Napi::Number::New(info.Env(), static_cast<double>(fd));
}

// hasEnded(pidfd)
Napi::Value hasEnded(const Napi::CallbackInfo &info) {
  struct pollfd process = {intArgument(info, 0), POLLIN, 0};
  const int count = poll(&process, 1, 0);
  if (count < 0) throw systemError(info.Env(), "poll", errno);
  return Napi::Boolean::New(info.Env(), count > 0);
}

// watchEnd(pidfd, callback): number for cancelEnd; keeps a copy of the descriptor.
Napi::Value watchEnd(const Napi::CallbackInfo &info) {
  EndWatcher *watcher = info.Env().GetInstanceData<EndWatcher>();
  return Napi::Number::New(info.Env(), watcher->add(info));
}

Napi::Value cancelEnd(const Napi::CallbackInfo &info) {
  info.Env().GetInstanceData<EndWatcher>()->cancel(static_cast<uint32_t>(intArgument(info, 0)));
  return info.Env().Undefined();
}

}  // namespace

void registerProcesses(Napi::Env env, Napi::Object exports) {
  env.SetInstanceData(new EndWatcher());
  exports.Set("openProcess", Napi::Function::New(env, openProcess, "openProcess"));
  exports.Set("hasEnded", Napi::Function::New(env, hasEnded, "hasEnded"));
  exports.Set("watchEnd", Napi::Function::New(env, watchEnd, "watchEnd"));
  exports.Set("cancelEnd", Napi::Function::New(env, cancelEnd, "cancelEnd"));
}
