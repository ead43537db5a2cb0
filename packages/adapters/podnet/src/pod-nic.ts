// SPDX-License-Identifier: Apache-2.0
import { normalizeMac, parseIp } from "@patchbay/api/values";
import { AppError } from "@patchbay/base";
import { findIpv6Gateway, type RememberedAddresses } from "@patchbay/core/nics";
import type {
  BorrowedNic,
  Link,
  Netlink,
  NetnsHandle,
  ProcessRunner,
  RenamedNic,
} from "@patchbay/core/interfaces";
import { type LinkChange, parseList, toText } from "./links.ts";
import { queryLinks, queryNic } from "./netlink/queries.ts";
import type { StateSources } from "./netlink/netns-state.ts";
import { runIn } from "./run-in.ts";
import type { Pod } from "./wiring/wirers.ts";

function parseNeighborMac(text: string): string | undefined {
  const mac = toText(parseList(text)[0]?.["lladdr"]);
  return mac === "" ? undefined : mac;
}

/**
 * Script that resolves the MAC of address $2 on link $1, for at most 4 s because the NIC may have just got its
 * addresses. It requests the MAC again each time, because the kernel gives up after three unanswered solicitations.
 */
const RESOLVE_GATEWAY = [
  "try=0",
  "while [ $try -lt 40 ]; do",
  '  ip -6 neigh replace "$2" dev "$1" use',
  '  answer=$(ip -6 -j neigh show to "$2" dev "$1")',
  '  case $answer in *lladdr*) echo "$answer"; exit ;; esac',
  "  try=$((try + 1))",
  "  sleep 0.1",
  "done",
].join("\n");

export async function readAddresses(
  { runner, netlink }: StateSources,
  netns: NetnsHandle,
  name: string,
): Promise<RememberedAddresses> {
  const nic = await queryNic(netlink, netns, name);
  if (nic === undefined) throw new AppError("PODNET_LINK_MISSING", { link: name });
  const known = { podInterfaceName: name, ...nic };
  const gateway = findIpv6Gateway(known);
  if (gateway === undefined) return known;
  const args = ["-c", RESOLVE_GATEWAY, "sh", name, gateway];
  const gatewayMac = parseNeighborMac(await runIn(runner, netns, { program: "sh", args }));
  return { ...known, ...(gatewayMac === undefined ? {} : { gatewayMac }) };
}

function isSameAddress(one: string, other: string): boolean {
  const [first, second] = [one, other].map(parseIp);
  return (
    first?.version === second?.version &&
    first?.value === second?.value &&
    first?.length === second?.length
  );
}

/** Plans how to restore a NIC. Sets the link down to change its MAC, because not every kind can change it while up. */
export function planNicRestore(
  link: Link,
  { name, mac, addresses }: BorrowedNic,
): readonly LinkChange[] {
  const hasOtherMac = mac !== undefined && normalizeMac(mac) !== normalizeMac(link.mac);
  const missing = addresses.filter(
    (address) =>
      parseIp(address) !== undefined && !link.addresses.some((has) => isSameAddress(address, has)),
  );
  return [
    ...(hasOtherMac ? [{ op: "setLink", link: name, settings: { up: false, mac } } as const] : []),
    ...missing.map((address) => ({ op: "addAddress", link: name, address, flags: [] }) as const),
  ];
}

/** Restores a NIC, continuing after a refused change. @throws AppError with PODNET_FAILED, the first refusal */
export async function restoreNic(pod: Pod, borrowed: BorrowedNic): Promise<void> {
  const link = (await pod.listLinks()).find(({ name }) => name === borrowed.name);
  if (link === undefined) return;
  const refusals: unknown[] = [];
  for (const change of planNicRestore(link, borrowed)) {
    await pod.applyChanges([change]).catch((error: unknown) => refusals.push(error));
  }
  if (refusals.length > 0) throw refusals[0];
}

interface NamespaceAccess {
  readonly runner: ProcessRunner;
  readonly netlink: Netlink;
}

/** PID of a process in the machine's own network namespace, or of the first process of a container that shares it. */
const INIT_PID = "1";

async function ipLink(
  { runner }: NamespaceAccess,
  netns: NetnsHandle,
  args: readonly string[],
): Promise<void> {
  await runIn(runner, netns, { program: "ip", args: ["link", ...args] });
}

async function linkExists(
  { netlink }: NamespaceAccess,
  netns: NetnsHandle,
  name: string,
): Promise<boolean> {
  return (await queryLinks(netlink, netns)).some((link) => link.name === name);
}

/** Runs `ip link delete dev NAME`, or for hardware `ip link set dev NAME netns 1`. */
export async function removeLink(
  access: NamespaceAccess,
  netns: NetnsHandle,
  name: string,
): Promise<void> {
  if (!(await linkExists(access, netns, name))) return;
  try {
    await ipLink(access, netns, ["delete", "dev", name]);
  } catch {
    // The link is already gone, or it is hardware, which can only be moved.
    if (await linkExists(access, netns, name)) {
      await ipLink(access, netns, ["set", "dev", name, "netns", INIT_PID]);
    }
  }
}

/** Runs `ip link set dev NAME nomaster down [address MAC]`, deletes link BEFORE, and renames NAME to BEFORE. */
export async function restoreName(
  access: NamespaceAccess,
  netns: NetnsHandle,
  { name, originalName, mac }: RenamedNic,
): Promise<void> {
  if (!(await linkExists(access, netns, name))) return;
  const address = mac === undefined ? [] : ["address", mac];
  await ipLink(access, netns, ["set", "dev", name, "nomaster", "down", ...address]);
  await removeLink(access, netns, originalName);
  await ipLink(access, netns, ["set", "dev", name, "name", originalName]);
}
