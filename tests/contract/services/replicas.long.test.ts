// SPDX-License-Identifier: Apache-2.0
// Two virt-controllers and two virt-apis as users run them: the leader and a virt-api end, and no plug is lost.
import { afterAll, beforeAll, expect, test } from "vitest";
import { leaderOf, PARALLEL, plugThroughFailures } from "../../perf/control-plane/failover.ts";
import { withStage, type Stage } from "../../perf/control-plane/stage.ts";

const PLUGS = 50;
/** Time for the whole test on a busy machine, milliseconds. */
const LONG_MS = 180_000;

let stage: Stage;
const over = Promise.withResolvers<undefined>();
let playing: Promise<void>;

beforeAll(async () => {
  const ready = Promise.withResolvers<Stage>();
  playing = withStage(async (opened) => {
    ready.resolve(opened);
    await over.promise;
  });
  playing.catch(ready.reject);
  stage = await ready.promise;
  await stage.end(stage.virtController, "asked");
  await stage.startVirtController({ elects: true });
  await Promise.all([stage.startVirtController({ elects: true }), stage.startVirtApi()]);
  await stage.vms.create(PLUGS);
}, LONG_MS);

afterAll(async () => {
  over.resolve(undefined);
  await playing;
}, LONG_MS);

// A process that ends on SIGTERM answers pending and new requests; a killed one cannot.
test.each([
  { virtApi: "asked", most: 0 },
  { virtApi: "killed", most: PARALLEL },
] as const)(
  "50 plugs complete once each without the leader; a virt-api $virtApi to end fails at most $most",
  async ({ virtApi, most }) => {
    const before = await leaderOf(stage);
    const { refused, wrong, longestGapMs } = await plugThroughFailures(stage, {
      count: PLUGS,
      virtApi,
    });
    process.stdout.write(
      `virt-api ${virtApi}: longest gap ${longestGapMs.toFixed(0)} ms, ${String(refused)} requests sent again\n`,
    );
    expect(wrong).toEqual([]);
    expect(refused).toBeLessThanOrEqual(most);
    expect(await leaderOf(stage)).not.toBe(before);
    await Promise.all([stage.startVirtApi(), stage.startVirtController({ elects: true })]);
    await stage.vms.unplugAll(PLUGS);
  },
  LONG_MS,
);
