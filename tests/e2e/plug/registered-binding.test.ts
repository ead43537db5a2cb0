// SPDX-License-Identifier: Apache-2.0
// A NIC with a registered binding is plugged into a running VM and unplugged.
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import { eventually, installPlugin } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { ipIn, linksOf } from "../inventory.ts";
import {
  addInterface,
  CHANGE_MS,
  expectGone,
  expectReady,
  guestNic,
  machine,
  ping,
  removeInterface,
  setAddress,
  SUBRESOURCES,
} from "../machine.ts";

const TYPE = `patchbay-own-tap-${String(process.pid)}`;
const VM = "alpha";
/** The topmost directory that did not exist. */
let removePlugin = (): void => undefined;

/** Registers bindings; null removes one. */
function register(binding: Readonly<Record<string, object | null>>): void {
  machine.patch("kubevirt", "kubevirt", { spec: { configuration: { network: { binding } } } });
}

function network(name: string): unknown {
  return {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { name, namespace: "default" },
    spec: { config: JSON.stringify({ cniVersion: "1.0.0", name, type: TYPE }) },
  };
}

function ask(name: string, networkName: string, binding: string) {
  const body = {
    name,
    networkAttachmentDefinitionName: networkName,
    binding: { name: binding },
  };
  return machine.put(`${SUBRESOURCES}/virtualmachines/${VM}/addinterface`, body);
}

/** Plugs as soon as virt-api knows the binding. */
async function plug(name: string, networkName: string, binding: string): Promise<void> {
  await eventually(() => ask(name, networkName, binding).code === 0, { withinMs: CHANGE_MS });
}

beforeAll(() => {
  removePlugin = installPlugin(TYPE, (path) => {
    copyFileSync(join(import.meta.dirname, "own-tap-plugin.sh"), path);
  });
  machine.apply(network("direct"), network("along"));
});

afterAll(async () => {
  for (const name of ["direct1", "managed1"]) {
    if (machine.findVmi(VM)?.spec.networks?.some((entry) => entry.name === name) === true) {
      removeInterface(VM, name);
      await expectGone(VM, name);
    }
  }
  register({ "own-tap": null, managed: null });
  machine.deleteIfPresent("net-attach-def", "direct", "along");
  removePlugin();
});

test("does not plug an unregistered binding or one with a hook, and states why", async () => {
  expect(ask("direct1", "direct", "own-tap").stderr).toContain("is not registered");
  register({ "own-tap": { domainAttachmentType: "tap", sidecarImage: "example.com/sidecar" } });
  const isReported = (): boolean =>
    ask("direct1", "direct", "own-tap").stderr.includes(
      "has a hook, which is called only when the guest starts",
    );
  await eventually(isReported, { withinMs: CHANGE_MS });
});

test("the guest uses the tap that the network's plugin created, with the binding's network", async () => {
  const networkAttachmentDefinition = "default/along";
  register({
    "own-tap": { domainAttachmentType: "tap", networkAttachmentDefinition, sidecarImage: null },
  });
  await plug("direct1", "direct", "own-tap");
  const { podInterfaceName = "", mac = "" } = await expectReady(VM, "direct1");
  const hash = podInterfaceName.slice("pod".length);
  const podUid = machine.findPod(VM)?.metadata.uid ?? "";
  const links = linksOf(podUid).filter((name) => name.endsWith(hash));
  // No link of ours is in between.
  expect(links).toEqual([`bnd${hash}`, `tap${hash}`]);
  expect(ipIn(podUid, "link", "show", `bnd${hash}`)).toContain("alias direct1");
  expect(await guestNic(VM, mac)).not.toBe("");
  await setAddress(VM, "direct1", "10.8.9.2/24");
  expect(await ping(VM, "10.8.9.1")).toEqual({ sent: 3, received: 3 });
});

test("an unplug removes both links", async () => {
  const { podInterfaceName = "" } = await expectReady(VM, "direct1");
  const hash = podInterfaceName.slice("pod".length);
  const podUid = machine.findPod(VM)?.metadata.uid ?? "";
  removeInterface(VM, "direct1");
  await expectGone(VM, "direct1");
  expect(linksOf(podUid).filter((name) => name.endsWith(hash))).toEqual([]);
});

test("a managed tap is bridged to the pod's NIC", async () => {
  register({ managed: { domainAttachmentType: "managedTap" } });
  await plug("managed1", "red", "managed");
  const { podInterfaceName = "" } = await expectReady(VM, "managed1");
  const hash = podInterfaceName.slice("pod".length);
  const podUid = machine.findPod(VM)?.metadata.uid ?? "";
  const links = linksOf(podUid).filter((name) => name.endsWith(hash));
  expect(links).toEqual([`k6t-${hash}`, `pod${hash}`, `tap${hash}`]);
  addInterface("beta", { name: "peer1", network: "red" });
  await setAddress("beta", "peer1", "10.8.10.1/24");
  await setAddress(VM, "managed1", "10.8.10.2/24");
  expect(await ping(VM, "10.8.10.1")).toEqual({ sent: 3, received: 3 });
  removeInterface("beta", "peer1");
  await expectGone("beta", "peer1");
});
