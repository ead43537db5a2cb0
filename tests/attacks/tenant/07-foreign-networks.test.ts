// SPDX-License-Identifier: Apache-2.0
// Tenant pods that request foreign networks, too many networks, or impossible ones.
import { EVENTS, names, PODS } from "@patchbay/api";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AgentMachine } from "../../contract/net-agent/machine.ts";

const TIMEOUT = { withinMs: 10_000 };
const OWNER = "owner";
const TENANT = "tenant";
const POOL = { from: "10.55.0.10", to: "10.55.0.19" };

let machine: AgentMachine;

beforeAll(async () => {
  machine = await AgentMachine.start();
  await machine.addNamespace(OWNER);
  await machine.addNamespace(TENANT);
  await machine.putNad(OWNER, "blue", [machine.node.bridgePlugin(POOL)]);
});

afterAll(async () => {
  await machine.close();
});

async function errorsOf(name: string): Promise<readonly string[]> {
  const errors = await eventually(async () => {
    const found = await machine.errors(TENANT, name);
    return Object.keys(found).length > 0 ? found : undefined;
  }, TIMEOUT);
  return [...new Set(Object.values(errors).map(({ reason }) => reason))];
}

/** Its own network is attached, so the agent has processed everything before it. */
async function expectServed(namespace: string, name: string): Promise<void> {
  await machine.runPod({ namespace, name, networks: "blue" });
  await eventually(async () => (await machine.networkStatus(namespace, name)).length > 0, TIMEOUT);
}

test.each([
  { what: "in a pod's annotation", metadata: {} },
  {
    what: "with the labels of a launcher",
    metadata: {
      labels: { [names.KUBEVIRT_LABEL]: names.LAUNCHER_LABEL_VALUE, [names.CREATED_BY_LABEL]: "x" },
    },
  },
])("attack 7: rejects another namespace's network, named $what", async ({ what, metadata }) => {
  const name = `seven-${String(what.length)}`;
  const sandbox = await machine.runPod({
    namespace: TENANT,
    name,
    networks: `${OWNER}/blue`,
    metadata,
  });
  expect(await errorsOf(name)).toEqual(["NetworkForbidden"]);
  expect(machine.node.nics(sandbox)).toEqual([]);
});

test("attack 8: a pod cannot request more addresses than the owner's pool has", async () => {
  const networks = Array.from({ length: 60 }, () => `${OWNER}/blue`).join(",");
  await machine.runPod({ namespace: TENANT, name: "eight", networks });
  expect(await errorsOf("eight")).toEqual(["NetworkForbidden"]);
  expect(machine.node.leases("blue")).toEqual([]);
  await expectServed(OWNER, "mine");
});

test("attack 8: rejects annotations of 260 and of 131,072 elements", async () => {
  const many = (count: number): string => Array.from({ length: count }, () => "a").join(",");
  await machine.runPod({ namespace: TENANT, name: "hoard", networks: many(260) });
  await machine.runPod({ namespace: TENANT, name: "flood", networks: many(100_000) });
  for (const name of ["hoard", "flood"]) {
    expect(await errorsOf(name)).toEqual(["AnnotationInvalid"]);
    await machine.ask(TENANT, name, `${many(100_000)},b`);
  }
  await expectServed(OWNER, "another");
  const { items } = await machine.admin.store.list(EVENTS, { namespace: TENANT });
  const reported = items.filter((event) => event.involvedObject.name === "flood");
  expect(reported).toHaveLength(1);
});

test("attack 8: an annotation that grows without limit does not detach the pod's networks", async () => {
  await machine.putNad(TENANT, "blue", [machine.node.layer2Plugin()]);
  await expectServed(TENANT, "grows");
  await machine.ask(TENANT, "grows", "x".repeat(200_000));
  expect(await errorsOf("grows")).toEqual(["AnnotationInvalid"]);
  expect(await machine.networkStatus(TENANT, "grows")).toMatchObject([{ interface: "net1" }]);
  expect(
    (await machine.admin.store.find(PODS, { namespace: TENANT, name: "grows" }))?.status,
  ).toMatchObject({ phase: "Running" });
});
