// SPDX-License-Identifier: Apache-2.0
import { names } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { aVmi } from "@patchbay/support";
import { expect, test } from "vitest";
import { buildVmiStatus } from "../../status/vmi.ts";
import { hasImageVolume, hasMissingImage } from "./image-files.ts";
import { trimLauncher } from "./trimmed-launcher.ts";

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
