// SPDX-License-Identifier: Apache-2.0
import type { ObservedWiring } from "@patchbay/core/nics";
import type { WiringFault } from "@patchbay/core/doctor";
import { type LinkChange, printLinkChange } from "../links.ts";
import { buildNatTable, natTableName } from "../nft/nat.ts";
import { hasTable } from "../nft/table.ts";
import { planForwarding, planWiring, ANY_TAP } from "../wiring/bridge-plan.ts";
import { planAddresses, planLinks, planSysctls } from "../wiring/masquerade-plan.ts";
import type { NetnsState } from "../netlink/netns-state.ts";
import { planAnswers, planGuard, planPolicy } from "../wiring/wirers.ts";

const SETTINGS_WITH_FAULTS = ["master", "mac", "learning", "up"] as const;

const FAULT_BY_CHANGE: Partial<Readonly<Record<LinkChange["op"], WiringFault["what"]>>> = {
  addBridge: "link",
  addTap: "link",
  replaceFdbEntry: "entry",
  deleteFdbEntry: "entry",
};

function classify(change: LinkChange): WiringFault["what"] {
  if (change.op !== "setLink") return FAULT_BY_CHANGE[change.op] ?? "other";
  return SETTINGS_WITH_FAULTS.find((name) => change.settings[name] !== undefined) ?? "other";
}

function toFault(change: LinkChange): WiringFault {
  return { link: change.link, what: classify(change), description: printLinkChange(change) };
}

function listChangeFaults(
  { links, forwarding, sysctls, tables }: NetnsState,
  wiring: ObservedWiring,
): readonly WiringFault[] {
  const nic = links.get(wiring.podInterfaceName);
  if (wiring.kind === "tap" || nic === undefined) return [];
  const entries = planForwarding(wiring, forwarding);
  if (wiring.kind === "bridge") {
    return [...planWiring(nic, links, { ...wiring, ...ANY_TAP }), ...entries].map(toFault);
  }
  const changes = [
    ...planLinks(links, { ...wiring, ...ANY_TAP }),
    ...planAddresses(links, wiring),
    ...entries,
  ];
  const sysctlFaults = planSysctls(sysctls, wiring).map(({ path, value }) => `${path}=${value}`);
  const nat = hasTable(tables, buildNatTable(wiring))
    ? []
    : [natTableName(wiring.podInterfaceName).name];
  const podFaults = [...nat, ...sysctlFaults].map((description) => ({
    link: "",
    what: "rules" as const,
    description,
  }));
  return [...changes.map(toFault), ...podFaults];
}

function listRuleFaults(state: NetnsState, wiring: ObservedWiring): readonly WiringFault[] {
  const guard = planGuard(state, wiring).length === 0 ? [] : [wiring.tapName];
  const policy = planPolicy(state, wiring).length === 0 ? [] : [`policy-${wiring.tapName}`];
  const answers =
    wiring.kind === "bridge" && planAnswers(state, wiring).length > 0 ? [wiring.bridgeName] : [];
  return [...guard, ...policy, ...answers].map((link) => {
    return { link, what: "rules", description: `its table patchbay-${link}, unchanged` };
  });
}

/** Lists the faults of a wiring. Omits faults that only result from another fault. */
export function findWiringFaults(
  state: NetnsState,
  wiring: ObservedWiring,
): readonly WiringFault[] {
  const faults = [...listChangeFaults(state, wiring), ...listRuleFaults(state, wiring)];
  const hasBridge = wiring.kind === "tap" || state.links.has(wiring.bridgeName);
  const isDetached = ({ link }: WiringFault): boolean =>
    faults.some((fault) => fault.link === link && fault.what === "master");
  return faults.filter((fault) => {
    if (fault.what === "learning" || fault.what === "entry") return hasBridge && !isDetached(fault);
    return fault.what !== "master" || hasBridge;
  });
}
