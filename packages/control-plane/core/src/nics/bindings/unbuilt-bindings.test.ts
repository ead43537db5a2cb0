// SPDX-License-Identifier: Apache-2.0
// An iface whose binding is not built never becomes a NIC, whatever door it comes in by.
import {
  networkConfigOf,
  type BindingRegistry,
  type Iface,
  type Network,
  type VmiSpec,
} from "@patchbay/api";
import { validateVmiSpec } from "@patchbay/api/validate";
import { aVm, aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { resolveBinding } from "./resolve-binding.ts";
import { NO_LINKS, type IfaceFacts } from "../facts.ts";
import { withNics } from "../nics.ts";
import { buildIfaceStatuses } from "../../status/node-vm.ts";
import { nicsAfter } from "../../testing/vmi-nics.ts";
import { planNodeVm, type NodeVmFacts } from "../../vm/node/node-vm.ts";
import { planPodNetworks } from "../../vm/pod/pod-networks.ts";
import { planAddIface, type IfaceFields } from "../../requests/ifaces.ts";
import { formatProblems, findVmiStartProblems } from "../../vm/start-problems.ts";

const BINDINGS: BindingRegistry = {
  own: { domainAttachmentType: "tap" },
  bridged: { domainAttachmentType: "managedTap", networkAttachmentDefinition: "extra" },
  odd: { domainAttachmentType: "hostdev" },
  bare: {},
};
const NETWORK = { ...networkConfigOf(undefined), bindings: BINDINGS };
const NIC = "nic1";
const BLUE: Network = { name: NIC, multus: { networkName: "blue" } };

// KubeVirt's API is wider than the type.
const ROWS = (
  [
    // On a network beside the pod's.
    { field: "masquerade", binding: { masquerade: {} } },
    { field: "sriov", binding: { sriov: {} } },
    { field: "passtBinding", binding: { passtBinding: {} } },
    { field: "binding", binding: { binding: { name: "unheard" } } },
    { field: "binding", binding: { binding: { name: "constructor" } } },
    { field: "binding", binding: { binding: { name: "odd" } } },
    { field: "binding", binding: { binding: { name: "bare" } } },
    { field: "binding", binding: { bridge: {}, binding: { name: "own" } } },
    { field: "slirp", binding: { slirp: {} } },
    { field: "passt", binding: { passt: {} } },
    { field: "macvtap", binding: { macvtap: {} } },
    { field: "sriov", binding: { bridge: {}, sriov: {} } },
  ] as readonly { field: string; binding: Omit<Iface, "name"> }[]
).map((row) => ({ ...row, shown: JSON.stringify(row.binding) }));

function specWith(binding: Omit<Iface, "name">): VmiSpec {
  return withNics(aVmi({}).spec, [BLUE], [{ name: NIC, ...binding }]);
}

/** An iface that the pod has, as an older version may have left it, on links that stand. */
function nodeFacts(binding: Omit<Iface, "name">, links: Partial<IfaceFacts["links"]>) {
  const podInterfaceName = "pod676b8bb84ce";
  const vmi = { ...aVmi({ status: { phase: "Running" } }), spec: specWith(binding) };
  const iface: IfaceFacts = {
    name: NIC,
    iface: { name: NIC, ...binding },
    network: BLUE,
    binding: resolveBinding({ name: NIC, ...binding }, BLUE, BINDINGS),
    podInterfaceName,
    links: { ...NO_LINKS, hasPodInterface: true, mtu: 1500, ...links },
    attachment: { name: NIC, podInterfaceName, state: "Attached" },
  };
  const facts = {
    family: "q35",
    nics: [],
    controllers: [{ index: 1, model: "pcie-root-port", hotplug: true }],
    pciAddresses: [],
    devices: [],
    vcpus: 1,
    sharesMemory: true,
    agentConnected: false,
    paths: [],
  } as const;
  const node: NodeVmFacts = {
    vmi,
    role: "owner",
    ifaces: [iface],
    domain: { running: true, isPaused: false, crashed: false, facts },
    useEmulation: true,
    network: NETWORK,
    uuid: "u",
    unplugRequests: {},
  };
  return node;
}

describe.each(ROWS)("$shown", ({ field, binding }) => {
  test("is rejected by addinterface, with its field", () => {
    const vm = aVm();
    const request = {
      name: NIC,
      networkAttachmentDefinitionName: "blue",
      // The parser lets less through.
      fields: binding as IfaceFields,
    };
    const vmi = aVmi({ status: { phase: "Running" } });
    const target = { kind: "vm", vm, vmi } as const;
    const plan = planAddIface({ target, request, nadExists: true, bindings: BINDINGS });
    expect(plan).toMatchObject({ kind: "refused", refusal: { code: 422 } });
    expect(JSON.stringify(plan)).toContain(`"FieldValueNotSupported","field":"${field}"`);
    const stored = { ...vm, spec: { template: { spec: specWith(binding) } } };
    const again = planAddIface({
      target: { kind: "vm", vm: stored, vmi },
      request,
      nadExists: true,
      bindings: BINDINGS,
    });
    expect(again).toMatchObject({ kind: "refused", refusal: { causes: [{ field }] } });
  });

  test("is not copied from the VM to its running VMI", () => {
    expect(nicsAfter(specWith(binding), aVmi({}), BINDINGS)).toEqual({ networks: [], ifaces: [] });
  });

  test("does not cancel the unplug of the previous NIC of that name", () => {
    const absent = aVmi({ nics: [{ name: NIC, state: "absent" }] });
    const left = { ...absent, status: { attachments: [{ name: NIC }] } };
    const nics = nicsAfter(specWith(binding), left as typeof absent, BINDINGS);
    expect(nics.ifaces).toEqual([{ name: NIC, bridge: {}, state: "absent" }]);
  });

  test("adds no element to the pod's annotation", () => {
    const vmi = { ...aVmi({}), spec: specWith(binding) };
    expect(planPodNetworks({ vmi, bindings: BINDINGS }, [])).toEqual([]);
  });

  test("blocks the start of the VM", () => {
    const vmi = { ...aVmi({}), spec: specWith(binding) };
    expect(formatProblems(findVmiStartProblems(vmi, NETWORK))).toContain(
      `spec.domain.devices.interfaces[0].${field}: `,
    );
    const facts = nodeFacts(binding, { hasBridge: true, hasTap: true, isWired: true });
    const scheduled = { ...facts.vmi, status: { phase: "Scheduled" } } as const;
    expect(planNodeVm({ ...facts, vmi: scheduled, domain: undefined })).toEqual([]);
  });

  test("does not block the start of the VM once it is removed", () => {
    const absent = { ...binding, state: "absent" };
    const vmi = { ...aVmi({}), spec: specWith(absent) };
    expect(findVmiStartProblems(vmi, NETWORK)).toEqual([]);
    const facts = nodeFacts(absent, {});
    const scheduled = { ...facts.vmi, status: { phase: "Scheduled" } } as const;
    const plan = planNodeVm({ ...facts, vmi: scheduled, domain: undefined });
    expect(plan.map(({ kind }) => kind)).toEqual(["defineDomain", "startDomain"]);
  });

  test.each([
    { phase: "Wiring", links: {} },
    { phase: "Attaching", links: { hasBridge: true, hasTap: true, isWired: true } },
  ])("waits on the node in phase $phase, with a reason", ({ phase, links }) => {
    const facts = nodeFacts(binding, links);
    expect(planNodeVm(facts)).toEqual([]);
    const report = { ifaces: facts.ifaces, blockedReasons: {}, portless: new Map(), now: "now" };
    expect(buildIfaceStatuses(report)).toMatchObject([
      { hotplug: { phase, reason: "BindingNotSupported" } },
    ]);
  });

  test("is unplugged if an older version plugged it", () => {
    const facts = nodeFacts({ ...binding, state: "absent" }, { hasBridge: true, hasTap: true });
    expect(planNodeVm(facts)).toMatchObject([{ kind: "unwireTap", iface: NIC }]);
  });
});

describe.each([
  {},
  { bridge: {} },
  { binding: { name: "own" } },
  { binding: { name: "bridged" } },
] satisfies readonly Omit<Iface, "name">[])("%j", (binding) => {
  test("becomes a NIC", () => {
    expect(nicsAfter(specWith(binding), aVmi({}), BINDINGS).ifaces).toHaveLength(1);
    const vmi = { ...aVmi({}), spec: specWith(binding) };
    const elements = planPodNetworks({ vmi, bindings: BINDINGS }, []);
    expect(elements[0]).toMatchObject({ name: "blue" });
    expect(findVmiStartProblems(vmi, NETWORK)).toEqual([]);
    expect(planNodeVm(nodeFacts(binding, {}))).toMatchObject([
      { kind: "wireTap" },
      { kind: "attachDevice" },
    ]);
  });

  test("is plugged and unplugged while the guest runs", () => {
    const absent = { ...specWith({ ...binding, state: "absent" }) };
    const vmi = { ...aVmi({ status: { phase: "Running" } }), spec: absent };
    const left = { ...vmi, status: { attachments: [{ name: NIC }] } } as typeof vmi;
    expect(nicsAfter(specWith(binding), left, BINDINGS).ifaces).toEqual([
      { name: NIC, ...binding },
    ]);
    expect(validateVmiSpec(absent, "spec")).toEqual([]);
  });
});

test.each([
  { name: "unheard", says: '"unheard" is not registered in spec.configuration.network.binding' },
  { name: "odd", says: '"odd" is registered with hostdev; use tap, managedTap or vhostuser' },
  {
    name: "bare",
    says: '"bare" is registered with no domainAttachmentType; use tap, managedTap or',
  },
])("reports why binding $name is unavailable", ({ name, says: message }) => {
  const vmi = { ...aVmi({}), spec: specWith({ binding: { name } }) };
  expect(formatProblems(findVmiStartProblems(vmi, NETWORK))).toContain(message);
});

test("masquerade requires the pod's default network", () => {
  const iface = { name: NIC, masquerade: {} };
  expect(resolveBinding(iface, BLUE, BINDINGS)).toMatchObject({
    kind: "refused",
    field: "masquerade",
  });
  const own = { name: NIC, multus: { networkName: "blue", default: true } };
  expect(resolveBinding(iface, own, BINDINGS)).toEqual({ kind: "masquerade" });
});
