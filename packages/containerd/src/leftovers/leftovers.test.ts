// SPDX-License-Identifier: Apache-2.0
import { createFakeFiles } from "@patchbay/ports/testing";
import { describe, expect, test } from "vitest";
import { layoutOf } from "../layout.ts";
import { hierarchiesOf } from "./cgroups.ts";
import { mountsBelow } from "./mounts.ts";
import { shimSocketsOf, removeShimSockets, sweepShimSockets } from "./shim-sockets.ts";
import { listProcesses, shimFamilies } from "./shims.ts";

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

describe("sockets of shims", () => {
  const layout = layoutOf({ directory: "/d", runDirectory: "/d/run", cniConfDirectory: "/d/net" });
  const bundles = "/d/state/io.containerd.runtime.v2.task/k8s.io";
  const pathOf = (id: string): string => shimSocketsOf(layout, id)[0] ?? "";

  async function withContainers(...ids: readonly string[]) {
    const files = createFakeFiles();
    for (const id of ids) {
      await files.writeAtomic(`${bundles}/${id}/config.json`, "{}");
      await files.writeAtomic(pathOf(id), "");
    }
    return { files, deps: { files, layout, bootId: "this" } };
  }

  test("have the names that containerd gives them", () => {
    const other = layoutOf({
      directory: "/d",
      runDirectory: "/tmp/ctrdx/c/run",
      cniConfDirectory: "/d/net",
    });
    // Seen with containerd 1.6.20.
    expect(shimSocketsOf(other, "c1")[0]).toBe(
      "/run/containerd/s/4aca3e1d042ac6ab40d98fa46b494484cb1c0cbda4f4f3a04d63d6f9057e5105",
    );
  });

  test("go when their container has gone, and no others do", async () => {
    const { files, deps } = await withContainers("a", "b");
    await files.writeAtomic("/run/containerd/s/another", "");
    await sweepShimSockets(deps);
    await files.remove(`${bundles}/a`);
    await sweepShimSockets(deps);
    expect(await files.list("/run/containerd/s")).toEqual(
      [pathOf("b").slice("/run/containerd/s/".length), "another"].sort(),
    );
  });

  test("go all when the machine goes down, also those of containers that were noted only", async () => {
    const { files, deps } = await withContainers("a", "b");
    await sweepShimSockets(deps);
    await files.remove(`${bundles}/a`);
    await removeShimSockets(deps);
    expect(await files.list("/run/containerd/s")).toEqual([]);
    expect(await files.exists(layout.shims)).toBe(false);
  });

  test("that were noted in another start of the host are nobody's", async () => {
    const { files, deps } = await withContainers("a");
    await sweepShimSockets({ ...deps, bootId: "another" });
    await files.remove(`${bundles}/a`);
    await removeShimSockets(deps);
    expect(await files.exists(pathOf("a"))).toBe(true);
  });
});
