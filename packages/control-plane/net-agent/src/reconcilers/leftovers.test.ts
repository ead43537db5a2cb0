// SPDX-License-Identifier: Apache-2.0
// Attachments that Multus and its dynamic networks controller recorded and did not remove.
import type { Pod } from "@patchbay/api/kubernetes";
import { AppError } from "@patchbay/base";
import type { Change } from "@patchbay/core/interfaces";
import { beforeEach, expect, test } from "vitest";
import { World } from "../testing/world.ts";
import { findReleasedPod } from "./leftovers.ts";

const CONFIG = { cniVersion: "1.0.0", name: "blue", plugins: [{ type: "bridge" }] };
const PATH = "/multus/results/blue-box-uid-1-net1";

let world: World;

function podIn(phase: "Pending" | "Running" | "Succeeded" | "Failed", podIP?: string): Pod {
  const metadata = { namespace: "ns1", name: "pod", uid: "uid-1" };
  const status = { phase, ...(podIP !== undefined && { podIP, podIPs: [{ ip: podIP }] }) };
  return { apiVersion: "v1", kind: "Pod", metadata, spec: { containers: [] }, status };
}

/** As libcni writes it. */
function remember(path: string, more: Readonly<Record<string, unknown>> = {}): Promise<void> {
  const entry = {
    kind: "cniCacheV1",
    containerId: "box-uid-1",
    ifName: "net1",
    networkName: "blue",
    config: Buffer.from(JSON.stringify(CONFIG)).toString("base64"),
    cniArgs: ["NAMESPACE=ns1", "NAME=pod", "UID=uid-1"].map((pair) => `K8S_POD_${pair}`.split("=")),
    ...more,
  };
  return world.files.writeAtomic(path, JSON.stringify(entry));
}

beforeEach(async () => {
  world = new World();
  world.mode = "multus-dynamic";
  await world.putPod({ networks: "" });
  await remember(PATH);
});

test("releases nothing while the pod exists", async () => {
  await world.sweep();
  expect(world.cni.calls).toEqual([]);
});

test("releases nothing while the sandbox exists, although the API server has no pod", async () => {
  await world.deletePod();
  await world.sweep();
  expect(world.cni.calls).toEqual([]);
});

test("releases and forgets the attachments of a deleted pod once", async () => {
  await world.deletePod();
  world.sandboxes.take("uid-1");
  await world.sweep();
  await world.sweep();
  expect(world.cni.calls).toEqual(["DEL box-uid-1/net1"]);
  expect(world.requests.map(({ request }) => request)).toMatchObject([
    { config: CONFIG, containerId: "box-uid-1", interfaceName: "net1" },
  ]);
  expect(world.requests[0]?.request.netnsPath).toBeUndefined();
  expect(await world.files.exists(PATH)).toBe(false);
});

test.each(["Succeeded", "Failed"] as const)(
  "releases the attachments of a pod that has ended (%s) while its object exists",
  async (phase) => {
    await world.putPod({ networks: "", phase });
    await world.sweep();
    expect(world.cni.calls).toEqual([]);
    world.sandboxes.take("uid-1");
    await world.sweep();
    expect(world.cni.calls).toEqual(["DEL box-uid-1/net1"]);
    expect(await world.files.exists(PATH)).toBe(false);
  },
);

test.each<{ name: string; change: Change<Pod>; want: string | undefined }>([
  {
    name: "ends",
    change: { kind: "updated", previous: podIn("Running"), current: podIn("Failed") },
    want: "uid-1",
  },
  {
    name: "had ended before",
    change: { kind: "updated", previous: podIn("Failed"), current: podIn("Failed") },
    want: undefined,
  },
  {
    name: "runs",
    change: { kind: "updated", previous: podIn("Pending"), current: podIn("Running") },
    want: undefined,
  },
  {
    name: "gets its first address",
    change: {
      kind: "updated",
      previous: podIn("Pending"),
      current: podIn("Running", "10.244.0.5"),
    },
    want: "uid-1",
  },
  {
    name: "gets another address with a new sandbox",
    change: {
      kind: "updated",
      previous: podIn("Running", "10.244.0.5"),
      current: podIn("Running", "10.244.0.6"),
    },
    want: "uid-1",
  },
  {
    name: "retains its address",
    change: {
      kind: "updated",
      previous: podIn("Running", "10.244.0.5"),
      current: podIn("Running", "10.244.0.5"),
    },
    want: undefined,
  },
  {
    name: "loses its sandbox, before it has a new one",
    change: {
      kind: "updated",
      previous: podIn("Running", "10.244.0.5"),
      current: podIn("Running"),
    },
    want: undefined,
  },
  {
    name: "is observed as ended",
    change: { kind: "added", current: podIn("Succeeded") },
    want: "uid-1",
  },
  { name: "is deleted", change: { kind: "deleted", previous: podIn("Running") }, want: "uid-1" },
])("handles a pod that $name: $want", ({ change, want }) => {
  expect(findReleasedPod(change)).toBe(want);
});

test("releases the attachments of a living pod's former sandbox once the pod has another", async () => {
  const current = "/multus/results/blue-box-2-net1";
  world.sandboxes.take("uid-1");
  await world.sweep();
  expect(world.cni.calls).toEqual([]);
  world.putSandbox("uid-1", "box-2");
  await remember(current, { containerId: "box-2" });
  await world.sweep();
  expect(world.cni.calls).toEqual(["DEL box-uid-1/net1"]);
  expect(world.requests[0]?.request.netnsPath).toBeUndefined();
  expect(await world.files.exists(PATH)).toBe(false);
  expect(await world.files.exists(current)).toBe(true);
});

test("does not confuse pods of the same name", async () => {
  await world.putPod({ networks: "", uid: "uid-2" });
  world.sandboxes.take("uid-1");
  await world.sweep();
  expect(world.cni.calls).toEqual(["DEL box-uid-1/net1"]);
});

test("retries a failed release next time and continues with the others", async () => {
  await remember("/multus/results/blue-box-uid-1-net2", { ifName: "net2" });
  await world.deletePod();
  world.sandboxes.take("uid-1");
  const failure = { plugin: "bridge", command: "DEL", message: "no", cniCode: 999 };
  world.cni.failNext("del", new AppError("CNI_PLUGIN_FAILED", failure));
  await world.sweep();
  expect(await world.files.exists(PATH)).toBe(true);
  await world.sweep();
  expect(await world.files.list("/multus/results")).toEqual([]);
  expect(world.cni.calls).toEqual(["net1", "net2", "net1"].map((nic) => `DEL box-uid-1/${nic}`));
});

test.each([
  { name: "does not belong to a kubelet's pod", more: { cniArgs: [["K8S_POD_NAME", "pod"]] } },
  { name: "is unreadable", more: { config: "" } },
])("does not release an attachment that $name", async ({ more }) => {
  await remember(PATH, more);
  await world.deletePod();
  world.sandboxes.take("uid-1");
  await world.sweep();
  expect(world.cni.calls).toEqual([]);
  expect(await world.files.exists(PATH)).toBe(true);
});

test("does not release attachments of other runtimes", async () => {
  const theirs = "/cache/results/blue-box-uid-1-eth0";
  await remember(theirs, { ifName: "eth0" });
  await world.deletePod();
  world.sandboxes.take("uid-1");
  await world.sweep();
  expect(world.cni.calls).toEqual(["DEL box-uid-1/net1"]);
  expect(await world.files.exists(theirs)).toBe(true);
});

test("releases a single pod's attachments when requested", async () => {
  await world.deletePod();
  world.sandboxes.take("uid-1");
  await world.sweep("uid-7");
  expect(world.cni.calls).toEqual([]);
  await world.sweep("uid-1");
  expect(world.cni.calls).toHaveLength(1);
});
