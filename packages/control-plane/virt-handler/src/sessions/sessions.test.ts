// SPDX-License-Identifier: Apache-2.0
import { AppError } from "@patchbay/base";
import type {
  Hypervisor,
  HypervisorEvent,
  Launcher,
  LauncherPod,
  Launchers,
} from "@patchbay/core/interfaces";
import { createFakeHypervisor, type FakeHypervisor } from "@patchbay/libvirt/testing";
import { createFakeLinkWatch, type FakeLinkWatch } from "@patchbay/podnet/testing";
import { createFakeLogger, type FakeLogger } from "@patchbay/telemetry/testing";
import { beforeEach, describe, expect, test } from "vitest";
import { createSessions, type Session, type Sessions } from "./sessions.ts";
import { createFakeVhostSockets, type FakeVhostSockets } from "@patchbay/os/testing";

const POD = { uid: "pod-uid", namespace: "ns1", name: "launcher" };

/** A launcher that shows whether its descriptors are open. */
class WatchedLauncher implements Launcher {
  readonly socketFd = 7;
  readonly directoryFd = 9;
  readonly netns = { fd: 8, inode: "42" };
  readonly #end = Promise.withResolvers<undefined>();
  readonly ended: Promise<void> = this.#end.promise;
  closed = 0;

  close(): void {
    this.closed += 1;
  }

  die(): void {
    this.#end.resolve(undefined);
  }
}

/** Launchers that open on request. */
class HeldLaunchers implements Launchers {
  readonly opened: WatchedLauncher[] = [];
  watches = 0;
  /** Completes an opening. */
  release: () => void = () => undefined;
  error: Error | undefined;
  isHeld = false;

  async open(): Promise<Launcher> {
    const gate = Promise.withResolvers<undefined>();
    this.release = () => {
      gate.resolve(undefined);
    };
    if (this.isHeld) await gate.promise;
    if (this.error !== undefined) throw this.error;
    const launcher = new WatchedLauncher();
    this.opened.push(launcher);
    return launcher;
  }

  watch(_pod: LauncherPod, _changed: () => void, signal: AbortSignal): void {
    this.watches += 1;
    signal.addEventListener("abort", () => (this.watches -= 1));
  }
}

/** Work that continues until requested to end. */
function longWork(): { readonly work: (session: Session) => Promise<Session>; end(): void } {
  const gate = Promise.withResolvers<undefined>();
  return {
    work: async (session) => {
      await gate.promise;
      return session;
    },
    end: () => {
      gate.resolve(undefined);
    },
  };
}

/** Runs everything that is due. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await Promise.resolve();
}

let launchers: HeldLaunchers;
let hypervisor: FakeHypervisor;
let sessions: Sessions;
let log: FakeLogger;
let wakes = 0;

let heard: HypervisorEvent[] = [];
let linkWatch: FakeLinkWatch;
let vhostSockets: FakeVhostSockets;

const listener = {
  wake: (): void => {
    wakes += 1;
  },
  onEvent: (event: HypervisorEvent): void => {
    heard.push(event);
  },
};
const same = (session: Session): Promise<Session> => Promise.resolve(session);

/** Sets libvirt's answers by attempt, from 1. Returns the timeout of each attempt, milliseconds. */
function answeringBy(
  open: (
    address: Parameters<Hypervisor["open"]>[0],
    attempt: number,
  ) => ReturnType<Hypervisor["open"]>,
): readonly (number | undefined)[] {
  const given: (number | undefined)[] = [];
  const timed: Hypervisor = {
    open: (address, options) => open(address, given.push(options?.timeoutMs)),
    close: () => Promise.resolve(),
  };
  sessions = createSessions({ launchers, hypervisor: timed, linkWatch, vhostSockets, log });
  return given;
}

beforeEach(() => {
  launchers = new HeldLaunchers();
  hypervisor = createFakeHypervisor();
  hypervisor.daemonAt({ kind: "socket", fd: 7 });
  log = createFakeLogger();
  linkWatch = createFakeLinkWatch();
  vhostSockets = createFakeVhostSockets();
  sessions = createSessions({ launchers, hypervisor, linkWatch, vhostSockets, log });
  wakes = 0;
  heard = [];
});

test("opens a session once and reuses it", async () => {
  const first = await sessions.use(POD, listener, same);
  expect(await sessions.use(POD, listener, same)).toBe(first);
  expect(launchers.opened).toHaveLength(1);
  expect(launchers.watches).toBe(0);
});

test("does not share a pod's session with a VMI whose launcher has another name", async () => {
  const first = await sessions.use(POD, listener, same);
  const foreign = { ...POD, namespace: "ns2" };
  sessions.close(foreign);
  expect(await sessions.use(POD, listener, same)).toBe(first);
  expect(await sessions.use(foreign, listener, same)).not.toBe(first);
});

test("doubles libvirt's timeout after each timeout", async () => {
  const late = new AppError("LIBVIRT_TIMED_OUT", { call: "virConnectOpen", timeoutMs: 1 });
  const given = answeringBy(() => Promise.reject(late));
  for (let turn = 0; turn < 5; turn += 1) {
    await expect(sessions.use(POD, listener, same)).rejects.toBe(late);
  }
  expect(given).toEqual([5000, 10_000, 20_000, 30_000, 30_000]);
});

test("shares one session between concurrent users", async () => {
  const both = await Promise.all([
    sessions.use(POD, listener, same),
    sessions.use(POD, listener, same),
  ]);
  expect(both[0]).toBe(both[1]);
  expect(launchers.opened).toHaveLength(1);
});

describe("descriptors in use", () => {
  const losses = [
    {
      name: "the session is closed",
      lose: () => {
        sessions.close(POD);
      },
    },
    {
      name: "the connection drops",
      lose: () => {
        daemon().dropConnections("gone");
      },
    },
    { name: "the launcher ends", lose: () => launchers.opened[0]?.die() },
  ];

  function daemon(): ReturnType<FakeHypervisor["daemonAt"]> {
    return hypervisor.daemonAt({ kind: "socket", fd: 7 });
  }

  test.each(losses)("stay open when $name, until the last user is done", async ({ lose }) => {
    const one = longWork();
    const two = longWork();
    const used = [sessions.use(POD, listener, one.work), sessions.use(POD, listener, two.work)];
    await settle();
    const [launcher] = launchers.opened;
    lose();
    await settle();
    expect(launcher?.closed).toBe(0);
    one.end();
    await used[0];
    expect(launcher?.closed).toBe(0);
    two.end();
    const session = await used[1];
    expect(launcher?.closed).toBe(1);
    await expect(session?.connection.findDomain("vm")).rejects.toMatchObject({
      code: "LIBVIRT_CONNECTION_LOST",
    });
  });

  test("do not delay the next session of the pod", async () => {
    const one = longWork();
    const used = sessions.use(POD, listener, one.work);
    await settle();
    daemon().dropConnections("gone");
    await settle();
    expect(wakes).toBe(1);
    expect((await sessions.use(POD, listener, same)).launcher).toBe(launchers.opened[1]);
    one.end();
    await used;
    expect(launchers.opened.map(({ closed }) => closed)).toEqual([1, 0]);
  });

  test("are closed when the work fails", async () => {
    const failing = sessions.use(POD, listener, () => {
      sessions.close(POD);
      return Promise.reject(new Error("no"));
    });
    await expect(failing).rejects.toThrow("no");
    expect(launchers.opened[0]?.closed).toBe(1);
  });
});

describe("a session that is closed while it is opened", () => {
  test("is not left open", async () => {
    launchers.isHeld = true;
    const used = sessions.use(POD, listener, same);
    await settle();
    sessions.close(POD);
    expect(launchers.watches).toBe(0);
    launchers.release();
    await used.catch(() => undefined);
    await settle();
    expect(launchers.opened[0]?.closed).toBe(1);
    launchers.isHeld = false;
    await sessions.use(POD, listener, same);
    expect(launchers.opened).toHaveLength(2);
  });
});

describe("a launcher that cannot be opened", () => {
  test("is watched, and opened at the next attempt", async () => {
    launchers.error = new Error("not yet");
    await expect(sessions.use(POD, listener, same)).rejects.toThrow("not yet");
    expect(launchers.watches).toBe(1);
    launchers.error = undefined;
    await sessions.use(POD, listener, same);
    expect(launchers.watches).toBe(0);
  });

  test("leaves no descriptor open when its libvirt does not answer", async () => {
    hypervisor.daemonAt({ kind: "socket", fd: 7 }).stop();
    await expect(sessions.use(POD, listener, same)).rejects.toMatchObject({
      code: "LIBVIRT_UNREACHABLE",
    });
    expect(launchers.opened[0]?.closed).toBe(1);
  });
});

test("resets libvirt's timeout after an answer", async () => {
  const late = new AppError("LIBVIRT_TIMED_OUT", { call: "virConnectOpen", timeoutMs: 1 });
  const given = answeringBy((address, attempt) =>
    attempt === 2 ? hypervisor.open(address) : Promise.reject(late),
  );
  await expect(sessions.use(POD, listener, same)).rejects.toBe(late);
  await sessions.use(POD, listener, same);
  launchers.opened.at(-1)?.die();
  await settle();
  await expect(sessions.use(POD, listener, same)).rejects.toBe(late);
  expect(given).toEqual([5_000, 10_000, 5_000]);
});

test("other errors do not raise libvirt's timeout", async () => {
  const given = answeringBy(() =>
    Promise.reject(new AppError("LIBVIRT_UNREACHABLE", { message: "no" })),
  );
  for (let turn = 0; turn < 2; turn += 1) {
    await expect(sessions.use(POD, listener, same)).rejects.toThrow("no");
  }
  expect(given).toEqual([5_000, 5_000]);
});

test("logs the begin and the end of each session with the reason", async () => {
  await sessions.use(POD, listener, same);
  launchers.opened[0]?.die();
  await settle();
  sessions.close(POD);
  await settle();
  await sessions.use(POD, listener, same);
  sessions.close(POD);
  await settle();
  const uid = POD.uid;
  expect(log.lines.map(({ message, fields }) => ({ message, ...fields }))).toEqual([
    { message: "opened session", uid },
    { message: "closed session", uid, reason: "the process behind the socket ended" },
    { message: "opened session", uid },
    { message: "closed session", uid, reason: "the pod is not needed" },
  ]);
});

test("a domain event wakes the listener", async () => {
  const session = await sessions.use(POD, listener, same);
  await session.connection.defineDomain("<domain><name>vm</name></domain>");
  const before = wakes;
  await session.connection.startDomain("vm");
  expect(wakes).toBeGreaterThan(before);
});

test("delivers libvirt's events at once, also during work", async () => {
  await sessions.use(POD, listener, async ({ connection }) => {
    await connection.defineDomain("<domain><name>vm</name></domain>");
    await settle();
    expect(heard).toMatchObject([{ kind: "lifecycle", domain: "vm", event: "defined" }]);
    expect(wakes).toBe(0);
  });
  expect(wakes).toBe(1);
});

describe("links of the launcher's namespace", () => {
  const tap = { index: 4, name: "tap1" };

  test("wake while no work runs, but not for observed changes", async () => {
    await sessions.use(POD, listener, async (session) => {
      linkWatch.emit("42", tap);
      await settle();
      session.markObserved();
    });
    expect(wakes).toBe(0);
    linkWatch.emit("42", tap);
    await settle();
    expect(wakes).toBe(1);
  });

  test("wake only if they are relevant", async () => {
    await sessions.use(POD, listener, (session) => {
      session.wakeOnlyFor((changes) => changes === "unknown");
      return Promise.resolve();
    });
    linkWatch.emit("42", tap);
    await settle();
    expect(wakes).toBe(0);
    linkWatch.overflow("42");
    await settle();
    expect(wakes).toBe(1);
  });

  test("are watched as long as the session lasts", async () => {
    await sessions.use(POD, listener, same);
    expect(linkWatch.countWatches("42")).toBe(1);
    launchers.opened[0]?.die();
    await settle();
    expect(linkWatch.countWatches("42")).toBe(0);
  });

  test("leave no descriptor open when they cannot be watched", async () => {
    linkWatch.failNext(new Error("no more"));
    await expect(sessions.use(POD, listener, same)).rejects.toThrow("no more");
    expect(launchers.opened[0]?.closed).toBe(1);
    await sessions.use(POD, listener, same);
    expect(linkWatch.countWatches("42")).toBe(1);
  });
});

test("sockets wake while they are the launcher's and its session lasts", async () => {
  const wakesAfter = async (paths: readonly string[], put: string): Promise<number> => {
    await sessions.use(POD, listener, (session) => {
      session.watchSockets(paths);
      return Promise.resolve();
    });
    const before = wakes;
    vhostSockets.put(put);
    await settle();
    return wakes - before;
  };
  expect(await wakesAfter(["/one", "/two"], "/one")).toBe(1);
  expect(await wakesAfter(["/two"], "/one")).toBe(0);
  expect(await wakesAfter(["/two"], "/two")).toBe(1);
  sessions.closeAll();
  await settle();
  const before = wakes;
  vhostSockets.put("/two");
  expect(wakes).toBe(before);
});

test("closeAll closes unused sessions at once", async () => {
  await sessions.use(POD, listener, same);
  sessions.closeAll();
  await settle();
  expect(launchers.opened[0]?.closed).toBe(1);
});
