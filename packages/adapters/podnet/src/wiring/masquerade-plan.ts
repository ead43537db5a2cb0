// SPDX-License-Identifier: Apache-2.0
// Plans the links, addresses and sysctls that hide a guest behind the addresses of a pod NIC. docs/design/masquerade.md
// explains them.
import type { MasqueradeWiring } from "@patchbay/core/nics";
import type { AddressFlag, LinkChange, WiredLink } from "../links.ts";
import type { Sysctl, SysctlValues } from "../sysctls.ts";
import {
  buildBridgeSteps,
  planForwarding,
  ANY_TAP,
  listMissingChanges,
  buildTapSteps,
} from "./bridge-plan.ts";
import type { NetnsState } from "../netlink/netns-state.ts";

/**
 * MAC of the gateway. All pods use the same MAC, so that a migrated guest's neighbor entry stays valid. Source: KubeVirt pkg/network/link
 */
const GATEWAY_MAC = "02:00:00:00:00:00";
const GATEWAY_LINK_LOCAL = "fe80::1/64";

type Wiring = Omit<MasqueradeWiring, "owner" | "queues">;

export function planLinks(
  links: ReadonlyMap<string, WiredLink>,
  wiring: MasqueradeWiring,
): readonly LinkChange[] {
  const { bridgeName, tapName } = wiring;
  const options = { mac: GATEWAY_MAC, answers: true };
  return listMissingChanges([
    ...buildBridgeSteps(links.get(bridgeName), bridgeName, options),
    ...buildTapSteps(links.get(tapName), wiring, wiring),
  ]);
}

export function planAddresses(
  links: ReadonlyMap<string, WiredLink>,
  { bridgeName, ipv4, ipv6 }: Wiring,
): readonly LinkChange[] {
  const presentAddresses = links.get(bridgeName)?.addresses ?? [];
  const addAddress = (address: string, ...flags: readonly AddressFlag[]): LinkChange => ({
    op: "addAddress",
    link: bridgeName,
    address,
    flags,
  });
  const wantedChanges = [
    ipv4 === undefined ? [] : addAddress(ipv4.gateway),
    ipv6 === undefined
      ? []
      : [ipv6.gateway, GATEWAY_LINK_LOCAL].map((address) => addAddress(address, "nodad")),
  ].flat();
  return wantedChanges.filter(
    (change) => !("address" in change && presentAddresses.includes(change.address)),
  );
}

/** Sysctls that exempt bridged frames from IP rules, because the pod's rules are only for routed packets. */
const BRIDGE_NF_OFF: readonly Sysctl[] = [
  "bridge/bridge-nf-call-arptables",
  "bridge/bridge-nf-call-iptables",
  "bridge/bridge-nf-call-ip6tables",
].map((path) => ({ path, value: "0" }));

function buildIpv4Sysctls({ bridgeName, podInterfaceName }: Wiring): readonly Sysctl[] {
  return [
    // route_localnet lets the guest's answers reach programs in the pod that connect to 127.0.0.1.
    { path: `ipv4/conf/${bridgeName}/route_localnet`, value: "1" },
    { path: `ipv4/conf/${bridgeName}/forwarding`, value: "1" },
    { path: `ipv4/conf/${podInterfaceName}/forwarding`, value: "1" },
  ];
}

/** Enables IPv6 forwarding, which cannot be limited to one NIC. Forwarding NICs ignore router advertisements unless accept_ra is 2. */
function buildIpv6Sysctls(observed: SysctlValues, wiring: Wiring): readonly Sysctl[] {
  const { bridgeName, podInterfaceName } = wiring;
  const acceptRa = `ipv6/conf/${podInterfaceName}/accept_ra`;
  return [
    { path: `ipv6/conf/${bridgeName}/disable_ipv6`, value: "0" },
    ...(observed.get(acceptRa) === "1" ? [{ path: acceptRa, value: "2" }] : []),
    { path: "ipv6/conf/all/forwarding", value: "1" },
  ];
}

export function planSysctls(observed: SysctlValues, wiring: Wiring): readonly Sysctl[] {
  return [
    ...BRIDGE_NF_OFF.filter(({ path }) => observed.has(path)),
    ...(wiring.ipv4 === undefined ? [] : buildIpv4Sysctls(wiring)),
    ...(wiring.ipv6 === undefined ? [] : buildIpv6Sysctls(observed, wiring)),
  ].filter(({ path, value }) => observed.get(path) !== value);
}

export function isRouted({ links, forwarding, sysctls }: NetnsState, wiring: Wiring): boolean {
  const changes = [
    ...planLinks(links, { ...wiring, ...ANY_TAP }),
    ...planAddresses(links, wiring),
    ...planSysctls(sysctls, wiring),
    ...planForwarding(wiring, forwarding),
  ];
  return changes.length === 0;
}

export function planSysctlReset(
  podInterfaceName: string,
  observed: SysctlValues,
): readonly Sysctl[] {
  return [
    { path: `ipv4/conf/${podInterfaceName}/forwarding`, value: "0" },
    { path: "ipv6/conf/all/forwarding", value: "0" },
  ].filter(({ path, value }) => (observed.get(path) ?? value) !== value);
}
