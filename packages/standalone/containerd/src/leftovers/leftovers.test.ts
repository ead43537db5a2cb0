// SPDX-License-Identifier: Apache-2.0
import { createFakeFiles, type FakeFiles } from "@patchbay/os/testing";
import { describe, expect, test } from "vitest";
import { buildLayout } from "../layout.ts";
import { parseHierarchies } from "./cgroups.ts";
import { mountsBelow } from "./mounts.ts";
import { shimSocketPaths, removeShimSockets, sweepShimSockets } from "./shim-sockets.ts";
import { findContainerId, listProcesses, listShimDescendants, findShims } from "./shims.ts";

test("lists mounts below a directory, innermost first", () => {
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

test("finds cgroup hierarchies of both versions", () => {
  const mountinfo = [
    "25 22 0:22 / /sys/fs/cgroup rw - tmpfs tmpfs rw",
    "26 25 0:23 / /sys/fs/cgroup/pids rw,relatime shared:9 - cgroup cgroup rw,pids",
    "27 25 0:24 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw",
    "28 22 0:25 / /mnt/cgroup rw - ext4 /dev/sdb rw",
  ].join("\n");
  expect(parseHierarchies(mountinfo)).toEqual(["/sys/fs/cgroup/pids", "/sys/fs/cgroup/unified"]);
});

const SOCKET = "/d/run/containerd.sock";

/** As the kernel tells of processes; `uid` and `namespaces`: root in the host's namespace where none is said. */
async function withProcesses(
  ...processes: readonly {
    readonly pid: number;
    readonly parent: number;
    readonly argv: readonly string[];
    readonly uid?: number;
    readonly namespaces?: string;
  }[]
): Promise<FakeFiles> {
  const files = createFakeFiles();
  for (const { pid, parent, argv, uid = 0, namespaces = String(pid) } of processes) {
    const status = [
      "Name:\ta) b",
      `Pid:\t${String(pid)}`,
      `PPid:\t${String(parent)}`,
      `Uid:\t${Array(4).fill(uid).join("\t")}`,
      `NSpid:\t${namespaces}`,
      "Threads:\t1",
    ];
    await files.writeAtomic(`/proc/${String(pid)}/status`, `${status.join("\n")}\n`);
    await files.writeAtomic(`/proc/${String(pid)}/cmdline`, `${argv.join("\0")}\0`);
  }
  await files.writeAtomic("/proc/uptime", "1");
  return files;
}

const SHIM = ["/usr/bin/containerd-shim-runc-v2", "-namespace", "k8s.io", "-address"];

test("finds the process tree of a containerd's shims, and no others", async () => {
  const files = await withProcesses(
    { pid: 10, parent: 1, argv: [...SHIM, SOCKET] },
    { pid: 11, parent: 10, argv: ["/pause"] },
    { pid: 12, parent: 10, argv: ["sh"], uid: 107, namespaces: "12\t1" },
    { pid: 13, parent: 12, argv: ["sleep"], uid: 107, namespaces: "13\t2" },
    { pid: 20, parent: 1, argv: [...SHIM, "/run/containerd/containerd.sock"] },
    { pid: 21, parent: 20, argv: ["sh"] },
    { pid: 30, parent: 1, argv: ["vi", "-address", SOCKET] },
  );
  expect(listShimDescendants(await listProcesses(files), SOCKET)).toEqual([10, 11, 12, 13]);
});

test.each([
  { name: "in a pod", namespaces: "30\t7" },
  { name: "of another user than root", uid: 107 },
])("does not treat a process $name as a shim, whatever its name", async (it) => {
  const files = await withProcesses({ pid: 30, parent: 12, argv: [...SHIM, SOCKET], ...it });
  expect(findShims(await listProcesses(files), SOCKET)).toEqual([]);
});

test.each([
  { id: "0a1b", want: "0a1b" },
  { id: "../../../..", want: undefined },
  { id: "..", want: undefined },
  { id: "a/../..", want: undefined },
  { id: "", want: undefined },
])("finds the container $want of a shim with -id $id", async ({ id, want }) => {
  const files = await withProcesses({ pid: 10, parent: 1, argv: [...SHIM, SOCKET, "-id", id] });
  expect(findContainerId(await listProcesses(files), 10)).toBe(want);
});

describe("sockets of shims", () => {
  const layout = buildLayout({
    directory: "/d",
    runDirectory: "/d/run",
    cniConfDirectory: "/d/net",
  });
  const bundles = "/d/state/io.containerd.runtime.v2.task/k8s.io";
  const pathOf = (id: string): string => shimSocketPaths(layout, id)[0] ?? "";

  async function withContainers(...ids: readonly string[]) {
    const files = createFakeFiles();
    for (const id of ids) {
      await files.writeAtomic(`${bundles}/${id}/config.json`, "{}");
      await files.writeAtomic(pathOf(id), "");
    }
    return { files, deps: { files, layout, bootId: "this" } };
  }

  test("have containerd's names", () => {
    const other = buildLayout({
      directory: "/d",
      runDirectory: "/tmp/ctrdx/c/run",
      cniConfDirectory: "/d/net",
    });
    // Seen with containerd 1.6.20.
    expect(shimSocketPaths(other, "c1")[0]).toBe(
      "/run/containerd/s/4aca3e1d042ac6ab40d98fa46b494484cb1c0cbda4f4f3a04d63d6f9057e5105",
    );
  });

  test("are deleted with their container, without affecting others", async () => {
    const { files, deps } = await withContainers("a", "b");
    await files.writeAtomic("/run/containerd/s/another", "");
    await sweepShimSockets(deps);
    await files.remove(`${bundles}/a`);
    await sweepShimSockets(deps);
    expect(await files.list("/run/containerd/s")).toEqual(
      [pathOf("b").slice("/run/containerd/s/".length), "another"].sort(),
    );
  });

  test("are all deleted when the machine stops, also those of recorded containers", async () => {
    const { files, deps } = await withContainers("a", "b");
    await sweepShimSockets(deps);
    await files.remove(`${bundles}/a`);
    await removeShimSockets(deps);
    expect(await files.list("/run/containerd/s")).toEqual([]);
    expect(await files.exists(layout.shims)).toBe(false);
  });

  test("are not deleted if recorded before a reboot of the host", async () => {
    const { files, deps } = await withContainers("a");
    await sweepShimSockets({ ...deps, bootId: "another" });
    await files.remove(`${bundles}/a`);
    await removeShimSockets(deps);
    expect(await files.exists(pathOf("a"))).toBe(true);
  });
});
