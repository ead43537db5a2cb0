// SPDX-License-Identifier: Apache-2.0
// Removes directory trees that tenants control. Follows no symbolic links and enters no mounts.
//
// A nested directory that is not empty is first moved into the top directory, so two descriptors and short names suffice
// for any depth. A mount point cannot be moved, so it remains and causes the error.
#include "trees.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <string>

#include "../error.h"

namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor &) = delete;
  Descriptor &operator=(const Descriptor &) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

constexpr int kDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

// Clears the flags that forbid changes (chattr +i, +a). Does not open other files than regular files and directories.
void makeChangeable(int directory, const char *name) {
  struct stat status = {};
  if (fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return;
  if (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)) return;
  const Descriptor file(openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  int flags = 0;
  if (file.get() < 0 || ioctl(file.get(), FS_IOC_GETFLAGS, &flags) != 0) return;
  flags &= ~(FS_IMMUTABLE_FL | FS_APPEND_FL);
  ioctl(file.get(), FS_IOC_SETFLAGS, &flags);
}

// Runs `change` on an entry. Clears flags and retries if the entry or its directory may be immutable. Returns an errno.
template <typename Change>
int changeEntry(int directory, const char *name, Change change) {
  if (change() == 0) return 0;
  if (errno != EPERM) return errno;
  makeChangeable(directory, ".");
  makeChangeable(directory, name);
  return change() == 0 ? 0 : errno;
}

class Tree {
 public:
  explicit Tree(int top) : top_(top) {}

  // Removes everything below the top directory. Returns an errno.
  int empty() {
    for (;;) {
      bool isEmpty = true;
      const int error = forEach(top_, [&](const char *name) {
        isEmpty = false;
        return removeFromTop(name);
      });
      if (error != 0 || isEmpty) return error;
    }
  }

 private:
  template <typename Visit>
  static int forEach(int directory, Visit visit) {
    const int copy = openat(directory, ".", kDirectory);
    DIR *stream = copy < 0 ? nullptr : fdopendir(copy);
    if (stream == nullptr) {
      const int error = errno;
      if (copy >= 0) close(copy);
      return error;
    }
    int error = 0;
    while (const struct dirent *entry = error == 0 ? readdir(stream) : nullptr) {
      const std::string name = entry->d_name;
      if (name != "." && name != "..") error = visit(name.c_str());
    }
    closedir(stream);
    return error;
  }

  // Returns 0 if the entry no longer exists, ENOTEMPTY for a directory that is not empty, or another errno.
  static int removeOne(int directory, const char *name) {
    const int error = changeEntry(directory, name, [&] { return unlinkat(directory, name, 0); });
    if (error == 0 || error == ENOENT) return 0;
    if (error != EISDIR) return error;
    const int left = changeEntry(directory, name, [&] { return unlinkat(directory, name, AT_REMOVEDIR); });
    return left == ENOENT ? 0 : left == EEXIST ? ENOTEMPTY : left;
  }

  int removeFromTop(const char *name) {
    const int error = removeOne(top_, name);
    if (error != ENOTEMPTY) return error;
    const Descriptor directory(openat(top_, name, kDirectory));
    if (directory.get() < 0) return errno;
    const int inner = forEach(directory.get(), [&](const char *child) {
      const int left = removeOne(directory.get(), child);
      return left == ENOTEMPTY ? raise(directory.get(), child) : left;
    });
    return inner != 0 ? inner : removeOne(top_, name);
  }

  // Moves a directory into the top directory, under an unused name.
  int raise(int directory, const char *name) {
    for (;;) {
      const std::string target = "." + std::to_string(++raised_);
      const int error = changeEntry(directory, name, [&] {
        return renameat2(directory, name, top_, target.c_str(), RENAME_NOREPLACE);
      });
      if (error != EEXIST) return error;
    }
  }

  const int top_;
  uint64_t raised_ = 0;
};

// Returns an errno. A missing tree is not an error.
int removeTree(const std::string &path) {
  const size_t slash = path.rfind('/');
  const std::string parent = slash == 0 ? "/" : path.substr(0, slash);
  const std::string name = path.substr(slash + 1);
  const Descriptor directory(open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (directory.get() < 0) return errno == ENOENT || errno == ENOTDIR ? 0 : errno;
  const auto unlinkTop = [&](int flags) {
    return changeEntry(directory.get(), name.c_str(), [&] { return unlinkat(directory.get(), name.c_str(), flags); });
  };
  int error = unlinkTop(0);
  if (error == EISDIR) error = unlinkTop(AT_REMOVEDIR);
  if (error == 0 || error == ENOENT) return 0;
  if (error != ENOTEMPTY && error != EEXIST) return error;  // for example EBUSY for a mount point, whose content is unchanged
  {
    const Descriptor top(openat(directory.get(), name.c_str(), kDirectory));
    if (top.get() < 0) return errno;
    error = Tree(top.get()).empty();
  }
  if (error == 0) error = unlinkTop(AT_REMOVEDIR);
  return error == ENOENT ? 0 : error;
}

class Removal : public Napi::AsyncWorker {
 public:
  Removal(Napi::Env env, std::string path)
      : Napi::AsyncWorker(env), deferred(Napi::Promise::Deferred::New(env)), path_(std::move(path)) {}

  void Execute() override { error_ = removeTree(path_); }

  void OnOK() override {
    if (error_ == 0) {
      deferred.Resolve(Env().Undefined());
    } else {
      deferred.Reject(systemError(Env(), "removeTree", error_).Value());
    }
  }

  const Napi::Promise::Deferred deferred;

 private:
  const std::string path_;
  int error_ = 0;
};

// removeTree(path) returns a promise. `path` is absolute. Another thread removes the tree.
Napi::Value startRemoval(const Napi::CallbackInfo &info) {
  auto *removal = new Removal(info.Env(), info[0].As<Napi::String>());
  const Napi::Promise promise = removal->deferred.Promise();
  removal->Queue();  // the work deletes itself when it ends
  return promise;
}

}  // namespace

void registerTrees(Napi::Env env, Napi::Object exports) {
  exports.Set("removeTree", Napi::Function::New(env, startRemoval, "removeTree"));
}
