// SPDX-License-Identifier: Apache-2.0
// Network policies for connections that the kernel forwards from a Service to a pod.
import type { NicPolicy } from "@patchbay/core/policies";
import { createClock } from "@patchbay/os";
import { createSilentLogger } from "@patchbay/telemetry";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import type { Forward } from "../../../packages/standalone/service-net/src/forward/forwards.ts";
import { ForwardTable } from "../../../packages/standalone/service-net/src/forward/forward-table.ts";
import {
  buildPolicyTableName,
  prepareHost,
} from "../../../packages/standalone/service-net/src/host/host.ts";
import { createPolicyTable } from "../../../packages/standalone/service-net/src/policies/service-policies.ts";
import { ADDRESSES, ask, BRIDGE, Networks, POD_NETWORK } from "./networks.ts";

const SERVICES = "10.86.0.0/16";
const WEB: Forward = {
  name: "blue/web:80/tcp",
  protocol: "tcp",
  address: "10.86.0.5",
  port: 80,
  nodePort: 30_080,
  endpoints: [`${ADDRESSES.a} . 8080`],
  isSticky: false,
};

let networks: Networks;
let write: ReturnType<typeof createPolicyTable>;

beforeAll(async () => {
  networks = new Networks();
  await networks.serve("a", "a", 8080);
  const deps = { runner: networks.runner, clock: createClock(), log: createSilentLogger() };
  const settings = {
    table: "patchbay-services-10.86.0.0",
    serviceNetwork: SERVICES,
    dns: "10.86.0.10",
    podNetwork: POD_NETWORK,
    bridge: BRIDGE,
  };
  await prepareHost(networks.runner, SERVICES);
  await new ForwardTable({ ...deps, settings, countWrite: () => undefined }).write([WEB]);
  write = createPolicyTable({ ...deps, table: buildPolicyTableName(SERVICES) });
});

afterAll(() => {
  networks.remove();
});

describe("network policies", () => {
  const find = (name: string): string => ADDRESSES[name as keyof typeof ADDRESSES];
  afterEach(async () => {
    await write([]);
  });

  test.each<{ name: string; policy: NicPolicy; of: string; isOpen: boolean }>([
    { name: "isolated", of: "a", policy: { ingress: [] }, isOpen: false },
    {
      name: "that allows the client",
      of: "a",
      policy: { ingress: [{ peers: [find("b")] }] },
      isOpen: true,
    },
    {
      name: "that allows another port",
      of: "a",
      policy: {
        ingress: [{ peers: [find("b")], ports: [{ protocol: "tcp", first: 1, last: 79 }] }],
      },
      isOpen: false,
    },
    {
      name: "that allows the port of the pod",
      of: "a",
      policy: { ingress: [{ ports: [{ protocol: "tcp", first: 8080, last: 8080 }] }] },
      isOpen: true,
    },
    { name: "isolated for egress", of: "a", policy: { egress: [] }, isOpen: true },
    { name: "whose client is isolated", of: "b", policy: { egress: [] }, isOpen: false },
    {
      name: "whose client may reach the pod",
      of: "b",
      policy: { ingress: [], egress: [{ peers: [find("a")] }] },
      isOpen: true,
    },
  ])("restrict connections through a Service to a pod $name", async ({ policy, of, isOpen }) => {
    await write([{ address: find(of), policy }]);
    const answer = ask("b", WEB.address, 80);
    expect(answer.startsWith("a ")).toBe(isOpen);
    // Connections from the node always pass.
    expect(ask("host", WEB.address, 80)).toBe(`a ${ADDRESSES.host}`);
  });

  test("apply to clients on other machines by their own addresses", async () => {
    const allowOnly = (client: string) =>
      write([{ address: ADDRESSES.a, policy: { ingress: [{ peers: [client] }] } }]);
    await allowOnly(ADDRESSES.out);
    expect(ask("out", ADDRESSES.outside, 30_080)).toBe(`a ${ADDRESSES.out}`);
    await allowOnly(ADDRESSES.b);
    expect(ask("out", ADDRESSES.outside, 30_080)).not.toContain("a ");
  });
});
