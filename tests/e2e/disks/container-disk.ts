// SPDX-License-Identifier: Apache-2.0
// The story of Debian from a containerDisk, by BIOS: what it was told, a NIC that it takes, what lasts.
import { diskVmManifest, eventually, obedientUserData } from "@patchbay/support";
import { addInterface, CHANGE_MS, expectReady, machine } from "../machine.ts";
import { DEBIAN_IMAGE, debianBooted, inDebian, rebootDebian } from "./debian.ts";

const NAME = "debian";
const MAC = "02:00:00:00:12:01";
/** Written by the guest, outside what cloud-init makes. */
const MARK = "/root/mark";
/** What its user data and its network data say. */
export const TOLD = { hostname: "from-user-data", address: "10.78.12.1/24", name: NAME };

const NETWORK_DATA = {
  version: 2,
  ethernets: { first: { match: { macaddress: MAC }, addresses: [TOLD.address] } },
};

/** What is seen of a guest and its plugged NIC. */
interface Look {
  readonly hostname: string;
  readonly addresses: string;
  /** Whether the guest has the NIC that was plugged. */
  readonly hasNic: boolean;
  readonly pciAddress: string | undefined;
  /** Empty when there is none. */
  readonly mark: string;
}

export interface ImageStory {
  readonly plugged: Look;
  readonly rebooted: Look;
  /** The name that cloud-init found in the metadata: the VM's, which its user data overrule. */
  readonly nameInMetaData: string;
}

function apply(): void {
  const cloudInit = {
    userData: obedientUserData({ hostname: TOLD.hostname }),
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
}

async function hasNic(mac: string): Promise<boolean> {
  const macs = await inDebian(NAME, "cat /sys/class/net/*/address");
  return macs.split("\n").includes(mac);
}

async function look(): Promise<Look> {
  const { mac = "none", pciAddress } = await expectReady(NAME, "blue1");
  return {
    hostname: await inDebian(NAME, "hostname"),
    addresses: await inDebian(NAME, "ip -o -4 address show scope global"),
    hasNic: await hasNic(mac),
    pciAddress,
    mark: await inDebian(NAME, `test ! -e ${MARK} || cat ${MARK}`),
  };
}

/** Boots, plugs, reboots. */
export async function bootFromImage(): Promise<ImageStory> {
  apply();
  await debianBooted(NAME);
  addInterface(NAME, { name: "blue1", network: "blue" });
  const { mac = "none" } = await expectReady(NAME, "blue1");
  await eventually(() => hasNic(mac), { withinMs: CHANGE_MS });
  await inDebian(NAME, `echo kept >${MARK} && sync`);
  const plugged = await look();
  // Source: cloud-init, "Instance metadata", ds.meta_data.
  const metaData = await inDebian(NAME, "grep local-hostname /run/cloud-init/instance-data.json");
  await rebootDebian(NAME);
  const nameInMetaData = /: "([^"]*)"/.exec(metaData)?.[1] ?? metaData;
  return { plugged, rebooted: await look(), nameInMetaData };
}

export function deleteImageVm(): void {
  machine.kubectl("delete", "vm", NAME, "--ignore-not-found", "--wait");
}
