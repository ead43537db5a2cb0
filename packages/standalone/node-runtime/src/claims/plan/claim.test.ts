// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { aClaim, aClass, aVolume, CLAIM_UID, HANDLE, withoutClaim } from "../testing.ts";
import { planClaim, type ClaimAction, type ClaimFacts } from "./claim.ts";

const GIBIBYTE = 2 ** 30;

function facts(change: Partial<ClaimFacts> = {}): ClaimFacts {
  return {
    claim: aClaim(),
    storageClass: aClass(),
    volume: undefined,
    nodeName: "node-1",
    claimCapacity: { diskBytes: 100 * GIBIBYTE, promisedBytes: 0 },
    ...change,
  };
}

/** Steps in short; of a note its reason and words. */
function shown(action: ClaimAction): string {
  if (action.kind === "note") return `${action.reason}: ${action.message}`;
  if (action.kind === "reportVolume") return `reportVolume ${action.phase}`;
  return action.kind === "reportClaim" ? `reportClaim ${action.status.phase ?? ""}` : action.kind;
}

function planned(change: Partial<ClaimFacts> = {}): readonly string[] {
  return planClaim(facts(change)).map(shown);
}

test("a claim with a volume retains it even beyond the capacity limit", () => {
  const claimCapacity = { diskBytes: GIBIBYTE, promisedBytes: 50 * GIBIBYTE };
  const made = planned({ claimCapacity, volume: aVolume("Pending") });
  expect(made).toEqual(["createStorage", "reportVolume Bound", "bindClaim", "reportClaim Bound"]);
});

test("a claim that a pod waits for gets a new volume", () => {
  const [action] = planClaim(facts());
  expect(action).toEqual({
    kind: "createVolume",
    volume: {
      apiVersion: "v1",
      kind: "PersistentVolume",
      metadata: {
        name: HANDLE,
        annotations: { "pv.kubernetes.io/provisioned-by": "patchbay.io/local" },
        finalizers: ["patchbay.io/local-volume"],
      },
      spec: {
        accessModes: ["ReadWriteOnce"],
        capacity: { storage: "1Gi" },
        storageClassName: "local",
        volumeMode: "Filesystem",
        claimRef: {
          apiVersion: "v1",
          kind: "PersistentVolumeClaim",
          namespace: "ns",
          name: "data",
          uid: CLAIM_UID,
        },
        persistentVolumeReclaimPolicy: "Delete",
        csi: { driver: "patchbay.io/local", volumeHandle: HANDLE },
        nodeAffinity: {
          required: {
            nodeSelectorTerms: [
              {
                matchExpressions: [
                  { key: "kubernetes.io/hostname", operator: "In", values: ["node-1"] },
                ],
              },
            ],
          },
        },
      },
    },
  });
});

describe("a claim without a volume", () => {
  const noPod = aClaim({}, { metadata: { name: "data", namespace: "ns", uid: CLAIM_UID } });
  test.each<{ name: string; given: Partial<ClaimFacts>; want: readonly string[] }>([
    {
      name: "waits for a pod",
      given: { claim: noPod },
      want: ["WaitForFirstConsumer: waiting for first consumer to be created before binding"],
    },
    {
      name: "gets a volume without a pod under binding mode Immediate",
      given: { claim: noPod, storageClass: aClass({ volumeBindingMode: "Immediate" }) },
      want: ["createVolume"],
    },
    {
      name: "that selects another node reports that node",
      given: { nodeName: "node-2" },
      want: ["ProvisioningFailed: it is for node node-1, and this is node node-2"],
    },
    {
      name: "without a class reports the missing class",
      given: { claim: aClaim({ storageClassName: "" }), storageClass: undefined },
      want: [
        "FailedBinding: no persistent volumes available for this claim and no storage class is set",
      ],
    },
    {
      name: "with an unknown class reports that class",
      given: { claim: aClaim({ storageClassName: "fast" }), storageClass: undefined },
      want: ['ProvisioningFailed: storageclass.storage.k8s.io "fast" not found'],
    },
    {
      name: "with another provisioner's class reports that no controller will create the volume",
      given: { storageClass: aClass({ provisioner: "example.com/nfs" }) },
      want: [
        "ExternalProvisioning: no controller on this machine creates volumes for provisioner example.com/nfs: use another storage class",
      ],
    },
    {
      name: "with a selector is rejected",
      given: { claim: aClaim({ selector: {} }) },
      want: [
        "ProvisioningFailed: spec.selector is not supported: it selects existing volumes, but each claim gets a new one",
      ],
    },
    {
      name: "with a data source gets no empty volume",
      given: { claim: aClaim({ dataSourceRef: { kind: "VolumeSnapshot" } }) },
      want: ["ProvisioningFailed: spec.dataSource is not supported: the volume would be empty"],
    },
    {
      name: "with a source claim gets no empty volume",
      given: { claim: aClaim({ dataSource: { kind: "PersistentVolumeClaim" } }) },
      want: ["ProvisioningFailed: spec.dataSource is not supported: the volume would be empty"],
    },
    {
      name: "with an invalid size is rejected",
      given: { claim: aClaim({ resources: { requests: { storage: "much" } } }) },
      want: ["ProvisioningFailed: storage much is not a size"],
    },
    {
      name: "larger than the capacity for claims is rejected",
      given: { claimCapacity: { diskBytes: GIBIBYTE, promisedBytes: 0 } },
      want: [
        'ProvisioningFailed: failed to provision volume with StorageClass "local": node(s) did not have enough free storage: ' +
          "1Gi are requested (1.1Gi with the tables of its file system), and claims may use 870.4Mi of the disk's 1Gi: create a smaller claim",
      ],
    },
    {
      name: "waits while other claims reserve the space",
      given: { claimCapacity: { diskBytes: 2 * GIBIBYTE, promisedBytes: GIBIBYTE } },
      want: [
        'ProvisioningFailed: failed to provision volume with StorageClass "local": node(s) did not have enough free storage: ' +
          "1Gi are requested (1.1Gi with the tables of its file system), claims may use 1.7Gi of the disk's 2Gi, and 1Gi of that are promised to other claims: " +
          "delete unused claims, after which this claim is bound automatically, or create a smaller one",
      ],
    },
    {
      name: "of mode Block waits while other claims reserve the space",
      given: {
        claim: aClaim({ volumeMode: "Block" }),
        claimCapacity: { diskBytes: 2 * GIBIBYTE, promisedBytes: GIBIBYTE },
      },
      want: [expect.stringContaining("storage: 1Gi are requested, claims may use 1.7Gi") as string],
    },
    {
      name: "of mode Block gets a volume if the space just suffices",
      given: {
        claim: aClaim({ volumeMode: "Block" }),
        claimCapacity: { diskBytes: 20 * GIBIBYTE, promisedBytes: 16 * GIBIBYTE },
      },
      want: ["createVolume"],
    },
    {
      name: "gets no volume if there is no space for the tables of its file system",
      given: { claimCapacity: { diskBytes: 20 * GIBIBYTE, promisedBytes: 16 * GIBIBYTE } },
      want: [
        expect.stringContaining(
          "1Gi are requested (1.1Gi with the tables of its file system), claims may use 17Gi",
        ) as string,
      ],
    },
    {
      name: "gets a volume if the space also suffices for the tables",
      given: {
        claimCapacity: { diskBytes: 20 * GIBIBYTE, promisedBytes: 16 * GIBIBYTE - 109 * 2 ** 20 },
      },
      want: ["createVolume"],
    },
    {
      name: "gets no volume while it is being deleted",
      given: {
        claim: aClaim({}, { metadata: { ...aClaim().metadata, deletionTimestamp: "now" } }),
      },
      want: [],
    },
    {
      name: "waits for the missing volume that it names",
      given: { claim: aClaim({ volumeName: "old" }) },
      want: ['FailedBinding: volume "old" not found'],
    },
    {
      name: "is Lost if its volume disappeared",
      given: { claim: aClaim({ volumeName: HANDLE }, { status: { phase: "Bound" } }) },
      want: [
        "reportClaim Lost",
        "ClaimLost: Bound claim has lost its PersistentVolume. Data on the volume is lost!",
      ],
    },
    {
      name: "that is already Lost is not reported again",
      given: { claim: aClaim({ volumeName: HANDLE }, { status: { phase: "Lost" } }) },
      want: [],
    },
  ])("$name", ({ given, want }) => {
    expect(planned(given)).toEqual(want);
  });
});

describe("a claim with a volume", () => {
  const bound = aClaim({ volumeName: HANDLE }, { status: { phase: "Bound" } });
  const free = { persistentVolumeReclaimPolicy: "Retain" } as const;
  const named = aClaim({ volumeName: HANDLE });
  const available = withoutClaim(aVolume("Available", free));
  test.each<{ name: string; given: Partial<ClaimFacts>; want: readonly string[] }>([
    {
      name: "is bound once the storage exists",
      given: { volume: aVolume("Pending") },
      want: ["createStorage", "reportVolume Bound", "bindClaim", "reportClaim Bound"],
    },
    {
      name: "is bound without a second creation of the storage",
      given: { volume: aVolume("Bound") },
      want: ["bindClaim", "reportClaim Bound"],
    },
    {
      name: "reports Bound last",
      given: { claim: named, volume: aVolume("Bound") },
      want: ["reportClaim Bound"],
    },
    { name: "rests", given: { claim: bound, volume: aVolume("Bound") }, want: [] },
    {
      name: "rebinds a volume that was released by mistake",
      given: { claim: bound, volume: aVolume("Released") },
      want: ["reportVolume Bound"],
    },
    {
      name: "claims an unbound volume that it names",
      given: { claim: named, volume: available },
      want: ["setClaimRef"],
    },
    {
      name: "claims a volume that is reserved for its name",
      given: {
        claim: named,
        volume: aVolume("Available", { claimRef: { namespace: "ns", name: "data" } }),
      },
      want: ["setClaimRef"],
    },
    {
      name: "does not claim a volume that is reserved for another name",
      given: {
        claim: named,
        volume: aVolume("Available", { claimRef: { namespace: "ns", name: "other" } }),
      },
      want: [`FailedBinding: volume "${HANDLE}" already bound to a different claim.`],
    },
    {
      name: "does not claim the volume of an earlier claim with the same name",
      given: {
        claim: named,
        volume: aVolume("Bound", { claimRef: { namespace: "ns", name: "data", uid: "other" } }),
      },
      want: [`FailedBinding: volume "${HANDLE}" already bound to a different claim.`],
    },
    {
      name: "is ignored if the volume belongs to another driver",
      given: { volume: aVolume("Pending", { csi: { driver: "nfs", volumeHandle: "x" } }) },
      want: [],
    },
  ])("$name", ({ given, want }) => {
    expect(planned(given)).toEqual(want);
  });

  test.each([
    {
      name: "too small",
      spec: { capacity: { storage: "1Mi" } },
      want: "requested PV is too small",
    },
    {
      name: "of another class",
      spec: { storageClassName: "x" },
      want: "storageClassName does not match",
    },
    {
      name: "a device",
      spec: { volumeMode: "Block" } as const,
      want: "incompatible volumeMode",
    },
    {
      name: "read-only",
      spec: { accessModes: ["ReadOnlyMany"] },
      want: "incompatible accessMode",
    },
  ])("does not bind a volume that is $name", ({ spec, want }) => {
    const volume = { ...available, spec: { ...available.spec, ...spec } };
    expect(planned({ claim: named, volume })).toEqual([
      `VolumeMismatch: Cannot bind to requested volume "${HANDLE}": ${want}`,
    ]);
  });

  test("reports its capacity, and creates storage of the volume's mode", () => {
    const plan = planClaim(facts({ volume: aVolume("Pending", { volumeMode: "Block" }) }));
    expect(plan).toContainEqual({
      kind: "createStorage",
      handle: HANDLE,
      size: { kind: "device", sizeBytes: GIBIBYTE },
    });
    expect(plan).toContainEqual({
      kind: "reportClaim",
      status: { phase: "Bound", accessModes: ["ReadWriteOnce"], capacity: { storage: "1Gi" } },
    });
  });
});

describe("optional fields", () => {
  const without = <T extends object>(whole: T, name: keyof T): T =>
    // All members but one that need not be there.
    Object.fromEntries(Object.entries(whole).filter(([key]) => key !== name)) as T;
  const unreported = without(aClaim(), "status");
  const volume = aVolume("Pending");
  const [imageOfOtherPods, free] = [without(volume.spec, "csi"), without(volume.spec, "claimRef")];

  test.each<{ name: string; given: Partial<ClaimFacts>; want: readonly string[] }>([
    {
      name: "no resources means no size",
      given: { claim: { ...unreported, spec: { storageClassName: "local" } } },
      want: ["ProvisioningFailed: storage  is not a size"],
    },
    {
      name: "no requests means no size",
      given: { claim: { ...unreported, spec: { storageClassName: "local", resources: {} } } },
      want: ["ProvisioningFailed: storage  is not a size"],
    },
    {
      name: "a claim of zero bytes has no size",
      given: { claim: aClaim({ resources: { requests: { storage: "0" } } }) },
      want: ["ProvisioningFailed: storage 0 is not a size"],
    },
    {
      name: "a request of one byte is a size",
      given: { claim: aClaim({ resources: { requests: { storage: "1" } } }) },
      want: ["createVolume"],
    },
    {
      name: "a claim without status is bound",
      given: { claim: unreported, volume: aVolume("Pending") },
      want: ["createStorage", "reportVolume Bound", "bindClaim", "reportClaim Bound"],
    },
    {
      name: "a claim without status waits for the volume that it names",
      given: {
        claim: { ...unreported, spec: { ...unreported.spec, volumeName: "old" } },
      },
      want: ['FailedBinding: volume "old" not found'],
    },
    {
      name: "a volume without a driver is ignored",
      given: { volume: { ...volume, spec: imageOfOtherPods } },
      want: [],
    },
    {
      name: "a volume without a claim reference is claimed",
      given: { volume: { ...volume, spec: free } },
      want: ["setClaimRef"],
    },
    {
      name: "a volume promised to the same name in another namespace is not claimed",
      given: { volume: aVolume("Available", { claimRef: { namespace: "other", name: "data" } }) },
      want: [`FailedBinding: volume "${HANDLE}" already bound to a different claim.`],
    },
  ])("$name", ({ given, want }) => {
    expect(planned(given)).toEqual(want);
  });

  test.each([
    {
      name: "a class without a policy",
      storageClass: without(aClass(), "reclaimPolicy"),
      policy: "Delete",
    },
    {
      name: "a class that retains",
      storageClass: aClass({ reclaimPolicy: "Retain" }),
      policy: "Retain",
    },
  ])("$name creates volumes with policy $policy", ({ storageClass, policy }) => {
    const [action] = planClaim(facts({ storageClass }));
    expect(action).toMatchObject({ volume: { spec: { persistentVolumeReclaimPolicy: policy } } });
  });
});
