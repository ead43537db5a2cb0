// SPDX-License-Identifier: Apache-2.0
// What is taken from a pod NIC when it is wired: what CNI gave to it, and who answers for its gateway.
import { AppError, ipv6GatewayOf, type RememberedAddresses } from "@patchbay/core";
import type { NetnsHandle } from "@patchbay/core/ports";
import { parseList, textOf } from "./links.ts";
import { askNic } from "./netlink/ask.ts";
import type { StateSources } from "./netlink/netns-state.ts";
import { runIn } from "./run-in.ts";

/** Reads what `ip -j neigh show` prints. */
export function parseNeighbour(text: string): string | undefined {
  const mac = textOf(parseList(text)[0]?.["lladdr"]);
  return mac === "" ? undefined : mac;
}

/**
 * Asks who has $2 at $1 and waits for the answer, four seconds at most: the NIC may just have got its own addresses. After
 * three questions that nobody answered the kernel asks no more, hence each time anew.
 */
const ASK = [
  "try=0",
  "while [ $try -lt 40 ]; do",
  '  ip -6 neigh replace "$2" dev "$1" use',
  '  answer=$(ip -6 -j neigh show to "$2" dev "$1")',
  '  case $answer in *lladdr*) echo "$answer"; exit ;; esac',
  "  try=$((try + 1))",
  "  sleep 0.1",
  "done",
].join("\n");

/** Looks at a NIC, and asks for its gateway where it has one of IPv6. */
export async function readAddresses(
  { runner, netlink }: StateSources,
  netns: NetnsHandle,
  name: string,
): Promise<RememberedAddresses> {
  const nic = await askNic(netlink, netns, name);
  if (nic === undefined) throw new AppError("PODNET_LINK_MISSING", { link: name });
  const given = { podInterfaceName: name, ...nic };
  const gateway = ipv6GatewayOf(given);
  if (gateway === undefined) return given;
  const args = ["-c", ASK, "sh", name, gateway];
  const gatewayMac = parseNeighbour(await runIn(runner, netns, { program: "sh", args }));
  return { ...given, ...(gatewayMac === undefined ? {} : { gatewayMac }) };
}
