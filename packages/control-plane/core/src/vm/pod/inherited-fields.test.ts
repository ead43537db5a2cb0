// SPDX-License-Identifier: Apache-2.0
// Which labels and annotations of a VMI reach its pod?
import type { VirtualMachineInstance } from "@patchbay/api";
import { aVmi } from "@patchbay/support";
import { expect, test } from "vitest";
import { withNics } from "../../nics/nics.ts";
import { buildPodAnnotations, buildPodSettings } from "./inherited-fields.ts";
import { buildPodLabels } from "./selected-fields.ts";

function vmiWithMetadata(
  metadata: Partial<VirtualMachineInstance["metadata"]>,
): VirtualMachineInstance {
  const vmi = aVmi();
  return { ...vmi, metadata: { ...vmi.metadata, ...metadata } };
}

test("copies the VMI's labels and annotations to the pod, except reserved ones", () => {
  const annotations = {
    "example.com/team": "a",
    "k8s.v1.cni.cncf.io/networks": "stolen",
    "patchbay.io/pcie-topology": "{}",
    "kubectl.kubernetes.io/last-applied-configuration": "{}",
    "kubevirt.io/domain": "other",
  };
  const labels = { app: "web", "kubevirt.io": "other", "kubevirt.io/created-by": "other" };
  const vmi = vmiWithMetadata({ annotations, labels });
  expect(buildPodAnnotations({ vmi, bindings: {} })).toEqual({
    "example.com/team": "a",
    "kubevirt.io/domain": "vm1",
    "kubectl.kubernetes.io/default-container": "compute",
  });
  expect(buildPodLabels(vmi)).toEqual({
    app: "web",
    "kubevirt.io": "virt-launcher",
    "kubevirt.io/created-by": "vmi-uid",
    "vm.kubevirt.io/name": "vm1",
  });
});

test.each([
  { networkName: "blue", want: "default/blue" },
  { networkName: "other/blue", want: "other/blue" },
])("the pod's default network is $want", ({ networkName, want }) => {
  const networks = [{ name: "own", multus: { networkName, default: true } }];
  const annotations = { "v1.multus-cni.io/default-network": "stolen/network" };
  const vmi = vmiWithMetadata({ annotations });
  const spec = withNics(vmi.spec, networks, [{ name: "own", masquerade: {} }]);
  const owner = { vmi: { ...vmi, spec }, bindings: {} };
  expect(buildPodAnnotations(owner)).toMatchObject({ "v1.multus-cni.io/default-network": want });
  expect(buildPodAnnotations(owner)).not.toHaveProperty(["k8s.v1.cni.cncf.io/networks"]);
});

test("makes Istio intercept the traffic of an interface with masquerade binding", () => {
  const networks = [{ name: "own", pod: {} }];
  const annotationsFor = (binding: object): Readonly<Record<string, string>> => {
    const vmi = vmiWithMetadata({});
    const spec = withNics(vmi.spec, networks, [{ name: "own", ...binding }]);
    return buildPodAnnotations({ vmi: { ...vmi, spec }, bindings: {} });
  };
  expect(annotationsFor({ masquerade: {} })).toMatchObject({
    "istio.io/reroute-virtual-interfaces": "k6t-eth0",
    "traffic.sidecar.istio.io/kubevirtInterfaces": "k6t-eth0",
  });
  expect(JSON.stringify(annotationsFor({ bridge: {} }))).not.toContain("istio");
});

test("limits the VM's name in a label to 63 characters", () => {
  const label = buildPodLabels(vmiWithMetadata({ name: "v".repeat(200) }))["vm.kubevirt.io/name"];
  expect(label).toHaveLength(63);
});

function vmiWithSpec(spec: Partial<VirtualMachineInstance["spec"]>): VirtualMachineInstance {
  const vmi = aVmi();
  return { ...vmi, spec: { domain: vmi.spec.domain, ...spec } };
}

test("passes only set fields of the VMI to the pod", () => {
  const input = {
    affinity: { nodeAffinity: {} },
    dnsConfig: { nameservers: ["192.0.2.1"] },
    dnsPolicy: "None",
    nodeSelector: { zone: "a" },
    priorityClassName: "high",
    schedulerName: "other",
    subdomain: "web",
    tolerations: [{ key: "example.com/edge", operator: "Exists" }],
    topologySpreadConstraints: [{ maxSkew: 1 }],
  };
  expect(buildPodSettings(vmiWithSpec({ ...input, hostname: "web-1" }))).toEqual({
    ...input,
    hostname: "web-1",
  });
  const nameservers = ["01.1.1.1", "0127.0.0.3", "fd00::0a"];
  const { dnsConfig } = buildPodSettings(vmiWithSpec({ dnsConfig: { nameservers } }));
  expect(dnsConfig).toEqual({ nameservers: ["1.1.1.1", "127.0.0.3", "fd00::a"] });
  expect(buildPodSettings(vmiWithSpec({ dnsPolicy: "" }))).toEqual({ hostname: "vm1" });
});
