// SPDX-License-Identifier: Apache-2.0
// Direct access to a guest's libvirt, bypassing Patchbay.
import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { machine } from "./machine.ts";

export function virsh(vmi: string, command: string, ...args: readonly string[]): string {
  // The socket's path is too long for a socket address.
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

export function hasDevice(vmi: string, iface: string): boolean {
  return virsh(vmi, "dumpxml").includes(`<alias name='ua-${iface}'/>`);
}
