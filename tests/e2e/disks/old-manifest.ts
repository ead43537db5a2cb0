// SPDX-License-Identifier: Apache-2.0
// A VMI manifest for KubeVirt 0.8, applied unchanged, and a reboot by its guest. The guest is a small one.
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { bridgeNetworkManifest } from "@patchbay/support";
import { CHANGE_MS, machine } from "../machine.ts";
import { ROOT } from "../standalone.ts";
import { DEBIAN_BOOT_MS } from "./debian.ts";

const FILE = join(import.meta.dirname, "manifests/multus-two-interfaces.yaml");
const VMI = "vmi-multus-multiple-net";
/** The partition for the guest's data. Source: hack/guest/make-disk */
const OWN = "vda2";
const CACHE = join(ROOT, ".cache");

export interface OldStory {
  readonly nics: readonly (string | undefined)[];
  /** Content of cloud-init's disk as the guest reads it. */
  readonly metaData: string;
  /** Its data from before the reboot. */
  readonly kept: string;
}

/** Builds a bootable disk once for all runs and adds it under the manifest's image name. */
function addImage(): void {
  const directory = join(CACHE, "guest-disk");
  const args = [join(CACHE, "guest"), directory];
  execFileSync(join(ROOT, "hack/guest/make-disk"), args, { stdio: "inherit" });
  const disk = join(directory, "small.qcow2");
  machine.patchbay("image", "add", "kubevirt/fedora-cloud-registry-disk-demo", disk);
}

async function ask(text: string): Promise<string> {
  const { code, lines } = await machine.console(VMI).run(text, { timeoutMs: CHANGE_MS });
  if (code !== 0) throw new Error(`${text}: ${lines.join("\n")}`);
  return lines.join("\n");
}

/** Boots it from its disk, reads its settings, and has it write and reboot. */
export async function bootOldManifest(): Promise<OldStory> {
  addImage();
  machine.apply(bridgeNetworkManifest("ovs-blue", "pbb-ovs"));
  machine.kubectl("apply", "-f", FILE);
  await machine.booted(VMI, undefined, DEBIAN_BOOT_MS);
  // Makes the guest load its disk driver.
  const metaData = await ask("text cidata meta-data");
  await ask(`write ${OWN} kept`);
  const since = machine.console(VMI).position();
  await ask("reboot");
  await machine.booted(VMI, since, DEBIAN_BOOT_MS);
  await ask("text cidata meta-data");
  const retained = await ask(`read ${OWN}`);
  return {
    nics: (machine.findVmi(VMI)?.status?.interfaces ?? []).map(({ name }) => name),
    metaData,
    kept: retained.trim(),
  };
}

export function deleteOldManifest(): void {
  machine.kubectl("delete", "-f", FILE, "--ignore-not-found", "--wait");
}
