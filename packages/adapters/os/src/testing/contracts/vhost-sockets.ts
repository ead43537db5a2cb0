// SPDX-License-Identifier: Apache-2.0
// What every VhostSockets must do; run on the fake and on a machine.
import type { VhostSockets } from "@patchbay/core/ports";
import { eventually } from "@patchbay/support";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { FakeSocketFile } from "../fakes/vhost-sockets.ts";

/** A node with a launcher of pod `pod-uid` and its directory of sockets `d`, gone after `close`. */
export interface VhostSocketsBench {
  readonly sockets: VhostSockets;
  /** In the place of what was there; a link leads to a socket. */
  put(path: string, file: FakeSocketFile): Promise<void>;
  take(path: string): void;
  /** Where the launcher's name for the socket of that NIC leads. */
  linkOf(podUid: string, podInterfaceName: string): string | undefined;
  close(): Promise<void>;
}

const POD = "pod-uid";
const SOCKET = { podInterfaceName: "pod1", path: "/run/patchbay/vhost-user/d/one" };
const DATAPLANES = { kind: "socket", uid: 0 } as const;

/** Tests of the name `VhostSockets: NAME`; each makes a bench of its own. */
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

    test("what is not there is missing", () => {
      expect(bench.sockets.look(POD, SOCKET)).toEqual({ state: "missing" });
      expect(() => {
        bench.sockets.link(POD, SOCKET);
      }).toThrow(expect.objectContaining({ code: "OS_FILE_FAILED" }) as Error);
    });

    test("a socket is the launcher's to use once it is linked, which may be repeated", async () => {
      await bench.put(SOCKET.path, DATAPLANES);
      const { id } = bench.sockets.look(POD, SOCKET);
      expect(bench.sockets.look(POD, SOCKET)).toEqual({ state: "found", id });
      for (let turn = 0; turn < 2; turn += 1) {
        bench.sockets.link(POD, SOCKET);
        expect(bench.sockets.look(POD, SOCKET)).toEqual({ state: "ready", id });
        expect(bench.linkOf(POD, "pod1")).toBe(SOCKET.path);
      }
      expect(bench.sockets.look(POD, { ...SOCKET, podInterfaceName: "pod2" })).toEqual({
        state: "found",
        id,
      });
    });

    test("the next one of the same name is another, and is to be linked again", async () => {
      await bench.put(SOCKET.path, DATAPLANES);
      bench.sockets.link(POD, SOCKET);
      const { id } = bench.sockets.look(POD, SOCKET);
      bench.take(SOCKET.path);
      expect(bench.sockets.look(POD, SOCKET)).toEqual({ state: "missing" });
      await bench.put(SOCKET.path, DATAPLANES);
      const next = bench.sockets.look(POD, SOCKET);
      expect(next.state).toBe("found");
      expect(next.id).not.toBe(id);
    });

    test.each([
      { name: "a file", file: { kind: "file", uid: 0 } },
      { name: "a symbolic link", file: { kind: "link", uid: 0 } },
      { name: "a socket that the launcher made", file: { kind: "socket", uid: 107 } },
    ] as const)("$name is refused", async ({ file }) => {
      await bench.put(SOCKET.path, file);
      const seen = bench.sockets.look(POD, SOCKET);
      expect(seen.state).toBe("refused");
      expect(seen.reason).not.toBe("");
      expect(() => {
        bench.sockets.link(POD, SOCKET);
      }).toThrow();
      expect(bench.linkOf(POD, "pod1")).toBeUndefined();
    });

    test("it is told when a socket comes and when it goes, until that is enough", async () => {
      const enough = new AbortController();
      let told = 0;
      const changed = (): void => void (told += 1);
      bench.sockets.watch(SOCKET.path, changed, enough.signal);
      await bench.put(SOCKET.path, DATAPLANES);
      await eventually(() => told > 0, { withinMs: 10_000 });
      const before = told;
      bench.take(SOCKET.path);
      await eventually(() => told > before, { withinMs: 10_000 });
      enough.abort();
    });
  });
}
