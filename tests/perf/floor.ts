// SPDX-License-Identifier: Apache-2.0
// The floor: the same kernel and libvirt work in a shell script.
import { execFile } from "node:child_process";
import { rmSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { names } from "@patchbay/api";
import { netnsOfPod, type Machine } from "@patchbay/support";
import type { PerfNetwork } from "./standalone-machine.ts";

const WAIT_MS = 60_000;
const SCRIPT = join(import.meta.dirname, "floor.sh");
const run = promisify(execFile);

/** Milliseconds. */
export interface FloorTimes {
  readonly cniMs: number;
  readonly linksMs: number;
  readonly libvirtMs: number;
  /** From the start of the script to its end. */
  readonly scriptMs: number;
  /** From the start of the script to the guest's line. */
  readonly guestLine: number;
}

function netnsOf(machine: Machine, vmi: string): string {
  const uid = machine.findPod(vmi)?.metadata.uid ?? "";
  return netnsOfPod(machine.dataDir, uid).path;
}

/** One manual plug into the network, which is undone afterwards. */
export async function measureFloor(
  machine: Machine,
  vmi: string,
  { bridge, subnet }: PerfNetwork,
): Promise<FloorTimes> {
  const netns = netnsOf(machine, vmi);
  // A socket path has at most 107 characters. Source: linux/un.h
  const socket = join("/tmp", `patchbay-floor-${String(process.pid)}`);
  symlinkSync(join(machine.launcherDir(vmi), names.LIBVIRT_SOCKET), socket);
  try {
    const console = machine.console(vmi);
    const since = console.position();
    const started = performance.now();
    const guest = console
      .waitForLine(/nic added/, { timeoutMs: WAIT_MS, since })
      .then(() => performance.now() - started);
    const args = [netns, socket, bridge, ...(subnet === undefined ? [] : [subnet])];
    const { stdout } = await run(SCRIPT, ["plug", ...args]);
    const scriptMs = performance.now() - started;
    const guestLine = await guest;
    const removed = console.waitForLine(/nic removed/, { timeoutMs: WAIT_MS, since });
    await run(SCRIPT, ["unplug", ...args]);
    await removed;
    const millisecondsOf = (name: string): number =>
      Number(new RegExp(`^${name} (\\d+)$`, "m").exec(stdout)?.[1] ?? NaN) / 1000;
    return {
      cniMs: millisecondsOf("cni"),
      linksMs: millisecondsOf("links"),
      libvirtMs: millisecondsOf("libvirt"),
      scriptMs,
      guestLine,
    };
  } finally {
    rmSync(socket, { force: true });
  }
}
