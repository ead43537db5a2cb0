// SPDX-License-Identifier: Apache-2.0
// net-agent in place of Multus' dynamic networks controller for KubeVirt. KubeVirt is simulated by its own rules, in
// several versions, on real namespaces with real plugins.
import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import type { NetworkStatus } from "@patchbay/api/annotations";
import { eventually } from "@patchbay/support";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { AgentMachine } from "../machine.ts";
import { VERSIONS, type Version } from "./annotation.ts";
import {
  NAMESPACE,
  WITHIN,
  PlayedVm,
  POD_NETWORK,
  specOf,
  type Launcher,
  type Nic,
} from "./played.ts";
import type { Bindings, PlayedVmi } from "./vmi.ts";
import { linkNamesOf } from "./wiring.ts";

const RED: Nic = { name: "red", nad: "addressed" };
const BLUE: Nic = { name: "blue", nad: "plain", mac: "02:00:00:00:88:01" };
const GREEN: Nic = { name: "green", nad: "default/addressed" };
/** Source: KubeVirt namescheme_test.go. */
const HASHED = { red: "podb1f51a511f1", blue: "pod16477688c0e", green: "podba4788b226a" };

let machine: AgentMachine;
let vms = 0;
const begun: PlayedVm[] = [];

beforeAll(async () => {
  machine = await AgentMachine.start();
  const { node } = machine;
  await machine.putNad(NAMESPACE, "addressed", [node.bridgePlugin()]);
  await machine.putNad(NAMESPACE, "plain", [node.layer2Plugin()]);
});

afterAll(() => machine.close());

// No scenario leaves anything of its pods.
afterEach(async () => {
  for (const vm of begun.splice(0)) await vm.end();
  await eventually(() => {
    const remaining = [
      ...journalOf(),
      ...machine.node.leases("addressed"),
      ...machine.node.bridgePorts(),
    ];
    if (remaining.length > 0) throw new Error(`left: ${remaining.join(", ")}`);
    return true;
  }, WITHIN);
});

/** Pods in the agent's journal. */
function journalOf(): readonly string[] {
  const directory = join(machine.node.directory, "state", "journal");
  return existsSync(directory) ? readdirSync(directory) : [];
}

async function aVm(
  version: Version,
  spec: Pick<PlayedVmi, "interfaces" | "networks">,
  bindings: Bindings = {},
): Promise<PlayedVm> {
  vms += 1;
  const name = `vm${String(vms)}`;
  const vm = await PlayedVm.create(machine, { name, version, bindings, ...spec });
  begun.push(vm);
  return vm;
}

/** KubeVirt's links around these NICs. */
function wired(...nics: readonly string[]): readonly string[] {
  return nics
    .flatMap((nic) => {
      const { bridge, tap, moved } = linkNamesOf(nic);
      return [nic, bridge, tap, moved];
    })
    .toSorted();
}

function statusOf({ name }: Launcher): Promise<readonly NetworkStatus[]> {
  return machine.networkStatus(NAMESPACE, name);
}

/** Network and NIC of each entry behind the pod network's, which is as Multus wrote it. */
async function toldOf(launcher: Launcher): Promise<readonly string[]> {
  const [first, ...rest] = await statusOf(launcher);
  expect(first).toEqual(POD_NETWORK);
  return rest.map((entry) => `${entry.name}@${entry.interface ?? ""}`).toSorted();
}

/** The time of the guest's unplug does not depend on the version and is tested with the last only. */
function guestsOf({ name }: Version): readonly { guest: string; isSlow: boolean }[] {
  const quick = { guest: "lets a device go at once", isSlow: false };
  return name === VERSIONS.at(-1)?.name
    ? [quick, { guest: "lets a device go last", isSlow: true }]
    : [quick];
}

describe.each(VERSIONS)("beside KubeVirt $name", (version) => {
  test.each(guestsOf(version))(
    "NICs are plugged, unplugged and plugged again while the guest $guest",
    async ({ isSlow }) => {
      const vm = await aVm(version, specOf(RED));
      vm.isGuestSlow = isSlow;
      const launcher = await vm.start();
      await vm.settle("red");
      vm.plug(BLUE, GREEN);
      await vm.settle("red", "blue", "green");
      expect(machine.node.nics(launcher.sandbox)).toEqual(
        wired(HASHED.red, HASHED.blue, HASHED.green),
      );
      const [, ...entries] = await statusOf(launcher);
      const leases = machine.node.leases("addressed");
      expect(leases).toHaveLength(2);
      expect(entries.flatMap(({ ips = [] }) => ips).toSorted()).toEqual(leases);
      expect(entries).toContainEqual({
        name: "default/plain",
        interface: HASHED.blue,
        mac: BLUE.mac,
        dns: {},
      });
      for (let round = 0; round < 2; round += 1) {
        await vm.unplug("red");
        await vm.settle("blue", "green");
        expect(machine.node.nics(launcher.sandbox)).toEqual(wired(HASHED.blue, HASHED.green));
        expect(machine.node.leases("addressed")).toHaveLength(1);
        vm.plug(RED);
        await vm.settle("red", "blue", "green");
      }
      await vm.unplug("red", "green");
      await vm.settle("blue");
      expect(await toldOf(launcher)).toEqual([`default/plain@${HASHED.blue}`]);
      expect(machine.node.leases("addressed")).toEqual([]);
      // Source: v1.0 watch/network.go: an empty list is not written.
      if (!version.writesEmpty) return;
      await vm.unplug("blue");
      await vm.settle();
      expect(machine.node.nics(launcher.sandbox)).toEqual([]);
      expect(await toldOf(launcher)).toEqual([]);
    },
  );

  test("swaps a network that changes beside a plug: DEL, then ADD", async () => {
    const vm = await aVm(version, specOf(RED));
    vm.isHandled = false;
    const launcher = await vm.start();
    await eventually(async () => (await toldOf(launcher)).length === 1, WITHIN);
    vm.changeNad("red", "plain");
    vm.plug(GREEN);
    const wanted = [`default/addressed@${HASHED.green}`, `default/plain@${HASHED.red}`];
    await eventually(async () => {
      await vm.pass();
      return (await toldOf(launcher)).join() === wanted.join();
    }, WITHIN);
    expect(machine.node.nics(launcher.sandbox)).toEqual([HASHED.red, HASHED.green].toSorted());
    expect(machine.node.leases("addressed")).toHaveLength(1);
    vm.isHandled = true;
    await vm.settle("red", "green");
  });

  test("a restarted VM has its NICs in a new pod, and the old pod's addresses are free", async () => {
    const vm = await aVm(version, specOf(RED, BLUE));
    await vm.start();
    await vm.settle("red", "blue");
    await vm.end();
    const second = await vm.start();
    await vm.settle("red", "blue");
    expect(machine.node.nics(second.sandbox)).toEqual(wired(HASHED.red, HASHED.blue));
    await eventually(() => machine.node.leases("addressed").length === 1, WITHIN);
    await eventually(() => journalOf().join() === second.uid, WITHIN);
  });

  test("a migration creates the NICs in a second pod, with a plug and an unplug", async () => {
    const vm = await aVm(version, specOf(RED, BLUE));
    await vm.start();
    await vm.settle("red", "blue");
    vm.plug(GREEN);
    await vm.unplug("red");
    const target = await vm.migrate(async (source, { sandbox, name }) => {
      expect(machine.node.nics(sandbox)).toEqual([HASHED.blue, HASHED.green]);
      expect(machine.node.nics(source.sandbox)).toEqual(wired(HASHED.red, HASHED.blue));
      expect(await machine.errors(NAMESPACE, name)).toEqual({});
    });
    await vm.settle("blue", "green");
    await eventually(() => journalOf().join() === target.uid, WITHIN);
    expect(machine.node.nics(target.sandbox)).toEqual(wired(HASHED.blue, HASHED.green));
    expect(machine.node.leases("addressed")).toHaveLength(1);
  });

  test("ordinal names stay while a pod lives, and a migration may rename them", async () => {
    const vm = await aVm(version, specOf(RED));
    const element = { interface: "net1", name: "addressed", namespace: NAMESPACE };
    const source = await vm.start(JSON.stringify([element]));
    await vm.settle("red");
    vm.plug(BLUE);
    await vm.settle("red", "blue");
    expect(machine.node.nics(source.sandbox)).toEqual(wired("net1", "net2"));
    expect(await toldOf(source)).toEqual(["default/addressed@net1", "default/plain@net2"]);
    const nics = version.renames ? [HASHED.blue, HASHED.red] : ["net1", "net2"];
    const target = await vm.migrate((_source, { sandbox }) => {
      expect(machine.node.nics(sandbox)).toEqual(nics);
      return Promise.resolve();
    });
    await vm.settle("red", "blue");
    expect(machine.node.nics(target.sandbox)).toEqual(wired(...nics));
  });
});

describe.each(VERSIONS.filter(({ hasBindings }) => hasBindings))(
  "beside KubeVirt $name",
  (version) => {
    test("names a binding's unnamed network like Multus", async () => {
      const spec = specOf(RED);
      const [primary, ...rest] = spec.interfaces;
      const bound = { name: primary?.name ?? "", binding: { name: "passt" } };
      const bindings = { passt: { networkAttachmentDefinition: "default/plain" } };
      const vm = await aVm(version, { ...spec, interfaces: [bound, ...rest] }, bindings);
      const launcher = await vm.start();
      await eventually(async () => (await toldOf(launcher)).length === 2, WITHIN);
      expect(await toldOf(launcher)).toEqual([
        `default/addressed@${HASHED.red}`,
        "default/plain@net1",
      ]);
      expect(await machine.errors(NAMESPACE, launcher.name)).toEqual({});
    });
  },
);
