// SPDX-License-Identifier: Apache-2.0
// Plug and unplug on a real cluster.
import { eventually, ifaceManifest, networkManifest, vmManifest } from "@patchbay/support";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { BOOT_MS, CHANGE_MS, Room } from "./cluster.ts";

const VM = "alpha";
const TEMPLATE = "/spec/template/spec";

describe("on the named cluster", () => {
  const room = new Room();

  beforeAll(async () => {
    room.open(vmManifest({ name: VM }));
    await room.booted(VM);
  }, BOOT_MS);

  afterAll(() => {
    room.close();
  }, BOOT_MS);

  async function expectObserved(name: string, since: number): Promise<void> {
    const status = await eventually(
      () => {
        const found = room.iface(VM, name);
        return found?.hotplug?.phase === "Ready" ? found : undefined;
      },
      { withinMs: CHANGE_MS },
    );
    const line = await room.printed(VM, /nic added \S+ mac \S+/, since);
    expect(line).toContain(status.mac);
    const { annotations } = room.launcher(VM).metadata;
    expect(annotations?.["k8s.v1.cni.cncf.io/network-status"]).toContain(status.podInterfaceName);
  }

  async function expectGone(name: string, since: number): Promise<void> {
    await room.printed(VM, /nic removed/, since);
    await eventually(
      () => {
        const { spec, status } = room.vmi(VM);
        const remaining = [
          ...(status?.interfaces ?? []),
          ...(status?.attachments ?? []),
          ...(spec.networks ?? []),
        ];
        return !remaining.some((entry) => entry.name === name);
      },
      { withinMs: CHANGE_MS },
    );
  }

  test("plugs a NIC by the command line, and the guest sees it", async () => {
    const since = room.console(VM).length;
    room.patchbay(
      "addinterface",
      VM,
      "--name",
      "first",
      "--wait",
      "--network-attachment-definition-name",
      room.network,
    );
    await expectObserved("first", since);
  });

  test("unplugs the NIC", async () => {
    const since = room.console(VM).length;
    room.patchbay("removeinterface", VM, "--name", "first", "--wait");
    await expectGone("first", since);
  });

  test("plugs a NIC by a patch of the VM's template, and the guest sees it", async () => {
    const since = room.console(VM).length;
    const nic = { name: "second", network: room.network };
    const operations = [
      { op: "add", path: `${TEMPLATE}/networks/-`, value: networkManifest(nic) },
      { op: "add", path: `${TEMPLATE}/domain/devices/interfaces/-`, value: ifaceManifest(nic) },
    ];
    room.kubectl("patch", "vm", VM, "--type=json", "-p", JSON.stringify(operations));
    await expectObserved("second", since);
  });

  test("retains the NIC across a restart of the VM", async () => {
    const before = room.vmi(VM).metadata.uid;
    const mac = room.iface(VM, "second")?.mac;
    room.patchbay("restart", VM);
    await eventually(() => room.vmi(VM).metadata.uid !== before, { withinMs: BOOT_MS });
    await room.booted(VM);
    const macNow = await eventually(() => room.iface(VM, "second")?.mac, { withinMs: CHANGE_MS });
    expect(macNow).toBe(mac);
  });

  test("rejects a missing network", () => {
    expect(() =>
      room.patchbay(
        "addinterface",
        VM,
        "--name",
        "third",
        "--network-attachment-definition-name",
        "none",
      ),
    ).toThrow("none");
  });
});
