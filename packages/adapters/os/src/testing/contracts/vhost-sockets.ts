// SPDX-License-Identifier: Apache-2.0
// Contract of VhostSockets and VhostDirectories, for the fakes and for a machine.
import type { VhostDirectories, VhostSockets } from "@patchbay/core/interfaces";
import { eventually } from "@patchbay/support";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { FakeSocketFile } from "../fakes/vhost-sockets.ts";

/** A node with a launcher of pod `pod-uid` and the socket directory `d`. */
export interface VhostSocketsBench {
  readonly sockets: VhostSockets;
  /** Creates a file, replacing an existing one. A link points to a socket. */
  put(path: string, file: FakeSocketFile): Promise<void>;
  take(path: string): void;
  /** Returns the target of the launcher's link for the NIC. */
  findLink(podUid: string, podInterfaceName: string): string | undefined;
  close(): Promise<void>;
}

const POD = "pod-uid";
const SOCKET = { podInterfaceName: "pod1", path: "/run/patchbay/vhost-user/d/one" };
const DATAPLANE_SOCKET = { kind: "socket", uid: 0 } as const;

/** Defines tests named `VhostSockets: NAME`; each creates its own bench. */
export function describeVhostSocketsContract(
  name: string,
  make: () => Promise<VhostSocketsBench>,
): void {
  describe(`VhostSockets: ${name}`, () => {
    let bench: VhostSocketsBench;
    beforeEach(async () => {
      bench = await make();
    });
    afterEach(async () => {
      await bench.close();
    });

    test("reports a missing socket", () => {
      expect(bench.sockets.observe(POD, SOCKET)).toEqual({ state: "missing" });
      expect(() => {
        bench.sockets.link(POD, SOCKET);
      }).toThrow(expect.objectContaining({ code: "OS_FILE_FAILED" }) as Error);
    });

    test("a socket is ready for the launcher once it is linked; linking may be repeated", async () => {
      await bench.put(SOCKET.path, DATAPLANE_SOCKET);
      const { id } = bench.sockets.observe(POD, SOCKET);
      expect(bench.sockets.observe(POD, SOCKET)).toEqual({ state: "found", id });
      for (let round = 0; round < 2; round += 1) {
        bench.sockets.link(POD, SOCKET);
        expect(bench.sockets.observe(POD, SOCKET)).toEqual({ state: "ready", id });
        expect(bench.findLink(POD, "pod1")).toBe(SOCKET.path);
      }
      expect(bench.sockets.observe(POD, { ...SOCKET, podInterfaceName: "pod2" })).toEqual({
        state: "found",
        id,
      });
    });

    test("a new socket with the same name has another ID and must be linked again", async () => {
      await bench.put(SOCKET.path, DATAPLANE_SOCKET);
      bench.sockets.link(POD, SOCKET);
      const { id } = bench.sockets.observe(POD, SOCKET);
      bench.take(SOCKET.path);
      expect(bench.sockets.observe(POD, SOCKET)).toEqual({ state: "missing" });
      await bench.put(SOCKET.path, DATAPLANE_SOCKET);
      const next = bench.sockets.observe(POD, SOCKET);
      expect(next.state).toBe("found");
      expect(next.id).not.toBe(id);
    });

    test.each([
      { name: "a file", file: { kind: "file", uid: 0 } },
      { name: "a symbolic link", file: { kind: "link", uid: 0 } },
      { name: "a socket that the launcher created", file: { kind: "socket", uid: 107 } },
    ] as const)("rejects $name", async ({ file }) => {
      await bench.put(SOCKET.path, file);
      const observed = bench.sockets.observe(POD, SOCKET);
      expect(observed.state).toBe("refused");
      expect(observed.reason).not.toBe("");
      expect(() => {
        bench.sockets.link(POD, SOCKET);
      }).toThrow();
      expect(bench.findLink(POD, "pod1")).toBeUndefined();
    });

    test("reports that a socket appears and disappears, until aborted", async () => {
      const enough = new AbortController();
      let changes = 0;
      const changed = (): void => void (changes += 1);
      bench.sockets.watch(SOCKET.path, changed, enough.signal);
      await bench.put(SOCKET.path, DATAPLANE_SOCKET);
      await eventually(() => changes > 0, { withinMs: 10_000 });
      const before = changes;
      bench.take(SOCKET.path);
      await eventually(() => changes > before, { withinMs: 10_000 });
      enough.abort();
    });
  });
}

/** A node without socket directories. */
export interface VhostDirectoriesBench {
  readonly directories: VhostDirectories;
  /** Creates a file in the dataplane's directory. */
  put(id: string, name: string): void;
  /** Returns the names in the dataplane's directory; undefined if it does not exist. */
  listFiles(id: string): readonly string[] | undefined;
  close(): void;
}

/** Defines tests named `VhostDirectories: NAME`; each creates its own bench. */
export function describeVhostDirectoriesContract(
  name: string,
  make: () => VhostDirectoriesBench,
): void {
  describe(`VhostDirectories: ${name}`, () => {
    let bench: VhostDirectoriesBench;
    beforeEach(() => {
      bench = make();
    });
    afterEach(() => {
      bench.close();
    });

    test("creates a directory, preserves it on repetition, and removes it with its content", async () => {
      const { directories } = bench;
      expect(await directories.list()).toEqual([]);
      await directories.makeParents();
      expect(await directories.list()).toEqual([]);
      await directories.make("b");
      await directories.make("a");
      bench.put("a", "one.sock");
      await directories.make("a");
      expect(bench.listFiles("a")).toEqual(["one.sock"]);
      expect(await directories.list()).toEqual(["a", "b"]);
      for (let round = 0; round < 2; round += 1) await directories.remove("a");
      expect(bench.listFiles("a")).toBeUndefined();
      expect(await directories.list()).toEqual(["b"]);
      await directories.make("a");
      expect(bench.listFiles("a")).toEqual([]);
    });

    test.each(["", ".", "..", "a/b", "../a", ".hidden", "a".repeat(65)])(
      "rejects the name %j",
      async (id) => {
        const refused = { code: "OS_PATH_REFUSED" };
        await expect(bench.directories.make(id)).rejects.toMatchObject(refused);
        await expect(bench.directories.remove(id)).rejects.toMatchObject(refused);
        expect(await bench.directories.list()).toEqual([]);
      },
    );
  });
}
