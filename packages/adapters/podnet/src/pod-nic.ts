// SPDX-License-Identifier: Apache-2.0
// What is done to a pod's NIC itself, which CNI has made: it is removed, or gets its name back.
import type { Netlink, NetnsHandle, ProcessRunner, RenamedNic } from "@patchbay/core/ports";
import { askLinks } from "./netlink/ask.ts";
import { runIn } from "./run-in.ts";

/** What looks at a namespace and runs programs in it. */
interface Access {
  readonly runner: ProcessRunner;
  readonly netlink: Netlink;
}

/** The process whose namespace is the machine's own: in a container that shares it, the container's first. */
const INIT_PID = "1";

async function ipLink(
  { runner }: Access,
  netns: NetnsHandle,
  args: readonly string[],
): Promise<void> {
  await runIn(runner, netns, { program: "ip", args: ["link", ...args] });
}

async function isThere({ netlink }: Access, netns: NetnsHandle, name: string): Promise<boolean> {
  return (await askLinks(netlink, netns)).some((link) => link.name === name);
}

/** Equivalent to: `ip link delete dev NAME`, for hardware `ip link set dev NAME netns 1`. */
export async function removeLink(access: Access, netns: NetnsHandle, name: string): Promise<void> {
  if (!(await isThere(access, netns, name))) return;
  try {
    await ipLink(access, netns, ["delete", "dev", name]);
  } catch {
    // It has gone meanwhile, or it is hardware, which can only be moved.
    if (await isThere(access, netns, name)) {
      await ipLink(access, netns, ["set", "dev", name, "netns", INIT_PID]);
    }
  }
}

/** Equivalent to: `ip link set dev NAME nomaster down [address MAC]`, `ip link delete dev BEFORE`, `ip link set dev NAME name BEFORE`. */
export async function restoreName(
  access: Access,
  netns: NetnsHandle,
  { name, before, mac }: RenamedNic,
): Promise<void> {
  if (!(await isThere(access, netns, name))) return;
  const address = mac === undefined ? [] : ["address", mac];
  await ipLink(access, netns, ["set", "dev", name, "nomaster", "down", ...address]);
  await removeLink(access, netns, before);
  await ipLink(access, netns, ["set", "dev", name, "name", before]);
}
