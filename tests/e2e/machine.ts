// SPDX-License-Identifier: Apache-2.0
// Shared helpers: the machine, and its operations and observations.
import type { IfaceStatus } from "@patchbay/api";
import {
  eventually,
  ifaceManifest,
  Machine,
  networkManifest,
  type ManifestNic,
} from "@patchbay/support";
import { inject } from "vitest";

export const machine = new Machine(inject("machine"));

/** Time for one plug or unplug under software emulation on a busy machine. */
export const CHANGE_MS = 30_000;

export const SUBRESOURCES = "/apis/subresources.kubevirt.io/v1/namespaces/default";

/** status.interfaces of one iface. */
export function ifaceStatus(vmi: string, name: string): IfaceStatus | undefined {
  return machine.findVmi(vmi)?.status?.interfaces?.find((entry) => entry.name === name);
}

export async function expectReady(vmi: string, name: string): Promise<IfaceStatus> {
  return eventually(
    () => {
      const status = ifaceStatus(vmi, name);
      return status?.hotplug?.phase === "Ready" ? status : undefined;
    },
    { withinMs: CHANGE_MS },
  );
}

/** Waits until the iface is gone from the VMI. */
export async function expectGone(vmi: string, name: string): Promise<void> {
  await eventually(
    () => {
      const found = machine.findVmi(vmi);
      const remaining = [
        ...(found?.status?.interfaces ?? []),
        ...(found?.status?.attachments ?? []),
        ...(found?.spec.domain.devices?.interfaces ?? []),
        ...(found?.spec.networks ?? []),
      ];
      return !remaining.some((entry) => entry.name === name);
    },
    { withinMs: CHANGE_MS },
  );
}

function request(vm: string, subresource: string, body: unknown): void {
  machine.request(`${SUBRESOURCES}/virtualmachines/${vm}/${subresource}`, body);
}

export function addInterface(
  vm: string,
  nic: Required<Pick<ManifestNic, "name" | "network">>,
): void {
  request(vm, "addinterface", { name: nic.name, networkAttachmentDefinitionName: nic.network });
}

export function removeInterface(vm: string, name: string): void {
  request(vm, "removeinterface", { name });
}

/** JSON patch operations that append a NIC below `base`. */
export function appendOperations(base: string, nic: ManifestNic): readonly unknown[] {
  return [
    { op: "add", path: `${base}/networks/-`, value: networkManifest(nic) },
    { op: "add", path: `${base}/domain/devices/interfaces/-`, value: ifaceManifest(nic) },
  ];
}

export async function guestNic(vmi: string, mac: string): Promise<string> {
  return eventually(
    async () => {
      const { lines } = await machine.console(vmi).run("report");
      return lines
        .map((line) => /^nic (\S+) mac (\S+)/.exec(line))
        .find((match) => match?.[2] === mac)?.[1];
    },
    { withinMs: CHANGE_MS },
  );
}

export async function setAddress(vmi: string, iface: string, cidr: string): Promise<void> {
  const nic = await guestNic(vmi, (await expectReady(vmi, iface)).mac ?? "");
  const { code, lines } = await machine.console(vmi).run(`address ${nic} ${cidr}`);
  if (code !== 0) throw new Error(lines.join("\n"));
}

export async function ping(
  vmi: string,
  ip: string,
  {
    count = 3,
    intervalMs = 200,
    bytes = 56,
  }: { readonly count?: number; readonly intervalMs?: number; readonly bytes?: number } = {},
): Promise<{ readonly sent: number; readonly received: number }> {
  const timeoutMs = count * intervalMs + CHANGE_MS;
  const { lines } = await machine
    .console(vmi)
    .run(`ping ${ip} ${String(count)} ${String(intervalMs)} ${String(bytes)}`, { timeoutMs });
  const match = /sent (\d+) received (\d+)/.exec(lines.join("\n"));
  return { sent: Number(match?.[1] ?? "0"), received: Number(match?.[2] ?? "0") };
}
