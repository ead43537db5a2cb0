// SPDX-License-Identifier: Apache-2.0
// Contract of PacketCaptures, for the fake, and for tcpdump in a namespace.
import { PacketLimiter } from "@patchbay/core/guest";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { NetnsHandle, PacketCapture, PacketCaptures } from "@patchbay/core/interfaces";

/** A pod's namespace with the link {@link CAPTURED_LINK}. */
export interface PacketCapturesBench {
  readonly captures: PacketCaptures;
  readonly netns: NetnsHandle;
  /** Sends a packet other than UDP through the link, and resolves afterwards. */
  pass(): Promise<void>;
  /** Kills the captures. */
  kill(): Promise<void>;
  close(): Promise<void>;
}

export const CAPTURED_LINK = "tap1";
const ALL = { link: CAPTURED_LINK, filter: "" };

export function describePacketCapturesContract(
  name: string,
  make: () => Promise<PacketCapturesBench>,
): void {
  describe(`PacketCaptures: ${name}`, () => {
    let bench: PacketCapturesBench;
    let capture: PacketCapture | undefined;
    beforeEach(async () => {
      bench = await make();
      capture = undefined;
    });
    afterEach(async () => {
      await capture?.stop();
      await bench.close();
    });

    /** Returns a callback for captured bytes, and a counter of the complete packets in them. */
    function counting(): { take: (bytes: Uint8Array) => void; count: () => number } {
      const packets = new PacketLimiter(1e6);
      let pieces = 0;
      return {
        take: (bytes) => {
          pieces += packets.add(bytes).bytes.length;
        },
        // The first piece is the file header.
        count: () => Math.max(0, pieces - 1),
      };
    }

    test("shows the passing packets until it is stopped", async () => {
      const { take, count } = counting();
      capture = await bench.captures.start(bench.netns, ALL, take);
      await bench.pass();
      await expect.poll(count).toBeGreaterThan(0);
      await capture.stop();
      expect(await capture.ended).toBe("it was stopped");
    });

    test("shows only packets that match its filter", async () => {
      const filtered = counting();
      const all = counting();
      const udp = { ...ALL, filter: "udp" };
      capture = await bench.captures.start(bench.netns, udp, filtered.take);
      const other = await bench.captures.start(bench.netns, ALL, all.take);
      await bench.pass();
      await expect.poll(all.count).toBeGreaterThan(0);
      await other.stop();
      expect(filtered.count()).toBe(0);
    });

    test.each(["tcp port", "-w /tmp/x", "nonsense ("])(
      "rejects the invalid filter %j",
      async (filter) => {
        const start = bench.captures.start(bench.netns, { ...ALL, filter }, () => undefined);
        await expect(start).rejects.toMatchObject({ code: "CAPTURE_FILTER_INVALID" });
      },
    );

    test("reports a missing link", async () => {
      const what = { link: "nobody", filter: "" };
      const start = bench.captures.start(bench.netns, what, () => undefined);
      await expect(start).rejects.toMatchObject({ code: "PODNET_CAPTURE_FAILED" });
    });

    test("reports that it has died", async () => {
      capture = await bench.captures.start(bench.netns, ALL, () => undefined);
      await bench.kill();
      expect(await capture.ended).not.toBe("");
    });
  });
}
