// SPDX-License-Identifier: Apache-2.0
// Services of one tenant that would fail or exhaust those of all, on a real API server and the kernel's tables.
import type { Service } from "@patchbay/api/kubernetes";
import { createClock, createFiles, listListeningPorts } from "@patchbay/os";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ForwardTable } from "../../../packages/standalone/service-net/src/forward/forward-table.ts";
import {
  dropHostPorts,
  listForwards,
} from "../../../packages/standalone/service-net/src/forward/forwards.ts";
import { prepareHost } from "../../../packages/standalone/service-net/src/host/host.ts";
import { aSlice, RANGES } from "../../../packages/standalone/service-net/src/testing/objects.ts";
import { type Harness, QUIET, startHarness } from "../../contract/apiserver/harness.ts";
import {
  ADDRESSES,
  ask,
  BRIDGE,
  Networks,
  POD_NETWORK,
} from "../../contract/service-net/networks.ts";

const SERVICES = "10.96.0.0/16";
const TENANT = "t".repeat(63);
const NODE_PORT_TYPE = { type: "NodePort" };
/** A slice whose endpoint is pod `a`, for each port of a Service. */
const TO_A = { addresses: [ADDRESSES.a] };

let api: Harness;
let networks: Networks;
let table: ForwardTable;
let hostPid: number;

interface Ports {
  readonly ports: readonly { readonly port: number; readonly nodePort?: number }[];
}

function somePorts(count: number, first = 1): Ports["ports"] {
  return Array.from({ length: count }, (_none, index) => ({
    name: `p${String(first + index)}`,
    port: first + index,
  }));
}

beforeAll(async () => {
  [api, networks] = [await startHarness(), new Networks()];
  await networks.serve("a", "a", 8080);
  hostPid = await networks.serve("host", "host", 30_080);
  await prepareHost(networks.runner, SERVICES);
  table = new ForwardTable({
    runner: networks.runner,
    clock: createClock(),
    log: QUIET,
    settings: {
      table: "patchbay-services-10.96.0.0",
      serviceNetwork: SERVICES,
      dns: RANGES.dns,
      podNetwork: POD_NETWORK,
      bridge: BRIDGE,
    },
    countWrite: () => undefined,
  });
  for (const name of [TENANT, "thief", "victim"])
    await api.post("/api/v1/namespaces", { metadata: { name } });
});

afterAll(async () => {
  networks.remove();
  await api.close();
});

function create(namespace: string, name: string, spec: Ports & Partial<Service["spec"]>) {
  return api.post(`/api/v1/namespaces/${namespace}/services`, { metadata: { name }, spec });
}

async function createForVictim(
  name: string,
  spec: Partial<Service["spec"]> = {},
): Promise<Service> {
  const { code, text } = await create("victim", name, { ports: [{ port: 80 }], ...spec });
  if (code !== 201) throw new Error(text);
  return JSON.parse(text) as Service;
}

/** Writes all stored Services as service-net does. Each port has pod `a` as its endpoint. */
async function writeAll() {
  const { text } = await api.get("/api/v1/services");
  const { items } = JSON.parse(text) as { readonly items: readonly Service[] };
  const forwards = items.flatMap((service) => {
    const ports = (service.spec.ports ?? []).map(({ name = "", protocol = "TCP" }) => ({
      name,
      protocol,
      port: 8080,
    }));
    return listForwards(service, [aSlice([TO_A], { ports })], RANGES);
  });
  const listening = await listListeningPorts(createFiles(), `/proc/${String(hostPid)}/net`);
  const free = dropHostPorts(forwards, listening ?? []);
  return { forwards, leftOut: [...free.leftOut, ...(await table.write(free.forwards))] };
}

test("attack 142: a name that is longer than a comment of nft fails no other Service", async () => {
  const long = { name: "p", port: 65_535 };
  expect((await create(TENANT, "s".repeat(63), { ports: [long] })).code).toBe(201);
  const { forwards, leftOut } = await writeAll();
  expect([Math.max(...forwards.map(({ name }) => name.length)), leftOut]).toEqual([137, []]);
  const { spec } = await createForVictim("after");
  expect((await writeAll()).leftOut).toEqual([]);
  expect(ask("host", spec.clusterIP ?? "", 80)).toBe(`a ${ADDRESSES.host}`);
});

describe("attack 143: one tenant with as many ports as possible", () => {
  test("cannot create a Service with thousands of ports", async () => {
    const spec = { ...NODE_PORT_TYPE, ports: somePorts(2768) };
    const { code, body } = await create(TENANT, "huge", spec);
    expect([code, body.details.causes.map(({ field }) => field)]).toEqual([422, ["spec.ports"]]);
    expect((await create(TENANT, "huger", { ports: somePorts(6000) })).code).toBe(422);
  });

  test("leaves node ports to others, whose Services are forwarded", async () => {
    const all = somePorts(256);
    for (const name of ["a", "b", "c", "d"])
      expect((await create(TENANT, name, { ports: all })).code).toBe(201);
    expect((await create(TENANT, "nodes", { ...NODE_PORT_TYPE, ports: all })).code).toBe(201);
    const further = { ...NODE_PORT_TYPE, ports: somePorts(1) };
    const { code, body } = await create(TENANT, "more", further);
    expect([code, body.message]).toEqual([
      422,
      expect.stringContaining("may have 256 of the 2768 TCP ports of the node"),
    ]);
    const { spec } = await createForVictim("web", NODE_PORT_TYPE);
    const startMs = performance.now();
    expect((await writeAll()).leftOut).toEqual([]);
    expect(performance.now() - startMs).toBeLessThan(5000);
    expect(ask("out", ADDRESSES.outside, spec.ports?.[0]?.nodePort ?? 0)).toBe(
      `a ${ADDRESSES.out}`,
    );
  });
});

describe("attack 159: a node port on which a process of the host listens", () => {
  test("receives none of its connections", async () => {
    const ports = [{ port: 80, nodePort: 30_080 }];
    expect((await create("thief", "web", { ...NODE_PORT_TYPE, ports })).code).toBe(201);
    const { leftOut } = await writeAll();
    expect(leftOut).toMatchObject([{ service: "thief/web", part: "node port 30080/tcp" }]);
    expect(ask("out", ADDRESSES.outside, 30_080)).toBe(`host ${ADDRESSES.out}`);
    expect(ask("b", ADDRESSES.host, 30_080)).toBe(`host ${ADDRESSES.b}`);
    expect(ask("host", ADDRESSES.outside, 30_080)).toBe(`host ${ADDRESSES.outside}`);
  });

  test("is left to a process that begins to listen later", async () => {
    const ports = [{ port: 80, nodePort: 30_081 }];
    await createForVictim("early", { ...NODE_PORT_TYPE, ports });
    await writeAll();
    expect(ask("out", ADDRESSES.outside, 30_081)).toBe(`a ${ADDRESSES.out}`);
    await networks.serve("host", "host", 30_081);
    expect(ask("out", ADDRESSES.outside, 30_081)).toBe(`host ${ADDRESSES.out}`);
    expect(ask("b", ADDRESSES.host, 30_081)).toBe(`host ${ADDRESSES.b}`);
  });
});
