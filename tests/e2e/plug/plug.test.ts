// SPDX-License-Identifier: Apache-2.0
// A NIC is plugged into a running VM in each supported way.
import { eventually, run } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { restart } from "../guest.ts";
import { ipIn } from "../inventory.ts";
import {
  addInterface,
  appendOperations,
  CHANGE_MS,
  expectReady,
  guestNic,
  ifaceStatus,
  machine,
  ping,
  setAddress,
} from "../machine.ts";

const TEMPLATE = "/spec/template/spec";
/** The launcher image's version, built from the same Debian packages. */
const qemuMajor = Number(/version (\d+)/.exec(run("qemu-system-x86_64", "--version"))?.[1]);
const BLUE = { name: "blue1", network: "blue" };

function patch(kind: "vm" | "vmi", name: string, operations: readonly unknown[]): void {
  machine.patch(kind, name, operations);
}

describe("network blue is plugged into", () => {
  test.each([
    {
      name: "a VM by the subresource",
      vmi: "alpha",
      ask: () => {
        addInterface("alpha", BLUE);
      },
    },
    {
      name: "a VM by a patch of its template",
      vmi: "beta",
      ask: () => {
        patch("vm", "beta", appendOperations(TEMPLATE, BLUE));
      },
    },
    {
      name: "a VMI without a VM by a patch of the VMI",
      vmi: "gamma",
      ask: () => {
        patch("vmi", "gamma", appendOperations("/spec", BLUE));
      },
    },
  ])("$name", async ({ vmi, ask }) => {
    const console = machine.console(vmi);
    const since = console.position();
    ask();
    const line = await console.waitForLine(/nic added \S+ mac/, { timeoutMs: CHANGE_MS, since });
    const status = await expectReady(vmi, "blue1");
    expect(line).toContain(`mac ${status.mac ?? "none"} pci ${status.pciAddress ?? "none"}`);
    expect(status.infoSource).toBe("domain, multus-status");
    expect(status.podInterfaceName).toMatch(/^pod[0-9a-f]{11}$/);
  });

  // Addresses unique to this test, because another NIC would otherwise answer for a link that is down.
  test("the guests reach each other over it", async () => {
    await setAddress("alpha", "blue1", "10.8.0.1/24");
    await setAddress("beta", "blue1", "10.8.0.2/24");
    await setAddress("gamma", "blue1", "10.8.0.3/24");
    expect(await ping("alpha", "10.8.0.2")).toEqual({ sent: 3, received: 3 });
    expect(await ping("beta", "10.8.0.3")).toEqual({ sent: 3, received: 3 });
    expect(await ping("gamma", "10.8.0.1")).toEqual({ sent: 3, received: 3 });
  });

  test("the link of a NIC is set down and up under the running guest", async () => {
    const nics = machine.findVm("alpha")?.spec.template.spec.domain.devices?.interfaces ?? [];
    const index = nics.findIndex(({ name }) => name === "blue1");
    const setLink = async (state: "down" | "up"): Promise<void> => {
      const path = `${TEMPLATE}/domain/devices/interfaces/${String(index)}/state`;
      patch("vm", "alpha", [{ op: "add", path, value: state }]);
      const find = (): boolean =>
        machine.findVmi("alpha")?.status?.interfaces?.find(({ name }) => name === "blue1")
          ?.linkState === state;
      await eventually(find, { withinMs: CHANGE_MS });
    };
    const { pciAddress } = await expectReady("alpha", "blue1");
    await setLink("down");
    expect(await ping("alpha", "10.8.0.2", { count: 1 })).toMatchObject({ received: 0 });
    await setLink("up");
    expect((await expectReady("alpha", "blue1")).pciAddress).toBe(pciAddress);
    // A guest with several NICs takes a second or two to detect its carrier.
    const answered = async (): Promise<boolean> => (await ping("alpha", "10.8.0.2")).received === 3;
    await eventually(answered, { withinMs: CHANGE_MS });
  });

  /** Deletes the tap of the NIC under QEMU, and wakes virt-handler, whose next observation is five minutes away. */
  async function deleteTap(): Promise<void> {
    const { podInterfaceName = "" } = await expectReady("beta", "blue1");
    const podUid = machine.findPod("beta")?.metadata.uid ?? "";
    ipIn(podUid, "link", "del", `tap${podInterfaceName.slice("pod".length)}`);
    machine.patch("vmi", "beta", { metadata: { annotations: { "tests/look": "now" } } });
  }

  /** QEMU 7 plugs the NIC again. */
  async function expectPluggedAgain(since: number): Promise<void> {
    const console = machine.console("beta");
    await console.waitForLine(/nic removed/, { timeoutMs: CHANGE_MS, since });
    await console.waitForLine(/nic added/, { timeoutMs: CHANGE_MS, since });
    await setAddress("beta", "blue1", "10.8.0.2/24");
    expect(await ping("alpha", "10.8.0.2")).toMatchObject({ received: 3 });
  }

  /** A newer QEMU would abort: it retains the device and keeps running. */
  async function expectKeptUntilRestart(): Promise<void> {
    const isLost = (): boolean => ifaceStatus("beta", "blue1")?.hotplug?.reason === "TapLost";
    await eventually(isLost, { withinMs: CHANGE_MS });
    expect(await ping("beta", "10.8.0.1")).toMatchObject({ received: 0 });
    await restart("beta");
    await expectReady("beta", "blue1");
  }

  test("recreates a NIC whose tap is deleted under QEMU, at a reboot that would abort QEMU", async () => {
    const since = machine.console("beta").position();
    await deleteTap();
    await (qemuMajor > 7 ? expectKeptUntilRestart() : expectPluggedAgain(since));
  });

  test("uses the MAC that the network assigned in VMI, domain and guest", async () => {
    const status = await expectReady("alpha", "blue1");
    const template = machine.findVm("alpha")?.spec.template.spec.domain.devices?.interfaces;
    const vmi = machine.findVmi("alpha");
    const blue1 = ({ name }: { readonly name: string }): boolean => name === "blue1";
    expect(template?.find(blue1)?.macAddress).toBeUndefined();
    expect(vmi?.status?.attachments?.find(blue1)?.mac).toBe(status.mac);
    expect(await guestNic("alpha", status.mac ?? "")).toMatch(/^eth/);
  });
});
