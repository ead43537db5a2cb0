// SPDX-License-Identifier: Apache-2.0
// What libvirt tells unasked, and the thread on which it does.
#pragma once
#include <libvirt/libvirt.h>

#include <memory>
#include <vector>

#include "link.h"

// Starts libvirt's event loop on a thread of its own, once; before any connection is opened.
bool startEventLoop();

// Everything that is registered with one connection. Used on the connection's thread only.
class Registrations {
 public:
  // False when libvirt refused; what was registered is taken back by `remove`.
  bool add(virConnectPtr connection, const std::shared_ptr<Link> &link);
  void remove(virConnectPtr connection);

 private:
  std::vector<int> events_;
  bool hasClose_ = false;
};
