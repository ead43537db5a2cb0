// SPDX-License-Identifier: Apache-2.0
// State that a connection's thread, libvirt's event loop and JavaScript share.
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

// Maximum number of events that JavaScript has not received yet. A daemon that sends more is disconnected.
constexpr int kEventsMax = 1024;
// Maximum number of events in one window of time; a guest with all its NICs causes some hundred.
constexpr int kEventsPerWindow = 2048;
constexpr std::chrono::seconds kEventsWindow{10};

struct Event {
  // lifecycle, deviceAdded, deviceRemoved, deviceRemovalFailed, agentConnected, agentDisconnected, migrationIteration, or
  // jobCompleted
  std::string kind;
  std::string domain;
  std::string what;  // device alias or lifecycle event; empty for other kinds
  int detail;        // detail of a lifecycle event, iteration number, or downtime in milliseconds
};

struct Task {
  Job job;
  std::function<void(const CallResult &)> finish;  // runs on the connection's thread and posts the result
};

// SAFETY: Shared pointers of the JavaScript object, of the thread, and of running callbacks own the link. The last one
// releases the thread-safe function, so that no caller can use a freed one.
class Link : public std::enable_shared_from_this<Link> {
 public:
  // JavaScript thread only. `notify(kind, value)` is called for "event", "lost" and "ended".
  Link(Napi::Env env, Napi::Function notify)
      : notify_(Napi::ThreadSafeFunction::New(env, notify, "libvirt connection", 0, 1)) {}
  ~Link() { notify_.Release(); }
  Link(const Link &) = delete;
  Link &operator=(const Link &) = delete;

  // Any thread. Runs `action` on the JavaScript thread.
  using Action = std::function<void(Napi::Env, Napi::Function)>;
  void post(Action action);
  void postEvent(Event event);
  void postLost(const std::string &reason);

  // JavaScript thread only. Returns false if the connection is closing.
  bool push(Task task);
  void close();

  // The connection's thread only. Waits for the next task. Returns no task when the connection must close.
  std::optional<Task> take();

  // The connection's thread only, at its end. Fails all tasks that are still queued.
  void failPendingTasks();

 private:
  bool isFlood();

  Napi::ThreadSafeFunction notify_;
  std::atomic<int> events_{0};  // not received by JavaScript yet
  int windowEvents_ = 0;        // used by the event loop's thread only
  std::chrono::steady_clock::time_point windowStart_;
  std::atomic<bool> lost_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;  // guarded by mutex_
  bool closing_ = false;    // guarded by mutex_
};
