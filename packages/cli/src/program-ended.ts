// SPDX-License-Identifier: Apache-2.0
// Error for a failed child process that ran in the foreground, for example ssh.

/** Error that ends this program with the child's exit code. No message is shown, because the child has already printed one. */
export class ProgramEnded extends Error {
  readonly exitCode: number;

  constructor(exitCode: number) {
    super(`it ended with ${String(exitCode)}`);
    this.exitCode = exitCode;
  }
}
