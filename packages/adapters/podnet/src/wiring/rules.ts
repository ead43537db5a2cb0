// SPDX-License-Identifier: Apache-2.0
// Rules around a wiring of any kind: what its guest may send, and what is left of rules when it is taken apart.
import type { LeftWiring, SeenWiring } from "@patchbay/core";
import { answersNameOf } from "../nft/answers.ts";
import { guardNameOf, guardTable } from "../nft/guard.ts";
import { natNameOf } from "../nft/nat.ts";
import { hasTable, hasTableNamed, removalText, replacementText } from "../nft/table.ts";
import { settingsAfter } from "./masquerade-plan.ts";
import type { Pod, NetnsState } from "./wirer.ts";

/** What is missing for the guest to be held to what it may send, or there although it may send anything; none: empty. */
export function guardCommands({ tables }: NetnsState, { tapName, guard }: SeenWiring): string {
  const name = guardNameOf(tapName);
  if (guard === undefined) return hasTableNamed(tables, name) ? removalText(name) : "";
  const table = guardTable(tapName, guard);
  return hasTable(tables, table) ? "" : replacementText(table);
}

/** Whether the guest is held to what it may send. */
export function isGuarded(state: NetnsState, wiring: SeenWiring): boolean {
  return guardCommands(state, wiring) === "";
}

/** Holds the guest to what it may send; its tap is there by now. */
export async function putGuard(pod: Pod, wiring: SeenWiring, before: NetnsState): Promise<void> {
  await pod.nft(guardCommands(before, wiring));
}

/** Lets go of a guest whose tap has gone. */
export async function removeGuard(
  pod: Pod,
  { tapName }: LeftWiring,
  before: NetnsState,
): Promise<void> {
  const name = guardNameOf(tapName);
  if (hasTableNamed(before.tables, name)) await pod.nft(removalText(name));
}

/**
 * Takes away the rules of a wiring, of whichever kind it was: a deleted iface does not say. The table of translation is
 * the mark that the namespace forwards, so it goes last. Links are the mark that rules are left: they go after.
 */
export async function removeRules(pod: Pod, wiring: LeftWiring, before: NetnsState): Promise<void> {
  const { tables, settings } = before;
  const nat = natNameOf(wiring.podInterfaceName);
  if (hasTableNamed(tables, nat)) await pod.set(settingsAfter(wiring.podInterfaceName, settings));
  const own = wiring.kind === "tap" ? [] : [answersNameOf(wiring.bridgeName)];
  const left = [nat, ...own].filter((name) => hasTableNamed(tables, name));
  await pod.nft(left.map(removalText).join(""));
}
