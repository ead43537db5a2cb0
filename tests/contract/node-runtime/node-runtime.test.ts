// SPDX-License-Identifier: Apache-2.0
// The program node-runtime with a real API server, containerd, runc, plugins, and launcher.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { eventually } from "@patchbay/support";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { launcherPod, NODE, PODS, RuntimeMachine, shellPod } from "./machine.ts";
import { MOMENTS, waitForMoment } from "./moments.ts";

/** Time to build images. */
const IMAGES_MS = 180_000;
const TIMEOUT = { withinMs: 30_000 };
const LEASE = `/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/${NODE}`;

describe("node-runtime", () => {
  let machine: RuntimeMachine;

  beforeAll(async () => {
    machine = await RuntimeMachine.start();
  }, IMAGES_MS);
  afterEach(async () => {
    await machine.clear();
  });
  afterAll(async () => {
    await machine.close();
  });

  test("registers its node with the existing devices", async () => {
    const node = await machine.api.get(`/api/v1/nodes/${NODE}`);
    expect(node.body.status).toMatchObject({
      allocatable: { "devices.kubevirt.io/tun": "1k" },
      conditions: expect.arrayContaining([
        expect.objectContaining({ type: "Ready", status: "True" }),
      ]) as unknown,
    });
  });

  test("renews its node's lease and changes nothing else in it", async () => {
    const lease = async () => (await machine.api.get(LEASE)).body;
    const node = async () => (await machine.api.get(`/api/v1/nodes/${NODE}`)).body;
    const [before, nodeBefore] = [await lease(), await node()];
    expect(before).toMatchObject({
      metadata: { ownerReferences: [{ kind: "Node", name: NODE }] },
      spec: { holderIdentity: NODE, leaseDurationSeconds: 40 },
    });
    const renewed = await eventually(
      async () => {
        const now = await lease();
        return now.metadata.resourceVersion === before.metadata.resourceVersion ? undefined : now;
      },
      { withinMs: 15_000 },
    );
    expect(renewed.spec).not.toEqual(before.spec);
    expect((await node()).metadata.resourceVersion).toBe(nodeBefore.metadata.resourceVersion);
  });

  test("runs a launcher: namespace, default network, volumes, status", async () => {
    await machine.addGuestImage();
    await machine.create(launcherPod("a"));
    const pod = await machine.inPhase("a", "Running");
    const uid = pod.metadata.uid ?? "";
    expect(pod.spec.nodeName).toBe(NODE);
    expect(pod.status?.podIP).toContain(machine.gateway.replace(/1$/, ""));
    expect(pod.status?.containerStatuses?.[0]?.ready).toBe(true);
    const [sandbox] = await machine.runtime.listSandboxes();
    const status = await machine.runtime.findSandbox(sandbox?.id ?? "");
    expect(status).toMatchObject({ state: "READY", ips: [pod.status?.podIP] });
    const version = await eventually(() => machine.virsh(uid, "version"), { withinMs: 20_000 });
    expect(version).toContain("QEMU");
  });

  test("writes nothing at rest", async () => {
    await machine.addGuestImage();
    await machine.create(launcherPod("a"));
    const before = await machine.inPhase("a", "Running");
    await machine.create(shellPod("b", "exit 0"));
    await machine.inPhase("b", "Succeeded");
    const now = await machine.pod("a");
    expect(now?.metadata.resourceVersion).toBe(before.metadata.resourceVersion);
  });

  test("deletes a pod without leftovers", async () => {
    await machine.addGuestImage();
    await machine.create(launcherPod("a"));
    await machine.inPhase("a", "Running");
    await machine.api.delete(`${PODS}/a`);
    expect(await machine.isGone("a")).toBe(true);
    await machine.nothingRemains(10_000);
  });

  test.each([
    { exitCode: 0, phase: "Succeeded" },
    { exitCode: 7, phase: "Failed" },
  ])("a container that ends with $exitCode makes the pod $phase", async ({ exitCode, phase }) => {
    await machine.create(shellPod("a", `exit ${String(exitCode)}`));
    const pod = await machine.inPhase("a", phase);
    expect(pod.status?.containerStatuses?.[0]?.state.terminated?.exitCode).toBe(exitCode);
  });

  test("waits for a missing image, names it, and continues when it exists", async () => {
    await machine.removeGuestImage();
    await machine.create(launcherPod("a"));
    const waiting = await eventually(
      async () => (await machine.pod("a"))?.status?.containerStatuses?.[0]?.state.waiting,
      { withinMs: 10_000 },
    );
    expect(waiting).toEqual({
      reason: "ErrImageNeverPull",
      message: "image guest is not on this machine; add it with: patchbay image add guest SOURCE",
    });
    await machine.addGuestImage();
    await machine.inPhase("a", "Running");
  });

  test("rejects a root pod with the field", async () => {
    await machine.create(shellPod("a", "exit 0", { securityContext: { runAsUser: 0 } }));
    const { status } = await machine.inPhase("a", "Failed");
    expect(status?.reason).toBe("PodForbidden");
    expect(status?.message).toContain("spec.securityContext.runAsUser");
    expect(await machine.runtime.listSandboxes()).toEqual([]);
  });

  test("does not bind a pod whose node selector does not match", async () => {
    await machine.create(launcherPod("a", { nodeSelector: { rack: "7" } }));
    const scheduled = await eventually(
      async () =>
        (await machine.pod("a"))?.status?.conditions?.find(({ type }) => type === "PodScheduled"),
      { withinMs: 10_000 },
    );
    expect(scheduled).toMatchObject({ status: "False", reason: "Unschedulable" });
    await machine.api.patch(`/api/v1/nodes/${NODE}`, { metadata: { labels: { rack: "7" } } });
    await eventually(async () => (await machine.pod("a"))?.spec.nodeName, { withinMs: 10_000 });
  });

  test.each(["SIGTERM", "SIGKILL"] as const)("adopts running pods after %s", async (signal) => {
    await machine.addGuestImage();
    await machine.create(launcherPod("a"));
    const uid = (await machine.inPhase("a", "Running")).metadata.uid ?? "";
    await eventually(() => machine.virsh(uid, "version"), { withinMs: 20_000 });
    await machine.stopRuntime(signal);
    expect(machine.virsh(uid, "version")).toContain("QEMU");
    await machine.startRuntime();
    expect((await machine.pod("a"))?.status?.phase).toBe("Running");
    await machine.api.delete(`${PODS}/a`);
    expect(await machine.isGone("a")).toBe(true);
    await machine.nothingRemains(10_000);
  });

  /** kubectl as a user runs it. */
  async function kubectl(...args: readonly string[]): Promise<string> {
    const argv = ["--kubeconfig", machine.path("kubeconfig"), ...args];
    return (await promisify(execFile)("kubectl", argv, { timeout: 120_000 })).stdout;
  }

  test("a drain ends its pods, and the node accepts no new ones before it is uncordoned", async () => {
    const labels = { app: "a" };
    const pod = shellPod("goes", "sleep 600") as { readonly metadata: object };
    await machine.create({ ...pod, metadata: { ...pod.metadata, labels } });
    await machine.inPhase("goes", "Running");
    const budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    const spec = { minAvailable: 1, selector: { matchLabels: labels } };
    await machine.api.post(budgets, { metadata: { name: "one" }, spec });
    await eventually(async () => {
      const { status } = (await machine.api.get(`${budgets}/one`)).body;
      return status?.["currentHealthy"] === 1;
    }, TIMEOUT);
    const drain = ["drain", NODE, "--force", "--grace-period=1", "--delete-emptydir-data"];
    const refused = execFile("kubectl", ["--kubeconfig", machine.path("kubeconfig"), ...drain]);
    let output = "";
    refused.stderr?.on("data", (text: string) => {
      output += text;
    });
    await eventually(() => output.includes("violate the pod's disruption budget"), TIMEOUT);
    refused.kill();
    await machine.api.delete(`${budgets}/one`);
    expect(await kubectl(...drain, "--timeout=30s")).toContain("drained");
    expect(await machine.pod("goes")).toBeUndefined();
    await machine.create(shellPod("waits", "true"));
    await eventually(async () => {
      const conditions = (await machine.pod("waits"))?.status?.conditions ?? [];
      return conditions.some(({ message }) => message?.includes("were unschedulable") === true);
    }, TIMEOUT);
    await kubectl("uncordon", NODE);
    await machine.inPhase("waits", "Succeeded");
  });

  test("a taint ends pods that do not tolerate it, immediately or after their toleration", async () => {
    const tolerations = [{ key: "maintenance", operator: "Exists" }] as const;
    await machine.create(shellPod("stays", "sleep 600", { tolerations }));
    await machine.create(shellPod("goes", "sleep 600", { terminationGracePeriodSeconds: 1 }));
    for (const name of ["stays", "goes"]) await machine.inPhase(name, "Running");
    await kubectl("taint", "nodes", NODE, "maintenance=yes:NoExecute");
    await eventually(async () => (await machine.pod("goes")) === undefined, TIMEOUT);
    expect((await machine.pod("stays"))?.metadata.deletionTimestamp).toBeUndefined();
    await kubectl("taint", "nodes", NODE, "maintenance-");
  });

  test("detects the end of a container that ended while it was down", async () => {
    await machine.create(shellPod("a", "sleep 2"));
    await machine.inPhase("a", "Running");
    await machine.stopRuntime("SIGKILL");
    await machine.startRuntime();
    expect((await machine.inPhase("a", "Succeeded")).metadata.name).toBe("a");
  });

  test("a killed shim ends its guest, which is reported", async () => {
    await machine.addGuestImage();
    await machine.create(launcherPod("a"));
    await machine.inPhase("a", "Running");
    for (const pid of await machine.containerd.listShims()) process.kill(pid, "SIGKILL");
    const pod = await machine.inPhase("a", "Failed");
    expect(pod.status?.containerStatuses?.[0]?.state.terminated?.exitCode).toBe(255);
    await machine.api.delete(`${PODS}/a`);
    expect(await machine.isGone("a")).toBe(true);
    await machine.nothingRemains(10_000);
  });

  test("containerd may die: the guest keeps running, and its end is reported when containerd is back", async () => {
    await machine.addGuestImage();
    await machine.create(launcherPod("a"));
    const uid = (await machine.inPhase("a", "Running")).metadata.uid ?? "";
    await eventually(() => machine.virsh(uid, "version"), { withinMs: 20_000 });
    await machine.containerd.end("SIGKILL");
    expect(machine.virsh(uid, "version")).toContain("QEMU");
    await machine.containerd.start();
    expect((await machine.pod("a"))?.status?.phase).toBe("Running");
    await machine.api.delete(`${PODS}/a`);
    expect(await machine.isGone("a")).toBe(true);
    await machine.nothingRemains(10_000);
  });

  test("after a reboot a running pod has failed, and deleting it frees its address", async () => {
    await machine.addGuestImage();
    await machine.create(launcherPod("a"));
    await machine.inPhase("a", "Running");
    await machine.stopRuntime("SIGKILL");
    await machine.reboot();
    await machine.startRuntime();
    await machine.inPhase("a", "Failed");
    await machine.api.delete(`${PODS}/a`);
    // The object of a finished pod is deleted immediately.
    expect(await machine.isGone("a")).toBe(true);
    await machine.nothingRemains(10_000);
  });

  test("removes the remains of a pod whose object was force-deleted meanwhile", async () => {
    await machine.addGuestImage();
    await machine.create(launcherPod("a"));
    await machine.inPhase("a", "Running");
    await machine.stopRuntime("SIGTERM");
    await machine.api.delete(`${PODS}/a?gracePeriodSeconds=0`);
    await machine.startRuntime();
    await machine.nothingRemains(20_000);
    expect(await machine.pod("a")).toBeUndefined();
  });

  test.each(["creation", ...MOMENTS] as const)(
    "starts a pod once although it is killed after the %s",
    async (moment) => {
      await machine.addGuestImage();
      await machine.create(launcherPod("a"));
      if (moment !== "creation") await waitForMoment(machine, moment);
      await machine.stopRuntime("SIGKILL");
      await machine.startRuntime();
      await machine.inPhase("a", "Running");
      await machine.api.delete(`${PODS}/a`);
      expect(await machine.isGone("a")).toBe(true);
      await machine.nothingRemains(10_000);
    },
  );
});
