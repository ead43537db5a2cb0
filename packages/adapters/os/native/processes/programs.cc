// SPDX-License-Identifier: Apache-2.0
// Starts programs without blocking the JavaScript thread.
//
// Node.js forks: the kernel copies the page tables of the whole process, and the JavaScript thread waits until the child
// has run, which takes long on a busy host. Here, another thread waits, and the child shares the memory of the parent
// until it executes the program. Source: vfork(2).
#include "programs.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "../error.h"

namespace {

// Search path for programs whose environment has no PATH. Source: confstr(3), _CS_PATH.
constexpr const char *kDefaultPath = "/bin:/usr/bin";

// Data for the child, allocated before vfork, because the child may only make system calls.
struct Launch {
  std::vector<const char *> candidates;  // paths, tried in order
  std::vector<char *> argv;
  std::vector<char *> env;
  std::vector<int> fds;  // become 0, 1, ... in the child; their own numbers are all higher
  bool diesWithParent;
  pid_t parent;
};

// Executes the first candidate that exists. Otherwise returns ENOENT, or a more specific error of another candidate.
int becomeProgram(const Launch &launch) {
  int error = ENOENT;
  for (const char *path : launch.candidates) {
    execve(path, launch.argv.data(), launch.env.data());
    if (errno != ENOENT && errno != ENOTDIR) error = errno;
  }
  return error;
}

// Gives the session the nice value of its leader, because nice values only count within a session. Fails without consequence
// if the kernel has no autogroups. Source: sched(7).
void prioritizeSession() {
  const int nice = getpriority(PRIO_PROCESS, 0);
  if (nice == 0) return;
  const int fd = open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC);
  if (fd < 0) return;
  dprintf(fd, "%d", nice);
  close(fd);
}

// Runs in the child, which shares the memory of the parent. Returns an errno, and does not return on success.
int runChild(const Launch &launch) {
  setsid();
  prioritizeSession();
  if (launch.diesWithParent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (getppid() != launch.parent) return ESRCH;  // the parent has already ended
  }
  for (size_t number = 0; number < launch.fds.size(); number++) {
    if (dup2(launch.fds[number], static_cast<int>(number)) < 0) return errno;
  }
  struct sigaction action = {};
  action.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; number++) sigaction(number, &action, nullptr);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  return becomeProgram(launch);
}

// Returns the pid of the child, or a negative errno. It must not be inlined, because the child shares the stack frame.
__attribute__((noinline)) pid_t launchChild(const Launch &launch) {
  volatile int error = 0;
  const pid_t pid = vfork();
  if (pid == 0) {
    error = runChild(launch);
    _exit(127);
  }
  if (pid < 0) return -errno;
  if (error == 0) return pid;
  waitpid(pid, nullptr, 0);
  return -error;
}

struct Pipe {
  int ours = -1;
  int theirs = -1;
};

void closeAll(const std::vector<int> &fds) {
  for (const int fd : fds) close(fd);
}

// Starts a program on a thread of libuv's pool. The kernel sends PR_SET_PDEATHSIG when the parent thread ends,
// and pool threads live as long as the process. Source: prctl(2).
class Start : public Napi::AsyncWorker {
 public:
  Start(Napi::Env env, std::vector<std::string> argv, std::vector<std::string> environment, std::vector<int> fds,
        bool diesWithParent)
      : Napi::AsyncWorker(env),
        deferred(Napi::Promise::Deferred::New(env)),
        argv_(std::move(argv)),
        env_(std::move(environment)),
        fds_(std::move(fds)),
        diesWithParent_(diesWithParent) {}
  ~Start() override { closeAll(fds_); }

  void Execute() override {
    const std::vector<std::string> candidates = findCandidates();
    Launch launch;
    for (const std::string &path : candidates) launch.candidates.push_back(path.c_str());
    launch.argv = pointersTo(argv_);
    launch.env = pointersTo(env_);
    launch.fds = fds_;
    launch.diesWithParent = diesWithParent_;
    launch.parent = getpid();
    // Blocks signals, because a handler in the child would change the memory of the parent.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pid_ = launchChild(launch);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (pid_ > 0) pidfd_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
    error_ = errno;
  }

  void OnOK() override {
    const Napi::HandleScope scope(Env());
    if (pid_ < 0) {
      deferred.Reject(systemError(Env(), "exec", -pid_).Value());
    } else if (pidfd_ < 0) {
      kill(-pid_, SIGKILL);  // without a pidfd, the end of the program could not be detected
      waitpid(pid_, nullptr, 0);
      deferred.Reject(systemError(Env(), "pidfd_open", error_).Value());
    } else {
      Napi::Object started = Napi::Object::New(Env());
      started.Set("pid", Napi::Number::New(Env(), pid_));
      started.Set("pidfd", Napi::Number::New(Env(), pidfd_));
      deferred.Resolve(started);
    }
  }

  const Napi::Promise::Deferred deferred;

 private:
  static std::vector<char *> pointersTo(std::vector<std::string> &texts) {
    std::vector<char *> pointers;
    for (std::string &text : texts) pointers.push_back(text.data());
    pointers.push_back(nullptr);
    return pointers;
  }

  // Searches like execvp(3), but in the PATH of the program's own environment.
  std::vector<std::string> findCandidates() const {
    const std::string &program = argv_[0];
    if (program.find('/') != std::string::npos) return {program};
    std::string path = kDefaultPath;
    for (const std::string &entry : env_) {
      if (entry.rfind("PATH=", 0) == 0) path = entry.substr(strlen("PATH="));
    }
    std::vector<std::string> candidates;
    for (size_t begin = 0; begin <= path.size();) {
      const size_t end = std::min(path.find(':', begin), path.size());
      if (end > begin) candidates.push_back(path.substr(begin, end - begin) + "/" + program);
      begin = end + 1;
    }
    return candidates;
  }

  std::vector<std::string> argv_;
  std::vector<std::string> env_;
  const std::vector<int> fds_;  // owned
  const bool diesWithParent_;
  pid_t pid_ = -1;
  int pidfd_ = -1;
  int error_ = 0;
};

std::vector<std::string> textsOf(const Napi::Value &value) {
  const auto list = value.As<Napi::Array>();
  std::vector<std::string> texts;
  for (uint32_t index = 0; index < list.Length(); index++) {
    texts.push_back(list.Get(index).As<Napi::String>().Utf8Value());
  }
  return texts;
}

// Copies the descriptors for the program to numbers above 0, 1, .... Returns an empty list and sets errno on failure.
std::vector<int> copyAll(const std::vector<int> &fds) {
  std::vector<int> copies;
  for (const int fd : fds) {
    const int copy = fcntl(fd, F_DUPFD_CLOEXEC, static_cast<int>(fds.size()));
    if (copy < 0) {
      const int error = errno;
      closeAll(copies);
      errno = error;
      return {};
    }
    copies.push_back(copy);
  }
  return copies;
}

// Pipes of a program. Closes the parent's ends unless `handOn` was called.
class Pipes {
 public:
  ~Pipes() {
    for (const Pipe &end : {input, output, errors}) {
      if (end.theirs >= 0) close(end.theirs);
      if (end.ours >= 0 && !areHandedOn_) close(end.ours);
    }
  }

  // Returns false and sets errno on failure.
  bool open(bool hasInput) {
    int fds[2];
    if (hasInput) {
      if (pipe2(fds, O_CLOEXEC) < 0) return false;
      input = {fds[1], fds[0]};
    } else {
      input.theirs = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
      if (input.theirs < 0) return false;
    }
    for (Pipe *end : {&output, &errors}) {
      if (pipe2(fds, O_CLOEXEC) < 0) return false;
      *end = {fds[0], fds[1]};
    }
    return true;
  }

  void handOn() { areHandedOn_ = true; }

  Pipe input;
  Pipe output;
  Pipe errors;

 private:
  bool areHandedOn_ = false;
};

// startProgram(argv, env, fds, hasInput, diesWithParent) returns our ends of the pipes, and a promise of pid and pidfd.
Napi::Value startProgram(const Napi::CallbackInfo &info) {
  const Napi::Env env = info.Env();
  Pipes pipes;
  if (!pipes.open(info[3].ToBoolean())) throw systemError(env, "pipe", errno);
  std::vector<int> fds = {pipes.input.theirs, pipes.output.theirs, pipes.errors.theirs};
  const auto more = info[2].As<Napi::Array>();
  for (uint32_t index = 0; index < more.Length(); index++) {
    fds.push_back(more.Get(index).As<Napi::Number>().Int32Value());
  }
  std::vector<int> copies = copyAll(fds);
  if (copies.empty()) throw systemError(env, "fcntl", errno);
  auto *start = new Start(env, textsOf(info[0]), textsOf(info[1]), std::move(copies), info[4].ToBoolean());
  Napi::Object program = Napi::Object::New(env);
  program.Set("input", Napi::Number::New(env, pipes.input.ours));
  program.Set("output", Napi::Number::New(env, pipes.output.ours));
  program.Set("errors", Napi::Number::New(env, pipes.errors.ours));
  program.Set("started", start->deferred.Promise());
  pipes.handOn();
  start->Queue();  // the work deletes itself when it ends
  return program;
}

// reapProgram(pid) returns how the program ended, and whether its process group still has members.
Napi::Value reapProgram(const Napi::CallbackInfo &info) {
  int status = 0;
  const pid_t pid = waitpid(intArgument(info, 0), &status, WNOHANG);
  if (pid <= 0) throw systemError(info.Env(), "waitpid", pid < 0 ? errno : EBUSY);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  Napi::Object end = Napi::Object::New(info.Env());
  end.Set("code", Napi::Number::New(info.Env(), code));
  end.Set("signal", Napi::Number::New(info.Env(), signal));
  end.Set("hasLeft", Napi::Boolean::New(info.Env(), kill(-pid, 0) == 0));
  return end;
}

}  // namespace

void registerPrograms(Napi::Env env, Napi::Object exports) {
  exports.Set("startProgram", Napi::Function::New(env, startProgram, "startProgram"));
  exports.Set("reapProgram", Napi::Function::New(env, reapProgram, "reapProgram"));
}
