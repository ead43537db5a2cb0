// SPDX-License-Identifier: Apache-2.0
import { names } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { aVm, aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { buildVmiStatus } from "../status/vmi.ts";
import { hasImageVolume, hasMissingImage } from "./pod/image-files.ts";
import { isIncomplete, trimLauncher, trimStoredVm, trimStoredVmi } from "./trimmed-objects.ts";

const WAITING = { waiting: { reason: "ErrImagePull", message: "cannot pull guest" } };
const FAILED = { terminated: { exitCode: 1, reason: "Error", message: "no space" } };
const RUNS = { name: "compute", image: "l", imageID: "", ready: true, restartCount: 0 };
const UNSCHEDULABLE = { type: "PodScheduled", status: "False", reason: "Unschedulable" } as const;

function aLauncher(change: Partial<Pod["spec"]>, status: NonNullable<Pod["status"]>): Pod {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: "virt-launcher-vm1",
      namespace: "default",
      uid: "pod-uid",
      resourceVersion: "3",
      labels: { a: "b" },
      annotations: { other: "x", [names.NETWORKS_ANNOTATION]: '[{"name":"blue"}]' },
    },
    spec: {
      nodeName: "node1",
      initContainers: [{ name: "kernel-boot", image: "guest" }],
      containers: [{ name: "compute", image: "launcher" }],
      volumes: [{ name: "launcher", emptyDir: {} }],
      ...change,
    },
    status,
  };
}

const pods: readonly { readonly name: string; readonly pod: Pod }[] = [
  { name: "runs", pod: aLauncher({}, { phase: "Running", podIPs: [{ ip: "10.0.0.1" }] }) },
  {
    name: "is not ready",
    pod: aLauncher({}, { phase: "Running", conditions: [{ type: "Ready", status: "False" }] }),
  },
  { name: "is unschedulable", pod: aLauncher({}, { conditions: [UNSCHEDULABLE] }) },
  {
    name: "cannot pull an image",
    pod: aLauncher(
      {},
      { initContainerStatuses: [{ ...RUNS, name: "kernel-boot", state: WAITING }] },
    ),
  },
  {
    name: "cannot prepare a disk",
    pod: aLauncher(
      {},
      { phase: "Failed", initContainerStatuses: [{ ...RUNS, name: "image-0", state: FAILED }] },
    ),
  },
  {
    name: "was rejected by its node",
    pod: aLauncher({}, { phase: "Failed", reason: "UnexpectedAdmissionError", message: "no tun" }),
  },
  {
    name: "has lost an image",
    pod: aLauncher({ initContainers: [], volumes: [{ name: "kernel-boot", emptyDir: {} }] }, {}),
  },
  {
    name: "has an image volume",
    pod: aLauncher({ volumes: [{ name: "kernel-boot", image: { reference: "guest" } }] }, {}),
  },
];

function reported(pod: Pod): unknown {
  const vmi = aVmi({ nics: [{ name: "blue" }], status: { phase: "Scheduling" } });
  const network = { bindings: new Map() };
  const storage = { claims: new Map(), config: {} };
  const facts = { vmi, pod, network, storage, failures: [] };
  return {
    // The rest of the configuration says nothing of pods.
    status: buildVmiStatus(facts as never, "2026-01-01T00:00:00Z"),
    lost: hasMissingImage(pod),
    image: hasImageVolume(pod),
  };
}

test.each(pods)(
  "a trimmed launcher that $name gives the same report as the whole pod",
  ({ pod }) => {
    expect(reported(trimLauncher(pod))).toEqual(reported(pod));
  },
);

test("retains the claims of a launcher and their names", () => {
  const resourceClaims = [{ name: "nics", resourceClaimTemplateName: "nic" }];
  const resourceClaimStatuses = [{ name: "nics", resourceClaimName: "vm1-nics" }];
  const { spec, status } = trimLauncher(aLauncher({ resourceClaims }, { resourceClaimStatuses }));
  expect([spec.resourceClaims, status]).toEqual([resourceClaims, { resourceClaimStatuses }]);
});

test("retains only the used fields of a pod", () => {
  const [{ pod } = { pod: aLauncher({}, {}) }] = pods;
  expect(trimLauncher(pod)).toEqual({
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name: "virt-launcher-vm1",
      namespace: "default",
      uid: "pod-uid",
      resourceVersion: "3",
      annotations: { [names.NETWORKS_ANNOTATION]: '[{"name":"blue"}]' },
    },
    spec: {
      nodeName: "node1",
      initContainers: [{ name: "kernel-boot", image: "guest" }],
      containers: [],
      volumes: [{ name: "launcher" }],
    },
    status: { phase: "Running", podIPs: [{ ip: "10.0.0.1" }] },
  });
});

describe("annotations of VMs and VMIs", () => {
  const read = {
    [names.ALLOW_POD_BRIDGE_MIGRATION_ANNOTATION]: "",
    "vm.kubevirt.io/os": "linux",
  };
  /** Annotations whose name and value have `length` characters together. */
  const unread = (length: number) => ({ "a.example/b": "x".repeat(length - 11) });
  const vmWith = (own: object, template: object) => {
    const vm = aVm();
    const metadata = { ...vm.metadata, annotations: { ...own } };
    const spec = {
      ...vm.spec,
      template: { ...vm.spec.template, metadata: { annotations: { ...template } } },
    };
    return { ...vm, metadata, spec };
  };

  test("of a VM are retained if they are read", () => {
    const vm = vmWith({ ...read, ...unread(20) }, {});
    const trimmed = trimStoredVm(vm);
    expect(trimmed.metadata.annotations).toEqual(read);
    expect(trimmed.spec).toEqual(vm.spec);
    expect(isIncomplete(trimmed)).toBe(false);
  });

  test.each([
    { length: 4096, isShort: true },
    { length: 4097, isShort: false },
  ])("of a template are retained up to 4,096 characters: $length", ({ length, isShort }) => {
    const all = { ...read, ...unread(length) };
    const vm = trimStoredVm(vmWith({}, all));
    const vmi = trimStoredVmi({ ...aVmi(), metadata: { name: "vm1", annotations: all } });
    for (const { annotations } of [vm.spec.template.metadata ?? {}, vmi.metadata])
      expect(annotations).toEqual(isShort ? all : read);
    expect([isIncomplete(vm), isIncomplete(vmi)]).toEqual([!isShort, !isShort]);
  });

  test("are not required", () => {
    expect(aVm().spec.template).not.toHaveProperty("metadata");
    expect(trimStoredVm(aVm())).toEqual(aVm());
    expect(trimStoredVmi(aVmi())).toEqual(aVmi());
  });
});
