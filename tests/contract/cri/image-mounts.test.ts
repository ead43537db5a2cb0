// SPDX-License-Identifier: Apache-2.0
// The error of a containerd before 2.1 for an image mount: a directory without a name. On this text the launcher pod is
// recreated with copied images. Needs root, containerd, runc and CNI's plugins.
import type { Pod } from "@patchbay/api/kubernetes";
import { hasMissingImage } from "@patchbay/core/vm";
import { messageOf } from "@patchbay/base";
import { containerConfigFor, sandboxConfigFor } from "@patchbay/cri/testing";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startContainerdRuntime, type ContainerdRuntimeBench } from "./containerd-runtime.ts";

let bench: ContainerdRuntimeBench;
beforeAll(async () => {
  bench = await startContainerdRuntime();
});
afterAll(() => bench.close());

/** A launcher pod whose container waits for that reason. */
function podThatWaits(message: string): Pod {
  const state = { waiting: { reason: "CreateContainerError", message } };
  const status = { name: "compute", image: "i", imageID: "", ready: false, restartCount: 0, state };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "a" },
    spec: { containers: [], volumes: [{ name: "image-0", image: { reference: "disk" } }] },
    status: { containerStatuses: [status] },
  };
}

test("an image mount is rejected with a known message", async () => {
  const { runtime } = bench;
  const sandbox = sandboxConfigFor(bench, "one");
  const id = await runtime.runSandbox(sandbox);
  const mount = { containerPath: "/disk", hostPath: "", readonly: true } as const;
  const mounts = [{ ...mount, propagation: "PRIVATE" as const }];
  const config = { ...containerConfigFor(bench, ["true"]), mounts };
  const made = runtime.createContainer(id, config, sandbox).then(() => "made", messageOf);
  expect(hasMissingImage(podThatWaits(await made))).toBe(true);
});
