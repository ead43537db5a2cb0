// SPDX-License-Identifier: Apache-2.0
// PID 1 of a pod's sandbox: holds its namespaces, reaps what others leave, ends when it is told to.
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

int main(void) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  // PID 1 gets a signal without a handler only while it is blocked.
  if (sigprocmask(SIG_BLOCK, &signals, NULL) != 0) {
    perror("pause: sigprocmask");
    return 1;
  }
  for (;;) {
    int number = 0;
    if (sigwait(&signals, &number) != 0) continue;
    if (number != SIGCHLD) return 0;
    // One SIGCHLD may stand for many children.
    while (waitpid(-1, NULL, WNOHANG) > 0) continue;
  }
}
