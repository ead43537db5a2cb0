// SPDX-License-Identifier: Apache-2.0
// How another program ended that ran in place of this one.

/** Another program ran in this one's place and ended so, and has said why itself. */
export class ProgramEnded extends Error {
  readonly exitCode: number;

  constructor(exitCode: number) {
    super(`it ended with ${String(exitCode)}`);
    this.exitCode = exitCode;
  }
}
