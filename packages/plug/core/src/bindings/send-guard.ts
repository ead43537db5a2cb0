// SPDX-License-Identifier: Apache-2.0
// What a guest may send on one network, by what the cluster and the iface say and by what the network gave it.
import {
  isDefaultNetwork,
  isSecurityMode,
  linkLocalOf,
  normalizeMac,
  parseIp,
  SECURITY_MODES,
  type ClusterSecurity,
  type Iface,
  type Network,
  type SecurityMode,
} from "@patchbay/api";
import type { SendGuard } from "./pod-wiring.ts";

/** What is judged of what one guest sends on one network. */
interface PortSecurity {
  readonly mode: SecurityMode;
  readonly allowedMacs: readonly string[];
  readonly allowedAddresses: readonly string[];
  readonly allowServers: boolean;
}

const NOTHING_ALLOWED = { allowedMacs: [], allowedAddresses: [], allowServers: false };

function stricter(one: SecurityMode, other: SecurityMode): SecurityMode {
  return SECURITY_MODES.indexOf(one) > SECURITY_MODES.indexOf(other) ? one : other;
}

/** Everything on the pod network, else what the iface says within what the cluster says. */
function portSecurityOf(iface: Iface, network: Network, cluster: ClusterSecurity): PortSecurity {
  if (isDefaultNetwork(network)) return { ...NOTHING_ALLOWED, mode: "Addresses" };
  const said = iface.portSecurity ?? {};
  const asked = said.mode ?? "";
  const mode = isSecurityMode(asked) ? asked : cluster.mode;
  if (cluster.enforced) return { ...NOTHING_ALLOWED, mode: stricter(mode, cluster.mode) };
  return {
    mode,
    allowedMacs: said.allowedMACs ?? [],
    allowedAddresses: said.allowedAddresses ?? [],
    allowServers: said.allowServers ?? false,
  };
}

/** What a guard is made from. */
export interface GuardFacts {
  readonly iface: Iface;
  readonly network: Network;
  readonly cluster: ClusterSecurity;
  /** The guest's. */
  readonly mac: string;
  /** What the network gave the guest, addresses and prefixes; empty while nothing is known. */
  readonly addresses: readonly string[];
}

/** The address alone: its prefix is the network's, which others have addresses of. */
export function addressAlone(text: string): string {
  return text.split("/")[0] ?? text;
}

/**
 * What the guest may claim; undefined for anything. Where the network gave it nothing, its addresses are its own matter:
 * only who has an address can be held to it.
 */
function addressesOf(facts: GuardFacts, security: PortSecurity): readonly string[] | undefined {
  const given = facts.addresses.filter((text) => parseIp(text) !== undefined);
  const allowed = security.allowedAddresses.filter((text) => (parseIp(text)?.length ?? 0) > 0);
  if (security.mode !== "Addresses" || given.length + allowed.length === 0) return undefined;
  return [...new Set([...given, ...allowed, linkLocalOf(facts.mac)])];
}

/** What the guest may send; undefined where nothing is judged. */
export function sendGuardOf(facts: GuardFacts): SendGuard | undefined {
  const security = portSecurityOf(facts.iface, facts.network, facts.cluster);
  if (security.mode === "Off") return undefined;
  const addresses = addressesOf(facts, security);
  const macs = [facts.mac, ...security.allowedMacs].map(normalizeMac);
  return {
    macs: [...new Set(macs)],
    serves: security.allowServers,
    ...(addresses === undefined ? {} : { addresses }),
  };
}
