// SPDX-License-Identifier: Apache-2.0
// What hides a guest behind the addresses of a pod NIC, given what is there. Why each: docs/design/masquerade.md.
import type { MasqueradeWiring } from "@patchbay/core";
import type { AddressFlag, LinkChange } from "../link-change.ts";
import type { WiredLink } from "../links.ts";
import type { Setting, SeenSettings } from "../settings.ts";
import { bridgeSteps, planForwarding } from "./bridge-plan.ts";
import { changesOf } from "./link-steps.ts";
import { ANY_TAP, tapSteps } from "./tap-plan.ts";
import type { NetnsState } from "./wirer.ts";

/** The gateway's, the same in every pod, so that a guest that is moved finds it. Source: KubeVirt pkg/network/link */
const GATEWAY_MAC = "02:00:00:00:00:00";
/** From which the gateway advertises itself; the guest sees no other router. */
const GATEWAY_LINK_LOCAL = "fe80::1/64";

type Wiring = Omit<MasqueradeWiring, "owner" | "queues">;

/** Changes that make bridge and tap. */
export function planLinks(
  links: ReadonlyMap<string, WiredLink>,
  wiring: MasqueradeWiring,
): readonly LinkChange[] {
  const { bridgeName, tapName } = wiring;
  const own = { mac: GATEWAY_MAC, answers: true };
  return changesOf([
    ...bridgeSteps(links.get(bridgeName), bridgeName, own),
    ...tapSteps(links.get(tapName), wiring, wiring),
  ]);
}

/** Changes that give the bridge the gateway's addresses, which nobody else has on that link. */
export function planAddresses(
  links: ReadonlyMap<string, WiredLink>,
  { bridgeName, ipv4, ipv6 }: Wiring,
): readonly LinkChange[] {
  const present = links.get(bridgeName)?.addresses ?? [];
  const addition = (address: string, ...flags: readonly AddressFlag[]): LinkChange => ({
    op: "addAddress",
    link: bridgeName,
    address,
    flags,
  });
  const wanted = [
    ipv4 === undefined ? [] : addition(ipv4.gateway),
    ipv6 === undefined
      ? []
      : [ipv6.gateway, GATEWAY_LINK_LOCAL].map((address) => addition(address, "nodad")),
  ].flat();
  return wanted.filter((change) => !("address" in change && present.includes(change.address)));
}

/** Frames that a bridge forwards are not shown to the tables of IP: this pod's are about what is routed. */
const BRIDGED: readonly Setting[] = [
  "bridge/bridge-nf-call-arptables",
  "bridge/bridge-nf-call-iptables",
  "bridge/bridge-nf-call-ip6tables",
].map((path) => ({ path, value: "0" }));

function ipv4Settings({ bridgeName, podInterfaceName }: Wiring): readonly Setting[] {
  return [
    // For the answers to a program in the pod that asked 127.0.0.1.
    { path: `ipv4/conf/${bridgeName}/route_localnet`, value: "1" },
    { path: `ipv4/conf/${bridgeName}/forwarding`, value: "1" },
    { path: `ipv4/conf/${podInterfaceName}/forwarding`, value: "1" },
  ];
}

/** IPv6 is forwarded by all NICs or none; one that listens to routers goes on doing so when it is told to. */
function ipv6Settings(seen: SeenSettings, wiring: Wiring): readonly Setting[] {
  const { bridgeName, podInterfaceName } = wiring;
  const routers = `ipv6/conf/${podInterfaceName}/accept_ra`;
  return [
    { path: `ipv6/conf/${bridgeName}/disable_ipv6`, value: "0" },
    ...(seen.get(routers) === "1" ? [{ path: routers, value: "2" }] : []),
    { path: "ipv6/conf/all/forwarding", value: "1" },
  ];
}

/** What is to be set in the pod's namespace, in order; what the kernel does not have is not missed. */
export function planSettings(seen: SeenSettings, wiring: Wiring): readonly Setting[] {
  return [
    ...BRIDGED.filter(({ path }) => seen.has(path)),
    ...(wiring.ipv4 === undefined ? [] : ipv4Settings(wiring)),
    ...(wiring.ipv6 === undefined ? [] : ipv6Settings(seen, wiring)),
  ].filter(({ path, value }) => seen.get(path) !== value);
}

/** Whether links, addresses, settings and forwarding entries are there; the rules are another's matter. */
export function isRouted({ links, forwarding, settings }: NetnsState, wiring: Wiring): boolean {
  const left = [
    ...planLinks(links, { ...wiring, ...ANY_TAP }),
    ...planAddresses(links, wiring),
    ...planSettings(settings, wiring),
    ...planForwarding(wiring, forwarding),
  ];
  return left.length === 0;
}

/** What is put back when the guest is gone: the pod forwards nothing for anybody else. */
export function settingsAfter(podInterfaceName: string, seen: SeenSettings): readonly Setting[] {
  return [
    { path: `ipv4/conf/${podInterfaceName}/forwarding`, value: "0" },
    { path: "ipv6/conf/all/forwarding", value: "0" },
  ].filter(({ path, value }) => (seen.get(path) ?? value) !== value);
}
