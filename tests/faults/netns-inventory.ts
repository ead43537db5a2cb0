// SPDX-License-Identifier: Apache-2.0
// All that can be seen in a network namespace, in words that are the same for the same NICs.
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { run } from "@patchbay/support";

/** A network namespace: where it is mounted, and its inode as decimal text. */
export interface Netns {
  readonly path: string;
  readonly inode: string;
}

/** A link as `ip -j -d addr` prints it, as far as it is looked at. */
interface PrintedLink {
  readonly ifname: string;
  readonly mtu: number;
  readonly master?: string;
  readonly flags: readonly string[];
  readonly linkinfo?: { readonly info_kind?: string };
  readonly addr_info?: readonly { readonly scope: string }[];
}

function printLink(link: PrintedLink): string {
  const { ifname, mtu, master, flags, linkinfo, addr_info: addresses = [] } = link;
  const states = ["UP", "LOWER_UP", "NOARP"].filter((flag) => flags.includes(flag));
  const count = addresses.filter(({ scope }) => scope === "global").length;
  const text = [linkinfo?.info_kind ?? "", `mtu ${String(mtu)}`, ...states];
  const more = [master === undefined ? "" : `in ${master}`, `addresses ${String(count)}`];
  return [ifname, ...text, ...more].filter((word) => word !== "").join(" ");
}

function runIn({ path }: Netns, ...argv: readonly string[]): string {
  return run("nsenter", `--net=${path}`, ...argv);
}

function tryRead(read: () => string): string | undefined {
  try {
    return read();
  } catch {
    return undefined; // a process that ended meanwhile
  }
}

/** Names of the programs that run in the namespace, sorted. */
function programsIn({ inode }: Netns): readonly string[] {
  return readdirSync("/proc")
    .filter((pid) => /^\d+$/.test(pid))
    .filter((pid) => tryRead(() => readlinkSync(`/proc/${pid}/ns/net`)) === `net:[${inode}]`)
    .flatMap((pid) => tryRead(() => readFileSync(`/proc/${pid}/comm`, "utf8").trim()) ?? [])
    .sort();
}

/** Links with their kinds, masters, states and counts of addresses; entries of bridges; rules of nftables; programs. */
export function inventoryOfNetns(netns: Netns): Readonly<Record<string, unknown>> {
  // `ip -j` prints a list of objects of these members.
  const links = JSON.parse(runIn(netns, "ip", "-j", "-d", "addr")) as readonly PrintedLink[];
  const forwarded = runIn(netns, "bridge", "fdb").split("\n");
  return {
    links: links.map(printLink).sort(),
    forwarded: forwarded.filter((line) => line.includes(" static")).sort(),
    rules: runIn(netns, "nft", "-s", "list", "ruleset"),
    programs: programsIn(netns),
  };
}
