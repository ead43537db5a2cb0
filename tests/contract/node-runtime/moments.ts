// SPDX-License-Identifier: Apache-2.0
// Moments of a pod's start that are observable from outside node-runtime.
import { eventually } from "@patchbay/support";
import type { RuntimeMachine } from "./machine.ts";

const START_MS = 60_000;

/** In chronological order. */
export const MOMENTS = ["sandbox", "container", "running container"] as const;
export type Moment = (typeof MOMENTS)[number];

async function hasCome({ runtime }: RuntimeMachine, moment: Moment): Promise<boolean> {
  if (moment === "sandbox") return (await runtime.listSandboxes()).length > 0;
  const containers = await runtime.listContainers();
  return moment === "container"
    ? containers.length > 0
    : containers.some(({ state }) => state === "RUNNING");
}

/** Waits until containerd has the pod's first sandbox, container or running container. */
export async function waitForMoment(machine: RuntimeMachine, moment: Moment): Promise<void> {
  await eventually(() => hasCome(machine, moment), { withinMs: START_MS });
}
