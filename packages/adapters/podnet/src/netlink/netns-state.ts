// SPDX-License-Identifier: Apache-2.0
// Reads the state of a pod's network namespace with netlink. Starts nft only if the rules have changed, because every
// reconcile pass reads the state twice.
import type { Netlink, NetnsHandle, ProcessRunner } from "@patchbay/core/interfaces";
import { parseRuleset, type RulesetTables } from "../nft/table.ts";
import { runInNamespace } from "../run-in.ts";
import type { ForwardingEntry, WiredLink } from "../links.ts";
import { parseSysctls, SYSCTL_PATTERNS, type SysctlValues } from "../sysctls.ts";
import { queryForwarding, queryRules } from "./queries.ts";
import type { RateLimits } from "./rate-limits.ts";

export interface NetnsState {
  readonly links: ReadonlyMap<string, WiredLink>;
  readonly forwarding: readonly ForwardingEntry[];
  readonly limits: RateLimits;
  readonly tables: RulesetTables;
  readonly sysctls: SysctlValues;
}

export interface StateSources {
  readonly runner: ProcessRunner;
  readonly netlink: Netlink;
}

interface CachedRules {
  readonly generation: string | undefined;
  readonly tables: RulesetTables;
}

const NO_TABLES: RulesetTables = new Map();

/** Lists nftables tables as text, because nft's JSON output omits the device of a chain. Source: nftables 1.0.6 */
async function listRules({ runner }: StateSources, netns: NetnsHandle): Promise<RulesetTables> {
  const args = ["-s", "-t", "-p", "list", "ruleset"];
  return parseRuleset(await runInNamespace(runner, netns, { program: "nft", args }));
}

export function createStateReader(
  sources: StateSources,
): (netns: NetnsHandle) => Promise<NetnsState> {
  const cache = new WeakMap<NetnsHandle, CachedRules>();
  const readTables = async (netns: NetnsHandle): Promise<RulesetTables> => {
    // The generation is read before the rules. If the rules change between these two reads, the next call notices the changed generation.
    const { generation, hasTables } = await queryRules(sources.netlink, netns);
    if (!hasTables) return NO_TABLES;
    const cachedRules = cache.get(netns);
    if (generation !== undefined && cachedRules?.generation === generation)
      return cachedRules.tables;
    const tables = await listRules(sources, netns);
    cache.set(netns, { generation, tables });
    return tables;
  };
  return async (netns) => {
    const reads = [
      queryForwarding(sources.netlink, netns),
      readTables(netns),
      sources.netlink.readSettings(netns, SYSCTL_PATTERNS),
    ] as const;
    // All reads must end before an error is thrown, because the caller may then close the descriptor.
    await Promise.allSettled(reads);
    const [{ links, forwarding, limits }, tables, settings] = await Promise.all(reads);
    return {
      links: new Map(links.map((link) => [link.name, link])),
      forwarding,
      limits,
      tables,
      sysctls: parseSysctls(settings),
    };
  };
}
