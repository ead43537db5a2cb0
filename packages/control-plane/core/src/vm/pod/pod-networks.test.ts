// SPDX-License-Identifier: Apache-2.0
// What the launcher pod is asked for, and for how long; it can always be read.
import {
  names,
  type Attachment,
  type Iface,
  type Network,
  type VirtualMachineInstance,
  type VmiStatus,
} from "@patchbay/api";
import {
  NETWORKS_MAX,
  parseNetworks,
  printNetworks,
  type NetworkSelection,
} from "@patchbay/api/annotations";
import { aVmi, type NicSketch } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { buildPodInterfaceName } from "../../nics/names.ts";
import { attachmentStatuses } from "../../status/vmi.ts";
import { listNetworkNames, planPodNetworks } from "./pod-networks.ts";

function elementsOf(nics: readonly NicSketch[]): readonly string[] {
  const text = printNetworks(planPodNetworks({ vmi: aVmi({ nics }), bindings: {} }, []));
  const parsed = parseNetworks(text);
  if (!parsed.ok) throw new Error(`${names.NETWORKS_ANNOTATION}: ${parsed.reason}`);
  return parsed.elements.map(({ name, namespace = "" }) => `${namespace}/${name}`);
}

test("requests a network whose name has dots", () => {
  expect(elementsOf([{ name: "a", network: "blue.v2" }])).toEqual(["default/blue.v2"]);
});

test("reports an invalid name without blocking other networks", () => {
  const nics = [
    { name: "bad", network: "a.b/blue" },
    { name: "good", network: "green" },
  ];
  expect(elementsOf(nics)).toEqual(["default/green"]);
  const pod = { elements: [], networkStatus: [], errors: {}, podIps: [] };
  expect(attachmentStatuses({ vmi: aVmi({ nics }), bindings: {} }, pod)).toMatchObject([
    { name: "bad", state: "Failed", reason: "NetworkInvalid" },
  ]);
});

test("requests the first networks up to the limit", () => {
  const nics = Array.from({ length: NETWORKS_MAX + 6 }, (_unused, index) => ({
    name: `n${String(index)}`,
  }));
  expect(elementsOf(nics)).toHaveLength(NETWORKS_MAX);
});

function vmiWith(nics: readonly NicSketch[], status: VmiStatus = {}): VirtualMachineInstance {
  return aVmi({ nics, status });
}

function hashed(name: string): string {
  return buildPodInterfaceName({ name, multus: { networkName: "x" } });
}

function planned(
  vmi: VirtualMachineInstance,
  current: readonly NetworkSelection[] = [],
): readonly NetworkSelection[] {
  return planPodNetworks({ vmi, bindings: {} }, current);
}

test("has exactly the interface's requests in an element", () => {
  const vmi = vmiWith([{ name: "a" }, { name: "b", network: "other/green" }]);
  const [plain, full] = vmi.spec.domain.devices?.interfaces ?? [];
  const requested = {
    macAddress: "02:00:00:00:00:01",
    ips: ["10.0.0.1/24"],
    ipamClaimName: "claim",
    cniArgs: { key: "value" },
  };
  // Both were sketched.
  const interfaces = [plain, { ...full, ...requested }] as Iface[];
  const domain = { ...vmi.spec.domain, devices: { interfaces } };
  expect(planned({ ...vmi, spec: { ...vmi.spec, domain } })).toEqual([
    { name: "blue", namespace: "default", interface: hashed("a") },
    {
      name: "green",
      namespace: "other",
      interface: hashed("b"),
      mac: "02:00:00:00:00:01",
      ips: ["10.0.0.1/24"],
      "ipam-claim-reference": "claim",
      "cni-args": { key: "value" },
    },
  ]);
});

describe("requests nothing", () => {
  test.each<{ name: string; iface: Partial<Iface>; network?: Network; status?: VmiStatus }>([
    { name: "for an absent iface", iface: { state: "absent" } },
    { name: "for an unsupported binding", iface: { sriov: {} } },
    { name: "on the pod network", iface: {}, network: { name: "a", pod: {} } },
    {
      name: "on the pod's default network",
      iface: {},
      network: { name: "a", multus: { networkName: "x", default: true } },
    },
    { name: "on a missing network", iface: {}, network: { name: "other", pod: {} } },
    { name: "without a free port", iface: {}, status: { pciePorts: { total: 1, free: 0 } } },
  ])("$name", ({ iface, network, status }) => {
    const vmi = vmiWith([{ name: "a" }], status);
    const domain = {
      ...vmi.spec.domain,
      devices: { interfaces: [{ name: "a", bridge: {}, ...iface }] },
    };
    const networks = network === undefined ? vmi.spec.networks : [network];
    // The networks of a sketch are there.
    expect(planned({ ...vmi, spec: { ...vmi.spec, domain, networks: networks ?? [] } })).toEqual(
      [],
    );
  });
});

describe("existing requests of the pod", () => {
  const own = { name: "blue", namespace: "default", interface: hashed("a") };
  const attachmentIn = (state: Attachment["state"]): VmiStatus => ({
    attachments: [{ name: "a", podInterfaceName: hashed("a"), state }],
  });
  const deleted: readonly NicSketch[] = [{ name: "a", state: "absent" }];
  const here: readonly NicSketch[] = [{ name: "a" }];

  test.each([
    { name: "are unchanged while requested", vmi: vmiWith(here), want: true },
    {
      name: "are retained while the node uses them",
      vmi: vmiWith(deleted, attachmentIn("Attached")),
      want: true,
    },
    {
      name: "are removed after the node has released them",
      vmi: vmiWith(deleted, attachmentIn("Removing")),
      want: false,
    },
    {
      name: "are removed after the node has released them, even if requested again",
      vmi: vmiWith(here, attachmentIn("Removing")),
      want: false,
    },
    { name: "are removed if the node never received them", vmi: vmiWith(deleted), want: false },
  ])("$name", ({ vmi, want }) => {
    // What is there is not written anew: its namespace, for example, may be said otherwise.
    const current = [{ ...own, mac: "02:00:00:00:00:09" }];
    expect(planned(vmi, current)).toEqual(want ? current : []);
  });

  test("is not requested again before it is detached", () => {
    expect(planned(vmiWith(here, attachmentIn("Removing")))).toEqual([]);
  });

  test("belongs to another writer if its name is foreign or missing", () => {
    const foreign = [{ name: "red", interface: "net1" }, { name: "green" }];
    expect(planned(vmiWith(here), [...foreign, own])).toEqual([...foreign, own]);
    expect(planned(vmiWith(here), foreign)).toEqual([...foreign, own]);
  });
});

describe("a binding that adds a network", () => {
  const bindings = {
    own: { domainAttachmentType: "tap", networkAttachmentDefinition: "plug" },
    other: { domainAttachmentType: "managedTap", networkAttachmentDefinition: "default/plug" },
  };

  function vmiOn(binding: string, network: Network, status: VmiStatus = {}) {
    const vmi = vmiWith([{ name: "a" }], status);
    const interfaces = [{ name: "a", binding: { name: binding } }];
    const domain = { ...vmi.spec.domain, devices: { interfaces } };
    return { ...vmi, spec: { ...vmi.spec, domain, networks: [network] } };
  }

  const BLUE = { name: "a", multus: { networkName: "blue" } };
  const OWN = { name: "blue", namespace: "default", interface: hashed("a") };
  const EXTRA = {
    name: "plug",
    namespace: "default",
    interface: hashed("a").replace("pod", "bnd"),
    "cni-args": { logicNetworkName: "a" },
  };

  test("requests it after the interface's own network, with the owner for the plugin", () => {
    expect(planPodNetworks({ vmi: vmiOn("own", BLUE), bindings }, [])).toEqual([OWN, EXTRA]);
  });

  test("requests only it on the pod network, with the namespace of the registration", () => {
    const vmi = { ...vmiOn("other", { name: "a", pod: {} }) };
    const named = { ...vmi, metadata: { ...vmi.metadata, namespace: "mine" } };
    expect(planPodNetworks({ vmi: named, bindings }, [])).toEqual([
      { ...EXTRA, interface: "bndeth0" },
    ]);
  });

  test("retains both until the node has released the interface", () => {
    const deleting = (state: Attachment["state"]) => {
      const attachments = [{ name: "a", podInterfaceName: hashed("a"), state }];
      const vmi = vmiWith([{ name: "a", state: "absent" }], { attachments });
      return planPodNetworks({ vmi, bindings }, [OWN, EXTRA]);
    };
    expect(deleting("Attached")).toEqual([OWN, EXTRA]);
    expect(deleting("Removing")).toEqual([]);
  });
});

describe("a network that the pod's node does not have", () => {
  const absence = { reason: "NetworkNotOnNode", message: "node n1 cannot" } as const;
  const absences = new Map([["default/blue", absence]]);
  const vmi = vmiWith([
    { name: "one", network: "blue" },
    { name: "two", network: "green" },
  ]);
  const blue = { name: "blue", namespace: "default", interface: hashed("one") };
  const attachmentsOf = (elements: readonly NetworkSelection[]): readonly Attachment[] => {
    const pod = { elements, networkStatus: [], errors: {}, podIps: [] };
    return attachmentStatuses({ vmi, bindings: {}, absences }, pod);
  };

  test("is not requested, which is reported", () => {
    const elements = planPodNetworks({ vmi, bindings: {}, absences }, []);
    expect(elements.map(({ name }) => name)).toEqual(["green"]);
    expect(attachmentsOf(elements)[0]).toMatchObject({ name: "one", state: "Failed", ...absence });
  });

  test("stays requested if it was before; the node reports why it fails", () => {
    expect(planPodNetworks({ vmi, bindings: {}, absences }, [blue])).toMatchObject([
      blue,
      { name: "green" },
    ]);
    expect(attachmentsOf([blue])).not.toMatchObject([absence]);
  });

  test("is requested as soon as the node has it", () => {
    const elements = planPodNetworks({ vmi, bindings: {}, absences: new Map() }, []);
    expect(elements.map(({ name }) => name)).toEqual(["blue", "green"]);
  });
});

test("lists each network of a VMI once", () => {
  const vmi = vmiWith([
    { name: "one", network: "blue" },
    { name: "two", network: "other/green" },
    { name: "three", network: "blue" },
  ]);
  expect(listNetworkNames(vmi, {})).toEqual(["default/blue", "other/green"]);
});
