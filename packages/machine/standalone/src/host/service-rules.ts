// SPDX-License-Identifier: Apache-2.0
// What service-net has given the host: it outlives that program, and is taken away with the machine.
import { messageOf } from "@patchbay/core";
import type { Files, Logger, ProcessRunner } from "@patchbay/core/ports";
import { removeServices } from "@patchbay/service-net/host";
import { readFields, textOf } from "../data-dir/json.ts";
import type { Paths } from "../data-dir/paths.ts";

/** Removes route, address and rules of Services. Failing is no reason to stop the rest. */
export async function removeServiceRules(deps: {
  readonly files: Files;
  readonly runner: ProcessRunner;
  readonly log: Logger;
  readonly paths: Paths;
}): Promise<void> {
  const { files, runner, paths, log } = deps;
  try {
    await removeServices(runner, textOf(await readFields(files, paths.settings), "serviceSubnet"));
  } catch (error) {
    log.warn("rules of services cannot be removed", { reason: messageOf(error), err: error });
  }
}
