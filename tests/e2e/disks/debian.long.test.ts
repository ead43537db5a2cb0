// SPDX-License-Identifier: Apache-2.0
// Unmodified Debian. A boot takes most of a minute under emulation, so two scenarios run in parallel, and the tests
// judge their results.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { told, type Seen } from "../story.ts";
import { bootFromClaim, deleteClaim, type ClaimStory } from "./claim.ts";
import { bootFromImage, deleteImageVm, TOLD, type ImageStory } from "./container-disk.ts";
import { addDebianImage, DEBIAN_BOOT_MS } from "./debian.ts";
import { bootOldManifest, deleteOldManifest, type OldStory } from "./old-manifest.ts";

let image: Seen<ImageStory>;
let claim: Seen<ClaimStory>;
let old: Seen<OldStory>;

beforeAll(async () => {
  addDebianImage();
  const oneAfterTheOther = async (): Promise<void> => {
    image = await told(bootFromImage());
    old = await told(bootOldManifest());
  };
  [claim] = await Promise.all([told(bootFromClaim()), oneAfterTheOther()]);
}, 4 * DEBIAN_BOOT_MS);

afterAll(() => {
  deleteImageVm();
  deleteClaim();
  deleteOldManifest();
});

describe("Debian from a containerDisk", () => {
  test("has the name and address from its user data and network data", () => {
    const { hostname, addresses } = image();
    expect(hostname).toBe(TOLD.hostname);
    expect(addresses).toContain(` ${TOLD.address} `);
  });

  test("finds the name of the VM in its metadata", () => {
    expect(image().nameInMetaData).toBe(TOLD.name);
  });

  test("gets a NIC that is plugged in", () => {
    expect(image().hasNic).toBe(true);
  });
});

describe("Debian from a claim", () => {
  test("booted by EFI with secure boot", () => {
    expect(claim().secureBoot).toBe("1");
  });

  test("is reachable by ssh and scp through the API server alone, with a key of its user data", () => {
    expect(claim().shell).toEqual({ said: "kept", code: 7, copied: "there and back" });
  });

  test("does not migrate because the claim is not shared, and reports it", () => {
    const { reason, refused } = claim().staying;
    // Its bridge-bound NIC on the pod network keeps its address too and is reported first.
    expect(reason).toBe("InterfaceNotLiveMigratable");
    expect(refused).toContain(
      "DisksNotLiveMigratable: cannot migrate VMI: PVC kept-root is not shared",
    );
  });

  test("retains its data across a restart of the VM", () => {
    expect(claim().kept).toBe("kept");
  });

  test("resolves names through the pod network, before and after the restart", () => {
    for (const { addresses, ways } of claim().resolving) {
      expect(addresses).toEqual([
        expect.stringMatching(/^10\.77\.8\./),
        expect.stringMatching(/^10\.88\./),
      ]);
      expect(ways).toEqual([addresses[1]]);
    }
  });

  test("has its plugged NIC with its PCI address, MAC and IP address after the restart", () => {
    const [before, after] = claim().resolving;
    expect(after.nic).toEqual(before.nic);
    expect(after.given).toEqual(before.given);
    expect(after.addresses).toEqual(expect.arrayContaining([...before.given]));
  });

  test("preserves the claim when the VM is deleted", () => {
    expect(claim().phase).toBe("Bound");
  });
});

describe("a VMI written for KubeVirt 0.8", () => {
  test("boots from its disk with both NICs and gets its name", () => {
    const { nics, metaData } = old();
    expect(new Set(nics)).toEqual(new Set(["default", "ovs-blue-net"]));
    expect(metaData).toMatch(/"local-hostname": ?"vmi-multus-multiple-net"/);
  });

  test("retains what it wrote to its containerDisk across its own reboot", () => {
    expect(old().kept).toBe("read kept");
  });
});
