// SPDX-License-Identifier: Apache-2.0
// Where do firmware and TPM write, and who makes the claim that keeps it?
import { readStorageConfig, type VirtualMachineInstance, type VmiSpec } from "@patchbay/api";
import { aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { aClaim, CLUSTER, SETTINGS } from "../../testing/launcher-facts.ts";
import { planVmi } from "../vmi.ts";
import { NO_PARTS, buildStateClaim, buildStateParts } from "./parts.ts";

type Domain = VmiSpec["domain"];

function vmiWith(domain: Domain, ownedByVm = true): VirtualMachineInstance {
  const vmi = aVmi({ ownedByVm });
  return { ...vmi, spec: { ...vmi.spec, domain: { ...vmi.spec.domain, ...domain } } };
}

const EFI: Domain = { firmware: { bootloader: { efi: { secureBoot: false } } } };
const PERSISTENT_TPM: Domain = { devices: { tpm: { persistent: true } } };
const MOUNT = { name: "state", mountPath: "/run/state" };
const CLAIM = { claimName: "persistent-state-for-vm1" };

describe("the state volume of TPM and EFI is", () => {
  test.each<{ title: string; domain: Domain; volumes: readonly object[] }>([
    { title: "missing without a TPM and EFI", domain: { devices: {} }, volumes: [] },
    {
      title: "missing with a disabled TPM",
      domain: { devices: { tpm: { enabled: false, persistent: true } } },
      volumes: [],
    },
    {
      title: "an emptyDir with EFI",
      domain: EFI,
      volumes: [{ name: "state", emptyDir: { sizeLimit: "16Mi" } }],
    },
    {
      title: "an emptyDir with a TPM",
      domain: { devices: { tpm: {} } },
      volumes: [{ name: "state", emptyDir: { sizeLimit: "16Mi" } }],
    },
    {
      title: "a claim with a persistent TPM",
      domain: PERSISTENT_TPM,
      volumes: [{ name: "state", persistentVolumeClaim: CLAIM }],
    },
    {
      title: "a claim with persistent EFI",
      domain: { firmware: { bootloader: { efi: { persistent: true } } } },
      volumes: [{ name: "state", persistentVolumeClaim: CLAIM }],
    },
  ])("$title", ({ domain, volumes }) => {
    const { volumes: created, mounts } = buildStateParts(vmiWith(domain));
    expect(created).toEqual(volumes);
    expect(mounts).toEqual(volumes.length === 0 ? NO_PARTS.mounts : [MOUNT]);
  });
});

test("the state claim belongs to the VM and has the cluster's storage class", () => {
  const config = { ...readStorageConfig(undefined), stateClass: "fast" };
  expect(buildStateClaim(vmiWith(PERSISTENT_TPM), config)).toMatchObject({
    metadata: {
      name: CLAIM.claimName,
      namespace: "default",
      ownerReferences: [{ kind: "VirtualMachine", name: "vm1" }],
    },
    spec: {
      accessModes: ["ReadWriteOnce"],
      resources: { requests: { storage: "10Mi" } },
      storageClassName: "fast",
    },
  });
  expect(buildStateClaim(vmiWith(EFI), config)).toBeUndefined();
});

test("the state claim belongs to a VMI without a VM, and has the default class", () => {
  const claim = buildStateClaim(vmiWith(PERSISTENT_TPM, false), readStorageConfig(undefined));
  expect(claim?.metadata.ownerReferences).toMatchObject([
    { kind: "VirtualMachineInstance", uid: "vmi-uid", blockOwnerDeletion: false },
  ]);
  expect(claim?.spec).not.toHaveProperty("storageClassName");
});

test("the state claim is created before the launcher", () => {
  const { firmware } = aVmi().spec.domain;
  const vmi = vmiWith({ ...PERSISTENT_TPM, ...(firmware === undefined ? {} : { firmware }) });
  const facts = { ...CLUSTER, vmi, pod: undefined, settings: SETTINGS };
  const kinds = (claims: ReadonlyMap<string, ReturnType<typeof aClaim>>): readonly string[] =>
    planVmi({ ...facts, storage: { ...facts.storage, claims } }).map(({ kind }) => kind);
  expect(kinds(new Map())).toEqual(["createClaim"]);
  expect(kinds(new Map([[CLAIM.claimName, aClaim(CLAIM.claimName)]]))).toEqual(["createPod"]);
});
