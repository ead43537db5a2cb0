// SPDX-License-Identifier: Apache-2.0
// net-agent in place of Multus' dynamic networks controller for KubeVirt. KubeVirt is simulated by its own rules, in
// several versions, on real namespaces with real plugins.
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { names } from "@patchbay/api";
import type { NetworkStatus } from "@patchbay/api/annotations";
import { createJournal, findNetworkStatus } from "@patchbay/cni";
import type { CniResult, Sandbox } from "@patchbay/core/interfaces";
import { createFiles } from "@patchbay/os";
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
/** A network binding plugin, which returns a result without interfaces. */
const PASST = { type: "kubevirt-passt-binding" };
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
  node.addPlugin(
    PASST.type,
    `cat > /dev/null; echo "$CNI_COMMAND $CNI_CONTAINERID" >> ${passtLog()}; echo '{"cniVersion":"1.0.0"}'`,
  );
  await machine.putNad(NAMESPACE, "passt", [PASST]);
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

/** NICs of the sandbox that the agent has adopted, once it has released all former sandboxes. */
async function adoptedNics({ id, podUid }: Sandbox): Promise<readonly string[]> {
  const directory = join(machine.node.directory, "state", "journal");
  const rows = await createJournal(createFiles(), directory).list(podUid);
  if (rows.some(({ request }) => request.containerId !== id)) return [];
  return rows
    .filter(({ isAdopted }) => isAdopted)
    .map(({ request }) => request.interfaceName)
    .toSorted();
}

/** Calls of the plugin that makes no interface, as `COMMAND CONTAINER`. */
function passtCalls(command: string): readonly string[] {
  const text = existsSync(passtLog()) ? readFileSync(passtLog(), "utf8") : "";
  return text.split("\n").filter((line) => line.startsWith(command));
}

function passtLog(): string {
  return join(machine.node.directory, "passt.log");
}

/** libcni's record of an ADD by Multus. Source: libcni, cachedInfo. */
function rememberPasst({ id: containerId }: Sandbox): void {
  const results = join(machine.cacheDir, "results");
  const config = { cniVersion: "1.0.0", name: "passt", plugins: [PASST] };
  mkdirSync(results, { recursive: true });
  const entry = {
    kind: "cniCacheV1",
    containerId,
    ifName: "net1",
    networkName: "passt",
    config: Buffer.from(JSON.stringify(config)).toString("base64"),
    result: { cniVersion: "1.0.0" },
  };
  writeFileSync(join(results, `passt-${containerId}-net1`), JSON.stringify(entry));
}

/** Attaches a network like Multus, by the plugin itself. Returns the NIC's entry in `network-status`. */
function attachByMultus({ id, netnsPath }: Sandbox, network: string, nic: string): NetworkStatus {
  const config = { cniVersion: "1.0.0", name: network, ...machine.node.bridgePlugin() };
  const { stdout } = spawnSync("/usr/lib/cni/bridge", {
    input: JSON.stringify(config),
    encoding: "utf8",
    env: {
      CNI_COMMAND: "ADD",
      CNI_CONTAINERID: id,
      CNI_NETNS: netnsPath,
      CNI_IFNAME: nic,
      CNI_PATH: "/usr/lib/cni",
    },
  });
  const result = JSON.parse(stdout) as CniResult;
  return findNetworkStatus(result, `${NAMESPACE}/${network}`, nic);
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

  test.each([
    { name: "in the edit that plugs another NIC", isEarlier: false },
    { name: "before a plug, while the migration is pending", isEarlier: true },
  ])("a network changed $name stays until the VM migrates", async ({ isEarlier }) => {
    const vm = await aVm(version, specOf(RED));
    const source = await vm.start();
    await vm.settle("red");
    const leases = machine.node.leases("addressed");
    const [, before] = await statusOf(source);
    vm.changeNad("red", "plain");
    // KubeVirt does not rewrite the annotation for a swap alone.
    if (isEarlier) await vm.pass();
    vm.plug(GREEN);
    await vm.settle("red", "green");
    const reasons = async (): Promise<unknown> =>
      Object.entries(await machine.errors(NAMESPACE, source.name)).map(
        ([nic, { reason, message }]) => `${nic} ${reason} ${message}`,
      );
    expect(await reasons()).toEqual([
      expect.stringMatching(
        /^podb1f51a511f1 AttributesFixed .*stays on default\/addressed.*migrate/,
      ),
    ]);
    // The guest's NIC, its address and its entry are the same as before: KubeVirt migrates because of the entry.
    expect(machine.node.nics(source.sandbox)).toEqual(wired(HASHED.red, HASHED.green));
    expect(await statusOf(source)).toContainEqual(before);
    expect(machine.node.leases("addressed")).toEqual(expect.arrayContaining([...leases]));
    const target = await vm.migrate((_source, { sandbox }) => {
      expect(machine.node.nics(sandbox)).toEqual([HASHED.red, HASHED.green].toSorted());
      return Promise.resolve();
    });
    await vm.settle("red", "green");
    expect(await toldOf(target)).toEqual([
      `default/addressed@${HASHED.green}`,
      `default/plain@${HASHED.red}`,
    ]);
    expect(await machine.errors(NAMESPACE, target.name)).toEqual({});
    await eventually(() => machine.node.leases("addressed").length === 1, WITHIN);
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

    test.each([
      { name: "net-agent has attached", isAttachedByMultus: false, adds: 1 },
      { name: "only libcni's cache records", isAttachedByMultus: true, adds: 0 },
    ])(
      "a binding without an interface that $name has no entry, and NICs keep their names at a plug",
      async ({ isAttachedByMultus, adds }) => {
        const spec = specOf(RED);
        const [primary, ...rest] = spec.interfaces;
        const bound = { name: primary?.name ?? "", binding: { name: "passt" } };
        const bindings = { passt: { networkAttachmentDefinition: "default/passt" } };
        const vm = await aVm(version, { ...spec, interfaces: [bound, ...rest] }, bindings);
        if (isAttachedByMultus) vm.prepare = rememberPasst;
        const before = passtCalls("ADD").length;
        const launcher = await vm.start();
        await vm.settle("red");
        vm.plug(BLUE);
        await vm.settle("red", "blue");
        expect(await toldOf(launcher)).toEqual([
          `default/addressed@${HASHED.red}`,
          `default/plain@${HASHED.blue}`,
        ]);
        expect(machine.node.nics(launcher.sandbox)).toEqual(wired(HASHED.red, HASHED.blue));
        expect(await machine.errors(NAMESPACE, launcher.name)).toEqual({});
        expect(passtCalls("ADD").slice(before)).toHaveLength(adds);
      },
    );
  },
);

test("in a recreated sandbox Multus' NICs stay in network-status, and the former sandbox's addresses are free", async () => {
  const pod = { namespace: NAMESPACE, name: "recreated" };
  const former = await machine.runPod({ ...pod, networks: "addressed@net1" });
  const interfaces = async (): Promise<readonly (string | undefined)[]> =>
    (await machine.networkStatus(NAMESPACE, pod.name)).map((entry) => entry.interface);
  await eventually(async () => (await interfaces()).join() === "net1", WITHIN);
  await machine.ask(NAMESPACE, pod.name, "addressed@net1,addressed@net2");
  await eventually(async () => (await interfaces()).join() === "net1,net2", WITHIN);
  const formerLeases = machine.node.leases("addressed");
  let status: readonly NetworkStatus[] = [];
  const sandbox = await machine.replaceSandbox(pod, former, (made) => {
    const nics = ["net1", "net2"].map((nic) => attachByMultus(made, "addressed", nic));
    status = [POD_NETWORK, ...nics];
    return { [names.NETWORK_STATUS_ANNOTATION]: JSON.stringify(status) };
  });
  const current = status.slice(1).flatMap(({ ips = [] }) => ips);
  await eventually(async () => (await adoptedNics(sandbox)).join() === "net1,net2", WITHIN);
  expect(machine.node.leases("addressed")).toEqual(current);
  expect(current.filter((ip) => formerLeases.includes(ip))).toEqual([]);
  expect(machine.node.nics(sandbox)).toEqual(["net1", "net2"]);
  expect(await machine.networkStatus(NAMESPACE, pod.name)).toEqual(status);
  // Because the agent has adopted both, it detaches what the annotation no longer requests.
  await machine.ask(NAMESPACE, pod.name, "addressed@net1");
  await eventually(async () => (await interfaces()).join() === "eth0,net1", WITHIN);
  expect(machine.node.leases("addressed")).toHaveLength(1);
  await machine.ask(NAMESPACE, pod.name, "");
  await eventually(() => machine.node.leases("addressed").length === 0, WITHIN);
  await machine.removePod(pod, sandbox);
});
