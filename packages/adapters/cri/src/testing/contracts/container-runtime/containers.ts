// SPDX-License-Identifier: Apache-2.0
// Contract of ContainerRuntime for containers, for the fake and for containerd.

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import type { ContainerRuntime } from "@patchbay/core/interfaces";
import {
  containerConfigFor,
  removeAllSandboxes,
  sandboxConfigFor,
  SOON,
  untilListening,
  type ContainerRuntimeBench,
} from "./bench.ts";

export function describeContainersContract(
  name: string,
  make: () => Promise<ContainerRuntimeBench> | ContainerRuntimeBench,
): void {
  describe(`ContainerRuntime, containers: ${name}`, () => {
    let bench: ContainerRuntimeBench;
    let runtime: ContainerRuntime;
    let box: string;
    beforeAll(async () => {
      bench = await make();
      ({ runtime } = bench);
    });
    beforeEach(async () => {
      box = await runtime.runSandbox(sandboxConfigFor(bench, "pod"));
    });
    afterEach(() => removeAllSandboxes(runtime));
    afterAll(() => bench.close());

    const create = (command: readonly string[], attempt = 0): Promise<string> =>
      runtime.createContainer(
        box,
        containerConfigFor(bench, command, attempt),
        sandboxConfigFor(bench, "pod"),
      );
    const start = async (command: readonly string[], attempt = 0): Promise<string> => {
      const id = await create(command, attempt);
      await runtime.startContainer(id);
      if (command === bench.runner || command === bench.stubborn) await untilListening(bench, id);
      return id;
    };

    test("a container is created, runs and ends, with the time of each state", async () => {
      const id = await create(bench.runner);
      const created = await runtime.findContainer(id);
      expect(created).toMatchObject({ id, name: "main", attempt: 0, state: "CREATED" });
      expect(created).toMatchObject({ startedAt: 0n, finishedAt: 0n, image: bench.image });
      expect(created?.logPath).toMatch(/\/main\/0\.log$/);
      await runtime.startContainer(id);
      await untilListening(bench, id);
      const running = await runtime.findContainer(id);
      expect(running).toMatchObject({ state: "RUNNING", finishedAt: 0n });
      expect(running?.startedAt).toBeGreaterThanOrEqual(created?.createdAt ?? 0n);
      await runtime.stopContainer(id, 10);
      const ended = await runtime.findContainer(id);
      expect(ended).toMatchObject({ state: "EXITED", exitCode: 143, reason: "Error" });
      expect(ended?.finishedAt).toBeGreaterThanOrEqual(running?.startedAt ?? 0n);
      expect(await runtime.listContainers()).toMatchObject([
        { id, sandboxId: box, name: "main", attempt: 0, state: "EXITED", image: ended?.image },
      ]);
    });

    test("reports the disk usage of a running container with its name and labels", async () => {
      const id = await start(bench.runner);
      const labels = (await runtime.findContainer(id))?.labels;
      await vi.waitFor(async () => {
        const writes = await runtime.listWrites();
        expect(writes).toMatchObject([{ id, name: "main", labels }]);
        expect(writes[0]?.writtenBytes).toBeGreaterThanOrEqual(0);
      }, SOON);
      await runtime.stopContainer(id, 10);
      await runtime.removeContainer(id);
      expect(await runtime.listWrites()).toEqual([]);
    });

    test("reports the exit codes of containers", async () => {
      const failed = await start(bench.failing);
      const done = await start(bench.done, 1);
      await vi.waitFor(async () => {
        expect(await runtime.findContainer(failed)).toMatchObject({
          state: "EXITED",
          exitCode: 3,
          reason: "Error",
        });
        expect(await runtime.findContainer(done)).toMatchObject({
          state: "EXITED",
          exitCode: 0,
          reason: "Completed",
        });
      }, SOON);
    });

    test("kills a program that ignores the stop signal after its grace period", async () => {
      const id = await start(bench.stubborn);
      const stopping = runtime.stopContainer(id, 1);
      await bench.pass(1000);
      await stopping;
      expect(await runtime.findContainer(id)).toMatchObject({ state: "EXITED", exitCode: 137 });
    });

    test("starts a container only once, and each attempt is another container", async () => {
      const id = await start(bench.done);
      await expect(runtime.startContainer(id)).rejects.toMatchObject({ code: "CRI_FAILED" });
      await expect(create(bench.done)).rejects.toMatchObject({ code: "CRI_FAILED" });
      expect(await create(bench.done, 1)).not.toBe(id);
    });

    test("rejects a missing image, a missing sandbox, and a start in a stopped sandbox", async () => {
      const sandbox = sandboxConfigFor(bench, "pod");
      const config = containerConfigFor(bench, bench.runner);
      const imageless = { ...config, image: "localhost/nobody/has:this" };
      const refused = { code: "CRI_FAILED", details: { call: "CreateContainer" } };
      await expect(runtime.createContainer(box, imageless, sandbox)).rejects.toMatchObject(refused);
      const nowhere = runtime.createContainer("nowhere", config, sandbox);
      await expect(nowhere).rejects.toMatchObject(refused);
      await runtime.stopSandbox(box);
      // containerd 2 refuses the start instead.
      const createAndStart = async (): Promise<void> => {
        await runtime.startContainer(await runtime.createContainer(box, config, sandbox));
      };
      await expect(createAndStart()).rejects.toMatchObject({ code: "CRI_FAILED" });
    });

    test("stopping or removing a removed container succeeds; removing a running container ends it", async () => {
      const id = await start(bench.runner);
      await runtime.removeContainer(id);
      expect(await runtime.findContainer(id)).toBeUndefined();
      await runtime.removeContainer(id);
      await runtime.stopContainer(id, 1);
      await expect(runtime.startContainer(id)).rejects.toMatchObject({
        code: "CRI_FAILED",
        details: { status: "NOT_FOUND" },
      });
    });

    test("runs a program in a container and returns its output with its exit code", async () => {
      const id = await start(bench.runner);
      expect(await runtime.execSync(id, bench.speaker, 10)).toEqual({
        exitCode: 3,
        stdout: "out\n",
        stderr: "err\n",
      });
    });

    test("rejects a program's output that is too long, without effect on later programs", async () => {
      const id = await start(bench.runner);
      await expect(runtime.execSync(id, bench.chatterer, 10)).rejects.toMatchObject({
        code: "CRI_FAILED",
        details: { call: "ExecSync", status: "RESOURCE_EXHAUSTED" },
      });
      expect(await runtime.execSync(id, bench.speaker, 10)).toMatchObject({ exitCode: 3 });
    });

    test("a program that takes too long times out; programs in a stopped container fail", async () => {
      const id = await start(bench.runner);
      const waiting = expect(runtime.execSync(id, bench.sleeper, 1)).rejects.toMatchObject({
        code: "CRI_TIMED_OUT",
        details: { call: "ExecSync", timeoutMs: 1000 },
      });
      await bench.pass(1000);
      await waiting;
      await runtime.stopContainer(id, 10);
      await expect(runtime.execSync(id, bench.speaker, 1)).rejects.toMatchObject({
        code: "CRI_FAILED",
      });
    });

    test("opens a stream at a URL, and reopens the log of a running container only", async () => {
      const id = await start(bench.runner);
      const streams = { tty: false, stdin: true, stdout: true, stderr: true };
      const url = await runtime.exec({ containerId: id, command: bench.speaker, ...streams });
      expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/exec\//);
      const own = await runtime.attach({ containerId: id, ...streams });
      expect(own).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/attach\//);
      await runtime.reopenLog(id);
      await runtime.stopContainer(id, 10);
      await expect(runtime.reopenLog(id)).rejects.toMatchObject({ code: "CRI_FAILED" });
    });
  });
}
