// SPDX-License-Identifier: Apache-2.0
// PID 1 of a pod's sandbox: holds the namespaces, reaps orphaned processes, and exits on SIGTERM or SIGINT.
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

int main(void) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGCHLD);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  // The kernel discards signals to PID 1 that have no handler, unless they are blocked.
  if (sigprocmask(SIG_BLOCK, &signals, NULL) != 0) {
    perror("pause: sigprocmask");
    return 1;
  }
  for (;;) {
    int number = 0;
    if (sigwait(&signals, &number) != 0) continue;
    if (number != SIGCHLD) return 0;
    // One SIGCHLD can represent several children.
    while (waitpid(-1, NULL, WNOHANG) > 0) continue;
  }
}
