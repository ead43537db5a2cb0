// SPDX-License-Identifier: Apache-2.0
// Reads the state of a pod's network namespace. This happens at the start and end of every reconcile, so it runs a
// program only if nftables rules have changed.
import type { Netlink, NetnsHandle, ProcessRunner } from "@patchbay/core/interfaces";
import { parseRuleset, type RulesetTables } from "../nft/table.ts";
import { runIn } from "../run-in.ts";
import type { ForwardingEntry, WiredLink } from "../links.ts";
import { parseSysctls, SYSCTL_PATTERNS, type SysctlValues } from "../sysctls.ts";
import { queryForwarding, queryRules } from "./queries.ts";

export interface NetnsState {
  readonly links: ReadonlyMap<string, WiredLink>;
  readonly forwarding: readonly ForwardingEntry[];
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

/** nft's JSON output omits the device of a chain, so this parses the text output. Source: nftables 1.0.6 */
async function listRules({ runner }: StateSources, netns: NetnsHandle): Promise<RulesetTables> {
  const args = ["-s", "-p", "list", "ruleset"];
  return parseRuleset(await runIn(runner, netns, { program: "nft", args }));
}

/** Returns a reader that caches rules until their generation changes. A handle identifies one open namespace. */
export function createStateReader(
  sources: StateSources,
): (netns: NetnsHandle) => Promise<NetnsState> {
  const cache = new WeakMap<NetnsHandle, CachedRules>();
  const readTables = async (netns: NetnsHandle): Promise<RulesetTables> => {
    // Reads the generation first, so that a change during the listing is read next time.
    const { generation, hasTables } = await queryRules(sources.netlink, netns);
    if (!hasTables) return NO_TABLES;
    const known = cache.get(netns);
    if (generation !== undefined && known?.generation === generation) return known.tables;
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
    // All reads use the descriptor, so this waits for all of them even if one fails.
    await Promise.allSettled(reads);
    const [{ links, forwarding }, tables, settings] = await Promise.all(reads);
    return {
      links: new Map(links.map((link) => [link.name, link])),
      forwarding,
      tables,
      sysctls: parseSysctls(settings),
    };
  };
}
