// SPDX-License-Identifier: Apache-2.0
// A whole standalone machine: up, again, after kill -9, down, purge. Needs root and a build.
import { names } from "@patchbay/api";
import { randomUUID } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFiles, createProcessRunner, isRunning, signalProcess } from "@patchbay/os";
import { down, up } from "@patchbay/supervisor";
import { findFreePort } from "@patchbay/support";
import { afterAll, expect, test } from "vitest";
import { linkLauncherImages } from "../containerd/launcher-images.ts";
import { bringUp, processOf, type NamedProcess } from "./processes.ts";

const UP_MS = 120_000;
const COMPONENTS = [
  "apiserver",
  "containerd",
  "net-agent",
  "node-runtime",
  "virt-api",
  "virt-controller",
  "virt-handler",
];
const files = createFiles();
const runner = createProcessRunner();
const dataDir = join(tmpdir(), `standalone-${randomUUID().slice(0, 8)}`);
const lines: string[] = [];
const bridge = `pbt${randomUUID().slice(0, 8)}`;
const ownBridge = `pbo${randomUUID().slice(0, 8)}`;
const adminBridge = `pba${randomUUID().slice(0, 8)}`;
const apiPort = await findFreePort();

function print(line: string): void {
  lines.push(line);
}

function ownProcess(name: string): Promise<NamedProcess> {
  return processOf(dataDir, name);
}

async function kubectl(...args: readonly string[]): Promise<string> {
  // Without a home directory kubectl would put its cache here.
  const files = [
    "--kubeconfig",
    join(dataDir, "kubeconfig"),
    "--cache-dir",
    join(dataDir, "cache"),
  ];
  const argv = ["kubectl", ...files, ...args] as const;
  return (await runner.run({ argv, timeoutMs: 20_000 })).stdout;
}

afterAll(async () => {
  for (const link of [ownBridge, adminBridge]) {
    await runner.run({ argv: ["ip", "link", "del", link], timeoutMs: 60_000 });
  }
  await down({ dataDir, purge: true, print });
}, UP_MS);

test("rejects all invalid settings before anything is created", async () => {
  const wanted = { apiPort, bridge: "lo", podSubnet: "127.0.0.0/8", nodeName: "No Name" };
  await expect(up({ dataDir, ...wanted, print })).rejects.toThrow(
    /--node-name.*--pod-subnet.*--bridge/,
  );
  expect(await files.exists(dataDir)).toBe(false);
});

test(
  "up starts everything, writes a kubeconfig and serves the subresources",
  async () => {
    await linkLauncherImages(dataDir);
    await bringUp(dataDir, ["--api-port", String(apiPort), "--bridge", bridge], print);
    expect(lines.at(-1)).toBe(`patchbay is up; kubeconfig: ${dataDir}/kubeconfig`);
    for (const name of COMPONENTS) expect(await isRunning(await ownProcess(name))).toBe(true);
    expect(await kubectl("get", "nodes", "-o", "name")).toMatch(/^node\//);
    expect(await kubectl("get", "--raw", "/apis/subresources.kubevirt.io/v1")).toContain(
      "virtualmachines/addinterface",
    );
  },
  UP_MS,
);

test(
  "a second up reports that it is already up",
  async () => {
    await up({ dataDir, print, apiPort: apiPort + 1, bridge });
    expect(lines.at(-1)).toBe(`patchbay is already up in ${dataDir}`);
    expect(lines.at(-2)).toContain(`--api-port ${String(apiPort + 1)} is ignored`);
    expect(lines.at(-3)).not.toContain("ignored");
  },
  UP_MS,
);

test(
  "restarts a killed component",
  async () => {
    const before = await ownProcess("virt-controller");
    const again = new AbortController();
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const look = (): void => {
      void ownProcess("virt-controller").then(({ pid }) => {
        if (pid !== before.pid) resolve(undefined);
      });
    };
    files.watchDirectory(join(dataDir, "run"), look, again.signal);
    await signalProcess(before, "SIGKILL");
    await promise;
    again.abort();
    expect(await isRunning(await ownProcess("virt-controller"))).toBe(true);
  },
  UP_MS,
);

test(
  "after kill -9 of the supervisor, up adopts the running components",
  async () => {
    const before = await Promise.all(COMPONENTS.map(ownProcess));
    const supervisor = await ownProcess("supervisor");
    await signalProcess(supervisor, "SIGKILL");
    await expect.poll(() => isRunning(supervisor)).toBe(false);
    await bringUp(dataDir, [], print);
    expect(await Promise.all(COMPONENTS.map(ownProcess))).toEqual(before);
  },
  UP_MS,
);

async function createNetwork(name: string, bridgeName: string): Promise<void> {
  const config = JSON.stringify({ cniVersion: "1.0.0", type: "bridge", bridge: bridgeName });
  const nad = {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { name, namespace: "default" },
    spec: { config },
  };
  const file = join(dataDir, "nad.json");
  await files.writeAtomic(file, JSON.stringify(nad));
  await kubectl("create", "-f", file);
}

/** A bridge with an address and no port, which an administrator creates after the network that names it. */
async function createAdminBridge(): Promise<void> {
  for (const args of [
    ["link", "add", adminBridge, "type", "bridge"],
    ["addr", "add", "10.50.7.1/24", "dev", adminBridge],
  ]) {
    await runner.run({ argv: ["ip", ...args], timeoutMs: 60_000 });
  }
}

function hasLink(name: string): Promise<boolean> {
  return files.exists(join("/sys/class/net", name));
}

/** A plain pod on both networks, until it has both NICs. */
async function runPod(): Promise<void> {
  const command = ["sleep", "600"];
  const pod = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "sleeper", annotations: { [names.NETWORKS_ANNOTATION]: "own,admin" } },
    spec: {
      securityContext: { runAsUser: 107, runAsGroup: 107 },
      terminationGracePeriodSeconds: 1,
      containers: [
        { name: "c", image: names.LAUNCHER_IMAGE, imagePullPolicy: "IfNotPresent", command },
      ],
    },
  };
  const file = join(dataDir, "pod.json");
  await files.writeAtomic(file, JSON.stringify(pod));
  await kubectl("create", "-f", file);
  const phase = ["get", "pod", "sleeper", "-o", "jsonpath={.status.phase}"] as const;
  await expect.poll(() => kubectl(...phase)).toBe("Running");
  const status = names.NETWORK_STATUS_ANNOTATION.replaceAll(".", "\\.");
  const attached = ["get", "pod", "sleeper", "-o", `jsonpath={.metadata.annotations.${status}}`];
  await expect.poll(() => kubectl(...attached)).toMatch(/default\/own[^]*default\/admin/);
  expect(await hasLink(bridge)).toBe(true);
  expect(await hasLink(ownBridge)).toBe(true);
}

test(
  "down ends everything, preserves the data, and removes the bridges that plugins created",
  async () => {
    const before = await Promise.all([...COMPONENTS, "supervisor"].map(ownProcess));
    await createNetwork("own", ownBridge);
    await createNetwork("admin", adminBridge);
    await createAdminBridge();
    await runPod();
    await kubectl("delete", "net-attach-def", "own");
    await down({ dataDir, print });
    expect(await files.list(join(dataDir, "pods"))).toEqual([]);
    expect(await hasLink(ownBridge)).toBe(false);
    expect(await hasLink(adminBridge)).toBe(true);
    for (const name of before) expect(await isRunning(name)).toBe(false);
    expect(await files.exists(join(dataDir, "apiserver", "store.sqlite"))).toBe(true);
    expect(await hasLink(bridge)).toBe(false);
  },
  UP_MS,
);

test(
  "down of a stopped machine succeeds",
  async () => {
    await down({ dataDir, print });
    expect(lines.at(-1)).toBe(`patchbay is not up in ${dataDir}`);
  },
  UP_MS,
);

test.each([true, false])("down (purge: %s) rejects a foreign directory", async (purge) => {
  const other = join(tmpdir(), `not-ours-${randomUUID()}`);
  await expect(down({ dataDir: other, purge, print })).rejects.toMatchObject({
    code: "STANDALONE_NOT_FOUND",
  });
  await files.ensureDirectory(other);
  await expect(down({ dataDir: other, purge, print })).rejects.toMatchObject({
    code: "STANDALONE_NOT_OURS",
  });
  expect(await files.exists(other)).toBe(true);
  await files.remove(other);
});
