// SPDX-License-Identifier: Apache-2.0
// One connection to libvirt, as a JavaScript object with a thread of its own.
#pragma once
#include <napi.h>
#include <sys/types.h>

#include <memory>

#include "link.h"

// new Connection(uri, notify, socketFd): opens; socketFd is the socket that the URI names, or -1. `opened` is a promise;
// call(operation, ...arguments) gives one; close() lets the thread end after the call it is in; interrupt() ends that
// call too, with all other connections to the same daemon. `notify("ended")` says that nothing is left of it.
class Connection : public Napi::ObjectWrap<Connection> {
 public:
  static Napi::Function define(Napi::Env env);
  explicit Connection(const Napi::CallbackInfo &info);
  ~Connection() override;

 private:
  Napi::Value call(const Napi::CallbackInfo &info);
  Napi::Value close(const Napi::CallbackInfo &info);
  Napi::Value interrupt(const Napi::CallbackInfo &info);

  std::shared_ptr<Link> link_;
  pid_t listener_;  // the daemon's; 0 when unknown
};
