// SPDX-License-Identifier: Apache-2.0
// Reports the end of processes that are not children of this process.
#include "processes.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "../error.h"
#include "../readiness.h"

namespace {

// openProcess(pid) returns a pidfd. Source: pidfd_open(2).
Napi::Value openProcess(const Napi::CallbackInfo &info) {
  const long fd = syscall(SYS_pidfd_open, intArgument(info, 0), 0);
  if (fd < 0) throw systemError(info.Env(), "pidfd_open", errno);
  return Napi::Number::New(info.Env(), static_cast<double>(fd));
}

Napi::Value hasEnded(const Napi::CallbackInfo &info) {
  struct pollfd process = {intArgument(info, 0), POLLIN, 0};
  const int count = poll(&process, 1, 0);
  if (count < 0) throw systemError(info.Env(), "poll", errno);
  return Napi::Boolean::New(info.Env(), count > 0);
}

// watchEnd(pidfd, callback) returns a number for cancelEnd. Copies the descriptor.
Napi::Value watchEnd(const Napi::CallbackInfo &info) {
  const int pidfd = fcntl(intArgument(info, 0), F_DUPFD_CLOEXEC, 3);
  if (pidfd < 0) throw systemError(info.Env(), "fcntl", errno);
  const auto ended = info[1].As<Napi::Function>();
  Readiness &readiness = Readiness::of(info.Env());
  return Napi::Number::New(info.Env(), readiness.add(info.Env(), pidfd, ended, Readiness::Mode::kOnce));
}

Napi::Value cancelEnd(const Napi::CallbackInfo &info) {
  Readiness::of(info.Env()).cancel(static_cast<uint32_t>(intArgument(info, 0)));
  return info.Env().Undefined();
}

}  // namespace

void registerProcesses(Napi::Env env, Napi::Object exports) {
  exports.Set("openProcess", Napi::Function::New(env, openProcess, "openProcess"));
  exports.Set("hasEnded", Napi::Function::New(env, hasEnded, "hasEnded"));
  exports.Set("watchEnd", Napi::Function::New(env, watchEnd, "watchEnd"));
  exports.Set("cancelEnd", Napi::Function::New(env, cancelEnd, "cancelEnd"));
}
