// SPDX-License-Identifier: Apache-2.0
// Debian from a claim, by EFI with secure boot: what it wrote is there after a restart, and after its VM is gone.
import { diskVmManifest, fillClaim, obedientUserData } from "@patchbay/testing";
import { beforeAll, describe, expect, test } from "vitest";
import { machine } from "../machine.ts";
import {
  addDebianImage,
  DEBIAN_BOOT_MS,
  DEBIAN_IMAGE,
  debianBooted,
  debianRestarted,
  inDebian,
} from "./debian.ts";

const NAME = "kept";
const CLAIM = "kept-root";

beforeAll(async () => {
  addDebianImage();
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
  return () => {
    machine.kubectl("delete", "vm", NAME, "--ignore-not-found", "--wait");
    machine.kubectl("delete", "pvc", CLAIM, "--ignore-not-found", "--wait");
  };
}, 2 * DEBIAN_BOOT_MS);

describe("Debian from a claim", () => {
  test("was started by EFI, with secure boot", async () => {
    // Four bytes of attributes, then the value. Source: UEFI specification, SecureBoot.
    const value = await inDebian(NAME, "od -An -tu1 -j4 /sys/firmware/efi/efivars/SecureBoot-*");
    expect(value.trim()).toBe("1");
  });

  test("keeps what it wrote over a restart of the VM", { timeout: DEBIAN_BOOT_MS }, async () => {
    await inDebian(NAME, "echo kept >/root/mark && sync");
    const uid = machine.findVmi(NAME)?.metadata.uid;
    machine.patchbay("restart", NAME);
    await debianRestarted(NAME, uid);
    expect(await inDebian(NAME, "cat /root/mark")).toBe("kept");
  });

  test("leaves the claim when the VM goes", () => {
    machine.kubectl("delete", "vm", NAME, "--wait");
    expect(machine.kubectl("get", "pvc", CLAIM, "-o", "jsonpath={.status.phase}")).toBe("Bound");
  });
});
