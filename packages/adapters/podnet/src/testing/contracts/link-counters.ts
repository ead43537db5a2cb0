// SPDX-License-Identifier: Apache-2.0
// Contract of LinkCounters.
import type { LinkCounts } from "@patchbay/core/metrics";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { NetnsHandle, LinkCounters } from "@patchbay/core/interfaces";

/** A reader, and two namespaces with one link each, called `one`. */
export interface LinkCountersScene {
  readonly counters: LinkCounters;
  readonly netns: NetnsHandle;
  readonly other: NetnsHandle;
  /** Handle of a namespace whose descriptor is closed. */
  readonly closed: NetnsHandle;
  /** Sends packets through `one`; `bytes` is their total. */
  send(netns: NetnsHandle, packets: number, bytes: number): Promise<void> | void;
  close(): Promise<void>;
}

function findOne(links: readonly LinkCounts[]): LinkCounts | undefined {
  return links.find(({ name }) => name === "one");
}

export function describeLinkCountersContract(
  kind: string,
  make: () => Promise<LinkCountersScene>,
): void {
  describe(`link counters ${kind}`, () => {
    let scene: LinkCountersScene;

    beforeAll(async () => {
      scene = await make();
    });
    afterAll(() => scene.close());

    test("exist for each link, without invented errors", async () => {
      const one = findOne(await scene.counters.read(scene.netns));
      expect(one?.transmitted).toMatchObject({ errors: 0 });
      expect(one?.received).toMatchObject({ errors: 0 });
    });

    test("count packets since the last reading, in their own namespace only", async () => {
      const sent = async (netns: NetnsHandle): Promise<{ packets: number; bytes: number }> => {
        const { packets = 0, bytes = 0 } =
          findOne(await scene.counters.read(netns))?.transmitted ?? {};
        return { packets, bytes };
      };
      const before = [await sent(scene.netns), await sent(scene.other)] as const;
      await scene.send(scene.netns, 5, 500);
      const after = [await sent(scene.netns), await sent(scene.other)] as const;
      expect(after[0].packets - before[0].packets).toBe(5);
      expect(after[0].bytes - before[0].bytes).toBe(500);
      expect(after[1]).toEqual(before[1]);
    });

    test("are the same for two concurrent readers", async () => {
      const [left, right] = await Promise.all([
        scene.counters.read(scene.other),
        scene.counters.read(scene.other),
      ]);
      expect(left).toEqual(right);
    });

    test("fail for a closed descriptor", async () => {
      await expect(scene.counters.read(scene.closed)).rejects.toMatchObject({
        code: "OS_DESCRIPTOR_STALE",
      });
    });
  });
}
