// SPDX-License-Identifier: Apache-2.0
// An unusable network reports its fault and the next step in its events.
import { EVENTS } from "@patchbay/api";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AgentMachine } from "./machine.ts";

const TIMEOUT = { withinMs: 10_000 };
const NAMESPACE = "default";

let machine: AgentMachine;

beforeAll(async () => {
  machine = await AgentMachine.start();
});
afterAll(async () => {
  await machine.close();
});

/** A network's events as in `kubectl describe`. */
async function eventsOf(name: string): Promise<readonly string[]> {
  const { items } = await machine.admin.store.list(EVENTS, { namespace: NAMESPACE });
  return items
    .filter(({ involvedObject: about }) => about.kind === "NetworkAttachmentDefinition")
    .filter(({ involvedObject: about }) => about.name === name)
    .map(({ type, reason, message }) => [type, reason, message].join(" "));
}

/** Events are written shortly after their cause. */
async function firstEventsOf(name: string): Promise<readonly string[]> {
  return eventually(async () => {
    const events = await eventsOf(name);
    return events.length > 0 ? events : undefined;
  }, TIMEOUT);
}

test.each([
  {
    name: "broken",
    config: '{"cniVersion":"1.0.0","type":"bridge"',
    want: /^Warning NetworkInvalid .*is not a JSON object: .*; correct spec\.config of NetworkAttachmentDefinition default\/broken/,
  },
  {
    name: "unknown",
    config: '{"cniVersion":"1.0.0","type":"no-such-plugin"}',
    want: /^Warning PluginMissing CNI plugin no-such-plugin was not found in .*correct the name in spec\.config of NetworkAttachmentDefinition default\/unknown/,
  },
  {
    name: "ipamless",
    // Its plugin may create its bridge before it looks for the IPAM plugin: the default name cni0 would stay behind.
    config:
      '{"cniVersion":"1.0.0","type":"bridge","bridge":"BRIDGE","ipam":{"type":"no-such-ipam"}}',
    want: /^Warning PluginMissing .*no-such-ipam.*correct the name in spec\.config/,
  },
])("reports a network that is $name", async ({ name, config, want }) => {
  await machine.putNad(NAMESPACE, name, config.replace("BRIDGE", machine.node.bridge));
  await machine.runPod({ namespace: NAMESPACE, name, networks: name });
  const [event] = await firstEventsOf(name);
  expect(event).toMatch(want);
  // The definition may have been checked before the pod existed.
  const [error] = await eventually(async () => {
    const errors = Object.values(await machine.errors(NAMESPACE, name));
    return errors.length > 0 ? errors : undefined;
  }, TIMEOUT);
  expect(`Warning ${error?.reason ?? ""} ${error?.message ?? ""}`).toBe(event);
});

test("a network without a configuration uses a file, and without a file lists the existing ones", async () => {
  const list = { cniVersion: "1.0.0", name: "filed", plugins: [machine.node.layer2Plugin()] };
  machine.putDefinitionFile("05-broken.conf", "{");
  machine.putDefinitionFile("10-filed.conflist", JSON.stringify(list));
  for (const name of ["filed", "unfiled"]) await machine.putNad(NAMESPACE, name, "");
  const networks = "filed@net1,unfiled@net2";
  const sandbox = await machine.runPod({ namespace: NAMESPACE, name: "by-file", networks });
  const [event] = await firstEventsOf("unfiled");
  expect(event).toMatch(
    /^Warning DefinitionFileMissing .*defines a network named unfiled; files there define filed; 05-broken\.conf is not a JSON object/,
  );
  const status = await eventually(async () => {
    const entries = await machine.networkStatus(NAMESPACE, "by-file");
    return entries.length > 0 ? entries : undefined;
  }, TIMEOUT);
  expect(status).toMatchObject([{ name: "default/filed", interface: "net1" }]);
  expect(machine.node.nics(sandbox)).toEqual(["net1"]);
});

test("reports an exhausted range with the next step for waiting pods", async () => {
  const range = { from: "10.55.0.5", to: "10.55.0.5" };
  await machine.putNad(NAMESPACE, "small", [machine.node.bridgePlugin(range)]);
  await machine.runPod({ namespace: NAMESPACE, name: "first", networks: "small" });
  await eventually(
    async () => (await machine.networkStatus(NAMESPACE, "first")).length > 0 || undefined,
    TIMEOUT,
  );
  await machine.runPod({ namespace: NAMESPACE, name: "second", networks: "small" });
  const [error] = await eventually(async () => {
    const errors = Object.values(await machine.errors(NAMESPACE, "second"));
    return errors.length > 0 ? errors : undefined;
  }, TIMEOUT);
  expect(error?.reason).toBe("AddressesExhausted");
  expect(error?.message).toMatch(/every address of network default\/small is in use: unplug/);
  expect(await firstEventsOf("small")).toEqual([expect.stringContaining("AddressesExhausted")]);
});
