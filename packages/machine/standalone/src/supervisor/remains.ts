// SPDX-License-Identifier: Apache-2.0
// What a supervisor that was killed, or a reboot of the host, leaves behind.
import { join } from "node:path";
import { listProcesses, shimsOf } from "@patchbay/containerd";
import type { Files } from "@patchbay/core/ports";
import type { Paths } from "../data-dir/paths.ts";
import { containerdLayoutOf } from "../runtime/own-containerd.ts";
import { isRecordedRunning } from "./recorded-process.ts";

/** Whether components, pods or shims of containers must be ended although no supervisor runs. */
export async function hasRemains(files: Files, paths: Paths): Promise<boolean> {
  const components = (await files.list(paths.run)).filter(
    (name) => name.endsWith(".json") && !name.startsWith("supervisor"),
  );
  for (const name of components) {
    if (await isRecordedRunning(files, join(paths.run, name))) return true;
  }
  if ((await files.list(paths.pods)).length > 0) return true;
  const { socket } = containerdLayoutOf(paths);
  return shimsOf(await listProcesses(files), socket).length > 0;
}
