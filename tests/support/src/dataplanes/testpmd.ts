// SPDX-License-Identifier: Apache-2.0
// A dataplane: DPDK's test program, which forwards frames between two sockets, or drops or generates those of one.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { chownSync, lstatSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "../eventually.ts";
import { needProgram } from "../programs/need-program.ts";

/** Its mode: forward frames, drop them, or generate small ones for that MAC. */
export type Forwarding =
  | { readonly mode: "io" | "rxonly" }
  | { readonly mode: "txonly"; readonly to: string };

function forwardingOf(forwarding: Forwarding): readonly string[] {
  const mode = `--forward-mode=${forwarding.mode}`;
  return forwarding.mode === "txonly" ? [mode, `--eth-peer=0,${forwarding.to}`] : [mode];
}

/** Source: DPDK testpmd_app_ug; without huge pages and PCI devices, interactive. */
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

export interface TestpmdHow {
  /** Unset: it forwards frames. */
  readonly forwarding?: Forwarding;
  /** Whether it polls only within `forwards`, because polling takes a whole core. Unset: always. */
  readonly isAsked?: boolean;
  /** Its unprivileged user; unset: root. */
  readonly user?: { readonly uid: number; readonly gid: number };
}

/** Runs as that user without capabilities and supplementary groups. */
function asUser({ uid, gid }: { readonly uid: number; readonly gid: number }): readonly string[] {
  const ids = ["--reuid", String(uid), "--regid", String(gid), "--clear-groups"];
  return ["setpriv", ...ids, "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"];
}

/** Marks a test as not possible where DPDK's test program is not installed. */
export function needTestpmd(): void {
  needProgram("/usr/bin/dpdk-testpmd", "dpdk-dev");
}

export class Testpmd {
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;

  private constructor(child: ChildProcess, directory: string) {
    this.#child = child;
    this.#ended = once(child, "exit").finally(() => {
      rmSync(directory, { recursive: true, force: true });
    });
  }

  /** Resolves once its one or two sockets exist. */
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
    // Commands arrive on its input, whose end stops it. Its runtime directory is its own, for any user.
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

  /** Forwards frames until the promise settles. */
  async forwards<Result>(during: () => Promise<Result>): Promise<Result> {
    this.#child.stdin?.write("start\n");
    try {
      return await during();
    } finally {
      this.#child.stdin?.write("stop\n");
    }
  }

  /** Stops cleanly and removes its sockets. */
  async stop(): Promise<void> {
    this.#child.kill("SIGINT");
    await this.#ended;
  }

  /** Is killed and leaves its sockets. */
  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#ended;
  }
}
