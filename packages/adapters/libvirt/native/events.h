// SPDX-License-Identifier: Apache-2.0
// Events of libvirt, and the thread that dispatches them.
#pragma once
#include <libvirt/libvirt.h>

#include <memory>
#include <vector>

#include "link.h"

// Starts libvirt's event loop on a thread of its own, once, before any connection is opened. Returns false on failure.
bool startEventLoop();

// Returns the milliseconds since the last beat of the event loop, without waiting.
double eventLoopAgeMs();

// Waits until the running callback of the event loop, if any, has returned. Must not be called on the loop's thread.
void awaitEventLoop();

// Callbacks that are registered with one connection. Used on the connection's thread only.
class Registrations {
 public:
  // Registers all callbacks. Returns false if libvirt refuses one; `remove` removes those that were registered.
  bool add(virConnectPtr connection, const std::shared_ptr<Link> &link);

  // Removes the callbacks. Afterwards, libvirt holds no reference to the connection for them.
  void remove(virConnectPtr connection);

 private:
  std::vector<int> events_;
  bool hasClose_ = false;
};
