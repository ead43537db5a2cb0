// SPDX-License-Identifier: Apache-2.0
// Debian from a containerDisk by BIOS: its metadata, and a plugged NIC.
import { diskVmManifest, eventually, obedientUserData } from "@patchbay/support";
import { addInterface, CHANGE_MS, expectReady, machine } from "../machine.ts";
import { DEBIAN_IMAGE, debianBooted, inDebian } from "./debian.ts";

const NAME = "debian";
const MAC = "02:00:00:00:12:01";
/** Settings in its user data and network data. */
export const TOLD = { hostname: "from-user-data", address: "10.78.12.1/24", name: NAME };

const NETWORK_DATA = {
  version: 2,
  ethernets: { first: { match: { macaddress: MAC }, addresses: [TOLD.address] } },
};

export interface ImageStory {
  readonly hostname: string;
  readonly addresses: string;
  /** Whether the guest has the plugged NIC. */
  readonly hasNic: boolean;
  /** The name that cloud-init read from the metadata: the VM's, which its user data override. */
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

export async function bootFromImage(): Promise<ImageStory> {
  apply();
  await debianBooted(NAME);
  addInterface(NAME, { name: "blue1", network: "blue" });
  const { mac = "none" } = await expectReady(NAME, "blue1");
  await eventually(() => hasNic(mac), { withinMs: CHANGE_MS });
  // Source: cloud-init, "Instance metadata", ds.meta_data.
  const metaData = await inDebian(NAME, "grep local-hostname /run/cloud-init/instance-data.json");
  const observed = {
    hostname: await inDebian(NAME, "hostname"),
    addresses: await inDebian(NAME, "ip -o -4 address show scope global"),
    hasNic: await hasNic(mac),
    nameInMetaData: /: "([^"]*)"/.exec(metaData)?.[1] ?? metaData,
  };
  // Shuts it down now, because an idle Debian still computes beside the other tests.
  machine.startDelete("vm", NAME);
  return observed;
}

export function deleteImageVm(): void {
  machine.deleteIfPresent("vm", NAME);
}
