// SPDX-License-Identifier: Apache-2.0
// Node.js addon for libvirt. It exports one class without policy, because TypeScript makes all decisions. Load it once, in
// the child process, because libvirt's event loop is global to the process.
#include <napi.h>

#include "connection.h"
#include "events.h"
#include "peer.h"

namespace {

// eventLoopAgeMs() returns the milliseconds since the last beat of libvirt's event loop, which beats every second.
Napi::Value readEventLoopAge(const Napi::CallbackInfo &info) { return Napi::Number::New(info.Env(), eventLoopAgeMs()); }

Napi::Object init(Napi::Env env, Napi::Object exports) {
  disownSockets();
  if (!startEventLoop()) throw Napi::Error::New(env, "libvirt's event loop cannot be started");
  exports.Set("Connection", Connection::define(env));
  exports.Set("eventLoopAgeMs", Napi::Function::New(env, readEventLoopAge, "eventLoopAgeMs"));
  return exports;
}

}  // namespace

NODE_API_MODULE(libvirt, init)
