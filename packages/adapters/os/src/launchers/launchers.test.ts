// SPDX-License-Identifier: Apache-2.0
// A launcher whose socket this process serves, and what may be in its place. Tests with processes and namespaces of
// their own are in tests/contract/libvirt/launchers.test.ts.
import { once } from "node:events";
import {
  fstatSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { LauncherPod, Sandbox } from "@patchbay/core/interfaces";
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { errnoOf } from "../files/file-errors.ts";
import { readNetnsInode } from "../namespaces.ts";
import { createLaunchers, type LaunchersOptions } from "./launchers.ts";

const POD: LauncherPod = { uid: "uid-1", namespace: "default", name: "virt-launcher-1" };
const HOST_NETNS = "1";
const OWN_UID = process.getuid?.() ?? 0;
let podsDir = "";

beforeEach(() => {
  podsDir = mkdtempSync(join(tmpdir(), "launchers-"));
});
afterEach(() => {
  rmSync(podsDir, { recursive: true });
});

const volumes = (): string => join(podsDir, POD.uid, "volumes/kubernetes.io~empty-dir");
const socketPath = (): string => join(volumes(), "launcher/libvirt/libvirt-sock");

function sandbox(changes: Partial<Sandbox> = {}): Sandbox {
  return {
    id: "sandbox-1",
    podUid: POD.uid,
    pod: { namespace: POD.namespace, name: POD.name },
    netnsPath: "/run/netns/cni-1",
    netnsInode: readNetnsInode(),
    ...changes,
  };
}

interface Node extends Partial<Omit<LaunchersOptions, "sandboxes">> {
  readonly found?: Sandbox | undefined;
}

function launchers(node: Node = {}) {
  const { found, ...options } = { found: sandbox(), ...node };
  return createLaunchers({
    podsDir,
    sandboxes: { find: () => Promise.resolve(found) },
    uid: OWN_UID,
    hostNetnsInode: HOST_NETNS,
    ...options,
  });
}

function makeVolume(): void {
  mkdirSync(dirname(socketPath()), { recursive: true });
}

async function listen(): Promise<void> {
  makeVolume();
  const server = createServer();
  await once(server.listen(socketPath()), "listening");
  onTestFinished(() => {
    server.close();
  });
}

/** Leaves the socket of a launcher that has ended. */
async function listenAndEnd(): Promise<void> {
  makeVolume();
  const server = createServer();
  const made = `${socketPath()}.made`;
  await once(server.listen(made), "listening");
  linkSync(made, socketPath()); // the server removes only the name that it made
  server.close();
  await once(server, "close");
}

/** Descriptors of this process that lead below the directory of pods. */
function openBelowPods(): readonly string[] {
  return readdirSync("/proc/self/fd").flatMap((fd) => {
    try {
      const target = readlinkSync(`/proc/self/fd/${fd}`);
      return target.startsWith(podsDir) ? [target] : [];
    } catch {
      return [];
    }
  });
}

describe("an open launcher", () => {
  test("has only the descriptors of its socket, volume and namespace", async () => {
    await listen();
    const launcher = await launchers().open(POD);
    const { socketFd, directoryFd, netns } = launcher;
    expect(launcher).not.toHaveProperty("sidecars");
    expect(launcher).not.toHaveProperty("resolver");
    expect(launcher).not.toHaveProperty("isMeshed");
    expect(fstatSync(socketFd).isSocket()).toBe(true);
    expect(fstatSync(directoryFd).isDirectory()).toBe(true);
    expect(netns.inode).toBe(readNetnsInode());
    expect(fstatSync(netns.fd, { bigint: true }).ino.toString()).toBe(netns.inode);
    expect(openBelowPods().toSorted()).toEqual([join(volumes(), "launcher"), socketPath()]);
    launcher.close();
    launcher.close();
    expect(openBelowPods()).toEqual([]);
    expect(() => fstatSync(netns.fd)).toThrow("EBADF");
  });

  test("reports that its pod has a service mesh's proxy", async () => {
    await listen();
    const launcher = await launchers({ found: sandbox({ isMeshed: true }) }).open(POD);
    launcher.close();
    expect(launcher.isMeshed).toBe(true);
  });

  test("has its pod's resolver configuration, up to 64 KiB", async () => {
    await listen();
    for (const { text, want } of [
      { text: "nameserver 10.0.0.1\n", want: "nameserver 10.0.0.1\n" },
      { text: "x".repeat(70_000), want: "x".repeat(65_536) },
    ]) {
      writeFileSync(join(volumes(), "launcher/resolv.conf"), text);
      const launcher = await launchers().open(POD);
      launcher.close();
      expect(launcher.resolver).toBe(want);
    }
  });

  test("has no resolver configuration if its name belongs to a directory", async () => {
    await listen();
    mkdirSync(join(volumes(), "launcher/resolv.conf"));
    const launcher = await launchers().open(POD);
    launcher.close();
    expect(launcher).not.toHaveProperty("resolver");
    expect(openBelowPods()).toEqual([]);
  });

  test("has its hook sidecars ordered by number", async () => {
    await listen();
    for (const name of [
      "hook-sidecar-10",
      "hook-sidecar-2",
      "hook-sidecar-0",
      "hook-sidecar-x",
      "hook-sidecar-",
      "hook-sidecar-1000",
      "hook-sidecar-1x",
      "hook-sidecar-x1",
      "hook-sidecat-1",
      "old-hook-sidecar-3",
    ]) {
      mkdirSync(join(volumes(), name));
    }
    const launcher = await launchers().open(POD);
    launcher.close();
    expect(launcher.sidecars).toEqual(["hook-sidecar-0", "hook-sidecar-2", "hook-sidecar-10"]);
  });
});

interface Refusal {
  readonly name: string;
  readonly arrange?: () => Promise<void> | void;
  readonly node?: () => Node;
  readonly pod?: Partial<LauncherPod>;
  readonly code: string;
  readonly details: object;
  /** The system call's error, where there is one. */
  readonly cause?: string;
}

describe("a launcher is not opened", () => {
  test.each<Refusal>([
    {
      name: "if the UID is a path",
      pod: { uid: "../uid-1" },
      code: "OS_PATH_REFUSED",
      details: { path: "../uid-1", reason: "not the UID of a pod" },
    },
    {
      name: "if the UID is too long",
      pod: { uid: "a".repeat(64) },
      code: "OS_PATH_REFUSED",
      details: { reason: "not the UID of a pod" },
    },
    {
      name: "without a sandbox of the pod",
      arrange: listen,
      node: () => ({ found: undefined }),
      code: "LAUNCHER_UNREACHABLE",
      details: { vmi: "pod uid-1", reason: "the pod has no sandbox" },
    },
    {
      name: "if the pod is in another namespace",
      arrange: listen,
      pod: { namespace: "tenant" },
      code: "OS_PATH_REFUSED",
      details: {
        path: "uid-1",
        reason:
          "it belongs to pod default/virt-launcher-1, not to the launcher tenant/virt-launcher-1",
      },
    },
    {
      name: "if the pod has another name",
      arrange: listen,
      pod: { name: "other" },
      code: "OS_PATH_REFUSED",
      details: {
        reason: "it belongs to pod default/virt-launcher-1, not to the launcher default/other",
      },
    },
    {
      name: "before it has a socket",
      arrange: makeVolume,
      code: "LAUNCHER_UNREACHABLE",
      details: { reason: "it has no libvirt socket yet" },
      cause: "ENOENT",
    },
    {
      name: "if its volume is a symbolic link",
      arrange: async () => {
        await listen();
        mkdirSync(join(podsDir, "uid-2/volumes"), { recursive: true });
        symlinkSync(volumes(), join(podsDir, "uid-2/volumes/kubernetes.io~empty-dir"));
      },
      pod: { uid: "uid-2" },
      code: "OS_PATH_REFUSED",
      details: {
        path: "uid-2/volumes/kubernetes.io~empty-dir/launcher/libvirt/libvirt-sock",
        reason: "openat2: ELOOP",
      },
      cause: "ELOOP",
    },
    {
      name: "if a file replaces a directory",
      arrange: () => {
        mkdirSync(dirname(dirname(socketPath())), { recursive: true });
        writeFileSync(dirname(socketPath()), "");
      },
      code: "OS_PATH_REFUSED",
      details: { reason: "openat2: ENOTDIR" },
      cause: "ENOTDIR",
    },
    {
      name: "if the name is too long for the file system",
      arrange: makeVolume,
      node: () => ({ podsDir: `${podsDir}/${"a".repeat(300)}` }),
      code: "OS_FILE_FAILED",
      details: { call: "openat2", errno: "ENAMETOOLONG" },
      cause: "ENAMETOOLONG",
    },
    {
      name: "if a file replaces its socket",
      arrange: () => {
        makeVolume();
        writeFileSync(socketPath(), "");
      },
      code: "OS_PATH_REFUSED",
      details: { reason: "not a socket" },
    },
    {
      name: "after its process has ended",
      arrange: listenAndEnd,
      code: "LAUNCHER_NOT_LISTENING",
      details: { vmi: "pod uid-1" },
      cause: "ECONNREFUSED",
    },
    {
      name: "if another user listens",
      arrange: listen,
      node: () => ({ uid: OWN_UID + 1 }),
      code: "OS_PATH_REFUSED",
      details: {
        reason: `user ${String(OWN_UID)} listens on its socket, not ${String(OWN_UID + 1)}`,
      },
    },
    {
      name: "if it is in the host's network namespace",
      arrange: listen,
      node: () => ({ hostNetnsInode: readNetnsInode() }),
      code: "OS_PATH_REFUSED",
      details: {
        path: "uid-1",
        reason: "the process behind its socket is in the host's network namespace",
      },
    },
    {
      name: "if it is in another pod's network namespace",
      arrange: listen,
      node: () => ({ found: sandbox({ netnsInode: "2" }) }),
      code: "OS_PATH_REFUSED",
      details: {
        path: "uid-1",
        reason: "the process behind its socket is not in the pod's network namespace",
      },
    },
  ])(
    "$name, and no descriptor stays open",
    async ({ arrange, node, pod, code, details, cause }) => {
      await arrange?.();
      const found = sandbox({ podUid: pod?.uid ?? POD.uid });
      const opened = launchers({ found, ...node?.() }).open({ ...POD, ...pod });
      const error: unknown = await opened.catch((reason: unknown) => reason);
      expect(error).toMatchObject({ code, details });
      expect(errnoOf((error as Error).cause)).toBe(cause);
      expect(openBelowPods()).toEqual([]);
    },
  );
});

describe("a watch of a launcher", () => {
  test("reports a part of its path that appears", async () => {
    const { promise, resolve } = Promise.withResolvers<string>();
    const enough = new AbortController();
    launchers().watch(
      POD,
      () => {
        resolve("changed");
      },
      enough.signal,
    );
    mkdirSync(join(podsDir, POD.uid));
    expect(await promise).toBe("changed");
    enough.abort();
  });

  test("rejects a UID that is a path", () => {
    expect(() => {
      launchers().watch({ ...POD, uid: ".." }, () => undefined, new AbortController().signal);
    }).toThrow("not the UID of a pod");
  });
});
