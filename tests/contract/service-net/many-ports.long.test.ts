// SPDX-License-Identifier: Apache-2.0
// One tenant has as many ports as it can.
import { createClock } from "@patchbay/os";
import { createSilentLogger } from "@patchbay/telemetry";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { Forward } from "../../../packages/standalone/service-net/src/forward/forwards.ts";
import { ForwardTable } from "../../../packages/standalone/service-net/src/forward/forward-table.ts";
import { prepareHost } from "../../../packages/standalone/service-net/src/host/host.ts";
import { ADDRESSES, ask, BRIDGE, Networks, POD_NETWORK } from "./networks.ts";

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
  endpoints: [`${ADDRESSES.a} . 8080`],
  isSticky: false,
};

let networks: Networks;

beforeAll(async () => {
  networks = new Networks();
  await networks.serve("a", "a", 8080);
  await prepareHost(networks.runner, SERVICES);
});

afterAll(() => {
  networks.remove();
});

test("writes 24,000 ports of one tenant and 2,768 node ports within seconds", async () => {
  const many = Array.from({ length: 24_000 }, (_none, index): Forward => {
    const [service, port] = [Math.floor(index / 6000), 1 + (index % 6000)];
    const name = `red/s${String(service)}:${String(port)}/tcp`;
    return { ...WEB, name, port, address: `10.86.1.${String(service)}` };
  });
  const nodePorts = Array.from({ length: 2768 }, (_none, index): Forward => {
    const [port, nodePort] = [1 + index, 30_000 + index];
    const name = `red/ports:${String(port)}/tcp`;
    return { ...WEB, name, port, address: "10.86.2.1", nodePort };
  });
  const table = new ForwardTable({
    runner: networks.runner,
    clock: createClock(),
    log: createSilentLogger(),
    settings: SETTINGS,
    countWrite: () => undefined,
  });
  const startMs = performance.now();
  expect(await table.write([...many, ...nodePorts, WEB])).toEqual([]);
  expect(performance.now() - startMs).toBeLessThan(8000);
  expect(ask("host", WEB.address, 80)).toBe(`a ${ADDRESSES.host}`);
  expect(ask("host", "10.86.1.3", 5999)).toBe(`a ${ADDRESSES.host}`);
  expect(ask("out", ADDRESSES.outside, 32_767)).toBe(`a ${ADDRESSES.out}`);
});
