// SPDX-License-Identifier: Apache-2.0
// Descriptors that become readable.
//
// One thread for each environment waits with epoll for all of them. It touches JavaScript only through a thread-safe
// function for each watch, which keeps the event loop alive until the watch is over.
#pragma once
#include <napi.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <thread>

class Readiness {
 public:
  // The environment's own; it ends with that.
  static Readiness &of(Napi::Env env);

  Readiness();
  ~Readiness();
  Readiness(const Readiness &) = delete;
  Readiness &operator=(const Readiness &) = delete;

  enum class Mode {
    kOnce,   // the watch is over when the call was made
    kAgain,  // one call for each `arm`
  };

  // Watches a descriptor, which belongs to the watch from now on, also when this throws. Armed at once.
  uint32_t add(Napi::Env env, int fd, Napi::Function ready, Mode mode);

  // The next call may come. Not there: nothing to do.
  void arm(uint32_t id);

  // The descriptor of a watch that is not over, else -1. It is closed on the JavaScript thread only, by `cancel`.
  int descriptorOf(uint32_t id);

  // Not there (over already, or cancelled before): nothing to do.
  void cancel(uint32_t id);

 private:
  struct Watch {
    int fd;  // owned
    Mode mode;
    Napi::ThreadSafeFunction ready;
  };

  void run();
  void tell(uint32_t id);
  void end(std::map<uint32_t, Watch>::iterator watch);

  const int epoll_;
  const int stop_;
  std::mutex mutex_;
  std::map<uint32_t, Watch> watches_;  // guarded by mutex_
  uint32_t lastId_ = 0;                // guarded by mutex_
  std::thread thread_;
};
