// SPDX-License-Identifier: Apache-2.0
// Claims of the pod network on primary networks of OVN-Kubernetes.
import {
  names,
  type Iface,
  type IpamClaim,
  type NetworkAttachmentDefinition,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { aPod, aVm, aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { findSourceClaims } from "../migration/control/target-nics.ts";
import { attachmentStatuses, podNetworkFacts } from "../status/vmi.ts";
import { anIpamClaim, CLUSTER, SETTINGS } from "../testing/launcher-facts.ts";
import {
  findUnusedAddresses,
  planIpamClaims,
  resolveIpamClaims,
  type IpamClaimFacts,
  type IpamClaimState,
} from "./ipam-claims.ts";
import { buildPodAnnotations } from "./pod/inherited-fields.ts";
import { trimLauncher } from "./trimmed-objects.ts";
import {
  buildPrimaryAnnotations,
  findPrimaryNetwork,
  isPrimaryNetwork,
  withoutPrimaryRequest,
} from "./primary-network.ts";
import { planVmi } from "./vmi.ts";

const CLAIM_NAME = "vm1.podnet";
const ADDRESSES = "network.kubevirt.io/addresses";
const DEFAULT_NETWORK = "ovn-kubernetes/default";

function definition(
  config: object | string,
  name = "tenant",
  namespace = "default",
): NetworkAttachmentDefinition {
  return {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { namespace, name },
    spec: { config: typeof config === "string" ? config : JSON.stringify(config) },
  };
}

/** Definition that OVN-Kubernetes creates for a UserDefinedNetwork. Source: OVN-Kubernetes, clustermanager/userdefinednetwork/template. */
const CONFIG = {
  cniVersion: "1.1.0",
  name: "default_tenant",
  type: "ovn-k8s-cni-overlay",
  topology: "layer2",
  role: "primary",
  subnets: "10.100.0.0/16,fd10:100::/64",
  netAttachDefName: "default/tenant",
  allowPersistentIPs: true,
};
const DEFINITIONS = new Map([["default/tenant", definition(CONFIG)]]);

/** VMI on the pod network. */
function vmiWith(iface: Partial<Iface> = { bridge: {} }, addresses?: readonly string[]) {
  const vmi = aVmi({ ownedByVm: true });
  const devices = { interfaces: [{ name: "podnet", ...iface }] };
  const annotations = { [ADDRESSES]: JSON.stringify({ podnet: addresses }) };
  return {
    ...vmi,
    metadata: { ...vmi.metadata, ...(addresses !== undefined && { annotations }) },
    spec: {
      ...vmi.spec,
      networks: [{ name: "podnet", pod: {} }],
      domain: { ...vmi.spec.domain, devices },
    },
  };
}

function claim(ips?: string[]): IpamClaim {
  const spec = { network: "default_tenant", interface: "ovn-udn1" };
  return {
    ...anIpamClaim({ name: CLAIM_NAME }, spec),
    ...(ips !== undefined && { status: { ips } }),
  };
}

function factsOf(...claims: readonly IpamClaim[]): IpamClaimFacts {
  const found = new Map(claims.map((each) => [each.metadata.name, each]));
  return { claims: found, defaultNetwork: DEFAULT_NETWORK };
}

function resolve(
  vmi: VirtualMachineInstance,
  facts: IpamClaimFacts,
  definitions: ReadonlyMap<string, NetworkAttachmentDefinition> = DEFINITIONS,
): IpamClaimState | undefined {
  return resolveIpamClaims({ vmi, pod: undefined }, definitions, facts).get("podnet");
}

function annotationsOf(vmi: VirtualMachineInstance, facts: IpamClaimFacts) {
  const ipamClaims = resolveIpamClaims({ vmi, pod: undefined }, DEFINITIONS, facts);
  const annotations = buildPodAnnotations({ vmi, bindings: {}, ipamClaims });
  const text = annotations[names.DEFAULT_NETWORK_ANNOTATION];
  const request: unknown = text === undefined ? undefined : JSON.parse(text);
  return { claim: annotations["k8s.ovn.org/primary-udn-ipamclaim"], request };
}

describe("a primary network", () => {
  test.each<{ name: string; config: object | string; want: boolean }>([
    { name: "has the role", config: CONFIG, want: true },
    { name: "has no other role", config: { ...CONFIG, role: "secondary" }, want: false },
    { name: "has the role as a member", config: { name: "primary" }, want: false },
    { name: "has the role at the top", config: { plugins: [CONFIG] }, want: false },
    { name: "has valid JSON", config: '{"role": "primary"', want: false },
  ])("$name", ({ config, want }) => {
    expect(isPrimaryNetwork(definition(config))).toBe(want);
  });

  test("is found in its namespace", () => {
    const nads = [
      definition(CONFIG, "b"),
      definition(CONFIG, "a"),
      definition({ ...CONFIG, role: "secondary" }, "0"),
      definition(CONFIG, "0", "other"),
    ];
    expect(findPrimaryNetwork(nads, "default")?.metadata.name).toBe("a");
    expect(findPrimaryNetwork(nads, "third")).toBeUndefined();
    const { spec, ...bare } = definition(CONFIG);
    expect(spec).toBeDefined();
    expect(findPrimaryNetwork([bare], "default")).toBeUndefined();
  });
});

describe("the pod network's claim", () => {
  const primary = { networkName: "default/tenant", isClaimed: false };

  test("is created before the launcher, which references it", () => {
    expect(resolve(vmiWith(), factsOf())).toEqual({ kind: "missing", claim: claim(), primary });
    const plan = (facts: IpamClaimFacts) => {
      const facts2 = { vmi: vmiWith(), pod: undefined, settings: SETTINGS, ...CLUSTER };
      return planVmi({ ...facts2, definitions: DEFINITIONS, ipamClaims: facts });
    };
    expect(plan(factsOf())).toEqual([{ kind: "createIpamClaim", claim: claim() }]);
    const [create] = plan(factsOf(claim()));
    expect(create?.kind === "createPod" && create.pod.metadata.annotations).toMatchObject({
      "k8s.ovn.org/primary-udn-ipamclaim": CLAIM_NAME,
    });
  });

  test.each<{ name: string; definitions: readonly NetworkAttachmentDefinition[] }>([
    { name: "without a primary network", definitions: [] },
    { name: "in another namespace", definitions: [definition(CONFIG, "tenant", "other")] },
    {
      name: "without persistent addresses",
      definitions: [definition({ ...CONFIG, allowPersistentIPs: false })],
    },
    {
      name: "on a secondary network",
      definitions: [definition({ ...CONFIG, role: "secondary" })],
    },
  ])("is not required $name", ({ definitions }) => {
    const map = new Map(definitions.map((nad) => [`default/${nad.metadata.name}`, nad]));
    expect(resolve(vmiWith(), factsOf(), map)).toBeUndefined();
  });

  test("is not required by other networks of the VM", () => {
    const vmi = vmiWith();
    const networks = [{ name: "podnet", multus: { networkName: "tenant", default: true } }];
    expect(resolve({ ...vmi, spec: { ...vmi.spec, networks } }, factsOf())).toBeUndefined();
    const claimed = [{ name: "podnet", resourceClaim: { claimName: "a", requestName: "b" } }];
    const onDevice = { ...vmi, spec: { ...vmi.spec, networks: claimed } };
    expect(resolve(onDevice, factsOf())).toBeUndefined();
  });

  test.each<{
    name: string;
    iface?: Partial<Iface>;
    addresses?: readonly string[];
    facts?: IpamClaimFacts;
    want: unknown;
  }>([
    { name: "requests nothing by default", want: undefined },
    {
      // Source: ipam-extensions, podmutator_test.go.
      name: "requests the addresses and the MAC that the user wrote",
      iface: { bridge: {}, macAddress: "02:03:04:05:06:07" },
      addresses: ["10.100.0.9", "fd10:100::9"],
      want: [
        {
          name: "default",
          namespace: "ovn-kubernetes",
          mac: "02:03:04:05:06:07",
          ips: ["10.100.0.9/16", "fd10:100::9/64"],
          "ipam-claim-reference": CLAIM_NAME,
        },
      ],
    },
    {
      name: "requests no MAC with masquerade",
      iface: { masquerade: {}, macAddress: "02:03:04:05:06:07" },
      want: undefined,
    },
    {
      name: "requests no MAC without a definition of the default network",
      iface: { bridge: {}, macAddress: "02:03:04:05:06:07" },
      facts: { claims: new Map([[CLAIM_NAME, claim()]]) },
      want: undefined,
    },
  ])("$name", ({ iface, addresses, facts = factsOf(claim()), want }) => {
    const found = annotationsOf(vmiWith(iface, addresses), facts);
    expect(found).toEqual({ claim: CLAIM_NAME, request: want });
  });

  test.each<{
    name: string;
    addresses: readonly string[];
    facts?: IpamClaimFacts;
    want: string;
  }>([
    {
      name: "addresses of all IP versions",
      addresses: ["10.100.0.9"],
      want: "network default_tenant assigns one address of each of its IP versions, and 10.100.0.9 is requested",
    },
    {
      name: "a definition of the default network",
      addresses: ["10.100.0.9", "fd10:100::9"],
      facts: { claims: new Map() },
      want: "10.100.0.9, fd10:100::9 cannot be requested from network default_tenant, because the definition that virt-controller's --ovn-default-network names does not exist",
    },
  ])("needs $name to request addresses", ({ addresses, facts = factsOf(), want }) => {
    const state = resolve(vmiWith({ bridge: {} }, addresses), facts);
    expect(state).toEqual({ kind: "unusable", message: want, primary });
  });

  test("is replaced while no pod uses it if it has other addresses than are requested", () => {
    const vmi = vmiWith({ bridge: {} }, ["10.100.0.9", "fd10:100::9"]);
    const other = claim(["10.100.0.3/16", "fd10:100::3/64"]);
    expect(resolve(vmi, factsOf(other))?.kind).toBe("ending");
    expect(resolve(vmi, factsOf(claim(["10.100.0.9/16", "fd10:100::9/64"])))?.kind).toBe("usable");
    expect(resolve(vmi, factsOf(claim()))?.kind).toBe("usable");
    // The network has ignored the request.
    const ipRequests = ["10.100.0.9/16", "fd10:100::9/64"];
    const ignored = { ...other, spec: { ...other.spec, ipRequests } };
    expect(resolve(vmi, factsOf(ignored))?.kind).toBe("usable");
    expect(resolve(vmi, factsOf())).toEqual({
      kind: "missing",
      claim: { ...claim(), spec: ignored.spec },
      primary,
    });
    const vm = aVm();
    const template = { ...vm.spec.template, metadata: vmi.metadata, spec: vmi.spec };
    const owners = {
      vm: { ...vm, spec: { ...vm.spec, template } },
      vmi: undefined,
      pod: undefined,
      definitions: DEFINITIONS,
    };
    const kinds = (each: IpamClaim, more: object = {}): readonly string[] =>
      planIpamClaims([each], { ...owners, ...more }).map(({ kind }) => kind);
    expect(kinds(other)).toEqual(["deleteIpamClaim"]);
    expect(kinds(claim())).toEqual([]);
    expect(kinds(other, { definitions: new Map() })).toEqual([]);
    expect(kinds(other, { vmi, pod: aPod(buildPrimaryAnnotations({ name: CLAIM_NAME })) })).toEqual(
      [],
    );
    expect(kinds(claim(), { vm: aVm() })).toEqual(["deleteIpamClaim"]);
  });

  test("is that of the source pod, with the same request, for a migration's target", () => {
    const vmi = vmiWith({ bridge: {}, macAddress: "02:03:04:05:06:07" });
    const state = resolve(vmi, factsOf(claim()));
    const request = state?.kind === "usable" ? state.request : undefined;
    expect(request?.mac).toBe("02:03:04:05:06:07");
    const source = { name: CLAIM_NAME, ...(request && { request }) };
    const pod = trimLauncher(aPod(buildPrimaryAnnotations(source)));
    const facts = { vmi, pod, settings: SETTINGS, ...CLUSTER, definitions: DEFINITIONS };
    expect([...findSourceClaims(facts)]).toEqual([["podnet", { kind: "usable", ...source }]]);
    expect([...findSourceClaims({ ...facts, pod: aPod() })]).toEqual([]);
  });

  test("is reported if the launcher has none, or has other addresses than are requested", () => {
    const addresses = ["10.100.0.9", "fd10:100::9"];
    const report = (annotations: Readonly<Record<string, string>>, ips: readonly string[]) => {
      const vmi = vmiWith({ bridge: {} }, addresses);
      // Source: OVN-Kubernetes reports its NIC as the pod's default.
      const status = [
        { name: "ovn-kubernetes", interface: "eth0", ips: ["10.244.0.7"] },
        { name: "ovn-kubernetes", interface: "ovn-udn1", ips, default: true },
      ];
      const network = { [names.NETWORK_STATUS_ANNOTATION]: JSON.stringify(status) };
      const pod = aPod({ ...annotations, ...network });
      const ipamClaims = resolveIpamClaims({ vmi, pod }, DEFINITIONS, factsOf(claim()));
      return attachmentStatuses({ vmi, bindings: {}, ipamClaims }, podNetworkFacts(pod))[0];
    };
    const claimed = buildPrimaryAnnotations({ name: CLAIM_NAME });
    expect(report({}, addresses)).toMatchObject({
      podInterfaceName: "ovn-udn1",
      state: "Attached",
      reason: "AddressNotClaimed",
      message:
        "network default/tenant offers persistent addresses, but the NIC has no IPAMClaim: the NIC was attached before its IPAMClaim existed; the addresses may change at the next start",
    });
    expect(report(claimed, ["10.100.0.3"])?.message).toBe(
      "network default/tenant assigned 10.100.0.3 instead of 10.100.0.9, fd10:100::9, which annotation network.kubevirt.io/addresses requests",
    );
    expect(report(claimed, addresses)?.reason).toBeUndefined();
  });
});

test("only a launcher with a claim loses its request for the default network", () => {
  const own = aPod({ [names.DEFAULT_NETWORK_ANNOTATION]: "default/mine" });
  expect(withoutPrimaryRequest(own)).toBe(own);
  const request = { name: "default", namespace: "ovn-kubernetes" };
  const claimed = aPod(buildPrimaryAnnotations({ name: CLAIM_NAME, request }));
  expect(withoutPrimaryRequest(claimed)).toEqual(
    aPod(buildPrimaryAnnotations({ name: CLAIM_NAME })),
  );
});

test("a request for addresses of the pod network is warned of, because they may have no effect", () => {
  const { metadata, spec } = vmiWith({ bridge: {} }, ["10.100.0.9"]);
  expect(findUnusedAddresses("metadata", { metadata, spec })).toEqual([
    `metadata.annotations[${ADDRESSES}] (interface "podnet" is on the pod network, which assigns them only if the namespace has a primary network of OVN-Kubernetes)`,
  ]);
});
