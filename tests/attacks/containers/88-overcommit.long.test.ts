// SPDX-License-Identifier: Apache-2.0
// Tenants that request more than the node has.
import { existsSync, readFileSync } from "node:fs";
import { totalmem } from "node:os";
import { join } from "node:path";
import type { Pod } from "@patchbay/api/kubernetes";
import { eventually } from "@patchbay/support";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import {
  NODE,
  RuntimeMachine,
  shellContainer,
  shellPod,
} from "../../contract/node-runtime/machine.ts";
import { IMAGES_MS, readOut, scriptPod } from "./pod-machine.ts";

const TIMEOUT = { withinMs: 20_000 };
/** Source: Kubernetes kubelet, maxPods. */
const PLACES = 110;
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

function greedyPod(name: string, change: Partial<Pod["spec"]> = {}): object {
  const greedy = { ...shellContainer("sleep 60"), resources: { limits: { memory: "200Gi" } } };
  return shellPod(name, "", { containers: [greedy], ...change });
}

/** A pod that occupies a place on the node and waits for an image that is never pulled. */
function idlePod(name: string): object {
  const volumes = [{ name: "v", image: { reference: "nowhere", pullPolicy: "Never" } }] as const;
  return shellPod(name, "", { nodeName: NODE, volumes });
}

async function unschedulable(name: string): Promise<string> {
  return eventually(async () => {
    const { conditions = [] } = (await machine.pod(name))?.status ?? {};
    return conditions.find(({ reason }) => reason === "Unschedulable")?.message;
  }, TIMEOUT);
}

async function reasonsOf(name: string): Promise<readonly string[]> {
  const { body } = await machine.api.get("/api/v1/namespaces/default/events");
  // Events have these members.
  const events = body.items as unknown as readonly {
    readonly reason: string;
    readonly involvedObject: { readonly name: string };
  }[];
  return events
    .filter(({ involvedObject }) => involvedObject.name === name)
    .map((one) => one.reason);
}

test("attack 88: a pod that requests more memory than the node has waits, or is rejected if it names the node", async () => {
  await machine.create(greedyPod("waits"));
  expect(await unschedulable("waits")).toBe("0/1 nodes are available: 1 Insufficient memory.");
  await eventually(async () => (await reasonsOf("waits")).includes("FailedScheduling"), TIMEOUT);
  await machine.create(greedyPod("named", { nodeName: NODE }));
  const { status } = await machine.inPhase("named", "Failed");
  expect(status?.reason).toBe("OutOfmemory");
  expect(await machine.runtime.listSandboxes()).toEqual([]);
});

test("attack 88: enforces the node's pod capacity, also for pods that name the node", async () => {
  const names = Array.from({ length: PLACES + 1 }, (_, index) => `idle-${String(index)}`);
  for (const name of names) await machine.create(idlePod(name));
  const refused = await eventually(async () => {
    const pods = await machine.pods();
    const reported = pods.filter(({ status }) => status?.startTime !== undefined);
    if (reported.length <= PLACES)
      throw new Error(`${String(reported.length)} pods have been looked at`);
    return pods.flatMap(({ status }) => status?.reason ?? []);
  }, TIMEOUT);
  expect(refused).toEqual(["OutOfpods"]);
  await machine.create(shellPod("waits", "true"));
  expect(await unschedulable("waits")).toBe("0/1 nodes are available: 1 Too many pods.");
});

test("attack 89: rejects environment variables that expand exponentially and reports it to the user", async () => {
  const env = Array.from({ length: 28 }, (_unused, index) => ({
    name: `V${String(index)}`,
    value: index === 0 ? "aaaaaaaa" : `$(V${String(index - 1)})`.repeat(2),
  }));
  await machine.create(
    shellPod("doubles", "", { containers: [{ ...shellContainer("true"), env }] }),
  );
  const waiting = await eventually(async () => {
    const [container] = (await machine.pod("doubles"))?.status?.containerStatuses ?? [];
    return container?.state.waiting?.message === undefined ? undefined : container.state.waiting;
  }, TIMEOUT);
  expect(waiting).toMatchObject({ reason: "CreateContainerConfigError" });
  expect(waiting.message).toContain(
    "with variable V14 its environment exceeds the kernel's limits for programs",
  );
});

/** The kernel's value for the group of all pods, in cgroup v1 or v2. */
function limitOf(...names: readonly string[]): number {
  const { cgroupParent } = machine.containerd;
  const roots = ["/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/pids"];
  const files = roots.flatMap((root) => names.map((name) => join(root, cgroupParent, name)));
  const file = files.find((one) => existsSync(one)) ?? "";
  return Number(readFileSync(file, "utf8"));
}

test("attack 88: all pods together use less memory than the machine, and pods without requests are killed first", async () => {
  await machine.create(scriptPod("a", "cat /proc/self/oom_score_adj >/out/score"));
  expect(await readOut(machine, "a", "score")).toBe("1000\n");
  const memory = limitOf("memory.max", "memory.limit_in_bytes");
  expect(memory).toBeGreaterThan(totalmem() / 2);
  expect(memory).toBeLessThan(totalmem());
  const most = Number(readFileSync("/proc/sys/kernel/pid_max", "utf8"));
  expect(limitOf("pids.max")).toBeLessThan(most);
});
