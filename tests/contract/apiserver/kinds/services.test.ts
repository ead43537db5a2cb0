// SPDX-License-Identifier: Apache-2.0
// Addresses, ports and validation of Services.
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

/** A Service as returned. */
function portsOf(spec: Readonly<Record<string, unknown>>) {
  return spec["ports"] as readonly { readonly nodePort?: number }[]; // as the server stores them
}

test("assigns each Service its own address from the Service network", async () => {
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

test("node ports are unique and stay through changes that do not name them", async () => {
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

test("a Service that becomes a NodePort gets a free port", async () => {
  const first = await api.post(SERVICES, service(ON_NODE));
  const claimed = portsOf(first.body.spec)[0]?.nodePort;
  const { body } = await api.post(SERVICES, service(WEB));
  const path = `${SERVICES}/${body.metadata.name}`;
  const requested = { spec: { type: "NodePort", ports: [{ port: 80, nodePort: claimed }] } };
  const refused = await api.patch(path, requested);
  expect([refused.code, refused.body.message]).toEqual([
    422,
    expect.stringContaining("provided port is already allocated"),
  ]);
  const changed = await api.patch(path, { spec: { type: "NodePort" } });
  expect(portsOf(changed.body.spec)[0]?.nodePort).not.toBe(claimed);
});

test("an address is free again when its Service is deleted", async () => {
  const requested = service({ ...WEB, clusterIP: "10.96.0.7" }, "asked");
  expect((await api.post(SERVICES, requested)).code).toBe(201);
  const again = await api.post(SERVICES, service({ ...WEB, clusterIP: "10.96.0.7" }));
  expect(again.body.message).toContain("provided IP is already allocated");
  await api.delete(`${SERVICES}/asked`);
  expect((await api.post(SERVICES, requested)).code).toBe(201);
});

test("an ExternalName has no address and gets one when its type changes", async () => {
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

test("a LoadBalancer causes a warning about missing load balancers, and gets a node port", async () => {
  const { headers, body } = await api.post(SERVICES, service({ ...WEB, type: "LoadBalancer" }));
  expect(String(headers["warning"])).toContain("no controller on this machine assigns addresses");
  expect(portsOf(body.spec)[0]?.nodePort).toBeGreaterThan(0);
});

test("a dry run shows the result and claims nothing", async () => {
  const spec = { ...ON_NODE, ports: [{ port: 80, nodePort: 30_050 }], clusterIP: "10.96.0.8" };
  for (let round = 0; round < 2; round += 1) {
    expect((await api.post(`${SERVICES}?dryRun=All`, service(spec))).code).toBe(201);
  }
});

test.each([
  {
    name: "an address outside the network",
    spec: { clusterIP: "192.0.2.1" },
    says: "range of valid addresses",
  },
  {
    name: "the name server's address",
    spec: { clusterIP: "10.96.0.10" },
    says: "already allocated",
  },
  {
    name: "an invalid address",
    spec: { clusterIP: "010.96.0.77" },
    says: "must be a valid IPv4 address",
  },
  {
    name: "a headless NodePort",
    spec: { clusterIP: "None", type: "NodePort" },
    says: "may not be set to 'None' for NodePort services",
  },
  {
    name: "a node port for a ClusterIP",
    spec: { ports: [{ port: 80, nodePort: 30_080 }] },
    says: "may not be used when `type` is 'ClusterIP'",
  },
  {
    name: "a node port below the range",
    spec: { type: "NodePort", ports: [{ port: 80, nodePort: 22 }] },
    says: "The range of valid ports is 30000-32767",
  },
  { name: "SCTP", spec: { ports: [{ port: 80, protocol: "SCTP" }] }, says: 'values: "TCP", "UDP"' },
  { name: "an unknown type", spec: { type: "Anycast" }, says: "Unsupported value" },
  { name: "IPv6", spec: { ipFamilies: ["IPv6"] }, says: 'supported values: "IPv4"' },
  { name: "two families", spec: { ipFamilyPolicy: "RequireDualStack" }, says: "Unsupported value" },
  {
    name: "an ExternalName without a name",
    spec: { type: "ExternalName" },
    says: "spec.externalName: Required",
  },
  {
    name: "an ExternalName with an invalid name",
    spec: { type: "ExternalName", externalName: "a_b" },
    says: "spec.externalName: Invalid",
  },
  {
    name: "duplicate port names",
    spec: { ports: [1, 2].map((port) => ({ port, name: "a" })) },
    says: "spec.ports[1].name: Duplicate value",
  },
  { name: "no ports", spec: { ports: [] }, says: "spec.ports: Required value" },
  { name: "a target port of 0", spec: { ports: [{ port: 1, targetPort: 0 }] }, says: "targetPort" },
])("rejects $name", async ({ spec, says }) => {
  const { code, body } = await api.post(SERVICES, service({ ...WEB, ...spec }));
  expect(code).toBe(422);
  expect(body.message).toContain(says);
});

test("serves a Service with manual endpoints without warnings", async () => {
  const input = service({ ports: [{ port: 1 }] }, "endpoints-given");
  expect((await api.post(SERVICES, input)).headers["warning"]).toBeUndefined();
});
