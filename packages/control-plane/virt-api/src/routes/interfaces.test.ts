// SPDX-License-Identifier: Apache-2.0
// Where addinterface and removeinterface write, how often, and what is logged.
import {
  NETWORK_ATTACHMENT_DEFINITIONS,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  networkConfigOf,
  type StatusBody,
  type VirtualMachineInstance,
} from "@patchbay/api";
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
import { addIface, removeIface } from "./ifaces.ts";
import type { Call } from "../http/answers.ts";

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

/** The answer, what was written and what was logged. */
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
  // Every answer is a Status.
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
    { name: "a VM that is gone", owner: { ...OWNER, uid: "old", controller: true }, want: VMI },
    { name: "a VM of no name", owner: { ...OWNER, name: "none", controller: true }, want: VMI },
    { name: "a VM that is no controller", owner: { ...OWNER, controller: false }, want: VMI },
    { name: "another kind", owner: { ...OWNER, kind: "Pool", controller: true }, want: VMI },
  ])("of $name is written where it counts", async ({ owner, want }) => {
    owned({ ownerReferences: [owner] });
    const { code, writes } = await ask(addIface, "vmi", { body: BLUE });
    expect({ code, writes }).toEqual({ code: 202, writes: [want] });
  });

  test("that is not there is 404 in the API server's words", async () => {
    const { code, status } = await ask(addIface, "vmi", { name: "none", body: BLUE });
    expect(code).toBe(404);
    expect(status.message).toBe('virtualmachineinstances.kubevirt.io "none" not found');
  });

  test.each([
    { kind: "vm" as const, want: "virtualmachines" },
    { kind: "vmi" as const, want: "virtualmachineinstances" },
  ])("that cannot be read is about $want", async ({ kind, want }) => {
    for (const route of [addIface, removeIface]) {
      const { code, status } = await ask(route, kind, { body: {} });
      expect(code).toBe(400);
      expect(status.details).toMatchObject({ name: "vm", kind: want, group: "kubevirt.io" });
    }
  });
});

test("a guest of somebody else's VMI gets nothing: the VM's next start does", async () => {
  owned({ ownerReferences: [] });
  const { code, status } = await ask(addIface, "vm", { body: BLUE });
  expect(code).toBe(202);
  expect(status.message).not.toContain("running guest");
});

describe("where changes of VMs are staged", () => {
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

  test("a VMI without a VM has nothing that could be staged", async () => {
    owned({ ownerReferences: [] });
    const { status } = await ask(addIface, "vmi", { body: BLUE, networkConfig });
    expect(status.message).toContain("running guest");
  });
});

describe("a change", () => {
  test("is logged with who asked for what", async () => {
    const { logged } = await ask(addIface, "vm", { body: BLUE });
    expect(logged).toEqual([
      [
        "interface is to be plugged",
        { vm: "ns/vm", iface: "nic1", network: "blue", user: "alice" },
      ],
    ]);
    const removed = await ask(removeIface, "vm", { body: { name: "nic1" } });
    expect(removed.logged).toEqual([
      ["interface is to be unplugged", { vm: "ns/vm", iface: "nic1", user: "alice" }],
    ]);
  });

  test("that is there already is neither written nor logged", async () => {
    await ask(addIface, "vm", { body: BLUE });
    const again = await ask(addIface, "vm", { body: BLUE });
    expect(again).toMatchObject({ code: 202, writes: [VM], logged: [] });
  });

  test.each([
    { route: addIface, body: BLUE },
    { route: removeIface, body: { name: "nic1" } },
  ])("of a dry run is judged, and neither kept nor logged", async ({ route, body }) => {
    await ask(addIface, "vm", { body: BLUE });
    const before = await store.find(VIRTUAL_MACHINES, { namespace: "ns", name: "vm" });
    const { code, logged } = await ask(route, "vm", { body, dryRun: true });
    expect({ code, logged }).toEqual({ code: 202, logged: [] });
    expect(await store.find(VIRTUAL_MACHINES, { namespace: "ns", name: "vm" })).toEqual(before);
  });

  test("of a network that may not be used is 403 before anything is read", async () => {
    const body = { ...BLUE, networkAttachmentDefinitionName: "secret/blue" };
    const { code } = await ask(addIface, "vm", { body });
    expect(code).toBe(403);
    expect(store.calls).toEqual([]);
  });
});

describe("a write", () => {
  /** The store, whose patches fail. */
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
    "that loses every race (%s) is given up after ten, is logged, and may be asked for again",
    async (lost) => {
      const { on, tries } = failing(lost);
      const { code, status, logged } = await ask(addIface, "vm", { body: BLUE, on });
      expect(tries).toHaveLength(10);
      expect({ code, logged }).toEqual({ code: 409, logged: [["every race lost", LOST]] });
      expect(status.message).toBe(
        'virtualmachines "vm" is being changed by others; try again (no)',
      );
    },
  );

  test("that is refused is not tried again", async () => {
    const { on, tries } = failing("KUBE_FORBIDDEN");
    const refused = ask(addIface, "vm", { body: BLUE, on });
    await expect(refused).rejects.toMatchObject({ code: "KUBE_FORBIDDEN" });
    expect(tries).toEqual(["virtualmachines"]);
  });
});
