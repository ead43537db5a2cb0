// SPDX-License-Identifier: Apache-2.0
// Opens paths that tenants control, locks files, and keeps descriptors from child processes.
#include "files.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>

#include "../error.h"

namespace {

// openBeneath(directoryFd, path, kind) opens `path` below the directory. Rejects paths with symbolic or magic
// links. Source: openat2(2), RESOLVE_BENEATH, RESOLVE_NO_SYMLINKS, RESOLVE_NO_MAGICLINKS.
Napi::Value openBeneath(const Napi::CallbackInfo &info) {
  const int directory = intArgument(info, 0);
  const std::string path = info[1].As<Napi::String>();
  const std::string kind = info[2].As<Napi::String>();
  struct open_how how = {};
  how.flags = O_CLOEXEC | O_NOFOLLOW;
  how.flags |= kind == "path" ? O_PATH : kind == "directory" ? O_PATH | O_DIRECTORY : O_RDONLY | O_NONBLOCK;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  long fd = -1;
  // The kernel returns EAGAIN if a concurrent rename prevents the check. openat2(2) recommends a few retries.
  for (int attempt = 0; attempt < 16; attempt++) {
    fd = syscall(SYS_openat2, directory, path.c_str(), &how, sizeof how);
    if (fd >= 0 || (errno != EAGAIN && errno != EINTR)) break;
  }
  if (fd < 0) throw systemError(info.Env(), "openat2", errno);
  return Napi::Number::New(info.Env(), static_cast<double>(fd));
}

// lockDescriptor(fd) returns whether it acquired the lock, and never waits. The kernel releases the lock when
// the last copy of the descriptor is closed, even after a crash. Source: flock(2).
Napi::Value lockDescriptor(const Napi::CallbackInfo &info) {
  if (flock(intArgument(info, 0), LOCK_EX | LOCK_NB) == 0) return Napi::Boolean::New(info.Env(), true);
  if (errno == EWOULDBLOCK) return Napi::Boolean::New(info.Env(), false);
  throw systemError(info.Env(), "flock", errno);
}

// sealDescriptors() sets FD_CLOEXEC on all descriptors except the standard streams, so that programs do not
// inherit descriptors that a library left open. Source: fcntl(2).
Napi::Value sealDescriptors(const Napi::CallbackInfo &info) {
  DIR *directory = opendir("/proc/self/fd");
  if (directory == nullptr) throw systemError(info.Env(), "opendir", errno);
  while (const struct dirent *entry = readdir(directory)) {
    const int fd = atoi(entry->d_name);
    if (fd > STDERR_FILENO) fcntl(fd, F_SETFD, FD_CLOEXEC);
  }
  closedir(directory);
  return info.Env().Undefined();
}

// setAttribute(path, name, value) sets an extended attribute and follows symbolic links. Source: setxattr(2).
Napi::Value setAttribute(const Napi::CallbackInfo &info) {
  const std::string path = info[0].As<Napi::String>();
  const std::string name = info[1].As<Napi::String>();
  const std::string value = info[2].As<Napi::String>();
  if (setxattr(path.c_str(), name.c_str(), value.data(), value.size(), 0) != 0)
    throw systemError(info.Env(), "setxattr", errno);
  return info.Env().Undefined();
}

}  // namespace

void registerFiles(Napi::Env env, Napi::Object exports) {
  exports.Set("lockDescriptor", Napi::Function::New(env, lockDescriptor, "lockDescriptor"));
  exports.Set("sealDescriptors", Napi::Function::New(env, sealDescriptors, "sealDescriptors"));
  exports.Set("setAttribute", Napi::Function::New(env, setAttribute, "setAttribute"));
  exports.Set("openBeneath", Napi::Function::New(env, openBeneath, "openBeneath"));
}
