// SPDX-License-Identifier: Apache-2.0
// What are Services given, which of what they ask for is refused, and in whose words?
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Harness, startHarness } from "../harness.ts";

const SERVICES = "/api/v1/namespaces/default/services";
const WEB = { ports: [{ port: 80 }], selector: { app: "web" } };
const ON_NODE = { ...WEB, type: "NodePort" };

let api: Harness;

beforeAll(async () => {
  api = await startHarness();
});

afterAll(async () => {
  await api.close();
});

function service(spec: object, name?: string): object {
  return { metadata: name === undefined ? { generateName: "s-" } : { name }, spec };
}

/** Of a Service as it is answered. */
function portsOf(spec: Readonly<Record<string, unknown>>) {
  return spec["ports"] as readonly { readonly nodePort?: number }[]; // as the server has them
}

test("each has an address of its own, of the network of Services", async () => {
  const made = await Promise.all(
    Array.from({ length: 40 }, () => api.post(SERVICES, service(WEB))),
  );
  const addresses = made.map(({ body }) => String(body.spec["clusterIP"]));
  expect(new Set(addresses).size).toBe(made.length);
  for (const address of addresses) expect(address).toMatch(/^10\.96\.\d+\.\d+$/);
  expect(made[0]?.body.spec).toMatchObject({
    clusterIPs: [addresses[0]],
    ipFamilies: ["IPv4"],
    ports: [{ port: 80, protocol: "TCP", targetPort: 80 }],
    sessionAffinity: "None",
    type: "ClusterIP",
  });
});

test("ports of the node are different ones, and stay through changes that do not name them", async () => {
  const made = await Promise.all(
    Array.from({ length: 20 }, () => api.post(SERVICES, service(ON_NODE))),
  );
  const ports = made.map(({ body }) => portsOf(body.spec)[0]?.nodePort ?? 0);
  expect(new Set(ports).size).toBe(made.length);
  for (const port of ports) {
    expect(port).toBeGreaterThanOrEqual(30_000);
    expect(port).toBeLessThanOrEqual(32_767);
  }
  const path = `${SERVICES}/${made[0]?.body.metadata.name ?? ""}`;
  const { body } = await api.put(path, { ...service(ON_NODE, made[0]?.body.metadata.name) });
  expect(portsOf(body.spec)[0]?.nodePort).toBe(ports[0]);
  const changed = await api.patch(path, { spec: { type: "ClusterIP" } });
  expect([changed.code, portsOf(changed.body.spec)[0]?.nodePort]).toEqual([200, undefined]);
});

test("one that becomes a Service of the node is given a port, and none of another", async () => {
  const first = await api.post(SERVICES, service(ON_NODE));
  const taken = portsOf(first.body.spec)[0]?.nodePort;
  const { body } = await api.post(SERVICES, service(WEB));
  const path = `${SERVICES}/${body.metadata.name}`;
  const asked = { spec: { type: "NodePort", ports: [{ port: 80, nodePort: taken }] } };
  const refused = await api.patch(path, asked);
  expect([refused.code, refused.body.message]).toEqual([
    422,
    expect.stringContaining("provided port is already allocated"),
  ]);
  const changed = await api.patch(path, { spec: { type: "NodePort" } });
  expect(portsOf(changed.body.spec)[0]?.nodePort).not.toBe(taken);
});

test("an address that has been given is free again when its Service is gone", async () => {
  const asked = service({ ...WEB, clusterIP: "10.96.0.7" }, "asked");
  expect((await api.post(SERVICES, asked)).code).toBe(201);
  const again = await api.post(SERVICES, service({ ...WEB, clusterIP: "10.96.0.7" }));
  expect(again.body.message).toContain("provided IP is already allocated");
  await api.delete(`${SERVICES}/asked`);
  expect((await api.post(SERVICES, asked)).code).toBe(201);
});

test("an ExternalName has no address, and gets one when it becomes another", async () => {
  const spec = { type: "ExternalName", externalName: "db.example.org" };
  const { code, body } = await api.post(SERVICES, service(spec, "outside"));
  expect([code, body.spec["clusterIP"]]).toEqual([201, undefined]);
  const changed = await api.patch(`${SERVICES}/outside`, {
    spec: { type: "ClusterIP", externalName: null, ports: [{ port: 80 }] },
  });
  expect(changed.body.spec["clusterIP"]).toMatch(/^10\.96\./);
  const back = await api.patch(`${SERVICES}/outside`, { spec });
  expect([back.code, back.body.spec["clusterIP"]]).toEqual([200, undefined]);
});

test("one of a load balancer is told that there is none, and has a port of the node", async () => {
  const { headers, body } = await api.post(SERVICES, service({ ...WEB, type: "LoadBalancer" }));
  expect(String(headers["warning"])).toContain("no controller on this machine assigns addresses");
  expect(portsOf(body.spec)[0]?.nodePort).toBeGreaterThan(0);
});

test("a dry run is given what it would be, and takes nothing", async () => {
  const spec = { ...ON_NODE, ports: [{ port: 80, nodePort: 30_050 }], clusterIP: "10.96.0.8" };
  for (let round = 0; round < 2; round += 1) {
    expect((await api.post(`${SERVICES}?dryRun=All`, service(spec))).code).toBe(201);
  }
});

test.each([
  {
    name: "an address outside",
    spec: { clusterIP: "192.0.2.1" },
    says: "range of valid addresses",
  },
  { name: "the name server's", spec: { clusterIP: "10.96.0.10" }, says: "already allocated" },
  { name: "no address", spec: { clusterIP: "010.96.0.77" }, says: "must be a valid IPv4 address" },
  {
    name: "headless on the node",
    spec: { clusterIP: "None", type: "NodePort" },
    says: "may not be set to 'None' for NodePort services",
  },
  {
    name: "a port of the node for a ClusterIP",
    spec: { ports: [{ port: 80, nodePort: 30_080 }] },
    says: "may not be used when `type` is 'ClusterIP'",
  },
  {
    name: "a port of the node below the range",
    spec: { type: "NodePort", ports: [{ port: 80, nodePort: 22 }] },
    says: "The range of valid ports is 30000-32767",
  },
  { name: "SCTP", spec: { ports: [{ port: 80, protocol: "SCTP" }] }, says: 'values: "TCP", "UDP"' },
  { name: "an unknown type", spec: { type: "Anycast" }, says: "Unsupported value" },
  { name: "IPv6", spec: { ipFamilies: ["IPv6"] }, says: 'supported values: "IPv4"' },
  { name: "two families", spec: { ipFamilyPolicy: "RequireDualStack" }, says: "Unsupported value" },
  { name: "no name outside", spec: { type: "ExternalName" }, says: "spec.externalName: Required" },
  {
    name: "a name outside that is none",
    spec: { type: "ExternalName", externalName: "a_b" },
    says: "spec.externalName: Invalid",
  },
  {
    name: "ports of one name",
    spec: { ports: [1, 2].map((port) => ({ port, name: "a" })) },
    says: "spec.ports[1].name: Duplicate value",
  },
  { name: "no ports", spec: { ports: [] }, says: "spec.ports: Required value" },
  { name: "a target of 0", spec: { ports: [{ port: 1, targetPort: 0 }] }, says: "targetPort" },
])("$name is refused", async ({ spec, says }) => {
  const { code, body } = await api.post(SERVICES, service({ ...WEB, ...spec }));
  expect(code).toBe(422);
  expect(body.message).toContain(says);
});

test("a Service whose endpoints are given serves the server itself, and warns of nothing", async () => {
  const given = service({ ports: [{ port: 1 }] }, "endpoints-given");
  expect((await api.post(SERVICES, given)).headers["warning"]).toBeUndefined();
});
