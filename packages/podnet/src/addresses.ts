// SPDX-License-Identifier: Apache-2.0
// What CNI gave to a pod NIC, as iproute2 prints it.
import { isJsonObject, type JsonObject } from "@patchbay/api/json";
import { AppError, ipv6GatewayOf, type NicRoute, type RememberedAddresses } from "@patchbay/core";
import type { NetnsHandle, ProcessRunner } from "@patchbay/ports";
import { numberOf, parseList, textOf } from "./links.ts";
import { runIn } from "./run-in.ts";

/** Bits of an address, by family. */
const FAMILIES = [
  { option: "-4", all: "0.0.0.0/0", bits: "/32" },
  { option: "-6", all: "::/0", bits: "/128" },
] as const;
type Family = (typeof FAMILIES)[number];

/** Addresses that somebody set: the others the kernel makes itself, or takes back after a time. */
function isGiven(entry: JsonObject): boolean {
  return entry["scope"] === "global" && entry["dynamic"] !== true && entry["temporary"] !== true;
}

/** Reads of what `ip -j addr` prints the NIC of that name; undefined: it is not there. */
export function parseNic(
  text: string,
  name: string,
): Pick<RememberedAddresses, "index" | "addresses"> | undefined {
  const nic = parseList(text).find((entry) => entry["ifname"] === name);
  if (nic === undefined) return undefined;
  const list: unknown = nic["addr_info"];
  const entries = Array.isArray(list) ? list.filter(isJsonObject).filter(isGiven) : [];
  return {
    index: numberOf(nic["ifindex"]),
    addresses: entries.map(
      (entry) => `${textOf(entry["local"])}/${String(numberOf(entry["prefixlen"]))}`,
    ),
  };
}

/** Routes that the kernel makes of addresses and of router advertisements are no gift of CNI's. */
const MADE_BY_KERNEL = ["kernel", "ra"];

function routeOf(entry: JsonObject, { all, bits }: Family): readonly NicRoute[] {
  const [to, gateway] = [textOf(entry["dst"]), textOf(entry["gateway"])];
  if (to === "" || MADE_BY_KERNEL.includes(textOf(entry["protocol"]))) return [];
  const written = to.includes("/") ? to : `${to}${bits}`;
  const destination = to === "default" ? all : written;
  return [{ destination, ...(gateway === "" ? {} : { gateway }) }];
}

/** Reads what `ip -j -4|-6 route show dev NIC` prints. */
export function parseRoutes(text: string, option: Family["option"]): readonly NicRoute[] {
  return FAMILIES.filter((family) => family.option === option).flatMap((family) =>
    parseList(text).flatMap((entry) => routeOf(entry, family)),
  );
}

/** Reads what `ip -j neigh show` prints. */
export function parseNeighbour(text: string): string | undefined {
  const mac = textOf(parseList(text)[0]?.["lladdr"]);
  return mac === "" ? undefined : mac;
}

/** Asks who has $2 at $1 and waits for the answer, four seconds at most: the NIC may just have got its own addresses. */
const ASK = [
  'ip -6 neigh replace "$2" dev "$1" use',
  "try=0",
  "while [ $try -lt 40 ]; do",
  '  answer=$(ip -6 -j neigh show to "$2" dev "$1")',
  '  case $answer in *lladdr*) echo "$answer"; exit ;; esac',
  "  try=$((try + 1))",
  "  sleep 0.1",
  "done",
].join("\n");

/** What is taken from a NIC when it is wired. */
export async function readAddresses(
  runner: ProcessRunner,
  netns: NetnsHandle,
  name: string,
): Promise<RememberedAddresses> {
  const ip = (...args: readonly string[]): Promise<string> =>
    runIn(runner, netns, { program: "ip", args: ["-j", ...args] });
  // Routes of a NIC that is not there are an error of ip, of which the list of links tells more.
  const asked = FAMILIES.map(({ option }) => ip(option, "route", "show", "dev", name));
  const links = ip("addr", "show");
  // The descriptor is in use until all have ended, also when one fails.
  await Promise.allSettled([links, ...asked]);
  const nic = parseNic(await links, name);
  if (nic === undefined) throw new AppError("PODNET_LINK_MISSING", { link: name });
  const texts = await Promise.all(asked);
  const routes = FAMILIES.flatMap(({ option }, family) => parseRoutes(texts[family] ?? "", option));
  const given = { podInterfaceName: name, ...nic, routes };
  const gateway = ipv6GatewayOf(given);
  if (gateway === undefined) return given;
  const args = ["-c", ASK, "sh", name, gateway];
  const gatewayMac = parseNeighbour(await runIn(runner, netns, { program: "sh", args }));
  return { ...given, ...(gatewayMac === undefined ? {} : { gatewayMac }) };
}
