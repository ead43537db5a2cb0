// SPDX-License-Identifier: Apache-2.0
// Exec in a real containerd. Needs root, containerd, runc and CNI's plugins.
import { createExecPrograms } from "@patchbay/cri";
import { createClock } from "@patchbay/os";
import {
  containerConfigFor,
  describeExecProgramsContract,
  sandboxConfigFor,
} from "@patchbay/cri/testing";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll } from "vitest";
import { startContainerdRuntime, type ContainerdRuntimeBench } from "./containerd-runtime.ts";

let bench: ContainerdRuntimeBench;
beforeAll(async () => {
  bench = await startContainerdRuntime();
});
afterAll(() => bench.close());

let pods = 0;

describeExecProgramsContract("containerd", async () => {
  const { runtime, containerd } = bench;
  pods += 1;
  const sandbox = sandboxConfigFor(bench, `pod-${String(pods)}`);
  const config = containerConfigFor(bench, bench.runner);
  const box = await runtime.runSandbox(sandbox);
  const containerId = await runtime.createContainer(box, config, sandbox);
  await runtime.startContainer(containerId);
  const programs = createExecPrograms({ endpoints: [containerd.endpoint], clock: createClock() });
  const start = async (): Promise<void> => {
    const { length } = await programs.list(containerId);
    // Ended by the test, or with the bench.
    runtime.execSync(containerId, bench.sleeper, 60).catch(() => undefined);
    const isThere = async () => (await programs.list(containerId)).length > length;
    await eventually(isThere, { withinMs: 10_000 });
  };
  return { programs, containerId, start };
});
