// SPDX-License-Identifier: Apache-2.0
// The system calls that Node.js lacks. No policy here: TypeScript decides, this only calls.
#include <napi.h>

#include "counters.h"
#include "files.h"
#include "links.h"
#include "netlink.h"
#include "privileges.h"
#include "processes.h"
#include "sockets.h"
#include "trees.h"

namespace {

Napi::Object init(Napi::Env env, Napi::Object exports) {
  registerCounters(env, exports);
  registerFiles(env, exports);
  registerLinks(env, exports);
  registerNetlink(env, exports);
  registerSockets(env, exports);
  registerProcesses(env, exports);
  registerPrivileges(env, exports);
  registerTrees(env, exports);
  return exports;
}

}  // namespace

NODE_API_MODULE(os, init)
