// SPDX-License-Identifier: Apache-2.0
// Contract of ContainerRuntime for sandboxes, images and events, for the fake and for containerd.

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import type { ContainerImage, ContainerRuntime, SandboxConfig } from "@patchbay/core/interfaces";
import {
  containerConfigFor,
  removeAllSandboxes,
  sandboxConfigFor,
  SOON,
  untilListening,
  type ContainerRuntimeBench,
} from "./container-runtime/bench.ts";

export function describeContainerRuntimeContract(
  name: string,
  make: () => Promise<ContainerRuntimeBench> | ContainerRuntimeBench,
): void {
  describe(`ContainerRuntime: ${name}`, () => {
    let bench: ContainerRuntimeBench;
    let runtime: ContainerRuntime;
    let watching: AbortController;
    let changes: (string | undefined)[];
    beforeAll(async () => {
      bench = await make();
      ({ runtime } = bench);
    });
    beforeEach(() => {
      watching = new AbortController();
      changes = [];
    });
    afterEach(async () => {
      watching.abort(new Error("the test is over"));
      await removeAllSandboxes(runtime);
    });
    afterAll(() => bench.close());

    const config = (pod: string): SandboxConfig => sandboxConfigFor(bench, pod);
    const run = async (pod: string): Promise<[string, string]> => {
      const box = await runtime.runSandbox(config(pod));
      const inside = containerConfigFor(bench, bench.runner);
      const id = await runtime.createContainer(box, inside, config(pod));
      await runtime.startContainer(id);
      await untilListening(bench, id);
      return [box, id];
    };
    const readState = async (id: string): Promise<string | undefined> =>
      (await runtime.findContainer(id))?.state;

    test("reports its name and that it is ready", async () => {
      expect((await runtime.version()).name).not.toBe("");
      expect(await runtime.findProblem()).toBeUndefined();
    });

    test("a sandbox is ready, has its own network, and is shown as requested", async () => {
      const { metadata, labels, annotations } = config("one");
      const id = await runtime.runSandbox(config("one"));
      const status = await runtime.findSandbox(id);
      expect(status).toMatchObject({ id, metadata, labels, annotations, state: "READY" });
      expect(status?.ips).toHaveLength(1);
      expect(status?.netnsPath).toMatch(/^\//);
      expect(status?.pid).toBeGreaterThan(1);
      const [listed] = await runtime.listSandboxes();
      expect(listed).toEqual({
        id,
        metadata,
        labels,
        annotations,
        state: "READY",
        createdAt: status?.createdAt,
      });
    });

    test("a sandbox in the node's network has neither address nor namespace", async () => {
      const { security, ...rest } = config("one");
      const namespaces = { ...security.namespaces, network: "NODE" as const };
      const shared = { ...rest, hostname: "", security: { ...security, namespaces } };
      const id = await runtime.runSandbox(shared);
      const status = await runtime.findSandbox(id);
      expect(status).toMatchObject({ state: "READY", ips: [] });
      expect(status).not.toHaveProperty("netnsPath");
    });

    test("a stopped sandbox is not ready and a removed one is deleted; both calls can be repeated", async () => {
      const id = await runtime.runSandbox(config("one"));
      await runtime.stopSandbox(id);
      await runtime.stopSandbox(id);
      expect(await runtime.findSandbox(id)).toMatchObject({ state: "NOTREADY" });
      await runtime.removeSandbox(id);
      await runtime.removeSandbox(id);
      expect(await runtime.findSandbox(id)).toBeUndefined();
      expect(await runtime.listSandboxes()).toEqual([]);
      await runtime.stopSandbox(id);
    });

    test("each attempt of a pod has its own sandbox, and only one", async () => {
      const first = await runtime.runSandbox(config("one"));
      await expect(runtime.runSandbox(config("one"))).rejects.toMatchObject({
        code: "CRI_FAILED",
        details: { call: "RunPodSandbox" },
      });
      await runtime.stopSandbox(first);
      const { metadata, ...rest } = config("one");
      const again = await runtime.runSandbox({ ...rest, metadata: { ...metadata, attempt: 1 } });
      expect(again).not.toBe(first);
      expect(await runtime.listSandboxes()).toHaveLength(2);
    });

    test("lists by sandbox or by labels", async () => {
      const [box, id] = await run("one");
      const [other] = await run("two");
      const two = { labels: { "io.kubernetes.pod.name": "two", suite: "container-runtime" } };
      const ids = (list: readonly { readonly id: string }[]): string[] => list.map((it) => it.id);
      expect(ids(await runtime.listSandboxes(two))).toEqual([other]);
      expect(ids(await runtime.listSandboxes({ sandboxId: box }))).toEqual([box]);
      expect(ids(await runtime.listSandboxes({ ...two, sandboxId: box }))).toEqual([]);
      expect(ids(await runtime.listContainers({ sandboxId: box }))).toEqual([id]);
      const main = { "io.kubernetes.container.name": "main" };
      expect(await runtime.listContainers({ labels: main })).toHaveLength(2);
      expect(await runtime.listContainers({ labels: { ...main, suite: "none" } })).toEqual([]);
    });

    test("removing a sandbox ends and removes its containers", async () => {
      const [box, id] = await run("one");
      await runtime.stopSandbox(box);
      expect(await runtime.findContainer(id)).toMatchObject({ state: "EXITED", exitCode: 137 });
      await runtime.removeSandbox(box);
      expect(await runtime.findContainer(id)).toBeUndefined();
    });

    test("finds an image by its tag and its ID, and lists it", async () => {
      const image = (await runtime.findImage(bench.image)) as ContainerImage; // the next line reports a missing image
      expect(image.tags).toContain(bench.image);
      expect(image.bytes).toBeGreaterThan(0);
      expect(await runtime.findImage(image.id)).toEqual(image);
      expect(await runtime.listImages()).toContainEqual(image);
      expect(await runtime.findImage("localhost/nobody/has:this")).toBeUndefined();
    });

    test("fails to pull a missing image; removing a missing image succeeds", async () => {
      await expect(runtime.pullImage("127.0.0.1:1/nobody/has:this")).rejects.toMatchObject({
        code: "CRI_FAILED",
        details: { call: "PullImage" },
      });
      await runtime.removeImage("localhost/nobody/has:this");
    });

    test("reports starts, ends and removals until the listener stops", async () => {
      runtime.watch((id) => void changes.push(id), watching.signal);
      const [box, id] = await run("one");
      await vi.waitFor(() => {
        expect(changes).toEqual(expect.arrayContaining([box, id]));
      }, SOON);
      changes = [];
      await runtime.stopContainer(id, 5);
      await vi.waitFor(() => {
        expect(changes).toContain(id);
      }, SOON);
      changes = [];
      await runtime.stopSandbox(box);
      await runtime.removeSandbox(box);
      await vi.waitFor(() => {
        expect(changes).toEqual(expect.arrayContaining([box, id]));
      }, SOON);
      const silent = new AbortController();
      const unwanted: unknown[] = [];
      runtime.watch((change) => void unwanted.push(change), silent.signal);
      silent.abort(new Error("enough"));
      changes = [];
      const next = await runtime.runSandbox(config("two"));
      await vi.waitFor(() => {
        expect(changes).toContain(next);
      }, SOON);
      expect(unwanted).toEqual([]);
    });

    test("calls fail while the runtime is unavailable; its return is reported, with the same state", async () => {
      const [box, id] = await run("one");
      runtime.watch((change) => void changes.push(change), watching.signal);
      await vi.waitFor(() => {
        expect(changes).toContain(undefined);
      }, SOON);
      changes = [];
      await bench.stop();
      await expect(runtime.listSandboxes()).rejects.toMatchObject({ code: "CRI_UNAVAILABLE" });
      await expect(runtime.stopContainer(id, 1)).rejects.toMatchObject({ code: "CRI_UNAVAILABLE" });
      await bench.start();
      await vi.waitFor(() => {
        expect(changes).toContain(undefined);
      }, SOON);
      expect(await runtime.findSandbox(box)).toMatchObject({ state: "READY" });
      expect(await readState(id)).toBe("RUNNING");
      await runtime.stopContainer(id, 5);
      await vi.waitFor(() => {
        expect(changes).toContain(id);
      }, SOON);
    });

    test("ends and cleans up containers and sandbox when their shim dies", async () => {
      const [box, id] = await run("one");
      runtime.watch((change) => void changes.push(change), watching.signal);
      await bench.killSandbox(box);
      await vi.waitFor(async () => {
        expect(await runtime.findContainer(id)).toMatchObject({ state: "EXITED", exitCode: 255 });
        expect(await runtime.findSandbox(box)).toMatchObject({ state: "NOTREADY" });
        // containerd 2 sends events of the sandbox only.
        expect(changes.some((change) => change === id || change === box)).toBe(true);
      }, SOON);
      await runtime.stopSandbox(box);
      await runtime.removeSandbox(box);
      expect(await runtime.findSandbox(box)).toBeUndefined();
    });
  });
}
