// SPDX-License-Identifier: Apache-2.0
import { AppError } from "@patchbay/base";
import { describe, expect, test } from "vitest";
import { exitCodeOf, printError } from "./error.ts";

describe("an exit code", () => {
  test.each([
    { name: "of a missing object", error: new AppError("KUBE_NOT_FOUND"), want: 3 },
    { name: "of a conflict", error: new AppError("KUBE_CONFLICT"), want: 4 },
    { name: "of an existing object", error: new AppError("KUBE_ALREADY_EXISTS"), want: 4 },
    { name: "of an unreachable server", error: new AppError("KUBE_UNREACHABLE"), want: 5 },
    {
      name: "of an unavailable aggregated API",
      error: new AppError("KUBE_SERVER_FAILED", { status: 503 }),
      want: 5,
    },
    {
      name: "of a server error",
      error: new AppError("KUBE_SERVER_FAILED", { status: 500 }),
      want: 1,
    },
    { name: "of a rejection", error: new AppError("KUBE_REFUSED"), want: 1 },
    {
      name: "of a request that names a missing object",
      error: new AppError("KUBE_REFUSED", { causeType: "FieldValueNotFound" }),
      want: 3,
    },
    {
      name: "of a request that names a value in use",
      error: new AppError("KUBE_REFUSED", { causeType: "FieldValueDuplicate" }),
      want: 4,
    },
    {
      name: "of an invalid setting",
      error: new AppError("STANDALONE_SETTING_INVALID"),
      want: 2,
    },
    { name: "of an image in use", error: new AppError("IMAGE_IN_USE"), want: 4 },
    { name: "of a missing machine", error: new AppError("STANDALONE_NOT_FOUND"), want: 3 },
    { name: "of any other error", error: new TypeError("x"), want: 1 },
  ])("$name is $want", ({ error, want }) => {
    expect(exitCodeOf(error)).toBe(want);
  });
});

describe("an error for people", () => {
  test("contains the server's message, one cause on each line, and a hint", () => {
    const error = new AppError("KUBE_CONFLICT", {
      status: 409,
      message: "cannot plug",
      causes: "name: is taken\nmacAddress: is taken",
      inspectCommand: "patchbay explain one red -n blue",
    });
    expect(printError(error)).toBe(
      [
        "error: cannot plug",
        "  name: is taken",
        "  macAddress: is taken",
        "hint: show the current state with: patchbay explain one red -n blue; then retry",
        "",
      ].join("\n"),
    );
  });

  test("omits a hint that needs an unknown name", () => {
    expect(printError(new AppError("KUBE_CONFLICT"))).not.toContain("hint");
  });

  test("omits causes that the server's message already contains", () => {
    const error = new AppError("KUBE_REFUSED", {
      status: 422,
      message: 'VirtualMachine "a" is invalid: spec.x: Forbidden: no',
      causes: "spec.x: Forbidden: no\nspec.x: no\nspec.y: Required",
    });
    expect(printError(error).split("\n").slice(1, -1)).toEqual(["  spec.y: Required"]);
  });

  test("prints each cause of the chain once", () => {
    const root = new Error("connect ECONNREFUSED 127.0.0.1:6443");
    const middle = new Error("fetch failed", { cause: root });
    const error = new AppError(
      "KUBE_UNREACHABLE",
      { server: "https://a", message: "fetch failed" },
      { cause: middle },
    );
    expect(printError(error)).toBe(
      [
        "error: the API server https://a cannot be reached: fetch failed",
        "  connect ECONNREFUSED 127.0.0.1:6443",
        "hint: start the machine with: patchbay up; or name another server with --kubeconfig",
        "",
      ].join("\n"),
    );
  });

  test("prints an unexpected error on one line", () => {
    expect(printError(new TypeError("x is not a function"))).toBe("error: x is not a function\n");
  });
});
