// SPDX-License-Identifier: Apache-2.0
// A domain's migration between two session daemons of user 107 with real QEMU: the port's contract, and that it never
// runs twice, whatever breaks at the switch-over.
import { randomBytes } from "node:crypto";
import { chownSync, closeSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { planOutgoing } from "@patchbay/core/migration";
import { createHypervisor } from "@patchbay/libvirt";
import { describeMoveContract, type MoveBench } from "@patchbay/libvirt/testing";
import { createClock } from "@patchbay/os";
import type {
  DomainInfo,
  Hypervisor,
  HypervisorConnection,
  Migration,
} from "@patchbay/core/interfaces";
import { createBuiltChildStarter, eventually, openInode } from "@patchbay/support";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { silentLogger } from "./logger.ts";
import {
  heavyDomainXml,
  LAUNCHER,
  makeOwnDirectory,
  startSessionDaemon,
  type SessionDaemon,
} from "./session.ts";

/** The guest's memory content; at 1 MiB/s, libvirt's minimum, it takes a while to send. */
const BALLAST_MIB = 12;
/** Time for both daemons to settle after a migration, milliseconds. */
const SETTLING_MS = 20_000;
const POLL = { timeout: SETTLING_MS } as const;

let shared: Hypervisor;
let cacheDirectory = "";

beforeAll(() => {
  cacheDirectory = makeOwnDirectory(mkdtempSync(join(tmpdir(), "session-cache-")));
  const ports = { starter: createBuiltChildStarter(), clock: createClock(), logger: silentLogger };
  shared = createHypervisor({ ...ports, identity: LAUNCHER });
});

afterAll(async () => {
  await shared.close();
  rmSync(cacheDirectory, { recursive: true });
});

/** The connection between the daemons, which the test can cut. */
class Way {
  readonly path: string;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(path: string, server: Server) {
    this.path = path;
    this.#server = server;
  }

  static async open(path: string, to: string): Promise<Way> {
    const server = createServer();
    const way = new Way(path, server);
    server.on("connection", (socket) => {
      const peer = connect(to);
      for (const [one, other] of [[socket, peer] as const, [peer, socket] as const]) {
        way.#sockets.add(one);
        one.pipe(other);
        one.on("error", () => undefined);
        one.on("close", () => other.destroy());
      }
    });
    await new Promise<void>((resolve) => {
      server.listen(path, resolve);
    });
    chownSync(path, LAUNCHER.uid, LAUNCHER.gid);
    return way;
  }

  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
    this.#server.close();
  }
}

interface RealBench extends MoveBench {
  readonly daemons: { readonly source: SessionDaemon; readonly target: SessionDaemon };
}

async function makeBench(): Promise<RealBench> {
  const directory = makeOwnDirectory(mkdtempSync(join(tmpdir(), "libvirt-move-")));
  const [source, target] = await Promise.all([
    startSessionDaemon({ cacheDirectory, startsAgain: true }),
    startSessionDaemon({ cacheDirectory }),
  ]);
  const ballast = join(directory, "ballast");
  writeFileSync(ballast, randomBytes(BALLAST_MIB * 1024 * 1024));
  const way = await Way.open(join(directory, "peer.sock"), target.socketPath);
  const descriptors = [source, target].map(({ socketPath }) => openInode(socketPath));
  const [sourceFd = -1, targetFd = -1] = descriptors;
  return {
    hypervisor: shared,
    daemons: { source, target },
    source: { kind: "socket", fd: sourceFd },
    target: { kind: "socket", fd: targetFd },
    ways: {
      peerUri: `qemu+unix:///session?socket=${way.path}`,
      memoryUri: `unix://${join(directory, "memory.sock")}`,
    },
    domainXml: (name, tap) => heavyDomainXml(name, ballast, tap),
    hold: () => undefined,
    breakConnection: () => {
      way.cut();
    },
    close: async () => {
      way.cut();
      descriptors.forEach(closeSync);
      await Promise.all([source.close(), target.close()]);
      rmSync(directory, { recursive: true });
    },
  };
}

describeMoveContract("QEMU under two session daemons", makeBench);

/** Polls a domain on both sides until it is told to stop; returns whether it ever ran in both. */
class Watch {
  #isOver = false;
  readonly #seen: { readonly atMs: number; readonly isRunning: boolean }[][] = [[], []];
  readonly #looks: Promise<unknown>;

  constructor(connections: readonly HypervisorConnection[]) {
    this.#looks = Promise.all(connections.map((one, side) => this.#look(one, side)));
  }

  async #look(connection: HypervisorConnection, side: number): Promise<void> {
    while (!this.#isOver) {
      const found = await connection.findDomain("vm1").catch(() => undefined); // its daemon is dead
      this.#seen[side]?.push({ atMs: performance.now(), isRunning: found?.state === "running" });
      // A lost connection returns immediately every time.
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /** Times at which each side was last observed running while the other ran too. */
  async both(): Promise<readonly number[]> {
    this.#isOver = true;
    await this.#looks;
    const [source = [], target = []] = this.#seen;
    const lastOfSource = source.findLast(({ isRunning }) => isRunning)?.atMs ?? -Infinity;
    return target.filter((one) => one.isRunning && one.atMs < lastOfSource).map(({ atMs }) => atMs);
  }
}

describe("a migrating domain never runs twice", () => {
  let bench: RealBench;
  let source: HypervisorConnection;
  let requested: Migration;
  let watch: Watch;
  const reopened: number[] = [];

  beforeEach(async () => {
    bench = await makeBench();
    source = await bench.hypervisor.open(bench.source);
    await source.defineDomain(bench.domainXml("vm1", 1));
    await source.startDomain("vm1");
    const live = await source.readDomainXml("vm1", "moving");
    requested = { ...bench.ways, liveXml: live.replaceAll("tapc1", "tapc2") };
    watch = new Watch([
      await bench.hypervisor.open(bench.source),
      await bench.hypervisor.open(bench.target),
    ]);
  });

  afterEach(async () => {
    await watch.both();
    reopened.splice(0).forEach(closeSync);
    await bench.close();
  });

  /** Migrates with that fault at the switch-over; returns the result. */
  async function moveAnd(strike: () => void): Promise<unknown> {
    const stop = source.onEvent((event) => {
      if (event.kind !== "lifecycle" || event.event !== "suspended") return;
      stop();
      strike();
    });
    return source.migrateDomain("vm1", requested).catch((error: unknown) => error);
  }

  async function stateAt(address: MoveBench["source"]): Promise<DomainInfo | undefined> {
    const connection = await bench.hypervisor.open(address);
    const found = await connection.findDomain("vm1");
    await connection.close();
    return found;
  }

  test("when the connection between the daemons breaks", async () => {
    const failure = await moveAnd(() => {
      bench.breakConnection("vm1");
    });
    const [here, there] = await eventually(
      async () => {
        const states = [await stateAt(bench.source), await stateAt(bench.target)] as const;
        return states[0]?.move === "leaving" ? undefined : states;
      },
      { withinMs: SETTLING_MS },
    );
    expect(await watch.both()).toEqual([]);
    // Lost before or after the guest arrived; the call may have returned in time.
    const isRemaining = failure === undefined;
    expect(here?.state).toBe(isRemaining ? "shutoff" : "running");
    expect(there?.state).not.toBe("running");
  });

  test("when the target's daemon dies", async () => {
    const failure = await moveAnd(() => {
      process.kill(bench.daemons.target.pid, "SIGKILL");
    });
    const here = await eventually(
      async () => {
        const found = await stateAt(bench.source);
        return found?.move === "leaving" ? undefined : found;
      },
      { withinMs: SETTLING_MS },
    );
    expect(await watch.both()).toEqual([]);
    expect(here.state).toBe(failure === undefined ? "shutoff" : "running");
  });

  /** The restarted source daemon. */
  async function reopenSource(): Promise<HypervisorConnection> {
    const { socketPath } = bench.daemons.source;
    const fd = openInode(socketPath);
    reopened.push(fd);
    return bench.hypervisor.open({ kind: "socket", fd });
  }

  test("when the source's daemon dies after completion: paused in both places, resumed where the plan says", async () => {
    const target = await bench.hypervisor.open(bench.target);
    const hold = bench.daemons.target.pid;
    const moved = moveAnd(() => {
      process.kill(hold, "SIGSTOP");
    });
    const { pid, socketPath } = bench.daemons.source;
    // The state that it would have: all data sent, waiting for the target. Source: libvirt qemuMigrationJobPhase.
    const notes = join(dirname(socketPath), "qemu/run/vm1.xml");
    try {
      await expect.poll(() => readFileSync(notes, "utf8"), POLL).toContain("perform3_done");
      process.kill(pid, "SIGKILL");
    } finally {
      process.kill(hold, "SIGCONT");
    }
    const failure = await moved;
    expect(failure).toMatchObject({ name: "AppError" });
    expect(await watch.both()).toEqual([]);
    const again = await eventually(() => reopenSource().catch(() => undefined), {
      withinMs: SETTLING_MS,
    });
    watch = new Watch([again, target]);
    const job = await again.readJob("vm1");
    const domain = await again.findDomain("vm1");
    expect({ job, domain, there: await target.findDomain("vm1") }).toMatchObject({
      job: { state: "none" },
      domain: { state: "paused", move: "leaving" },
      there: { state: "paused" },
    });
    const steps = planOutgoing({
      migration: { migrationUid: "m", startTimestamp: "2026-01-01T00:00:00Z" },
      domain,
      job,
      hasRelay: false,
      isStalled: false,
      isLate: false,
      isAcknowledged: false,
      call: { failure: "its libvirt has ended" },
    });
    expect(steps.map(({ kind }) => kind)).toEqual(["announceMacs", "reportFailed", "resume"]);
    await again.resumeDomain("vm1");
    expect((await again.findDomain("vm1"))?.state).toBe("running");
    expect((await target.findDomain("vm1"))?.state).toBe("paused");
    expect(await watch.both()).toEqual([]);
  });

  test("without a fault, resumed as soon as the source is off", async () => {
    expect(await moveAnd(() => undefined)).toBeUndefined();
    expect(await stateAt(bench.source)).toMatchObject({ state: "shutoff", move: "left" });
    const target = await bench.hypervisor.open(bench.target);
    await target.resumeDomain("vm1");
    expect((await target.findDomain("vm1"))?.state).toBe("running");
    expect(await watch.both()).toEqual([]);
  });
});
