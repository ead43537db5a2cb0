// SPDX-License-Identifier: Apache-2.0
// virt-handler's links around a pod NIC, created and removed by iproute2. Source: KubeVirt v1.9
// pkg/network/setup/netpod/netpod.go, bridgeBindingSpec; pkg/network/link/names.go.
import { execFileSync } from "node:child_process";
import { run } from "@patchbay/support";

interface JsonLink {
  readonly ifname: string;
  readonly address: string;
  readonly mtu: number;
  readonly linkinfo?: { readonly info_kind?: string };
  readonly addr_info: readonly {
    readonly scope: string;
    readonly local: string;
    readonly prefixlen: number;
  }[];
}

interface LinkNames {
  readonly bridge: string;
  readonly tap: string;
  /** The NIC's new name; its old name goes to a dummy that preserves its addresses. */
  readonly moved: string;
}

export function linkNamesOf(nic: string): LinkNames {
  const trimmed = nic.replace(/^pod/, "");
  return { bridge: `k6t-${trimmed}`, tap: `tap${nic.slice(3)}`, moved: `${trimmed}-nic` };
}

function listLinks(netns: string): readonly JsonLink[] {
  // iproute2 prints empty objects for links that it does not show.
  const links = JSON.parse(run("ip", "-n", netns, "-j", "-d", "address")) as readonly JsonLink[];
  return links.filter(({ ifname }: Partial<JsonLink>) => ifname !== undefined);
}

/** Stops at the first failure. */
function inNetns(netns: string, commands: readonly string[]): void {
  execFileSync("ip", ["-n", netns, "-batch", "-"], {
    input: commands.join("\n"),
    encoding: "utf8",
    timeout: 120_000,
    stdio: "pipe",
  });
}

/**
 * Phase 1 for a NIC of the bridge binding.
 *
 * @throws Error when the pod has no such NIC
 */
export function wire(netns: string, nic: string): void {
  const link = listLinks(netns).find(({ ifname }) => ifname === nic);
  if (link === undefined) throw new Error(`pod link (${nic}) is missing`);
  const { bridge, tap, moved } = linkNamesOf(nic);
  const mtu = String(link.mtu);
  const addresses = link.addr_info.filter(({ scope }) => scope === "global");
  inNetns(netns, [`link add ${bridge} type bridge`, `link set ${bridge} up`]);
  inNetns(netns, [
    `link set ${nic} down`,
    `link set ${nic} name ${moved}`,
    `link set ${moved} address ${bridgeMacOf(netns, bridge)}`,
    `link set ${moved} master ${bridge}`,
    `address flush dev ${moved}`,
    `link set ${moved} up`,
    `link set ${moved} type bridge_slave learning off`,
    `tuntap add dev ${tap} mode tap user 107 group 107`,
    `link set ${tap} mtu ${mtu} master ${bridge} up`,
    `link add ${nic} address ${link.address} type ${findStandInKind(netns)}`,
    `link set ${nic} mtu ${mtu}`,
    ...addresses.map(
      ({ local, prefixlen }) => `address add ${local}/${String(prefixlen)} dev ${nic}`,
    ),
  ]);
}

/**
 * Kind of the link that preserves the NIC's name and addresses: a dummy, or without kernel support a bridge without
 * ports.
 */
let standInKind: "dummy" | "bridge" | undefined;

function findStandInKind(netns: string): string {
  if (standInKind !== undefined) return standInKind;
  try {
    inNetns(netns, ["link add patchbay-probe type dummy", "link delete patchbay-probe"]);
    standInKind = "dummy";
  } catch {
    standInKind = "bridge";
  }
  return standInKind;
}

/** A unique MAC; the NIC's own is the guest's from then on. */
function bridgeMacOf(netns: string, bridge: string): string {
  const mac = listLinks(netns).find(({ ifname }) => ifname === bridge)?.address ?? "";
  return mac.replace(/^../, "02");
}

/** Removes what {@link wire} created and leaves the NIC to CNI; missing links are no error. */
export function unwire(netns: string, nic: string): void {
  const { bridge, tap } = linkNamesOf(nic);
  const isMade = ({ ifname, linkinfo }: JsonLink): boolean =>
    [bridge, tap].includes(ifname) || (ifname === nic && linkinfo?.info_kind !== "veth");
  const made = listLinks(netns).filter(isMade);
  inNetns(
    netns,
    made.map(({ ifname }) => `link delete ${ifname}`),
  );
}
