// SPDX-License-Identifier: Apache-2.0
// Rows about how an edit of a VM affects its VMI, and about restarts.
import type { Iface, IfaceStatus, Network, VirtualMachineInstance } from "@patchbay/api";
import { aVm } from "@patchbay/support";
import { planPodNetworks } from "../vm/pod/pod-networks.ts";
import { planTemplateNics } from "../nics/spec-plan.ts";
import { findByName, ifacesOf, withNics, type Nics } from "../nics/nics.ts";
import { listRestartRequiredFields } from "../status/restart-required.ts";
import { ours, same, vmiOf, type Cases } from "./kubevirt-case.ts";
import { nicsAfter } from "./vmi-nics.ts";

interface SyncRow {
  readonly vmi_interfaces?: readonly Iface[];
  readonly vmi_networks?: readonly Network[];
  readonly vmi_status?: readonly IfaceStatus[];
  readonly vm_added?: readonly Iface[];
  readonly vm_interfaces?: readonly Iface[];
  readonly vm_state?: Readonly<Record<string, string>> | string;
  readonly vmi_state?: string;
}

const POD: Iface = { name: "default", masquerade: {} };

function toVmi({ vmi_interfaces = [POD], vmi_networks, vmi_status }: SyncRow) {
  const nics = { interfaces: vmi_interfaces, ...(vmi_networks && { networks: vmi_networks }) };
  return vmiOf(nics, vmi_status === undefined ? {} : { interfaces: [...vmi_status] });
}

function buildTemplate(row: SyncRow, vmi: VirtualMachineInstance) {
  const states = typeof row.vm_state === "object" ? row.vm_state : {};
  const retained = ifacesOf(vmi.spec).map((iface): Iface => {
    const state = states[iface.name];
    return state === undefined ? iface : { ...iface, state };
  });
  return vmiOf({ interfaces: [...retained, ...(row.vm_added ?? [])] }).spec;
}

function listNames(nics: Pick<Nics, "ifaces">): readonly string[] {
  return nics.ifaces.map(({ name }) => name);
}

/** One pass of virt-controller: updates the VMI from the VM, then the template. */
function sync(row: SyncRow) {
  const vmi = toVmi(row);
  const template = buildTemplate(row, vmi);
  const nics = nicsAfter(template, vmi);
  const after = { ...vmi, spec: withNics(vmi.spec, nics.networks, nics.ifaces) };
  return { vmi, template, nics, tidied: planTemplateNics(template, after) };
}

function missing(before: readonly Iface[], after: Pick<Nics, "ifaces">): readonly string[] {
  const names = listNames(after);
  return before.map(({ name }) => name).filter((name) => !names.includes(name));
}

function gained(row: SyncRow): readonly string[] {
  const { vmi, nics } = sync(row);
  const before = ifacesOf(vmi.spec).map(({ name }) => name);
  return listNames(nics).filter((name) => !before.includes(name));
}

function isTidied(row: SyncRow): boolean {
  const { template, tidied } = sync(row);
  return missing(ifacesOf(template), tidied).length > 0;
}

const plugs = same((row: SyncRow) => ({ vmiGets: gained(row), vmChanged: isTidied(row) }));

function listStates(row: SyncRow): unknown {
  const requested = typeof row.vm_state === "object" ? row.vm_state : {};
  const { nics } = sync(row);
  const states = Object.keys(requested).map((name) => [
    name,
    findByName(nics.ifaces, name)?.state ?? "",
  ]);
  return { vmiState: Object.fromEntries(states) as unknown };
}

/** Both objects have the interface; the VM requests the row's state. */
function stateAfter({ vmi_state = "", vm_state }: SyncRow): unknown {
  const iface: Iface = { name: "net1", bridge: {}, state: vmi_state };
  const vmi = vmiOf({ interfaces: [iface] }, { interfaces: [{ name: "net1" }] });
  const wanted = { ...iface, ...(typeof vm_state === "string" && { state: vm_state }) };
  const nics = nicsAfter(vmiOf({ interfaces: [wanted] }).spec, vmi);
  return { vmiState: nics.ifaces[0]?.state };
}

interface SwapRow {
  readonly vmi_networks: readonly Network[];
  readonly vm_networks: readonly Network[];
}

/** One NIC on each network, bridged except on the pod network. */
function swappedNetworks({ vmi_networks, vm_networks }: SwapRow): unknown {
  const interfaces = vmi_networks.map(({ name, pod }): Iface =>
    pod === undefined ? { name, bridge: {} } : POD,
  );
  const vmi = vmiOf({ interfaces, networks: vmi_networks });
  return {
    vmiNetworks: nicsAfter(vmiOf({ interfaces, networks: vm_networks }).spec, vmi).networks,
  };
}

interface OldRow {
  readonly interfaces: readonly Iface[];
  readonly status: readonly string[];
}

/** KubeVirt 1.1.1 tested whether the pod's annotation must change. */
function annotationChange({ interfaces, status }: OldRow): unknown {
  const there = vmiOf({ interfaces: interfaces.filter(({ name }) => status.includes(name)) });
  const current = planPodNetworks({ vmi: there, bindings: {} }, []);
  const next = planPodNetworks({ vmi: vmiOf({ interfaces }), bindings: {} }, current);
  const changeRequired = JSON.stringify(current) !== JSON.stringify(next);
  return { changeRequired, annotate: changeRequired ? next : null };
}

function retainedIfaces({
  spec,
  status,
}: {
  spec: readonly Iface[];
  status: readonly string[];
}): unknown {
  const interfaces = spec.map((iface) => ({ bridge: {}, ...iface }));
  const vmi = vmiOf({ interfaces }, { interfaces: status.map((name) => ({ name })) });
  return { interfaces: listNames(nicsAfter(vmi.spec, vmi)) };
}

const ONE_SCHEME =
  "pods of Patchbay's have hashed names only: an unplug never waits for a migration";

export const HOTPLUG_CASES: Cases = {
  "VM sync plugs a bridge interface": plugs,
  "VM sync plugs a bridge with state down interface": plugs,
  "VM sync does not plug an absent interface and drops it from the VM": same((row: SyncRow) => {
    const { template, tidied } = sync(row);
    return { vmiGets: gained(row), vmDrops: missing(ifacesOf(template), tidied) };
  }),
  "VM sync clears a detached absent interface from VM and VMI": same((row: SyncRow) => {
    const { vmi, template, nics, tidied } = sync(row);
    return {
      vmiDrops: missing(ifacesOf(vmi.spec), nics),
      vmDrops: missing(ifacesOf(template), tidied),
    };
  }),
  "unplug deferred when pod interface name unknown": ours(
    ONE_SCHEME,
    { vmiState: { foonet: "absent" } },
    listStates,
  ),
  "unplug of an attached hashed interface": same((row: SyncRow) => ({
    ...(listStates(row) as object),
    vmChanged: isTidied(row),
  })),
  "absent in the VMI is not reverted to 'down'": ours(
    "an unplug that has not yet taken the device away can be taken back",
    { vmiState: "down" },
    stateAfter,
  ),
  "NAD reference is copied to the VMI": same(swappedNetworks),
  "v1.1.1 ordinal interface is not unplugged": ours(
    ONE_SCHEME,
    { vmiState: { testnet1: "absent" } },
    (row: SyncRow) =>
      listStates({ ...row, vm_state: { testnet1: "absent" }, vmi_status: [{ name: "testnet1" }] }),
  ),
  "v1.1.1 macvtap interface is not plugged": same((row: SyncRow) => {
    const vmi = toVmi(row);
    const template = vmiOf({ interfaces: row.vm_interfaces ?? [] }).spec;
    return { vmiInterfaces: nicsAfter(template, vmi).ifaces };
  }),
  "v1.1.1 only new SR-IOV interfaces, no change": same(annotationChange),
  "v1.1.1 absent with status stays": same(retainedIfaces),
};

const BRIDGE: Iface = { name: "default", bridge: {} };
const SECONDARY: Iface = { name: "blue", bridge: {} };

interface Nicked {
  readonly interfaces: readonly Iface[];
  readonly networks?: readonly Network[];
}

function needsRestart(vmi: Nicked, vm: Nicked): boolean {
  const { spec } = vmiOf(vm);
  const plain = aVm();
  return (
    listRestartRequiredFields(
      { ...plain, spec: { ...plain.spec, template: { spec } } },
      vmiOf(vmi),
      {
        bindings: {},
        isStaged: false,
      },
    ).length > 0
  );
}

export const RESTART_CASES: Cases = {
  "no interfaces, no change": same(() => needsRestart({ interfaces: [] }, { interfaces: [] })),
  "bridge and SR-IOV added": ours(
    "a NIC whose binding is not built cannot be plugged: it comes with a start, which is refused",
    true,
    () =>
      needsRestart(
        { interfaces: [BRIDGE] },
        { interfaces: [BRIDGE, SECONDARY, { name: "vf", sriov: {} }] },
      ),
  ),
  "state absent -> down not requiring": same(({ from, to }: { from: string; to: string }) =>
    needsRestart(
      { interfaces: [{ ...SECONDARY, state: from }] },
      { interfaces: [{ ...SECONDARY, state: to }] },
    ),
  ),
  "binding changed": same(() =>
    needsRestart(
      { interfaces: [BRIDGE] },
      {
        interfaces: [{ name: "other", masquerade: {} }],
        networks: [{ name: "other", pod: {} }],
      },
    ),
  ),
  "network source multus to pod": same(({ from, to }: { from: Network; to: Network }) =>
    needsRestart(
      { interfaces: [BRIDGE], networks: [from] },
      { interfaces: [BRIDGE], networks: [to] },
    ),
  ),
  "interface and network removed from the VM": ours(
    "what is taken out of the VM is unplugged",
    false,
    () => needsRestart({ interfaces: [BRIDGE, SECONDARY] }, { interfaces: [BRIDGE] }),
  ),
};
