// SPDX-License-Identifier: Apache-2.0
// libvirt for JavaScript: one class. No policy here: TypeScript decides, this only calls.
// To be loaded once, in the child process: libvirt's event loop belongs to the whole process.
#include <napi.h>

#include "connection.h"
#include "events.h"

namespace {

Napi::Object init(Napi::Env env, Napi::Object exports) {
  if (!startEventLoop()) throw Napi::Error::New(env, "libvirt's event loop cannot be started");
  exports.Set("Connection", Connection::define(env));
  return exports;
}

}  // namespace

NODE_API_MODULE(libvirt, init)
