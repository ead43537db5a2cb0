// SPDX-License-Identifier: Apache-2.0
import { normalizeMac, parseIp } from "@patchbay/api/values";
import { AppError } from "@patchbay/base";
import { findIpv6Gateway, type RememberedAddresses } from "@patchbay/core/nics";
import type {
  BorrowedNic,
  Link,
  Netlink,
  NetnsHandle,
  NicPaths,
  ProcessRunner,
  RenamedNic,
} from "@patchbay/core/interfaces";
import { type LinkChange, parseList, toTextOrEmpty } from "./links.ts";
import { describeErrno, encodeMessage, REQUEST_ACK } from "./netlink/message.ts";
import {
  queryLinkIndices,
  queryLinks,
  queryNic,
  queryPermanentNeighbors,
  queryRoutes,
} from "./netlink/queries.ts";
import { CREATE, encodePermanentNeighbor, EXCLUSIVE, REPLACE, RTM } from "./netlink/rtnetlink.ts";
import { printRoute, saveRoutes } from "./node-nics/saved-addresses.ts";
import type { StateSources } from "./netlink/netns-state.ts";
import { runInNamespace } from "./run-in.ts";
import type { Pod } from "./wiring/wirers.ts";

function parseNeighborMac(text: string): string | undefined {
  const mac = toTextOrEmpty(parseList(text)[0]?.["lladdr"]);
  return mac === "" ? undefined : mac;
}

/**
 * Script that resolves the MAC of address $2 on link $1. Retries for 4 s, because the NIC may just have got its
 * addresses, and the kernel gives up after three unanswered solicitations.
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
  const neighbors = await queryPermanentNeighbors(netlink, netns, nic.index);
  const nicAddresses = {
    podInterfaceName: name,
    ...nic,
    ...(neighbors.length === 0 ? {} : { neighbors }),
  };
  const gateway = findIpv6Gateway(nicAddresses);
  if (gateway === undefined) return nicAddresses;
  const permanent = neighbors.find(({ address }) => address === gateway);
  if (permanent !== undefined) return { ...nicAddresses, gatewayMac: permanent.mac };
  const args = ["-c", RESOLVE_GATEWAY, "sh", name, gateway];
  const gatewayMac = parseNeighborMac(await runInNamespace(runner, netns, { program: "sh", args }));
  return { ...nicAddresses, ...(gatewayMac === undefined ? {} : { gatewayMac }) };
}

function isSameAddress(a: string, b: string): boolean {
  const [first, second] = [a, b].map(parseIp);
  return (
    first?.version === second?.version &&
    first?.value === second?.value &&
    first?.length === second?.length
  );
}

/** Plans the restoration of a NIC. Sets the link down to change its MAC, because some NICs require this. */
export function planNicRestore(
  link: Link,
  { name, mac, addresses }: BorrowedNic,
): readonly LinkChange[] {
  const hasOtherMac = mac !== undefined && normalizeMac(mac) !== normalizeMac(link.mac);
  const missingAddresses = addresses.filter(
    (address) =>
      parseIp(address) !== undefined &&
      !link.addresses.some((present) => isSameAddress(address, present)),
  );
  return [
    ...(hasOtherMac ? [{ op: "setLink", link: name, settings: { up: false, mac } } as const] : []),
    ...missingAddresses.map(
      (address) => ({ op: "addAddress", link: name, address, flags: [] }) as const,
    ),
  ];
}

/** Restores a NIC if it exists. Continues after a rejected change. @throws AppError with PODNET_FAILED for the first rejection */
export async function restoreNic(pod: Pod, borrowed: BorrowedNic): Promise<void> {
  const link = (await pod.listLinks()).find(({ name }) => name === borrowed.name);
  if (link === undefined) return;
  const refusals: unknown[] = [];
  for (const change of planNicRestore(link, borrowed)) {
    await pod.applyChanges([change]).catch((error: unknown) => refusals.push(error));
  }
  if (refusals.length > 0) throw refusals[0];
}

export async function readPaths(
  netlink: Netlink,
  netns: NetnsHandle,
  name: string,
): Promise<NicPaths | undefined> {
  const index = (await queryLinkIndices(netlink, netns)).get(name);
  if (index === undefined) return undefined;
  const routes = saveRoutes(await queryRoutes(netlink, netns), index);
  return { routes, neighbors: await queryPermanentNeighbors(netlink, netns, index) };
}

interface PathRequest {
  readonly description: string;
  readonly message: Uint8Array;
}

function buildPathRequests(index: number, { routes, neighbors }: NicPaths): readonly PathRequest[] {
  const newRoute = { type: RTM.newRoute, flags: REQUEST_ACK | CREATE | EXCLUSIVE };
  const newNeighbor = { type: RTM.newNeighbour, flags: REQUEST_ACK | CREATE | REPLACE };
  return [
    ...routes.map((body) => ({
      description: `route ${printRoute(body)}`,
      message: encodeMessage(newRoute, Buffer.from(body, "base64")),
    })),
    ...neighbors.map((neighbor) => ({
      description: `neighbor ${neighbor.address}`,
      message: encodeMessage(newNeighbor, encodePermanentNeighbor(index, neighbor)),
    })),
  ];
}

/** EEXIST: the NIC still has the route. Source: errno(3) */
const EXISTS = 17;

/** If routes or neighbors were saved, sets the NIC up and restores them. The kernel removed them when the addresses or MAC changed. */
export async function restorePaths(
  { netlink, pod }: { readonly netlink: Netlink; readonly pod: Pod },
  netns: NetnsHandle,
  { name, paths }: BorrowedNic,
): Promise<void> {
  const index = (await queryLinkIndices(netlink, netns)).get(name);
  const requests =
    index === undefined || paths === undefined ? [] : buildPathRequests(index, paths);
  if (requests.length === 0) return;
  await pod.applyChanges([{ op: "setLink", link: name, settings: { up: true } }]);
  const messages = requests.map(({ message }) => message);
  const answers = await netlink.exchangeMessages(netns, "route", messages);
  const refusals = requests.flatMap(({ description }, at) => {
    const errno = answers[at]?.errno ?? 0;
    return errno === 0 || errno === EXISTS ? [] : [`${description}: ${describeErrno(errno)}`];
  });
  if (refusals.length === 0) return;
  const message = `the kernel refused to restore on ${name}: ${refusals.join("; ")}`;
  throw new AppError("PODNET_FAILED", { message });
}

interface NamespaceAccess {
  readonly runner: ProcessRunner;
  readonly netlink: Netlink;
}

/** PID of a process in the node's network namespace: init on the node, or a container's first process if it uses the node's network. */
const INIT_PID = "1";

async function ipLink(
  { runner }: NamespaceAccess,
  netns: NetnsHandle,
  args: readonly string[],
): Promise<void> {
  await runInNamespace(runner, netns, { program: "ip", args: ["link", ...args] });
}

async function linkExists(
  { netlink }: NamespaceAccess,
  netns: NetnsHandle,
  name: string,
): Promise<boolean> {
  return (await queryLinks(netlink, netns)).some((link) => link.name === name);
}

/** Deletes a link. Hardware cannot be deleted, so it is moved to the node's network namespace. */
export async function removeLink(
  access: NamespaceAccess,
  netns: NetnsHandle,
  name: string,
): Promise<void> {
  if (!(await linkExists(access, netns, name))) return;
  try {
    await ipLink(access, netns, ["delete", "dev", name]);
  } catch {
    // The link was already deleted, or it is a physical NIC, which cannot be deleted.
    if (await linkExists(access, netns, name)) {
      await ipLink(access, netns, ["set", "dev", name, "netns", INIT_PID]);
    }
  }
}

/** Detaches `name` from its bridge, restores its MAC, deletes the link `originalName`, and renames `name` to `originalName`. */
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
