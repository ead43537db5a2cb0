// SPDX-License-Identifier: Apache-2.0
import { createFakeFiles } from "@patchbay/ports/testing";
import { expect, test } from "vitest";
import { layoutOf } from "../layout.ts";
import { hierarchiesOf } from "./cgroups.ts";
import { mountsBelow } from "./mounts.ts";
import { listProcesses, listShimSockets, shimFamilies } from "./shims.ts";

test("mounts below a directory are listed, the innermost first", () => {
  const mountinfo = [
    "22 1 8:1 / / rw - ext4 /dev/sda1 rw",
    String.raw`40 22 0:30 / /var/lib/pb/a\040b rw - tmpfs tmpfs rw`,
    String.raw`41 40 0:31 / /var/lib/pb/a\040b/\134c rw - tmpfs tmpfs rw`,
    "42 22 0:32 / /var/lib/pbx rw - tmpfs tmpfs rw",
  ].join("\n");
  expect(mountsBelow(mountinfo, "/var/lib/pb")).toEqual([
    String.raw`/var/lib/pb/a b/\c`,
    "/var/lib/pb/a b",
  ]);
});

test("hierarchies of control groups of both versions are found", () => {
  const mountinfo = [
    "25 22 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw",
    "26 25 0:23 / /sys/fs/cgroup/pids rw,relatime shared:9 - cgroup cgroup rw,pids",
    "27 25 0:24 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw",
    "28 22 0:25 / /mnt/cgroup rw - ext4 /dev/sdb rw",
  ].join("\n");
  expect(hierarchiesOf(mountinfo)).toEqual(["/sys/fs/cgroup/pids", "/sys/fs/cgroup/unified"]);
});

const SOCKET = "/d/run/containerd.sock";

test("the family of a containerd's shims is found, and no other's", async () => {
  const files = createFakeFiles();
  const add = async (pid: number, parent: number, argv: readonly string[]): Promise<void> => {
    await files.writeAtomic(
      `/proc/${String(pid)}/stat`,
      `${String(pid)} (a) b) S ${String(parent)} 1`,
    );
    await files.writeAtomic(`/proc/${String(pid)}/cmdline`, `${argv.join("\0")}\0`);
  };
  const shim = ["/usr/bin/containerd-shim-runc-v2", "-namespace", "k8s.io", "-address"];
  await add(10, 1, [...shim, SOCKET]);
  await add(11, 10, ["/pause"]);
  await add(12, 10, ["sh"]);
  await add(13, 12, ["sleep"]);
  await add(20, 1, [...shim, "/run/containerd/containerd.sock"]);
  await add(21, 20, ["sh"]);
  await add(30, 1, ["vi", "-address", SOCKET]);
  await files.writeAtomic("/proc/uptime", "1");
  expect(shimFamilies(await listProcesses(files), SOCKET)).toEqual([10, 11, 12, 13]);
});

test("sockets of shims are read from the bundles, and only where they are sockets' addresses", async () => {
  const layout = layoutOf({ directory: "/d", runDirectory: "/d/run", cniConfDirectory: "/d/net" });
  const files = createFakeFiles();
  const bundles = "/d/state/io.containerd.runtime.v2.task/k8s.io";
  await files.writeAtomic(`${bundles}/a/address`, "unix:///run/containerd/s/1f");
  await files.writeAtomic(`${bundles}/b/address`, "unix:///run/containerd/s/1f");
  await files.writeAtomic(`${bundles}/c/address`, "");
  await files.writeAtomic(`${bundles}/d/config.json`, "{}");
  expect(await listShimSockets(files, layout)).toEqual(["/run/containerd/s/1f"]);
});
