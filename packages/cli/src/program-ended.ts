// SPDX-License-Identifier: Apache-2.0
// Error for a program that ran in place of this one and failed.

/** The program has already printed why it failed. */
export class ProgramEnded extends Error {
  readonly exitCode: number;

  constructor(exitCode: number) {
    super(`it ended with ${String(exitCode)}`);
    this.exitCode = exitCode;
  }
}
