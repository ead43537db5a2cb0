// SPDX-License-Identifier: Apache-2.0
// What is removed of a containerd that has ended, and of containers that a running one has forgotten.
import type { CommandResult } from "@patchbay/core/interfaces";
import { createFakeFiles, createFakeProcessRunner, settle } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { beforeEach, describe, expect, test } from "vitest";
import { buildLayout } from "../layout.ts";
import { removeOrphans, removeContainerdLeftovers } from "./remove-leftovers.ts";
import { sweepShimSocketsOnChange, shimSocketPaths } from "./shim-sockets.ts";

const layout = buildLayout({ directory: "/d", runDirectory: "/run/d", cniConfDirectory: "/net" });
const BUNDLES = "/d/state/io.containerd.runtime.v2.task/k8s.io";
const ID = "a".repeat(64);
const OTHER = "b".repeat(64);

let files = createFakeFiles();
let killed: number[];
let programs: Record<string, Partial<CommandResult>>;
let commands: string[];

beforeEach(() => {
  files = createFakeFiles();
  killed = [];
  commands = [];
  programs = {};
});

async function write(path: string, text = ""): Promise<void> {
  await files.writeAtomic(path, text);
}

async function mountAll(...lines: readonly string[]): Promise<void> {
  await write("/proc/self/mountinfo", lines.map((line) => `${line}\n`).join(""));
}

const mount = (path: string, type: string): string => `22 1 0:1 / ${path} rw - ${type} none rw`;

/** A shim of that container with one process below it, in the order in which the kernel lists them. */
async function startShim(
  pid: number,
  id: string | undefined,
  socket = layout.socket,
): Promise<void> {
  const flags = id === undefined ? [] : ["-id", id];
  const argv = ["/usr/bin/containerd-shim-runc-v2", "-address", socket, ...flags];
  const all = [
    { pid, parent: 1, argv },
    { pid: pid + 1, parent: pid, argv: ["sh"] },
  ];
  for (const one of all) {
    const status = `PPid:\t${String(one.parent)}\nUid:\t0\t0\t0\t0\nNSpid:\t${String(one.pid)}\n`;
    await write(`/proc/${String(one.pid)}/status`, status);
    await write(`/proc/${String(one.pid)}/cmdline`, `${one.argv.join("\0")}\0`);
  }
}

function deps() {
  const run = ({ argv }: { readonly argv: readonly string[] }): Partial<CommandResult> => {
    commands.push(argv.join(" "));
    return programs[argv[0] ?? ""] ?? {};
  };
  const runner = createFakeProcessRunner({ ctr: run, find: run, umount: run, rmdir: run });
  const kill = (pid: number): Promise<void> => Promise.resolve(void killed.push(pid));
  return { files, runner, layout, kill, bootId: "boot", cgroupParent: "/pb" };
}

const removal = (path: string): string => `find ${path} -depth -type d -exec rmdir {} ;`;
const CGROUP = "/sys/fs/cgroup";
const LIST = "ctr --address /run/d/containerd.sock --namespace k8s.io containers ls --quiet";

describe("leftovers of a running containerd", () => {
  test("are not queried without shims and cgroups", async () => {
    await mountAll(mount(CGROUP, "cgroup2"));
    await write(`${CGROUP}/pb/memory.max`);
    expect(await removeOrphans(deps())).toEqual([]);
    expect(commands).toEqual([]);
  });

  test("shims of unknown containers end, children first, with mounts and cgroups", async () => {
    await mountAll(mount(CGROUP, "cgroup2"), mount(`${BUNDLES}/gone/rootfs`, "overlay"));
    await write(`${CGROUP}/pb/gone/x`);
    await startShim(10, "gone");
    await startShim(20, "known");
    await startShim(30, undefined);
    await startShim(40, "gone", "/run/other.sock");
    programs = { ctr: { stdout: "known\n" } };
    expect(await removeOrphans(deps())).toEqual(["gone"]);
    expect(killed).toEqual([11, 10]);
    expect(commands).toEqual([
      LIST,
      `umount --lazy ${BUNDLES}/gone/rootfs`,
      removal(`${CGROUP}/pb/gone`),
    ]);
  });

  test("cgroups of unknown containers are removed in each hierarchy", async () => {
    await mountAll(mount("/cg/pids", "cgroup"), mount("/cg/cpu", "cgroup"), mount("/x", "cgroupx"));
    for (const path of [`/cg/pids/pb/${ID}`, `/cg/cpu/pb/${OTHER}`, "/cg/cpu/pb/short"]) {
      await write(`${path}/tasks`);
    }
    await write(`/cg/cpu/pb/${ID}x/tasks`);
    programs = { ctr: { stdout: `${OTHER}\n` } };
    expect(await removeOrphans(deps())).toEqual([]);
    expect(commands).toEqual([LIST, removal(`/cg/pids/pb/${ID}`)]);
  });

  test("no process is ended if containerd does not respond", async () => {
    await startShim(10, "gone");
    programs = { ctr: { exitCode: 1, stderr: "ctr: away" } };
    await expect(removeOrphans(deps())).rejects.toThrow("away");
    expect(killed).toEqual([]);
  });
});

describe("leftovers of a containerd that has ended", () => {
  test("removes shims, mounts, sockets, state and the run directory, children first", async () => {
    await mountAll(
      mount("/d/state/a", "overlay"),
      mount("/d/state/a/b", "tmpfs"),
      mount("/dx", "x"),
    );
    await startShim(10, "c1");
    await startShim(20, "c2", "/run/other.sock");
    await write(`${BUNDLES}/c1/config.json`);
    const [socket = ""] = shimSocketPaths(layout, "c1");
    for (const path of [socket, "/run/d/x", "/d/root/x"]) await write(path);
    expect(await removeContainerdLeftovers(deps())).toEqual({ processes: 2, mounts: 2 });
    expect(killed).toEqual([11, 10]);
    expect(commands).toEqual(["umount --lazy /d/state/a/b", "umount --lazy /d/state/a"]);
    const left = files.paths.filter((path) => !path.startsWith("/proc/"));
    expect(left).toEqual(["/d/root/x"]);
  });

  test.each([
    { name: "it contains nothing else", other: undefined, want: 1 },
    { name: "it contains sockets of another containerd", other: "/run/containerd/x", want: 0 },
  ])("removes the socket directory where $name", async ({ other, want }) => {
    await write("/run/containerd/s/another");
    if (other !== undefined) await write(other);
    await removeContainerdLeftovers(deps());
    const rmdir = "rmdir --ignore-fail-on-non-empty /run/containerd/s /run/containerd";
    expect(commands.filter((call) => call === rmdir)).toHaveLength(want);
  });
});

describe("sockets of shims", () => {
  test("are removed at once and at each change, also after a failure, until the end", async () => {
    const stop = new AbortController();
    const log = createFakeLogger();
    await write(`${BUNDLES}/c1`);
    const [socket = ""] = shimSocketPaths(layout, "c1");
    await write(socket);
    sweepShimSocketsOnChange({ files, layout, bootId: "boot", log }, stop.signal);
    await settle();
    expect(await files.readText(layout.shims)).toBe('{"bootId":"boot","ids":["c1"]}\n');
    const list = files.list.bind(files);
    files.list = () => Promise.reject(new Error("disk"));
    await write(`${BUNDLES}/c2`);
    await settle();
    expect(log.lines.map(({ fields }) => fields)).toMatchObject([{ reason: "disk" }]);
    files.list = list;
    await files.remove(`${BUNDLES}/c1`);
    await write(`${BUNDLES}/c3`);
    await settle();
    expect(await files.exists(socket)).toBe(false);
    stop.abort();
    await write(`${BUNDLES}/c4`);
    await settle();
    expect(await files.readText(layout.shims)).toBe('{"bootId":"boot","ids":["c2","c3"]}\n');
  });

  test.each([
    "",
    "[]",
    '{"bootId":"boot"}',
    '{"bootId":"x","ids":["c1"]}',
    '{"bootId":"boot","ids":[1]}',
  ])("are unknown after a record %j", async (note) => {
    const [socket = ""] = shimSocketPaths(layout, "c1");
    await write(socket);
    await write(layout.shims, note);
    const stop = new AbortController();
    sweepShimSocketsOnChange(
      { files, layout, bootId: "boot", log: createFakeLogger() },
      stop.signal,
    );
    await settle();
    expect(await files.exists(socket)).toBe(true);
    stop.abort();
  });
});
