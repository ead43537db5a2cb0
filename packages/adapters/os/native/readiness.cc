// SPDX-License-Identifier: Apache-2.0
// Reports readable descriptors with one thread and one epoll instance.
#include "readiness.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "error.h"

namespace {

constexpr uint64_t kStop = 0;

struct epoll_event eventFor(uint64_t id, uint32_t events) {
  struct epoll_event event = {};
  event.events = events;
  event.data.u64 = id;
  return event;
}

}  // namespace

Readiness &Readiness::of(Napi::Env env) {
  auto *readiness = env.GetInstanceData<Readiness>();
  if (readiness == nullptr) {
    readiness = new Readiness();
    env.SetInstanceData(readiness);
  }
  return *readiness;
}

Readiness::Readiness() : epoll_(epoll_create1(EPOLL_CLOEXEC)), stop_(eventfd(0, EFD_CLOEXEC)) {
  struct epoll_event event = eventFor(kStop, EPOLLIN);
  if (epoll_ >= 0 && stop_ >= 0) epoll_ctl(epoll_, EPOLL_CTL_ADD, stop_, &event);
}

// SAFETY: runs on the JavaScript thread when the environment ends. After the join, no other thread has a reference.
Readiness::~Readiness() {
  const uint64_t one = 1;
  if (thread_.joinable() && write(stop_, &one, sizeof one) == sizeof one) thread_.join();
  for (auto &[id, watch] : watches_) {
    close(watch.fd);
    watch.ready.Abort();
  }
  if (epoll_ >= 0) close(epoll_);
  if (stop_ >= 0) close(stop_);
}

uint32_t Readiness::add(Napi::Env env, int fd, Napi::Function callback, Mode mode) {
  auto ready = Napi::ThreadSafeFunction::New(env, callback, "descriptor is readable", 0, 1);
  const std::lock_guard<std::mutex> lock(mutex_);
  const uint32_t id = ++lastId_;
  struct epoll_event event = eventFor(id, EPOLLIN | EPOLLONESHOT);
  if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) < 0) {
    const int number = errno;
    close(fd);
    ready.Release();
    throw systemError(env, "epoll_ctl", number);
  }
  watches_.emplace(id, Watch{fd, mode, ready});
  if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
  return id;
}

void Readiness::arm(uint32_t id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = watches_.find(id);
  if (found == watches_.end()) return;
  struct epoll_event event = eventFor(id, EPOLLIN | EPOLLONESHOT);
  epoll_ctl(epoll_, EPOLL_CTL_MOD, found->second.fd, &event);
}

int Readiness::descriptorOf(uint32_t id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = watches_.find(id);
  return found == watches_.end() ? -1 : found->second.fd;
}

void Readiness::cancel(uint32_t id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = watches_.find(id);
  if (found != watches_.end()) end(found);
}

// Body of the waiting thread.
void Readiness::run() {
  struct epoll_event events[16];
  for (;;) {
    const int count = epoll_wait(epoll_, events, 16, -1);
    if (count < 0 && errno != EINTR) return;
    for (int index = 0; index < count; index++) {
      if (events[index].data.u64 == kStop) return;
      tell(static_cast<uint32_t>(events[index].data.u64));
    }
  }
}

void Readiness::tell(uint32_t id) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = watches_.find(id);
  if (found == watches_.end()) return;
  found->second.ready.NonBlockingCall();
  if (found->second.mode == Mode::kOnce) end(found);
}

void Readiness::end(std::map<uint32_t, Watch>::iterator watch) {
  epoll_ctl(epoll_, EPOLL_CTL_DEL, watch->second.fd, nullptr);
  close(watch->second.fd);
  watch->second.ready.Release();
  watches_.erase(watch);
}
