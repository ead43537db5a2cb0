// SPDX-License-Identifier: Apache-2.0
// The story of a VMI that was written for KubeVirt 0.8, applied as it is.
import { join } from "node:path";
import { bridgeNetworkManifest, eventually } from "@patchbay/support";
import { machine } from "../machine.ts";
import { DEBIAN_BOOT_MS, DEBIAN_DISK } from "./debian.ts";

const FILE = join(import.meta.dirname, "manifests/multus-two-interfaces.yaml");
const VMI = "vmi-multus-multiple-net";

/** Waits for the login prompt, with the name from cloud-init's metadata; the names of the NICs. */
export async function bootOldManifest(): Promise<readonly (string | undefined)[]> {
  machine.patchbay("image", "add", "kubevirt/fedora-cloud-registry-disk-demo", DEBIAN_DISK);
  machine.apply(bridgeNetworkManifest("ovs-blue", "pbb-ovs"));
  machine.kubectl("apply", "-f", FILE);
  const isRunning = (): boolean => machine.findVmi(VMI)?.status?.phase === "Running";
  await eventually(isRunning, { withinMs: DEBIAN_BOOT_MS });
  const login = { timeoutMs: DEBIAN_BOOT_MS, fromStart: true };
  await machine
    .console(VMI)
    .waitForLine(/^Debian GNU\/Linux 12 vmi-multus-multiple-net ttyS0/, login);
  return (machine.findVmi(VMI)?.status?.interfaces ?? []).map(({ name }) => name);
}

export function deleteOldManifest(): void {
  machine.kubectl("delete", "-f", FILE, "--ignore-not-found", "--wait");
}
