// SPDX-License-Identifier: Apache-2.0
// Which network namespace may be worked in? That of the pod's sandbox, or that of an ADD: never another that is at the
// same path by now, and nothing is ever attached to the host's own.
import type { JournalRow } from "@patchbay/cni";
import { AppError } from "@patchbay/core";
import type { Link, OpenNetns, Sandbox } from "@patchbay/core/ports";
import type { Deps } from "../../../deps.ts";
import type { PodFacts } from "../observe.ts";

/**
 * The sandbox that a pod must have for anything to be attached.
 * @throws AppError with SANDBOX_NOT_FOUND
 */
export function sandboxOf({ sandbox, key }: PodFacts): Sandbox {
  if (sandbox === undefined) throw new AppError("SANDBOX_NOT_FOUND", { pod: key });
  return sandbox;
}

/**
 * The NICs in the sandbox.
 * @throws AppError with SANDBOX_NOT_FOUND when its namespace is not the one that the runtime named, OS_PATH_REFUSED
 */
export async function listLinks(facts: PodFacts, deps: Deps): Promise<readonly Link[]> {
  const sandbox = sandboxOf(facts);
  const netns = deps.namespaces.open(sandbox.netnsPath);
  try {
    if (netns?.inode !== sandbox.netnsInode) {
      throw new AppError("SANDBOX_NOT_FOUND", { pod: facts.key });
    }
    if (netns.inode === deps.hostNetnsInode) {
      const reason = "it is the host's own network namespace";
      throw new AppError("OS_PATH_REFUSED", { path: sandbox.netnsPath, reason });
    }
    return await deps.podNetwork.listLinks(netns);
  } finally {
    netns?.close();
  }
}

/** The namespace of ADD, while it is there; another one at the same path is none of ours. The caller closes it. */
export function openNetnsOf(row: JournalRow, deps: Deps): OpenNetns | undefined {
  const { netnsPath } = row.request;
  if (netnsPath === undefined || row.bootId !== deps.bootId) return undefined;
  const netns = deps.namespaces.open(netnsPath);
  if (netns?.inode === row.netnsInode) return netns;
  netns?.close();
  return undefined;
}
