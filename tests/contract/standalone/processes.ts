// SPDX-License-Identifier: Apache-2.0
// Which process is a component of a standalone machine?
import { join } from "node:path";
import { createFiles } from "@patchbay/os";

/** A process, told from a later one of the same pid. */
export interface NamedProcess {
  readonly pid: number;
  readonly startTime: string;
}

/** As the supervisor has written it down; without members where it has not. */
export async function processOf(dataDir: string, name: string): Promise<NamedProcess> {
  const text = (await createFiles().readText(join(dataDir, "run", `${name}.json`))) ?? "{}";
  // Written by the supervisor.
  return JSON.parse(text) as NamedProcess;
}
