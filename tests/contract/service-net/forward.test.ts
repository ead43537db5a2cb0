// SPDX-License-Identifier: Apache-2.0
// The kernel forwards by the table: from the host, from pods, and from other hosts.
import { createClock } from "@patchbay/os";
import { createSilentLogger } from "@patchbay/telemetry";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { Forward } from "../../../packages/standalone/service-net/src/forward/forwards.ts";
import { ForwardTable } from "../../../packages/standalone/service-net/src/forward/forward-table.ts";
import {
  buildPolicyTableName,
  prepareHost,
  removeServices,
} from "../../../packages/standalone/service-net/src/host/host.ts";
import { createPolicyTable } from "../../../packages/standalone/service-net/src/policies/service-policies.ts";
import { ADDRESSES, ask, askByUdp, BRIDGE, Networks, POD_NETWORK, runAt } from "./networks.ts";

const SERVICES = "10.86.0.0/16";
const SETTINGS = {
  table: "patchbay-services-10.86.0.0",
  serviceNetwork: SERVICES,
  dns: "10.86.0.10",
  podNetwork: POD_NETWORK,
  bridge: BRIDGE,
};
const WEB: Forward = {
  name: "blue/web:80/tcp",
  protocol: "tcp",
  address: "10.86.0.5",
  port: 80,
  nodePort: 30_080,
  endpoints: [`${ADDRESSES.a} . 8080`],
  isSticky: false,
};
const UDP: Forward = { ...WEB, name: "blue/web:80/udp", protocol: "udp" };
const BOTH = [`${ADDRESSES.a} . 8080`, `${ADDRESSES.b} . 8080`];

let networks: Networks;
let keeper: ForwardTable;

beforeAll(async () => {
  networks = new Networks();
  await networks.serve("a", "a", 8080);
  await networks.serve("b", "b", 8080);
});

beforeEach(async () => {
  const log = createSilentLogger();
  keeper = new ForwardTable({
    runner: networks.runner,
    clock: createClock(),
    log,
    settings: SETTINGS,
    countWrite: () => undefined,
  });
  await prepareHost(networks.runner, SERVICES);
  await keeper.write([WEB, UDP]);
});

afterAll(() => {
  networks.remove();
});

/** Names of the servers that replied to so many requests. */
function answerers(count: number, from: "out" | "host"): ReadonlySet<string> {
  const answers = Array.from({ length: count }, () => ask(from, WEB.address, WEB.port));
  return new Set(answers.map((answer) => answer.split(" ")[0] ?? ""));
}

test.each([
  { from: "host", sees: ADDRESSES.host },
  { from: "b", sees: ADDRESSES.host },
  { from: "out", sees: ADDRESSES.host },
] as const)("forwards an address to its pod from $from", ({ from, sees }) => {
  expect(ask(from, WEB.address, 80)).toBe(`a ${sees}`);
  expect(askByUdp(from, WEB.address, 80)).toBe(`a ${sees}`);
});

test.each([
  { from: "host", to: ADDRESSES.outside, sees: ADDRESSES.host },
  { from: "b", to: ADDRESSES.outside, sees: ADDRESSES.host },
  { from: "b", to: ADDRESSES.host, sees: ADDRESSES.host },
  // A pod sees the address of a client from elsewhere.
  { from: "out", to: ADDRESSES.outside, sees: ADDRESSES.out },
] as const)("forwards a node port at $to to its pod from $from", ({ from, to, sees }) => {
  expect(ask(from, to, 30_080)).toBe(`a ${sees}`);
  expect(askByUdp(from, to, 30_080)).toBe(`a ${sees}`);
});

test("balances over endpoints, and by client with session affinity", async () => {
  const several = { ...WEB, endpoints: BOTH };
  await keeper.write([several, UDP]);
  // One endpoint 20 times in a row happens once in 500,000 runs.
  expect(answerers(20, "host")).toEqual(new Set(["a", "b"]));
  await keeper.write([{ ...several, isSticky: true }, UDP]);
  expect(answerers(10, "out").size).toBe(1);
});

test.each(["host", "b", "out"] as const)(
  "no endpoint and an unknown port refuse %s immediately",
  (from) => {
    expect(ask(from, WEB.address, 81)).toBe("refused ECONNREFUSED");
    expect(ask(from, "10.86.3.3", 80)).toBe("refused ECONNREFUSED");
  },
);

test.each(["b", "out"] as const)("no service refuses datagrams of %s", (from) => {
  expect(askByUdp(from, "10.86.3.3", 80)).toBe("refused ECONNREFUSED");
});

test("refuses a Service without endpoints immediately", async () => {
  await keeper.write([]);
  expect(ask("b", WEB.address, 80)).toBe("refused ECONNREFUSED");
  expect(ask("out", ADDRESSES.outside, 30_080)).toBe("refused ECONNREFUSED");
});

test("a change preserves foreign rules and restores flushed ones", async () => {
  await keeper.write([{ ...WEB, endpoints: [`${ADDRESSES.b} . 8080`] }, UDP]);
  expect(ask("host", WEB.address, 80)).toBe(`b ${ADDRESSES.host}`);
  expect(askByUdp("host", WEB.address, 80)).toBe(`a ${ADDRESSES.host}`);
  runAt("host", "nft", "flush", "ruleset");
  await keeper.write([WEB, UDP]);
  expect(ask("host", WEB.address, 80)).toBe(`a ${ADDRESSES.host}`);
});

test("a successor process adopts the existing rules", async () => {
  const log = createSilentLogger();
  const next = new ForwardTable({
    runner: networks.runner,
    clock: createClock(),
    log,
    settings: SETTINGS,
    countWrite: () => undefined,
  });
  await next.write([UDP]);
  expect(ask("host", WEB.address, 80)).toBe("refused ECONNREFUSED");
  expect(askByUdp("host", WEB.address, 80)).toBe(`a ${ADDRESSES.host}`);
});

describe("a Service that nft refuses", () => {
  const bad = { ...WEB, name: "red/bad:80/tcp", address: "10.86.0.9", nodePort: 30_090 };
  const refused = { ...bad, endpoints: ["10.87.7.300 . 8080"] };
  const leftOut = [{ service: "red/bad", reason: expect.stringContaining("Error") as unknown }];

  test("is left out of a change, and of a new table", async () => {
    await keeper.write([WEB, UDP, bad]);
    expect(ask("host", bad.address, 80)).toBe(`a ${ADDRESSES.host}`);
    const changed = { ...WEB, endpoints: [`${ADDRESSES.b} . 8080`] };
    expect(await keeper.write([changed, UDP, refused])).toEqual(leftOut);
    expect(ask("host", WEB.address, 80)).toBe(`b ${ADDRESSES.host}`);
    expect(ask("host", bad.address, 80)).toBe("refused ECONNREFUSED");
    runAt("host", "nft", "flush", "ruleset");
    expect(await keeper.write([WEB, UDP, refused])).toEqual(leftOut);
    expect(ask("host", WEB.address, 80)).toBe(`a ${ADDRESSES.host}`);
  });

  test("is forwarded after it is corrected", async () => {
    await keeper.write([WEB, UDP, refused]);
    expect(await keeper.write([WEB, UDP, bad])).toEqual([]);
    expect(ask("host", ADDRESSES.outside, 30_090)).toBe(`a ${ADDRESSES.host}`);
  });
});

test("writes names that are longer than a comment of nft", async () => {
  const long = { ...WEB, name: `${"n".repeat(63)}/${"s".repeat(63)}:65535/tcp` };
  expect(await keeper.write([long, UDP])).toEqual([]);
  expect(ask("host", WEB.address, 80)).toBe(`a ${ADDRESSES.host}`);
});

test("restores elements that another program deleted, when their Service changes", async () => {
  runAt("host", "nft", "flush", "map", "ip", SETTINGS.table, "addresses");
  expect(await keeper.write([{ ...WEB, endpoints: BOTH }, UDP])).toEqual([]);
  expect(answerers(1, "host").size).toBe(1);
});

test("writes many rules and changes single ones", async () => {
  const many = Array.from({ length: 500 }, (_none, index): Forward => {
    const port = 1000 + index;
    return { ...WEB, name: `blue/s:${String(port)}/tcp`, port, nodePort: 30_100 + index };
  });
  await keeper.write([WEB, UDP, ...many]);
  expect(ask("host", WEB.address, 1499)).toBe(`a ${ADDRESSES.host}`);
  await keeper.write([WEB, UDP, ...many.slice(0, -1)]);
  expect(ask("host", WEB.address, 1499)).toBe("refused ECONNREFUSED");
  expect(ask("host", WEB.address, 1498)).toBe(`a ${ADDRESSES.host}`);
});

test("leaves the host unchanged", async () => {
  const observed = (): readonly string[] => [
    runAt("host", "nft", "list", "ruleset"),
    runAt("host", "ip", "-4", "route"),
    runAt("host", "ip", "-4", "addr", "show", "lo"),
  ];
  const pods = [{ address: ADDRESSES.a, policy: { ingress: [] } }];
  const deps = { runner: networks.runner, log: createSilentLogger() };
  await createPolicyTable({ ...deps, table: buildPolicyTableName(SERVICES) })(pods);
  await removeServices(networks.runner, SERVICES);
  const [rules = "", routes = "", loopback = ""] = observed();
  expect([rules, routes.includes("10.86"), loopback.includes("10.86")]).toEqual(["", false, false]);
  // Repeated: nothing is left.
  await removeServices(networks.runner, SERVICES);
});
