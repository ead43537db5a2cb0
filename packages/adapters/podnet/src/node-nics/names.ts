// SPDX-License-Identifier: Apache-2.0
// What is the NIC called that a plugin's configuration names by its device? Source: CNI plugin host-device, getLink; sysfs.
import type { Files } from "@patchbay/core/ports";

/** Names of the NICs of a device, sorted. */
type ListNics = (device: string) => Promise<readonly string[]>;

/** A directory of one device; anything else could lead elsewhere. */
const DEVICE_ID = /^[A-Za-z0-9][A-Za-z0-9_.:-]*$/;
/** Below a PCI device of virtio is another one, which has the NIC. */
const VIRTIO = /^virtio\d+$/;
const DEVICES = "/sys/devices/";

function listNicsOf(files: Files): ListNics {
  return (device) => files.list(`${device}/net`);
}

async function listPci(files: Files, device: string): Promise<readonly string[]> {
  const nics = await listNicsOf(files)(device);
  if (nics.length > 0) return nics;
  const inner = (await files.list(device)).filter((name) => VIRTIO.test(name));
  const found: string[] = [];
  for (const name of inner) found.push(...(await listNicsOf(files)(`${device}/${name}`)));
  return found;
}

/** The NIC of the device with that PCI address, or of the auxiliary device of that name. `root`: where the host's files are. */
export async function nameByDevice(
  id: string,
  { files, root }: { readonly files: Files; readonly root: string },
): Promise<string | undefined> {
  if (!DEVICE_ID.test(id)) return undefined;
  const [pci] = await listPci(files, `${root}/sys/bus/pci/devices/${id}`);
  if (pci !== undefined) return pci;
  const [auxiliary] = await listNicsOf(files)(`${root}/sys/bus/auxiliary/devices/${id}`);
  return auxiliary;
}

/** The NIC of the device at that path. */
export async function nameByKernelPath(
  path: string,
  { files, root }: { readonly files: Files; readonly root: string },
): Promise<string | undefined> {
  if (!path.startsWith(DEVICES) || path.split("/").includes("..")) return undefined;
  const [name] = await listNicsOf(files)(`${root}${path}`);
  return name;
}
