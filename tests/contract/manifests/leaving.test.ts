// SPDX-License-Identifier: Apache-2.0
// Evictions from a node: virt-api behind the API server, through its webhooks.
import { eventually } from "@patchbay/support";
import { launcherPodName } from "@patchbay/core/migration";
import type { VirtualMachineInstance } from "@patchbay/api";
import { afterAll, beforeAll, expect, test } from "vitest";
import { VirtApiMachine, type Person } from "../../attacks/virt-api-machine.ts";

const GROUP = "/apis/kubevirt.io/v1/namespaces/default";
const VMIS = `${GROUP}/virtualmachineinstances`;
const MIGRATIONS = `${GROUP}/virtualmachineinstancemigrations`;
const PODS = "/api/v1/namespaces/default/pods";
const KUBEVIRT = { apiVersion: "kubevirt.io/v1" };

let machine: VirtApiMachine;
let admin: Person;
/** The reason of the VMI that stays. */
let staying: string;

/** A running VMI that can or cannot migrate, and its launcher pod; returns the pod's name. */
async function run(name: string, evictionStrategy: string, can = "False"): Promise<string> {
  const spec = { domain: { devices: {} }, evictionStrategy };
  const kind = "VirtualMachineInstance";
  const made = await admin.ask("POST", VMIS, { ...KUBEVIRT, kind, metadata: { name }, spec });
  expect(made.code).toBe(201);
  const conditions = [
    { type: "LiveMigratable", status: can, reason: "DisksNotLiveMigratable", message: "not yet" },
  ];
  const status = { phase: "Running", nodeName: "a", conditions };
  await admin.ask("PATCH", `${VMIS}/${name}/status`, { status });
  const podName = launcherPodName(made.body as unknown as VirtualMachineInstance);
  const containers = [{ name: "compute", image: "x" }];
  const metadata = { name: podName };
  const pod = { apiVersion: "v1", kind: "Pod", metadata, spec: { containers } };
  expect((await admin.ask("POST", PODS, pod)).code).toBe(201);
  return podName;
}

function evict(pod: string) {
  const eviction = { apiVersion: "policy/v1", kind: "Eviction", metadata: { name: pod } };
  return admin.ask("POST", `${PODS}/${pod}/eviction`, eviction);
}

beforeAll(async () => {
  machine = await VirtApiMachine.start();
  admin = await machine.person("admin", ["system:masters"]);
  staying = await run("staying", "LiveMigrate");
});
afterAll(() => machine[Symbol.asyncDispose]());

test("rejects the eviction of a launcher whose VM must migrate and cannot, and states why", async () => {
  const message = /VMI staying is configured with an eviction strategy but is not live-migratable/;
  // virt-api learns VMIs by its watch.
  const answer = await eventually(
    async () => {
      const output = await evict(staying);
      return output.code === 429 ? output : undefined;
    },
    { withinMs: 20_000 },
  );
  expect(answer.body).toMatchObject({
    message: expect.stringMatching(message) as string,
    reason: "TooManyRequests",
  });
});

test("evicts a launcher of a VM that need not migrate", async () => {
  expect((await evict(await run("going", "LiveMigrateIfPossible"))).code).toBe(201);
});

test("rejects the eviction of a migratable launcher for any client and marks its VMI", async () => {
  const pod = await run("leaving", "LiveMigrate", "True");
  const output = async (text: string): Promise<boolean> => {
    const { code, body } = await evict(pod);
    return code === 429 && body["message"].includes(text);
  };
  // virt-api learns VMIs by its watch.
  const triggered = 'Eviction triggered evacuation of VMI "default/leaving"';
  await eventually(() => output(triggered), { withinMs: 20_000 });
  const { body } = await admin.ask("GET", `${VMIS}/leaving`);
  expect(body["status"]).toMatchObject({ evacuationNodeName: "a" });
  await eventually(() => output(`Evacuation in progress: ${triggered}`), { withinMs: 20_000 });
});

test("rejects a migration of a VM that cannot migrate or does not exist", async () => {
  const migrate = (vmiName: string) =>
    admin.ask("POST", MIGRATIONS, {
      ...KUBEVIRT,
      kind: "VirtualMachineInstanceMigration",
      metadata: { name: "m" },
      spec: { vmiName },
    });
  const message = /Cannot migrate VMI, Reason: DisksNotLiveMigratable, Message: not yet/;
  const refused = await migrate("staying");
  expect(refused.code).toBe(400);
  expect(refused.body).toMatchObject({ message: expect.stringMatching(message) as string });
  const unknown = await migrate("nobody");
  expect(unknown.body).toMatchObject({
    message: expect.stringMatching(/the VMI "default\/nobody" does not exist/) as string,
  });
});
