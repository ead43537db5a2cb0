// SPDX-License-Identifier: Apache-2.0
// A dataplane: DPDK's own test program, which passes frames on between two sockets, or takes those of one, or makes them.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { chownSync, lstatSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "../eventually.ts";
import { needProgram } from "../programs/need-program.ts";

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
  { forwarding = { mode: "io" }, isAsked: isRequest = false }: TestpmdHow,
): readonly string[] {
  const devices = sockets.flatMap((path, index) => [
    "--vdev",
    `net_vhost${String(index)},iface=${path},queues=${String(queues)}`,
  ]);
  return [
    "-l",
    "0-1",
    "--no-huge",
    "-m",
    "512",
    "--no-pci",
    "--no-telemetry",
    `--file-prefix=patchbay-${String(process.pid)}`,
    ...devices,
    "--",
    ...forwardingOf(forwarding),
    isRequest ? "--interactive" : "--auto-start",
    "--no-lsc-interrupt",
    "--total-num-mbufs=16384",
    `--rxq=${String(queues)}`,
    `--txq=${String(queues)}`,
  ];
}

/** How it runs. */
export interface TestpmdHow {
  /** Absent: it passes frames on. */
  readonly forwarding?: Forwarding;
  /** Whether it looks for frames only within `forwards`: it looks without a pause, which takes a whole core. Absent: always. */
  readonly isAsked?: boolean;
  /** Whom it runs as, without any right; absent: root. */
  readonly user?: { readonly uid: number; readonly gid: number };
}

/** As that user, without any right and group beside its own. */
function asUser({ uid, gid }: { readonly uid: number; readonly gid: number }): readonly string[] {
  const ids = ["--reuid", String(uid), "--regid", String(gid), "--clear-groups"];
  return ["setpriv", ...ids, "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"];
}

/** Throws an error that makes a test not possible where DPDK's test program is not installed. */
export function needTestpmd(): void {
  needProgram("/usr/bin/dpdk-testpmd", "dpdk-dev");
}

/** One that runs. */
export class Testpmd {
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;

  private constructor(child: ChildProcess, directory: string) {
    this.#child = child;
    this.#ended = once(child, "exit").finally(() => {
      rmSync(directory, { recursive: true, force: true });
    });
  }

  /** Runs once the sockets, one or two, are there. */
  static async start(
    sockets: readonly string[],
    queues: number,
    how: TestpmdHow = {},
  ): Promise<Testpmd> {
    needTestpmd();
    const { user } = how;
    const directory = mkdtempSync(join(tmpdir(), "testpmd-"));
    if (user !== undefined) chownSync(directory, user.uid, user.gid);
    const argv = ["dpdk-testpmd", ...argumentsOf(sockets, queues, how)];
    const [program = "", ...args] = user === undefined ? argv : [...asUser(user), ...argv];
    // It is asked by its input, and ends when that does. Where it keeps what it runs with is its own, whoever it is.
    const child = spawn(program, args, {
      stdio: ["pipe", "ignore", "ignore"],
      env: { ...process.env, XDG_RUNTIME_DIR: directory },
    });
    const dataplane = new Testpmd(child, directory);
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

  /** Passes frames on while that lasts. */
  async forwards<Result>(during: () => Promise<Result>): Promise<Result> {
    this.#child.stdin?.write("start\n");
    try {
      return await during();
    } finally {
      this.#child.stdin?.write("stop\n");
    }
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
