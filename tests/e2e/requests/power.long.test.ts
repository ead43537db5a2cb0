// SPDX-License-Identifier: Apache-2.0
// KubeVirt's requests for a guest: pause, resume, reset, soft reboot, and agent queries.
import { eventually, FEW_PORTS, vmManifest } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CHANGE_MS, machine, SUBRESOURCES } from "../machine.ts";

const VM = "pressed";
const TIMEOUT = { withinMs: CHANGE_MS };
const VMI = `${SUBRESOURCES}/virtualmachineinstances/${VM}`;
/** Time for a guest under emulation on a busy machine. */
const BOOT_MS = 120_000;

function ask(request: string, body: unknown = {}): void {
  const { code, stderr } = machine.put(`${VMI}/${request}`, body);
  if (code !== 0) throw new Error(stderr);
}

function conditions(): readonly string[] {
  return (machine.findVmi(VM)?.status?.conditions ?? []).map(({ type }) => type);
}

function printed(): string {
  return machine.kubectl("get", "vm", VM, "--no-headers");
}

beforeAll(async () => {
  machine.apply(vmManifest({ name: VM, image: "agent", pcieRootPorts: FEW_PORTS }));
  await machine.booted(VM);
  await eventually(() => conditions().includes("AgentConnected"), { withinMs: BOOT_MS });
});

afterAll(() => {
  machine.deleteIfPresent("vm", VM);
});

test("a paused guest stays paused until it is resumed", async () => {
  ask("pause");
  await eventually(() => conditions().includes("Paused"), TIMEOUT);
  await eventually(() => / Paused +False/.test(printed()), TIMEOUT);
  expect(machine.put(`${VMI}/pause`, {}).stderr).toContain("VMI is already paused");
  expect(machine.put(`${VMI}/softreboot`, {}).stderr).toContain("VMI is paused");
  ask("unpause");
  await eventually(() => !conditions().includes("Paused"), TIMEOUT);
  expect(await machine.console(VM).run("report")).toMatchObject({ code: 0 });
  await eventually(() => / Running +True/.test(printed()), TIMEOUT);
});

test("a guest describes itself through its agent", () => {
  expect(machine.read(`${VMI}/guestosinfo`)).toMatchObject({
    fsInfo: { disks: [] },
    fsFreezeStatus: "thawed",
    guestAgentVersion: expect.stringMatching(/^\d+\.\d+/) as string,
    supportedCommands: expect.arrayContaining([{ name: "guest-ping", enabled: true }]) as object[],
  });
  expect(machine.read(`${VMI}/userlist`)).toMatchObject({ metadata: {}, items: [] });
  expect(machine.read(`${VMI}/interfacetraffic`)).toMatchObject({
    items: [{ name: "default", received: { bytes: expect.any(Number) as number } }],
  });
  expect(machine.read(`${VMI}/filesystemlist`)).toMatchObject({ metadata: {}, items: [] });
});

test.each(["reset", "softreboot"])("%s reboots the guest, and it is the same VMI", async (how) => {
  const { uid } = machine.findVmi(VM)?.metadata ?? {};
  const guest = machine.console(VM);
  const since = guest.position();
  ask(how);
  await guest.waitForLine(/guest ready/, { timeoutMs: BOOT_MS, since });
  const after = machine.findVmi(VM);
  expect([after?.metadata.uid, after?.status?.phase]).toEqual([uid, "Running"]);
});

test("a VM started paused waits, and a forced stop ends it", async () => {
  machine.patchbay("stop", VM, "--wait");
  const path = `${SUBRESOURCES}/virtualmachines/${VM}`;
  expect(machine.put(`${path}/start`, { paused: true })).toMatchObject({ code: 0 });
  await eventually(() => printed().includes(" Paused "), { withinMs: BOOT_MS });
  expect(machine.put(`${path}/stop`, { gracePeriod: 0 })).toMatchObject({ code: 0 });
  await eventually(() => machine.findVmi(VM) === undefined, TIMEOUT);
});
