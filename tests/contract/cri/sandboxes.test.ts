// SPDX-License-Identifier: Apache-2.0
// A pod's network namespace as a real containerd reports it. Needs root, containerd, runc and CNI's plugins.
import { statSync } from "node:fs";
import { createCriSandboxes } from "@patchbay/cri/testing";
import { createNamespaces } from "@patchbay/os";
import type { SandboxConfig } from "@patchbay/core/interfaces";
import { sandboxConfigFor } from "@patchbay/cri/testing";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startContainerdRuntime, type ContainerdRuntimeBench } from "./containerd-runtime.ts";

let bench: ContainerdRuntimeBench;
beforeAll(async () => {
  bench = await startContainerdRuntime();
});
afterAll(() => bench.close());

function configFor(name: string, attempt = 0): SandboxConfig {
  const config = sandboxConfigFor(bench, name);
  const { uid } = config.metadata;
  const labels = { ...config.labels, "io.kubernetes.pod.uid": uid };
  return { ...config, labels, metadata: { ...config.metadata, attempt } };
}

test("finds a pod's sandbox while it is ready, in the namespace of its processes", async () => {
  const { runtime } = bench;
  const namespaces = createNamespaces();
  const sandboxes = createCriSandboxes({ runtime, namespaces });
  const id = await runtime.runSandbox(configFor("one"));
  await runtime.runSandbox(configFor("two"));
  const { pid, netnsPath } = (await runtime.findSandbox(id)) ?? {};
  const ofProcess = `/proc/${String(pid)}/ns/net`;
  const netnsInode = statSync(ofProcess, { bigint: true }).ino.toString();
  const pod = { namespace: "ns1", name: "one" };
  const found = { id, podUid: "uid-of-one", pod, netnsPath, netnsInode };
  expect(await sandboxes.find("uid-of-one")).toEqual(found);
  const unseen = createCriSandboxes({
    runtime,
    namespaces: { open: (path) => (path === netnsPath ? undefined : namespaces.open(path)) },
  });
  expect(await unseen.find("uid-of-one")).toEqual({ ...found, netnsPath: ofProcess });

  await runtime.stopSandbox(id);
  expect(await sandboxes.find("uid-of-one")).toBeUndefined();
  const again = await runtime.runSandbox(configFor("one", 1));
  expect(await sandboxes.find("uid-of-one")).toMatchObject({ id: again });

  await bench.killSandbox(again);
  const isGone = async (): Promise<boolean> => (await sandboxes.find("uid-of-one")) === undefined;
  await eventually(isGone, { withinMs: 10_000 });
});

test("finds no sandbox for a host-network pod or a missing pod", async () => {
  const { security, ...config } = configFor("shared");
  const namespaces = { ...security.namespaces, network: "NODE" as const };
  await bench.runtime.runSandbox({
    ...config,
    hostname: "",
    security: { ...security, namespaces },
  });
  const deps = { runtime: bench.runtime, namespaces: createNamespaces() };
  const sandboxes = createCriSandboxes(deps);
  expect(await sandboxes.find("uid-of-shared")).toBeUndefined();
  expect(await sandboxes.find("nobody")).toBeUndefined();
});
