// SPDX-License-Identifier: Apache-2.0
// Debian in a VM of `patchbay create vm --root --network`: DHCP on every NIC, also on one plugged later, and a root disk
// that is kept when the VM stops.
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { addInterface, CHANGE_MS, expectReady, machine } from "../machine.ts";
import { addDebianImage, DEBIAN_BOOT_MS, DEBIAN_IMAGE } from "./debian.ts";
import { SecureShell } from "./secure-shell.ts";

const NAME = "created";
const GUEST = `admin@vm/${NAME}/default`;
const MAC = "02:00:00:00:23:01";
const person = new SecureShell();

beforeAll(() => {
  addDebianImage();
  const order = ["--image", DEBIAN_IMAGE, "--root", "2Gi", "--network", "blue", "--mac", MAC];
  machine.patchbay("create", "vm", NAME, ...order, "--ssh-key", person.publicKeyFile);
}, DEBIAN_BOOT_MS);

afterAll(() => {
  machine.deleteIfPresent("vm", NAME);
  person.close();
});

/** The guest's addresses by MAC, once it has so many. */
async function addresses(count: number): Promise<ReadonlyMap<string, string>> {
  const command =
    "ip -o -4 addr show scope global; cat /sys/class/net/*/address; ls /sys/class/net";
  return eventually(
    async () => {
      const lines = (await person.print(GUEST, command)).trim().split("\n");
      const macs = lines.filter((line) => /^[0-9a-f]{2}(:[0-9a-f]{2}){5}$/.test(line));
      const names = lines.slice(-macs.length);
      const found = lines.flatMap((line) => {
        const [, name = "", address = ""] = /^\d+: (\S+) +inet (\S+?)\//.exec(line) ?? [];
        return name === "" ? [] : [[macs[names.indexOf(name)] ?? "", address] as const];
      });
      return found.length === count ? new Map(found) : undefined;
    },
    { withinMs: DEBIAN_BOOT_MS },
  );
}

test(
  "each NIC has its DHCP address, also a NIC plugged into the running guest",
  async () => {
    const { ipAddress } = await expectReady(NAME, "blue");
    expect((await addresses(2)).get(MAC)).toBe(ipAddress);
    addInterface(NAME, { name: "more", network: "blue" });
    const more = await expectReady(NAME, "more");
    expect((await addresses(3)).get(more.mac ?? "")).toBe(more.ipAddress);
  },
  3 * DEBIAN_BOOT_MS + CHANGE_MS,
);

test(
  "its root disk keeps data when the VM is stopped and started",
  async () => {
    await person.print(GUEST, "echo kept >mark && sync");
    const boot = await person.print(GUEST, "cat /proc/sys/kernel/random/boot_id");
    machine.patchbay("stop", NAME);
    await eventually(() => machine.findVmi(NAME) === undefined, { withinMs: DEBIAN_BOOT_MS });
    machine.patchbay("start", NAME);
    expect(await person.print(GUEST, "cat mark")).toBe("kept\n");
    expect(await person.print(GUEST, "cat /proc/sys/kernel/random/boot_id")).not.toBe(boot);
  },
  3 * DEBIAN_BOOT_MS,
);

test("its root disk is deleted with the VM", async () => {
  const claims = (): readonly string[] =>
    machine
      .list("pvc")
      .map(({ metadata }) => metadata.name)
      .filter((name) => name.startsWith(NAME));
  expect(claims()).toEqual([`${NAME}-root`]);
  machine.delete("vm", NAME);
  await eventually(() => claims().length === 0, { withinMs: CHANGE_MS });
});
