// SPDX-License-Identifier: Apache-2.0
import {
  isDefaultNetwork,
  isSecurityMode,
  SECURITY_MODES,
  type ClusterSecurity,
  type Iface,
  type Network,
  type SecurityMode,
} from "@patchbay/api";
import { toLinkLocal, normalizeMac, parseIp } from "@patchbay/api/values";
import type { SendGuard } from "./pod-wiring.ts";

interface PortSecurity {
  readonly mode: SecurityMode;
  readonly allowedMacs: readonly string[];
  readonly allowedAddresses: readonly string[];
  readonly allowServers: boolean;
}

const NOTHING_ALLOWED = { allowedMacs: [], allowedAddresses: [], allowServers: false };

function chooseStricterMode(one: SecurityMode, other: SecurityMode): SecurityMode {
  return SECURITY_MODES.indexOf(one) > SECURITY_MODES.indexOf(other) ? one : other;
}

/**
 * Returns the port security. On the pod network, the mode is always `Addresses`. On other networks, the interface's settings apply, and the
 * cluster's mode is the default. If the cluster enforces its mode, the stricter of the interface's and the cluster's mode applies, and the
 * interface's exceptions are ignored.
 */
function resolvePortSecurity(
  iface: Iface,
  network: Network,
  cluster: ClusterSecurity,
): PortSecurity {
  if (isDefaultNetwork(network)) return { ...NOTHING_ALLOWED, mode: "Addresses" };
  const portSecurity = iface.portSecurity ?? {};
  const requestedMode = portSecurity.mode ?? "";
  const mode = isSecurityMode(requestedMode) ? requestedMode : cluster.mode;
  if (cluster.enforced) return { ...NOTHING_ALLOWED, mode: chooseStricterMode(mode, cluster.mode) };
  return {
    mode,
    allowedMacs: portSecurity.allowedMACs ?? [],
    allowedAddresses: portSecurity.allowedAddresses ?? [],
    allowServers: portSecurity.allowServers ?? false,
  };
}

export interface SendGuardFacts {
  readonly iface: Iface;
  readonly network: Network;
  readonly cluster: ClusterSecurity;
  readonly mac: string;
  /** Addresses and prefixes that the network assigned; empty while unknown. */
  readonly addresses: readonly string[];
}

export function withoutPrefixLength(text: string): string {
  return text.split("/")[0] ?? text;
}

/** Returns the allowed source addresses. Returns undefined, which allows all, if the mode checks only MACs or if no address is known. */
function listAllowedSources(
  facts: SendGuardFacts,
  security: PortSecurity,
): readonly string[] | undefined {
  const assigned = facts.addresses.filter((text) => parseIp(text) !== undefined);
  const allowed = security.allowedAddresses.filter((text) => (parseIp(text)?.length ?? 0) > 0);
  if (security.mode !== "Addresses" || assigned.length + allowed.length === 0) return undefined;
  return [...new Set([...assigned, ...allowed, toLinkLocal(facts.mac)])];
}

export function planSendGuard(facts: SendGuardFacts): SendGuard | undefined {
  const security = resolvePortSecurity(facts.iface, facts.network, facts.cluster);
  if (security.mode === "Off") return undefined;
  const addresses = listAllowedSources(facts, security);
  const macs = [facts.mac, ...security.allowedMacs].map(normalizeMac);
  return {
    macs: [...new Set(macs)],
    allowsServers: security.allowServers,
    ...(addresses === undefined ? {} : { addresses }),
  };
}
