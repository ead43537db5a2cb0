// SPDX-License-Identifier: Apache-2.0
// One pass over one VM: writes, their preconditions, and the time of the next pass.
import {
  isAbsent,
  KUBEVIRTS,
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

/** The VM's VMI with a running guest. */
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

test("does nothing for a deleted VM", async () => {
  expect(await bench.passVm()).toEqual({ kind: "done" });
  expect(bench.calls).toEqual([]);
});

describe("stale caches", () => {
  test("uses the VM as last written", async () => {
    await putVm({ ...aVm({ nics: [{ name: "one" }] }), status: {} });
    await bench.passVm();
    const { calls } = bench;
    expect(calls).toContain(`patch ${VM}`);
    await bench.passVm();
    expect(bench.calls.slice(calls.length)).toEqual([`create ${VMI}`]);
  });

  test("uses the VMI as last written", async () => {
    await putVm(aVm({ nics: [ONE, TWO] }));
    await putVmi(running([ONE]));
    await bench.settleVm();
    await putVmi(running([ONE]));
    await bench.passVm();
    expect(bench.calls).toContain(`patch ${VMI}`);
    // The cache has the current VM but not its VMI.
    bench.vms.deliver(KEY, await bench.vm());
    const { calls } = bench;
    await bench.passVm();
    expect(bench.calls).toEqual(calls);
  });
});

describe("a VMI that the cache lacks", () => {
  test("is read from the server if one was created", async () => {
    const vm = aVm();
    await putVm({ ...vm, status: { created: true } });
    await putVmi(running(), "meanwhile");
    await bench.passVm();
    expect(bench.calls).toContain(`get ${VMI}`);
    expect(await status()).toMatchObject({ created: true, printableStatus: "Running" });
  });

  test.each<VmStatus>([{}, { created: false }])(
    "is created if none existed: %j",
    async (before) => {
      await putVm({ ...aVm(), status: before });
      await bench.passVm();
      expect(bench.calls).not.toContain(`get ${VMI}`);
      expect(await bench.vmi()).toBeDefined();
    },
  );

  test("is not created again while it exists", async () => {
    await putVm(aVm());
    await putVmi(running(), "meanwhile");
    await bench.passVm();
    expect(bench.calls).toEqual([`create ${VMI}`, `patch ${VM}`]);
    expect((await bench.vmi())?.status?.phase).toBe("Running");
    expect(bench.events).toEqual([]);
  });
});

describe("a VMI", () => {
  test("is created and recorded as an event", async () => {
    await putVm(aVm({ nics: [ONE] }));
    await bench.passVm();
    expect((await bench.vmi())?.metadata.ownerReferences).toMatchObject([{ uid: "vm-uid" }]);
    expect(bench.lines).toEqual(['created vmi {"vmi":"default/vm1"}']);
    expect(bench.events).toEqual([
      "VirtualMachine Normal SuccessfulCreate: Started the virtual machine by creating the virtual machine instance vm1",
    ]);
  });

  test("is deleted by its uid and recorded as an event", async () => {
    await putVm(aVm({ runStrategy: "Halted" }));
    await putVmi(running());
    await bench.passVm();
    expect(await bench.vmi()).toBeUndefined();
    expect(bench.events).toEqual([
      "VirtualMachine Normal SuccessfulDelete: Stopped the virtual machine by deleting the virtual machine instance vm1",
    ]);
  });

  test("with another uid is not deleted", async () => {
    await putVm(aVm({ runStrategy: "Halted" }));
    await putVmi(running());
    const next = running();
    await putVmi({ ...next, metadata: { ...next.metadata, uid: "new-uid" } }, "meanwhile");
    await expect(bench.passVm()).rejects.toMatchObject({ code: "KUBE_CONFLICT" });
    expect((await bench.vmi())?.metadata.uid).toBe("new-uid");
    expect(bench.events).toEqual([]);
  });

  test("of another owner blocks the VM, and is neither changed nor counted as the VM's", async () => {
    await putVm(aVm({ nics: [ONE] }));
    await putVmi(aVmi({ status: { phase: "Running" } }));
    await bench.passVm();
    expect(bench.calls).toEqual([`patch ${VM}`]);
    expect(await status()).toMatchObject({ created: false, printableStatus: "ErrorNameTaken" });
    expect(bench.events).toEqual([expect.stringContaining("VirtualMachine Warning NameTaken: ")]);
  });
});

describe("a VMI of another owner that is being deleted", () => {
  const owner = { apiVersion: "kubevirt.io/v1", kind: "VirtualMachine", name: "vm1" };
  const ownerReferences = [{ ...owner, uid: "uid-of-an-earlier-vm", controller: true }];
  test.each([
    { name: "is being deleted", metadata: { deletionTimestamp: "2026-01-01T00:00:00Z" } },
    { name: "belonged to a VM that was deleted", metadata: { ownerReferences } },
  ])("is awaited without a warning: it $name", async ({ metadata }) => {
    await putVm(aVm({ nics: [ONE] }));
    const vmi = aVmi({ status: { phase: "Running" } });
    await putVmi({ ...vmi, metadata: { ...vmi.metadata, ...metadata } });
    await bench.passVm();
    expect(await status()).toMatchObject({ created: false });
    expect(await status()).not.toMatchObject({ printableStatus: "ErrorNameTaken" });
    expect(bench.events).toEqual([]);
  });
});

describe("MACs of NICs whose network reports none", () => {
  const SOCKET = { name: "one", binding: "socket" };

  beforeEach(async () => {
    const binding = { socket: { domainAttachmentType: "vhostuser" } };
    await bench.put(KUBEVIRTS, {
      apiVersion: "kubevirt.io/v1",
      kind: "KubeVirt",
      metadata: { namespace: "kubevirt", name: "kubevirt" },
      spec: { configuration: { network: { binding } } },
    });
  });

  test("are set together with the default binding", async () => {
    const vm = aVm({ nics: [SOCKET, { name: "two" }] });
    const { spec } = vm.spec.template;
    const interfaces = [...ifacesOf(spec).slice(0, 1), { name: "two" }];
    const bare = { ...spec, domain: { devices: { interfaces } } };
    await putVm({ ...vm, spec: { ...vm.spec, template: { spec: bare } } });
    await bench.passVm();
    const [socket, iface] = ifacesOf((await bench.vm())?.spec.template.spec ?? spec);
    expect(socket?.macAddress).toMatch(/:/);
    expect(iface).toEqual({ name: "two", bridge: {} });
  });

  test("are set before the VMI is created", async () => {
    await putVm({ ...aVm({ nics: [SOCKET] }), status: {} });
    await bench.passVm();
    expect(await bench.vmi()).toBeUndefined();
    const spec = (await bench.vm())?.spec.template.spec;
    expect(spec?.domain.devices?.interfaces).toEqual([
      { name: "one", binding: { name: "socket" }, macAddress: "02:01:01:01:01:01" },
    ]);
    expect(bench.lines).toEqual(['set mac addresses {"vm":"default/vm1"}']);
  });

  test("are copied from the running guest", async () => {
    await putVm({ ...aVm({ nics: [SOCKET] }), status: {} });
    await putVmi(running([ONE]));
    await bench.passVm();
    const spec = (await bench.vm())?.spec.template.spec;
    expect(spec?.domain.devices?.interfaces?.[0]?.macAddress).toBe(MACS[0]);
  });

  test("do not overwrite a concurrent change", async () => {
    await putVm({ ...aVm({ nics: [SOCKET] }), status: {} });
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

  test("that were never plugged are removed from the template", async () => {
    await edit([ONE, { ...TWO, state: "absent" }], [ONE]);
    await bench.passVm();
    const spec = (await bench.vm())?.spec.template.spec;
    expect(spec?.networks).toEqual([{ name: "one", multus: { networkName: "blue" } }]);
    expect(spec && ifacesOf(spec).map(({ name }) => name)).toEqual(["one"]);
  });

  test("do not overwrite a concurrent change", async () => {
    await edit([ONE, TWO], [ONE]);
    await putVmi(running([ONE, THREE]), "meanwhile");
    await expect(bench.passVm()).rejects.toMatchObject({ code: "KUBE_CONFLICT" });
    expect(await ifaceNames()).toEqual(["one", "three"]);
  });

  /** Rejects a VMI that declares an iface of this name. */
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
    { name: "checked in a second pass", want: [ONE, TWO], left: ["one"], writes: 1 },
  ])(
    "a rejected NIC does not block other NICs from being $name",
    async ({ want, left, writes }) => {
      await edit(want, [ONE]);
      refuseIface("two", "KUBE_REFUSED");
      expect(await bench.passVm()).toMatchObject({ kind: "after" });
      const ifaces = (await bench.vmi())?.spec.domain.devices?.interfaces ?? [];
      expect(ifaces.map(({ name, state }) => [name, state].join(" ").trim())).toEqual(left);
      expect(vmiPatches()).toBe(writes);
      expect(findSyncError((await status()).conditions)?.message).toContain("judged bad");
    },
  );

  test("a forbidden change counts as rejected", async () => {
    await edit([ONE, TWO, THREE], [ONE]);
    refuseIface("two", "KUBE_FORBIDDEN");
    await bench.passVm();
    expect(await ifaceNames()).toEqual(["one", "three"]);
  });

  test("a conflict ends the pass", async () => {
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

  test("of a VM that is being deleted is written only if it has finalizers", async () => {
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

  test("reports a sync error and records one event", async () => {
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

  test("is reconciled again after its delay", async () => {
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

describe("a template with long annotations, which the cache lacks", () => {
  const annotations = { "a.example/long": "x".repeat(5000) };

  function annotated(): VirtualMachine {
    const vm = aVm({ nics: [ONE] });
    const { template } = vm.spec;
    const metadata = { ...template.metadata, annotations };
    return { ...vm, spec: { ...vm.spec, template: { ...template, metadata } } };
  }

  test("is read once for the VMI, and not while the VMI exists", async () => {
    await putVm(annotated());
    await bench.passVm();
    expect(bench.calls.filter((call) => call === `get ${VM}`)).toHaveLength(1);
    expect((await bench.vmi())?.metadata.annotations).toMatchObject(annotations);
    await bench.catchUp();
    await bench.passVm();
    expect(bench.calls).not.toContain(`get ${VM}`);
  });

  test("of a deleted VM starts nothing", async () => {
    await putVm(annotated());
    await bench.server.delete(VIRTUAL_MACHINES, KEY);
    expect(await bench.passVm()).toEqual({ kind: "done" });
    expect(await bench.vmi()).toBeUndefined();
  });
});
