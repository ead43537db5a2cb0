// SPDX-License-Identifier: Apache-2.0
// What libvirt tells unasked, and the thread on which it does.
#pragma once
#include <libvirt/libvirt.h>

#include <memory>
#include <vector>

#include "link.h"

// Starts libvirt's event loop on a thread of its own, once; before any connection is opened. It beats by itself.
bool startEventLoop();

// Milliseconds since the last beat of the event loop. Never waits.
double eventLoopAgeMs();

// Waits until the callback that the event loop is in, if any, has returned. Not on its own thread.
void awaitEventLoop();

// Everything that is registered with one connection. Used on the connection's thread only.
class Registrations {
 public:
  // False when libvirt refused; what was registered is taken back by `remove`.
  bool add(virConnectPtr connection, const std::shared_ptr<Link> &link);

  // When it returns, nothing in libvirt holds the connection on their behalf.
  void remove(virConnectPtr connection);

 private:
  std::vector<int> events_;
  bool hasClose_ = false;
};
