// SPDX-License-Identifier: Apache-2.0
// Events of libvirt. Callbacks run on the event loop's thread. They only copy and post, and call no libvirt function that
// waits for the daemon, because this thread would have to read the answer.
#include "events.h"

#include <libvirt/virterror.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>

namespace {

// Maps the numbers that libvirt passes to callbacks to links. Numbers replace pointers for two reasons. Drivers without
// close callbacks accept a registration and never free its pointer, so it must not own the link. libvirt 9.0 frees a
// registration that failed during a dispatch of events, although its documentation denies this, and may call it before. So a
// number may be removed twice, and looked up after its removal.
class LinkNumbers {
 public:
  void *add(const std::shared_ptr<Link> &link) {
    const std::lock_guard<std::mutex> lock(mutex_);
    links_.emplace(++last_, link);
    return reinterpret_cast<void *>(last_);
  }

  // Returns null if the number was removed or the link is gone.
  std::shared_ptr<Link> find(void *number) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = links_.find(reinterpret_cast<uintptr_t>(number));
    return found == links_.end() ? nullptr : found->second.lock();
  }

  void remove(void *number) {
    const std::lock_guard<std::mutex> lock(mutex_);
    links_.erase(reinterpret_cast<uintptr_t>(number));
  }

 private:
  std::mutex mutex_;
  std::unordered_map<uintptr_t, std::weak_ptr<Link>> links_;
  uintptr_t last_ = 0;
};

// Returns an object that is never destroyed, because the event loop's thread outlives main.
LinkNumbers &linkNumbers() {
  static auto *numbers = new LinkNumbers();
  return *numbers;
}

// Maximum size of a domain name or an alias. Patchbay's names have fewer than 200 bytes.
constexpr size_t kNameBytesMax = 512;

void removeNumber(void *opaque) { linkNumbers().remove(opaque); }

void post(void *opaque, virDomainPtr domain, Event event) {
  const std::shared_ptr<Link> link = linkNumbers().find(opaque);
  if (link == nullptr) return;
  const char *name = virDomainGetName(domain);  // owned by the domain; no remote call
  event.domain = textOf(name, kNameBytesMax);
  link->postEvent(std::move(event));
}

const char *lifecycleName(int event) {
  switch (static_cast<virDomainEventType>(event)) {
    case VIR_DOMAIN_EVENT_DEFINED:
      return "defined";
    case VIR_DOMAIN_EVENT_UNDEFINED:
      return "undefined";
    case VIR_DOMAIN_EVENT_STARTED:
      return "started";
    case VIR_DOMAIN_EVENT_SUSPENDED:
      return "suspended";
    case VIR_DOMAIN_EVENT_RESUMED:
      return "resumed";
    case VIR_DOMAIN_EVENT_STOPPED:
      return "stopped";
    case VIR_DOMAIN_EVENT_SHUTDOWN:
      return "shutdown";
    case VIR_DOMAIN_EVENT_PMSUSPENDED:
      return "pmsuspended";
    case VIR_DOMAIN_EVENT_CRASHED:
      return "crashed";
    default:
      return nullptr;  // an event of a newer libvirt
  }
}

int onLifecycle(virConnectPtr, virDomainPtr domain, int event, int detail, void *opaque) {
  const char *name = lifecycleName(event);
  if (name != nullptr) post(opaque, domain, {"lifecycle", "", name, detail});
  return 0;
}

void onAdded(virConnectPtr, virDomainPtr domain, const char *alias, void *opaque) {
  post(opaque, domain, {"deviceAdded", "", textOf(alias, kNameBytesMax), 0});
}

void onRemoved(virConnectPtr, virDomainPtr domain, const char *alias, void *opaque) {
  post(opaque, domain, {"deviceRemoved", "", textOf(alias, kNameBytesMax), 0});
}

void onRemovalFailed(virConnectPtr, virDomainPtr domain, const char *alias, void *opaque) {
  post(opaque, domain, {"deviceRemovalFailed", "", textOf(alias, kNameBytesMax), 0});
}

void onAgent(virConnectPtr, virDomainPtr domain, int state, int, void *opaque) {
  const bool connected = state == VIR_CONNECT_DOMAIN_EVENT_AGENT_LIFECYCLE_STATE_CONNECTED;
  post(opaque, domain, {connected ? "agentConnected" : "agentDisconnected", "", "", 0});
}

void onIteration(virConnectPtr, virDomainPtr domain, int iteration, void *opaque) {
  post(opaque, domain, {"migrationIteration", "", "", iteration});
}

// Posts the guest's downtime in milliseconds if the job reports it; otherwise -1.
void onJobCompleted(virConnectPtr, virDomainPtr domain, virTypedParameterPtr params, int count, void *opaque) {
  unsigned long long downtimeMs = 0;
  const bool isReported = virTypedParamsGetULLong(params, count, VIR_DOMAIN_JOB_DOWNTIME, &downtimeMs) == 1;
  const auto bounded = static_cast<int>(std::min<unsigned long long>(downtimeMs, INT_MAX));
  post(opaque, domain, {"jobCompleted", "", "", isReported ? bounded : -1});
}

const char *closeReason(int reason) {
  switch (static_cast<virConnectCloseReason>(reason)) {
    case VIR_CONNECT_CLOSE_REASON_EOF:
      return "libvirt closed it";
    case VIR_CONNECT_CLOSE_REASON_KEEPALIVE:
      return "libvirt no longer answers";
    case VIR_CONNECT_CLOSE_REASON_CLIENT:
      return "closed";
    default:
      return "input or output failed";
  }
}

void onClose(virConnectPtr, int reason, void *opaque) {
  const std::shared_ptr<Link> link = linkNumbers().find(opaque);
  if (link != nullptr) link->postLost(closeReason(reason));
}

struct Subscription {
  int id;
  virConnectDomainEventGenericCallback callback;
};

const Subscription kSubscriptions[] = {
    {VIR_DOMAIN_EVENT_ID_LIFECYCLE, VIR_DOMAIN_EVENT_CALLBACK(onLifecycle)},
    {VIR_DOMAIN_EVENT_ID_DEVICE_ADDED, VIR_DOMAIN_EVENT_CALLBACK(onAdded)},
    {VIR_DOMAIN_EVENT_ID_DEVICE_REMOVED, VIR_DOMAIN_EVENT_CALLBACK(onRemoved)},
    {VIR_DOMAIN_EVENT_ID_DEVICE_REMOVAL_FAILED, VIR_DOMAIN_EVENT_CALLBACK(onRemovalFailed)},
    {VIR_DOMAIN_EVENT_ID_AGENT_LIFECYCLE, VIR_DOMAIN_EVENT_CALLBACK(onAgent)},
    {VIR_DOMAIN_EVENT_ID_MIGRATION_ITERATION, VIR_DOMAIN_EVENT_CALLBACK(onIteration)},
    {VIR_DOMAIN_EVENT_ID_JOB_COMPLETED, VIR_DOMAIN_EVENT_CALLBACK(onJobCompleted)},
};

void ignoreError(void *, virErrorPtr) {}

constexpr int kBeatMs = 1000;

int64_t nowMs() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

std::atomic<int64_t> lastBeatMs{0};

void beat(int, void *) { lastBeatMs.store(nowMs()); }

bool startLoop() {
  virSetErrorFunc(nullptr, ignoreError);  // libvirt would print errors itself
  if (virInitialize() < 0 || virEventRegisterDefaultImpl() < 0) return false;
  beat(0, nullptr);
  if (virEventAddTimeout(kBeatMs, beat, nullptr, nullptr) < 0) return false;
  try {
    std::thread([] {
      while (virEventRunDefaultImpl() >= 0) {
      }
    }).detach();
  } catch (const std::system_error &) {
    return false;
  }
  return true;
}

// Removes its timer and fulfills the promise. Runs once, on the event loop's thread.
void onPassed(int timer, void *opaque) {
  virEventRemoveTimeout(timer);
  static_cast<std::promise<void> *>(opaque)->set_value();
}

// Frees the promise of a timer. The event loop may call this function after the wait has ended.
void freePromise(void *opaque) { delete static_cast<std::promise<void> *>(opaque); }

}  // namespace

bool startEventLoop() {
  static const bool started = startLoop();
  return started;
}

double eventLoopAgeMs() { return static_cast<double>(nowMs() - lastBeatMs.load()); }

void awaitEventLoop() {
  auto *passed = new std::promise<void>();
  std::future<void> future = passed->get_future();
  if (virEventAddTimeout(0, onPassed, passed, freePromise) < 0) {
    delete passed;
    return;
  }
  future.wait();
}

bool Registrations::add(virConnectPtr connection, const std::shared_ptr<Link> &link) {
  void *closing = linkNumbers().add(link);
  if (virConnectRegisterCloseCallback(connection, onClose, closing, removeNumber) == 0) {
    hasClose_ = true;
  } else {
    removeNumber(closing);
    // Drivers without a daemon, such as test:///default, have no close callback.
    if (virGetLastErrorCode() != VIR_ERR_NO_SUPPORT) return false;
  }
  for (const Subscription &subscription : kSubscriptions) {
    void *number = linkNumbers().add(link);
    const int id = virConnectDomainEventRegisterAny(connection, nullptr, subscription.id,
                                                    subscription.callback, number, removeNumber);
    if (id < 0) {
      removeNumber(number);
      return false;
    }
    events_.push_back(id);
  }
  return true;
}

void Registrations::remove(virConnectPtr connection) {
  for (const int id : events_) virConnectDomainEventDeregisterAny(connection, id);
  events_.clear();
  if (hasClose_) virConnectUnregisterCloseCallback(connection, onClose);
  hasClose_ = false;
  // During a dispatch of events, libvirt 9.0 only marks removed callbacks and frees them afterwards, while it holds the lock
  // of the events. If that freed the last reference, the connection would be closed there, and an event that came with the
  // answer would make the event loop wait forever for the lock that it holds.
  awaitEventLoop();
}
