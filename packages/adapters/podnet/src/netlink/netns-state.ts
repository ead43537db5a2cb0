// SPDX-License-Identifier: Apache-2.0
// Looks at everything in a pod's namespace that wiring is about. A look begins and ends every pass, so no program is run
// for it but where rules have changed.
import type { Netlink, NetnsHandle, ProcessRunner } from "@patchbay/core/ports";
import { parseRuleset, type SeenTables } from "../nft/table.ts";
import { runIn } from "../run-in.ts";
import { parseSettings, SETTING_PATTERNS } from "../settings.ts";
import type { NetnsState } from "../wiring/wirer.ts";
import { askForwarding, askRules } from "./ask.ts";

/** What looking needs. */
export interface StateSources {
  readonly runner: ProcessRunner;
  readonly netlink: Netlink;
}

interface SeenRules {
  readonly generation: string | undefined;
  readonly tables: SeenTables;
}

const NO_TABLES: SeenTables = new Map();

/** nft's JSON does not tell which device a chain is at, its text does. Source: nftables 1.0.6 */
async function listRules({ runner }: StateSources, netns: NetnsHandle): Promise<SeenTables> {
  const args = ["-s", "-p", "list", "ruleset"];
  return parseRuleset(await runIn(runner, netns, { program: "nft", args }));
}

/**
 * Looks at namespaces. Rules that were read are remembered for as long as their generation and the handle, which is the
 * namespace's own while it is open.
 */
export function createStateReader(
  sources: StateSources,
): (netns: NetnsHandle) => Promise<NetnsState> {
  const remembered = new WeakMap<NetnsHandle, SeenRules>();
  const seeTables = async (netns: NetnsHandle): Promise<SeenTables> => {
    // Before they are read: what changes while they are is read again next time.
    const { generation, hasTables } = await askRules(sources.netlink, netns);
    if (!hasTables) return NO_TABLES;
    const known = remembered.get(netns);
    if (generation !== undefined && known?.generation === generation) return known.tables;
    const tables = await listRules(sources, netns);
    remembered.set(netns, { generation, tables });
    return tables;
  };
  return async (netns) => {
    const asked = [
      askForwarding(sources.netlink, netns),
      seeTables(netns),
      sources.netlink.readSettings(netns, SETTING_PATTERNS),
    ] as const;
    // The descriptor is in use until all have ended, also when one fails.
    await Promise.allSettled(asked);
    const [{ links, forwarding }, tables, settings] = await Promise.all(asked);
    return {
      links: new Map(links.map((link) => [link.name, link])),
      forwarding,
      tables,
      settings: parseSettings(settings),
    };
  };
}
