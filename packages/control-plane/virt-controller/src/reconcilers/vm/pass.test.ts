// SPDX-License-Identifier: Apache-2.0
// One pass over one VM: what is written, what it rests on, and when it is looked at again.
import {
  isAbsent,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VmStatus,
} from "@patchbay/api";
import { findSyncError } from "@patchbay/core/status";
import { ifacesOf } from "@patchbay/core/nics";
import { aVm, aVmi, type NicSketch } from "@patchbay/support";
import { beforeEach, describe, expect, test } from "vitest";
import { Bench, KEY } from "../../testing/bench.ts";

const VM = "virtualmachines default/vm1";
const VMI = "virtualmachineinstances default/vm1";
const MACS = ["02:00:00:00:00:01", "02:00:00:00:00:02", "02:00:00:00:00:03"] as const;
const ONE: NicSketch = { name: "one", mac: MACS[0] };
const TWO: NicSketch = { name: "two", mac: MACS[1] };
const THREE: NicSketch = { name: "three", mac: MACS[2] };

let bench: Bench;

beforeEach(() => {
  bench = new Bench();
});

function putVm(vm: VirtualMachine, when?: "meanwhile"): Promise<void> {
  return bench.put(VIRTUAL_MACHINES, vm, when);
}

function putVmi(vmi: VirtualMachineInstance, when?: "meanwhile"): Promise<void> {
  return bench.put(VIRTUAL_MACHINE_INSTANCES, vmi, when);
}

/** The VMI of the VM, whose guest runs. */
function running(nics: readonly NicSketch[] = []): VirtualMachineInstance {
  const interfaces = nics.map(({ name }) => ({ name }));
  return aVmi({ nics, ownedByVm: true, status: { phase: "Running", interfaces } });
}

async function status(): Promise<VmStatus> {
  return (await bench.vm())?.status ?? {};
}

async function ifaceNames(): Promise<readonly string[]> {
  const spec = (await bench.vmi())?.spec;
  return spec === undefined ? [] : ifacesOf(spec).map(({ name }) => name);
}

test("a VM that is gone is nothing to do", async () => {
  expect(await bench.passVm()).toEqual({ kind: "done" });
  expect(bench.calls).toEqual([]);
});

describe("caches that are behind what the last pass wrote", () => {
  test("a VM is taken as it was written", async () => {
    await putVm({ ...aVm({ nics: [{ name: "one" }] }), status: {} });
    await bench.passVm();
    const { calls } = bench;
    expect(calls).toContain(`patch ${VM}`);
    await bench.passVm();
    expect(bench.calls.slice(calls.length)).toEqual([`create ${VMI}`]);
  });

  test("so is its VMI", async () => {
    await putVm(aVm({ nics: [ONE, TWO] }));
    await putVmi(running([ONE]));
    await bench.settleVm();
    await putVmi(running([ONE]));
    await bench.passVm();
    expect(bench.calls).toContain(`patch ${VMI}`);
    // The VM is known as it is, its VMI is not.
    bench.vms.deliver(KEY, await bench.vm());
    const { calls } = bench;
    await bench.passVm();
    expect(bench.calls).toEqual(calls);
  });
});

describe("a VMI that the cache does not have", () => {
  test("is asked for where one was made", async () => {
    const vm = aVm();
    await putVm({ ...vm, status: { created: true } });
    await putVmi(running(), "meanwhile");
    await bench.passVm();
    expect(bench.calls).toContain(`get ${VMI}`);
    expect(await status()).toMatchObject({ created: true, printableStatus: "Running" });
  });

  test.each<VmStatus>([{}, { created: false }])("is made where none was: %j", async (before) => {
    await putVm({ ...aVm(), status: before });
    await bench.passVm();
    expect(bench.calls).not.toContain(`get ${VMI}`);
    expect(await bench.vmi()).toBeDefined();
  });

  test("is not made again while it is there", async () => {
    await putVm(aVm());
    await putVmi(running(), "meanwhile");
    await bench.passVm();
    expect(bench.calls).toEqual([`create ${VMI}`, `patch ${VM}`]);
    expect((await bench.vmi())?.status?.phase).toBe("Running");
    expect(bench.events).toEqual([]);
  });
});

describe("a VMI", () => {
  test("is made, and an event says so", async () => {
    await putVm(aVm({ nics: [ONE] }));
    await bench.passVm();
    expect((await bench.vmi())?.metadata.ownerReferences).toMatchObject([{ uid: "vm-uid" }]);
    expect(bench.lines).toEqual(['created vmi {"vmi":"default/vm1"}']);
    expect(bench.events).toEqual([
      "VirtualMachine Normal SuccessfulCreate: Started the virtual machine by creating the virtual machine instance vm1",
    ]);
  });

  test("is ended by its uid, and an event says so", async () => {
    await putVm(aVm({ runStrategy: "Halted" }));
    await putVmi(running());
    await bench.passVm();
    expect(await bench.vmi()).toBeUndefined();
    expect(bench.events).toEqual([
      "VirtualMachine Normal SuccessfulDelete: Stopped the virtual machine by deleting the virtual machine instance vm1",
    ]);
  });

  test("that has come in its place is not ended", async () => {
    await putVm(aVm({ runStrategy: "Halted" }));
    await putVmi(running());
    const next = running();
    await putVmi({ ...next, metadata: { ...next.metadata, uid: "new-uid" } }, "meanwhile");
    await expect(bench.passVm()).rejects.toMatchObject({ code: "KUBE_CONFLICT" });
    expect((await bench.vmi())?.metadata.uid).toBe("new-uid");
    expect(bench.events).toEqual([]);
  });

  test("of somebody else is in the way, and neither changed nor counted as the VM's", async () => {
    await putVm(aVm({ nics: [ONE] }));
    await putVmi(aVmi({ status: { phase: "Running" } }));
    await bench.passVm();
    expect(bench.calls).toEqual([`patch ${VM}`]);
    expect(await status()).toMatchObject({ created: false, printableStatus: "ErrorNameTaken" });
    expect(bench.events).toEqual([expect.stringContaining("VirtualMachine Warning NameTaken: ")]);
  });
});

describe("a VMI of the VM's name that leaves", () => {
  const owner = { apiVersion: "kubevirt.io/v1", kind: "VirtualMachine", name: "vm1" };
  const ownerReferences = [{ ...owner, uid: "uid-of-an-earlier-vm", controller: true }];
  test.each([
    { name: "is being deleted", metadata: { deletionTimestamp: "2026-01-01T00:00:00Z" } },
    { name: "belonged to a VM that was deleted", metadata: { ownerReferences } },
  ])("is waited for without a warning: it $name", async ({ metadata }) => {
    await putVm(aVm({ nics: [ONE] }));
    const vmi = aVmi({ status: { phase: "Running" } });
    await putVmi({ ...vmi, metadata: { ...vmi.metadata, ...metadata } });
    await bench.passVm();
    expect(await status()).toMatchObject({ created: false });
    expect(await status()).not.toMatchObject({ printableStatus: "ErrorNameTaken" });
    expect(bench.events).toEqual([]);
  });
});

describe("MACs", () => {
  test("come with the binding that nobody named", async () => {
    const vm = aVm({ nics: [{ name: "one" }] });
    const { spec } = vm.spec.template;
    const bare = { ...spec, domain: { devices: { interfaces: [{ name: "one" }] } } };
    await putVm({ ...vm, spec: { ...vm.spec, template: { spec: bare } } });
    await bench.passVm();
    const [iface] = ifacesOf((await bench.vm())?.spec.template.spec ?? spec);
    expect(iface).toMatchObject({ name: "one", bridge: {} });
    expect(iface?.macAddress).toMatch(/:/);
  });

  test("are set before anything is started", async () => {
    await putVm({ ...aVm({ nics: [{ name: "one" }] }), status: {} });
    await bench.passVm();
    expect(await bench.vmi()).toBeUndefined();
    const spec = (await bench.vm())?.spec.template.spec;
    expect(spec?.domain.devices?.interfaces).toEqual([
      { name: "one", bridge: {}, macAddress: "02:01:01:01:01:01" },
    ]);
    expect(bench.lines).toEqual(['set mac addresses {"vm":"default/vm1"}']);
  });

  test("are those that the guest has", async () => {
    await putVm({ ...aVm({ nics: [{ name: "one" }] }), status: {} });
    await putVmi(running([ONE]));
    await bench.passVm();
    const spec = (await bench.vm())?.spec.template.spec;
    expect(spec?.domain.devices?.interfaces?.[0]?.macAddress).toBe(MACS[0]);
  });

  test("are not set over somebody else's change", async () => {
    await putVm({ ...aVm({ nics: [{ name: "one" }] }), status: {} });
    await putVm(aVm({ nics: [ONE] }), "meanwhile");
    await expect(bench.passVm()).rejects.toMatchObject({ code: "KUBE_CONFLICT" });
    const spec = (await bench.vm())?.spec.template.spec;
    expect(spec?.domain.devices?.interfaces?.[0]?.macAddress).toBe(MACS[0]);
  });
});

describe("NICs of a running guest", () => {
  async function edit(nics: readonly NicSketch[], have: readonly NicSketch[]): Promise<void> {
    await putVm(aVm({ nics: have }));
    await putVmi(running(have));
    await bench.settleVm();
    await putVm({ ...aVm({ nics }), status: await status() });
  }

  test("are changed in one write", async () => {
    await edit([TWO, THREE], [ONE]);
    await bench.passVm();
    expect(bench.calls.filter((call) => call === `patch ${VMI}`)).toHaveLength(1);
    const spec = (await bench.vmi())?.spec;
    expect(spec?.domain.devices?.interfaces).toMatchObject([
      { name: "one", state: "absent" },
      { name: "two" },
      { name: "three" },
    ]);
  });

  test("that were never plugged leave the template", async () => {
    await edit([ONE, { ...TWO, state: "absent" }], [ONE]);
    await bench.passVm();
    const spec = (await bench.vm())?.spec.template.spec;
    expect(spec?.networks).toEqual([{ name: "one", multus: { networkName: "blue" } }]);
    expect(spec && ifacesOf(spec).map(({ name }) => name)).toEqual(["one"]);
  });

  test("are not changed over somebody else's change", async () => {
    await edit([ONE, TWO], [ONE]);
    await putVmi(running([ONE, THREE]), "meanwhile");
    await expect(bench.passVm()).rejects.toMatchObject({ code: "KUBE_CONFLICT" });
    expect(await ifaceNames()).toEqual(["one", "three"]);
  });

  /** Admission refuses a VMI with an iface of that name that is to be there. */
  function refuseIface(refused: string, code: "KUBE_REFUSED" | "KUBE_FORBIDDEN"): void {
    bench.judgePatch((object) => {
      if (object.kind !== "VirtualMachineInstance") return undefined;
      const { spec } = object as VirtualMachineInstance;
      const isThere = ifacesOf(spec).some((each) => each.name === refused && !isAbsent(each));
      return isThere ? code : undefined;
    });
  }

  function vmiPatches(): number {
    return bench.calls.filter((call) => call === `patch ${VMI}`).length;
  }

  test.each<{ name: string; want: readonly NicSketch[]; left: readonly string[]; writes: number }>([
    { name: "unplugged or plugged", want: [TWO, THREE], left: ["one absent", "three"], writes: 4 },
    { name: "unplugged", want: [TWO], left: ["one absent"], writes: 3 },
    { name: "plugged", want: [ONE, TWO, THREE], left: ["one", "three"], writes: 3 },
    { name: "looked at twice", want: [ONE, TWO], left: ["one"], writes: 1 },
  ])("one that is refused keeps no other from being $name", async ({ want, left, writes }) => {
    await edit(want, [ONE]);
    refuseIface("two", "KUBE_REFUSED");
    expect(await bench.passVm()).toMatchObject({ kind: "after" });
    const ifaces = (await bench.vmi())?.spec.domain.devices?.interfaces ?? [];
    expect(ifaces.map(({ name, state }) => [name, state].join(" ").trim())).toEqual(left);
    expect(vmiPatches()).toBe(writes);
    expect(findSyncError((await status()).conditions)?.message).toContain("judged bad");
  });

  test("one that is forbidden is as one that is refused", async () => {
    await edit([ONE, TWO, THREE], [ONE]);
    refuseIface("two", "KUBE_FORBIDDEN");
    await bench.passVm();
    expect(await ifaceNames()).toEqual(["one", "three"]);
  });

  test("a race that is lost on the way ends the pass", async () => {
    await edit([ONE, TWO, THREE], [ONE]);
    bench.judgePatch((object) => {
      if (object.kind !== "VirtualMachineInstance") return undefined;
      return vmiPatches() === 1 ? "KUBE_REFUSED" : "KUBE_CONFLICT";
    });
    await expect(bench.passVm()).rejects.toMatchObject({ code: "KUBE_CONFLICT" });
    expect(vmiPatches()).toBe(2);
    expect(await ifaceNames()).toEqual(["one"]);
  });
});

describe("the status", () => {
  const DELETED = { deletionTimestamp: "2026-01-01T00:00:00Z" };

  function goingVm(finalizers?: readonly string[]): VirtualMachine {
    const vm = aVm();
    const metadata = { ...vm.metadata, ...DELETED, ...(finalizers && { finalizers }) };
    return { ...vm, metadata };
  }

  test("of a VM that goes is written only where somebody keeps it", async () => {
    await putVm(goingVm());
    await bench.passVm();
    expect(bench.calls).toEqual([]);
    await putVm(goingVm(["example.com/theirs"]));
    await bench.passVm();
    expect((await status()).printableStatus).toBe("Terminating");
  });

  test("is written once", async () => {
    await putVm(aVm({ runStrategy: "Halted" }));
    await bench.passVm();
    expect(bench.calls).toEqual([`patch ${VM}`]);
    await bench.catchUp();
    expect(await bench.passVm()).toEqual({ kind: "done" });
    expect(bench.calls).toEqual([]);
    expect(bench.events).toEqual([]);
  });

  test("tells of an syncError, and one event does", async () => {
    const vm = aVm();
    const { spec } = vm.spec.template;
    const template = { spec: { ...spec, domain: { ...spec.domain, launchSecurity: {} } } };
    await putVm({ ...vm, spec: { ...vm.spec, template } });
    await bench.settleVm();
    const { message = "" } = findSyncError((await status()).conditions) ?? {};
    expect(message).toContain("launchSecurity");
    expect(bench.events).toEqual([`VirtualMachine Warning UnsupportedSpec: ${message}`]);
  });
});

describe("a VM whose guest failed", () => {
  const FAILURE = { consecutiveFailCount: 1, lastFailedVMIUID: "old" };

  test("is looked at again when its pause is over", async () => {
    const retryAfterTimestamp = "2026-01-01T00:00:10Z";
    await putVm({ ...aVm(), status: { startFailure: { ...FAILURE, retryAfterTimestamp } } });
    expect(await bench.passVm()).toEqual({ kind: "after", ms: 10_000 });
    expect(await bench.vmi()).toBeUndefined();
    await bench.catchUp();
    bench.nowMs += 10_000;
    await bench.passVm();
    expect(await bench.vmi()).toBeDefined();
  });
});
