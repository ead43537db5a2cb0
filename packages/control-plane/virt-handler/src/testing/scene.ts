// SPDX-License-Identifier: Apache-2.0
// A VM with NICs "one" and "two" on the in-memory node.
import { createHash } from "node:crypto";
import type { Attachment, VirtualMachineInstance, VmiStatus } from "@patchbay/api";
import { parseDomain } from "@patchbay/domain/parse";
import type { FakePodNetwork } from "@patchbay/podnet/testing";
import { aVmi } from "@patchbay/support";
import { createBench, NETNS, type Bench } from "./bench.ts";

export const MACS = { one: "02:00:00:00:00:01", two: "02:00:00:00:00:02" } as const;
export type Name = keyof typeof MACS;

function hashOf(name: Name): string {
  return createHash("sha256").update(name).digest("hex").slice(0, 11);
}

function podInterfaceOf(name: Name): string {
  return `pod${hashOf(name)}`;
}

/** Returns the bridge and the tap of a NIC, with KubeVirt's names. */
export function linkNamesOf(name: Name): Readonly<Record<"bridgeName" | "tapName", string>> {
  return { bridgeName: `k6t-${hashOf(name)}`, tapName: `tap${hashOf(name)}` };
}

/** Builds an ARP request by which a guest with the MAC announces an IPv4 address. */
export function buildArp(mac: string, address: string): Uint8Array {
  const sender = mac.replaceAll(":", "");
  const ip = Buffer.from(address.split(".").map(Number)).toString("hex");
  const target = `${"0".repeat(12)}${ip}`;
  return Buffer.from(
    `${"f".repeat(12)}${sender}08060001080006040001${sender}${ip}${target}`,
    "hex",
  );
}

/** Time after which the loop repeats the request to release a NIC, in milliseconds. */
export const UNPLUG_RETRY_INTERVAL_MS = 10_000;

/** Builds an attachment as virt-controller writes it. */
export function attachment(name: Name, state: Attachment["state"] = "Attached"): Attachment {
  return {
    name,
    networkName: "default/blue",
    podInterfaceName: podInterfaceOf(name),
    state,
    mac: MACS[name],
  };
}

export function aScheduledVmi(
  names: readonly Name[],
  status: VmiStatus = {},
): VirtualMachineInstance {
  return aVmi({
    nics: names.map((name) => ({ name, mac: MACS[name] })),
    status: {
      phase: "Scheduled",
      activePods: { "pod-uid": "node1" },
      attachments: names.map((name) => attachment(name)),
      ...status,
    },
  });
}

/** Adds a cloud-init disk `init` with this user data. */
export function withCloudInit(
  vmi: VirtualMachineInstance,
  userData: string,
): VirtualMachineInstance {
  const volumes = [{ name: "init", cloudInitNoCloud: { userData } }];
  return { ...vmi, spec: { ...vmi.spec, volumes } };
}

/** Adds the NIC, like CNI. */
export function putNicAt(podNetwork: FakePodNetwork, name: Name): void {
  const link = { name: podInterfaceOf(name), kind: "veth", mac: MACS[name], mtu: 1500, up: true };
  podNetwork.putLink(NETNS, link);
}

export function putNic(bench: Bench, name: Name): void {
  putNicAt(bench.podNetwork, name);
}

export function devicesOf(bench: Bench): readonly string[] {
  const parsed = parseDomain(bench.daemon.readXml("default_vm1", "live") ?? "<domain/>");
  return parsed.ok ? parsed.domain.nics.map(({ alias }) => alias) : [];
}

/** Returns whether the bridge and the tap exist. */
export function linksOf(bench: Bench, name: Name): readonly boolean[] {
  const { bridgeName, tapName } = linkNamesOf(name);
  return [bridgeName, tapName].map((link) => bench.podNetwork.findLink(NETNS, link) !== undefined);
}

export function without(vmi: VirtualMachineInstance, name: Name): VirtualMachineInstance {
  const interfaces = vmi.spec.domain.devices?.interfaces?.map((iface) =>
    iface.name === name ? { ...iface, state: "absent" } : iface,
  );
  return {
    ...vmi,
    spec: {
      ...vmi.spec,
      domain: { ...vmi.spec.domain, devices: { interfaces: interfaces ?? [] } },
    },
  };
}

export async function running(names: readonly Name[] = ["one", "two"]): Promise<Bench> {
  const bench = createBench(aScheduledVmi(names));
  for (const name of names) putNic(bench, name);
  await bench.run();
  return bench;
}
