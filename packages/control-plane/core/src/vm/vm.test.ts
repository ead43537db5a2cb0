// SPDX-License-Identifier: Apache-2.0
// What is done next for one VM, and of what the VMI that it starts is made.
import type { VirtualMachine, VirtualMachineInstance, VmStatus } from "@patchbay/api";
import { TOPOLOGY_VERSION } from "@patchbay/domain";
import { aVm, aVmi, VM_OWNER, type NicSketch } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { nicsOf, withNics } from "../nics/nics.ts";
import { isOwnedBy, nextReconcileMs, findOwnerVm, planVm, vmiOf, type VmFacts } from "./vm.ts";

const MAC = "02:00:00:00:00:01";
const NOW = "2026-01-01T00:10:00Z";
const ONE: NicSketch = { name: "one", mac: MAC };
const ABSENT: NicSketch = { ...ONE, state: "absent" };
const PROBLEM = { field: "spec", message: "is odd" };

function vmWith(nics: readonly NicSketch[], more: Partial<VirtualMachine> = {}): VirtualMachine {
  return { ...aVm({ nics }), ...more };
}

function deleting<T extends VirtualMachine | VirtualMachineInstance>(object: T): T {
  return { ...object, metadata: { ...object.metadata, deletionTimestamp: NOW } };
}

function plan(facts: Partial<VmFacts> & Pick<VmFacts, "vm">): ReturnType<typeof planVm> {
  return planVm({
    vmi: undefined,
    now: NOW,
    startProblems: [],
    hasNameConflict: false,
    missingDataVolumes: [],
    bindings: {},
    isStaged: false,
    waitsForBinding: false,
    ...facts,
  });
}

function running(nics: readonly NicSketch[], phase = "Running"): VirtualMachineInstance {
  // Every phase is one of the type.
  return aVmi({ nics, ownedByVm: true, status: { phase: phase as "Running" } });
}

describe("a VM without a VMI", () => {
  test("creates a VMI from the template", () => {
    const vm = vmWith([ONE]);
    expect(plan({ vm })).toEqual([{ kind: "createVmi", vmi: vmiOf(vm, {}) }]);
  });

  test("creates a paused VMI on request", () => {
    const vm = aVm({ runStrategy: "Always" });
    const requested = { action: "Start", data: { paused: "true" } } as const;
    const [step] = plan({ vm: { ...vm, status: { stateChangeRequests: [requested] } } });
    expect(step?.kind === "createVmi" && step.vmi.spec.startStrategy).toBe("Paused");
    const [other] = plan({ vm: { ...vm, status: { stateChangeRequests: [{ action: "Start" }] } } });
    expect(other?.kind === "createVmi" && other.vmi.spec.startStrategy).toBeUndefined();
  });

  test.each<{ name: string; change: Partial<VmFacts> }>([
    { name: "for a VM that must be off", change: { vm: aVm({ runStrategy: "Halted" }) } },
    { name: "for a VM that cannot be started", change: { startProblems: [PROBLEM] } },
    { name: "if another VMI has its name", change: { hasNameConflict: true } },
    { name: "for a VM that is being deleted", change: { vm: deleting(aVm()) } },
    {
      name: "for a VM whose start is delayed",
      change: {
        vm: vmWith([], {
          status: {
            startFailure: {
              consecutiveFailCount: 1,
              lastFailedVMIUID: "u",
              retryAfterTimestamp: "2026-01-01T00:10:07Z",
            },
          },
        }),
      },
    },
  ])("creates no VMI $name", ({ change }) => {
    expect(plan({ vm: aVm(), ...change })).toEqual([]);
  });

  test("removes absent NICs from the template and does not start them", () => {
    const vm = vmWith([ONE, { name: "gone", mac: "02:00:00:00:00:02", state: "absent" }]);
    const retained = nicsOf(aVm({ nics: [ONE] }).spec.template.spec);
    const [tidy, create] = plan({ vm });
    expect(tidy).toEqual({ kind: "patchTemplateNics", to: retained });
    expect(create?.kind === "createVmi" && nicsOf(create.vmi.spec)).toEqual(retained);
  });
});

describe("a NIC without a MAC, on a network that reports none,", () => {
  const bindings = { socket: { domainAttachmentType: "vhostuser" } };
  const noMac = { name: "one", binding: "socket" };

  test.each([
    { name: "gets one", vm: vmWith([noMac]), want: true },
    { name: "gets one in place of an empty one", vm: vmWith([{ ...noMac, mac: "" }]), want: true },
    {
      name: "gets one beside one that has",
      vm: vmWith([ONE, { ...noMac, name: "two" }]),
      want: true,
    },
    { name: "needs none when it is absent", vm: vmWith([{ ...noMac, state: "absent" }]) },
    { name: "needs none when it has one", vm: vmWith([{ ...noMac, mac: MAC }]) },
    { name: "needs none on a bridge", vm: vmWith([{ name: "one" }]) },
  ])("$name", ({ vm, want = false }) => {
    const kinds = plan({ vm, bindings }).map(({ kind }) => kind);
    expect(kinds.includes("setMacAddresses")).toBe(want);
    // Nothing else is done before.
    expect(kinds.length === 1 || !want).toBe(true);
  });

  test("uses CNI's MAC on the pod network", () => {
    const vm = aVm();
    const spec = withNics(vm.spec.template.spec, [{ name: "d", pod: {} }], [{ name: "d" }]);
    const kinds = plan({ vm: { ...vm, spec: { ...vm.spec, template: { spec } } } });
    expect(kinds.map(({ kind }) => kind)).toEqual(["createVmi"]);
  });
});

describe("a VM with its VMI", () => {
  test("plans nothing when the VMI is up to date", () => {
    expect(plan({ vm: vmWith([ONE]), vmi: running([ONE]) })).toEqual([]);
  });

  test("plugs NICs added to the VM, and marks deleted ones absent", () => {
    const other = { name: "two", mac: "02:00:00:00:00:02" };
    const added = nicsOf(aVm({ nics: [other] }).spec.template.spec);
    const interfaces = [{ name: "one" }];
    const vmi = { ...running([ONE]), status: { phase: "Running" as const, interfaces } };
    expect(plan({ vm: vmWith([other]), vmi })).toEqual([
      {
        kind: "patchVmiNics",
        change: {
          planned: nicsOf(aVm({ nics: [ABSENT] }).spec.template.spec),
          plugs: [{ network: added.networks[0], iface: added.ifaces[0] }],
        },
      },
    ]);
  });

  test("retains an absent NIC in the template while the VMI still has it", () => {
    const vm = vmWith([ABSENT]);
    const attachments = [{ name: "one", podInterfaceName: "pod1", state: "Attached" as const }];
    const stillPresent = {
      ...running([ABSENT]),
      status: { phase: "Running" as const, attachments },
    };
    expect(plan({ vm, vmi: stillPresent })).toEqual([]);
    expect(plan({ vm, vmi: running([]) })).toEqual([
      { kind: "patchTemplateNics", to: { networks: [], ifaces: [] } },
    ]);
  });

  test("deletes the VMI if the VM must be off", () => {
    const vm = aVm({ runStrategy: "Halted" });
    expect(plan({ vm, vmi: running([]) })).toEqual([{ kind: "deleteVmi", uid: "vmi-uid" }]);
    expect(plan({ vm, vmi: deleting(running([])) })).toEqual([]);
  });

  test("deletes a VMI whose guest has ended only if the VM must run", () => {
    const once = vmWith([ONE]);
    const vm = { ...once, spec: { ...once.spec, runStrategy: "Once" as const } };
    expect(plan({ vm, vmi: running([], "Succeeded") })).toEqual([]);
    expect(plan({ vm: once, vmi: running([], "Succeeded") })).toEqual([
      { kind: "deleteVmi", uid: "vmi-uid" },
    ]);
  });

  test("plans nothing for a VM that is being deleted", () => {
    expect(plan({ vm: deleting(vmWith([ONE])), vmi: running([]) })).toEqual([]);
  });
});

describe("the VMI of a VM", () => {
  test("belongs to the VM, and has its name and the template's labels and annotations", () => {
    const vm = vmWith([ONE]);
    const metadata = { labels: { app: "db" }, annotations: { note: "x" } };
    const template = { ...vm.spec.template, metadata };
    expect(vmiOf({ ...vm, spec: { ...vm.spec, template } }, {})).toEqual({
      apiVersion: "kubevirt.io/v1",
      kind: "VirtualMachineInstance",
      metadata: {
        name: "vm1",
        namespace: "default",
        labels: { app: "db", "vm.kubevirt.io/name": "vm1" },
        annotations: {
          note: "x",
          "patchbay.io/pcie-topology": JSON.stringify({
            version: TOPOLOGY_VERSION,
            interfaces: [],
            devices: [{ name: "display", pciAddress: "0000:00:01.0" }],
          }),
        },
        finalizers: ["foregroundDeleteVirtualMachine"],
        ownerReferences: [VM_OWNER],
      },
      spec: template.spec,
    });
  });

  test("has the layout of the last start", () => {
    const pcieTopology = { version: 1, interfaces: [{ name: "one", pciAddress: "0000:02:00.0" }] };
    const { annotations } = vmiOf(vmWith([], { status: { pcieTopology } }), {}).metadata;
    expect(annotations?.["patchbay.io/pcie-topology"]).toBe(JSON.stringify(pcieTopology));
  });

  test("has no lists if the template has none", () => {
    const vm = aVm();
    const spec = { domain: {} };
    expect(vmiOf({ ...vm, spec: { ...vm.spec, template: { spec } } }, {}).spec).toEqual(spec);
  });
});

describe("the owner of a VMI", () => {
  test("is the VM with the uid in its controller reference", () => {
    expect(isOwnedBy(running([]), aVm())).toBe(true);
    expect(findOwnerVm(running([]))?.name).toBe("vm1");
  });

  test("is no VM without a controller or with another controller", () => {
    const unknown = { name: "vm1", namespace: "default" };
    expect(isOwnedBy(aVmi(), aVm())).toBe(false);
    expect(isOwnedBy(aVmi(), { ...aVm(), metadata: unknown })).toBe(false);
    const other = { ...aVm(), metadata: { ...aVm().metadata, uid: "other" } };
    expect(isOwnedBy(running([]), other)).toBe(false);
    expect(findOwnerVm(aVmi())).toBeUndefined();
  });
});

describe("the next reconcile is due", () => {
  const status: VmStatus = {
    startFailure: {
      consecutiveFailCount: 1,
      lastFailedVMIUID: "u",
      retryAfterTimestamp: "2026-01-01T00:10:07Z",
    },
  };
  const facts = {
    vmi: undefined,
    now: NOW,
    startProblems: [],
    hasNameConflict: false,
    missingDataVolumes: [],
    bindings: {},
    isStaged: false,
    waitsForBinding: false,
  };

  test("when the backoff before the next start ends", () => {
    expect(nextReconcileMs({ ...facts, vm: vmWith([], { status }) })).toBe(7_000);
  });

  test("never without a backoff, or if the VM must not start", () => {
    expect(nextReconcileMs({ ...facts, vm: aVm() })).toBeUndefined();
    const halted = { ...aVm({ runStrategy: "Halted" }), status };
    expect(nextReconcileMs({ ...facts, vm: halted })).toBeUndefined();
  });

  test("when a guest that failed before has run long enough", () => {
    const phaseTransitionTimestamps = [
      { phase: "Running" as const, phaseTransitionTimestamp: "2026-01-01T00:09:30Z" },
    ];
    const vmi = {
      ...running([]),
      status: { phase: "Running" as const, phaseTransitionTimestamps },
    };
    expect(nextReconcileMs({ ...facts, vm: vmWith([], { status }), vmi })).toBe(30_000);
    expect(nextReconcileMs({ ...facts, vm: aVm(), vmi })).toBeUndefined();
  });
});
