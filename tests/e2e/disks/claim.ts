// SPDX-License-Identifier: Apache-2.0
// The story of Debian from a claim, by EFI with secure boot: what it wrote, after a restart and after its VM is gone.
import { diskVmManifest, fillClaim, obedientUserData } from "@patchbay/testing";
import { machine } from "../machine.ts";
import { DEBIAN_IMAGE, debianBooted, debianRestarted, inDebian } from "./debian.ts";

const NAME = "kept";
const CLAIM = "kept-root";

export interface ClaimStory {
  /** Value of the EFI variable SecureBoot. */
  readonly secureBoot: string;
  /** What it wrote before it was restarted. */
  readonly kept: string;
  /** Of the claim, after the VM was deleted. */
  readonly phase: string;
}

/** Boots, restarts, deletes. */
export async function bootFromClaim(): Promise<ClaimStory> {
  await fillClaim(machine, { claim: CLAIM, image: DEBIAN_IMAGE });
  machine.apply(
    diskVmManifest({
      name: NAME,
      disks: [
        { name: "root", volume: { persistentVolumeClaim: { claimName: CLAIM } } },
        { name: "seed", volume: { cloudInitConfigDrive: { userData: obedientUserData() } } },
      ],
      firmware: { bootloader: { efi: { secureBoot: true } } },
      features: { smm: { enabled: true } },
    }),
  );
  await debianBooted(NAME);
  // Four bytes of attributes, then the value. Source: UEFI specification, SecureBoot.
  const secureBoot = await inDebian(NAME, "od -An -tu1 -j4 /sys/firmware/efi/efivars/SecureBoot-*");
  await inDebian(NAME, "echo kept >/root/mark && sync");
  const uid = machine.findVmi(NAME)?.metadata.uid;
  machine.patchbay("restart", NAME);
  await debianRestarted(NAME, uid);
  const kept = await inDebian(NAME, "cat /root/mark");
  machine.kubectl("delete", "vm", NAME, "--wait");
  const phase = machine.kubectl("get", "pvc", CLAIM, "-o", "jsonpath={.status.phase}");
  return { secureBoot: secureBoot.trim(), kept, phase };
}

export function deleteClaim(): void {
  machine.kubectl("delete", "vm", NAME, "--ignore-not-found", "--wait");
  machine.kubectl("delete", "pvc", CLAIM, "--ignore-not-found", "--wait");
}
