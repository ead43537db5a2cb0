// SPDX-License-Identifier: Apache-2.0
// A machine of namespaces: a host with a bridge, two pods on it, and a remote client that routes through the host.
import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import type { ProcessRunner } from "@patchbay/core/interfaces";
import { createProcessRunner } from "@patchbay/os";
import { run } from "@patchbay/support";

/** Unique among test files that run at the same time. */
const NAME = `pbsvn${process.env["VITEST_POOL_ID"] ?? ""}`;
/** Their addresses. */
export const ADDRESSES = {
  host: "10.87.7.1",
  a: "10.87.7.2",
  b: "10.87.7.3",
  out: "192.0.2.130",
  outside: "192.0.2.129",
} as const;
export const POD_NETWORK = "10.87.7.0/24";
export const BRIDGE = "pods";

const PLACES = ["host", "a", "b", "out"] as const;
export type Place = (typeof PLACES)[number];

function namespaceOf(place: Place): string {
  return `${NAME}-${place}`;
}

/** The host's end of its cable. */
function linkTo(place: Place): string {
  return `to-${place}`;
}

export function runAt(place: Place, ...argv: readonly string[]): string {
  return run("ip", "netns", "exec", namespaceOf(place), ...argv);
}

/** Replies to every request and datagram with its own name and the client's address. */
const SERVE = `
const [name, port] = process.argv.slice(1);
const http = require("node:http").createServer((q, a) => a.end(name + " " + q.socket.remoteAddress));
const udp = require("node:dgram").createSocket("udp4");
udp.on("message", (_text, from) => udp.send(name + " " + from.address, from.port, from.address));
http.listen(Number(port), "0.0.0.0", () => udp.bind(Number(port), () => console.log("ready")));
`;
const ASK_TCP = `
const [url] = process.argv.slice(1);
const signal = AbortSignal.timeout(10_000);
fetch(url, { signal }).then(async (a) => console.log(await a.text()), (e) => console.log("refused " + e.cause?.code));
`;
const ASK_UDP = `
const [address, port] = process.argv.slice(1);
const socket = require("node:dgram").createSocket("udp4");
socket.on("message", (text) => { console.log(String(text)); socket.close(); });
socket.on("error", (e) => { console.log("refused " + e.code); socket.close(); });
socket.connect(Number(port), address, () => socket.send("x"));
const late = setTimeout(() => { console.log("no answer"); socket.close(); }, 10_000);
socket.on("close", () => clearTimeout(late));
`;

/** The HTTP reply to a client there: `NAME ADDRESS`, or `refused CODE`. */
export function ask(from: Place, address: string, port: number): string {
  return runAt(from, process.execPath, "-e", ASK_TCP, `http://${address}:${String(port)}/`).trim();
}

/** The same by UDP. */
export function askByUdp(from: Place, address: string, port: number): string {
  return runAt(from, process.execPath, "-e", ASK_UDP, address, String(port)).trim();
}

/** The namespaces; their programs end with {@link Networks.remove}. */
export class Networks {
  readonly #children: ChildProcess[] = [];

  readonly runner: ProcessRunner = {
    run: (command) =>
      createProcessRunner().run({
        ...command,
        argv: ["ip", "netns", "exec", namespaceOf("host"), ...command.argv],
      }),
    killProcessFamily: () => Promise.resolve(),
  };

  constructor() {
    for (const place of PLACES) {
      // Leftovers of a killed run.
      spawnSync("ip", ["netns", "del", namespaceOf(place)]);
      run("ip", "netns", "add", namespaceOf(place));
    }
    const host = (...text: readonly string[]): string => runAt("host", "ip", ...text);
    host("link", "set", "lo", "up");
    host("link", "add", BRIDGE, "type", "bridge");
    host("addr", "add", `${ADDRESSES.host}/24`, "dev", BRIDGE);
    host("link", "set", BRIDGE, "up");
    for (const place of ["a", "b"] as const) {
      this.#join(place, `${ADDRESSES[place]}/24`, ADDRESSES.host);
      host("link", "set", linkTo(place), "master", BRIDGE);
    }
    this.#join("out", `${ADDRESSES.out}/25`, ADDRESSES.outside);
    host("addr", "add", `${ADDRESSES.outside}/25`, "dev", linkTo("out"));
    runAt("host", "busybox", "sysctl", "-qw", "net.ipv4.ip_forward=1");
  }

  #join(place: Place, address: string, gateway: string): void {
    const peer = ["type", "veth", "peer", "name", "eth0", "netns", namespaceOf(place)];
    runAt("host", "ip", "link", "add", linkTo(place), ...peer);
    runAt("host", "ip", "link", "set", linkTo(place), "up");
    for (const text of [
      ["addr", "add", address, "dev", "eth0"],
      ["link", "set", "eth0", "up"],
      ["link", "set", "lo", "up"],
      ["route", "add", "default", "via", gateway],
    ])
      runAt(place, "ip", ...text);
  }

  /** Starts a server of that name there, by TCP and UDP. Returns its process id. */
  async serve(place: Place, name: string, port: number): Promise<number> {
    const argv = ["netns", "exec", namespaceOf(place), process.execPath, "-e", SERVE];
    const child = spawn("ip", [...argv, name, String(port)], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    this.#children.push(child);
    await once(createInterface(child.stdout), "line");
    return child.pid ?? 0;
  }

  remove(): void {
    for (const child of this.#children) child.kill("SIGKILL");
    for (const place of PLACES) run("ip", "netns", "del", namespaceOf(place));
  }
}
