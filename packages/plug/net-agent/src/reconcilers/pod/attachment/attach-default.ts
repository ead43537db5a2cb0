// SPDX-License-Identifier: Apache-2.0
// Makes a pod's default network in a sandbox that the runtime is just making.
import { AppError } from "@patchbay/core";
import type { CniResult } from "@patchbay/core/ports";
import type { Deps } from "../../../deps.ts";
import type { PodFacts } from "../observe.ts";
import { addOrUndo, begin } from "./add.ts";
import { listLinks, sandboxOf } from "./netns.ts";
import type { DeviceOfRequest } from "./of-node/device.ts";

/** What is to be made. */
export interface DefaultNetwork extends DeviceOfRequest {
  /** As the pod's status tells it. */
  readonly network: string;
  /** Throws where the result is not what was asked for. */
  readonly check?: (result: CniResult) => Promise<void>;
}

/**
 * Attaches it; its row is the recipe for the runtime's DEL.
 * @throws AppError with what plugins and the sandbox give cause to, CNI_NAME_TAKEN
 */
export async function attachDefault(
  { network, check, ...given }: DefaultNetwork,
  facts: PodFacts,
  deps: Deps,
): Promise<CniResult> {
  const { interfaceName } = given.request;
  const links = await listLinks(facts, deps);
  if (links.some(({ name }) => name === interfaceName)) {
    throw new AppError("CNI_NAME_TAKEN", { interface: interfaceName });
  }
  const startMs = deps.clock.monotonicMs();
  const what = { facts, sandbox: sandboxOf(facts), ...given, isDefault: true } as const;
  const begun = await begin({ network }, what, deps);
  const { row, result } = await addOrUndo(begun, { facts, ...(check && { check }) }, deps);
  await deps.journal.write({ ...row, state: "attached", result });
  const durationMs = Math.round(deps.clock.monotonicMs() - startMs);
  deps.log.info("attached default network", {
    pod: facts.key,
    network,
    link: interfaceName,
    durationMs,
  });
  return result;
}
