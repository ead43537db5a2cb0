// SPDX-License-Identifier: Apache-2.0
import { afterEach, expect, test } from "vitest";
import { listDefaultEndpoints, createEndpointFinder, type EndpointFinder } from "./endpoints.ts";
import { ScriptedRuntime, wallClock } from "./testing/scripted-runtime.ts";

const open: { close(): void }[] = [];
afterEach(() => {
  for (const one of open.splice(0)) one.close();
});

async function serve(services: readonly string[]): Promise<ScriptedRuntime> {
  const server = new ScriptedRuntime(services);
  open.push(server);
  server.answers["Version"] = () => ({ runtimeName: "one", runtimeVersion: "1" });
  await server.start();
  return server;
}

function find(addresses: readonly string[]): EndpointFinder {
  const found = createEndpointFinder(addresses, wallClock);
  open.push(found);
  return found;
}

test("continues to use the first address that responds to CRI v1", async () => {
  const deaf = await serve(["containerd.services.events.v1.Events"]);
  const [first, second] = [
    await serve(["runtime.v1.RuntimeService"]),
    await serve(["runtime.v1.RuntimeService"]),
  ];
  const found = find(["unix:///nobody/is/here.sock", deaf.address, first.address, second.address]);
  expect((await found.get()).address).toBe(first.address);
  first.stop();
  expect((await found.get()).address).toBe(first.address);
  expect(second.calls).toEqual([]);
});

test("reports the reason for each address, and finds a runtime that starts later", async () => {
  const late = new ScriptedRuntime(["runtime.v1.RuntimeService"]);
  open.push(late);
  const deaf = await serve(["containerd.services.events.v1.Events"]);
  const found = find([late.address, deaf.address]);
  await expect(found.get()).rejects.toMatchObject({
    code: "CRI_UNAVAILABLE",
    details: {
      endpoint: `${late.address}, ${deaf.address}`,
      reason: expect.stringMatching(/ENOENT.*; .*(unimplemented|does not implement)/i) as string,
    },
  });
  late.answers["Version"] = () => ({ runtimeName: "late", runtimeVersion: "1" });
  await late.start();
  expect((await found.get()).address).toBe(late.address);
});

test("default addresses are in the mount namespace of the host process", () => {
  expect(listDefaultEndpoints(undefined)).toContain("unix:///run/crio/crio.sock");
  expect(listDefaultEndpoints(1)).toEqual([
    "unix:///proc/1/root/run/containerd/containerd.sock",
    "unix:///proc/1/root/run/crio/crio.sock",
    "unix:///proc/1/root/run/k3s/containerd/containerd.sock",
  ]);
});
