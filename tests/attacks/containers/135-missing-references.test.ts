// SPDX-License-Identifier: Apache-2.0
// A pod that refers to many objects that do not exist, on a real API server, with the account of a node.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { KubeNode, KubeObject, PodVolume } from "@patchbay/api/kubernetes";
import { createFakeContainerRuntime } from "@patchbay/cri/testing";
import { createClock, createFiles } from "@patchbay/os";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import {
  LeaseAge,
  sendHeartbeat,
  type NodeDeps,
} from "../../../packages/standalone/node-runtime/src/node/heartbeat.ts";
import { QUIET } from "../../contract/apiserver/harness.ts";
import { NODE, VolumeNode } from "../../contract/node-runtime/volumes/node.ts";

const RIGHTS = join(
  import.meta.dirname,
  "../../../packages/common/manifests/standalone/node-runtime.yaml",
);
const RBAC = "/apis/rbac.authorization.k8s.io/v1";

let node: VolumeNode;
let heartbeat: NodeDeps;

async function grantRights(): Promise<void> {
  const text = readFileSync(RIGHTS, "utf8").replaceAll("NODE_NAME", NODE);
  for (const document of parseAllDocuments(text)) {
    const object = document.toJS() as KubeObject;
    const { namespace } = object.metadata;
    const parent = namespace === undefined ? RBAC : `${RBAC}/namespaces/${namespace}`;
    await node.api.post(`${parent}/${object.kind.toLowerCase()}s`, object);
  }
}

beforeAll(async () => {
  node = await VolumeNode.start();
  await grantRights();
  node.keepCurrent();
  const clock = createClock();
  const files = createFiles();
  await files.writeAtomic(join(node.directory, "10-default.conflist"), "{}");
  heartbeat = {
    // The same client as the volumes' makes the test stricter than node-runtime, where the heartbeat has its own.
    store: node.client.store,
    files,
    clock,
    log: QUIET,
    nodeName: NODE,
    identity: {
      architecture: "x64",
      hostIp: "192.0.2.1",
      bootId: "b",
      machineId: "m",
      systemUuid: "u",
      kernelVersion: "6.1",
      osImage: "Debian",
      runtimeVersion: "fake://1",
    },
    podsDir: node.directory,
    cniConfDir: node.directory,
    port: 10_250,
    runtime: createFakeContainerRuntime(),
    leaseAge: new LeaseAge(clock),
  };
});

afterAll(() => node.close());

/** A projected volume of optional ConfigMaps that do not exist. */
function aVolume(name: string, count: number): PodVolume {
  const sources = Array.from({ length: count }, (_none, index) => ({
    configMap: { name: `${name}-${String(index)}`, optional: true },
  }));
  return { name, projected: { sources } };
}

async function readNode(): Promise<KubeNode | undefined> {
  const { code, text } = await node.api.get(`/api/v1/nodes/${NODE}`);
  return code === 200 ? (JSON.parse(text) as KubeNode) : undefined;
}

async function beat(): Promise<void> {
  await sendHeartbeat(heartbeat, await readNode());
}

async function readRenewTime(): Promise<string> {
  const path = `/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/${NODE}`;
  return String((await node.api.get(path)).body.spec["renewTime"]);
}

test("attack 135: refuses a projected volume of 200 ConfigMaps", async () => {
  await expect(node.createPod("huge", { volumes: [aVolume("v", 200)] })).rejects.toThrow(
    /sources: Too many: 200: must have at most 64 items/,
  );
});

test("attack 135: renews the Lease while a pod waits for 200 ConfigMaps, by one watch", async () => {
  await beat();
  const before = await readRenewTime();
  const from = node.requests.length;
  const volumes = ["a", "b", "c", "d"].map((name) => aVolume(name, 50));
  const pods = await Promise.all(["one", "two"].map((name) => node.createPod(name, { volumes })));
  const preparations = Promise.all(pods.map((pod) => node.prepare(pod)));
  await beat();
  expect((await readRenewTime()) > before).toBe(true);
  expect((await preparations).map(({ size }) => size)).toEqual([4, 4]);
  const listSent = () =>
    node.requests
      .slice(from)
      .filter((request) => request.endsWith(" configmaps"))
      .toSorted();
  await eventually(() => listSent().includes("watch configmaps"), { withinMs: 10_000 });
  expect(listSent()).toEqual(["list configmaps", "watch configmaps"]);
  for (const pod of pods) {
    await node.api.delete(
      `/api/v1/namespaces/default/pods/${pod.metadata.name}?gracePeriodSeconds=0`,
    );
    await node.remove(pod);
  }
  await beat();
  const { status } = (await readNode()) ?? {};
  expect(status?.conditions?.find(({ type }) => type === "Ready")).toMatchObject({
    status: "True",
  });
});
