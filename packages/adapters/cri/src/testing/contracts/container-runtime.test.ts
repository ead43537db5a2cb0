// SPDX-License-Identifier: Apache-2.0
// The fake of a container runtime keeps the contract, and does as a test tells it.
import { AppError } from "@patchbay/base";
import { expect, test } from "vitest";
import { createFakeClock, settle } from "@patchbay/os/testing";
import { createFakeContainerRuntime } from "../fakes/container-runtime.ts";
import { describeContainersContract } from "./container-runtime/containers.ts";
import {
  containerConfigFor,
  sandboxConfigFor,
  type ContainerRuntimeBench,
} from "./container-runtime/bench.ts";
import { describeContainerRuntimeContract } from "./container-runtime.ts";

const IMAGE = { id: "sha256:1", tags: ["localhost/suite:1"], digests: [], bytes: 1, username: "" };
const PLACE = { image: "localhost/suite:1", logDirectory: "/logs", cgroupParent: "/pods" };

function makeBench(): ContainerRuntimeBench {
  const clock = createFakeClock();
  const runtime = createFakeContainerRuntime(clock);
  runtime.putImage(IMAGE);
  runtime.ignoresStop = ({ id }) => runtime.findContainerConfig(id)?.command[0] === "stubborn";
  runtime.onStart = ({ id }, { command: [program = "", exitCode] }) => {
    if (program === "end") runtime.endContainer(id, { exitCode: Number(exitCode) });
  };
  const outputs = new Map([
    ["speak", { exitCode: 3, stdout: "out\n", stderr: "err\n" }],
    ["chat", { exitCode: 0, stdout: "x".repeat(70_000), stderr: "" }],
    ["listen", { exitCode: 0, stdout: "", stderr: "" }],
  ]);
  runtime.onExec = (_container, [program = ""]) => outputs.get(program);
  return {
    ...PLACE,
    runtime,
    runner: ["run"],
    stubborn: ["stubborn"],
    failing: ["end", "3"],
    done: ["end", "0"],
    speaker: ["speak"],
    chatterer: ["chat"],
    sleeper: ["sleep"],
    listening: ["listen"],
    pass: async (ms) => {
      await settle();
      await clock.advance(ms);
    },
    stop: () => {
      runtime.stop();
    },
    start: () => {
      runtime.start();
    },
    killSandbox: (id) => {
      runtime.killSandbox(id);
    },
    close: () => {
      runtime.close();
    },
  };
}

describeContainerRuntimeContract("fake", makeBench);
describeContainersContract("fake", makeBench);

test("a call fails once, before or after its effect, and calls are recorded in order", async () => {
  const runtime = createFakeContainerRuntime();
  const error = new AppError("CRI_UNAVAILABLE", { endpoint: "fake", reason: "killed" });
  const config = sandboxConfigFor(PLACE, "pod");
  runtime.failNext("runSandbox", error);
  await expect(runtime.runSandbox(config)).rejects.toBe(error);
  expect(await runtime.listSandboxes()).toEqual([]);
  runtime.failNext("runSandbox", error, "half");
  await expect(runtime.runSandbox(config)).rejects.toBe(error);
  expect(await runtime.listSandboxes()).toMatchObject([{ id: "sandbox-1" }]);
  await runtime.removeSandbox("sandbox-1");
  expect(runtime.calls).toEqual(["runSandbox ns1/pod", "removeSandbox sandbox-1"]);
});

test("programs and machines end as the test requests, and images come from a registry", async () => {
  const runtime = createFakeContainerRuntime();
  runtime.putRemoteImage(IMAGE);
  expect(await runtime.pullImage("localhost/suite:1")).toBe("sha256:1");
  const sandbox = sandboxConfigFor(PLACE, "pod");
  const box = await runtime.runSandbox(sandbox);
  const start = async (attempt: number): Promise<string> => {
    const config = containerConfigFor(PLACE, ["run"], attempt);
    const id = await runtime.createContainer(box, config, sandbox);
    await runtime.startContainer(id);
    return id;
  };
  const hungry = await start(0);
  runtime.endContainer(hungry, { exitCode: 137, reason: "OOMKilled" });
  expect(await runtime.findContainer(hungry)).toMatchObject({ exitCode: 137, reason: "OOMKilled" });
  const second = await start(1);
  runtime.reboot();
  expect(await runtime.findContainer(second)).toMatchObject({ state: "EXITED", exitCode: 255 });
  expect(await runtime.findSandbox(box)).toMatchObject({ state: "NOTREADY" });
  expect(runtime.findSandboxConfig(box)).toBe(sandbox);
  await runtime.removeImage("sha256:1");
  expect(await runtime.listImages()).toEqual([]);
});

test("pulls a private image only with the right password", async () => {
  const runtime = createFakeContainerRuntime();
  runtime.putRemoteImage(IMAGE, "pw");
  await expect(runtime.pullImage("localhost/suite:1")).rejects.toThrow("401");
  expect(await runtime.pullImage("localhost/suite:1", { password: "pw" })).toBe("sha256:1");
});
