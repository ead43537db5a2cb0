// SPDX-License-Identifier: Apache-2.0
// Reports readable descriptors.
//
// In each environment, one thread waits with epoll for all descriptors. It calls JavaScript only through a thread-safe
// function for each watch, which keeps the event loop alive until the watch ends.
#pragma once
#include <napi.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <thread>

class Readiness {
 public:
  // Returns the instance of the environment, which lives as long as the environment.
  static Readiness &of(Napi::Env env);

  Readiness();
  ~Readiness();
  Readiness(const Readiness &) = delete;
  Readiness &operator=(const Readiness &) = delete;

  enum class Mode {
    kOnce,   // the watch ends after one call
    kAgain,  // one call for each `arm`
  };

  // Watches a descriptor and arms the watch. Takes ownership of the descriptor, even if it throws.
  uint32_t add(Napi::Env env, int fd, Napi::Function ready, Mode mode);

  // Allows the next call. Ignores unknown watches.
  void arm(uint32_t id);

  // Returns the descriptor of an active watch, otherwise -1. With kAgain, it is closed only on the JavaScript thread.
  int descriptorOf(uint32_t id);

  // Ends the watch. Ignores watches that have already ended.
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
