// SPDX-License-Identifier: Apache-2.0
// Where the cluster's rollout strategy is Stage, no NIC of a running guest changes: the VM says what waits for its restart.
// Where it is LiveUpdate, or not said, NICs change live; the gate HotplugNICs is on, whatever is listed. Source: KubeVirt
// vmRolloutStrategy; there NICs ignore it (#17328).
import {
  networkConfigOf,
  type Iface,
  type KubeVirt,
  type Network,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VmiStatus,
} from "@patchbay/api";
import { aVm, aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { planVm } from "../vm/vm.ts";
import { withNics } from "../nics/nics.ts";
import { listRestartRequiredFields } from "./restart-required.ts";

const NOW = "2026-01-01T00:00:00Z";
const IFACES = "spec.template.spec.domain.devices.interfaces";
const NETWORKS = "spec.template.spec.networks";

/** A NIC as a row writes it; its network is the pod's where it has none. */
interface Nic extends Partial<Iface> {
  readonly name: string;
  readonly on?: string;
}

function networkOf({ name, on }: Nic): Network {
  return on === undefined ? { name, pod: {} } : { name, multus: { networkName: on } };
}

function ifaceOf(nic: Nic): Iface {
  const fields = Object.entries({ bridge: {}, macAddress: "02:00:00:00:00:01", ...nic });
  // Every other member of a row's NIC is an iface's.
  return Object.fromEntries(fields.filter(([field]) => field !== "on")) as unknown as Iface;
}

const DEFAULT: Nic = { name: "default" };
const BLUE: Nic = { name: "blue", on: "blue", macAddress: "02:00:00:00:00:02" };
const RED: Nic = { name: "red", on: "red", macAddress: "02:00:00:00:00:03" };

function vmWith(nics: readonly Nic[]): VirtualMachine {
  const vm = aVm();
  const spec = withNics(vm.spec.template.spec, nics.map(networkOf), nics.map(ifaceOf));
  return { ...vm, spec: { ...vm.spec, template: { ...vm.spec.template, spec } } };
}

/** Its VMI, of which the node reports each NIC. */
function vmiWith(nics: readonly Nic[]): VirtualMachineInstance {
  const interfaces = nics.map(({ name }) => ({ name }));
  const status: VmiStatus = { phase: "Running", interfaces };
  const vmi = aVmi({ ownedByVm: true, status });
  return {
    ...vmi,
    spec: withNics(vmWith([]).spec.template.spec, nics.map(networkOf), nics.map(ifaceOf)),
  };
}

const STAGE: KubeVirt = configured({ vmRolloutStrategy: "Stage" });

function configured(configuration: NonNullable<KubeVirt["spec"]>["configuration"]): KubeVirt {
  const metadata = { name: "kubevirt", namespace: "patchbay" };
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "KubeVirt",
    metadata,
    spec: configuration === undefined ? {} : { configuration },
  };
}

interface Case {
  readonly vm: readonly Nic[];
  readonly vmi: readonly Nic[];
}

/** Steps that change the VMI, and what the VM says is waiting. */
function outcome({ vm: wanted, vmi: running }: Case, kubevirt: KubeVirt | undefined) {
  const [vm, vmi] = [vmWith(wanted), vmiWith(running)];
  const { bindings, isStaged } = networkConfigOf(kubevirt);
  const known = {
    startProblems: [],
    hasNameConflict: false,
    missingDataVolumes: [],
    waitsForBinding: false,
  };
  const plan = planVm({ ...known, vm, vmi, now: NOW, bindings, isStaged });
  return {
    steps: plan.map(({ kind }) => kind),
    waits: listRestartRequiredFields(vm, vmi, { bindings, isStaged }),
  };
}

/** What is edited, and what of it waits under Stage. */
const EDITS: readonly (Case & { readonly name: string; readonly waits: readonly string[] })[] = [
  {
    name: "an added NIC",
    vm: [DEFAULT, BLUE],
    vmi: [DEFAULT],
    waits: [`${IFACES}[1]`, `${NETWORKS}[1]`],
  },
  {
    name: "two added NICs and a removed NIC",
    vm: [RED, BLUE],
    vmi: [{ ...RED, name: "old" }],
    waits: [IFACES, `${IFACES}[0]`, `${IFACES}[1]`, NETWORKS, `${NETWORKS}[0]`, `${NETWORKS}[1]`],
  },
  { name: "a removed NIC", vm: [DEFAULT], vmi: [DEFAULT, BLUE], waits: [IFACES, NETWORKS] },
  {
    name: "a NIC marked absent",
    vm: [DEFAULT, { ...BLUE, state: "absent" }],
    vmi: [DEFAULT, BLUE],
    waits: [`${IFACES}[1].state`],
  },
  {
    name: "the link down",
    vm: [{ ...BLUE, state: "down" }],
    vmi: [BLUE],
    waits: [`${IFACES}[0].state`],
  },
  {
    name: "another network",
    vm: [{ ...BLUE, on: "red" }],
    vmi: [BLUE],
    waits: [`${NETWORKS}[0].multus.networkName`],
  },
];

describe("with rollout strategy Stage", () => {
  test.each(EDITS)("$name: waits for $waits", ({ vm, vmi, waits }) => {
    expect(outcome({ vm, vmi }, STAGE)).toEqual({ steps: [], waits });
  });

  test.each<Case & { readonly name: string; readonly waits: readonly string[] }>([
    { name: "no edits", vm: [DEFAULT, BLUE], vmi: [DEFAULT, BLUE], waits: [] },
    { name: "only a different order", vm: [BLUE, DEFAULT], vmi: [DEFAULT, BLUE], waits: [] },
    {
      name: "a different model",
      vm: [{ ...BLUE, model: "e1000e" }],
      vmi: [BLUE],
      waits: [`${IFACES}[0].model`],
    },
    {
      name: "a new pod network",
      vm: [DEFAULT, BLUE],
      vmi: [BLUE],
      waits: [`${IFACES}[0]`, `${NETWORKS}[0]`],
    },
    {
      name: "an unplug in progress continues",
      vm: [DEFAULT],
      vmi: [DEFAULT, { ...BLUE, state: "absent" }],
      waits: [],
    },
    {
      name: "an unplug in progress whose NIC is requested again",
      vm: [BLUE],
      vmi: [{ ...BLUE, state: "absent" }],
      waits: [`${IFACES}[0]`, `${NETWORKS}[0]`],
    },
  ])("$name: waits for $waits", ({ vm, vmi, waits }) => {
    expect(outcome({ vm, vmi }, STAGE)).toEqual({ steps: [], waits });
  });

  test("completes a started unplug", () => {
    const deleting = vmiWith([DEFAULT, { ...BLUE, state: "absent" }]);
    const vmi = { ...deleting, status: { phase: "Running", interfaces: [{ name: "default" }] } };
    const known = {
      startProblems: [],
      hasNameConflict: false,
      missingDataVolumes: [],
      waitsForBinding: false,
    };
    const facts = { ...known, vm: vmWith([DEFAULT]), now: NOW, bindings: {}, isStaged: true };
    // The phase is one of a VMI's.
    const plan = planVm({ ...facts, vmi: vmi as VirtualMachineInstance });
    expect(plan).toMatchObject([{ kind: "patchVmiNics", change: { plugs: [] } }]);
  });
});

describe.each([
  { name: "nothing is configured", kubevirt: undefined },
  { name: "the strategy is unset", kubevirt: configured(undefined) },
  { name: "the strategy is LiveUpdate", kubevirt: configured({ vmRolloutStrategy: "LiveUpdate" }) },
  {
    name: "HotplugNICs is listed",
    kubevirt: configured({ developerConfiguration: { featureGates: ["HotplugNICs"] } }),
  },
  {
    name: "only other feature gates are listed",
    kubevirt: configured({ developerConfiguration: { featureGates: ["HostDisk"] } }),
  },
])("if $name", ({ kubevirt }) => {
  test.each(EDITS)("$name: is applied at once", ({ vm, vmi }) => {
    expect(outcome({ vm, vmi }, kubevirt)).toEqual({ steps: ["patchVmiNics"], waits: [] });
  });
});
