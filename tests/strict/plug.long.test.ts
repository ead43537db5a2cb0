// SPDX-License-Identifier: Apache-2.0
// Plug tests on a server that defaults fields, ends watches, compacts revisions, and restarts meanwhile.
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { bridgeNetworkManifest, eventually } from "@patchbay/support";
import { expect, test } from "vitest";
import {
  addInterface,
  CHANGE_MS,
  expectGone,
  expectReady,
  guestNic,
  ifaceStatus,
  machine,
  removeInterface,
} from "../e2e/machine.ts";

/**
 * Time is the criterion: a client that misses changes after a quiet watch takes more than 10 s, with no other symptom.
 */
const PROMPT_MS = 9000;

function killApiServer(): number {
  const pid = machine.pidOf("apiserver");
  process.kill(pid, "SIGKILL");
  return pid;
}

async function untilRestarted(before: number): Promise<void> {
  await eventually(() => machine.pidOf("apiserver") !== before, { withinMs: CHANGE_MS });
  await eventually(() => machine.try(["kubectl", "get", "--raw", "/readyz"]).code === 0, {
    withinMs: CHANGE_MS,
  });
}

/** Writes to objects of a kind within the next seconds. */
function writesTo(path: string): string {
  const { metadata } = machine.read(path) as {
    readonly metadata: { readonly resourceVersion: string };
  };
  const query = `watch=1&timeoutSeconds=3&resourceVersion=${metadata.resourceVersion}`;
  return machine.kubectl("get", "--raw", `${path}?${query}`);
}

/** Matching lines of the services' logs. */
function logged(message: string): readonly string[] {
  const directory = join(machine.dataDir, "logs");
  return readdirSync(directory)
    .filter((file) => file !== "apiserver.log")
    .flatMap((file) => readFileSync(join(directory, file), "utf8").split("\n"))
    .filter((line) => line.includes(`"${message}"`));
}

test("the server is strict: it stores less than it was sent", () => {
  const { name = "" } = machine.findPod("alpha")?.metadata ?? {};
  // kubectl hides managedFields.
  const pod = machine.find("pod", name);
  expect(pod?.metadata).toHaveProperty("managedFields");
  expect(pod?.spec).toHaveProperty("tolerations");
  expect(pod?.status?.conditions?.[0]).toHaveProperty("lastProbeTime", null);
});

test("a guest boots from a copied kernel, because the server drops its image volume", () => {
  const pod = machine.findPod("alpha");
  const volumes = pod?.spec.volumes?.filter(({ name }) => name === "kernel-boot");
  expect(volumes).toEqual([{ name: "kernel-boot", emptyDir: { sizeLimit: "512Mi" } }]);
  const ended = pod?.status?.initContainerStatuses?.map(({ name, state }) => [
    name,
    state.terminated?.exitCode,
  ]);
  expect(ended).toEqual([
    ["copy-files", 0],
    ["kernel-boot", 0],
  ]);
});

test("a NIC is plugged and unplugged", async () => {
  const since = machine.console("alpha").position();
  addInterface("alpha", { name: "first", network: "blue" });
  const { mac = "" } = await expectReady("alpha", "first");
  expect(await guestNic("alpha", mac)).not.toBe("");
  removeInterface("alpha", "first");
  await machine.console("alpha").waitForLine(/nic removed/, { timeoutMs: CHANGE_MS, since });
  await expectGone("alpha", "first");
});

/** Characters that Go's encoder escapes: a server never finds them equal to the sent text. */
const WORDS = "a->b, <nil> & none";

test("a NIC is plugged and unplugged while a status contains an error with arrows", async () => {
  machine.apply(bridgeNetworkManifest("arrows", "pbs-arrows", WORDS));
  addInterface("alpha", { name: "arrows", network: "arrows" });
  await eventually(() => ifaceStatus("alpha", "arrows")?.hotplug?.message?.includes(WORDS), {
    withinMs: CHANGE_MS,
  });
  addInterface("alpha", { name: "beside", network: "blue" });
  await expectReady("alpha", "beside");
  removeInterface("alpha", "beside");
  await expectGone("alpha", "beside");
  removeInterface("alpha", "arrows");
  await expectGone("alpha", "arrows");
  expect(logged("reconcile failed").filter((line) => line.includes("KUBE_WRITES_LOST"))).toEqual(
    [],
  );
});

test.each([
  "/apis/kubevirt.io/v1/virtualmachines",
  "/apis/kubevirt.io/v1/virtualmachineinstances",
  "/api/v1/pods",
])("writes nothing to %s at rest, whatever the server defaults", async (path) => {
  // The last report of earlier changes may be pending. A loop with needless writes never settles.
  await eventually(() => writesTo(path) === "", { withinMs: CHANGE_MS });
});

test("a NIC is plugged promptly after quiet watches", async () => {
  const requested = performance.now();
  addInterface("alpha", { name: "quiet", network: "blue" });
  await expectReady("alpha", "quiet");
  expect(performance.now() - requested).toBeLessThan(PROMPT_MS);
});

test("a NIC is unplugged while the server restarts", async () => {
  removeInterface("alpha", "quiet");
  const pid = killApiServer();
  await untilRestarted(pid);
  await expectGone("alpha", "quiet");
  expect(machine.pidOf("apiserver")).not.toBe(pid);
});

test("a NIC is plugged while the server restarts, and the next one promptly", async () => {
  addInterface("alpha", { name: "broken", network: "blue" });
  await untilRestarted(killApiServer());
  await expectReady("alpha", "broken");
  const requested = performance.now();
  removeInterface("alpha", "broken");
  await expectGone("alpha", "broken");
  expect(performance.now() - requested).toBeLessThan(2 * PROMPT_MS);
});

test("nothing that was sent was dropped, and the image volume was never requested", () => {
  expect(logged("the API server sent a warning")).toEqual([]);
});
