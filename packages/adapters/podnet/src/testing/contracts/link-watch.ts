// SPDX-License-Identifier: Apache-2.0
// Contracts of LinkWatch and FrameWatch, for the fakes and the kernel.

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type {
  FrameFilter,
  FrameWatch,
  LinkChanges,
  LinkWatch,
  NetnsHandle,
  WatchedFrame,
  WatchedFrames,
  WatchedLinks,
} from "@patchbay/core/interfaces";

/** Wait for a change or a frame, in milliseconds, long enough for a busy machine. */
const WITHIN = { timeout: 60_000 };

/** Two namespaces, each with a link `one` of index 11. */
export interface LinkWatchBench {
  readonly links: LinkWatch;
  readonly netns: NetnsHandle;
  readonly other: NetnsHandle;
  add(netns: NetnsHandle, link: { readonly name: string; readonly index: number }): void;
  setMtu(netns: NetnsHandle, name: string, mtu: number): void;
  remove(netns: NetnsHandle, name: string): void;
  close(): Promise<void>;
}

export function describeLinkWatchContract(name: string, make: () => Promise<LinkWatchBench>): void {
  describe(`LinkWatch: ${name}`, () => {
    let bench: LinkWatchBench;
    let stop: AbortController;
    let changes: LinkChanges[];
    beforeEach(async () => {
      bench = await make();
      stop = new AbortController();
      changes = [];
    });
    afterEach(async () => {
      stop.abort();
      await bench.close();
    });

    function watch(netns: NetnsHandle): WatchedLinks {
      return bench.links.watch(netns, (links) => changes.push(links), stop.signal);
    }

    /** Lists reported changes as `INDEX NAME`; the name is empty if it was not reported. */
    function listChangedNames(): readonly string[] {
      return changes
        .flatMap((links) => (links === "unknown" ? [] : links))
        .map(({ index, name: link = "" }) => `${String(index)} ${link}`);
    }

    async function expectChange(link: string): Promise<void> {
      await vi.waitFor(() => {
        expect(listChangedNames()).toContain(link);
      }, WITHIN);
    }

    test("reports nothing while nothing changes", async () => {
      watch(bench.netns);
      watch(bench.other);
      bench.setMtu(bench.other, "one", 1400);
      await expectChange("11 one");
      expect(changes).toHaveLength(1);
    });

    test("reports by index and name that a link is added, changed and deleted", async () => {
      watch(bench.netns);
      bench.add(bench.netns, { name: "two", index: 12 });
      await expectChange("12 two");
      changes = [];
      bench.setMtu(bench.netns, "two", 1400);
      await expectChange("12 two");
      changes = [];
      bench.remove(bench.netns, "two");
      await expectChange("12 two");
    });

    test("does not report changes before an observation", async () => {
      const watched = watch(bench.netns);
      bench.add(bench.netns, { name: "two", index: 12 });
      watched.discardEvents();
      bench.setMtu(bench.netns, "one", 1400);
      await expectChange("11 one");
      expect(listChangedNames()).toEqual(["11 one"]);
    });

    test("continues after an observation, separately for each watcher", async () => {
      const watched = watch(bench.netns);
      const otherChanges: LinkChanges[] = [];
      bench.links.watch(bench.netns, (links) => otherChanges.push(links), stop.signal);
      bench.setMtu(bench.netns, "one", 1400);
      await expectChange("11 one");
      watched.discardEvents();
      changes = [];
      bench.setMtu(bench.netns, "one", 1300);
      await expectChange("11 one");
      expect(otherChanges.length).toBeGreaterThan(0);
    });

    test("reports nothing after its end, nor if it was aborted before its start", async () => {
      const watched = watch(bench.netns);
      stop.abort();
      bench.links.watch(bench.netns, (links) => changes.push(links), stop.signal).discardEvents();
      stop = new AbortController();
      const after: LinkChanges[] = [];
      bench.links.watch(bench.netns, (links) => after.push(links), stop.signal);
      bench.setMtu(bench.netns, "one", 1400);
      await vi.waitFor(() => {
        expect(after).toHaveLength(1);
      }, WITHIN);
      watched.discardEvents();
      expect(changes).toEqual([]);
    });
  });
}

/** A namespace with links `one` and `two`, each with a peer. */
export interface FrameWatchBench {
  readonly frames: FrameWatch;
  readonly netns: NetnsHandle;
  /** Sends frames to the link (from its peer), or through the link. */
  send(link: string, frame: WatchedFrame): Promise<void>;
  remove(link: string): void;
  close(): Promise<void>;
}

/** EtherType for experiments, which no other program sends. Source: IEEE 802 numbers */
const ETHERTYPE = 0x88b5;
const AT_TYPE = { offset: 12, size: 2, value: ETHERTYPE } as const;
const PAYLOAD_AT = 14;
const LONG_FRAME_BYTES = 1000;

function buildFrame(payload: number, bytes = 60): Uint8Array {
  const frame = Buffer.alloc(bytes);
  frame.fill(0xff, 0, 6);
  frame.write("020000005e42", 6, "hex");
  frame.writeUInt16BE(ETHERTYPE, AT_TYPE.offset);
  frame.writeUInt32BE(payload, PAYLOAD_AT);
  return frame;
}

function accept(...payloads: readonly number[]): FrameFilter["incoming"] {
  return payloads.map((value) => [AT_TYPE, { offset: PAYLOAD_AT, size: 4, value } as const]);
}

export function describeFrameWatchContract(
  name: string,
  make: () => Promise<FrameWatchBench>,
): void {
  describe(`FrameWatch: ${name}`, () => {
    let bench: FrameWatchBench;
    let stop: AbortController;
    let seen: WatchedFrame[];
    beforeEach(async () => {
      bench = await make();
      stop = new AbortController();
      seen = [];
    });
    afterEach(async () => {
      stop.abort();
      await bench.close();
    });

    function watch(filter: FrameFilter, link = "one"): WatchedFrames {
      const { netns } = bench;
      const onFrames = (frames: readonly WatchedFrame[]): void => {
        seen.push(...frames);
      };
      return bench.frames.watch({ netns, name: link, filter }, onFrames, stop.signal);
    }

    async function send(payload: number, isOutgoing = false, link = "one"): Promise<void> {
      await bench.send(link, { isOutgoing, frame: buildFrame(payload) });
    }

    /** Lists reported frames as `in PAYLOAD` or `out PAYLOAD`. */
    function listSeen(): readonly string[] {
      return seen.map(({ isOutgoing, frame }) => {
        const payload = Buffer.from(frame).readUInt32BE(PAYLOAD_AT);
        return `${isOutgoing ? "out" : "in"} ${String(payload)}`;
      });
    }

    async function expectSeen(...wanted: readonly string[]): Promise<void> {
      await vi.waitFor(() => {
        expect(listSeen()).toEqual(wanted);
      }, WITHIN);
    }

    test("reports frames of each direction that pass the direction's tests", async () => {
      watch({ incoming: accept(1, 9), outgoing: accept(2, 9) });
      for (const isOutgoing of [false, true]) {
        for (const payload of [1, 2, 3]) await send(payload, isOutgoing);
      }
      await send(9);
      await expectSeen("in 1", "out 2", "in 9");
    });

    test("reports no frame if a direction has no tests", async () => {
      watch({ incoming: [], outgoing: accept(1) });
      await send(1);
      await send(1, true);
      await expectSeen("out 1");
    });

    test("reports frames of its link only", async () => {
      watch({ incoming: accept(1), outgoing: [] });
      await send(1, false, "two");
      await send(1);
      await expectSeen("in 1");
      watch({ incoming: accept(2), outgoing: [] }, "two");
      await send(2);
      await send(2, false, "two");
      await expectSeen("in 1", "in 2");
    });

    test("tests the kernel's facts about a frame, such as a missing VLAN tag", async () => {
      const hasVlanTag = { offset: 0xfffff030, size: 4, value: 1 } as const;
      watch({
        incoming: [[AT_TYPE, hasVlanTag]],
        outgoing: [[AT_TYPE, { ...hasVlanTag, value: 0 }]],
      });
      await send(1);
      await send(2, true);
      await expectSeen("out 2");
    });

    test("truncates long frames, and drops frames that are shorter than a test requires", async () => {
      const atEnd = { offset: LONG_FRAME_BYTES - 4, size: 4, value: 0 } as const;
      watch({ incoming: [[AT_TYPE, atEnd]], outgoing: [] });
      await send(1);
      await bench.send("one", { isOutgoing: false, frame: buildFrame(2, LONG_FRAME_BYTES) });
      await expectSeen("in 2");
      expect(seen[0]?.frame).toEqual(buildFrame(2, 400));
    });

    test("follows a change of the filter", async () => {
      const watched = watch({ incoming: accept(1), outgoing: accept(1) });
      await send(1);
      await expectSeen("in 1");
      watched.setFilter({ incoming: accept(2), outgoing: [] });
      await send(1);
      await send(1, true);
      await send(2);
      await expectSeen("in 1", "in 2");
    });

    test("reports nothing after its end, nor if it was aborted before its start", async () => {
      const watched = watch({ incoming: accept(1), outgoing: [] });
      stop.abort();
      watch({ incoming: accept(1), outgoing: [] }).setFilter({ incoming: [], outgoing: [] });
      watched.setFilter({ incoming: accept(1, 2), outgoing: [] });
      stop = new AbortController();
      watch({ incoming: accept(2), outgoing: [] });
      await send(1);
      await send(2);
      await expectSeen("in 2");
    });

    test("fails for a missing link, and outlives the deletion of its link", async () => {
      const watched = watch({ incoming: accept(1), outgoing: [] });
      bench.remove("one");
      expect(() => watch({ incoming: accept(1), outgoing: [] })).toThrow(/OS_FILE_FAILED|device/);
      watched.setFilter({ incoming: accept(2), outgoing: [] });
      watch({ incoming: accept(3), outgoing: [] }, "two");
      await send(3, false, "two");
      await expectSeen("in 3");
    });
  });
}
