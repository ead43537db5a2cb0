// SPDX-License-Identifier: Apache-2.0
// A dataplane: DPDK's own test program, which passes frames on between two sockets, or takes those of one, or makes them.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { lstatSync } from "node:fs";
import { eventually } from "../eventually.ts";

/** What it does with frames: passes them on, throws them away, makes small ones for that MAC. */
export type Forwarding =
  | { readonly mode: "io" | "rxonly" }
  | { readonly mode: "txonly"; readonly to: string };

function forwardingOf(forwarding: Forwarding): readonly string[] {
  const mode = `--forward-mode=${forwarding.mode}`;
  return forwarding.mode === "txonly" ? [mode, `--eth-peer=0,${forwarding.to}`] : [mode];
}

/** Source: DPDK testpmd_app_ug; without huge pages, devices of PCI, and a way to be asked. */
function argumentsOf(
  sockets: readonly string[],
  queues: number,
  forwarding: Forwarding,
): readonly string[] {
  const devices = sockets.flatMap((path, index) => [
    "--vdev",
    `net_vhost${String(index)},iface=${path},queues=${String(queues)}`,
  ]);
  return [
    ...["-l", "0-1", "--no-huge", "-m", "512", "--no-pci", "--no-telemetry"],
    `--file-prefix=patchbay-${String(process.pid)}`,
    ...devices,
    "--",
    ...forwardingOf(forwarding),
    ...["--auto-start", "--no-lsc-interrupt", "--total-num-mbufs=16384"],
    ...[`--rxq=${String(queues)}`, `--txq=${String(queues)}`],
  ];
}

/** One that runs. */
export class Testpmd {
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;

  private constructor(child: ChildProcess) {
    this.#child = child;
    this.#ended = once(child, "exit");
  }

  /** Runs once the sockets, one or two, are there. */
  static async start(
    sockets: readonly string[],
    queues: number,
    forwarding: Forwarding = { mode: "io" },
  ): Promise<Testpmd> {
    // It ends when its input does.
    const child = spawn("dpdk-testpmd", [...argumentsOf(sockets, queues, forwarding)], {
      stdio: ["pipe", "ignore", "ignore"],
    });
    const dataplane = new Testpmd(child);
    const isThere = (path: string): boolean =>
      lstatSync(path, { throwIfNoEntry: false })?.isSocket() === true;
    await eventually(
      () => {
        if (child.exitCode !== null) throw new Error("dpdk-testpmd has ended");
        return sockets.every(isThere);
      },
      { withinMs: 60_000 },
    );
    return dataplane;
  }

  /** Ends in order, and takes its sockets along. */
  async stop(): Promise<void> {
    this.#child.kill("SIGINT");
    await this.#ended;
  }

  /** Dies, and leaves its sockets. */
  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#ended;
  }
}
