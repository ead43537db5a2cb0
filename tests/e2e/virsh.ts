// SPDX-License-Identifier: Apache-2.0
// What a guest's own libvirt is told and says, past Patchbay.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { machine } from "./machine.ts";

/** Runs virsh on a domain of the default namespace. */
export function virsh(vmi: string, command: string, ...args: readonly string[]): string {
  // The socket's path is longer than a socket's address may be.
  const directory = mkdtempSync(join(tmpdir(), "virsh-"));
  try {
    symlinkSync(machine.launcherDir(vmi), join(directory, "launcher"));
    const socket = join(directory, "launcher/libvirt/libvirt-sock");
    const uri = `qemu+unix:///session?socket=${socket}`;
    return execFileSync("virsh", ["-q", "-c", uri, command, `default_${vmi}`, ...args], {
      encoding: "utf8",
      timeout: 120_000,
    });
  } finally {
    rmSync(directory, { recursive: true });
  }
}

/** Whether the running domain has the device of an iface. */
export function hasDevice(vmi: string, iface: string): boolean {
  return virsh(vmi, "dumpxml").includes(`<alias name='ua-${iface}'/>`);
}
