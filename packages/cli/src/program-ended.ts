// SPDX-License-Identifier: Apache-2.0
// Error for a program that ran in place of this one and failed.

/** Error without a message for the user, because the program has already printed one. */
export class ProgramEnded extends Error {
  readonly exitCode: number;

  constructor(exitCode: number) {
    super(`it ended with ${String(exitCode)}`);
    this.exitCode = exitCode;
  }
}
