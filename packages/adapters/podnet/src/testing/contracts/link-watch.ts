// SPDX-License-Identifier: Apache-2.0
// Contract of LinkWatch, for the fake and the kernel.

import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { NetnsHandle, LinkChanges, LinkWatch, WatchedLinks } from "@patchbay/core/interfaces";

/** Wait for a change, in milliseconds, long enough for a busy machine. */
const WITHIN = { timeout: 15_000 };

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
