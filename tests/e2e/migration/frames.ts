// SPDX-License-Identifier: Apache-2.0
// A host bridge's view of a guest: the times of its replies and requests, and the ports of its MAC.
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { createInterface } from "node:readline";

function follow(argv: readonly [string, ...string[]], tell: (line: string) => void): ChildProcess {
  const [program, ...args] = argv;
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "ignore"] });
  createInterface(child.stdout).on("line", tell);
  return child;
}

/** The port of a MAC. Source: bridge(8), fdb show and monitor: MAC dev PORT … master BRIDGE */
function entryOf(line: string, bridge: string): Entry | undefined {
  const text = line.split(" ");
  const [mac = "", dev, port = ""] = text;
  const at = text.indexOf("master");
  const isOfBridge = at === -1 || text[at + 1] === bridge;
  return dev === "dev" && isOfBridge ? { mac, port } : undefined;
}

interface Entry {
  readonly mac: string;
  readonly port: string;
}

/** Frames of one kind with their times. */
class Passed {
  /** Milliseconds. */
  readonly #times: number[] = [];

  note(line: string): void {
    this.#times.push(Number.parseFloat(line) * 1000);
  }

  /** So far. */
  get count(): number {
    return this.#times.length;
  }

  /** The longest gap since that frame number. */
  longestGapMs(since: number): number {
    const times = this.#times.slice(Math.max(0, since - 1));
    return Math.max(0, ...times.slice(1).map((time, index) => time - (times[index] ?? time)));
  }
}

/** ICMP types of pings. Source: pcap-filter(7), icmptype. */
const PINGS = { answers: "icmp-echoreply", questions: "icmp-echo" } as const;

/** Captures until it is closed. */
export class Frames {
  readonly answers = new Passed();
  readonly questions = new Passed();
  readonly #entries: Entry[] = [];
  readonly #children: readonly ChildProcess[];

  /** `address`: whose pings count. */
  constructor(bridge: string, address: string) {
    const note = (line: string): void => {
      const entry = entryOf(line, bridge);
      if (entry !== undefined) this.#entries.push(entry);
    };
    const known = execFileSync("bridge", ["fdb", "show", "br", bridge], { encoding: "utf8" });
    for (const line of known.split("\n")) note(line);
    const kinds = ["answers", "questions"] as const;
    this.#children = [
      ...kinds.map((kind) => {
        const filter = `icmp[icmptype] == ${PINGS[kind]} and src host ${address}`;
        return follow(["tcpdump", "-i", bridge, "-n", "-l", "-tt", filter], (line) => {
          this[kind].note(line);
        });
      }),
      follow(["bridge", "monitor", "fdb"], (line) => {
        if (line.includes(` master ${bridge}`)) note(line);
      }),
    ];
  }

  /** The ports of the MAC, in order. */
  portsOf(mac: string): readonly string[] {
    const ports = this.#entries.filter((entry) => entry.mac === mac).map(({ port }) => port);
    return ports.filter((port, index) => port !== ports[index - 1]);
  }

  close(): void {
    for (const child of this.#children) child.kill();
  }
}
