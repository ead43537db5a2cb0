// SPDX-License-Identifier: Apache-2.0
// Two guests with vhost-user NICs of the node's dataplane: one from its start, one plugged.
import { createHash } from "node:crypto";
import { copyFileSync, existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import {
  eventually,
  FEW_PORTS,
  installPlugin,
  OpenVswitch,
  needTestpmd,
  Testpmd,
  vmManifest,
} from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  CHANGE_MS,
  expectGone,
  expectReady,
  ifaceStatus,
  machine,
  ping,
  removeInterface,
  setAddress,
  SUBRESOURCES,
} from "../machine.ts";

needTestpmd();

const TYPE = `patchbay-vhost-${String(process.pid)}`;
const WAITER = `${TYPE}-waits`;
const PLUGIN = join(
  import.meta.dirname,
  "../../../packages/adapters/cni/build/patchbay-vhost-user",
);
const SOCKETS = "/run/patchbay/vhost-user";
const CORES = 2;
/** As many pairs as vCPUs; an emulated guest's QEMU crashes when such a NIC has vectors, which multiqueue requests. */
let queues = CORES;
/** Time to unplug and plug a NIC again. */
const AGAIN_MS = 2 * CHANGE_MS;
const BINDING = { name: "fast" };

/** The topmost directory that did not exist. */
const removals: (() => void)[] = [];
let dataplane: Testpmd | undefined;
let vswitch: OpenVswitch | undefined;
let sockets: [string, string] = ["", ""];

function register(fast: object | null): void {
  const patch = JSON.stringify({ spec: { configuration: { network: { binding: { fast } } } } });
  machine.kubectl("patch", "kubevirt/kubevirt", "-n", "patchbay", "--type", "merge", "-p", patch);
}

function network(name: string, ...before: readonly string[]): unknown {
  const own = { type: TYPE, capabilities: { CNIDeviceInfoFile: true } };
  const plugins = [...before.map((type) => ({ type })), own];
  return {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { name, namespace: "default" },
    spec: { config: JSON.stringify({ cniVersion: "1.0.0", name, plugins }) },
  };
}

interface Manifest {
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly domain: Record<string, unknown> & { devices: { interfaces: unknown[] } };
        readonly networks: unknown[];
      };
    };
  };
}

/** A guest that supports such NICs and has this one from its start. */
function guest(name: string, atStart: string | undefined): unknown {
  const manifest = vmManifest({ name, cores: CORES, pcieRootPorts: FEW_PORTS }) as Manifest; // built by tests/support
  const { domain, networks } = manifest.spec.template.spec;
  if (atStart === undefined) {
    domain["resources"] = { limits: { "vhost-user.patchbay.io/sockets": "1" } };
  } else {
    domain.devices.interfaces.push({ name: atStart, binding: BINDING });
    networks.push({ name: atStart, multus: { networkName: "fast-at-start" } });
  }
  return manifest;
}

function ask(vm: string, name: string) {
  const body = { name, networkAttachmentDefinitionName: "fast", binding: BINDING };
  return machine.put(`${SUBRESOURCES}/virtualmachines/${vm}/addinterface`, body);
}

/** Plugs as soon as virt-api knows the binding. */
async function plug(vm: string, name: string): Promise<void> {
  await eventually(() => ask(vm, name).code === 0, { withinMs: CHANGE_MS });
}

/** The socket's path reported by the plugin. */
async function socketOf(vm: string, iface: string): Promise<string> {
  const nic = `pod${createHash("sha256").update(iface).digest("hex").slice(0, 11)}`;
  const directory = await eventually(
    () => {
      const path = `${SOCKETS}/${machine.findPod(vm)?.metadata.uid ?? "none"}`;
      return existsSync(path) ? path : undefined;
    },
    { withinMs: CHANGE_MS },
  );
  return `${directory}/${nic}.sock`;
}

/** Starts the dataplane, which forwards frames during the pings. */
async function startDataplane(): Promise<void> {
  dataplane = await Testpmd.start(sockets, queues, { isAsked: true });
}

async function expectReplies(): Promise<void> {
  // The first may be lost during address resolution. The side with a new MAC must ask first.
  expect((await ping("fast2", "10.99.0.1", { count: 5 })).received).toBeGreaterThan(2);
  expect((await ping("fast1", "10.99.0.2", { count: 5 })).received).toBeGreaterThan(2);
}

async function expectPings(): Promise<void> {
  await setAddress("fast1", "first", "10.99.0.1/24");
  await setAddress("fast2", "later", "10.99.0.2/24");
  await (dataplane === undefined ? expectReplies() : dataplane.forwards(expectReplies));
}

beforeAll(async () => {
  const plugins = [
    [TYPE, PLUGIN],
    [WAITER, join(import.meta.dirname, "wait-for-socket.sh")],
  ] as const;
  for (const [type, program] of plugins) {
    removals.push(
      installPlugin(type, (path) => {
        copyFileSync(program, path);
      }),
    );
  }
  const emulates = "jsonpath={.spec.configuration.developerConfiguration.useEmulation}";
  const answer = machine.kubectl("get", "kubevirt/kubevirt", "-n", "patchbay", "-o", emulates);
  queues = answer === "true" ? 1 : CORES;
  register({ domainAttachmentType: "vhostuser" });
  machine.apply(network("fast"), network("fast-at-start", WAITER));
  machine.apply(guest("fast1", "first"), guest("fast2", undefined));
  sockets = [await socketOf("fast1", "first"), await socketOf("fast2", "later")];
  await startDataplane();
  await machine.booted("fast1");
  await machine.booted("fast2");
});

afterAll(async () => {
  machine.deleteIfPresent("vm", "fast1", "fast2");
  await dataplane?.stop();
  await vswitch?.stop();
  register(null);
  machine.deleteIfPresent("net-attach-def", "fast", "fast-at-start");
  for (const remove of removals) remove();
});

test("a guest boots with a vhost-user NIC, with one queue pair under emulation, else one per vCPU", async () => {
  const { queueCount, pciAddress } = await expectReady("fast1", "first");
  expect(queueCount).toBe(queues);
  expect(pciAddress).toMatch(/^0000:/);
});

test("a running guest gets a vhost-user NIC, and both guests reach each other", async () => {
  await plug("fast2", "later");
  expect((await expectReady("fast2", "later")).queueCount).toBe(queues);
  await expectPings();
});

test("the NIC is unplugged and plugged again", async () => {
  removeInterface("fast2", "later");
  await expectGone("fast2", "later");
  await plug("fast2", "later");
  await expectReady("fast2", "later");
  await expectPings();
});

test("reports a dataplane that ends, and its NICs work again once it is back", async () => {
  await dataplane?.stop();
  const reasons = (): readonly unknown[] => [
    ifaceStatus("fast1", "first")?.hotplug?.reason,
    ifaceStatus("fast2", "later")?.hotplug?.reason,
  ];
  const missing = ["BackendMissing", "BackendMissing"];
  await eventually(() => JSON.stringify(reasons()) === JSON.stringify(missing), {
    withinMs: CHANGE_MS,
  });
  await startDataplane();
  await eventually(() => reasons().every((reason) => reason === undefined), {
    withinMs: AGAIN_MS,
  });
  await expectPings();
});

test("the NICs of a killed dataplane work again too", async () => {
  await dataplane?.kill();
  // DPDK refuses an existing socket file. Source: DPDK lib/vhost/socket.c vhost_user_start_server
  for (const path of sockets) rmSync(path);
  const since = machine.console("fast1").position();
  await startDataplane();
  await machine.console("fast1").waitForLine(/nic added/, { timeoutMs: AGAIN_MS, since });
  await expectPings();
});

test("Open vSwitch also serves the NICs once its sockets exist", async () => {
  await dataplane?.stop();
  dataplane = undefined;
  const guests = ["fast1", "fast2"].map((name) => machine.console(name));
  const since = guests.map((console) => console.position());
  vswitch = await OpenVswitch.start();
  vswitch.addPort("first", sockets[0]);
  vswitch.addPort("later", sockets[1]);
  // Each gets its device again with its own socket, and then an address.
  for (const [index, console] of guests.entries()) {
    const after = { timeoutMs: AGAIN_MS, since: since[index] ?? 0 };
    await console.waitForLine(/nic added/, after);
  }
  await expectPings();
});

test("a VM that was started without shared memory reports the next step", async () => {
  await plug("beta", "later");
  const says = (): boolean =>
    ifaceStatus("beta", "later")?.hotplug?.message?.includes("no directory of sockets") === true;
  await eventually(says, { withinMs: CHANGE_MS });
  removeInterface("beta", "later");
  await expectGone("beta", "later");
});

test("a pod's sockets are removed with the pod", async () => {
  const [first] = sockets;
  machine.delete("vm", "fast1");
  await eventually(() => !existsSync(join(first, "..")), { withinMs: CHANGE_MS });
});
