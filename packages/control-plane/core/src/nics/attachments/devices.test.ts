// SPDX-License-Identifier: Apache-2.0
import type { Pod } from "@patchbay/api/kubernetes";
import { expect, test } from "vitest";
import { chooseDevice, mayHaveDevice, type DeviceFacts, type DeviceRequest } from "./devices.ts";

const NIC = "vendor.io/nic";
const SOCKETS = "vhost-user.patchbay.io/sockets";
const DIRECTORIES = new Map([[SOCKETS, ["s1", "s2"]]]);
const INPUT = new Map([
  [NIC, ["a", "b", "c"]],
  ["vendor.io/fast", ["a", "z"]],
]);

interface Row {
  readonly name: string;
  readonly request: DeviceRequest;
  readonly facts?: Partial<DeviceFacts>;
  readonly want: { readonly id?: string; readonly resource?: string } | string;
}

const ROWS: readonly Row[] = [
  { name: "the first device", request: { resource: NIC }, want: { id: "a", resource: NIC } },
  {
    name: "the next unused device",
    request: { resource: NIC },
    facts: { inUse: [{ id: "a", resource: NIC, holder: "net1" }] },
    want: { id: "b", resource: NIC },
  },
  {
    name: "an earlier device that was released",
    request: { resource: NIC },
    facts: { inUse: [{ id: "b", resource: NIC, holder: "net2" }] },
    want: { id: "a", resource: NIC },
  },
  {
    name: "not a device that another element names",
    request: { resource: NIC },
    facts: { requestedElsewhere: ["a"] },
    want: { id: "b", resource: NIC },
  },
  {
    name: "a device whose ID equals that of another resource's device in use",
    request: { resource: NIC },
    facts: { inUse: [{ id: "a", resource: "vendor.io/fast", holder: "net1" }] },
    want: { id: "a", resource: NIC },
  },
  {
    name: "not a device in use with an unknown resource",
    request: { resource: NIC },
    facts: { inUse: [{ id: "a", holder: "net1" }] },
    want: { id: "b", resource: NIC },
  },
  {
    name: "an error if all devices are in use or named",
    request: { resource: NIC },
    facts: {
      inUse: [
        { id: "a", resource: NIC, holder: "net1" },
        { id: "b", holder: "net2" },
      ],
      requestedElsewhere: ["c"],
    },
    want: `the pod has no more devices of ${NIC}: a is of net1, b is of net2, c is named by another element`,
  },
  {
    name: "no device and no error for a marker resource without kubelet devices",
    request: { resource: "bridge.network.kubevirt.io/br1" },
    want: {},
  },
  {
    name: "the named device",
    request: { resource: NIC, id: "c" },
    want: { id: "c", resource: NIC },
  },
  {
    name: "the named device, from its own resource",
    request: { id: "z" },
    want: { id: "z", resource: "vendor.io/fast" },
  },
  {
    name: "an error for a named device that the pod does not have",
    request: { id: "0000:00:1f.6" },
    want: "the kubelet gave the pod no device 0000:00:1f.6",
  },
  {
    name: "an error for a named device of another resource",
    request: { resource: NIC, id: "z" },
    want: `the kubelet gave the pod no device z of ${NIC}`,
  },
  {
    name: "an error for a named device in use",
    request: { resource: NIC, id: "a" },
    facts: { inUse: [{ id: "a", resource: NIC, holder: "net1" }] },
    want: "net1 has device a",
  },
  {
    name: "an unused socket directory",
    request: { resource: SOCKETS },
    facts: { allocated: DIRECTORIES, inUse: [{ id: "s1", resource: SOCKETS, holder: "net1" }] },
    want: { id: "s2", resource: SOCKETS },
  },
  {
    name: "a shared socket directory if none is unused",
    request: { resource: SOCKETS },
    facts: {
      allocated: DIRECTORIES,
      inUse: ["s1", "s2"].map((id) => ({ id, resource: SOCKETS, holder: "net1" })),
    },
    want: { id: "s1", resource: SOCKETS },
  },
  {
    name: "the named socket directory even if it is in use",
    request: { id: "s2" },
    facts: { allocated: DIRECTORIES, inUse: [{ id: "s2", resource: SOCKETS, holder: "net1" }] },
    want: { id: "s2", resource: SOCKETS },
  },
  {
    name: "an error if the pod has no device of the resource",
    request: { resource: SOCKETS },
    want: `the kubelet gave the pod no device of ${SOCKETS}`,
  },
  {
    name: "an error if neither resource nor device is requested",
    request: {},
    want: "its definition names no resource",
  },
];

test.each(ROWS)("$name", ({ request, facts, want }) => {
  const choice = chooseDevice(request, {
    allocated: INPUT,
    inUse: [],
    requestedElsewhere: [],
    ...facts,
  });
  expect(choice).toEqual(
    typeof want === "string" ? { ok: false, reason: want } : { ok: true, ...want },
  );
});

function aPod(spec: Partial<Pod["spec"]> = {}): Pod {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "p", namespace: "ns1" },
    spec: { containers: [{ name: "c", image: "i" }], ...spec },
  };
}

const requesting = [
  { name: "c", image: "i", resources: { limits: { [NIC]: "1", cpu: "1" } } },
] as const;

test.each([
  {
    name: "another resource",
    request: { resource: "vendor.io/other" },
    pod: aPod({ containers: requesting }),
    want: false,
  },
  { name: "nothing", request: { resource: NIC }, pod: aPod(), want: false },
  {
    name: "the resource",
    request: { resource: NIC },
    pod: aPod({ containers: requesting }),
    want: true,
  },
  {
    name: "the resource in an init container",
    request: { resource: NIC },
    pod: aPod({ initContainers: requesting }),
    want: true,
  },
  {
    name: "no resource but names a device",
    request: { resource: NIC, id: "a" },
    pod: aPod(),
    want: true,
  },
  {
    name: "no resource but needs sockets",
    request: { resource: SOCKETS },
    pod: aPod(),
    want: true,
  },
  { name: "an unknown resource", request: { resource: NIC }, pod: undefined, want: true },
])("a pod that requests $name may have a device: $want", ({ request, pod, want }) => {
  expect(mayHaveDevice(request, pod)).toBe(want);
});
