// SPDX-License-Identifier: Apache-2.0
// Finding launchers despite hostile files in their place, on real processes and namespaces.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
} from "node:fs";
import { writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { createHypervisor } from "@patchbay/libvirt";
import { createClock, createLaunchers } from "@patchbay/os";
import { createBuiltChildStarter } from "@patchbay/support";
import type { Launchers, Sandbox } from "@patchbay/core/interfaces";
import { describeLaunchersContract } from "@patchbay/os/testing";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { silentLogger } from "./logger.ts";
import { LAUNCHER, makeOwnDirectory, startSessionDaemon } from "./session.ts";

const UID = "0a1b2c3d-0000-4000-8000-000000000001";
const NAMES = { namespace: "default", name: "virt-launcher-vm1-abcde" };
const POD = { uid: UID, ...NAMES };
const hostNetnsInode = inodeOf("/proc/self/ns/net");

let base = "";
let launcherDirectory = "";
let socketPath = "";
/** The container runtime's reply; undefined: no sandbox. */
let sandboxInode: string | undefined;
/** Its owner according to the container runtime. */
let owner: Pick<Sandbox, "pod"> = { pod: NAMES };
let launchers: Launchers;
let listeners: ChildProcess[] = [];

function inodeOf(path: string): string {
  return statSync(path, { bigint: true }).ino.toString();
}

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), "launchers-"));
  chmodSync(base, 0o755);
  launcherDirectory = join(base, "pods", UID, "volumes/kubernetes.io~empty-dir/launcher");
  makeOwnDirectory(launcherDirectory);
  socketPath = join(launcherDirectory, "libvirt/libvirt-sock");
  sandboxInode = "1";
  owner = { pod: NAMES };
  listeners = [];
  launchers = createLaunchers({
    podsDir: join(base, "pods"),
    sandboxes: {
      find: (podUid) => {
        if (sandboxInode === undefined) return Promise.resolve(undefined);
        const netns = { netnsPath: "/nonexistent", netnsInode: sandboxInode };
        return Promise.resolve({ id: "sandbox", podUid, ...netns, ...owner });
      },
    },
    uid: LAUNCHER.uid,
    hostNetnsInode,
  });
});

afterEach(async () => {
  for (const listener of listeners) await end(listener);
  rmSync(base, { recursive: true });
});

async function end(listener: ChildProcess): Promise<void> {
  if (listener.exitCode !== null || listener.signalCode !== null) return;
  const ended = new Promise((resolve) => listener.once("exit", resolve));
  listener.kill("SIGKILL");
  await ended;
}

/** A process of that user that listens on `path`, in its own network namespace or in the host's. */
async function startListener(
  path: string,
  options: { readonly uid?: number; readonly netns?: "host" } = {},
): Promise<ChildProcess> {
  makeOwnDirectory(dirname(path));
  const { uid = LAUNCHER.uid, netns } = options;
  const listen = `require("node:net").createServer(() => {})
    .listen(process.argv[1], () => process.stdout.write("listening"))`;
  const argv = [
    ...(netns === "host" ? [] : ["unshare", "--net"]),
    "setpriv",
    "--reuid",
    String(uid),
    "--regid",
    String(uid),
    "--clear-groups",
    process.execPath,
    "-e",
    listen,
    basename(path),
  ];
  // Through its directory, because the path is too long for a socket address.
  const listener = spawn(argv[0] ?? "", argv.slice(1), {
    cwd: dirname(path),
    stdio: ["ignore", "pipe", "ignore"],
  });
  listeners.push(listener);
  // The socket file exists before the server listens.
  await once(listener.stdout, "data");
  sandboxInode = inodeOf(`/proc/${String(listener.pid)}/ns/net`);
  return listener;
}

interface Arrangement {
  readonly name: string;
  readonly arrange: () => Promise<void> | undefined;
}

describeLaunchersContract("processes in namespaces", () =>
  Promise.resolve({
    launchers,
    pod: POD,
    start: async () => {
      await startListener(socketPath);
      return sandboxInode ?? "";
    },
    kill: async () => {
      for (const listener of listeners) await end(listener);
    },
    close: () => Promise.resolve(), // the state after each test
  }),
);

describe("launchers", () => {
  test("reaches a launcher's libvirt only through its descriptor", async () => {
    const cacheDirectory = makeOwnDirectory(join(base, "cache"));
    const daemon = await startSessionDaemon({ runDirectory: launcherDirectory, cacheDirectory });
    sandboxInode = daemon.netnsInode;
    const hypervisor = createHypervisor({
      starter: createBuiltChildStarter(),
      clock: createClock(),
      logger: silentLogger,
      identity: LAUNCHER,
    });
    try {
      const launcher = await launchers.open(POD);
      expect(launcher.netns.inode).toBe(daemon.netnsInode);
      expect(inodeOf(`/proc/self/fd/${String(launcher.netns.fd)}`)).toBe(daemon.netnsInode);
      const connection = await hypervisor.open({ kind: "socket", fd: launcher.socketFd });
      expect(await connection.findDomain("vm1")).toBeUndefined();
      await daemon.stop();
      await launcher.ended;
      launcher.close();
    } finally {
      await hypervisor.close();
      await daemon.close();
    }
  });

  test.each<Arrangement>([
    { name: "its socket does not exist yet", arrange: () => undefined },
    {
      name: "the pod has no sandbox",
      arrange: async () => {
        await startListener(socketPath);
        sandboxInode = undefined;
      },
    },
  ])("a launcher is unreachable while $name", async ({ arrange }) => {
    await arrange();
    await expect(launchers.open(POD)).rejects.toMatchObject({ code: "LAUNCHER_UNREACHABLE" });
  });

  test("distinguishes a launcher whose socket has no listener from one without a socket", async () => {
    await end(await startListener(socketPath));
    await expect(launchers.open(POD)).rejects.toMatchObject({ code: "LAUNCHER_NOT_LISTENING" });
  });

  test.each<Arrangement>([
    {
      name: "a symbolic link for the directory",
      arrange: async () => {
        await startListener(join(base, "elsewhere/libvirt-sock"));
        symlinkSync(join(base, "elsewhere"), join(launcherDirectory, "libvirt"));
      },
    },
    {
      name: "a symbolic link for the socket",
      arrange: async () => {
        await startListener(join(base, "elsewhere/libvirt-sock"));
        mkdirSync(dirname(socketPath));
        symlinkSync(join(base, "elsewhere/libvirt-sock"), socketPath);
      },
    },
    {
      name: "a file for the directory",
      arrange: async () => {
        await writeFile(join(launcherDirectory, "libvirt"), "");
      },
    },
    {
      name: "a file for the socket",
      arrange: async () => {
        mkdirSync(dirname(socketPath));
        await writeFile(socketPath, "");
      },
    },
    {
      name: "the sandbox of a pod of another namespace",
      arrange: async () => {
        await startListener(socketPath);
        owner = { pod: { ...NAMES, namespace: "tenant" } };
      },
    },
    {
      name: "the sandbox of a pod of another name",
      arrange: async () => {
        await startListener(socketPath);
        owner = { pod: { ...NAMES, name: "virt-launcher-vm1-other" } };
      },
    },
    {
      name: "a process of another user",
      arrange: async () => {
        await startListener(socketPath, { uid: 0 });
      },
    },
    {
      name: "a process in the host's network namespace",
      arrange: async () => {
        await startListener(socketPath, { netns: "host" });
      },
    },
    {
      name: "a process in another network namespace than the pod's",
      arrange: async () => {
        await startListener(socketPath);
        sandboxInode = "1";
      },
    },
  ])("rejects $name", async ({ arrange }) => {
    await arrange();
    await expect(launchers.open(POD)).rejects.toMatchObject({ code: "OS_PATH_REFUSED" });
  });

  test.each(["", "..", "../pods", `${UID}/x`, "a".repeat(64), "x\0y"])(
    "rejects %j as a pod",
    async (uid) => {
      await expect(launchers.open({ ...POD, uid })).rejects.toMatchObject({
        code: "OS_PATH_REFUSED",
      });
    },
  );

  test("launchers that were opened, rejected and closed leave no descriptor and no thread", async () => {
    await startListener(socketPath);
    const inode = sandboxInode;
    const useOnce = async (): Promise<void> => {
      sandboxInode = inode;
      (await launchers.open(POD)).close();
      sandboxInode = "1";
      await expect(launchers.open(POD)).rejects.toMatchObject({ code: "OS_PATH_REFUSED" });
    };
    await useOnce();
    const before = countOpen();
    for (let turn = 0; turn < 200; turn += 1) await useOnce();
    expect(countOpen()).toEqual(before);
  });

  test("reports a new socket", async () => {
    const controller = new AbortController();
    const { promise, resolve } = Promise.withResolvers<undefined>();
    const reportWhenReached = (): void => {
      launchers.open(POD).then(
        (launcher) => {
          launcher.close();
          resolve(undefined);
        },
        () => undefined, // not yet: another change follows
      );
    };
    const listening = startListener(socketPath);
    launchers.watch(POD, reportWhenReached, controller.signal);
    await listening;
    reportWhenReached();
    await promise;
    controller.abort();
    expect(listeners).toHaveLength(1);
  });
});

function countOpen(): Record<string, number> {
  return {
    descriptors: readdirSync("/proc/self/fd").length,
    threads: readdirSync("/proc/self/task").length,
  };
}
