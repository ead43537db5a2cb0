// SPDX-License-Identifier: Apache-2.0
// Programs of exec and the end of tasks, against a server with scripted answers.
import { afterEach, beforeEach, expect, test } from "vitest";
import { createExecPrograms, type CriExecPrograms } from "./tasks.ts";
import { grpcError, ScriptedRuntime, wallClock } from "./testing/scripted-runtime.ts";

let server: ScriptedRuntime;
let programs: CriExecPrograms;
beforeEach(async () => {
  server = new ScriptedRuntime(["runtime.v1.RuntimeService", "containerd.services.tasks.v1.Tasks"]);
  server.answers["Version"] = () => ({ runtimeName: "scripted", runtimeVersion: "1" });
  await server.start();
  programs = createExecPrograms({ endpoints: [server.address], clock: wallClock });
});
afterEach(() => {
  programs.close();
  server.close();
});

test("ignores processes of a container that exec did not start", async () => {
  server.answers["ListPids"] = () => ({
    processes: [
      { pid: 1, info: null },
      { pid: 2, info: { value: null } },
      { pid: 3, info: { value: { execId: "one" } } },
      { pid: 4, info: { value: { execId: "" } } },
      { pid: 5, info: { value: { execId: "two" } } },
    ],
  });
  expect(await programs.list("c")).toEqual(["one", "two"]);
  expect(server.calls.at(-1)).toMatchObject({
    request: { containerId: "c" },
    metadata: { "containerd-namespace": "k8s.io" },
  });
});

test("kills a program in its container", async () => {
  server.answers["Kill"] = () => ({});
  await programs.kill("c", "one");
  expect(server.calls.at(-1)?.request).toEqual({
    containerId: "c",
    execId: "one",
    signal: 9,
    all: false,
  });
});

test("an ended container lists no programs, and killing an ended program succeeds", async () => {
  for (const method of ["ListPids", "Kill"])
    server.answers[method] = () => Promise.reject(grpcError("NOT_FOUND"));
  expect(await programs.list("c")).toEqual([]);
  await programs.kill("c", "one");
});

test.each([
  { name: "an internal error", error: grpcError("INTERNAL", "broken"), code: "CRI_FAILED" },
  { name: "an unavailable runtime", error: grpcError("UNAVAILABLE"), code: "CRI_UNAVAILABLE" },
])("$name is reported", async ({ error, code }) => {
  server.answers["ListPids"] = () => Promise.reject(error);
  await expect(programs.list("c")).rejects.toMatchObject({ code });
});
