// SPDX-License-Identifier: Apache-2.0
// Which code does a runtime get for which error?
import { AppError } from "@patchbay/core";
import { expect, test } from "vitest";
import { pluginFailureOf } from "./failure.ts";

const FAILED = { plugin: "bridge", command: "ADD", message: "no" };

test.each([
  {
    name: "a call that is not valid",
    error: new AppError("CNI_CALL_INVALID", { reason: "x", cniCode: 4 }),
    code: 4,
  },
  {
    name: "a plugin's own code",
    error: new AppError("CNI_PLUGIN_FAILED", { ...FAILED, cniCode: 11 }),
    code: 11,
  },
  {
    name: "a plugin that died",
    error: new AppError("CNI_PLUGIN_FAILED", { ...FAILED, cniCode: 0 }),
    code: 999,
  },
  {
    name: "a configuration",
    error: new AppError("CNI_CONFIG_INVALID", { network: "a", reason: "b" }),
    code: 7,
  },
  { name: "a plugin that hung", error: new AppError("CNI_TIMED_OUT"), code: 11 },
  { name: "a pod that is not known yet", error: new AppError("CNI_POD_UNKNOWN"), code: 11 },
  { name: "an API server that is away", error: new AppError("KUBE_UNREACHABLE"), code: 11 },
  { name: "a container runtime that is away", error: new AppError("CRI_UNAVAILABLE"), code: 11 },
  { name: "a network that is not there", error: new AppError("CNI_NETWORK_NOT_FOUND"), code: 999 },
  { name: "a name that is taken", error: new AppError("CNI_NAME_TAKEN"), code: 999 },
  { name: "a fault of ours", error: new TypeError("oh"), code: 999 },
])("$name is $code", ({ error, code }) => {
  expect(pluginFailureOf(error, "1.0.0")).toEqual({
    cniVersion: "1.0.0",
    code,
    msg: error.message,
  });
});

test("where the version is not known it is left out", () => {
  expect(pluginFailureOf("odd")).toEqual({ code: 999, msg: "odd" });
});
