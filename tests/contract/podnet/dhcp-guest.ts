// SPDX-License-Identifier: Apache-2.0
// A guest as a network namespace that requests addresses like the small guest.
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseIp, printAddress } from "@patchbay/api/values";
import { run } from "@patchbay/support";

/** udhcpc's results by its variable names; source: busybox, udhcpc. */
export type Lease = Readonly<Record<string, string>>;

const OPTIONS = ["121", "mtu", "search", "66", "67", "224"].flatMap((name) => ["-O", name]);

/** Sends one DHCPv4 request, for two seconds at most; undefined without a reply. */
export function askIpv4(guest: string, nic = "eth0"): Lease | undefined {
  const directory = mkdtempSync(join(tmpdir(), "dhcp-guest-"));
  const [script, answer] = [join(directory, "script"), join(directory, "answer")];
  try {
    writeFileSync(script, `#!/bin/sh\n[ "$1" = bound ] && env >${answer} || true\n`);
    chmodSync(script, 0o755);
    const text = ["-i", nic, "-f", "-q", "-n", "-t", "2", "-T", "1", ...OPTIONS, "-s", script];
    run("ip", "netns", "exec", guest, "busybox", "udhcpc", ...text);
    const lines = readFileSync(answer, "utf8").trim().split("\n");
    return Object.fromEntries(
      lines.map((line): [string, string] => {
        const [name = "", value = ""] = line.split(/=(.*)/s);
        return [name, value];
      }),
    );
  } catch {
    return undefined;
  } finally {
    rmSync(directory, { recursive: true });
  }
}

/** Waits for a router advertisement, which the kernel applies by itself. */
export function defaultRouteOf(guest: string): string {
  return run("ip", "-n", guest, "-6", "route", "show", "default").trim();
}

/**
 * A DHCPv6 client as a program for `node -e LINK MAC`: repeats SOLICIT until a server answers, and prints the offered
 * address. Source: RFC 8415 sections 18.2.1, 21.4, 21.6
 */
const SOLICIT = String.raw`
const [link, mac] = process.argv.slice(1);
const number = (value) => [value >> 8, value & 255];
const option = (code, bytes) => [...number(code), ...number(bytes.length), ...bytes];
const duid = [0, 3, 0, 1, ...mac.split(":").map((byte) => parseInt(byte, 16))];
const message = Buffer.from([1, 1, 2, 3, ...option(1, duid), ...option(3, Array(12).fill(0)), ...option(8, [0, 0])]);
const socket = require("node:dgram").createSocket("udp6");
const find = (bytes, wanted) => {
  for (let at = 0; at + 4 <= bytes.length; at += 4 + bytes.readUInt16BE(at + 2))
    if (bytes.readUInt16BE(at) === wanted) return bytes.subarray(at + 4, at + 4 + bytes.readUInt16BE(at + 2));
};
socket.on("message", (bytes) => {
  const association = find(bytes.subarray(4), 3);
  const address = association && find(association.subarray(12), 5);
  if (!address) return;
  console.log(address.subarray(0, 16).toString("hex").match(/..../g).join(":"));
  process.exit(0);
});
socket.bind(546, () => {
  const send = () => socket.send(message, 547, "ff02::1:2%" + link, () => {});
  send();
  setInterval(send, 300);
});
setTimeout(() => process.exit(1), 15000);
`;

/** Requests an address by DHCPv6; undefined without a reply. */
export function askIpv6(guest: string, nic: string, mac: string): string | undefined {
  try {
    const text = [process.execPath, "-e", SOLICIT, nic, mac];
    const ip = parseIp(run("ip", "netns", "exec", guest, ...text).trim());
    return ip && printAddress(ip);
  } catch {
    return undefined;
  }
}
