// SPDX-License-Identifier: Apache-2.0
// System calls that Node.js lacks. This addon contains no policy, because TypeScript makes all decisions.
#include <napi.h>

#include "files/files.h"
#include "files/trees.h"
#include "links/counters.h"
#include "links/frames.h"
#include "links/links.h"
#include "links/netlink.h"
#include "processes/privileges.h"
#include "processes/processes.h"
#include "processes/programs.h"
#include "sockets.h"

namespace {

Napi::Object init(Napi::Env env, Napi::Object exports) {
  registerCounters(env, exports);
  registerFiles(env, exports);
  registerFrames(env, exports);
  registerLinks(env, exports);
  registerNetlink(env, exports);
  registerSockets(env, exports);
  registerProcesses(env, exports);
  registerPrivileges(env, exports);
  registerPrograms(env, exports);
  registerTrees(env, exports);
  return exports;
}

}  // namespace

NODE_API_MODULE(os, init)
