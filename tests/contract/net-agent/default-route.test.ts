// SPDX-License-Identifier: Apache-2.0
// Default routes of a pod follow the attachment that requests it, with real plugins and routes, and are restored.
import { eventually, run } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AgentMachine } from "./machine.ts";

const TIMEOUT = { withinMs: 10_000 };
const NAMESPACE = "default";
const CLUSTERS = "default via 10.244.0.1 dev eth0 metric 5 mtu 1450";

let machine: AgentMachine;

beforeAll(async () => {
  machine = await AgentMachine.start();
  await machine.putNad(NAMESPACE, "routed", [machine.node.bridgePlugin()]);
});
afterAll(async () => {
  await machine.close();
});

/** A pod with a cluster network, which requests `routed` with that gateway. */
async function runPod(name: string, gateway: string): Promise<(...text: string[]) => string> {
  const networks = JSON.stringify([{ name: "routed", "default-route": [gateway] }]);
  let id = "";
  await machine.runPod({
    namespace: NAMESPACE,
    name,
    networks,
    prepare: (sandbox) => {
      id = sandbox.id;
      run("ip", "-n", id, "link", "add", "eth0", "type", "veth", "peer", "name", "eth0x");
      for (const link of ["eth0", "eth0x"]) run("ip", "-n", id, "link", "set", link, "up");
      run("ip", "-n", id, "addr", "add", "10.244.0.9/24", "dev", "eth0");
      run("ip", "-n", id, "route", "add", ...CLUSTERS.split(" "));
      return Promise.resolve({});
    },
  });
  return (...text) => run("ip", "-n", id, ...text).trim();
}

test("a NIC's default route replaces the pod's, whatever its plugin set, and the old routes return", async () => {
  const ip = await runPod("moved", "10.55.0.9");
  const [entry] = await eventually(async () => {
    const entries = await machine.networkStatus(NAMESPACE, "moved");
    return entries.length > 0 ? entries : undefined;
  }, TIMEOUT);
  expect(entry?.gateway).toEqual(["10.55.0.9"]);
  expect(ip("route", "show", "default")).toBe("default via 10.55.0.9 dev net1");
  expect(ip("route", "get", "192.0.2.1")).toMatch(/via 10\.55\.0\.9 dev net1/);
  await machine.ask(NAMESPACE, "moved", "");
  await eventually(
    async () => (await machine.networkStatus(NAMESPACE, "moved")).length === 0 || undefined,
    TIMEOUT,
  );
  expect(ip("route", "show", "default")).toBe(CLUSTERS);
});

test("reports a gateway outside the network, and the pod retains its route", async () => {
  const ip = await runPod("kept", "192.0.2.9");
  const [error] = await eventually(async () => {
    const errors = Object.values(await machine.errors(NAMESPACE, "kept"));
    return errors.length > 0 ? errors : undefined;
  }, TIMEOUT);
  expect(error).toMatchObject({ reason: "RequestNotMet" });
  expect(error?.message).toMatch(
    /default route by 192\.0\.2\.9, which must be reached by an address of the NIC; the network assigned net1 10\.55\.0\.\d+\/24 \(.*network is unreachable/,
  );
  await machine.ask(NAMESPACE, "kept", "");
  await eventually(
    async () => Object.keys(await machine.errors(NAMESPACE, "kept")).length === 0 || undefined,
    TIMEOUT,
  );
  expect(ip("route", "show", "default")).toBe(CLUSTERS);
  expect(ip("-o", "link", "show")).not.toContain("net1");
});
