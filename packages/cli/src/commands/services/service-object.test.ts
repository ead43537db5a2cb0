// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { buildService, type ExposeSettings } from "./service-object.ts";

const ORDER: ExposeSettings = {
  target: "one",
  namespace: "blue",
  spec: undefined,
  name: "web",
  protocol: "TCP",
  type: "ClusterIP",
};

function specWith(ports: readonly object[]): ExposeSettings["spec"] {
  // Only these members are read.
  return {
    networks: [
      { name: "default", pod: {} },
      { name: "blue", multus: { networkName: "blue" } },
    ],
    domain: {
      devices: {
        interfaces: [
          { name: "default", masquerade: {}, ports },
          { name: "blue", bridge: {}, ports: [{ port: 9 }] },
        ],
      },
    },
  } as ExposeSettings["spec"];
}

test("the Service selects the launcher by a label that every launcher has", () => {
  expect(buildService({ ...ORDER, port: 22 })).toEqual({
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: "web", namespace: "blue" },
    spec: {
      type: "ClusterIP",
      selector: { "vm.kubevirt.io/name": "one" },
      ports: [{ protocol: "TCP", port: 22 }],
    },
  });
});

test.each([
  {
    name: "another port of the guest",
    order: { port: 5555, targetPort: "22" },
    want: [{ protocol: "TCP", port: 5555, targetPort: 22 }],
  },
  {
    name: "a named port of the guest",
    order: { port: 80, targetPort: "http", portName: "web" },
    want: [{ name: "web", protocol: "TCP", port: 80, targetPort: "http" }],
  },
  {
    name: "a UDP node port",
    order: { port: 53, nodePort: 30_053, protocol: "UDP" },
    want: [{ protocol: "UDP", port: 53, nodePort: 30_053 }],
  },
  {
    name: "the ports that the interface declares",
    order: { spec: specWith([{ port: 80 }, { name: "ssh", port: 22, protocol: "TCP" }]) },
    want: [
      { name: "port-1", protocol: "TCP", port: 80 },
      { name: "ssh", protocol: "TCP", port: 22 },
    ],
  },
  {
    name: "the only port that the interface declares",
    order: { spec: specWith([{ port: 80 }]) },
    want: [{ protocol: "TCP", port: 80 }],
  },
])("$name", ({ order, want }) => {
  expect(buildService({ ...ORDER, ...order }).spec.ports).toEqual(want);
});

test("sets clusterIP None for a headless Service", () => {
  expect(buildService({ ...ORDER, port: 22, clusterIP: "None" }).spec.clusterIP).toBe("None");
});

test("rejects a Service without a port if the VM declares none", () => {
  expect(() => buildService({ ...ORDER, spec: specWith([]) })).toThrow(/--port: it is missing/);
});
