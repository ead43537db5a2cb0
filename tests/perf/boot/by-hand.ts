// SPDX-License-Identifier: Apache-2.0
// The floor: QEMU started by hand with the same disk, memory and machine.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openGuestConsole } from "@patchbay/support";
import { LOGIN, type BootTimes } from "./boot-times.ts";

/** Boots a disk overlay, like a containerDisk, and ends the machine. */
export async function bootByHand(disk: string, timeoutMs: number): Promise<BootTimes> {
  const directory = mkdtempSync(join(tmpdir(), "patchbay-by-hand-"));
  const logPath = join(directory, "console.log");
  const overlay = join(directory, "overlay.qcow2");
  const console = openGuestConsole({ socketPath: "", logPath });
  const started = performance.now();
  execFileSync("qemu-img", ["create", "-q", "-f", "qcow2", "-b", disk, "-F", "qcow2", overlay]);
  const options = [
    "-machine",
    "q35,accel=tcg",
    "-m",
    "512",
    "-display",
    "none",
    "-nodefaults",
    "-drive",
    `file=${overlay},if=none,id=root,format=qcow2`,
    "-device",
    "virtio-blk-pci,drive=root",
    "-serial",
    `file:${logPath}`,
  ];
  const qemu = spawn("qemu-system-x86_64", options, { stdio: "ignore" });
  try {
    const wait = { timeoutMs, fromStart: true };
    await console.waitForLine(/\S/, wait);
    const firstLine = performance.now() - started;
    await console.waitForLine(LOGIN, wait);
    return { firstLine, login: performance.now() - started };
  } finally {
    const ended = once(qemu, "exit");
    qemu.kill("SIGKILL");
    await ended;
    console.close();
    rmSync(directory, { recursive: true });
  }
}
