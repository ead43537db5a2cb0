// SPDX-License-Identifier: Apache-2.0
// After a plugin failure the definition's problem is reported instead of the plugin's error.
import { AppError } from "@patchbay/base";
import { beforeEach, expect, test } from "vitest";
import { World } from "../../../testing/world.ts";

const WORDS = { plugin: "macvlan", command: "ADD", message: "Link not found", cniCode: 999 };
const FAILED = new AppError("CNI_PLUGIN_FAILED", WORDS);
const TIMED_OUT = new AppError("CNI_TIMED_OUT", { ...WORDS, timeoutMs: 1 });
const MISSING = new AppError("CNI_LINK_MISSING", {
  network: "ns1/a",
  link: "eth9",
  field: "master",
});

let world: World;

beforeEach(async () => {
  world = new World();
  world.putNads("a");
  await world.putPod({ networks: "a" });
});

test.each([
  {
    name: "if it explains the failure",
    error: FAILED,
    problems: [MISSING],
    reason: "NodeLinkUnfit",
    says: "eth9",
  },
  {
    name: "not if no problem is known",
    error: FAILED,
    problems: [],
    reason: "CniFailed",
    says: "Link not found",
  },
  {
    name: "not for a plugin that timed out",
    error: TIMED_OUT,
    problems: [MISSING],
    reason: "CniFailed",
    says: "did not finish",
  },
])("reports the definition's problem: $name", async ({ error, problems, reason, says }) => {
  world.problems = problems;
  world.cni.failNext("add", error);
  await world.pass();
  expect(await world.errorReasons()).toEqual({ net1: reason });
  expect(world.notes.map(({ message }) => message).join()).toContain(says);
});

test("does not check the definition when the plugin succeeds", async () => {
  world.problems = [MISSING];
  await world.pass();
  expect(await world.errorReasons()).toEqual({});
});
