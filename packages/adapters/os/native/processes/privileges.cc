// SPDX-License-Identifier: Apache-2.0
// Drops all privileges of a root process, in all of its threads.
//
// glibc applies setresuid to all threads. no_new_privs and the bounding set apply to one thread only, and Node.js starts
// threads before this code runs. So every other thread makes the same calls in a signal handler, as libcap's libpsx does.
// This repeats until no thread has privileges that it would pass on, because threads that start meanwhile may have them.
// Afterwards, this code checks the privileges of each thread in /proc.
#include "privileges.h"

#include <dirent.h>
#include <grp.h>
#include <linux/capability.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

#include "../error.h"

namespace {

std::atomic<int> confined{0};
// All rounds together: a thread that blocks the signal never answers.
constexpr std::chrono::seconds kTimeout{2};
using Deadline = std::chrono::steady_clock::time_point;

// Runs in a signal handler, so it makes only system calls.
void confineThread() {
  for (unsigned long capability = 0; capability <= CAP_LAST_CAP; capability++) {
    prctl(PR_CAPBSET_DROP, capability, 0, 0, 0);
  }
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct sets[2] = {};
  if (syscall(SYS_capget, &header, sets) == 0) {
    sets[0].inheritable = 0;
    sets[1].inheritable = 0;
    syscall(SYS_capset, &header, sets);
  }
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
}

void onSignal(int) {
  const int saved = errno;
  confineThread();
  confined.fetch_add(1);
  errno = saved;
}

std::vector<pid_t> listThreads() {
  std::vector<pid_t> threads;
  DIR *directory = opendir("/proc/self/task");
  if (directory == nullptr) return threads;
  while (const struct dirent *entry = readdir(directory)) {
    const pid_t thread = static_cast<pid_t>(atoi(entry->d_name));
    if (thread > 0) threads.push_back(thread);
  }
  closedir(directory);
  return threads;
}

void confineOtherThreads(const Deadline deadline) {
  const int number = SIGRTMIN + 7;
  struct sigaction action = {};
  struct sigaction previous = {};
  action.sa_handler = onSignal;
  action.sa_flags = SA_RESTART;
  sigaction(number, &action, &previous);
  confined.store(0);
  int asked = 0;
  const pid_t self = static_cast<pid_t>(syscall(SYS_gettid));
  for (const pid_t thread : listThreads()) {
    if (thread != self && syscall(SYS_tgkill, getpid(), thread, number) == 0) asked++;
  }
  const struct timespec pause = {0, 1000000};
  while (confined.load() < asked && std::chrono::steady_clock::now() < deadline) nanosleep(&pause, nullptr);
  // After a timeout, the handler must remain, because the default action of a late signal would end the process.
  if (confined.load() >= asked) sigaction(number, &previous, nullptr);
}

using Prefixes = std::vector<const char *>;
const Prefixes kInheritedSets = {"CapInh:\t", "CapBnd:\t", "CapAmb:\t"};
const Prefixes kAllSets = {"CapInh:\t", "CapPrm:\t", "CapEff:\t", "CapBnd:\t", "CapAmb:\t"};

// Checks a line of /proc/self/task/*/status. Returns true for lines without privileges. Source: proc(5).
bool isConfined(const std::string &line, const Prefixes &sets) {
  for (const char *set : sets) {
    if (line.rfind(set, 0) == 0) return line.find_first_not_of('0', strlen(set)) == std::string::npos;
  }
  if (line.rfind("NoNewPrivs:\t", 0) == 0) return line == "NoNewPrivs:\t1";
  return true;
}

// Checks whether the sets of all threads are empty, and whether no thread can gain privileges by execve.
bool areAllConfined(const Prefixes &sets) {
  for (const pid_t thread : listThreads()) {
    std::ifstream status("/proc/self/task/" + std::to_string(thread) + "/status");
    if (!status) continue;  // the thread has ended
    for (std::string line; std::getline(status, line);) {
      if (!isConfined(line, sets)) return false;
    }
  }
  return true;
}

void confineAllThreads() {
  const Deadline deadline = std::chrono::steady_clock::now() + kTimeout;
  do {
    confineOtherThreads(deadline);
    confineThread();
  } while (!areAllConfined(kInheritedSets) && std::chrono::steady_clock::now() < deadline);
}

// dropPrivileges(uid, gid) drops the privileges of all threads permanently, or throws.
Napi::Value dropPrivileges(const Napi::CallbackInfo &info) {
  const uid_t uid = static_cast<uid_t>(intArgument(info, 0));
  const gid_t gid = static_cast<gid_t>(intArgument(info, 1));
  if (uid == 0 || gid == 0) throw systemError(info.Env(), "dropPrivileges", EINVAL);
  confineAllThreads();
  if (setgroups(0, nullptr) < 0) throw systemError(info.Env(), "setgroups", errno);
  if (setresgid(gid, gid, gid) < 0) throw systemError(info.Env(), "setresgid", errno);
  if (setresuid(uid, uid, uid) < 0) throw systemError(info.Env(), "setresuid", errno);
  // Other processes of the user must not trace this process. This is also the kernel's default after setresuid.
  prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  if (!areAllConfined(kAllSets)) throw systemError(info.Env(), "dropPrivileges", EPERM);
  return info.Env().Undefined();
}

}  // namespace

void registerPrivileges(Napi::Env env, Napi::Object exports) {
  exports.Set("dropPrivileges", Napi::Function::New(env, dropPrivileges, "dropPrivileges"));
}
