// SPDX-License-Identifier: Apache-2.0
import type { LinkChanges } from "@patchbay/core/interfaces";
import { beforeEach, expect, test } from "vitest";
import { WakeFilter } from "./sessions.ts";

let wakes = 0;
let attention: WakeFilter;
const TAP: LinkChanges = [{ index: 4, name: "tap1" }];
const OTHER: LinkChanges = [{ index: 9, name: "eth0" }];

beforeEach(() => {
  wakes = 0;
  attention = new WakeFilter(() => (wakes += 1));
});

test("wakes at once for each event and change while no work runs", () => {
  attention.recordEvent();
  attention.recordLinkChanges(TAP);
  attention.recordLinkChanges("unknown");
  expect(wakes).toBe(3);
});

test("neither wakes for nor remembers an irrelevant change", () => {
  attention.wakeOnlyFor((changes) => changes === TAP);
  attention.recordLinkChanges(OTHER);
  expect(wakes).toBe(0);
  attention.recordLinkChanges(TAP);
  expect(wakes).toBe(1);
});

test("wakes once at the end of the work", async () => {
  await attention.delayWakeUps(() => {
    attention.recordEvent();
    attention.recordLinkChanges(TAP);
    expect(wakes).toBe(0);
    return Promise.resolve();
  });
  expect(wakes).toBe(1);
});

test("does not wake for observed changes", async () => {
  await attention.delayWakeUps(() => {
    attention.recordEvent();
    attention.recordLinkChanges(TAP);
    attention.markObserved();
    return Promise.resolve();
  });
  expect(wakes).toBe(0);
});

test("judges relevance at the end of the work, by the last observation", async () => {
  await attention.delayWakeUps(() => {
    attention.markObserved();
    attention.recordLinkChanges(OTHER);
    attention.wakeOnlyFor((changes) => changes === TAP);
    return Promise.resolve();
  });
  expect(wakes).toBe(0);
});

test("waits for concurrent work, also when one part fails", async () => {
  const first = Promise.withResolvers<undefined>();
  const second = Promise.withResolvers<undefined>();
  const works = [first, second].map(({ promise }) => attention.delayWakeUps(() => promise));
  attention.recordEvent();
  first.resolve(undefined);
  await works[0];
  expect(wakes).toBe(0);
  second.reject(new Error("no"));
  await expect(works[1]).rejects.toThrow("no");
  expect(wakes).toBe(1);
});

test("an observation of links does not cover libvirt events", async () => {
  await attention.delayWakeUps(() => {
    attention.recordEvent();
    attention.recordLinkChanges(TAP);
    attention.markLinksObserved();
    return Promise.resolve();
  });
  expect(wakes).toBe(1);
  await attention.delayWakeUps(() => {
    attention.recordLinkChanges(TAP);
    attention.markLinksObserved();
    return Promise.resolve();
  });
  expect(wakes).toBe(1);
});
