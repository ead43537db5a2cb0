// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { AppError } from "@patchbay/base";
import { describeError } from "./step-failure.ts";

const REQUESTED = { verb: "create", resource: "pods", object: "ns/one" };

test("reports each cause of a refusal once", () => {
  const causes = "spec.a: is bad\nspec.b: is worse";
  const error = new AppError("KUBE_REFUSED", { ...REQUESTED, message: "spec.a: is bad", causes });
  expect(describeError(error)).toBe(
    "the API server refused to create pods ns/one: spec.a: is bad; spec.b: is worse",
  );
});

test("joins several refusals", () => {
  const [one, two] = ["no", "nor this"].map(
    (message) => new AppError("KUBE_REFUSED", { ...REQUESTED, message }),
  );
  const said = describeError(new AggregateError([one, two], "some"));
  expect(said).toContain("one: no; ");
  expect(said).toContain("one: nor this");
});
