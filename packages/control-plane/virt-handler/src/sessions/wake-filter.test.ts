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

test("each event and each change wakes at once, while nobody works", () => {
  attention.recordEvent();
  attention.recordLinkChanges(TAP);
  attention.recordLinkChanges("unknown");
  expect(wakes).toBe(3);
});

test("a change that is not worth a look wakes nobody, nor is it remembered", () => {
  attention.wakeOnlyFor((changes) => changes === TAP);
  attention.recordLinkChanges(OTHER);
  expect(wakes).toBe(0);
  attention.recordLinkChanges(TAP);
  expect(wakes).toBe(1);
});

test("what happens during the work wakes once, at its end", async () => {
  await attention.during(() => {
    attention.recordEvent();
    attention.recordLinkChanges(TAP);
    expect(wakes).toBe(0);
    return Promise.resolve();
  });
  expect(wakes).toBe(1);
});

test("what a look has seen wakes nobody", async () => {
  await attention.during(() => {
    attention.recordEvent();
    attention.recordLinkChanges(TAP);
    attention.markObserved();
    return Promise.resolve();
  });
  expect(wakes).toBe(0);
});

test("what is worth a look is judged at the end of the work, by what was seen last", async () => {
  await attention.during(() => {
    attention.markObserved();
    attention.recordLinkChanges(OTHER);
    attention.wakeOnlyFor((changes) => changes === TAP);
    return Promise.resolve();
  });
  expect(wakes).toBe(0);
});

test("two who work at a time are waited for, also when one of them fails", async () => {
  const first = Promise.withResolvers<undefined>();
  const second = Promise.withResolvers<undefined>();
  const works = [first, second].map(({ promise }) => attention.during(() => promise));
  attention.recordEvent();
  first.resolve(undefined);
  await works[0];
  expect(wakes).toBe(0);
  second.reject(new Error("no"));
  await expect(works[1]).rejects.toThrow("no");
  expect(wakes).toBe(1);
});

test("a look at links alone sees no event of libvirt", async () => {
  await attention.during(() => {
    attention.recordEvent();
    attention.recordLinkChanges(TAP);
    attention.markLinksObserved();
    return Promise.resolve();
  });
  expect(wakes).toBe(1);
  await attention.during(() => {
    attention.recordLinkChanges(TAP);
    attention.markLinksObserved();
    return Promise.resolve();
  });
  expect(wakes).toBe(1);
});
