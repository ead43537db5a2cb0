// SPDX-License-Identifier: Apache-2.0
// Debian from a containerDisk: is it what cloud-init was told, does it take NICs, and what of it lasts?
import { diskVmManifest, eventually, obedientUserData } from "@patchbay/testing";
import { beforeAll, describe, expect, test } from "vitest";
import { addInterface, CHANGE_MS, expectReady, machine } from "../machine.ts";
import {
  addDebianImage,
  DEBIAN_BOOT_MS,
  DEBIAN_IMAGE,
  debianBooted,
  debianRestarted,
  inDebian,
  rebootDebian,
} from "./debian.ts";

const NAME = "debian";
const MAC = "02:00:00:00:12:01";
const ADDRESS = "10.78.12.1/24";
/** Written by the guest, outside what cloud-init makes. */
const MARK = "/root/mark";

const NETWORK_DATA = {
  version: 2,
  ethernets: { first: { match: { macaddress: MAC }, addresses: [ADDRESS] } },
};

beforeAll(async () => {
  addDebianImage();
  const cloudInit = {
    userData: obedientUserData({ hostname: "from-user-data" }),
    networkData: JSON.stringify(NETWORK_DATA),
  };
  machine.apply(
    diskVmManifest({
      name: NAME,
      disks: [
        { name: "root", volume: { containerDisk: { image: DEBIAN_IMAGE } } },
        { name: "seed", volume: { cloudInitNoCloud: cloudInit } },
      ],
      nics: [{ name: "default", macAddress: MAC }],
    }),
  );
  await debianBooted(NAME);
  return () => {
    machine.kubectl("delete", "vm", NAME, "--wait");
  };
}, DEBIAN_BOOT_MS);

/** Whether the guest has a NIC with that MAC. */
async function hasNic(mac: string | undefined): Promise<boolean> {
  const macs = await inDebian(NAME, "cat /sys/class/net/*/address");
  return mac !== undefined && macs.split("\n").includes(mac);
}

describe("Debian from a containerDisk", () => {
  test("has the name that its user data gives it", async () => {
    expect(await inDebian(NAME, "hostname")).toBe("from-user-data");
  });

  test("has the address that its network data gives it", async () => {
    expect(await inDebian(NAME, "ip -o -4 address show scope global")).toContain(` ${ADDRESS} `);
  });

  test("takes a NIC that is plugged in", async () => {
    addInterface(NAME, { name: "blue1", network: "blue" });
    const { mac } = await expectReady(NAME, "blue1");
    await eventually(() => hasNic(mac), { withinMs: CHANGE_MS });
  });

  test(
    "keeps the NIC and what it wrote over a reboot of its own",
    { timeout: DEBIAN_BOOT_MS },
    async () => {
      const { mac, pciAddress } = await expectReady(NAME, "blue1");
      await inDebian(NAME, `echo kept >${MARK} && sync`);
      await rebootDebian(NAME);
      expect(await hasNic(mac)).toBe(true);
      expect((await expectReady(NAME, "blue1")).pciAddress).toBe(pciAddress);
      expect(await inDebian(NAME, `cat ${MARK}`)).toBe("kept");
    },
  );

  test(
    "keeps the NIC but not what it wrote over a restart of the VM",
    { timeout: DEBIAN_BOOT_MS },
    async () => {
      const { mac, pciAddress } = await expectReady(NAME, "blue1");
      const uid = machine.findVmi(NAME)?.metadata.uid;
      machine.patchbay("restart", NAME);
      await debianRestarted(NAME, uid);
      expect(await hasNic(mac)).toBe(true);
      expect((await expectReady(NAME, "blue1")).pciAddress).toBe(pciAddress);
      expect(await inDebian(NAME, `test ! -e ${MARK} && hostname`)).toBe("from-user-data");
    },
  );
});
