// SPDX-License-Identifier: Apache-2.0
// A tenant that requests another pod's or a node's device by name in its own pod's annotation.
import { names, NETWORK_ATTACHMENT_DEFINITIONS } from "@patchbay/api";
import { TestPodResources } from "@patchbay/device-plugin/testing";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AgentMachine } from "../../contract/net-agent/machine.ts";
import { NicDevices, PLUGIN, RESOURCE } from "../../contract/net-agent/nic-devices.ts";

const WITHIN_MS = 20_000;
const NAMESPACE = "default";

let machine: AgentMachine;
let nics: NicDevices;
let kubelet: TestPodResources;
let [victims = "", mine = "", orphaned = ""]: readonly string[] = [];

beforeAll(async () => {
  machine = await AgentMachine.start();
  nics = new NicDevices(machine.node);
  [victims = "", mine = "", orphaned = ""] = nics.make(3);
  await machine.putNad(NAMESPACE, "fast", [{ type: PLUGIN, capabilities: { deviceID: true } }]);
  const fields = { metadata: { annotations: { [names.RESOURCE_NAME_ANNOTATION]: RESOURCE } } };
  const key = { namespace: NAMESPACE, name: "fast" };
  await machine.admin.store.patch(NETWORK_ATTACHMENT_DEFINITIONS, key, { type: "merge", fields });
  kubelet = new TestPodResources(machine.podResourcesSocket);
  kubelet.pods.push(
    { namespace: NAMESPACE, name: "victim", containers: [{ [RESOURCE]: [victims] }] },
    { namespace: NAMESPACE, name: "attacker", containers: [{ [RESOURCE]: [mine] }] },
  );
  await kubelet.start();
  await machine.runPod({ namespace: NAMESPACE, name: "victim", networks: "fast@net1" });
  await machine.runPod({ namespace: NAMESPACE, name: "attacker", networks: "" });
});
afterAll(async () => {
  kubelet.close();
  await machine.close();
});

async function attachedTo(pod: string): Promise<readonly string[]> {
  const status = await machine.networkStatus(NAMESPACE, pod);
  return status.map((entry) => entry.interface ?? "");
}

/** The attacker's pod requests a device by name. */
async function ask(nic: string, deviceID: string): Promise<void> {
  const element = { name: "fast", interface: nic, deviceID };
  await machine.ask(NAMESPACE, "attacker", JSON.stringify([element]));
}

test.each([
  { whose: "another pod's", nic: "net1", device: () => victims },
  { whose: "nobody's", nic: "net2", device: () => orphaned },
])(
  "attack 104: rejects a device that belongs to $whose when requested by name",
  async ({ nic, device }) => {
    await expect.poll(() => attachedTo("victim"), { timeout: WITHIN_MS }).toEqual(["net1"]);
    await ask(nic, device());
    await expect
      .poll(() => machine.errors(NAMESPACE, "attacker"), { timeout: WITHIN_MS })
      .toMatchObject({ [nic]: { reason: "NoDevice" } });
    expect(await attachedTo("attacker")).toEqual([]);
    expect(await attachedTo("victim")).toEqual(["net1"]);
    expect(nics.onHost([mine, orphaned])).toEqual([mine, orphaned]);
  },
);

test("assigns its own device by name", async () => {
  await ask("net3", mine);
  await expect.poll(() => attachedTo("attacker"), { timeout: WITHIN_MS }).toEqual(["net3"]);
  expect(nics.given("ADD", "net3").deviceID).toBe(mine);
});
