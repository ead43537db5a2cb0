// SPDX-License-Identifier: Apache-2.0
// libvirt for JavaScript: one class without policy, which TypeScript has.
// Load it once, in the child process, because libvirt's event loop is global to the process.
#include <napi.h>

#include "connection.h"
#include "events.h"
#include "peer.h"

namespace {

// eventLoopAgeMs(): how long ago libvirt's event loop was last seen to turn; it does at least once a second.
Napi::Value ageOfLoop(const Napi::CallbackInfo &info) { return Napi::Number::New(info.Env(), eventLoopAgeMs()); }

Napi::Object init(Napi::Env env, Napi::Object exports) {
  disownSockets();
  if (!startEventLoop()) throw Napi::Error::New(env, "libvirt's event loop cannot be started");
  exports.Set("Connection", Connection::define(env));
  exports.Set("eventLoopAgeMs", Napi::Function::New(env, ageOfLoop, "eventLoopAgeMs"));
  return exports;
}

}  // namespace

NODE_API_MODULE(libvirt, init)
