// SPDX-License-Identifier: Apache-2.0
// Claims of persistent addresses: which networks offer them, how long a claim lasts, and what a NIC without one reports.
import {
  names,
  type Iface,
  type IpamClaim,
  type NetworkAttachmentDefinition,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { printNetworks } from "@patchbay/api/annotations";
import { aPod, aVm, aVmi, VM_OWNER, type NicSketch } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { anIpamClaim, CLUSTER, SETTINGS } from "../testing/launcher-facts.ts";
import { attachmentStatuses } from "../status/vmi.ts";
import {
  findIpamClaimOwner,
  findIpamClaimsInUse,
  findPersistentNetwork,
  planIpamClaims,
  resolveIpamClaims,
  type IpamClaimFacts,
  type IpamClaimState,
} from "./ipam-claims.ts";
import { planPodNetworks } from "./pod/pod-networks.ts";
import { planVmi, readPodNetworkElements } from "./vmi.ts";

const NOW = "2026-01-01T00:00:00Z";
const NIC: NicSketch = { name: "one" };
/** The usual pod NIC of interface `one`. */
const POD_NIC = "pod7692c3ad354";
/** Claim of interface `one` on network `tenant-blue` after a network swap. */
const SWAP_NAME = "vm1.one.96bdbf68";

function definition(config: unknown, name = "blue"): NetworkAttachmentDefinition {
  const metadata = { namespace: "default", name };
  const text = typeof config === "string" ? config : JSON.stringify(config);
  return {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata,
    spec: { config: text },
  };
}

/** A layer 2 network. Source: OVN-Kubernetes, "Multi-homing". */
const OVN_NETWORK = {
  cniVersion: "1.0.0",
  name: "tenant-blue",
  type: "ovn-k8s-cni-overlay",
  topology: "layer2",
  subnets: "10.100.200.0/24,fd10:100:200::/64",
  mtu: 1300,
  netAttachDefName: "default/blue",
  allowPersistentIPs: true,
};
const DEFINITIONS = new Map([["default/blue", definition(OVN_NETWORK)]]);

describe("a network offers persistent addresses", () => {
  test.each<{ name: string; config: unknown; want: string | undefined }>([
    { name: "if OVN-Kubernetes' field is true", config: OVN_NETWORK, want: "tenant-blue" },
    {
      name: "if a plugin of its list has the field",
      config: { name: "list", plugins: [{ type: "a" }, { type: "b", allowPersistentIPs: true }] },
      want: "list",
    },
    {
      name: "under the definition's name if the configuration has none",
      config: { type: "a", allowPersistentIPs: true },
      want: "blue",
    },
    { name: "only if the field is true", config: { allowPersistentIPs: false }, want: undefined },
    {
      name: "only if the field is a boolean",
      config: { allowPersistentIPs: "true" },
      want: undefined,
    },
    {
      name: "only if the field is a member of the configuration or a plugin",
      config: { name: "allowPersistentIPs", ipam: { allowPersistentIPs: true } },
      want: undefined,
    },
    { name: "only in valid JSON", config: '{"allowPersistentIPs": true', want: undefined },
    { name: "only in an object", config: '["allowPersistentIPs"]', want: undefined },
    { name: "not by default", config: { name: "plain" }, want: undefined },
  ])("$name", ({ config, want }) => {
    expect(findPersistentNetwork(definition(config))).toBe(want);
  });

  test("only if its definition exists, with a configuration", () => {
    expect(findPersistentNetwork(undefined)).toBeUndefined();
    const { spec, ...nad } = definition({});
    expect(spec).toBeDefined();
    expect(findPersistentNetwork(nad)).toBeUndefined();
  });
});

function claim(
  more: Partial<IpamClaim["metadata"]> = {},
  spec: IpamClaim["spec"] = { network: "tenant-blue", interface: POD_NIC },
): IpamClaim {
  return anIpamClaim({ name: "vm1.one", ...more }, spec);
}

function vmiWith(more: Partial<Iface> = {}, nic: NicSketch = NIC): VirtualMachineInstance {
  const vmi = aVmi({ nics: [nic], ownedByVm: true });
  const [iface] = vmi.spec.domain.devices?.interfaces ?? [];
  const devices = { interfaces: [{ ...iface, name: nic.name, ...more }] };
  return { ...vmi, spec: { ...vmi.spec, domain: { ...vmi.spec.domain, devices } } };
}

function attached(vmi: VirtualMachineInstance): VirtualMachineInstance {
  const attachment = { name: "one", podInterfaceName: POD_NIC, networkName: "default/blue" };
  return { ...vmi, status: { attachments: [{ ...attachment, state: "Attached" }] } };
}

function resolve(vmi: VirtualMachineInstance, found: readonly IpamClaim[], unavailable?: string) {
  const claims = new Map(found.map((each) => [each.metadata.name, each]));
  const facts = { claims, ...(unavailable === undefined ? {} : { unavailable }) };
  return resolveIpamClaims({ vmi, pod: undefined }, DEFINITIONS, facts).get("one");
}

describe("the claim of an interface", () => {
  const otherUid = { ownerReferences: [{ ...VM_OWNER, uid: "earlier" }] };
  const otherName = { ownerReferences: [{ ...VM_OWNER, uid: "other", name: "vm2" }] };
  const otherNetwork = { network: "tenant-red", interface: POD_NIC };
  const usable: IpamClaimState = { kind: "usable", name: "vm1.one" };
  const missing: IpamClaimState = { kind: "missing", claim: claim() };

  test.each<{
    name: string;
    found?: readonly IpamClaim[];
    vmi?: VirtualMachineInstance;
    unavailable?: string;
    want: IpamClaimState | undefined;
  }>([
    { name: "is created, owned by the VM", want: missing },
    { name: "is used if it exists", found: [claim()], want: usable },
    {
      name: "is used if a user created it",
      found: [
        claim({ ownerReferences: [], finalizers: [] }, { network: "tenant-blue", interface: "x" }),
      ],
      want: usable,
    },
    {
      name: "is not used if it cannot be created",
      unavailable: "no such kind",
      want: { kind: "unusable", message: "no such kind" },
    },
    { name: "waits for the end of a deleted VM's claim", found: [claim(otherUid)], want: missing },
    {
      name: "is not another VM's",
      found: [claim(otherName)],
      want: {
        kind: "unusable",
        message: "IPAMClaim default/vm1.one belongs to VirtualMachine vm2",
      },
    },
    {
      name: "is replaced if it is for another network",
      found: [claim({}, otherNetwork)],
      want: { kind: "ending" },
    },
    {
      name: "has another name while a NIC uses the claim of the former network",
      found: [claim({}, otherNetwork)],
      vmi: attached(vmiWith()),
      want: { kind: "missing", claim: claim({ name: SWAP_NAME }) },
    },
    {
      name: "of a network swap is used from then on",
      found: [claim({ name: SWAP_NAME })],
      want: { kind: "usable", name: SWAP_NAME },
    },
    {
      name: "for another network is not used if a user created it",
      found: [claim({ ownerReferences: [] }, otherNetwork)],
      vmi: attached(vmiWith()),
      want: {
        kind: "unusable",
        message:
          "IPAMClaim default/vm1.one is for network tenant-red, and the interface is on tenant-blue",
      },
    },
    {
      name: "is replaced if it is being deleted",
      found: [claim({ deletionTimestamp: NOW })],
      want: { kind: "ending" },
    },
    {
      name: "is used while it is being deleted if a NIC uses it",
      found: [claim({ deletionTimestamp: NOW })],
      vmi: attached(vmiWith()),
      want: usable,
    },
    {
      name: "is not required with addresses",
      vmi: vmiWith({ ips: ["10.0.0.1/24"] }),
      want: undefined,
    },
    { name: "is not required with a claim", vmi: vmiWith({ ipamClaimName: "x" }), want: undefined },
    {
      name: "is not required for an absent NIC",
      vmi: vmiWith({ state: "absent" }),
      want: undefined,
    },
    {
      name: "is not required on other networks",
      vmi: vmiWith({}, { name: "one", network: "plain" }),
      want: undefined,
    },
  ])("$name", ({ found = [], vmi = vmiWith(), unavailable, want }) => {
    expect(resolve(vmi, found, unavailable)).toEqual(want);
  });

  test("is owned by a VMI without a VM", () => {
    const state = resolve(aVmi({ nics: [NIC] }), []);
    const created = state?.kind === "missing" ? state.claim : undefined;
    expect(created?.metadata.ownerReferences).toEqual([
      { ...VM_OWNER, kind: "VirtualMachineInstance", uid: "vmi-uid" },
    ]);
    expect(created && findIpamClaimOwner(created)).toBe("default/vm1");
  });

  test("is found by the VM that owns it", () => {
    expect(findIpamClaimOwner(claim())).toBe("default/vm1");
    expect(findIpamClaimOwner(claim({ ownerReferences: [] }))).toBeUndefined();
    const set = { ...VM_OWNER, kind: "StatefulSet" };
    expect(findIpamClaimOwner(claim({ ownerReferences: [set] }))).toBeUndefined();
  });
});

function planWith(facts: IpamClaimFacts, pod?: ReturnType<typeof aPod>) {
  const vmi = vmiWith();
  return planVmi({
    vmi,
    pod,
    settings: SETTINGS,
    ...CLUSTER,
    definitions: DEFINITIONS,
    ipamClaims: facts,
  });
}

const NO_CLAIMS: IpamClaimFacts = { claims: new Map() };
const ONE_CLAIM: IpamClaimFacts = { claims: new Map([["vm1.one", claim()]]) };
const ELEMENT = { name: "blue", namespace: "default", interface: POD_NIC };
const CLAIMING = {
  name: "blue",
  namespace: "default",
  interface: POD_NIC,
  "ipam-claim-reference": "vm1.one",
};

describe("a launcher", () => {
  test("is created when the claims exist, and references them", () => {
    expect(planWith(NO_CLAIMS)).toEqual([{ kind: "createIpamClaim", claim: claim() }]);
    const [create] = planWith(ONE_CLAIM);
    expect(create?.kind === "createPod" && readPodNetworkElements(create.pod)).toEqual([CLAIMING]);
  });

  test("waits until an obsolete claim is deleted", () => {
    const deleted = claim({ deletionTimestamp: NOW });
    expect(planWith({ claims: new Map([["vm1.one", deleted]]) })).toEqual([]);
  });

  test("is created without a reference if claims are unavailable", () => {
    const [create] = planWith({ claims: new Map(), unavailable: "no such kind" });
    expect(create?.kind === "createPod" && readPodNetworkElements(create.pod)).toEqual([ELEMENT]);
  });

  test("requests a plugged NIC when its claim exists", () => {
    const kinds = (facts: IpamClaimFacts): readonly string[] =>
      planWith(facts, aPod()).map(({ kind }) => kind);
    expect(kinds(NO_CLAIMS)).toEqual(["labelNode", "createIpamClaim"]);
    expect(kinds(ONE_CLAIM)).toEqual(["labelNode", "patchPodNetworks"]);
  });

  test("requests no earlier addresses beside a claim", () => {
    const retainedAddresses = [{ name: "one", networkName: "default/blue", ips: ["10.0.0.9"] }];
    const ipamClaims = resolveIpamClaims(
      { vmi: vmiWith(), pod: undefined },
      DEFINITIONS,
      ONE_CLAIM,
    );
    const owner = { vmi: vmiWith(), bindings: {}, retainedAddresses };
    expect(planPodNetworks({ ...owner, ipamClaims }, [])).toEqual([CLAIMING]);
    expect(planPodNetworks(owner, [])).toEqual([
      { ...ELEMENT, "io.patchbay.kept-ips": ["10.0.0.9"] },
    ]);
  });

  test("of a migration references the source pod's claims", () => {
    const attachments = attached(vmiWith()).status?.attachments ?? [];
    expect([...findIpamClaimsInUse(attachments, [CLAIMING])]).toEqual([
      ["one", { kind: "usable", name: "vm1.one" }],
    ]);
    expect([...findIpamClaimsInUse(attachments, [ELEMENT])]).toEqual([]);
    const other = { ...CLAIMING, interface: "pod0123456789a", "ipam-claim-reference": SWAP_NAME };
    const next = { name: "one", podInterfaceName: other.interface, state: "Attached" } as const;
    expect([...findIpamClaimsInUse([...attachments, next], [CLAIMING, other])]).toEqual([
      ["one", { kind: "usable", name: "vm1.one" }],
    ]);
  });
});

describe("an attached NIC without a claim", () => {
  const entry = { name: "default/blue", interface: POD_NIC, ips: ["10.0.0.9"] };
  const report = (facts: IpamClaimFacts, element: object) => {
    const vmi = attached(vmiWith());
    const ipamClaims = resolveIpamClaims({ vmi, pod: undefined }, DEFINITIONS, facts);
    const pod = { elements: [{ ...ELEMENT, ...element }], networkStatus: [entry], errors: {} };
    return attachmentStatuses({ vmi, bindings: {}, ipamClaims }, { ...pod, podIps: [] })[0];
  };

  test("reports why", () => {
    expect(report({ claims: new Map(), unavailable: "no such kind" }, {})).toMatchObject({
      state: "Attached",
      reason: "AddressNotClaimed",
      message:
        "network default/blue offers persistent addresses, but the NIC has no IPAMClaim: no such kind; the addresses may change at the next start",
    });
    expect(report(ONE_CLAIM, {})?.message).toContain("attached before its IPAMClaim existed");
  });

  test("reports nothing if its request references a claim", () => {
    const found = report(ONE_CLAIM, CLAIMING);
    expect(found?.state).toBe("Attached");
    expect(found?.reason).toBeUndefined();
  });
});

const ATTACHMENTS = attached(vmiWith()).status?.attachments ?? [];
const FORMER = {
  name: "one",
  podInterfaceName: "pod0123456789a",
  networkName: "default/red",
  state: "Removing",
} as const;

describe("the end of a claim", () => {
  const deleted = claim({ deletionTimestamp: NOW });
  const vm = aVm({ nics: [NIC] });
  const swapping = aPod({
    [names.NETWORKS_ANNOTATION]: printNetworks([
      { ...CLAIMING, "ipam-claim-reference": SWAP_NAME },
    ]),
  });
  const bare = aVm();
  const owners = { vm, vmi: undefined, pod: undefined, definitions: DEFINITIONS };
  const referencing = aPod({ [names.NETWORKS_ANNOTATION]: printNetworks([CLAIMING]) });
  const plan = (each: IpamClaim, more: Partial<typeof owners> | object = {}): readonly string[] =>
    planIpamClaims([each], { ...owners, ...more }).map(({ kind }) => kind);

  test.each<{ name: string; claim?: IpamClaim; owners?: object; want: readonly string[] }>([
    { name: "does not come while the VM is stopped", want: [] },
    {
      name: "comes when the VM no longer has the NIC",
      owners: { vm: bare },
      want: ["deleteIpamClaim"],
    },
    {
      name: "waits until a removed NIC is detached",
      owners: { vm: bare, vmi: attached(aVmi({ ownedByVm: true })) },
      want: [],
    },
    {
      name: "waits while the launcher requests the NIC",
      owners: { vm: bare, vmi: aVmi({ ownedByVm: true }), pod: referencing },
      want: [],
    },
    {
      name: "comes when the network no longer offers persistent addresses",
      owners: { definitions: new Map([["default/blue", definition({ name: "tenant-blue" })]]) },
      want: ["deleteIpamClaim"],
    },
    {
      name: "does not come when the definition is missing",
      owners: { definitions: new Map() },
      want: [],
    },
    {
      name: "comes when the network's name has changed",
      claim: claim({}, { network: "tenant-red", interface: POD_NIC }),
      want: ["deleteIpamClaim"],
    },
    {
      name: "comes after a network swap, when the NIC has the claim of its new network",
      claim: claim({}, { network: "tenant-red", interface: POD_NIC }),
      owners: { vmi: attached(vmiWith()), pod: swapping },
      want: ["deleteIpamClaim"],
    },
    {
      name: "waits in a network swap until the former NIC is detached",
      claim: claim({}, { network: "tenant-red", interface: POD_NIC }),
      owners: {
        vmi: { ...vmiWith(), status: { attachments: [FORMER, ...ATTACHMENTS] } },
        pod: swapping,
      },
      want: [],
    },
    {
      name: "does not come to the claim of a network swap",
      claim: claim({ name: SWAP_NAME }),
      want: [],
    },
    {
      name: "comes to the claim of an earlier network swap",
      claim: claim({ name: "vm1.one.06416dd8" }, { network: "tenant-red", interface: POD_NIC }),
      want: ["deleteIpamClaim"],
    },
    {
      name: "is left to the garbage collector without an owner",
      owners: { vm: undefined },
      want: [],
    },
    {
      name: "is left to the garbage collector if the VM is a new one",
      claim: claim({ ownerReferences: [{ ...VM_OWNER, uid: "earlier" }] }),
      owners: { vm: bare },
      want: [],
    },
    {
      name: "completes after the VMI",
      claim: deleted,
      owners: { vm: undefined },
      want: ["releaseIpamClaim"],
    },
    { name: "waits for the VMI", claim: deleted, owners: { vmi: attached(vmiWith()) }, want: [] },
    {
      name: "completes before the first launcher",
      claim: deleted,
      owners: { vmi: vmiWith() },
      want: ["releaseIpamClaim"],
    },
    {
      name: "is not planned for a claim without the finalizer",
      claim: claim({ finalizers: ["other"], deletionTimestamp: NOW }),
      want: [],
    },
  ])("$name", ({ claim: each = claim(), owners: more, want }) => {
    expect(plan(each, more)).toEqual(want);
  });
});

const ADDRESSES = "network.kubevirt.io/addresses";

function requesting(addresses: unknown, vmi = vmiWith()): VirtualMachineInstance {
  const annotations = { [ADDRESSES]: JSON.stringify(addresses) };
  return { ...vmi, metadata: { ...vmi.metadata, annotations } };
}

describe("addresses that the annotation requests", () => {
  const spec = { network: "tenant-blue", interface: POD_NIC };
  const both = ["10.100.200.9/24", "fd10:100:200::9/64"];
  const wanted = requesting({ one: ["10.100.200.9", "fd10:100:200::9"] });
  const claiming = claim({}, { ...spec, ipRequests: both });
  const elements = (vmi: VirtualMachineInstance, facts?: IpamClaimFacts) => {
    const ipamClaims = resolveIpamClaims({ vmi, pod: undefined }, DEFINITIONS, facts);
    return planPodNetworks({ vmi, bindings: {}, ipamClaims }, []);
  };

  test("are requested by the claim, with the subnets' prefix lengths", () => {
    expect(resolve(wanted, [])).toEqual({ kind: "missing", claim: claiming });
    expect(elements(wanted, { claims: new Map([["vm1.one", claiming]]) })).toEqual([CLAIMING]);
  });

  test("replace a claim with other addresses, unless a NIC uses it or a user created it", () => {
    const other = { ...claim({}, spec), status: { ips: ["10.100.200.3/24"] } };
    expect(resolve(wanted, [other])).toEqual({ kind: "ending" });
    expect(resolve(attached(wanted), [other])).toEqual({
      kind: "unusable",
      message:
        "IPAMClaim default/vm1.one does not request the addresses of annotation network.kubevirt.io/addresses",
    });
    const own = claim({ ownerReferences: [] }, { ...spec, ipRequests: ["10.100.200.7/24"] });
    expect(resolve(vmiWith(), [own])).toEqual({ kind: "usable", name: "vm1.one" });
  });

  test("do not replace a claim without requests that may still get them", () => {
    // ipam-extensions creates such claims, and the API server drops `ipRequests` if the definition lacks the field.
    const usable = {
      kind: "usable",
      name: "vm1.one",
      requested: ["10.100.200.9", "fd10:100:200::9"],
    };
    expect(resolve(wanted, [claim({}, spec)])).toEqual(usable);
    expect(resolve(wanted, [{ ...claim({}, spec), status: { ips: both } }])).toEqual(usable);
    const others = claim({}, { ...spec, ipRequests: ["10.100.200.7/24"] });
    expect(resolve(wanted, [others])).toEqual({ kind: "ending" });
    const vm = aVm({ nics: [NIC] });
    const template = { ...vm.spec.template, metadata: wanted.metadata };
    const changed = { ...vm, spec: { ...vm.spec, template } };
    const owners = { vm: changed, vmi: undefined, pod: undefined, definitions: DEFINITIONS };
    expect(planIpamClaims([claim({}, spec)], owners)).toEqual([]);
  });

  test("are requested in the element if the network has no subnet for them", () => {
    const config = { ...OVN_NETWORK, subnets: "10.100.200.0/24" };
    const definitions = new Map([["default/blue", definition(config)]]);
    const users = { vmi: wanted, pod: undefined };
    const ipamClaims = resolveIpamClaims(users, definitions, NO_CLAIMS);
    expect(ipamClaims.get("one")).toEqual({
      kind: "unusable",
      message: "network tenant-blue has no subnet for 10.100.200.9, fd10:100:200::9",
    });
    const ips = ["10.100.200.9", "fd10:100:200::9"];
    expect(planPodNetworks({ ...users, bindings: {}, ipamClaims }, [])).toEqual([
      { ...ELEMENT, ips },
    ]);
  });

  test("are requested in the element on networks without claims, such as whereabouts'", () => {
    // Source: whereabouts, README "Example configurations". It has no claims.
    const ipam = { type: "whereabouts", range: "192.168.2.0/24", range_start: "192.168.2.10" };
    const config = { cniVersion: "1.0.0", name: "wb", type: "macvlan", master: "eth1", ipam };
    const vmi = requesting({ one: ["192.168.2.20"], two: ["192.168.2.21"] });
    const definitions = new Map([["default/blue", definition(config)]]);
    const ipamClaims = resolveIpamClaims({ vmi, pod: undefined }, definitions, NO_CLAIMS);
    expect([...ipamClaims]).toEqual([]);
    const retainedAddresses = [{ name: "one", networkName: "default/blue", ips: ["192.168.2.9"] }];
    const owner = { vmi, bindings: {}, ipamClaims, retainedAddresses };
    expect(planPodNetworks(owner, [])).toEqual([{ ...ELEMENT, ips: ["192.168.2.20"] }]);
  });

  test("do not replace addresses of the specification", () => {
    expect(elements(requesting({ one: ["10.0.0.9"] }, vmiWith({ ips: ["10.0.0.1"] })))).toEqual([
      { ...ELEMENT, ips: ["10.0.0.1"] },
    ]);
  });

  test("end a claim that requests others", () => {
    const vm = aVm({ nics: [NIC] });
    const owners = { vm, vmi: undefined, pod: undefined, definitions: DEFINITIONS };
    const kinds = (metadata: object): readonly string[] => {
      const template = { ...vm.spec.template, metadata };
      const changed = { ...vm, spec: { ...vm.spec, template } };
      return planIpamClaims([claiming], { ...owners, vm: changed }).map(({ kind }) => kind);
    };
    expect(kinds({})).toEqual(["deleteIpamClaim"]);
    expect(kinds(wanted.metadata)).toEqual([]);
  });

  test("are reported on the NIC if the network ignores them", () => {
    const vmi = attached(wanted);
    const facts = { claims: new Map([["vm1.one", claiming]]) };
    const ipamClaims = resolveIpamClaims({ vmi, pod: undefined }, DEFINITIONS, facts);
    const report = (ips: readonly string[]) => {
      const networkStatus = [{ name: "default/blue", interface: POD_NIC, ips }];
      const pod = { elements: [CLAIMING], networkStatus, errors: {}, podIps: [] };
      return attachmentStatuses({ vmi, bindings: {}, ipamClaims }, pod)[0];
    };
    expect(report(["10.100.200.3", "fd10:100:200::9"])).toMatchObject({
      state: "Attached",
      reason: "AddressNotClaimed",
      message:
        "network default/blue assigned 10.100.200.3, fd10:100:200::9 instead of 10.100.200.9, fd10:100:200::9, which annotation network.kubevirt.io/addresses requests",
    });
    expect(report(["10.100.200.9", "fd10:100:200::9"])?.reason).toBeUndefined();
  });
});
