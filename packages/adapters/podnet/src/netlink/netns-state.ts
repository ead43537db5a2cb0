// SPDX-License-Identifier: Apache-2.0
// Reads the state of a pod's network namespace with netlink, and changes its rules. Lists the rules with nft only if another
// program has changed them, because nft needs milliseconds for each table.
import type { Netlink, NetnsHandle, ProcessRunner } from "@patchbay/core/interfaces";
import { parseRuleset, predictTables, type RulesetTables, type TableChange } from "../nft/table.ts";
import { runInNamespace } from "../run-in.ts";
import type { ForwardingEntry, WiredLink } from "../links.ts";
import { parseSysctls, SYSCTL_PATTERNS, type SysctlValues } from "../sysctls.ts";
import { isNextGeneration, queryForwarding, queryRules } from "./queries.ts";
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

/** Access to namespaces. The rules are remembered for each handle and generation of the rules. */
export interface NetnsStates {
  read(netns: NetnsHandle): Promise<NetnsState>;
  /** Applies the changes in one transaction. @throws AppError with PODNET_FAILED */
  applyRules(netns: NetnsHandle, changes: readonly TableChange[]): Promise<void>;
}

export function createNetnsStates(sources: StateSources): NetnsStates {
  const { netlink, runner } = sources;
  const cache = new WeakMap<NetnsHandle, CachedRules>();
  const readTables = async (netns: NetnsHandle): Promise<RulesetTables> => {
    // The generation is read before the rules. If the rules change between these two reads, the next call notices the changed generation.
    const { generation, hasTables } = await queryRules(netlink, netns);
    const cachedRules = cache.get(netns);
    if (generation !== undefined && cachedRules?.generation === generation)
      return cachedRules.tables;
    const tables = hasTables ? await listRules(sources, netns) : NO_TABLES;
    cache.set(netns, { generation, tables });
    return tables;
  };
  const applyRules = async (netns: NetnsHandle, changes: readonly TableChange[]): Promise<void> => {
    if (changes.length === 0) return;
    const before = cache.get(netns);
    const stdin = changes.map(({ commands }) => commands).join("");
    await runInNamespace(runner, netns, { program: "nft", args: ["-f", "-"], stdin });
    const tables = before && predictTables(before.tables, changes);
    if (before === undefined || tables === undefined) return;
    // If the generation increased by one, no other program changed the rules since they were read.
    const { generation } = await queryRules(netlink, netns);
    if (isNextGeneration(before.generation, generation)) cache.set(netns, { generation, tables });
  };
  const read = async (netns: NetnsHandle): Promise<NetnsState> => {
    const reads = [
      queryForwarding(netlink, netns),
      readTables(netns),
      netlink.readSettings(netns, SYSCTL_PATTERNS),
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
  return { read, applyRules };
}
