// SPDX-License-Identifier: Apache-2.0
// Opens network namespaces of pods. Verifies that a path still refers to the pod's namespace, and not to the host's namespace.
import type { NetworkStatus } from "@patchbay/api/annotations";
import { normalizeMac } from "@patchbay/api/values";
import type { JournalRow } from "@patchbay/cni";
import { AppError } from "@patchbay/base";
import type { Link, OpenNetns, Sandbox } from "@patchbay/core/interfaces";
import type { Deps } from "../../../deps.ts";
import type { PodFacts } from "../observe.ts";

/** @throws AppError with SANDBOX_NOT_FOUND */
export function requireSandbox({ sandbox, key }: PodFacts): Sandbox {
  if (sandbox === undefined) throw new AppError("SANDBOX_NOT_FOUND", { pod: key });
  return sandbox;
}

/** Lists the links in the sandbox. @throws AppError with SANDBOX_NOT_FOUND, OS_PATH_REFUSED */
export async function listLinks(facts: PodFacts, deps: Deps): Promise<readonly Link[]> {
  const sandbox = requireSandbox(facts);
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

/** Opens the row's network namespace, which the caller must close. Returns undefined if the namespace is unknown or no longer exists. */
export function openRowNetns(row: JournalRow, deps: Deps): OpenNetns | undefined {
  const { netnsPath } = row.request;
  if (netnsPath === undefined || row.bootId !== deps.bootId) return undefined;
  const netns = deps.namespaces.open(netnsPath);
  if (netns?.inode === row.netnsInode) return netns;
  netns?.close();
  return undefined;
}

/** Returns whether the status entry describes the link. Entries without a MAC describe none. */
export function isEntryOf({ name, mac }: Link, entry: NetworkStatus): boolean {
  return entry.interface === name && normalizeMac(entry.mac ?? "") === normalizeMac(mac);
}
