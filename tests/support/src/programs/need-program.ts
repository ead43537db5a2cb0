// SPDX-License-Identifier: Apache-2.0
// Programs that single tests need. hack/test counts a test without its program as not possible.
import { existsSync } from "node:fs";

/** Prefix of the error; hack/test searches it in the reports. */
export const NOT_POSSIBLE = "not possible here:";

/**
 * Throws unless the program is installed. At the top level of a file it makes all tests of the file not possible; in a
 * test or a hook, that test or the tests after the hook.
 *
 * @param program - absolute path
 * @param debianPackage - has the program, and is installed by `hack/install --tests`
 */
export function needProgram(program: string, debianPackage: string): void {
  if (existsSync(program)) return;
  throw new Error(
    `${NOT_POSSIBLE} ${program} is missing. Install Debian's package ${debianPackage}, for example by hack/install --tests`,
  );
}
