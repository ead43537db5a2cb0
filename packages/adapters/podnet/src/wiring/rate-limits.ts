// SPDX-License-Identifier: Apache-2.0
// Limits a guest's traffic at its tap. docs/design/pod-links.md explains the limits.
import { buildLimiterName, type ObservedWiring, type RemovableWiring } from "@patchbay/core/nics";
import type { LinkChange, WiredLink } from "../links.ts";
import type { NetnsState } from "../netlink/netns-state.ts";
import { isSameRateLimit } from "../netlink/rate-limits.ts";
import {
  hasTable,
  hasTableNamed,
  removeTable,
  replaceTable,
  type Table,
  type TableChange,
  type TableName,
} from "../nft/table.ts";
import type { Pod } from "./wirers.ts";

type LimitedWiring = Pick<ObservedWiring, "kind" | "tapName" | "limits">;

function limitTableName(limiterName: string): TableName {
  return { family: "netdev", name: `patchbay-${limiterName}` };
}

/** Builds the table that sends the guest's frames through the limiter link, after the send guard has dropped forbidden frames. */
export function buildLimitTable(tapName: string): Table {
  const limiterName = buildLimiterName(tapName);
  const chain = {
    name: "to-limiter",
    hook: {
      type: "filter",
      point: `ingress device "${tapName}" priority filter + 10`,
      policy: "accept",
    },
    rules: [`fwd to "${limiterName}"`],
  } as const;
  return { ...limitTableName(limiterName), chains: [chain] };
}

function planLimiter(
  limiter: WiredLink | undefined,
  { limits }: NetnsState,
  { tapName, limits: { outbound } = {} }: LimitedWiring,
): readonly LinkChange[] {
  const link = buildLimiterName(tapName);
  if (outbound === undefined) return limiter === undefined ? [] : [{ op: "deleteLink", link }];
  const settings = { addressGeneration: "none", up: true } as const;
  const isSame = limiter !== undefined && isSameRateLimit(limits.get(link), outbound);
  return [
    ...(limiter === undefined ? [{ op: "addLimiter", link } as const] : []),
    ...(limiter?.up === true ? [] : [{ op: "setLink", link, settings } as const]),
    ...(isSame ? [] : [{ op: "setRate", link, limit: outbound } as const]),
  ];
}

function planTapLimit(
  { limits }: NetnsState,
  { tapName: link, limits: { inbound } = {} }: LimitedWiring,
): readonly LinkChange[] {
  if (isSameRateLimit(limits.get(link), inbound)) return [];
  return inbound === undefined
    ? [{ op: "clearRate", link }]
    : [{ op: "setRate", link, limit: inbound }];
}

interface LimitPlan {
  readonly tap: readonly LinkChange[];
  readonly limiter: readonly LinkChange[];
  readonly rules: readonly TableChange[];
}

function planLimits(state: NetnsState, wiring: LimitedWiring): LimitPlan {
  // Plans nothing for a plugin's tap, because the plugin may have set its own limits.
  if (wiring.kind === "tap") return { tap: [], limiter: [], rules: [] };
  const name = buildLimiterName(wiring.tapName);
  const limiter = state.links.get(name);
  const table = buildLimitTable(wiring.tapName);
  // A rule refers to the limiter by index, so a new limiter needs a new rule.
  const isCurrent = limiter !== undefined && hasTable(state.tables, table);
  const removal = hasTableNamed(state.tables, table) ? [removeTable(table)] : [];
  const replacement = isCurrent ? [] : [replaceTable(table)];
  return {
    tap: planTapLimit(state, wiring),
    limiter: planLimiter(limiter, state, wiring),
    rules: wiring.limits?.outbound === undefined ? removal : replacement,
  };
}

export function isLimited(state: NetnsState, wiring: LimitedWiring): boolean {
  const { tap, limiter, rules } = planLimits(state, wiring);
  return tap.length === 0 && limiter.length === 0 && rules.length === 0;
}

/** Applies the limits. Creates the limiter link before the rules and removes it after them, because rules without the link drop frames. */
export async function applyLimits(
  pod: Pod,
  wiring: LimitedWiring,
  stateBefore: NetnsState,
): Promise<void> {
  const { tap, limiter, rules } = planLimits(stateBefore, wiring);
  await pod.applyChanges(tap);
  if (wiring.limits?.outbound === undefined) {
    await pod.applyRules(rules);
    await pod.applyChanges(limiter);
  } else {
    await pod.applyChanges(limiter);
    await pod.applyRules(rules);
  }
}

/** Removes the link that limits the guest's outbound traffic. The limit of its inbound traffic disappears with the tap. */
export async function removeLimiter(
  pod: Pod,
  { kind, tapName }: RemovableWiring,
  stateBefore: NetnsState,
): Promise<void> {
  const { limiter, rules } = planLimits(stateBefore, { kind, tapName });
  await pod.applyRules(rules);
  await pod.applyChanges(limiter);
}
