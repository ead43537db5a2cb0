// SPDX-License-Identifier: Apache-2.0
// The story of a VMI that was written for KubeVirt 0.8, applied as it is. What its guest is does not matter: it is a small one.
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { bridgeNetworkManifest } from "@patchbay/support";
import { CHANGE_MS, machine } from "../machine.ts";
import { ROOT } from "../standalone.ts";
import { DEBIAN_BOOT_MS } from "./debian.ts";

const FILE = join(import.meta.dirname, "manifests/multus-two-interfaces.yaml");
const VMI = "vmi-multus-multiple-net";
const CACHE = join(ROOT, ".cache");

export interface OldStory {
  /** Names of its NICs. */
  readonly nics: readonly (string | undefined)[];
  /** What is on cloud-init's disk, as the guest reads it. */
  readonly metaData: string;
}

/** Makes a disk that boots, once for all runs, and wraps it as the image that the manifest names. */
function addImage(): void {
  const directory = join(CACHE, "guest-disk");
  const args = [join(CACHE, "guest"), directory];
  execFileSync(join(ROOT, "hack/guest/make-disk"), args, { stdio: "inherit" });
  const disk = join(directory, "small.qcow2");
  machine.patchbay("image", "add", "kubevirt/fedora-cloud-registry-disk-demo", disk);
}

/** Boots it from its disk, and asks it what it was told. */
export async function bootOldManifest(): Promise<OldStory> {
  addImage();
  machine.apply(bridgeNetworkManifest("ovs-blue", "pbb-ovs"));
  machine.kubectl("apply", "-f", FILE);
  await machine.booted(VMI, undefined, DEBIAN_BOOT_MS);
  const told = await machine.console(VMI).run("text cidata meta-data", { timeoutMs: CHANGE_MS });
  return {
    nics: (machine.findVmi(VMI)?.status?.interfaces ?? []).map(({ name }) => name),
    metaData: told.lines.join("\n"),
  };
}

export function deleteOldManifest(): void {
  machine.kubectl("delete", "-f", FILE, "--ignore-not-found", "--wait");
}
