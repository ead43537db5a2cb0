// SPDX-License-Identifier: Apache-2.0
// Keeps all pods together within what is theirs, so that the kernel looks among them when memory is short.
import { messageOf } from "@patchbay/core";
import { limitControlGroup } from "@patchbay/os";
import type { Logger } from "@patchbay/core/ports";
import { readMachine, type MachineSources } from "../node/machine.ts";
import { podShareOf } from "../node/reserve.ts";

/** Sets the limits of the control group that all pods are in. Without them a pod's own limits are what there is. */
export async function limitPods(
  sources: MachineSources,
  group: string,
  log: Logger,
): Promise<void> {
  const { memoryKiB, processes } = podShareOf(await readMachine(sources));
  try {
    const missing = await limitControlGroup(group, { memoryBytes: memoryKiB * 1024, processes });
    if (missing.length === 0) return;
    log.warn("pods are not limited together", { reason: `no controller ${missing.join(", ")}` });
  } catch (error) {
    log.warn("pods are not limited together", { reason: messageOf(error) });
  }
}
