// SPDX-License-Identifier: Apache-2.0
// Makes a pod's default network in a sandbox that the runtime is just making.
import { AppError } from "@patchbay/core";
import type { AttachmentRequest, CniResult, NetworkConfigList } from "@patchbay/core/ports";
import type { Deps } from "../../../deps.ts";
import type { PodFacts } from "../observe.ts";
import { addOrUndo, begin } from "./add.ts";
import { listLinks, sandboxOf } from "./netns.ts";
import { assertNotOwn } from "./policy.ts";

/** What the runtime gives along: CNI_ARGS, and values for what its configuration declares. */
export interface DefaultNetworkCall extends Pick<AttachmentRequest, "interfaceName" | "args"> {
  readonly runtimeConfig: AttachmentRequest["capabilityArgs"];
}

const IGNORE_UNKNOWN = "IgnoreUnknown";

/** Plugins fail on arguments that they do not know, unless they are told not to. Source: CNI pkg/types, CommonArgs. */
function argsOf({ args }: DefaultNetworkCall): AttachmentRequest["args"] {
  return args.some(([key]) => key === IGNORE_UNKNOWN) ? args : [[IGNORE_UNKNOWN, "1"], ...args];
}

/**
 * Attaches it; its row is the recipe for the runtime's DEL.
 * @throws AppError with what plugins and the sandbox give cause to, CNI_NAME_TAKEN, CNI_PLUGIN_CALLS_ITSELF
 */
export async function attachDefault(
  config: NetworkConfigList,
  { call, facts }: { readonly call: DefaultNetworkCall; readonly facts: PodFacts },
  deps: Deps,
): Promise<CniResult> {
  const sandbox = sandboxOf(facts);
  const { interfaceName } = call;
  const network = config.name;
  assertNotOwn(network, config);
  const links = await listLinks(facts, deps);
  if (links.some(({ name }) => name === interfaceName)) {
    throw new AppError("CNI_NAME_TAKEN", { interface: interfaceName });
  }
  const startMs = deps.clock.monotonicMs();
  const request: AttachmentRequest = {
    ...{ containerId: sandbox.id, netnsPath: sandbox.netnsPath, interfaceName, config },
    ...{ args: argsOf(call), capabilityArgs: call.runtimeConfig },
  };
  const begun = await begin({ network }, { facts, sandbox, request, isDefault: true }, deps);
  const { row, result } = await addOrUndo(begun, { facts }, deps);
  await deps.journal.write({ ...row, state: "attached", result });
  const durationMs = Math.round(deps.clock.monotonicMs() - startMs);
  deps.log.info("attached default network", {
    ...{ pod: facts.key, network, link: interfaceName, durationMs },
  });
  return result;
}
