// SPDX-License-Identifier: Apache-2.0
// Writes and logs of addinterface and removeinterface.
import {
  NETWORK_ATTACHMENT_DEFINITIONS,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  networkConfigOf,
  type VirtualMachineInstance,
} from "@patchbay/api";
import type { StatusBody } from "@patchbay/api/kubernetes";
import { AppError, type LogFields } from "@patchbay/base";
import type { NicTarget } from "@patchbay/core/requests";
import type { Store } from "@patchbay/core/interfaces";
import { createFakeStore, type FakeStore } from "@patchbay/kube/testing";
import { createSilentLogger } from "@patchbay/telemetry";
import { beforeEach, describe, expect, test } from "vitest";
import type { Deps } from "../deps.ts";
import { aCall } from "../testing/call.ts";
import { depsOn } from "../testing/deps.ts";
import { aVm, aVmi } from "../testing/objects.ts";
import { addIface, removeIface } from "./change-vm.ts";
import type { Call } from "../http/calls.ts";

const BLUE = { name: "nic1", networkAttachmentDefinitionName: "blue" };
const VM = "patch virtualmachines ns/vm";

let store: FakeStore;

beforeEach(() => {
  store = createFakeStore();
  store.put(VIRTUAL_MACHINES, aVm());
  store.put(VIRTUAL_MACHINE_INSTANCES, aVmi());
  store.put(NETWORK_ATTACHMENT_DEFINITIONS, {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { namespace: "ns", name: "blue" },
  });
});

/** The response, the writes and the log. */
async function ask(
  route: typeof addIface,
  kind: NicTarget["kind"],
  {
    on = store,
    networkConfig = () => networkConfigOf(undefined),
    ...call
  }: Partial<Call> & { readonly on?: Store } & Partial<Pick<Deps, "networkConfig">>,
) {
  const logged: unknown[] = [];
  const info = (message: string, fields?: LogFields): void => void logged.push([message, fields]);
  const log = { ...createSilentLogger(), info, warn: info };
  const deps = depsOn(on, { log, networkConfig });
  const { code, body } = await route(deps, kind)(aCall(call));
  const writes = store.calls.filter((each) => !each.startsWith("get"));
  // Every response is a Status.
  return { code, status: body as StatusBody, writes, logged };
}

function owned(metadata: Partial<VirtualMachineInstance["metadata"]>): void {
  const vmi = aVmi();
  store.put(VIRTUAL_MACHINE_INSTANCES, { ...vmi, metadata: { ...vmi.metadata, ...metadata } });
}

describe("a request on a VMI", () => {
  const OWNER = { apiVersion: "kubevirt.io/v1", kind: "VirtualMachine", name: "vm", uid: "vm-uid" };
  const VMI = "patch virtualmachineinstances ns/vm";

  test.each([
    { name: "its VM", owner: { ...OWNER, controller: true }, want: VM },
    { name: "a deleted VM", owner: { ...OWNER, uid: "old", controller: true }, want: VMI },
    { name: "an unknown VM", owner: { ...OWNER, name: "none", controller: true }, want: VMI },
    { name: "a VM that is no controller", owner: { ...OWNER, controller: false }, want: VMI },
    { name: "another kind", owner: { ...OWNER, kind: "Pool", controller: true }, want: VMI },
  ])("of $name is written to its source of truth", async ({ owner, want }) => {
    owned({ ownerReferences: [owner] });
    const { code, writes } = await ask(addIface, "vmi", { body: BLUE });
    expect({ code, writes }).toEqual({ code: 202, writes: [want] });
  });

  test("responds with 404 and the API server's message for a missing VMI", async () => {
    const { code, status } = await ask(addIface, "vmi", { name: "none", body: BLUE });
    expect(code).toBe(404);
    expect(status.message).toBe('virtualmachineinstances.kubevirt.io "none" not found');
  });

  test.each([
    { kind: "vm" as const, want: "virtualmachines" },
    { kind: "vmi" as const, want: "virtualmachineinstances" },
  ])("reports an invalid body for $want", async ({ kind, want }) => {
    for (const route of [addIface, removeIface]) {
      const { code, status } = await ask(route, kind, { body: {} });
      expect(code).toBe(400);
      expect(status.details).toMatchObject({ name: "vm", kind: want, group: "kubevirt.io" });
    }
  });
});

test("does not plug into a VMI of another owner; the VM's next start has the interface", async () => {
  owned({ ownerReferences: [] });
  const { code, status } = await ask(addIface, "vm", { body: BLUE });
  expect(code).toBe(202);
  expect(status.message).not.toContain("running guest");
});

describe("with rollout strategy Stage", () => {
  const networkConfig = () => ({ ...networkConfigOf(undefined), isStaged: true });
  const owner = { apiVersion: "kubevirt.io/v1", kind: "VirtualMachine", name: "vm", uid: "vm-uid" };

  test.each(["vm", "vmi"] as const)("a request on a %s waits for the next start", async (kind) => {
    owned({ ownerReferences: [{ ...owner, controller: true }] });
    const added = await ask(addIface, kind, { body: BLUE, networkConfig });
    expect(added).toMatchObject({ code: 202, writes: [VM] });
    expect(added.status.message).toBe("interface 'nic1' will be plugged when the VM starts");
    const removed = await ask(removeIface, kind, { body: { name: "nic1" }, networkConfig });
    expect(removed.status.message).toBe("interface 'nic1' is removed when the VM starts");
  });

  test("a VMI without a VM is changed at once", async () => {
    owned({ ownerReferences: [] });
    const { status } = await ask(addIface, "vmi", { body: BLUE, networkConfig });
    expect(status.message).toContain("running guest");
  });
});

describe("a change", () => {
  test("is logged with the user and the interface", async () => {
    const { logged } = await ask(addIface, "vm", { body: BLUE });
    expect(logged).toEqual([
      [
        "requested the plug of an interface",
        { vm: "ns/vm", iface: "nic1", network: "blue", user: "alice" },
      ],
    ]);
    const removed = await ask(removeIface, "vm", { body: { name: "nic1" } });
    expect(removed.logged).toEqual([
      ["requested the unplug of an interface", { vm: "ns/vm", iface: "nic1", user: "alice" }],
    ]);
  });

  test("that has no effect is neither written nor logged", async () => {
    await ask(addIface, "vm", { body: BLUE });
    const again = await ask(addIface, "vm", { body: BLUE });
    expect(again).toMatchObject({ code: 202, writes: [VM], logged: [] });
  });

  test.each([
    { route: addIface, body: BLUE },
    { route: removeIface, body: { name: "nic1" } },
  ])("in a dry run is validated, but neither stored nor logged", async ({ route, body }) => {
    await ask(addIface, "vm", { body: BLUE });
    const before = await store.find(VIRTUAL_MACHINES, { namespace: "ns", name: "vm" });
    const { code, logged } = await ask(route, "vm", { body, dryRun: true });
    expect({ code, logged }).toEqual({ code: 202, logged: [] });
    expect(await store.find(VIRTUAL_MACHINES, { namespace: "ns", name: "vm" })).toEqual(before);
  });

  test("to a forbidden network is rejected with 403 before reads", async () => {
    const body = { ...BLUE, networkAttachmentDefinitionName: "secret/blue" };
    const { code } = await ask(addIface, "vm", { body });
    expect(code).toBe(403);
    expect(store.calls).toEqual([]);
  });
});

describe("a write", () => {
  /** A store whose patches fail. */
  function failing(code: AppError["code"]): { readonly on: Store; readonly tries: string[] } {
    const tries: string[] = [];
    const patch: Store["patch"] = (type) => {
      tries.push(type.resource);
      return Promise.reject(new AppError(code, { message: "no" }));
    };
    return { on: { ...store, find: store.find.bind(store), patch }, tries };
  }

  const LOST = { resource: "virtualmachines", object: "vm", reason: "no" };
  test.each(["KUBE_CONFLICT", "KUBE_WRITES_LOST"] as const)(
    "with only conflicts (%s) is abandoned after ten attempts, logged, and can be repeated",
    async (lost) => {
      const { on, tries } = failing(lost);
      const { code, status, logged } = await ask(addIface, "vm", { body: BLUE, on });
      expect(tries).toHaveLength(10);
      expect({ code, logged }).toEqual({
        code: 409,
        logged: [["abandoned a request after too many conflicts", LOST]],
      });
      expect(status.message).toBe(
        'virtualmachines "vm" is being changed by other clients; try again (no)',
      );
    },
  );

  test("that is rejected is not retried", async () => {
    const { on, tries } = failing("KUBE_FORBIDDEN");
    const refused = ask(addIface, "vm", { body: BLUE, on });
    await expect(refused).rejects.toMatchObject({ code: "KUBE_FORBIDDEN" });
    expect(tries).toEqual(["virtualmachines"]);
  });
});
