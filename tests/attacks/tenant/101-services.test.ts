// SPDX-License-Identifier: Apache-2.0
// Writers of Services or endpoints that try to intercept traffic or reach host-only addresses.
import { afterAll, beforeAll, expect, test } from "vitest";
import { listForwards } from "../../../packages/standalone/service-net/src/forward/forwards.ts";
import {
  listEntries,
  printTable,
} from "../../../packages/standalone/service-net/src/forward/ruleset.ts";
import {
  aService,
  aSlice,
  RANGES,
} from "../../../packages/standalone/service-net/src/testing/objects.ts";
import { type Harness, startHarness } from "../../contract/apiserver/harness.ts";

const SERVICES = "/api/v1/namespaces/default/services";
const GUEST = { addresses: ["10.88.0.5"] };

let api: Harness;

beforeAll(async () => {
  api = await startHarness();
});

afterAll(async () => {
  await api.close();
});

test.each([
  { what: "externalIPs", spec: { externalIPs: ["192.0.2.53"] } },
  { what: "an address in use", spec: { clusterIP: "192.0.2.53" } },
  { what: "the name server's address", spec: { clusterIP: "10.96.0.10" } },
  { what: "a port of the host", spec: { type: "NodePort", ports: [{ port: 1, nodePort: 22 }] } },
])("attack 101: rejects a Service with $what", async ({ spec }) => {
  const metadata = { generateName: "taken-" };
  const { code } = await api.post(SERVICES, { metadata, spec: { ports: [{ port: 53 }], ...spec } });
  expect(code).toBe(422);
});

test("attack 101: forwards nothing to addresses in a Service's status", async () => {
  const made = await api.post(SERVICES, {
    metadata: { name: "balanced" },
    spec: { type: "LoadBalancer", ports: [{ port: 80 }], selector: { a: "b" } },
  });
  const status = { loadBalancer: { ingress: [{ ip: "192.0.2.53" }] } };
  const { code, body } = await api.patch(`${SERVICES}/balanced/status`, { status });
  expect([made.code, code]).toEqual([201, 200]);
  const reported = { status: body.status ?? {} };
  const forwards = listForwards(
    { ...aService({ type: "LoadBalancer" }), ...reported },
    [aSlice([GUEST])],
    RANGES,
  );
  expect(forwards.map(({ address }) => address)).toEqual(["10.96.0.5"]);
});

test.each([
  "127.0.0.1",
  "169.254.169.254",
  "10.96.0.10",
  "224.0.0.1",
  "10.88.0.5 . 22 }; delete table ip nat; #",
])("attack 102: does not forward a slice's endpoint to %s", (address) => {
  const service = aService({ selector: {} });
  expect(listForwards(service, [aSlice([{ addresses: [address] }])], RANGES)).toEqual([]);
});

test("attack 102: ignores a slice of another protocol", () => {
  const ports = [{ name: "", port: 8080 }].map((port) => ({ ...port, protocol: "SCTP" }));
  expect(listForwards(aService(), [aSlice([GUEST], { ports })], RANGES)).toEqual([]);
});

test("attack 102: passes only addresses, numbers and object names of an object to nft", () => {
  const service = aService({ sessionAffinity: "ClientIP" });
  const forwards = listForwards(service, [aSlice([GUEST])], RANGES);
  const networks = { serviceNetwork: "10.96.0.0/16", podNetwork: "10.88.0.0/24" };
  const settings = { table: "t", dns: RANGES.dns, bridge: "br0", ...networks };
  const change = { service: "blue/web", before: [], after: forwards.flatMap(listEntries) };
  const text = printTable(settings, [change]);
  expect([...text.matchAll(/"([^"]*)"/g)].map(([, quoted]) => quoted)).toEqual([
    "lo",
    "br0",
    "blue/web:80/tcp",
  ]);
});
