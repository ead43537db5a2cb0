// SPDX-License-Identifier: Apache-2.0
// One connection to libvirt, as a JavaScript object with a thread of its own.
#pragma once
#include <napi.h>

#include <memory>

#include "link.h"
#include "peer.h"

// new Connection(uri, notify, socketFd) opens a connection; socketFd is the socket that the URI names, or -1. `opened` is a
// promise. call(operation, ...arguments) returns a promise. close() also ends the running call. `notify("ended")` is
// called when the connection's thread has ended.
class Connection : public Napi::ObjectWrap<Connection> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit Connection(const Napi::CallbackInfo &info);
  ~Connection() override;

 private:
  Napi::Value call(const Napi::CallbackInfo &info);
  Napi::Value close(const Napi::CallbackInfo &info);

  std::shared_ptr<Link> link_;
  std::weak_ptr<OwnSocket> socket_;  // owned by the thread, as long as it runs
};
