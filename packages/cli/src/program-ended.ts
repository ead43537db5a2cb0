// SPDX-License-Identifier: Apache-2.0
// Error for a failed program that this program started in the foreground.

/** Error without a message for the user, because the program has already printed a message. */
export class ProgramEnded extends Error {
  readonly exitCode: number;

  constructor(exitCode: number) {
    super(`it ended with ${String(exitCode)}`);
    this.exitCode = exitCode;
  }
}
