// SPDX-License-Identifier: Apache-2.0
// State that a connection's thread, libvirt's event loop and JavaScript share.
#include "link.h"

#include <libvirt/virterror.h>

#include <utility>

void Link::post(Action action) {
  auto owned = std::make_unique<Action>(std::move(action));
  const napi_status status =
      notify_.NonBlockingCall(owned.get(), [](Napi::Env env, Napi::Function notify, Action *taken) {
        const std::unique_ptr<Action> action(taken);
        if (static_cast<napi_env>(env) != nullptr) (*action)(env, notify);
      });
  if (status == napi_ok) static_cast<void>(owned.release());  // owned by JavaScript's thread
}

bool Link::isFlood() {
  const auto now = std::chrono::steady_clock::now();
  if (now - windowStart_ > kEventsWindow) {
    windowStart_ = now;
    windowEvents_ = 0;
  }
  return ++windowEvents_ > kEventsPerWindow || events_.load() >= kEventsMax;
}

void Link::postEvent(Event event) {
  if (lost_.load()) return;
  if (isFlood()) {
    postLost("libvirt sends more events than can be taken");
    return;
  }
  events_.fetch_add(1);
  post([self = shared_from_this(), event = std::move(event)](Napi::Env env, Napi::Function notify) {
    self->events_.fetch_sub(1);
    Napi::Object value = Napi::Object::New(env);
    value.Set("kind", event.kind);
    value.Set("domain", event.domain);
    value.Set(event.kind == "lifecycle" ? "event" : "alias", event.what);
    value.Set("detail", event.detail);
    notify.Call({Napi::String::New(env, "event"), value});
  });
}

void Link::postLost(const std::string &reason) {
  if (lost_.exchange(true)) return;
  post([reason](Napi::Env env, Napi::Function notify) {
    notify.Call({Napi::String::New(env, "lost"), Napi::String::New(env, reason)});
  });
}

bool Link::push(Task task) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (closing_) return false;
  tasks_.push_back(std::move(task));
  changed_.notify_one();
  return true;
}

void Link::close() {
  const std::lock_guard<std::mutex> lock(mutex_);
  closing_ = true;
  changed_.notify_one();
}

std::optional<Task> Link::take() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return closing_ || !tasks_.empty(); });
  if (tasks_.empty() || closing_) return {};
  Task task = std::move(tasks_.front());
  tasks_.pop_front();
  return task;
}

void Link::failPendingTasks() {
  std::deque<Task> rest;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
    rest.swap(tasks_);
  }
  const LibvirtError error{VIR_ERR_INTERNAL_ERROR, VIR_FROM_RPC, VIR_ERR_ERROR, "the connection is closed"};
  for (const Task &task : rest) task.finish({error, {}});
}
