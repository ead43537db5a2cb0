// SPDX-License-Identifier: Apache-2.0
// Records an attachment that the runtime made, with libcni's cached configuration or else with the network's definition.
import type { JournalRow } from "@patchbay/cni";
import type { ForeignAttachment } from "@patchbay/core/nics";
import { parseKey } from "@patchbay/kube";
import type { AttachmentRequest, CniResult, Sandbox } from "@patchbay/core/interfaces";
import type { Deps } from "../../../deps.ts";
import { mayUse } from "../launcher.ts";
import type { PodFacts } from "../observe.ts";
import { readDefinition, isUnusableDefinition } from "./definition.ts";
import { requireSandbox } from "./netns.ts";
import { findForbidden, isRejection } from "./policy.ts";
import { buildPodArgs } from "./request.ts";
import { buildRow, writeRow } from "./add.ts";

interface AttachmentConfig extends Pick<AttachmentRequest, "config" | "args" | "capabilityArgs"> {
  readonly result?: CniResult;
}

/** Without a usable configuration a detach only removes the NIC. Forbidden ones are not used, because pod authors can forge the status. */
async function buildConfig(
  network: string,
  facts: PodFacts,
  where: { readonly sandbox: Sandbox; readonly deps: Deps },
): Promise<AttachmentConfig> {
  const { sandbox, deps } = where;
  return {
    config: await findUsableConfig(network, facts, deps),
    args: buildPodArgs(facts, sandbox),
    capabilityArgs: {},
  };
}

async function findUsableConfig(
  network: string,
  facts: PodFacts,
  deps: Deps,
): Promise<AttachmentRequest["config"]> {
  try {
    if (await mayUse(network, facts, deps)) {
      const config = await readDefinition(network, deps);
      const forbidden = await findForbidden(network, config, deps);
      if (forbidden === undefined || !isRejection(forbidden)) return config;
    }
  } catch (error) {
    if (!isUnusableDefinition(error)) throw error;
  }
  return { cniVersion: "1.0.0", name: parseKey(network).name, plugins: [] };
}

/** @throws AppError with SANDBOX_NOT_FOUND */
export async function adopt(
  { network, interfaceName }: ForeignAttachment,
  facts: PodFacts,
  deps: Deps,
): Promise<void> {
  const sandbox = requireSandbox(facts);
  const cached = await deps.resultCache.find(sandbox.id, interfaceName);
  const source = cached ?? (await buildConfig(network, facts, { sandbox, deps }));
  const { result, ...settings } = source;
  const { id: containerId, netnsPath } = sandbox;
  const request = { containerId, netnsPath, interfaceName, ...settings };
  const row: JournalRow = {
    ...(await buildRow({ network }, { facts, sandbox, request }, deps)),
    state: "attached",
    isAdopted: true,
    ...(result === undefined ? {} : { result }),
  };
  await writeRow(row, facts, deps);
  const isCached = cached !== undefined;
  deps.log.info("adopted network", {
    pod: facts.key,
    network,
    link: interfaceName,
    isRemembered: isCached,
  });
}
