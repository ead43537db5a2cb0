// SPDX-License-Identifier: Apache-2.0
// Defaults, refusals and claims of Services.
import { expect, test } from "vitest";
import type { Fields } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { changeRefusals, created, objectOf, refusals, withDefaults } from "../../testing/judge.ts";
import { SERVICE } from "./service.ts";

const port = { port: 80, protocol: "TCP", targetPort: 80 };
const ADDRESS_FIELDS = {
  ipFamilies: ["IPv4"],
  ipFamilyPolicy: "SingleStack",
  internalTrafficPolicy: "Cluster",
};

test.each<{ name: string; given: Fields; want: Fields }>([
  {
    name: "a ClusterIP Service",
    given: { ports: [{ port: 80 }, { port: 53, protocol: "UDP", targetPort: "dns" }] },
    want: {
      type: "ClusterIP",
      sessionAffinity: "None",
      ports: [port, { port: 53, protocol: "UDP", targetPort: "dns" }],
      ...ADDRESS_FIELDS,
    },
  },
  {
    name: "a Service with a requested address",
    given: { clusterIP: "10.96.0.7", ipFamilyPolicy: "PreferDualStack" },
    want: {
      type: "ClusterIP",
      sessionAffinity: "None",
      clusterIP: "10.96.0.7",
      clusterIPs: ["10.96.0.7"],
      ...ADDRESS_FIELDS,
      ipFamilyPolicy: "PreferDualStack",
    },
  },
  {
    name: "a NodePort Service with session affinity",
    given: { type: "NodePort", sessionAffinity: "ClientIP" },
    want: {
      type: "NodePort",
      sessionAffinity: "ClientIP",
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 10_800 } },
      externalTrafficPolicy: "Cluster",
      ...ADDRESS_FIELDS,
    },
  },
  {
    name: "a LoadBalancer Service",
    given: { type: "LoadBalancer" },
    want: {
      type: "LoadBalancer",
      sessionAffinity: "None",
      allocateLoadBalancerNodePorts: true,
      externalTrafficPolicy: "Cluster",
      ...ADDRESS_FIELDS,
    },
  },
  {
    name: "a LoadBalancer Service without node ports",
    given: { type: "LoadBalancer", allocateLoadBalancerNodePorts: false },
    want: {
      type: "LoadBalancer",
      sessionAffinity: "None",
      allocateLoadBalancerNodePorts: false,
      ...ADDRESS_FIELDS,
    },
  },
  {
    name: "an ExternalName Service",
    given: { type: "ExternalName", externalName: "x.io", clusterIP: "", clusterIPs: [] },
    want: { type: "ExternalName", sessionAffinity: "None", externalName: "x.io" },
  },
])("a new Service: $name", ({ given, want }) => {
  const service = created(SERVICE, { spec: given });
  expect(service["spec"]).toEqual(want);
  expect(service["status"]).toEqual({ loadBalancer: {} });
});

test("a Service without a spec gets a default spec", () => {
  expect(withDefaults(SERVICE, {})["spec"]).toEqual({ type: "ClusterIP", sessionAffinity: "None" });
});

const NOT_PORT = "must be between 1 and 65535, inclusive";
const ports = [{ port: 80 }];

test.each<{ name: string; given: Fields; want: readonly string[] }>([
  { name: "a ClusterIP Service", given: { ports }, want: [] },
  {
    name: "the lowest and the highest port",
    given: { ports: [{ port: 1, targetPort: 65_535 }] },
    want: [],
  },
  { name: "missing ports", given: {}, want: ["spec.ports: Required value"] },
  { name: "missing ports of a headless Service", given: { clusterIP: "None" }, want: [] },
  {
    name: "an ExternalName Service",
    given: { type: "ExternalName", externalName: "x.io" },
    want: [],
  },
  {
    name: "an ExternalName Service with a node port and no name",
    given: { type: "ExternalName", ports: [{ port: 80, nodePort: 30_000 }] },
    want: [
      "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ExternalName'",
      "spec.externalName: Required value",
    ],
  },
  {
    name: "an invalid external name",
    given: { type: "ExternalName", externalName: "X" },
    want: [expect.stringMatching(/^spec\.externalName: Invalid value: "X": a lowercase/) as string],
  },
  {
    name: "unsupported values",
    given: {
      ports,
      type: "Radio",
      sessionAffinity: "Maybe",
      ipFamilies: ["IPv4", "IPv6"],
      ipFamilyPolicy: "RequireDualStack",
    },
    want: [
      'spec.type: Unsupported value: "Radio": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"',
      'spec.sessionAffinity: Unsupported value: "Maybe": supported values: "ClientIP", "None"',
      'spec.ipFamilies[1]: Unsupported value: "IPv6": supported values: "IPv4"',
      'spec.ipFamilyPolicy: Unsupported value: "RequireDualStack": supported values: "SingleStack", "PreferDualStack"',
    ],
  },
  {
    name: "invalid ports",
    given: {
      ports: [
        { name: "a", port: 0 },
        { name: "b", port: 65_536, targetPort: 1.5 },
        { name: "c", targetPort: "x", protocol: "SCTP" },
      ],
    },
    want: [
      `spec.ports[0].port: Invalid value: 0: ${NOT_PORT}`,
      `spec.ports[0].targetPort: Invalid value: 0: ${NOT_PORT}`,
      `spec.ports[1].port: Invalid value: 65536: ${NOT_PORT}`,
      `spec.ports[1].targetPort: Invalid value: 1.5: ${NOT_PORT}`,
      `spec.ports[2].port: Invalid value: 0: ${NOT_PORT}`,
      'spec.ports[2].protocol: Unsupported value: "SCTP": supported values: "TCP", "UDP"',
    ],
  },
  {
    name: "ambiguous ports",
    given: { ports: [port, { ...port, name: "a" }, { port: 81, name: "a" }, { port: 82 }] },
    want: [
      "spec.ports[0].name: Required value",
      'spec.ports[1]: Duplicate value: {"port":80,"protocol":"TCP","targetPort":80,"name":"a"}',
      'spec.ports[2].name: Duplicate value: "a"',
      "spec.ports[3].name: Required value",
    ],
  },
  {
    name: "one port for two protocols",
    given: {
      ports: [
        { port: 53, name: "t" },
        { port: 53, name: "u", protocol: "UDP" },
      ],
    },
    want: [],
  },
  {
    name: "node ports of a ClusterIP Service",
    given: { ports: [{ port: 80, nodePort: 30_000 }] },
    want: ["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
  },
  {
    name: "node ports of a NodePort Service",
    given: { type: "NodePort", ports: [{ port: 80, nodePort: 30_000 }] },
    want: [],
  },
  {
    name: "a headless NodePort Service",
    given: { type: "NodePort", clusterIP: "None", ports },
    want: [
      "spec.clusterIPs[0]: Invalid value: \"None\": may not be set to 'None' for NodePort services",
    ],
  },
  {
    name: "an address of IPv6",
    given: { clusterIP: "fd00::1", ports },
    want: ['spec.clusterIPs[0]: Invalid value: "fd00::1": must be a valid IPv4 address, or None'],
  },
  {
    name: "external IPs",
    given: { externalIPs: ["1.1.1.1"], ports },
    want: [
      "spec.externalIPs: Forbidden: this machine does not accept traffic for other addresses; use type NodePort",
    ],
  },
])("validation of a Service: $name", ({ given, want }) => {
  expect(refusals(SERVICE, { spec: given })).toEqual(want);
});

/** The change as it is stored, and the causes for which it is refused. */
function changed(before: Fields, after: Fields): KubeObject {
  const object = withDefaults(SERVICE, { spec: after });
  SERVICE.strategy.prepareUpdate?.(object, objectOf(SERVICE, { spec: before }));
  return object;
}

const addressed = { clusterIP: "10.96.0.7", clusterIPs: ["10.96.0.7"], ...ADDRESS_FIELDS };

test.each<{ name: string; before: Fields; after: Fields; want: Fields; not?: string }>([
  {
    name: "retains fields that a client omits",
    before: { ...addressed, type: "ClusterIP" },
    after: { clusterIP: "", ports },
    want: { ...addressed, ports: [port] },
  },
  {
    name: "loses its address when it becomes an ExternalName",
    before: addressed,
    after: { type: "ExternalName" },
    want: { type: "ExternalName" },
    not: "clusterIP",
  },
  {
    name: "gets an address when it was an ExternalName",
    before: { type: "ExternalName" },
    after: { clusterIP: "10.96.0.8" },
    want: { clusterIP: "10.96.0.8", clusterIPs: ["10.96.0.8"], ...ADDRESS_FIELDS },
  },
  {
    name: "loses its ports of the node with the type",
    before: {
      type: "NodePort",
      externalTrafficPolicy: "Local",
      ports: [{ port: 80, nodePort: 30_000 }],
    },
    after: { externalTrafficPolicy: "Local", ports: [{ port: 80, nodePort: 30_000 }] },
    want: { ports: [port] },
    not: "externalTrafficPolicy",
  },
  {
    name: "retains changed node ports for the validation to reject",
    before: { type: "NodePort", ports: [{ port: 80, nodePort: 30_000 }] },
    after: { externalTrafficPolicy: "Local", ports: [{ port: 80, nodePort: 30_001 }] },
    want: { externalTrafficPolicy: "Local", ports: [{ ...port, nodePort: 30_001 }] },
  },
  {
    name: "retains its node ports as a LoadBalancer",
    before: { type: "NodePort", ports: [{ port: 80, nodePort: 30_000 }] },
    after: { type: "LoadBalancer", ports: [{ port: 80, nodePort: 30_000 }] },
    want: { ports: [{ ...port, nodePort: 30_000 }], externalTrafficPolicy: "Cluster" },
  },
])("a changed Service $name", ({ before, after, want, not = "none" }) => {
  const { spec } = changed(before, after);
  expect(spec).toMatchObject(want);
  expect(spec).not.toHaveProperty(not);
});

test.each<{ name: string; before: Fields; after: Fields; want: readonly string[] }>([
  { name: "unchanged", before: addressed, after: addressed, want: [] },
  { name: "set for the first time", before: {}, after: addressed, want: [] },
  {
    name: "another",
    before: addressed,
    after: { clusterIP: "10.96.0.8", clusterIPs: ["10.96.0.8"] },
    want: [
      'spec.clusterIP: Invalid value: "10.96.0.8": may not change once set',
      'spec.clusterIPs[0]: Invalid value: ["10.96.0.8"]: may not change once set',
    ],
  },
  {
    name: "removed for an ExternalName",
    before: addressed,
    after: { type: "ExternalName" },
    want: [],
  },
  {
    name: "missing after type ExternalName",
    before: { ...addressed, type: "ExternalName" },
    after: {},
    want: [],
  },
])("the address of a Service is $name", ({ before, after, want }) => {
  expect(changeRefusals(SERVICE, { spec: before }, { spec: after })).toEqual(want);
});

test.each([
  {
    type: "LoadBalancer",
    want: [expect.stringContaining("no controller on this machine assigns addresses")],
  },
  { type: "NodePort", want: [] },
])("warns a client that writes a Service of type $type: $want", ({ type, want }) => {
  expect(SERVICE.strategy.warnings?.(objectOf(SERVICE, { spec: { type } }))).toEqual(want);
});
