// SPDX-License-Identifier: Apache-2.0
// What a launcher tells of its NICs by the downward API.
import { names, type BindingRegistry, type VirtualMachineInstance } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { aPod, aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { buildPodInterfaceName } from "../../nics/names.ts";
import { printNetworkInfo, buildNetworkInfoVolume } from "./network-info.ts";

const BINDINGS: BindingRegistry = {
  told: { domainAttachmentType: "tap", downwardAPI: "device-info" },
  silent: { domainAttachmentType: "tap" },
  refused: { domainAttachmentType: "odd", downwardAPI: "device-info" },
};
const MAC = "02:00:00:00:00:01";
const DEVICE = { type: "pci", version: "1.1.0", pci: { "pci-address": "0000:00:03.0" } };

/** Ifaces with the bindings of those names, in order; each is on a network of its own name. */
function vmiWith(...bindings: readonly string[]): VirtualMachineInstance {
  const vmi = aVmi({ nics: [] });
  const called = bindings.map((binding, at) => ({ binding, name: `n${String(9 - at)}` }));
  const interfaces = called.map(({ name, binding }) =>
    binding === "bridge" ? { name, bridge: {} } : { name, binding: { name: binding } },
  );
  const networks = called.map(({ name }) => ({ name, multus: { networkName: `net-${name}` } }));
  const domain = { ...vmi.spec.domain, devices: { interfaces } };
  return { ...vmi, spec: { ...vmi.spec, domain, networks } };
}

function nicOf(name: string): string {
  return buildPodInterfaceName({ name, multus: { networkName: "x" } });
}

function podWith(...entries: readonly object[]): Pod {
  const pod = aPod();
  const annotations = { [names.NETWORK_STATUS_ANNOTATION]: JSON.stringify(entries) };
  return { ...pod, metadata: { ...pod.metadata, annotations } };
}

function reported(vmi: VirtualMachineInstance, pod: Pod): unknown {
  const text = printNetworkInfo({ vmi, bindings: BINDINGS }, pod);
  return text === undefined ? undefined : JSON.parse(text);
}

describe("the network-info of an attached NIC", () => {
  const entry = { name: "default/net-n9", interface: nicOf("n9") };
  test.each<{ name: string; entry: object; want: object }>([
    {
      name: "contains device, MAC and MTU",
      entry: { mac: MAC, mtu: 1400, "device-info": DEVICE },
      want: { network: "n9", deviceInfo: DEVICE, mac: MAC, mtu: 1400 },
    },
    { name: "omits unknown fields", entry: {}, want: { network: "n9" } },
    {
      name: "omits malformed fields",
      entry: { mac: "x", mtu: 1.5, "device-info": "pci" },
      want: { network: "n9" },
    },
  ])("$name", ({ entry: more, want }) => {
    expect(reported(vmiWith("told"), podWith({ ...entry, ...more }))).toEqual({
      interfaces: [want],
    });
  });
});

test("omits missing NICs and sorts the others by network", () => {
  const vmi = vmiWith("told", "told", "told");
  const entries = ["n9", "n7"].map((name) => ({ name: "x", interface: nicOf(name), mac: MAC }));
  expect(reported(vmi, podWith(...entries))).toEqual({
    interfaces: [
      { network: "n7", mac: MAC },
      { network: "n9", mac: MAC },
    ],
  });
  expect(reported(vmi, podWith())).toEqual({});
});

test.each(["bridge", "silent", "refused", "unknown", "constructor"])(
  "is neither reported nor mounted for a VM with binding %s",
  (binding) => {
    const vmi = vmiWith(binding);
    expect(reported(vmi, podWith({ name: "x", interface: nicOf("n9") }))).toBeUndefined();
    expect(buildNetworkInfoVolume({ vmi, bindings: BINDINGS })).toBeUndefined();
  },
);

test("the launcher mounts network-info at KubeVirt's path", () => {
  expect(buildNetworkInfoVolume({ vmi: vmiWith("told"), bindings: BINDINGS })).toEqual({
    volume: {
      name: "podinfo",
      downwardAPI: {
        items: [
          {
            path: "network-info",
            fieldRef: { fieldPath: "metadata.annotations['kubevirt.io/network-info']" },
          },
        ],
      },
    },
    mount: { name: "podinfo", mountPath: "/etc/podinfo" },
  });
});
