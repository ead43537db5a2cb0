// SPDX-License-Identifier: Apache-2.0
// Runs CNI GC with the list of valid attachments, so that plugins release all other addresses. If the list may be incomplete,
// reports the network instead.
import { isPodFinished, type Pod } from "@patchbay/api/kubernetes";
import { AppError, isAppError } from "@patchbay/base";
import { keyOf, printKey } from "@patchbay/kube";
import type { AttachmentName } from "@patchbay/core/interfaces";
import type { Deps } from "../../deps.ts";
import type { Finding } from "./finding.ts";
import type { UsableNetwork } from "./networks.ts";

/** Returns whether the runtime may still be attaching networks to the pod. The runtime's cache may then lack these attachments. */
export function isStarting({ spec, status }: Pod): boolean {
  const readyCondition = status?.conditions?.find(
    ({ type }) => type === "PodReadyToStartContainers",
  );
  if (spec.hostNetwork === true) return false;
  return readyCondition === undefined
    ? status?.phase !== "Running"
    : readyCondition.status !== "True";
}

function toHeldError(network: string, reason: string): AppError {
  return new AppError("CNI_GC_HELD", { network, reason });
}

/** Lists this agent's attachments of the network. Throws if a row is unreadable, because the row could belong to the network. */
async function listOwnAttachments(
  { name, config }: UsableNetwork,
  { journal, trackedPods }: Deps,
): Promise<readonly AttachmentName[]> {
  const [unreadableUid] = trackedPods.unreadable;
  if (unreadableUid !== undefined)
    throw toHeldError(config.name, `the journal of pod ${unreadableUid} cannot be read`);
  const ownNames: AttachmentName[] = [];
  for (const uid of new Set(trackedPods.keys().flatMap((key) => trackedPods.listUids(key)))) {
    for (const { network, request, state } of await journal.list(uid)) {
      const { containerId, interfaceName } = request;
      // The CNI name of a row without a configuration is unknown, so the row's attachment may belong to `config`.
      if (request.config.plugins.length === 0 && network === name) {
        throw toHeldError(
          config.name,
          `the configuration of ${interfaceName} of pod ${uid} is unknown`,
        );
      }
      if (request.config.name !== config.name || state === "removed") continue;
      ownNames.push({ containerId, interfaceName });
    }
  }
  return ownNames;
}

async function listOtherAttachments(
  { config }: UsableNetwork,
  { resultCache, multusCache, mode }: Deps,
): Promise<readonly AttachmentName[]> {
  const caches = [resultCache, multusCache];
  const isAvailable = await Promise.all(caches.map((cache) => cache.isInUse()));
  if (mode !== "alone" && !isAvailable.includes(true)) {
    const reason =
      "the attachments of other components are unknown: no --cni-cache-dir has results";
    throw toHeldError(config.name, reason);
  }
  return (await Promise.all(caches.map((cache) => cache.listNames(config.name)))).flat();
}

/** Lists the network's attachments on this node. @throws AppError with CNI_GC_HELD if the list may be wrong or incomplete */
async function listValid(network: UsableNetwork, deps: Deps): Promise<readonly AttachmentName[]> {
  const { config } = network;
  const starting = deps.pods.list().find((pod) => !isPodFinished(pod) && isStarting(pod));
  if (starting !== undefined) {
    throw toHeldError(config.name, `pod ${printKey(keyOf(starting))} is being started`);
  }
  const ownNames = await listOwnAttachments(network, deps);
  const otherAttachments = await listOtherAttachments(network, deps);
  const ownKeys = new Set(ownNames.map(printName));
  const foreign = otherAttachments.filter((other) => !ownKeys.has(printName(other)));
  const { namespace = "" } = network.definition?.metadata ?? {};
  const isTrusted =
    network.definition === undefined || deps.policy.current().trustedNamespaces.includes(namespace);
  if (foreign.length > 0 && !isTrusted) {
    const reason = `its configuration has the name ${config.name}, which another runtime uses`;
    throw toHeldError(config.name, reason);
  }
  return [...ownNames, ...foreign];
}

function printName({ containerId, interfaceName }: AttachmentName): string {
  return `${containerId} ${interfaceName}`;
}

/** Runs GC for the network. @throws AppError with the code of a plugin's error, or with CNI_GC_HELD if some valid attachment is unknown */
export async function freeUnused(network: UsableNetwork, deps: Deps): Promise<void> {
  const isDone = await deps.cni.gc(network.config, () => listValid(network, deps));
  deps.log.debug("ran GC of a network", { network: network.name, isDone });
}

export async function collectUnused(
  networks: readonly UsableNetwork[],
  deps: Deps,
): Promise<readonly Finding[]> {
  const findings: Finding[] = [];
  for (const network of networks) {
    try {
      await freeUnused(network, deps);
    } catch (error) {
      if (!isAppError(error)) throw error;
      findings.push({
        key: `gc ${network.name}`,
        about: "gc",
        error,
        ...(network.definition && { object: network.definition }),
        reason: "UnusedNotFreed",
        subject: "on this node",
        resolved: {
          reason: "UnusedFreed",
          message: "unused addresses are released again on this node",
        },
      });
    }
  }
  return findings;
}
