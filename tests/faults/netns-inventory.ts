// SPDX-License-Identifier: Apache-2.0
// The whole state of a network namespace in a form that is equal for equal NICs.
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { run } from "@patchbay/support";

/** A network namespace: its mount path and its inode as decimal text. */
export interface Netns {
  readonly path: string;
  readonly inode: string;
}

/** The compared part of a link in `ip -j -d addr`. */
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
    return undefined;
  }
}

function programsIn({ inode }: Netns): readonly string[] {
  return readdirSync("/proc")
    .filter((pid) => /^\d+$/.test(pid))
    .filter((pid) => tryRead(() => readlinkSync(`/proc/${pid}/ns/net`)) === `net:[${inode}]`)
    .flatMap((pid) => tryRead(() => readFileSync(`/proc/${pid}/comm`, "utf8").trim()) ?? [])
    .sort();
}

/** Links with kinds, masters, states and address counts; forwarding entries; nftables rules; programs. */
export function inventoryOfNetns(netns: Netns): Readonly<Record<string, unknown>> {
  const links = JSON.parse(runIn(netns, "ip", "-j", "-d", "addr")) as readonly PrintedLink[];
  const forwarded = runIn(netns, "bridge", "fdb").split("\n");
  return {
    links: links.map(printLink).sort(),
    forwarded: forwarded.filter((line) => line.includes(" static")).sort(),
    rules: runIn(netns, "nft", "-s", "list", "ruleset"),
    programs: programsIn(netns),
  };
}
