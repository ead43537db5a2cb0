// SPDX-License-Identifier: Apache-2.0
import { PODS } from "@patchbay/api";
import { AppError } from "@patchbay/core";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { describe, expect, test } from "vitest";
import { createKubeClient } from "../client.ts";
import {
  clock,
  failure,
  json,
  key,
  pod,
  startScriptedServer,
  type Answer,
} from "../testing/scripted-server.ts";
import { LostWrites } from "./lost-writes.ts";

describe("writes that lose every race", () => {
  const patch = { type: "json", operations: [{ op: "test", path: "/a", value: 1 }] } as const;
  const refused = failure(422, "Invalid", { message: "the test of /a failed" });

  /** The codes of patches in turn; each says how it is answered. */
  async function codesOf(answers: readonly Answer[]): Promise<readonly unknown[]> {
    const left = [...answers];
    await using server = await startScriptedServer((...asked) => {
      left.shift()?.(...asked);
    });
    const client = createKubeClient(server.config, { logger: createFakeLogger(), clock });
    const codes: unknown[] = [];
    while (left.length > 0) {
      const outcome: unknown = await client.store
        .patch(PODS, key, patch)
        .catch((error: unknown) => error);
      codes.push(outcome instanceof AppError ? outcome.code : "ok");
    }
    await client.close();
    return codes;
  }

  test("are told as a fault from the fifth in a row on", async () => {
    const codes = await codesOf(Array.from({ length: 6 }, () => refused));
    const [lost, told] = ["KUBE_CONFLICT", "KUBE_WRITES_LOST"];
    expect(codes).toEqual([lost, lost, lost, lost, told, told]);
  });

  test("are counted anew after one that was done", async () => {
    const four = Array.from({ length: 4 }, () => refused);
    const codes = await codesOf([...four, json(200, pod), ...four]);
    expect(new Set(codes)).toEqual(new Set(["KUBE_CONFLICT", "ok"]));
  });

  test("are told in the server's words", () => {
    const lost = new LostWrites();
    const details = { resource: "pods", object: "ns/one", message: "the test of /a failed" };
    const race = new AppError("KUBE_CONFLICT", details);
    const errors = Array.from({ length: 5 }, () => lost.judge("/one", race));
    expect(lost.judge("/two", race)).toBe(race);
    expect(errors.at(-1)).toMatchObject({
      message:
        "5 writes of pods ns/one in a row were refused because it had changed: the test of /a failed",
      details: { ...details, count: 5 },
      cause: race,
    });
    const other = new AppError("KUBE_FORBIDDEN", { message: "no" });
    expect(lost.judge("/one", other)).toBe(other);
  });
});
