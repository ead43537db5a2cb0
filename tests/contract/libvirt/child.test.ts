// SPDX-License-Identifier: Apache-2.0
// Effects of hung daemons and dying children on other connections, and leaks in a long run.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { chownSync, closeSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { isAppError, type Logger } from "@patchbay/base";
import { createHypervisor } from "@patchbay/libvirt";
import { createClock } from "@patchbay/os";
import type { Hypervisor, HypervisorAddress } from "@patchbay/core/interfaces";
import { createBuiltChildStarter, eventually, openInode } from "@patchbay/support";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { silentLogger } from "./logger.ts";
import { LAUNCHER, makeOwnDirectory, startSessionDaemon, type SessionDaemon } from "./session.ts";

const testDriver = { kind: "uri", uri: "test:///default" } as const;

let daemon: SessionDaemon;
let cacheDirectory = "";
let fd = -1;
let address: HypervisorAddress;
let hypervisor: Hypervisor;
/** The started children, in order. */
let pids: number[] = [];

const logger: Logger = {
  ...silentLogger,
  info: (_message, fields) => {
    if (typeof fields?.["pid"] === "number") pids.push(fields["pid"]);
  },
};

function make(options: Partial<Parameters<typeof createHypervisor>[0]> = {}): void {
  const ports = { starter: createBuiltChildStarter(), clock: createClock(), logger };
  hypervisor = createHypervisor({ ...ports, identity: LAUNCHER, ...options });
}

function failureOf(call: Promise<unknown>): Promise<string> {
  return call.then(
    () => "none",
    (error: unknown) => (isAppError(error) ? error.code : String(error)),
  );
}

beforeAll(async () => {
  cacheDirectory = makeOwnDirectory(mkdtempSync(join(tmpdir(), "session-cache-")));
  daemon = await startSessionDaemon({ cacheDirectory });
  fd = openInode(daemon.socketPath);
  address = { kind: "socket", fd };
});

afterAll(async () => {
  closeSync(fd);
  await daemon.close();
  rmSync(cacheDirectory, { recursive: true });
});

beforeEach(() => {
  pids = [];
});

afterEach(async () => {
  process.kill(daemon.pid, "SIGCONT");
  await hypervisor.close();
});

describe("libvirt in a child", () => {
  test("every thread of the child runs as the launchers' user and cannot change its user", async () => {
    make();
    await hypervisor.open(testDriver);
    const tasks = `/proc/${String(pids[0])}/task`;
    const lines = readdirSync(tasks).flatMap((thread) =>
      readFileSync(`${tasks}/${thread}/status`, "utf8")
        .split("\n")
        .filter((line) => /^(?:Uid|Gid|Groups|Cap|NoNewPrivs)/.test(line)),
    );
    const none = "0000000000000000";
    expect([...new Set(lines)].sort()).toEqual([
      `CapAmb:\t${none}`,
      `CapBnd:\t${none}`,
      `CapEff:\t${none}`,
      `CapInh:\t${none}`,
      `CapPrm:\t${none}`,
      "Gid:\t107\t107\t107\t107",
      "Groups:\t ",
      "NoNewPrivs:\t1",
      "Uid:\t107\t107\t107\t107",
    ]);
  });

  test("a hung daemon stalls only its own connection", async () => {
    make({ callTimeoutMs: 1000 });
    const hanging = await hypervisor.open(address);
    const other = await hypervisor.open(testDriver);
    process.kill(daemon.pid, "SIGSTOP");
    const failure = failureOf(hanging.findDomain("x"));
    expect(await other.findDomain("test")).toBeDefined();
    expect(await failure).toBe("LIBVIRT_TIMED_OUT");
    expect((await hanging.closed).reason).toContain("no answer");
    expect(await other.findDomain("test")).toBeDefined();
    process.kill(daemon.pid, "SIGCONT");
    const again = await hypervisor.open(address);
    expect(await again.findDomain("x")).toBeUndefined();
    expect(pids).toHaveLength(1);
  });

  test("a hung daemon holds no thread of the child", async () => {
    make({ callTimeoutMs: 300, openTimeoutMs: 300, stuckAfterMs: 2000, stuckMax: 0 });
    const other = await hypervisor.open(testDriver);
    const before = await settledUse();
    const hanging = await hypervisor.open(address);
    process.kill(daemon.pid, "SIGSTOP");
    expect(await failureOf(hanging.findDomain("x"))).toBe("LIBVIRT_TIMED_OUT");
    expect(await failureOf(hypervisor.open(address))).toBe("LIBVIRT_TIMED_OUT");
    expect(await eventually(() => sameUse(before), { withinMs: 1500 })).toBe(true);
    expect(await other.findDomain("test")).toBeDefined();
  });

  test("abandons a daemon that cannot be opened in time", async () => {
    make({ openTimeoutMs: 500 });
    process.kill(daemon.pid, "SIGSTOP");
    expect(await failureOf(hypervisor.open(address))).toBe("LIBVIRT_TIMED_OUT");
  });

  test("a daemon that does not accept is unreachable once its queue is full", async () => {
    const path = join(cacheDirectory, "full.sock");
    const listen = `const n = require("node:net");
      n.createServer(() => {}).listen({ path: process.argv[1], backlog: 1 }, () => process.stdout.write("listening"));`;
    const listener = spawn(process.execPath, ["-e", listen, path], {
      stdio: ["ignore", "pipe", "ignore"],
    });
    try {
      await once(listener.stdout, "data");
      process.kill(listener.pid ?? 0, "SIGSTOP");
      chownSync(path, LAUNCHER.uid, LAUNCHER.gid);
      make({ openTimeoutMs: 500 });
      const full = openInode(path);
      const socket = { kind: "socket", fd: full } as const;
      const codes = await Promise.all([1, 2, 3].map(() => failureOf(hypervisor.open(socket))));
      closeSync(full);
      expect(codes).toContain("LIBVIRT_UNREACHABLE");
    } finally {
      listener.kill("SIGKILL");
    }
  });

  test("killing the child fails pending calls, and the next open starts another", async () => {
    make();
    const connection = await hypervisor.open(address);
    process.kill(daemon.pid, "SIGSTOP");
    const failure = failureOf(connection.findDomain("x"));
    process.kill(pids[0] ?? 0, "SIGKILL");
    expect(await failure).toBe("LIBVIRT_CONNECTION_LOST");
    process.kill(daemon.pid, "SIGCONT");
    const again = await hypervisor.open(address);
    expect(await again.findDomain("x")).toBeUndefined();
  });

  test("a closed hypervisor leaves no process", async () => {
    make();
    await hypervisor.open(testDriver);
    await hypervisor.close();
    expect(() => process.kill(pids[0] ?? 0, 0)).toThrow("ESRCH");
  });

  test("concurrent opens and closes of one daemon do not affect each other", async () => {
    make();
    const retained = await hypervisor.open(address);
    const openAndClose = async (): Promise<void> => {
      for (let turn = 0; turn < 40; turn += 1) {
        const connection = await hypervisor.open(address);
        expect(await connection.findDomain("x")).toBeUndefined();
        await connection.close();
      }
    };
    await Promise.all([1, 2, 3, 4, 5, 6].map(openAndClose));
    expect(await retained.findDomain("x")).toBeUndefined();
    expect(pids).toHaveLength(1);
  });

  test("hundreds of connections and calls leave no thread and no descriptor", async () => {
    make();
    const useOnce = async (): Promise<void> => {
      const connection = await hypervisor.open(address);
      for (let call = 0; call < 10; call += 1) await connection.findDomain("x");
      await connection.close();
    };
    const retained = await hypervisor.open(address);
    for (let turn = 0; turn < 10; turn += 1) await useOnce();
    const before = await settledUse();
    for (let turn = 0; turn < 300; turn += 1) await useOnce();
    expect(await eventually(() => sameUse(before), { withinMs: 10_000 })).toBe(true);
    expect(await retained.findDomain("x")).toBeUndefined();
  });
});

interface Use {
  readonly threads: number;
  readonly descriptors: number;
  readonly ourDescriptors: number;
}

function useNow(): Use {
  const child = `/proc/${String(pids[0])}`;
  return {
    threads: readdirSync(`${child}/task`).length,
    descriptors: readdirSync(`${child}/fd`).length,
    ourDescriptors: readdirSync("/proc/self/fd").length,
  };
}

/** Closed connections end a moment after `close`. */
async function settledUse(): Promise<Use> {
  let last = useNow();
  return await eventually(
    () => {
      const now = useNow();
      const isSettled = JSON.stringify(now) === JSON.stringify(last);
      last = now;
      return isSettled ? now : false;
    },
    { withinMs: 10_000 },
  );
}

function sameUse(before: Use): boolean {
  const now = useNow();
  if (now.threads <= before.threads && now.descriptors <= before.descriptors) {
    return now.ourDescriptors <= before.ourDescriptors;
  }
  throw new Error(`${JSON.stringify(now)}, before ${JSON.stringify(before)}`);
}
