// SPDX-License-Identifier: Apache-2.0
// A kind that may be missing, or that may not be read: then there are no such objects, and nobody is warned.
import { KUBEVIRTS } from "@patchbay/api";
import type { Clock } from "@patchbay/base";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { expect, test } from "vitest";
import { createKubeClient } from "../client.ts";
import {
  clock,
  eventually,
  failure,
  json,
  lines,
  startScriptedServer,
  type Answer,
} from "../testing/scripted-server.ts";

const NO_KIND = failure(404, "NotFound");
const NO_RIGHT = failure(403, "Forbidden");
const KUBEVIRT = {
  metadata: { namespace: "ns", name: "kubevirt", uid: "u", resourceVersion: "3" },
};
const LONGEST_PAUSE_MS = 300_000;
const LIST = json(200, { metadata: { resourceVersion: "5" }, items: [KUBEVIRT] });

interface Observed {
  readonly reflections: readonly string[];
  /** What was waited between requests, milliseconds. */
  readonly pausesMs: readonly number[];
  readonly warnings: number;
  /** Requests that were answered. */
  readonly requests: number;
}

/** What is told until the answers are used up and `isEnough`. */
async function reflect(
  answers: readonly Answer[],
  { isOptional, isEnough }: { isOptional: boolean; isEnough: (observed: Observed) => boolean },
): Promise<Observed> {
  const remaining = [...answers];
  await using server = await startScriptedServer((response, request) => {
    (remaining.shift() ?? lines())(response, request);
  });
  const logger = createFakeLogger();
  const random = () => 0; // the longest pauses, which are not waited for
  const pausesMs: number[] = [];
  const hasty: Clock = {
    ...clock,
    sleep: (ms, signal) => {
      if (ms > LONGEST_PAUSE_MS) return clock.sleep(ms, signal); // a watch's deadline
      pausesMs.push(ms);
      return clock.sleep(0, signal);
    },
  };
  const client = createKubeClient(server.config, { logger, clock: hasty, random });
  const reflections: string[] = [];
  const subscription = client.reflect(KUBEVIRTS, { isOptional }).subscribe((reflection) => {
    const objects = reflection.kind === "listed" ? reflection.objects : [reflection.object];
    reflections.push([reflection.kind, ...objects.map(({ metadata }) => metadata.name)].join(" "));
  });
  const observe = (): Observed => ({
    reflections,
    pausesMs,
    warnings: logger.lines.filter(({ level }) => level === "warn").length,
    requests: server.requests.length,
  });
  await eventually(() => isEnough(observe()));
  subscription.unsubscribe();
  await client.close();
  return observe();
}

test.each([
  { name: "is not installed", answer: NO_KIND },
  { name: "the client may not list", answer: NO_RIGHT },
])("a kind that $name has no objects until it is served", async ({ answer }) => {
  const answers = [answer, answer, answer, answer, LIST];
  const isEnough = ({ reflections }: Observed): boolean => reflections.length === 2;
  const observed = await reflect(answers, { isOptional: true, isEnough });
  expect(observed.reflections).toEqual(["listed", "listed kubevirt"]);
  expect(observed.warnings).toBe(0);
  // Who starts waits for the third answer; nobody waits for what comes later.
  expect(observed.pausesMs.slice(0, 4)).toEqual([50, 100, 3200, 6400]);
});

test("two rejections may be a mistake of a server that is starting", async () => {
  const isEnough = ({ reflections }: Observed): boolean => reflections.length === 1;
  const observed = await reflect([NO_RIGHT, NO_RIGHT, LIST], { isOptional: true, isEnough });
  expect(observed.reflections).toEqual(["listed kubevirt"]);
});

test("retains known objects when a later request is rejected, and warns", async () => {
  const refusals = Array.from({ length: 4 }, () => NO_RIGHT);
  const isEnough = ({ requests }: Observed): boolean => requests > 5;
  const observed = await reflect([LIST, ...refusals], { isOptional: true, isEnough });
  expect(observed.reflections).toEqual(["listed kubevirt"]);
  expect(observed.warnings).toBe(1);
});

test("waits for a required kind, and warns", async () => {
  const isEnough = ({ reflections }: Observed): boolean => reflections.length === 1;
  const answers = [NO_KIND, NO_KIND, NO_KIND, LIST];
  const observed = await reflect(answers, { isOptional: false, isEnough });
  expect(observed.reflections).toEqual(["listed kubevirt"]);
  expect(observed.warnings).toBe(1);
});

test("does not treat a kind as missing when the server does not respond", async () => {
  const broken = failure(500, "InternalError");
  const isEnough = ({ reflections }: Observed): boolean => reflections.length === 1;
  const answers = [broken, broken, broken, broken, LIST];
  const observed = await reflect(answers, { isOptional: true, isEnough });
  expect(observed.reflections).toEqual(["listed kubevirt"]);
  expect(observed.warnings).toBe(1);
});
