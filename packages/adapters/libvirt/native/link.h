// SPDX-License-Identifier: Apache-2.0
// What a connection's thread, libvirt's event loop and JavaScript share.
#pragma once
#include <napi.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "call-result.h"

// Events that JavaScript has not taken yet; a daemon that sends more is cut off.
constexpr int kEventsMax = 1024;
// Events in one window of time; a guest with all its NICs makes some hundred.
constexpr int kEventsPerWindow = 2048;
constexpr std::chrono::seconds kEventsWindow{10};

struct Event {
  // lifecycle, deviceAdded, deviceRemoved, deviceRemovalFailed, agentConnected, agentDisconnected, migrationIteration,
  // jobCompleted
  std::string kind;
  std::string domain;
  std::string what;  // alias, or the lifecycle's event; empty for the others
  int detail;        // the lifecycle's, the iteration, or the downtime in milliseconds
};

struct Task {
  Job job;
  std::function<void(const CallResult &)> finish;  // runs on the connection's thread; posts
};

// SAFETY: held by shared pointers of the JavaScript object, of the thread, and of a callback of libvirt while it runs;
// the thread-safe function is released with the last of them, so that none can call a freed one.
class Link : public std::enable_shared_from_this<Link> {
 public:
  // JavaScript thread. `notify(kind, value)` is called for "event", "lost" and "ended".
  Link(Napi::Env env, Napi::Function notify)
      : notify_(Napi::ThreadSafeFunction::New(env, notify, "libvirt connection", 0, 1)) {}
  ~Link() { notify_.Release(); }
  Link(const Link &) = delete;
  Link &operator=(const Link &) = delete;

  // Any thread: runs `action` on the JavaScript thread.
  using Action = std::function<void(Napi::Env, Napi::Function)>;
  void post(Action action);
  void postEvent(Event event);
  void postLost(const std::string &reason);

  // JavaScript thread. False when the connection is closing.
  bool push(Task task);
  void close();

  // The connection's thread: the next task; none when the connection is to be closed.
  std::optional<Task> take();

  // The connection's thread, at its end: fails what is still queued.
  void failRest();

 private:
  bool isFlood();

  Napi::ThreadSafeFunction notify_;
  std::atomic<int> events_{0};  // not taken yet
  int windowEvents_ = 0;        // the event loop's thread only
  std::chrono::steady_clock::time_point windowStart_;
  std::atomic<bool> lost_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;  // guarded by mutex_
  bool closing_ = false;    // guarded by mutex_
};
