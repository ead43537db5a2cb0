// SPDX-License-Identifier: Apache-2.0
// Requests during a migration happen once afterwards; the target pod has the guest's interfaces.
import {
  names,
  PODS,
  VIRTUAL_MACHINE_INSTANCES,
  type IfaceStatus,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { parseNetworks } from "@patchbay/api/annotations";
import type { Pod } from "@patchbay/api/kubernetes";
import { describe, expect, test } from "vitest";
import { Migrating, podNicAt } from "./testing/migrating.ts";

const [POD0, POD1] = [podNicAt(0), podNicAt(1)];
const ONE = { name: "one", mac: "02:00:00:00:00:01" };
const TWO = { name: "two", network: "red", mac: "02:00:00:00:00:02" };

/** Networks and NICs that the pod requests. */
function askedBy(pod: Pod | undefined): readonly string[] {
  const text = pod?.metadata.annotations?.[names.NETWORKS_ANNOTATION];
  const parsed = parseNetworks(text);
  const elements = parsed.ok ? parsed.elements : [];
  return elements.map(({ name, interface: nic }) => `${name} ${nic ?? ""}`);
}

async function change(
  scenario: Migrating,
  edit: (vmi: VirtualMachineInstance) => VirtualMachineInstance,
): Promise<void> {
  await scenario.bench.put(VIRTUAL_MACHINE_INSTANCES, edit(await scenario.vmi()));
  await scenario.settle();
}

/** Plugs another NIC. */
function withNic(vmi: VirtualMachineInstance, name: string, networkName: string): typeof vmi {
  const { spec } = vmi;
  const { devices } = spec.domain;
  const interfaces = [...(devices?.interfaces ?? []), { name, bridge: {} }];
  const networks = [...(spec.networks ?? []), { name, multus: { networkName } }];
  const domain = { ...spec.domain, devices: { ...devices, interfaces } };
  return { ...vmi, spec: { ...spec, networks, domain } };
}

/** Unplugs a NIC. */
function withoutNic(vmi: VirtualMachineInstance, name: string): typeof vmi {
  const { spec } = vmi;
  const { devices } = spec.domain;
  const interfaces = (devices?.interfaces ?? []).map((iface) =>
    iface.name === name ? { ...iface, state: "absent" } : iface,
  );
  return {
    ...vmi,
    spec: { ...spec, domain: { ...spec.domain, devices: { ...devices, interfaces } } },
  };
}

/** Moves a NIC to another network. */
function onNetwork(vmi: VirtualMachineInstance, name: string, networkName: string): typeof vmi {
  const networks = (vmi.spec.networks ?? []).map((network) =>
    network.name === name ? { name, multus: { networkName } } : network,
  );
  return { ...vmi, spec: { ...vmi.spec, networks } };
}

/** A node's report of one NIC. */
function told(vmi: VirtualMachineInstance, next: IfaceStatus): typeof vmi {
  const interfaces = (vmi.status?.interfaces ?? []).filter(({ name }) => name !== next.name);
  return { ...vmi, status: { ...vmi.status, interfaces: [...interfaces, next] } };
}

describe("the target's pod", () => {
  test("requests the guest's interfaces with the same names and addresses", async () => {
    const scenario = await Migrating.begin([ONE, TWO]);
    const pod = await scenario.target();
    expect(askedBy(pod)).toEqual([`blue ${POD0}`, `red ${POD1}`]);
    const text = pod.metadata.annotations?.[names.NETWORKS_ANNOTATION] ?? "";
    expect(JSON.parse(text)).toMatchObject([
      { "io.patchbay.kept-ips": ["192.0.2.1"] },
      { "io.patchbay.kept-ips": ["192.0.2.2"] },
    ]);
  });

  test("does not request an interface that is being plugged", async () => {
    const scenario = await Migrating.begin();
    await change(scenario, (vmi) => withNic(vmi, "new", "red"));
    expect(askedBy(await scenario.target())).toEqual([`blue ${POD0}`]);
    expect(askedBy(await scenario.findSource())).toHaveLength(2);
  });

  test("requests an interface that was plugged at the last moment", async () => {
    const scenario = await Migrating.begin();
    await change(scenario, (vmi) => withNic(vmi, "new", "red"));
    await scenario.attach(await scenario.findSource());
    const [, second] = (await scenario.vmi()).status?.attachments ?? [];
    await scenario.runTarget();
    const podInterfaceName = second?.podInterfaceName ?? "";
    const hotplug = { type: "Plug", phase: "Ready" } as const;
    await change(scenario, (vmi) => told(vmi, { name: "new", podInterfaceName, hotplug }));
    expect(askedBy(await scenario.target())).toEqual([`blue ${POD0}`, `red ${podInterfaceName}`]);
    expect((await scenario.state()).targetAttachments).toMatchObject([
      { name: "one", state: "Attached" },
      { name: "new", state: "Requested", podInterfaceName },
    ]);
  });

  test("has a NIC whose unplug the guest has not finished", async () => {
    const scenario = await Migrating.begin([ONE, TWO]);
    const hotplug = { type: "Unplug", phase: "Detaching" } as const;
    await change(scenario, (vmi) =>
      told(withoutNic(vmi, "two"), { name: "two", podInterfaceName: POD1, hotplug }),
    );
    await scenario.runTarget();
    expect(askedBy(await scenario.target())).toEqual([`blue ${POD0}`, `red ${POD1}`]);
    expect((await scenario.state()).targetAttachments).toMatchObject([
      { name: "one" },
      { name: "two" },
    ]);
  });
});

describe("requests during a migration", () => {
  test("a plug changes neither pod, and happens once on the target", async () => {
    const scenario = await Migrating.begin();
    await scenario.runUntilSending();
    await change(scenario, (vmi) => withNic(vmi, "new", "red"));
    expect(askedBy(await scenario.findSource())).toEqual([`blue ${POD0}`]);
    expect(askedBy(await scenario.target())).toEqual([`blue ${POD0}`]);
    await scenario.arrive();
    expect(askedBy(await scenario.target())).toEqual([
      `blue ${POD0}`,
      expect.stringMatching(/^red /),
    ]);
  });

  test("a plug happens on the source if the guest stays", async () => {
    const scenario = await Migrating.begin();
    await scenario.runUntilSending();
    await change(scenario, (vmi) => withNic(vmi, "new", "red"));
    await scenario.writeState({ failed: true, failureReason: "no way" });
    expect(askedBy(await scenario.findSource())).toHaveLength(2);
  });

  test("a new network is attached on the target, beside the old one", async () => {
    const scenario = await Migrating.begin();
    await scenario.runUntilSending();
    await change(scenario, (vmi) => onNetwork(vmi, "one", "red"));
    expect(askedBy(await scenario.target())).toEqual([`blue ${POD0}`]);
    await scenario.arrive();
    expect(askedBy(await scenario.target())).toEqual([
      `blue ${POD0}`,
      expect.stringMatching(/^red /),
    ]);
  });

  test("an unplug does not change the pod's networks until the guest has detached the NIC", async () => {
    const scenario = await Migrating.begin([ONE, TWO]);
    await scenario.runUntilSending();
    await change(scenario, (vmi) => withoutNic(vmi, "two"));
    await scenario.arrive();
    expect(askedBy(await scenario.target())).toEqual([`blue ${POD0}`, `red ${POD1}`]);
    const hotplug = { type: "Unplug", phase: "PodDetaching" } as const;
    await change(scenario, (vmi) => told(vmi, { name: "two", podInterfaceName: POD1, hotplug }));
    expect(askedBy(await scenario.target())).toEqual([`blue ${POD0}`]);
  });
});

test("a pod of another owner with the target's name is ignored", async () => {
  const scenario = await Migrating.begin();
  await scenario.settle();
  const { metadata, ...pod } = await scenario.target();
  await scenario.bench.put(PODS, { ...pod, metadata: { ...metadata, ownerReferences: [] } });
  await scenario.settle();
  expect(await scenario.phase()).toBe("Failed");
  expect(await scenario.findTarget()).toBeDefined();
});
