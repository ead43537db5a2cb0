// SPDX-License-Identifier: Apache-2.0
// Opening a path that someone else controls.
#include "files.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "error.h"

namespace {

// openBeneath(directoryFd, path, kind): `path` below the directory, through no symbolic or magic link.
// Source: openat2(2), RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS, RESOLVE_NO_MAGICLINKS.
Napi::Value openBeneath(const Napi::CallbackInfo &info) {
  const int directory = intArgument(info, 0);
  const std::string path = info[1].As<Napi::String>();
  const std::string kind = info[2].As<Napi::String>();
  struct open_how how = {};
  how.flags = O_CLOEXEC | O_NOFOLLOW;
  how.flags |= kind == "path" ? O_PATH : kind == "directory" ? O_PATH | O_DIRECTORY : O_RDONLY | O_NONBLOCK;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  long fd = -1;
  // EAGAIN: the kernel could not be sure because of a rename elsewhere; a few tries are the manual's advice.
  for (int attempt = 0; attempt < 16; attempt++) {
    fd = syscall(SYS_openat2, directory, path.c_str(), &how, sizeof how);
    if (fd >= 0 || (errno != EAGAIN && errno != EINTR)) break;
  }
  if (fd < 0) throw systemError(info.Env(), "openat2", errno);
  return Napi::Number::New(info.Env(), static_cast<double>(fd));
}

}  // namespace

void registerFiles(Napi::Env env, Napi::Object exports) {
  exports.Set("openBeneath", Napi::Function::New(env, openBeneath, "openBeneath"));
}
