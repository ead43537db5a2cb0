// SPDX-License-Identifier: Apache-2.0
// Pods' devices from a kubelet's socket, with and without the method for one pod.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isAppError } from "@patchbay/base";
import { createNoPodDevices, createPodDevices } from "@patchbay/device-plugin";
import { describePodDevicesContract, TestPodResources } from "@patchbay/device-plugin/testing";
import { createClock } from "@patchbay/os";
import { afterEach, beforeEach, describe, expect, test } from "vitest";

let directory: string;
let kubelet: TestPodResources;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "pod-devices-"));
});
afterEach(() => {
  kubelet.close();
  rmSync(directory, { recursive: true, force: true });
});

async function startKubelet(hasGet: boolean): Promise<void> {
  kubelet = new TestPodResources(join(directory, "kubelet.sock"), hasGet);
  await kubelet.start();
}

describe.each([
  ["one pod asked for", true],
  ["all pods listed", false],
] as const)("%s", (name, hasGet) => {
  describePodDevicesContract(name, async () => {
    await startKubelet(hasGet);
    return {
      devices: createPodDevices(join(directory, "kubelet.sock"), createClock()),
      put: (pod, resource, ids) => {
        const [namespace = "", podName = ""] = pod.split("/");
        const at = kubelet.pods.findIndex(
          (one) => one.namespace === namespace && one.name === podName,
        );
        const before = kubelet.pods[at]?.containers ?? [];
        // In its own container.
        const made = { namespace, name: podName, containers: [...before, { [resource]: ids }] };
        if (at === -1) kubelet.pods.push(made);
        else kubelet.pods[at] = made;
      },
      stop: () => {
        kubelet.close();
      },
    };
  });
});

test("counts a device of two containers once", async () => {
  await startKubelet(true);
  const containers = [{ "vendor.io/nic": ["b", "a"] }, { "vendor.io/nic": ["c", "a"] }];
  kubelet.pods.push({ namespace: "ns1", name: "pod", containers });
  const devices = createPodDevices(join(directory, "kubelet.sock"), createClock());
  const found = await devices.find({ namespace: "ns1", name: "pod" });
  expect(found.get("vendor.io/nic")).toEqual(["a", "b", "c"]);
  expect(kubelet.calls).toEqual(["Get"]);
});

test.each<{ name: string; failures: TestPodResources["failures"]; want: unknown }>([
  { name: "an unimplemented Get", failures: { Get: "UNIMPLEMENTED" }, want: ["a"] },
  { name: "a Get that is disabled", failures: { Get: "UNKNOWN" }, want: ["a"] },
  {
    name: "a kubelet under load",
    failures: { Get: "RESOURCE_EXHAUSTED" },
    want: "8 RESOURCE_EXHAUSTED: get failed",
  },
  {
    name: "an internal error",
    failures: { Get: "INTERNAL" },
    want: "13 INTERNAL: get failed",
  },
  {
    name: "a kubelet that fails at both methods",
    failures: { Get: "UNKNOWN", List: "INTERNAL" },
    want: "List: 13 INTERNAL: list failed; Get: 2 UNKNOWN: get failed",
  },
])("after $name: $want", async ({ failures, want }) => {
  await startKubelet(true);
  const pod = { namespace: "ns1", name: "pod" };
  kubelet.pods.push({ ...pod, containers: [{ "vendor.io/nic": ["a"] }] });
  kubelet.failures = failures;
  const devices = createPodDevices(join(directory, "kubelet.sock"), createClock());
  const found = await devices.find(pod).then(
    (each) => each.get("vendor.io/nic"),
    (error: unknown) => isAppError(error, "DEVICES_UNKNOWN") && error.details["reason"],
  );
  expect(found).toEqual(want);
});

test("on a node without device plugins no pod has a device", async () => {
  await startKubelet(true);
  const devices = createNoPodDevices();
  expect([...(await devices.find({ namespace: "ns1", name: "a" }))]).toEqual([]);
  expect([...(await devices.listUsed("vendor.io/nic"))]).toEqual([]);
});
